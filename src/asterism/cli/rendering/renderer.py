"""The renderer of a run: reads its journal through its view, and renders the status of the run.

The live display, the lines in a pipe, ``log`` and ``show`` agree, because all of them read the journal
through the same view (``asterism.views``), which also words the log lines.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from rich.text import Text

from asterism.constellation.constellation import TaskConstellation
from asterism.kernel.journal import Entry
from asterism.kernel.machine import Effect, EffectResult, Machine
from asterism.kernel.run import Run
from asterism.machines.children import StartChild
from asterism.machines.run_control import Forked, OwnershipAcquired
from asterism.views.delta import LogLine
from asterism.views.registry import VIEWS
from asterism.views.view import BaseView
from asterism.views.words import duration


class HistoryLine(LogLine, frozen=True, kw_only=True):
    """A log line with its journal entry."""

    entry: Entry


class Span(msgspec.Struct):
    """The time of an effect, in seconds since the epoch.

    Time in which no process drove the run does not count for an effect that a process performs: ``since`` moves by it.

    Attributes:
        effect: the effect.
        since: time of the entry that issued the effect.
        until: time of its result; 0 while the effect is outstanding.
    """

    effect: Effect
    since: float
    until: float = 0.0


_NONE = TaskConstellation()


class RunRenderer:
    """Renderer of a run. The parts of a run are its tasks, its steps, or the fields and children of a conversation.

    Attributes:
        part_noun: noun for a part.
        view: view of the run.
        run: the run, replayed up to the last entry read.
        spans: span of every effect, by effect id, in order.
        children: part of each child run, by the id of the effect that started the child.
        forked: the fork event; None if the run is not a fork.
        first_at, last_at: times of the first and the last entry.
    """

    part_noun = "task"

    def __init__(self, machine: Machine[Any], run_id: str) -> None:
        self.view: BaseView = VIEWS[machine.name].at(Run(machine, run_id, performs=False))
        self.run: Run[Any] = self.view.run
        self.spans: dict[str, Span] = {}
        self.children: dict[str, str] = {}
        self.forked: Forked | None = None
        self.first_at = self.last_at = 0.0
        self._parts: dict[str, str] = {}

    @property
    def constellation(self) -> TaskConstellation:
        """Return the current constellation; empty for a machine without one."""
        return _NONE

    def read(self, entries: Iterable[Entry]) -> list[HistoryLine]:
        """Read the next entries; return their log lines.

        Raises:
            JournalMismatch: the entries do not match a replay.
        """
        return [line for entry in entries for line in self._read_entry(entry)]

    def part_of(self, effect_id: str) -> str:
        """Return the part that an effect belongs to; empty for none."""
        return self._parts.get(effect_id, "")

    def until(self, now: float) -> float:
        """Return the end of the run: the time of its last entry if it has ended, else now."""
        return self.last_at if self.run.ended else max(now, self.last_at)

    # -- status ------------------------------------------------------------------------------------

    def render(self, now: float, limit: int, frame: int = 0) -> list[Text]:
        """Return the current status in at most ``limit`` lines; ``frame`` counts the frames of an animation."""
        raise NotImplementedError

    def summary_line(self) -> str:
        """Return the current status in one line."""
        raise NotImplementedError

    def result_fields(self) -> dict[str, Any]:
        """Return the machine's own fields of the JSON result."""
        raise NotImplementedError

    def part_status(self) -> dict[str, str]:
        """Return the status of each part in words, by id; used to compare two runs."""
        raise NotImplementedError

    def detail_lines(self, history: list[HistoryLine], now: float) -> list[Text]:
        """Return the details that ``show`` prints below the status; a constellation has details of its own."""
        raise NotImplementedError

    def _metrics(self, words: str, now: float) -> list[Text]:
        return [Text(), Text("metrics", "bold"), Text(f"  {words}; wall time {duration(self.until(now) - self.first_at)}")]

    # -- reading -----------------------------------------------------------------------------------

    def _read_entry(self, entry: Entry) -> list[HistoryLine]:
        idle_s = entry.at - self.last_at if isinstance(entry.event, OwnershipAcquired) else 0.0
        self.first_at, self.last_at = self.first_at or entry.at, entry.at
        event = entry.event
        if isinstance(event, EffectResult) and event.effect_id in self.spans and not entry.note:
            self.spans[event.effect_id].until = entry.at
        if isinstance(event, Forked):
            self.forked = event
        if isinstance(event, OwnershipAcquired):
            for span in self.spans.values():
                span.since += idle_s if span.effect.performed_outside and not span.until else 0.0
        [delta] = self.view.read([entry])
        for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
            self.spans[effect_id] = Span(effect, entry.at)
            self._parts[effect_id] = part = self.view.part_of(effect_id, effect)
            if isinstance(effect, StartChild):
                self.children[effect_id] = part
        self._entry_read(entry)
        return [HistoryLine(line.text, line.part, line.weight, entry=entry) for line in delta.lines]

    def _entry_read(self, entry: Entry) -> None:
        """Update what only rendering needs; called after each entry."""


def last_lines(lines: list[Text], limit: int) -> list[Text]:
    """Return the last lines, below a line with the number of omitted ones."""
    return lines if len(lines) <= limit else [Text(f"… {len(lines) - limit} more above", "dim"), *lines[-limit:]]
