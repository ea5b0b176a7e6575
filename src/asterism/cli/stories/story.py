"""The story of a run: its journal replayed entry by entry, and what each entry means in words.

Whoever shows a run reads it here: the live view, the lines in a pipe, ``log`` and ``show`` tell the same story, because
all of them read the journal. Each machine has a kind of story of its own (``telling``). Not here: how it is printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec
from rich.text import Text

from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.task import TaskStatus
from asterism.kernel.journal import Entry
from asterism.kernel.machine import Effect, Machine, Outcome, kind_of
from asterism.kernel.run import Run
from asterism.machines.children import Relay, StartChild
from asterism.machines.control import Answered, Claimed, Forked, Withdraw
from asterism.views.words import duration, plain

Weight = Literal["event", "progress", "detail"]
"""What a line is worth: a step of the run, a sign of life, or the machinery at work."""


class Happening(msgspec.Struct, frozen=True):
    """One thing that happened, in words.

    Attributes:
        entry: the entry that says so.
        text: without the name of the task.
        task_id: the task it is about; empty for the run.
        status: of the task after it; None where it is about the run.
        weight: what it is worth.
    """

    entry: Entry
    text: str
    task_id: str = ""
    status: TaskStatus | None = None
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
        run: the replayed run.
        spans: every effect, by id, in order.
        children: the part that each child run carries out, by the effect that started it.
        forked: where it was copied from; None if it was not.
        copied: effects that were under way there, and were called off here.
        first_at, last_at: times of the first and the last entry.
    """

    parts = "task"

    def __init__(self, machine: Machine[Any], run: str) -> None:
        self.run: Run[Any] = Run(machine, run, performs=False)
        self.spans: dict[str, Span] = {}
        self.children: dict[str, str] = {}
        self.forked: Forked | None = None
        self.copied: set[str] = set()
        self.first_at = self.last_at = 0.0
        self._parts: dict[str, str] = {}

    @property
    def constellation(self) -> TaskConstellation:
        """The current one; empty where the machine has none."""
        return _NONE

    def read(self, entries: Iterable[Entry]) -> list[Happening]:
        """Read on; returns what happened.

        Raises:
            JournalMismatch: the journal is not one that these rules give.
        """
        return [happening for entry in entries for happening in self._take(entry)]

    def part_of(self, effect: str) -> str:
        """The part that an effect is for; empty where it is for none."""
        return self._parts.get(effect, "")

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

    def sections(self, happenings: list[Happening], now: float) -> list[Text]:
        """What ``show`` tells of it besides; of a constellation it tells more."""
        raise NotImplementedError

    def _metrics(self, words: str, now: float) -> list[Text]:
        return [Text(), Text("metrics", "bold"), Text(f"  {words}; wall time {duration(self.until(now) - self.first_at)}")]

    # -- words -------------------------------------------------------------------------------------

    def _take(self, entry: Entry) -> list[Happening]:
        idle_s = entry.at - self.last_at if isinstance(entry.event, Claimed) else 0.0
        self.first_at, self.last_at = self.first_at or entry.at, entry.at
        if entry.note:
            self.run.replay([entry])
            return [Happening(entry, plain(self._noted(entry)), weight="event" if entry.key else "detail")]
        event = entry.event
        if isinstance(event, Outcome) and event.effect in self.spans:
            self.spans[event.effect].until = entry.at
        if isinstance(event, Forked):
            self.forked = event
        if isinstance(event, Claimed):
            for span in self.spans.values():
                span.since += idle_s if span.effect.performed_outside and not span.until else 0.0
        return self._told(entry)

    def _noted(self, entry: Entry) -> str:
        """Why an entry is a note only."""
        if isinstance(entry.event, Answered):
            return f"the answer {entry.event.verb} by {entry.actor} is not taken: {entry.note}"
        return f"{kind_of(entry.event)} by {entry.actor} was noted only: {entry.note}"

    def _told(self, entry: Entry) -> list[Happening]:
        """Replay an entry and say what it means; at least something."""
        raise NotImplementedError

    def _effects(self, entry: Entry) -> Iterator[Happening]:
        for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
            self.spans[effect_id] = Span(effect, entry.at)
            part = self.part_of(effect.target) if isinstance(effect, Withdraw | Relay) else self._part(effect_id, effect)
            self._parts[effect_id] = part
            if isinstance(effect, Withdraw) and isinstance(entry.event, Forked):
                self.copied.add(effect.target)
            if isinstance(effect, StartChild):
                self.children[effect_id] = part
            yield from self._effect(entry, effect_id, effect)

    def _part(self, effect_id: str, effect: Effect) -> str:
        """The part that an effect of the entry just replayed is for."""
        raise NotImplementedError

    def _effect(self, entry: Entry, effect_id: str, effect: Effect) -> Iterator[Happening]:
        """What an effect means."""
        raise NotImplementedError


def last_lines(lines: list[Text], limit: int) -> list[Text]:
    """The last of the lines, and how many are above them."""
    return lines if len(lines) <= limit else [Text(f"… {len(lines) - limit} more above", "dim"), *lines[-limit:]]
