"""The pool of warm workers: one attempt at a time each, grouped by tenant and by the sources they may import.

A worker returns to the pool only if its attempt left nothing behind. Otherwise, and whenever an
attempt is cancelled, its whole process group is killed, and nothing else. An attempt waits while no
worker can be started: it has not begun. The dispatcher limits the concurrency of a device, and the
time of an attempt.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from asterism.devices.attempts.attempt_files import CURRENT, put_all, with_paths
from asterism.devices.attempts.processes import WorkerLedger
from asterism.devices.attempts.worker_protocol import (
    DescribeSkills,
    FunctionJob,
    Job,
    SkillsDescribed,
    Work,
    WorkDone,
    WorkerExited,
    WorkFailed,
)
from asterism.devices.port import Attempt, AttemptResult, Signs
from asterism.devices.workers.handle import NeverStarted, WorkerHandle, exit_text
from asterism.engine.kernel.backoff import Backoff
from asterism.engine.kernel.profile import Skill
from asterism.engine.ports.performer import TENANT
from asterism.errors import InvalidInput, StoreUnavailable

LINGER_S = 1.0
RESULT_BYTES = 1 << 20
IMPORT_TIMEOUT_S = 120.0

_START_TRIES = 3
_START_WITHIN_S = 600.0
_LOOKS = Backoff(0.5, 30.0)
"""Waits between two looks for a worker that cannot be started, or a function that cannot be imported."""
_MOST_IDLE_IN_ALL = 32

_AttemptEnd = WorkDone | WorkFailed | WorkerExited
End = TypeVar("End", bound=SkillsDescribed | WorkDone | WorkFailed | WorkerExited)


class WorkerSettings(msgspec.Struct, frozen=True):
    """Settings that the workers of one group share.

    Attributes:
        folder: base of relative file sources.
        modules: files and modules that they may import; devices with the same ones share workers.
        env: environment variables, by name, over those of this process.
        inherit: variables with secrets of this process that they inherit although it withholds them.
    """

    folder: Path
    modules: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    inherit: tuple[str, ...] = ()


_Group = tuple[WorkerSettings, str | None]
"""The settings of workers, and the tenant that they serve; None for those that have served none yet."""


class WorkerPool:
    """Workers of this process. ``async with`` it, or call :meth:`close`.

    Args:
        ledger: directory where this process lists its workers, for ``reap_orphans``.
        idle: number of idle workers that stay warm, for each tenant and settings.
        limit: number of workers that work at a time, in all groups; further attempts wait.
        result_bytes: size limit of a result, as JSON.
        linger_s: seconds that an idle worker beyond those stays: a busy device frees many workers for a moment.
        start_within_s: seconds after which an attempt fails for which no worker can be started.
        own_secrets: returns the secrets of this process, by their variable: they are masked in what attempts print and return.
        inherited: returns the environment that workers inherit, with the variables that their settings list.
    """

    def __init__(
        self,
        ledger: Path,
        *,
        idle: int = 2,
        limit: int = 64,
        result_bytes: int = RESULT_BYTES,
        linger_s: float = LINGER_S,
        start_within_s: float = _START_WITHIN_S,
        own_secrets: Callable[[], Mapping[str, str]] = dict,
        inherited: Callable[[Collection[str]], Mapping[str, str]] = lambda _: os.environ,
    ) -> None:
        self._ledger = WorkerLedger(ledger)
        self._most_idle = idle
        self._slots = asyncio.Semaphore(limit)
        self._result_bytes = result_bytes
        self._linger_s = linger_s
        self._start_within_s = start_within_s
        self._own_secrets = own_secrets
        self._inherited = inherited
        self._starting = asyncio.Lock()
        self._describing = asyncio.Lock()
        self._freed = asyncio.Event()
        self._idle: dict[_Group, list[tuple[float, WorkerHandle]]] = {}  # with the time since when, longest first
        self._trimming: asyncio.TimerHandle | None = None
        self._workers: set[WorkerHandle] = set()
        self._open = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Kill every worker.

        An attempt that still runs ends as ``crashed``, and cleans up its worker there.
        """
        idle = [worker for workers in self._idle.values() for _, worker in workers]
        self._idle.clear()
        if self._trimming is not None:
            self._trimming.cancel()
        self._open = False
        for worker in self._workers:
            worker.kill_group()
        for worker in idle:
            await self._discard(worker)

    async def describe(self, settings: WorkerSettings, sources: Sequence[str], *, plain: bool = False) -> tuple[Skill | str, ...]:
        """Return for each source its skill, or its error in words.

        User code is imported only in a worker. ``plain`` accepts functions without ``@skill``.
        """
        order = DescribeSkills(tuple(sources), plain)
        try:
            async with self._describing, asyncio.timeout(IMPORT_TIMEOUT_S):  # so that devices with the same settings use the same worker
                end = await self._lend((settings, None), lambda worker: worker.describe(order))
        except TimeoutError:
            return (f"its import took longer than {IMPORT_TIMEOUT_S:g} s",) * len(sources)
        except NeverStarted as error:
            return (f"does not import: {error}",) * len(sources)
        return end.answers if isinstance(end, SkillsDescribed) else (f"does not import: {exit_text(end)}",) * len(sources)

    async def perform(self, settings: WorkerSettings, job: Job, attempt: Attempt, signs: Signs) -> AttemptResult:
        """Carry out one attempt.

        Cancelling it kills its process group before the cancellation passes on.
        """
        try:
            attempt = await with_paths(attempt)
        except InvalidInput as error:
            return AttemptResult.failed("bad_arguments", str(error))
        scratch = str(files.folder) if (files := CURRENT.get()) else ""
        order = Work(job=job, attempt=attempt, limit_bytes=self._result_bytes, scratch=scratch)

        if self._slots.locked():
            signs.queued()
        try:
            end = await self._performed((settings, TENANT.get()), order, signs)
            if isinstance(job, FunctionJob) and job.plain:
                end = await self._waited(end, (settings, TENANT.get()), order, signs)
        except NeverStarted as error:
            return AttemptResult.failed("crashed", f"it was not started: {error}")
        if isinstance(end, WorkDone) and end.files:
            try:
                await put_all(end.files)
            except InvalidInput as error:
                return AttemptResult.failed("bad_result", str(error))
        return _ended(end)

    async def _performed(self, group: _Group, order: Work, signs: Signs) -> _AttemptEnd:
        """Have a worker carry out an attempt; while none can be started, it waits as one that has not begun.

        Raises:
            NeverStarted: none could be started within ``start_within_s``.
        """
        loop, said = asyncio.get_running_loop(), ""
        until = loop.time() + self._start_within_s
        for looks in itertools.count(1):
            wait_s = _LOOKS.wait_s(looks)
            self._freed.clear()
            try:
                return await self._lend(group, lambda worker: worker.perform(order, signs, self._own_secrets()))
            except NeverStarted as error:
                if not self._open or loop.time() + wait_s > until:
                    raise
                if str(error) != said:
                    said = str(error)
                    signs.queued(said)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._freed.wait()
        raise AssertionError("the count does not end")

    async def _waited(self, end: _AttemptEnd, group: _Group, order: Work, signs: Signs) -> _AttemptEnd:
        """Wait while the function of an attempt cannot be imported: its file may have been moved, or be half written.

        No fleet declares such a function, so nothing else notices this before the attempt.
        """
        looks, said = 0, ""
        while isinstance(end, WorkFailed) and end.missing:  # bounded by the timeout of the task and the limit of the run
            if end.message != said:
                said = end.message
                signs.progress(message=f"waits, as its function cannot be imported: {said}")
            looks += 1
            await asyncio.sleep(_LOOKS.wait_s(looks))
            end = await self._performed(group, order, signs)
        return end

    async def _lend(self, group: _Group, use: Callable[[WorkerHandle], Awaitable[End]]) -> End:
        """Use a worker. Raises NeverStarted if none can be started."""
        for _ in range(_START_TRIES - 1):
            with contextlib.suppress(NeverStarted):  # an idle worker may have died unnoticed
                return await self._lend_once(group, use)
        return await self._lend_once(group, use)

    async def _lend_once(self, group: _Group, use: Callable[[WorkerHandle], Awaitable[End]]) -> End:
        async with self._slots:
            worker = await self._take(group)
            try:
                end = await use(worker)
            finally:
                await self._put_back(group, worker)
            self._freed.set()
            return end

    async def _take(self, group: _Group) -> WorkerHandle:
        async with self._starting:  # one after the other, since a start needs more descriptors than a worker
            while True:
                if not self._open:
                    raise NeverStarted("the pool of workers is closed")
                if idle := self._idle.get(group) or self._idle.get((group[0], None)):
                    return idle.pop()[1]
                try:
                    return await self._spawn(group[0])
                except NeverStarted:
                    if not self._end_longest_idle():
                        raise

    async def _spawn(self, settings: WorkerSettings) -> WorkerHandle:
        environment = {**self._inherited(settings.inherit), **dict(settings.env)}
        try:
            worker = await WorkerHandle.spawn(settings.folder, self._result_bytes, environment)
        except OSError as error:
            raise NeverStarted(f"no worker could be started: {error}") from error
        self._workers.add(worker)
        try:
            self._ledger.add(worker.group)
        except StoreUnavailable as error:
            await self._discard(worker)  # nobody would reap a worker that is not listed
            raise NeverStarted(str(error)) from error
        return worker

    async def _put_back(self, group: _Group, worker: WorkerHandle) -> None:
        if not (worker.reusable and self._open):
            await self._discard(worker)
            return
        idle, loop = self._idle.setdefault(group, []), asyncio.get_running_loop()
        idle.append((loop.time(), worker))
        if self._are_too_many(idle) and self._trimming is None:
            self._trimming = loop.call_later(self._linger_s, self._trim)

    def _are_too_many(self, idle: list[tuple[float, WorkerHandle]]) -> bool:
        return len(idle) > self._most_idle or sum(map(len, self._idle.values())) > _MOST_IDLE_IN_ALL

    def _trim(self) -> None:
        """End the idle workers beyond the limits that have been idle for a while, and look again if some have not."""
        loop = asyncio.get_running_loop()
        self._trimming, before = None, loop.time() - self._linger_s / 2
        for group, idle in sorted(self._idle.items(), key=lambda it: it[1][0][0] if it[1] else 0.0):
            while idle and self._are_too_many(idle) and idle[0][0] < before:
                self._end_idle(idle)
            if not idle:
                del self._idle[group]
            elif self._are_too_many(idle) and self._trimming is None:
                self._trimming = loop.call_later(self._linger_s, self._trim)

    def _end_longest_idle(self) -> bool:
        """End the worker that has been idle for longest, for another group to start one; return False if there is none."""
        longest = min(filter(None, self._idle.values()), key=lambda it: it[0][0], default=None)
        if longest is not None:
            self._end_idle(longest)
        return longest is not None

    def _end_idle(self, idle: list[tuple[float, WorkerHandle]]) -> None:
        _, worker = idle.pop(0)
        worker.clear_away()
        self._forget(worker)

    async def _discard(self, worker: WorkerHandle) -> None:
        try:
            await worker.kill()
        finally:
            self._forget(worker)

    def _forget(self, worker: WorkerHandle) -> None:
        self._workers.discard(worker)
        self._ledger.remove(worker.group)


def _ended(end: _AttemptEnd) -> AttemptResult:
    match end:
        case WorkDone(result):
            return AttemptResult(result=msgspec.json.decode(result))
        case WorkFailed(code, message):
            return AttemptResult.failed(code, message)
        case WorkerExited():
            return AttemptResult.failed("crashed", exit_text(end))
