"""Processes that drive the runs of a world, one after the other or several at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import msgspec

from asterism.errors import AsterismError, RunStuck
from asterism.simulation.invariants import InvariantViolated
from asterism.simulation.people import StoreFaults
from asterism.simulation.process import Process, ProcessEnvironment

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
            if self.running or self._is_waiting_for_people(run_id):
                if not self.running and not self.has_pending():
                    return
                self.changed.clear()
                await self.changed.wait()
                continue
            if self.world.memory.runs[run_id].status == "ended" and not self._has_inbox_rows():
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
        drove = [process.exit_reason for process in self.processes if process.exit_reason != "run owned"]
        return drove[-1:] == ["done"] and self.world.memory.runs[run_id].status in ("waiting", "paused") and not self._has_inbox_rows()

    def _has_inbox_rows(self) -> bool:
        """Return True if a run has unread inbox rows; rows for an ended child run do not count."""
        memory = self.world.memory
        addressed = (memory.runs[row.run_id] for row in memory.inbox.values() if not row.verdict)
        return any(row.status != "ended" or not row.parent for row in addressed)
