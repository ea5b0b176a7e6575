"""Reporters show the progress of a run: in a terminal, in a pipe, or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from asterism.cli.output import complain, put, put_line, time_of_day
from asterism.cli.rendering.renderer import HistoryLine, RunRenderer
from asterism.cli.rendering.task_lines import plan_lines
from asterism.kernel.journal import Record
from asterism.runtime.clock import Clock
from asterism.views.words import duration, plain

FRAME_S = 0.2
"""Shortest time between two frames, in seconds."""
QUIET_S = 5.0
"""Shortest time between two progress lines of a task in a pipe, in seconds."""
MAX_DRAWN = 60
"""Lines of a drawing in a pipe, or of the last frame."""


class Update(msgspec.Struct, frozen=True):
    """New records and their log lines (none if only time has passed), and the renderer of the run.

    Attributes:
        renderer: has read the records.
        records: records that are new since the last update.
        history: log lines of these records.
    """

    renderer: RunRenderer
    records: Sequence[Record] = ()
    history: Sequence[HistoryLine] = ()


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
    """Reporter in plain lines, one for each event of the run."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progressed: dict[str, float] = {}
        self._drawn = -1

    def show(self, update: Update) -> None:
        """Print each plan once, and a line for each event."""
        constellation = update.renderer.constellation
        if constellation.tasks and constellation.generation != self._drawn:
            self._drawn = constellation.generation
            for line in plan_lines(constellation) if len(constellation.tasks) <= MAX_DRAWN else []:
                put_line(self._console, Text("    ").append_text(line))
        for it in update.history:
            if it.weight == "event" or (it.weight == "progress" and not self._too_soon(it)):
                put_line(self._console, log_line(update.renderer, it))

    def warn(self, message: str) -> None:
        """Print a message to standard error."""
        complain(message)

    def close(self) -> None:
        """Do nothing; there is nothing to close."""

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
        self._renderer: RunRenderer | None = None
        self._shown_at = 0.0
        self._warning = ""
        self._frame = 0

    def show(self, update: Update) -> None:
        """Draw the next frame, unless the last one is less than ``FRAME_S`` old."""
        self._renderer = update.renderer
        now = self._clock.now()
        if now - self._shown_at >= FRAME_S:
            self._shown_at = now
            self._frame += 1
            self._refresh()

    def warn(self, message: str) -> None:
        """Show a message below the display."""
        self._warning = message
        self._refresh()

    def close(self) -> None:
        """Draw the last frame in full and leave it on the screen."""
        self._warning = ""
        if self._renderer is not None:
            self._live.update(Group(*self._lines(self._renderer, MAX_DRAWN)))
        if self._live.is_started:
            self._live.stop()
        self._live = _live(self._console)  # later output goes below the last frame

    def _refresh(self) -> None:
        if self._renderer is None:
            return
        if not self._live.is_started:
            self._live.start()
        limit = max(3, self._console.height - 5)
        self._live.update(Group(*self._lines(self._renderer, limit), Text(plain(self._warning), "yellow")), refresh=True)

    def _lines(self, renderer: RunRenderer, limit: int) -> Iterable[Text]:
        now = self._clock.now()
        if not (lines := renderer.render(now, limit, self._frame)):
            yield Text("planning …" if not renderer.run.ended else "", "dim")
            return
        yield from lines
        elapsed = duration(renderer.until(now) - renderer.first_at)
        yield Text(f"\n{renderer.summary_line()}, {elapsed}", "dim")


def _live(console: Console) -> Live:
    return Live(console=console, auto_refresh=False, transient=False, vertical_overflow="crop")


def log_line(renderer: RunRenderer, it: HistoryLine) -> Text:
    """Return a line with the time of day, the task and the event."""
    line = Text(time_of_day(it.entry.at), "dim").append("  ")
    if it.part:
        task = renderer.constellation.tasks.get(it.part)
        line.append(f"{plain(it.part)} ", "dim")
        line.append(f"{plain(task.name)}  " if task and task.name else " ", "bold")
    return line.append(it.text)


def json_line(record: Record) -> str:
    """Return a journal entry as one line of JSON."""
    body: dict[str, Any] = msgspec.json.decode(record.body)
    shown = {"run": record.run_id, "seq": record.seq, "at": record.at, "actor": record.actor, "kind": record.kind, "state": record.state}
    return json.dumps({**shown, **({"note": record.note} if record.note else {}), **body})
