"""Reporters: what a driven or followed run shows while it goes on. In a terminal, in a pipe, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from asterism.cli.output import complain, put, put_line
from asterism.cli.stories.picture import plan_lines
from asterism.cli.stories.story import HistoryLine, Story
from asterism.cli.words import time_of_day
from asterism.kernel.journal import Record
from asterism.runtime.clock import Clock
from asterism.views.words import duration, plain

FRAME_S = 0.2
"""The shortest time between two pictures."""
QUIET_S = 5.0
"""The shortest time between two progress lines of one task, in a pipe."""
MAX_DRAWN = 60
"""Lines of a drawing in a pipe, or of the last picture."""


class Update(msgspec.Struct, frozen=True):
    """What was read last: new records and what they say (none when only time has passed), and the story with them."""

    story: Story
    records: Sequence[Record] = ()
    happenings: Sequence[HistoryLine] = ()


class Reporter(Protocol):
    """Shows a run as its journal grows."""

    def show(self, news: Update) -> None:
        """Show what was read."""
        ...

    def warn(self, message: str) -> None:
        """Something about the process rather than the run."""
        ...

    def close(self) -> None:
        """Nothing more comes."""
        ...


class LineReporter:
    """Plain lines, one for each thing that matters."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progressed: dict[str, float] = {}
        self._drawn = -1

    def show(self, news: Update) -> None:
        """The plan once, and a line for each thing that matters."""
        constellation = news.story.constellation
        if constellation.tasks and constellation.generation != self._drawn:
            self._drawn = constellation.generation
            for line in plan_lines(constellation) if len(constellation.tasks) <= MAX_DRAWN else []:
                put_line(self._console, Text("    ").append_text(line))
        for happening in news.happenings:
            if happening.weight == "event" or (happening.weight == "progress" and not self._too_soon(happening)):
                put_line(self._console, happening_line(news.story, happening))

    def warn(self, message: str) -> None:
        """Beside the output."""
        complain(message)

    def close(self) -> None:
        """Nothing is open."""

    def _too_soon(self, happening: HistoryLine) -> bool:
        last = self._progressed.get(happening.task_id)
        if last is not None and happening.entry.at - last < QUIET_S:
            return True
        self._progressed[happening.task_id] = happening.entry.at
        return last is None  # the first sign comes with the start, and the start was said


class JsonReporter:
    """One JSON object for each entry of the journal."""

    def show(self, news: Update) -> None:
        """A line for each entry."""
        for record in news.records:
            put(json_line(record))

    def warn(self, message: str) -> None:
        """Beside the output."""
        complain(message)

    def close(self) -> None:
        """Nothing is open."""


class LiveReporter:
    """A picture of the run that moves, in a terminal."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._console = console
        self._clock = clock
        self._live = _live(console)
        self._story: Story | None = None
        self._shown_at = 0.0
        self._said = ""
        self._frame = 0

    def show(self, news: Update) -> None:
        """The next picture, unless the last one is too young."""
        self._story = news.story
        now = self._clock.now()
        if now - self._shown_at >= FRAME_S:
            self._shown_at = now
            self._frame += 1
            self._refresh()

    def warn(self, message: str) -> None:
        """Under the picture."""
        self._said = message
        self._refresh()

    def close(self) -> None:
        """Leave the last picture where it is, whole."""
        self._said = ""
        if self._story is not None:
            self._live.update(Group(*self._lines(self._story, MAX_DRAWN)))
        if self._live.is_started:
            self._live.stop()
        self._live = _live(self._console)  # what is shown after this is drawn below it, and not over it

    def _refresh(self) -> None:
        if self._story is None:
            return
        if not self._live.is_started:
            self._live.start()
        limit = max(3, self._console.height - 5)
        self._live.update(Group(*self._lines(self._story, limit), Text(plain(self._said), "yellow")), refresh=True)

    def _lines(self, story: Story, limit: int) -> Iterable[Text]:
        now = self._clock.now()
        if not (lines := story.picture(now, limit, self._frame)):
            yield Text("planning …" if not story.run.ended else "", "dim")
            return
        yield from lines
        elapsed = duration(story.until(now) - story.first_at)
        yield Text(f"\n{story.counted()}, {elapsed}", "dim")


def _live(console: Console) -> Live:
    return Live(console=console, auto_refresh=False, transient=False, vertical_overflow="crop")


def happening_line(story: Story, happening: HistoryLine) -> Text:
    """A line with the time of day, the task and what happened."""
    line = Text(time_of_day(happening.entry.at), "dim").append("  ")
    if happening.task_id:
        task = story.constellation.tasks.get(happening.task_id)
        line.append(f"{plain(happening.task_id)} ", "dim")
        line.append(f"{plain(task.name)}  " if task and task.name else " ", "bold")
    return line.append(happening.text)


def json_line(record: Record) -> str:
    """A journal entry as one line of JSON."""
    body: dict[str, Any] = msgspec.json.decode(record.body)
    shown = {"run": record.run_id, "seq": record.seq, "at": record.at, "actor": record.actor, "kind": record.kind, "state": record.state}
    return json.dumps({**shown, **({"note": record.note} if record.note else {}), **body})
