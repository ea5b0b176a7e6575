"""Devices of a simulated world: they do what a script says, in virtual time, and remember what they did.

The ``Ledger`` is the world's memory. It outlives the driver, the dispatcher and the devices, so that
a checker can ask after any number of crashes what was really performed, and whether anything still is.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import random
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import msgspec

from asterism.constellation.profile import AgentProfile
from asterism.constellation.task import ErrorCode, TaskError
from asterism.devices.source import told
from asterism.errors import InvalidInput
from asterism.kernel.machine import run_id_of
from asterism.runtime.ports.device import Attempt, AttemptProgress, AttemptResult, ProgressSink
from asterism.simulation import given

How = Literal["done", "failed", "killed", "broke"]
"""``killed``: its cancel was honoured, or its world crashed. ``broke``: the device itself raised."""


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """What a device does with one attempt.

    Attributes:
        duration_s: how long it works before it ends.
        result: JSON value it returns.
        error: returned in place of a result.
        marks: progress to report, as (seconds from the start, fraction or None, message), in order;
            what lies past the duration is not reported.
        hangs: never ends by itself.
        ignores_cancel_s: how long it goes on after a cancel before it lets go.
        breaks: raise RuntimeError with this text, against the contract of the port; empty for no; when it is stopped, if it hangs.
    """

    duration_s: float = 1.0
    result: Any = None
    error: TaskError | None = None
    marks: tuple[tuple[float, float | None, str], ...] = ()
    hangs: bool = False
    ignores_cancel_s: float = 0.0
    breaks: str = ""

    def __post_init__(self) -> None:
        given.seconds("a behaviour's duration_s", self.duration_s)
        given.seconds("a behaviour's ignores_cancel_s", self.ignores_cancel_s)
        if self.error is not None:
            code = given.of_kind("a behaviour's error", self.error, TaskError).code
            given.one_of("a behaviour's error", code, get_args(ErrorCode))


_ODD: tuple[Any, ...] = (math.nan, {"value": math.inf}, "half a character: \ud800", {"\udfff": 1}, 10**400, {1: 2}, object, b"bytes")
"""Results that no journal would give back."""

Script = Callable[[Attempt], Behaviour]


def by_skill(behaviours: Mapping[str, Behaviour], otherwise: Behaviour = Behaviour()) -> Script:  # noqa: B008 - frozen
    """A script that goes by the name of the skill."""
    return lambda attempt: behaviours.get(attempt.skill, otherwise)


def script_for(fleet: Mapping[str, AgentProfile], script: Script | Mapping[str, Behaviour]) -> Script:
    """A script for a fleet. Raises InvalidInput for what is none, a skill that no device has, and what is no behaviour."""
    if callable(script) and not inspect.iscoroutinefunction(script):
        return script
    if not isinstance(script, Mapping):
        how = "say a Behaviour for each skill, {'train': Behaviour(…)}, or a plain function of the attempt, which returns one"
        raise InvalidInput(f"script: {script!r} is none; {how}")
    skills = [skill.name for profile in fleet.values() for skill in profile.skills]
    for skill, behaviour in script.items():
        given.one_of("script", skill, skills)
        given.of_kind(f"script[{skill!r}]", behaviour, Behaviour)
    return by_skill(script)


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """Trouble laid over a script. Each chance is between 0 and 1; they exclude each other, so their sum is at most 1.

    What happens depends on the seed, the attempt's key and how often that key was performed before, never
    on the order in which attempts arrive.

    Attributes:
        raised, crashed: the attempt ends with that error, half way.
        hangs: it never ends.
        slow: it takes ten times as long.
        stubborn: it hangs, and ignores its cancel for 30 s.
        breaks: the device raises.
        sore: it hangs, and raises when it is stopped.
        odd: its result is nothing that a journal could hold.
    """

    seed: int = 0
    raised: float = 0.0
    crashed: float = 0.0
    hangs: float = 0.0
    slow: float = 0.0
    stubborn: float = 0.0
    breaks: float = 0.0
    sore: float = 0.0
    odd: float = 0.0

    def __post_init__(self) -> None:
        given.chances("faults", [getattr(self, name) for name in self.__struct_fields__ if name != "seed"])

    def befall(self, behaviour: Behaviour, key: str, earlier: int) -> Behaviour:
        """The behaviour with the fault that the seed holds for the performance number ``earlier`` of this key, if any."""
        draw = random.Random(f"{self.seed}:{key}:{earlier}").random()
        half = behaviour.duration_s / 2
        outcomes = (
            (self.raised, {"duration_s": half, "error": TaskError(code="raised", message="simulated: the skill raised")}),
            (self.crashed, {"duration_s": half, "error": TaskError(code="crashed", message="simulated: its process died")}),
            (self.hangs, {"hangs": True}),
            (self.slow, {"duration_s": behaviour.duration_s * 10}),
            (self.stubborn, {"hangs": True, "ignores_cancel_s": 30.0}),
            (self.breaks, {"duration_s": half, "breaks": "simulated: the device broke"}),
            (self.sore, {"hangs": True, "breaks": "simulated: the device broke when it was stopped"}),
            (self.odd, {"result": _ODD[int(draw * 1e6) % len(_ODD)]}),
        )
        for chance, changes in outcomes:
            if draw < chance:
                return msgspec.structs.replace(behaviour, **changes)
            draw -= chance
        return behaviour


class Performance(msgspec.Struct, kw_only=True):
    """One effect as it was really performed. ``ended_at`` and ``how`` are None while it goes on.

    Attributes:
        key, run_id: of the effect.
        task_id: the task; of a loop the step, or what its supervisor was asked; of a conversation the handler.
        device_id, skill: who performs what: the device and its skill; of a loop the worker and its tool.
        process: who performed it.
        slots: how much its device may perform at once; 0 for any number.
        number: its place in the ledger, from 0.
        started_at, ended_at: by the clock of the ledger.
        how: how it ended.
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
    how: How | None = None


class PerformanceLog:
    """Everything that was performed in a world, in the order in which it began: by devices, workers, handlers.

    Args:
        clock: seconds since the epoch; should not start again with a new loop.
        watch: told of each performance as it begins.

    Attributes:
        dead: processes that crashed; their devices begin nothing any more.
    """

    def __init__(self, clock: Callable[[], float], watch: Callable[[Performance], None] = lambda _: None) -> None:
        self._clock = clock
        self._watch = watch
        self.dead: set[str] = set()
        self.performances: list[Performance] = []
        self._by_key: dict[str, list[Performance]] = {}
        self._open: dict[int, Performance] = {}

    @property
    def performing(self) -> list[str]:
        """Keys of what goes on now, oldest first; a key is there twice if it is performed twice at once."""
        return [entry.key for entry in self._open.values()]

    def of(self, key: str) -> list[Performance]:
        """The performances of one key."""
        return list(self._by_key.get(key, ()))

    def going_on(self, process: str, device_id: str) -> int:
        """How much a device of a process performs now."""
        return sum((one.process, one.device_id) == (process, device_id) for one in self._open.values())

    def begin(self, key: str, process: str = "", *, task_id: str = "", device_id: str = "", skill: str = "", slots: int = 0) -> Performance:
        """Somebody has begun to perform an effect; the rest is as a ``Performance`` has it."""
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
        self._watch(entry)
        return entry

    def end(self, entry: Performance, how: How) -> None:
        """It is over. The first end counts: an abandoned coroutine says its own when it is collected, after the crash did."""
        if self._open.pop(entry.number, None) is not None:
            entry.ended_at = self._clock()
            entry.how = how

    def crash(self, process: str = "") -> None:
        """The process of the devices died, and what they were performing with it."""
        self.dead.add(process)
        for entry in list(self._open.values()):
            if entry.process == process:
                self.end(entry, "killed")


class FakeDevice:
    """A device of the simulated world.

    Args:
        profile: what it says it is.
        ledger: where it writes down what it performs.
        script: what it does with an attempt; 1 s and the result None where it is not given. What it raises is how the attempt ends.
        faults: trouble laid over the script.
        process: the one it lives in.
    """

    def __init__(
        self,
        profile: AgentProfile,
        ledger: PerformanceLog,
        script: Script | None = None,
        faults: Faults | None = None,
        process: str = "",
    ) -> None:
        self.profile = profile
        self._process = process
        self._ledger = ledger
        self._script = script or by_skill({})
        self._faults = faults or Faults()

    async def perform(self, attempt: Attempt, progress: ProgressSink) -> AttemptResult:
        """Carry out the script. Raises RuntimeError where the script breaks the device."""
        if self._process in self._ledger.dead:
            await asyncio.get_running_loop().create_future()  # what is left of a dead process does nothing
        behaviour = self._faults.befall(self._scripted(attempt), attempt.key, len(self._ledger.of(attempt.key)))
        what = {"task_id": attempt.task_id, "device_id": attempt.device_id, "skill": attempt.skill}
        entry = self._ledger.begin(attempt.key, self._process, **what, slots=self.profile.concurrency)
        how: How = "killed"
        try:
            await _work(behaviour, attempt.key, progress)
            if behaviour.breaks:
                how = "broke"
                raise RuntimeError(behaviour.breaks)
            how = "failed" if behaviour.error else "done"
            return AttemptResult(result=None if behaviour.error else behaviour.result, error=behaviour.error)
        except asyncio.CancelledError:
            await _ignore_cancel(behaviour.ignores_cancel_s)
            if behaviour.hangs and behaviour.breaks and self._process not in self._ledger.dead:
                how = "broke"
                raise RuntimeError(behaviour.breaks) from None
            raise
        finally:
            self._ledger.end(entry, how)

    def _scripted(self, attempt: Attempt) -> Behaviour:
        try:
            return self._script(attempt)
        except (Exception, SystemExit) as error:  # boundary: a skill may be called there, and ends its attempt as on a real device
            return Behaviour(error=TaskError(code="raised", message=told(error)))


async def _work(behaviour: Behaviour, key: str, progress: ProgressSink) -> None:
    loop = asyncio.get_running_loop()
    started_at = loop.time()
    for after_s, fraction, message in behaviour.marks:
        if after_s > behaviour.duration_s:
            break
        await asyncio.sleep(started_at + after_s - loop.time())
        progress(AttemptProgress(key=key, fraction=fraction, message=message))
    if behaviour.hangs:
        await loop.create_future()
    await asyncio.sleep(started_at + behaviour.duration_s - loop.time())


async def _ignore_cancel(duration_s: float) -> None:
    """Go on for so long, whoever cancels meanwhile."""
    loop = asyncio.get_running_loop()
    until = loop.time() + duration_s
    while (left_s := until - loop.time()) > 0:
        try:
            await asyncio.sleep(left_s)
        except asyncio.CancelledError:
            continue
