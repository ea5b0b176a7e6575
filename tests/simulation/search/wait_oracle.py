"""An oracle of its own for waits: each event that was sent, against what each wait has got.

It reads the events and the runs of the store, and the journals. It calls nothing that compares waits with events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from asterism.constellation.machine.memory import ConstellationMemory
from asterism.engine.control.waits import EventTaken, WaitEnded, WaitFor
from asterism.engine.kernel.journal import Entry
from asterism.engine.ports.events import EventRow
from asterism.stores.memory import MemoryDatabase
from asterism.stores.sqlite_rows import columns_of, rows_of

SLACK_S = 20.0
"""Seconds within which a wait gets its event: processes die, and others look again."""


class OpenedWait(msgspec.Struct, frozen=True):
    """A wait of a run, and since when it is open in this world."""

    run_id: str
    wait: WaitFor
    opened_at: float


class WaitOracle:
    """Judges what the waits of a world get.

    Args:
        database: database of the world.

    Attributes:
        sent: the events as they were stored, by id, in order.
        taken: number of waits that have got an event.
    """

    def __init__(self, database: MemoryDatabase) -> None:
        self._database = database
        self._open: dict[str, OpenedWait] = {}
        self._takers: dict[str, list[str]] = {}
        self._late: list[tuple[OpenedWait, float]] = []
        self.sent: dict[str, EventRow] = {}

    @property
    def taken(self) -> int:
        """Return the number of waits that have got an event."""
        return sum(map(len, self._takers.values()))

    def follow(self, entry: Entry, before: Mapping[str, WaitFor], memory: ConstellationMemory, now: float) -> str:
        """Follow an entry that was replayed; return what is wrong with it, or an empty text.

        Args:
            entry: the entry.
            before: the open waits of the run before it.
            memory: the memory after it.
            now: the time; of an imported entry, that of its import.
        """
        for effect_id in memory.waits.keys() - before.keys():
            self._open[effect_id] = OpenedWait(entry.run_id, memory.waits[effect_id], now)
        event = entry.event
        if entry.note:
            return ""
        if isinstance(event, EventTaken):
            is_copied = (entry.run_id, entry.key) not in self._database.inbox  # an event of another world
            return "" if is_copied else self._take(event, entry)
        for effect_id in before.keys() - memory.waits.keys():
            opened = self._open[effect_id]
            task = memory.constellation.tasks.get(opened.wait.about)
            error = task.error if task else None
            if opened.wait.event and error is not None and error.code == "timeout":
                self._late.append((opened, entry.at))
            elif task is not None and task.status == "COMPLETED" and not 0 < opened.wait.until <= entry.at:
                return f"{effect_id} completed {opened.wait.until - entry.at:g} s early, by a {type(event).__name__}"
        if isinstance(event, WaitEnded) and event.effect_id in memory.waits:
            return f"{event.effect_id} has ended, and is still open"
        return ""

    def _take(self, event: EventTaken, entry: Entry) -> str:
        self.look()
        opened, row = self._open[event.effect_id], self.sent.get(event.event_id)
        what = f"{event.effect_id} got the event {event.event_id}"
        if row is None or msgspec.json.decode(row.data) != event.data:
            return f"{what}, which nobody has sent so"
        if not self._fits(opened, row):
            return f"{what}, which it does not match, or which is older than its run"
        takers = self._takers.setdefault(row.event_id, [])
        if row.deliver == "one" and takers:
            return f"{what}, which {takers[0]} has got already"
        takers.append(event.effect_id)
        older = [it for it in self._before(row) if it.deliver == "all" and it.expires_at > entry.at and self._fits(opened, it)]
        return f"{what}, and not the older {older[0].event_id}" if older else ""

    def _before(self, row: EventRow) -> Iterator[EventRow]:
        for it in self.sent.values():
            if it.event_id == row.event_id:
                return
            yield it

    def _fits(self, opened: OpenedWait, row: EventRow) -> bool:
        wait, data, runs = opened.wait, msgspec.json.decode(row.data), self._database.runs
        root = runs[runs[opened.run_id].root]
        return (
            wait.event == row.name
            and row.at >= root.created_at
            and row.expires_at > opened.opened_at
            and (not wait.match or data["n"] == wait.values["n"])
        )

    def check_end(self) -> str:
        """Return what is wrong after the last process has ended; an empty text if nothing is."""
        for opened, ended_at in self._late:
            for row in self.sent.values():
                begin, end = max(opened.opened_at, row.at), min(ended_at, row.expires_at)
                is_free = row.deliver == "all" or not self._takers.get(row.event_id)
                if is_free and end - begin > SLACK_S and self._fits(opened, row):
                    return f"a wait of {opened.wait.about} in {opened.run_id} ended without the event {row.event_id}, which was there"
        return ""

    def look(self) -> None:
        """Read the events that were stored since the last look."""
        cursor = self._database.connection.execute(f"SELECT {columns_of(EventRow)} FROM events ORDER BY number")  # noqa: S608 - our names
        for row in rows_of(EventRow, cursor):
            self.sent.setdefault(row.event_id, row)
