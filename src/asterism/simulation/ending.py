"""How a run in a world came out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from asterism.constellation.task import TaskStar
from asterism.kernel.journal import Entry, Record, history_line
from asterism.kernel.machine import Machine
from asterism.kernel.packing import packer
from asterism.kernel.run import Run
from asterism.runtime.ports.store import RunRow


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a run in a world came out.

    Attributes:
        row: the run as the store lists it.
        machine: of the run.
        records: its journal.
        memory: what it remembers, from the journal: of a constellation, of a loop (``memory.answer``), of a conversation
            (``memory.history``, ``memory.view.fields``).
        lasted_s: virtual seconds.
        children: of a root, all runs below it, in the order in which they were started.
    """

    row: RunRow
    machine: Machine[Any]
    records: tuple[Record, ...]
    memory: Any
    lasted_s: float
    children: tuple[Ending, ...] = ()

    @property
    def outcome(self) -> str:
        """``finished``, ``failed``, ``cancelled``; empty while it waits."""
        return self.row.outcome

    @property
    def entries(self) -> list[Entry]:
        """The journal's entries."""
        return [packer(self.machine).unpack(record) for record in self.records]

    @property
    def history(self) -> list[str]:
        """The journal, one line for each entry."""
        return [history_line(record) for record in self.records]

    @property
    def journal(self) -> bytes:
        """The journal as JSON lines."""
        return b"".join(msgspec.json.encode(record) + b"\n" for record in self.records)

    def task(self, task_id: str) -> TaskStar:
        """A task of the last constellation."""
        found: TaskStar = self.memory.constellation.tasks[task_id]
        return found


def ending_of(row: RunRow, machine: Machine[Any], records: Sequence[Record], lasted_s: float) -> Ending:
    """How a run came out, from its journal."""
    replayed = Run(machine, row.run_id)
    replayed.replay(packer(machine).unpack(record) for record in records)
    return Ending(row=row, machine=machine, records=tuple(records), memory=replayed.memory, lasted_s=lasted_s)
