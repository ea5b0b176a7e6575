"""Ending of a run in a world."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from asterism.constellation.model.task import TaskStar
from asterism.engine.kernel.journal import Entry, Record, history_line
from asterism.engine.kernel.machine import Machine
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.run import Run
from asterism.engine.ports.store import RunRow


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """Final state of a run in a world.

    Attributes:
        row: the store's row of the run.
        machine: machine of the run.
        records: its journal.
        memory: its memory, replayed from the journal: of a constellation, of a loop (``memory.answer``) or of a
            conversation (``memory.history``, ``memory.view.fields``).
        lasted_s: virtual seconds from the start of the world to its end.
        children: all runs below a root run, in order of their start.
    """

    row: RunRow
    machine: Machine[Any]
    records: tuple[Record, ...]
    memory: Any
    lasted_s: float
    children: tuple[Ending, ...] = ()

    @property
    def outcome(self) -> str:
        """Return ``finished``, ``failed`` or ``cancelled``; an empty text while the run waits."""
        return self.row.outcome

    @property
    def entries(self) -> list[Entry]:
        """Return the entries of the journal."""
        return [packer(self.machine).unpack(record) for record in self.records]

    @property
    def history(self) -> list[str]:
        """Return the journal as text, one line for each entry."""
        return [history_line(record) for record in self.records]

    @property
    def journal(self) -> bytes:
        """Return the journal as JSON lines."""
        return b"".join(msgspec.json.encode(record) + b"\n" for record in self.records)

    def task(self, task_id: str) -> TaskStar:
        """Return a task of the last constellation."""
        found: TaskStar = self.memory.constellation.tasks[task_id]
        return found


def ending_of(row: RunRow, machine: Machine[Any], records: Sequence[Record], lasted_s: float) -> Ending:
    """Return the ending of a run, replayed from its journal."""
    replayed = Run(machine, row.run_id)
    replayed.replay(packer(machine).unpack(record) for record in records)
    return Ending(row=row, machine=machine, records=tuple(records), memory=replayed.memory, lasted_s=lasted_s)
