"""The story of a run: its journal read through its view, and what is drawn of it besides.

The live picture, the lines in a pipe, ``log`` and ``show`` tell the same story, because all of them
read the journal through the same view (``asterism.views``). Each machine has a kind of story of its
own (``telling``). Not here: what an entry says, and how it is printed.
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
from asterism.views.delta import Weight
from asterism.views.registry import VIEWS
from asterism.views.view import BaseView
from asterism.views.words import duration


class HistoryLine(msgspec.Struct, frozen=True):
    """One line of what an entry says, and the entry.

    Attributes:
        entry: the entry that says so.
        text: without the name of the task.
        task_id: the task it is about; empty for the run.
        weight: how much it matters.
    """

    entry: Entry
    text: str
    task_id: str = ""
    weight: Weight = "event"


class Span(msgspec.Struct):
    """An effect from the entry that asked for it to its outcome; ``until`` is 0 while it is under way.

    Of what a process does the time is left out in which nobody is known to have driven the run: ``since`` is later by that.
    """

    effect: Effect
    since: float
    until: float = 0.0


_NONE = TaskConstellation()


class Story:
    """A run as far as it has been read. What a run is made of (tasks, steps, children of a conversation) are its parts.

    Attributes:
        parts: what one of its parts is called.
        view: what says what each entry means.
        run: the replayed run.
        spans: every effect, by id, in order.
        children: the part that each child run carries out, by the effect that started it.
        forked: where it was copied from; None if it was not.
        first_at, last_at: times of the first and the last entry.
    """

    parts = "task"

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
        """The current one; empty where the machine has none."""
        return _NONE

    def read(self, entries: Iterable[Entry]) -> list[HistoryLine]:
        """Read on; returns what happened.

        Raises:
            JournalMismatch: the journal is not one that these rules give.
        """
        return [happening for entry in entries for happening in self._take(entry)]

    def part_of(self, effect_id: str) -> str:
        """The part that an effect is for; empty where it is for none."""
        return self._parts.get(effect_id, "")

    def until(self, now: float) -> float:
        """Until when it lasts: to its last entry where it has ended, else to now."""
        return self.last_at if self.run.ended else max(now, self.last_at)

    # -- how it stands -----------------------------------------------------------------------------

    def picture(self, now: float, limit: int, frame: int = 0) -> list[Text]:
        """How it stands now, in at most so many lines; ``frame`` is the number of the picture in an animation."""
        raise NotImplementedError

    def counted(self) -> str:
        """The same in one line."""
        raise NotImplementedError

    def outcome(self) -> dict[str, Any]:
        """What it has come to, for programs."""
        raise NotImplementedError

    def standing(self) -> dict[str, str]:
        """What each part has come to, by its id; to set two runs side by side."""
        raise NotImplementedError

    def sections(self, happenings: list[HistoryLine], now: float) -> list[Text]:
        """What ``show`` tells of it besides; of a constellation it tells more."""
        raise NotImplementedError

    def _metrics(self, words: str, now: float) -> list[Text]:
        return [Text(), Text("metrics", "bold"), Text(f"  {words}; wall time {duration(self.until(now) - self.first_at)}")]

    # -- reading -----------------------------------------------------------------------------------

    def _take(self, entry: Entry) -> list[HistoryLine]:
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
        self._after(entry)
        return [HistoryLine(entry, line.text, line.part, line.weight) for line in delta.lines]

    def _after(self, entry: Entry) -> None:
        """Take from an entry that was read what the picture needs besides."""


def last_lines(lines: list[Text], limit: int) -> list[Text]:
    """The last of the lines, and how many are above them."""
    return lines if len(lines) <= limit else [Text(f"… {len(lines) - limit} more above", "dim"), *lines[-limit:]]
