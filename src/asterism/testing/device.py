"""Simulated devices, which follow a script in virtual time, and the log of everything they performed.

``PerformanceLog`` outlives the driver, the dispatcher and the devices. After any number of crashes a checker can
therefore read what was really performed, and what still runs.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import random
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import msgspec

from asterism.devices.model.attempt import ErrorCode, TaskError
from asterism.devices.port import Attempt, AttemptResult, Device, Signs
from asterism.devices.skills.source import error_with_line
from asterism.engine.kernel.machine import run_id_of
from asterism.engine.kernel.profile import AgentProfile
from asterism.errors import InvalidInput
from asterism.testing import validation

PerformanceStatus = Literal["done", "failed", "killed", "broke"]
"""``killed``: cancelled, or its process crashed. ``broke``: the device itself raised an error."""


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """Behaviour of a device for one attempt.

    Attributes:
        duration_s: seconds of work.
        result: JSON value to return.
        error: error to return in place of a result.
        marks: progress reports as (seconds from the start, fraction or None, message), in order; reports after
            ``duration_s`` are dropped.
        hangs: True if the attempt never ends by itself.
        ignores_cancel_s: seconds that the attempt continues after a cancel.
        breaks: text of a RuntimeError to raise, against the contract of the port; empty for none. An attempt that
            hangs raises it when it is cancelled.
    """

    duration_s: float = 1.0
    result: Any = None
    error: TaskError | None = None
    marks: tuple[tuple[float, float | None, str], ...] = ()
    hangs: bool = False
    ignores_cancel_s: float = 0.0
    breaks: str = ""

    def __post_init__(self) -> None:
        validation.check_seconds("behaviour: duration_s", self.duration_s)
        validation.check_seconds("behaviour: ignores_cancel_s", self.ignores_cancel_s)
        if self.error is not None:
            code = validation.check_type("behaviour: error", self.error, TaskError).code
            validation.check_one_of("behaviour: error", code, get_args(ErrorCode))


_UNSERIALIZABLE: tuple[Any, ...] = (
    math.nan,
    {"value": math.inf},
    "half a character: \ud800",
    {"\udfff": 1},
    10**400,
    {1: 2},
    object,
    b"bytes",
)
"""Results that do not survive a round trip through a journal."""

Script = Callable[[Attempt], Behaviour]


def by_skill(behaviours: Mapping[str, Behaviour], otherwise: Behaviour = Behaviour()) -> Script:  # noqa: B008 - frozen
    """Return a script that looks the behaviour up by skill."""
    return lambda attempt: behaviours.get(attempt.skill, otherwise)


def script_for(fleet: Mapping[str, AgentProfile], script: Script | Mapping[str, Behaviour]) -> Script:
    """Return a script for a fleet. Raise InvalidInput for another type, an unknown skill or an invalid behaviour."""
    if callable(script) and not inspect.iscoroutinefunction(script):
        return script
    if not isinstance(script, Mapping):
        hint = "give a Behaviour for each skill, {'train': Behaviour(…)}, or a function from an attempt to a Behaviour (not async)"
        raise InvalidInput(f"script: {script!r} is not a script; {hint}")
    skills = [skill.name for profile in fleet.values() for skill in profile.skills]
    for skill, behaviour in script.items():
        validation.check_one_of("script", skill, skills)
        validation.check_type(f"script[{skill!r}]", behaviour, Behaviour)
    return by_skill(script)


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """Random faults on top of a script. Each is a chance from 0 to 1; they exclude each other, so the sum is at most 1.

    The draw depends on the seed, the attempt's key and the number of earlier performances of that key, never on the
    order in which attempts arrive.

    Attributes:
        raised, crashed: the attempt ends with this error after half of its time.
        hangs: the attempt never ends.
        slow: the attempt takes ten times as long.
        stubborn: the attempt hangs, and ignores a cancel for 30 s.
        breaks: the device raises an error.
        breaks_on_cancel: the attempt hangs, and the device raises an error when it is cancelled.
        unserializable: the result cannot be stored in a journal.
    """

    seed: int = 0
    raised: float = 0.0
    crashed: float = 0.0
    hangs: float = 0.0
    slow: float = 0.0
    stubborn: float = 0.0
    breaks: float = 0.0
    breaks_on_cancel: float = 0.0
    unserializable: float = 0.0

    def __post_init__(self) -> None:
        validation.check_chances("faults", [getattr(self, name) for name in self.__struct_fields__ if name != "seed"])

    def apply(self, behaviour: Behaviour, key: str, earlier: int) -> Behaviour:
        """Return the behaviour with the fault drawn for this key after ``earlier`` performances, if any."""
        draw = random.Random(f"{self.seed}:{key}:{earlier}").random()
        half = behaviour.duration_s / 2
        outcomes = (
            (self.raised, {"duration_s": half, "error": TaskError(code="raised", message="simulated: the skill raised")}),
            (self.crashed, {"duration_s": half, "error": TaskError(code="crashed", message="simulated: its process died")}),
            (self.hangs, {"hangs": True}),
            (self.slow, {"duration_s": behaviour.duration_s * 10}),
            (self.stubborn, {"hangs": True, "ignores_cancel_s": 30.0}),
            (self.breaks, {"duration_s": half, "breaks": "simulated: the device broke"}),
            (self.breaks_on_cancel, {"hangs": True, "breaks": "simulated: the device broke when it was stopped"}),
            (self.unserializable, {"result": _UNSERIALIZABLE[int(draw * 1e6) % len(_UNSERIALIZABLE)]}),
        )
        for chance, changes in outcomes:
            if draw < chance:
                return msgspec.structs.replace(behaviour, **changes)
            draw -= chance
        return behaviour


class Performance(msgspec.Struct, kw_only=True):
    """One performance of an effect. ``ended_at`` and ``status`` are None while it runs.

    Attributes:
        key, run_id: id of the effect, and of its run.
        task_id: the task; in a loop the step or the supervising call; in a conversation the handler.
        device_id, skill: the device and its skill; in a loop the worker and its tool.
        process: name of the process that performed it.
        slots: performances that the device may run at once; 0 for any number.
        number: index in the log, from 0.
        started_at, ended_at: seconds since the epoch, by the clock of the log.
        status: how the performance ended.
    """

    key: str
    run_id: str
    task_id: str = ""
    device_id: str = ""
    skill: str = ""
    slots: int = 0
    number: int
    started_at: float
    process: str = ""
    ended_at: float | None = None
    status: PerformanceStatus | None = None


class PerformanceLog:
    """All performances by devices, workers and handlers in a world, in order of their start.

    Args:
        clock: seconds since the epoch; must not restart with a new event loop.
        on_start: called with each performance when it starts.

    Attributes:
        crashed_processes: names of crashed processes; their devices start nothing more.
    """

    def __init__(self, clock: Callable[[], float], on_start: Callable[[Performance], None] = lambda _: None) -> None:
        self._clock = clock
        self._on_start = on_start
        self.crashed_processes: set[str] = set()
        self.performances: list[Performance] = []
        self._by_key: dict[str, list[Performance]] = {}
        self._open: dict[int, Performance] = {}

    @property
    def running_keys(self) -> list[str]:
        """Return the keys of running performances, oldest first; a key performed twice at once appears twice."""
        return [entry.key for entry in self._open.values()]

    def of(self, key: str) -> list[Performance]:
        """Return the performances of one key."""
        return list(self._by_key.get(key, ()))

    def running_count(self, process: str, device_id: str) -> int:
        """Return the number of running performances of a device in a process."""
        return sum((one.process, one.device_id) == (process, device_id) for one in self._open.values())

    def begin(self, key: str, process: str = "", *, task_id: str = "", device_id: str = "", skill: str = "", slots: int = 0) -> Performance:
        """Record and return a new performance; the arguments are the fields of ``Performance``."""
        entry = Performance(
            key=key,
            run_id=run_id_of(key),
            task_id=task_id,
            device_id=device_id,
            skill=skill,
            slots=slots,
            number=len(self.performances),
            started_at=self._clock(),
            process=process,
        )
        self.performances.append(entry)
        self._by_key.setdefault(entry.key, []).append(entry)
        self._open[entry.number] = entry
        self._on_start(entry)
        return entry

    def end(self, entry: Performance, status: PerformanceStatus) -> None:
        """Record the end of a performance. The first end counts: an abandoned coroutine ends again when it is collected."""
        if self._open.pop(entry.number, None) is not None:
            entry.ended_at = self._clock()
            entry.status = status

    def crash(self, process: str = "") -> None:
        """Mark a process as crashed, and its running performances as killed."""
        self.crashed_processes.add(process)
        for entry in list(self._open.values()):
            if entry.process == process:
                self.end(entry, "killed")


class FakeDevice(Device):
    """One simulated device.

    Args:
        profile: profile of the device.
        log: log of its performances.
        script: behaviour for each attempt; by default 1 s of work with the result None. An error that the script
            raises fails the attempt.
        faults: random faults on top of the script.
        process: name of the process that the device belongs to.
    """

    def __init__(
        self,
        profile: AgentProfile,
        log: PerformanceLog,
        script: Script | None = None,
        faults: Faults | None = None,
        process: str = "",
    ) -> None:
        super().__init__(profile)
        self._process = process
        self._log = log
        self._script = script or by_skill({})
        self._faults = faults or Faults()

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        """Perform an attempt by the script. Raises RuntimeError if the script breaks the device."""
        await signs.begun()
        if self._process in self._log.crashed_processes:
            await asyncio.get_running_loop().create_future()  # the tasks of a crashed process do nothing more
        behaviour = self._faults.apply(self._scripted(attempt), attempt.key, len(self._log.of(attempt.key)))
        what = {"task_id": attempt.task_id, "device_id": attempt.device_id, "skill": attempt.skill}
        entry = self._log.begin(attempt.key, self._process, **what, slots=self.profile.concurrency)
        status: PerformanceStatus = "killed"
        try:
            await _work(behaviour, signs)
            if behaviour.breaks:
                status = "broke"
                raise RuntimeError(behaviour.breaks)
            status = "failed" if behaviour.error else "done"
            return AttemptResult(result=None if behaviour.error else behaviour.result, error=behaviour.error)
        except asyncio.CancelledError:
            await _ignore_cancel(behaviour.ignores_cancel_s)
            if behaviour.hangs and behaviour.breaks and self._process not in self._log.crashed_processes:
                status = "broke"
                raise RuntimeError(behaviour.breaks) from None
            raise
        finally:
            self._log.end(entry, status)

    def _scripted(self, attempt: Attempt) -> Behaviour:
        try:
            return self._script(attempt)
        except (Exception, SystemExit) as error:  # boundary: a script may call a skill, whose error fails the attempt as on a real device
            return Behaviour(error=TaskError(code="raised", message=error_with_line(error)))


async def _work(behaviour: Behaviour, signs: Signs) -> None:
    loop = asyncio.get_running_loop()
    started_at = loop.time()
    for after_s, fraction, message in behaviour.marks:
        if after_s > behaviour.duration_s:
            break
        await asyncio.sleep(started_at + after_s - loop.time())
        signs.progress(fraction, message)
    if behaviour.hangs:
        await loop.create_future()
    await asyncio.sleep(started_at + behaviour.duration_s - loop.time())


async def _ignore_cancel(duration_s: float) -> None:
    """Sleep for the duration, ignoring every cancellation."""
    loop = asyncio.get_running_loop()
    until = loop.time() + duration_s
    while (left_s := until - loop.time()) > 0:
        try:
            await asyncio.sleep(left_s)
        except asyncio.CancelledError:
            continue
