"""Processes that drive the runs of a world, one after the other or several at once."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable

import msgspec

from asterism.errors import AsterismError, RunStuck
from asterism.testing.clock import EPOCH
from asterism.testing.invariants import InvariantViolated
from asterism.testing.people import StoreFaults
from asterism.testing.process import Process, ProcessEnvironment

SETTLED_POLL_S = 5.0
"""Seconds between two looks whether servers have anything left to do."""
MAX_PROCESSES = 200
"""Processes allowed in one world; more means that the run makes no progress."""


class DriverProcesses(msgspec.Struct, eq=False, kw_only=True):
    """All the processes of one world.

    Attributes:
        world: the world of the processes.
        seed: seed of their random draws.
        store_faults: random faults of their store handles.
        at_once: number of processes started whenever none is running.
        restart_s: seconds from a crash to the next process.
        limit_s: seconds until the run must have ended; a later timer of a parked run is not waited for.
        has_pending: returns True while an event from outside is still to come.
        changed: set when there may be work, or a process has ended.
        processes: all processes in order of their start.
        failure: an error that no process may end with.
    """

    world: ProcessEnvironment
    seed: int
    store_faults: StoreFaults
    at_once: int
    restart_s: float
    limit_s: float
    has_pending: Callable[[], bool]
    changed: asyncio.Event
    processes: list[Process] = msgspec.field(default_factory=list)
    failure: BaseException | None = None

    @property
    def running(self) -> list[Process]:
        """Return the processes that have not ended."""
        return [process for process in self.processes if not process.exit_reason]

    @property
    def has_failed(self) -> bool:
        """Return True if an invariant does not hold or a process has failed; then the world ends."""
        return self.world.checker.violation is not None or self.failure is not None

    async def drive(self, run_id: str, group: asyncio.TaskGroup) -> None:
        """Start processes for a root run as long as there is work.

        Raises:
            InvariantViolated: too many processes were needed.
        """
        while not self.has_failed:
            if self.world.program.serves:
                if self._has_settled():
                    break
                await self._keep_serving(run_id, group)
                continue
            if self.running or self._is_waiting_for_people(run_id):
                if not self.running and not self.has_pending():
                    return
                self.changed.clear()
                await self.changed.wait()
                continue
            if self.world.database.runs[run_id].status == "ended" and not self._has_inbox_rows():
                return
            if len(self.processes) >= MAX_PROCESSES:
                raise InvariantViolated(8, f"{MAX_PROCESSES} processes have driven the run, and it has not ended")
            released = [process.name for process in self.processes if process.exit_reason in ("store unavailable", "fenced")]
            self.world.checker.released.update(released)
            if self.processes and self.processes[-1].exit_reason != "done":
                await asyncio.sleep(self.restart_s)
            for _ in range(self.at_once):
                self.start(run_id, group)
        for process in self.processes:
            process.crash()

    async def _keep_serving(self, run_id: str, group: asyncio.TaskGroup) -> None:
        """Start a server for each one that has ended; return when something may have changed."""
        if self.processes and self.processes[-1].exit_reason == "crashed":
            await asyncio.sleep(self.restart_s)
        if len(self.processes) >= MAX_PROCESSES:
            raise InvariantViolated(8, f"{MAX_PROCESSES} servers have driven the run, and it has not ended")
        for _ in range(self.at_once - len(self.running)):
            self.start(run_id, group)
        self.changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLED_POLL_S):
                await self.changed.wait()

    def _has_settled(self) -> bool:
        """Return True if nothing more happens by itself: no event is to come, and no run is owned or due within the limit."""
        database = self.world.database
        roots = [row for row in database.runs.values() if row.root == row.run_id]
        is_owned = any(row.owner in database.living or (row.owner and row.status != "ended") for row in roots)
        is_due = any(row.due_at is not None and row.due_at <= EPOCH + self.limit_s for row in roots)
        return not (is_owned or is_due or self.has_pending() or self._has_inbox_rows())

    def start(self, run_id: str, group: asyncio.TaskGroup) -> None:
        """Start another process that tries to drive a run."""
        name = f"process-{len(self.processes) + 1}"
        process = Process(name, self.world, self.store_faults, random.Random(f"{self.seed}:{name}"), self.changed.set)
        self.processes.append(process)
        self.world.counts["processes"] += 1
        group.create_task(self._drive(process, run_id), name=name)

    def fail(self, error: BaseException) -> None:
        """End the world with an error; the first error counts."""
        self.failure = self.failure or error
        self.changed.set()

    async def _drive(self, process: Process, run_id: str) -> None:
        try:
            await process.drive(run_id)
        except RunStuck as stuck:
            self.fail(InvariantViolated(8, str(stuck), self.world.checker.history(stuck.run_id)))
        except (AsterismError, BaseExceptionGroup, RuntimeError) as error:
            self.fail(error)
        self.world.counts[process.exit_reason or "failed"] += 1
        if process.store_failures:
            self.world.counts["store faults"] += process.store_failures

    def _is_waiting_for_people(self, run_id: str) -> bool:
        """Return True if no process is needed: the run waits for people, and its inboxes are empty."""
        drove, row = (
            [process.exit_reason for process in self.processes if process.exit_reason != "run owned"],
            self.world.database.runs[run_id],
        )
        is_parked = row.status in ("waiting", "paused") and not row.owner  # an owner that is there may be dead
        return drove[-1:] == ["done"] and is_parked and not self._has_inbox_rows()

    def _has_inbox_rows(self) -> bool:
        """Return True if a run has unread inbox rows; rows for an ended child run do not count."""
        database = self.world.database
        addressed = (database.runs[row.run_id] for row in database.inbox.values() if not row.verdict)
        return any(row.status != "ended" or not row.parent for row in addressed)
