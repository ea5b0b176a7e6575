"""The crew of a world: who drives its runs, process after process, or several at once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from asterism.errors import AsterismError, RunStuck
from asterism.simulation.invariants import InvariantViolated
from asterism.simulation.people import StoreTrouble
from asterism.simulation.process import Process, Surroundings

MAX_PROCESSES = 200
"""Processes of one world; one that needs more goes round in circles."""


class DriverProcesses:
    """All the processes of one world.

    Args:
        world: where they live.
        seed: of their chances.
        trouble: what is wrong with their store.
        at_once: how many want to drive whenever nobody does.
        restart_s: seconds from a crash to the next process.
        awaits: whether something is to come from outside.
        changed: set when there may be something to drive, or one has come to an end.

    Attributes:
        processes: in the order in which they began.
        failure: what one has ended with that no process may end with.
    """

    def __init__(
        self,
        world: Surroundings,
        seed: int,
        trouble: StoreTrouble,
        *,
        at_once: int,
        restart_s: float,
        awaits: Callable[[], bool],
        changed: asyncio.Event,
    ) -> None:
        self.processes: list[Process] = []
        self.failure: BaseException | None = None
        self._world = world
        self._seed = seed
        self._trouble = trouble
        self._at_once = at_once
        self._restart_s = restart_s
        self._awaits = awaits
        self._changed = changed

    @property
    def living(self) -> list[Process]:
        """Those that have not come to an end."""
        return [process for process in self.processes if not process.how]

    @property
    def is_broken(self) -> bool:
        """True when the world has found what must never be: nobody goes on."""
        return self._world.checker.violation is not None or self.failure is not None

    async def drive(self, run_id: str, group: asyncio.TaskGroup) -> None:
        """See to it that somebody drives a root while there is something to drive.

        Raises:
            InvariantViolated: too many have driven it.
        """
        while not self.is_broken:
            if self.living or self._is_parked(run_id):
                if not self.living and not self._awaits():
                    return
                self._changed.clear()
                await self._changed.wait()
                continue
            if self._world.memory.runs[run_id].status == "ended" and not self._has_mail():
                return
            if len(self.processes) >= MAX_PROCESSES:
                raise InvariantViolated(8, f"{MAX_PROCESSES} processes have driven it, and it goes on")
            self._world.checker.let_go.update(process.name for process in self.processes if process.how in ("let go", "robbed"))
            if self.processes and self.processes[-1].how != "done":
                await asyncio.sleep(self._restart_s)
            for _ in range(self._at_once):
                self.start(run_id, group)
        for process in self.processes:
            process.crash()

    def start(self, run_id: str, group: asyncio.TaskGroup) -> None:
        """Another process wants to drive a run."""
        name = f"process-{len(self.processes) + 1}"
        process = Process(name, self._world, self._trouble, random.Random(f"{self._seed}:{name}"), self._changed.set)
        self.processes.append(process)
        self._world.counts["processes"] += 1
        group.create_task(self._lived(process, run_id), name=name)

    def fail(self, error: BaseException) -> None:
        """The world is over, by what nobody may end with; the first such error counts."""
        self.failure = self.failure or error
        self._changed.set()

    async def _lived(self, process: Process, run_id: str) -> None:
        try:
            await process.drive(run_id)
        except RunStuck as stuck:
            self.fail(InvariantViolated(8, str(stuck), self._world.checker.story(stuck.run_id)))
        except (AsterismError, BaseExceptionGroup, RuntimeError) as error:
            self.fail(error)
        self._world.counts[process.how or "broke"] += 1
        if process.faults:
            self._world.counts["store faults"] += process.faults

    def _is_parked(self, run_id: str) -> bool:
        """True when nobody need drive: only people can move it, and they have not."""
        drove = [process.how for process in self.processes if process.how != "turned away"]
        return drove[-1:] == ["done"] and self._world.memory.runs[run_id].status in ("waiting", "paused") and not self._has_mail()

    def _has_mail(self) -> bool:
        """True when something waits for a run; what comes for a child that has ended nobody takes."""
        memory = self._world.memory
        addressed = (memory.runs[row.run_id] for row in memory.inbox.values() if not row.verdict)
        return any(row.status != "ended" or not row.parent for row in addressed)
