"""Simulated remote devices: the far side, which outlives every process, and the device with which a process reaches it.

Everything happens in virtual time. The far side counts what it performs, so that a checker can compare.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from asterism.devices.port import Attempt, AttemptResult, DeviceQuestion, DeviceReply, Notices, RemoteDevice, Signs
from asterism.engine.kernel.profile import AgentProfile
from asterism.testing import validation
from asterism.testing.device import Behaviour, Script

T = TypeVar("T")
JobStatus = Literal["running", "asking", "ended", "stopped", "forgotten"]
POLL_S = 1.0
"""Seconds between two looks of a device at its job."""
GOES_ON_S = 20.0
HANDLE_WAIT_S = 5.0
"""Seconds that a device waits for the handle of a request that is under way when its attempt is cancelled."""


class RemoteFaults(msgspec.Struct, frozen=True, kw_only=True):
    """Random faults of a far side. Each is a chance from 0 to 1, drawn for each request or job from the seed and its place.

    Attributes:
        lost_request: a request never arrives.
        lost_reply: a request arrives, and its reply is lost.
        slow: a reply lasts up to 4 s.
        wrong_handle: the device reports a handle by which nothing is found.
        chatter: the device reports progress and a handle of another attempt after its end.
        goes_on: a job that asks goes on without an answer after 20 s.
    """

    seed: int = 0
    lost_request: float = 0.0
    lost_reply: float = 0.0
    slow: float = 0.0
    wrong_handle: float = 0.0
    chatter: float = 0.0
    goes_on: float = 0.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if name != "seed":
                validation.check_chances(f"remote faults: {name}", [getattr(self, name)])


class RemoteJob(msgspec.Struct, kw_only=True):
    """The work of one attempt on a far side.

    Attributes:
        key, handle: by which it is found.
        attempt: the attempt that started it.
        behaviour: as its script gives it; the work takes its duration again after each question.
        questions: number of questions that it still asks.
        replies: replies by ``Attempt.message_key``.
        is_forgotten: True if its other side has forgotten it.
    """

    key: str
    handle: str
    attempt: Attempt
    behaviour: Behaviour
    questions: int
    status: JobStatus = "running"
    replies: dict[str, DeviceReply] = msgspec.field(default_factory=dict)
    is_forgotten: bool = False

    def end(self) -> AttemptResult | None:
        """Return what an attempt ends with now; None while it is under way."""
        if self.status == "asking":
            state = {"handle": self.handle, "replies": len(self.replies)}
            return AttemptResult(question=DeviceQuestion(prompt=f"What about {self.attempt.task_id}?", state=state, may_go_on=True))
        if self.status == "stopped":
            return AttemptResult.failed("cancelled", "it was stopped there")
        if self.status != "ended":
            return None
        error = self.behaviour.error
        return AttemptResult(result=None if error else self.behaviour.result, error=error)


class FarSide:
    """What a remote device reaches: jobs that go on without any process of ours.

    Args:
        script: behaviour for each attempt.
        questions: returns the number of questions that an attempt asks.
        faults: random faults.
        on_start: called with each job that starts.

    Attributes:
        jobs: all jobs, in order of their start; a key that was performed twice appears twice.
        is_up: False while the network is down in both directions.
        deaf: True while requests arrive and no reply returns.
    """

    def __init__(
        self,
        script: Script,
        *,
        questions: Callable[[Attempt], int] = lambda _: 0,
        faults: RemoteFaults = RemoteFaults(),  # noqa: B008 - immutable
        on_start: Callable[[RemoteJob], None] = lambda _: None,
    ) -> None:
        self.jobs: list[RemoteJob] = []
        self.is_up = True
        self.deaf = False
        self._known: dict[str, RemoteJob] = {}
        self._refused: set[str] = set()
        self._script = script
        self._questions = questions
        self._faults = faults
        self._on_start = on_start
        self._random = random.Random(f"far:{faults.seed}")
        self._changed = asyncio.Event()

    def connect(self, *, is_up: bool) -> None:
        """Set the network up or down, in both directions."""
        self.is_up = is_up
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self) -> None:
        """Wait until the network goes up or down."""
        await self._changed.wait()

    def forget(self) -> None:
        """Forget every job, as a server that loses its memory; what it worked on is gone."""
        for job in self._known.values():
            job.is_forgotten = True
            if job.status in ("running", "asking"):
                job.status = "forgotten"
        self._known.clear()
        self._refused.clear()

    def running(self) -> list[RemoteJob]:
        """Return the jobs that have not ended: at work, or waiting for an answer."""
        return [job for job in self.jobs if job.status in ("running", "asking")]

    def drawn(self, chance: float) -> bool:
        """Return True with a chance."""
        return chance > 0 and self._random.random() < chance

    # -- requests ----------------------------------------------------------------------------------

    async def request(self, act: Callable[[], T]) -> T:
        """Carry out a request there, and return its reply. Raises ConnectionError if request or reply is lost."""
        await asyncio.sleep(0.01)
        self._check_network(self._faults.lost_request)
        reply = act()
        if self.drawn(self._faults.slow):
            await asyncio.sleep(4 * self._random.random())
        self._check_network(1.0 if self.deaf else self._faults.lost_reply)
        return reply

    def _check_network(self, lost: float) -> None:
        if not self.is_up or self.drawn(lost):
            raise ConnectionError("no route to host")

    def start(self, attempt: Attempt) -> str:
        """Start a job, even a second one for the same key; return its handle, empty if it was stopped before."""
        if attempt.key in self._refused:
            return ""
        job = RemoteJob(
            key=attempt.key,
            handle=f"job-{len(self.jobs) + 1}",
            attempt=attempt,
            behaviour=self._script(attempt),
            questions=self._questions(attempt),
        )
        self.jobs.append(job)
        self._known[job.key] = self._known[job.handle] = job
        self._on_start(job)
        self._work(job)
        return job.handle

    def find(self, name: str) -> RemoteJob | None:
        """Return the job of a key or handle, or None."""
        return self._known.get(name)

    def reply(self, job: RemoteJob, message_key: str, reply: DeviceReply) -> None:
        """Answer the question of a job; the same message counts once."""
        if message_key in job.replies or job.status != "asking":
            return
        job.replies[message_key] = reply
        job.status = "running"
        self._work(job)

    def stop(self, *names: str) -> None:
        """End the job of a key or handle, and refuse one that starts late under the key."""
        for name in filter(None, names):
            self._refused.add(name)
            if (job := self._known.get(name)) and job.status in ("running", "asking"):
                job.status = "stopped"

    def _work(self, job: RemoteJob) -> None:
        if not job.behaviour.hangs:
            asyncio.get_running_loop().call_later(job.behaviour.duration_s, self._pause_or_end, job)

    def _pause_or_end(self, job: RemoteJob) -> None:
        if job.status == "running":
            job.status = "asking" if job.questions > len(job.replies) else "ended"
            if job.status == "asking" and self.drawn(self._faults.goes_on):
                asyncio.get_running_loop().call_later(GOES_ON_S, self._go_on, job, len(job.replies))

    def _go_on(self, job: RemoteJob, replies: int) -> None:
        if job.status == "asking" and len(job.replies) == replies:
            job.questions -= 1
            job.status = "running"
            self._work(job)


class SimulatedRemoteDevice(RemoteDevice):
    """The device with which one process reaches a far side.

    Args:
        profile: profile of the device.
        far: the far side.
        faults: those of the device itself.
        is_crashed: returns True once the process has crashed; then the device does nothing more.
    """

    def __init__(
        self,
        profile: AgentProfile,
        far: FarSide,
        faults: RemoteFaults = RemoteFaults(),  # noqa: B008 - immutable
        is_crashed: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(profile)
        self._far = far
        self._faults = faults
        self._is_crashed = is_crashed

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        """Start the job of an attempt, or continue it, and wait for its end or its next question."""
        await signs.begun()
        try:
            job = await self._attach(attempt, signs)
            if job is None:
                return AttemptResult.failed("interrupted", "the other side does not know it any more")
            reply = attempt.reply
            if reply is not None:
                await self._request(lambda: self._far.reply(job, attempt.message_key, reply))
            while (end := await self._request(lambda: self._end(job, attempt))) is None:  # noqa: ASYNC110 - as a poll; bounded by the dispatcher
                await asyncio.sleep(POLL_S)
        except ConnectionError as error:
            return AttemptResult.failed("device_lost", f"{self.profile.device_id}: {error}")
        self._chatter(signs)
        return end

    async def has_gone_on(self, attempt: Attempt) -> bool:
        """Return True if the job of an attempt asks no more."""
        try:
            job = await self._request(lambda: self._far.find(attempt.key))
        except ConnectionError:
            return False
        return job is not None and job.status != "asking"

    async def stop(self, attempt: Attempt) -> str:
        """End the job of an attempt."""
        try:
            await self._request(lambda: self._far.stop(attempt.key, attempt.handle))
        except ConnectionError as error:
            return str(error)
        return ""

    async def watch(self, notices: Notices) -> None:
        """Report when the network goes down or up."""
        while not self._is_crashed():  # bounded: one iteration for each change of the network
            if self._far.is_up:
                notices.found()
            else:
                notices.lost("no route to host")
            await self._far.changed()
        await asyncio.get_running_loop().create_future()

    async def _request(self, act: Callable[[], T]) -> T:
        if self._is_crashed():
            await asyncio.get_running_loop().create_future()
        return await self._far.request(act)

    async def _attach(self, attempt: Attempt, signs: Signs) -> RemoteJob | None:
        """Find the job of an attempt, or start it; return None if it is gone."""
        known = attempt.again or attempt.leg > 1 or attempt.handle
        job = await self._request(lambda: self._far.find(attempt.handle) or self._far.find(attempt.key)) if known else None
        if job is None and (attempt.handle or attempt.leg > 1):
            return None
        if job is None:
            handle = await self._start(attempt, signs)
            job = self._far.find(handle)
        if job is not None:
            await signs.attached("nothing" if self._far.drawn(self._faults.wrong_handle) else job.handle)
        return job

    async def _start(self, attempt: Attempt, signs: Signs) -> str:
        """Start the job. A cancel waits for the handle of a request that is under way, and reports it."""
        async with asyncio.TaskGroup() as group:
            starting = group.create_task(self._handle_or_error(attempt))
            try:
                handle = await asyncio.shield(starting)
            except asyncio.CancelledError:
                with contextlib.suppress(TimeoutError, asyncio.CancelledError):
                    async with asyncio.timeout(HANDLE_WAIT_S):
                        await asyncio.wait({starting})
                if starting.done() and isinstance(late := starting.result(), str) and late:
                    _ = signs.attached(late)
                starting.cancel()
                raise
        if isinstance(handle, ConnectionError):
            raise handle
        return handle

    async def _handle_or_error(self, attempt: Attempt) -> str | ConnectionError:
        try:
            return await self._request(lambda: self._far.start(attempt))
        except ConnectionError as error:
            return error

    def _end(self, job: RemoteJob, attempt: Attempt) -> AttemptResult | None:
        if job.status == "forgotten":
            return AttemptResult.failed("interrupted", "the other side does not know it any more")
        is_behind = job.status == "asking" and attempt.reply is not None and attempt.message_key not in job.replies
        return None if is_behind else job.end()

    def _chatter(self, signs: Any) -> None:
        if self._far.drawn(self._faults.chatter):
            loop = asyncio.get_running_loop()
            loop.call_later(1.0, signs.progress, 0.5, "late")


class FarSides(dict[str, FarSide]):
    """The far sides of the remote devices of a world, by device id: those whose profile has ``reattach``.

    Args:
        fleet: profiles of all devices.
        script, questions, faults: as for ``FarSide``; every device draws faults of its own.
        on_start: called with each job that starts.
    """

    def __init__(
        self,
        fleet: Mapping[str, AgentProfile],
        script: Script,
        questions: Callable[[Attempt], int],
        faults: RemoteFaults,
        on_start: Callable[[RemoteJob], None],
    ) -> None:
        self._fleet = fleet
        self._faults = faults
        for number, profile in enumerate(fleet.values()):
            if profile.reattach:
                own = msgspec.structs.replace(faults, seed=1000 * faults.seed + number)
                self[profile.device_id] = FarSide(script, questions=questions, faults=own, on_start=on_start)

    def device(self, device_id: str, is_crashed: Callable[[], bool]) -> SimulatedRemoteDevice:
        """Return the device with which a process reaches a far side."""
        return SimulatedRemoteDevice(self._fleet[device_id], self[device_id], self._faults, is_crashed)

    def inject(self, device_id: str, what: str) -> None:
        """Let something happen to the far side of a device: ``lose``, ``find``, ``mute``, ``unmute`` or ``forget``."""
        far = self[device_id]
        if what == "forget":
            far.forget()
        elif what in ("mute", "unmute"):
            far.deaf = what == "mute"
        else:
            far.connect(is_up=what == "find")

    @property
    def jobs(self) -> list[RemoteJob]:
        """Return the jobs of all far sides."""
        return [job for far in self.values() for job in far.jobs]
