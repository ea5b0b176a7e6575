"""Reporters show the progress of a run: in a terminal, in a pipe, or as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from asterism.cli.output import complain, json_line, local_time, put, put_line, rich_text
from asterism.constellation.machine.events import AttemptEnded
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.fan_out import items_words
from asterism.constellation.model.task import TaskStar, TaskStatus
from asterism.constellation.view.history import ConstellationHistory
from asterism.constellation.view.task_lines import plan_lines
from asterism.engine.control.run_control import Answered, AskPerson
from asterism.engine.kernel.journal import Record
from asterism.engine.runtime.clock import Clock
from asterism.views.text.history import HistoryLine, RunHistory, log_line
from asterism.views.text.styled_line import StyledLine
from asterism.views.words import duration, plain

FRAME_S = 0.2
"""Shortest time between two frames, in seconds."""
QUIET_S = 5.0
"""Shortest time between two progress lines of a task in a pipe, in seconds."""
MAX_ITEMS = 10
"""Items of a fan-out whose lines are printed in a pipe; of more, only errors and questions, this many errors at most."""
MAX_DRAWN = 60
"""Lines of a drawing in a pipe, or of the last frame."""


class Update(msgspec.Struct, frozen=True):
    """New records and their log lines (none if only time has passed), and the history of the run.

    Attributes:
        history: has read the records.
        records: records that are new since the last update.
        lines: log lines of these records.
    """

    history: RunHistory
    records: Sequence[Record] = ()
    lines: Sequence[HistoryLine] = ()


class Reporter(Protocol):
    """Display of a run as its journal grows."""

    def show(self, update: Update) -> None:
        """Show an update."""
        ...

    def warn(self, message: str) -> None:
        """Show a message about the process rather than the run."""
        ...

    def close(self) -> None:
        """End the display."""
        ...


class LineReporter:
    """Reporter in plain lines, one for each event of the run.

    Args:
        console: where it prints.
        every_item: also print each event of the items of a large fan-out.
    """

    def __init__(self, console: Console, *, every_item: bool = False) -> None:
        self._console = console
        self._every_item = every_item
        self._progressed: dict[str, float] = {}
        self._failures: Counter[str] = Counter()
        self._drawn = -1

    def show(self, update: Update) -> None:
        """Print each plan once, and a line for each event."""
        history = update.history
        constellation = history.constellation if isinstance(history, ConstellationHistory) else TaskConstellation()
        if constellation.tasks and constellation.generation != self._drawn:
            self._drawn = constellation.generation
            for line in plan_lines(constellation) if len(constellation.tasks) <= MAX_DRAWN else []:
                put_line(self._console, StyledLine("    ").append_line(line))
        for it in update.lines:
            if of := self._fan_out_of(it, constellation):
                self._summarize(of, it, update.history)
            elif it.weight == "event" or (it.weight == "progress" and not self._too_soon(it)):
                put_line(self._console, log_line(update.history, it, local_time))

    def warn(self, message: str) -> None:
        """Print a message to standard error."""
        complain(message)

    def close(self) -> None:
        """Do nothing; there is nothing to close."""

    def _fan_out_of(self, it: HistoryLine, constellation: TaskConstellation) -> TaskStar | None:
        """Return the task whose summary replaces a line about one of its items; None for a line that is printed."""
        item = constellation.tasks.get(it.part)
        of = constellation.tasks.get(item.item_of) if item and item.item_of and not self._every_item else None
        if of is None or of.items is None or of.items.total <= MAX_ITEMS:
            return None
        event = it.entry.event
        if isinstance(event, Answered) or any(isinstance(effect, AskPerson) for effect in it.entry.effects):
            return None
        if isinstance(event, AttemptEnded) and event.error is not None:
            self._failures[of.task_id] += 1
            return None if self._failures[of.task_id] <= MAX_ITEMS else of
        return of

    def _summarize(self, of: TaskStar, it: HistoryLine, history: RunHistory) -> None:
        if of.items is not None and of.status is TaskStatus.RUNNING and not self._too_soon(msgspec.structs.replace(it, part=of.task_id)):
            put_line(self._console, log_line(history, HistoryLine(items_words(of.items), of.task_id, entry=it.entry), local_time))

    def _too_soon(self, it: HistoryLine) -> bool:
        last = self._progressed.get(it.part)
        if last is not None and it.entry.at - last < QUIET_S:
            return True
        self._progressed[it.part] = it.entry.at
        return last is None  # the first sign comes with the start, which has its own line


class JsonReporter:
    """Reporter in JSON, one object for each journal entry."""

    def show(self, update: Update) -> None:
        """Print a line for each entry."""
        for record in update.records:
            put(json_line(record))

    def warn(self, message: str) -> None:
        """Print a message to standard error."""
        complain(message)

    def close(self) -> None:
        """Do nothing; there is nothing to close."""


class LiveReporter:
    """Live display of a run in a terminal."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console = console
        self._clock = clock
        self._live = _live(console)
        self._history: RunHistory | None = None
        self._shown_at = 0.0
        self._warning = ""
        self._frame = 0

    def show(self, update: Update) -> None:
        """Draw the next frame, unless the last one is less than ``FRAME_S`` old."""
        self._history = update.history
        now = self._clock.now()
        if now - self._shown_at >= FRAME_S:
            self._shown_at = now
            self._frame += 1
            self._refresh()

    def warn(self, message: str) -> None:
        """Show a message below the display; as a line of its own where there is none, as during a question."""
        if not self._live.is_started:
            complain(message)
            return
        self._warning = message
        self._refresh()

    def close(self) -> None:
        """Draw the last frame in full and leave it on the screen."""
        self._warning = ""
        if self._history is not None:
            self._live.update(Group(*self._lines(self._history, MAX_DRAWN)))
        if self._live.is_started:
            self._live.stop()
        self._live = _live(self._console)  # later output goes below the last frame

    def _refresh(self) -> None:
        if self._history is None:
            return
        if not self._live.is_started:
            self._live.start()
        limit = max(3, self._console.height - 5)
        self._live.update(Group(*self._lines(self._history, limit), Text(plain(self._warning), "yellow")), refresh=True)

    def _lines(self, history: RunHistory, limit: int) -> Iterable[Text]:
        now = self._clock.now()
        if not (lines := history.status_lines(now, limit, self._frame)):
            if any(effect.performed_outside for effect in history.run.outstanding.values()):  # else it waits for a person, or has ended
                yield Text("planning …" if history.part_noun in ("task", "step") else "working …", "dim")
            return
        yield from map(rich_text, lines)
        if history.run.ended:
            return  # the lines below the last frame say it
        elapsed = duration(history.until(now) - history.first_at)
        yield Text(f"\n{history.summary()}, {elapsed}", "dim")


def _live(console: Console) -> Live:
    return Live(console=console, auto_refresh=False, transient=False, vertical_overflow="crop")
