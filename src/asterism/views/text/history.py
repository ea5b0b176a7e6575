"""The history of a run: its log lines, the times of its effects, and its status, all read from its journal.

``RunHistory`` reads a run of any machine; a form can have a history of its own, which extends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import msgspec

from asterism.engine.control.children import StartChild
from asterism.engine.control.run_control import Forked, OwnershipAcquired
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.machine import Effect, EffectResult
from asterism.engine.kernel.run import Run
from asterism.engine.ports.store import InquiryRow, RunRow
from asterism.views.delta import LogLine
from asterism.views.text.questions import folded_subject, subject_of
from asterism.views.text.styled_line import DAYTIME, StyledLine, TimeFormat
from asterism.views.view import BaseView, RunView, Shown, unread_view
from asterism.views.words import duration, plain, preview

MAX_LISTED = 60
"""Parts of a run that are listed at most."""


PartLines = Callable[[str], Iterable[StyledLine]]
"""Returns lines about a part of a run."""


class HistoryLine(LogLine, frozen=True, kw_only=True):
    """A log line with its journal entry."""

    entry: Entry


class PartEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event in the life of a part of a run, such as a task.

    Attributes:
        seq, at, actor: number, time and actor of the journal entry.
        generation: generation of the constellation.
        text: the event in words.
        because: the reasons, line by line.
    """

    seq: int
    at: float
    actor: str
    text: str
    generation: int = 0
    because: tuple[str, ...] = ()


class Span(msgspec.Struct):
    """The time of an effect, in seconds since the epoch.

    Time in which no process drove the run does not count for an effect that a process performs: ``since`` moves by it.

    Attributes:
        effect: the effect.
        since: time of the entry that issued the effect.
        until: time of its result; 0 while the effect is outstanding.
        begun: time when its work began; None for an attempt that waits, or waited, in the queue of its device.
    """

    effect: Effect
    since: float
    until: float = 0.0
    begun: float | None = None

    def move(self, by_s: float) -> None:
        """Move the times later, if the effect is outstanding and a process performs it."""
        if self.effect.performed_outside and not self.until:
            self.since += by_s
            self.begun = self.begun and self.begun + by_s


class RunHistory:
    """The history of a run of any machine, which says about its parts what the rows of its view say.

    Attributes:
        part_noun: noun for a part: a task, a step, a field.
        heading: heading of its log lines in ``detail_lines``.
        has_commands: the commands know its machine: they can follow, resume and explain it.
        retries: ``asterism retry`` runs its failed parts again.
        view: view of the run.
        run: the run, replayed up to the last entry read.
        spans: span of every effect, by effect id, in order.
        children: part of each child run, by the id of the effect that started the child.
        forked: the fork event; None if the run is not a fork.
        first_at, last_at: times of the first and the last entry.
    """

    part_noun: ClassVar[str] = "row"
    heading: ClassVar[str] = "history"
    has_commands: ClassVar[bool] = False
    retries: ClassVar[bool] = False

    def __init__(self, view: RunView) -> None:
        self.view = view
        self.run: Run[Any] = view.run
        self.spans: dict[str, Span] = {}
        self.children: dict[str, str] = {}
        self.forked: Forked | None = None
        self.first_at = self.last_at = 0.0
        self._parts: dict[str, str] = {}

    def read(self, entries: Iterable[Entry]) -> list[HistoryLine]:
        """Read the next entries; return their log lines.

        Raises:
            JournalMismatch: the entries do not match a replay.
        """
        return [HistoryLine(it.text, it.part, it.weight, entry=entry) for entry in entries for it in self._read_entry(entry)]

    def part_of(self, effect_id: str) -> str:
        """Return the part that an effect belongs to; empty for none."""
        return self._parts.get(effect_id, "")

    def until(self, now: float) -> float:
        """Return the end of the run: the time of its last entry if it has ended, else now."""
        return self.last_at if self.run.ended else max(now, self.last_at)

    # -- status ------------------------------------------------------------------------------------

    def status_lines(self, now: float, limit: int, frame: int = 0) -> list[StyledLine]:  # noqa: ARG002 - for tasks
        """Return the current status in at most ``limit`` lines; ``frame`` counts the frames of an animation."""
        return last_lines([StyledLine(f"  {plain(part)}  ").append(status) for part, status in self.part_status().items()], limit)

    def summary(self) -> str:
        """Return the current status in one line."""
        return str(self.run.state)

    def result_fields(self) -> dict[str, Any]:
        """Return the machine's own fields of the JSON result."""
        return {"rows": self.view.rows}

    def part_status(self) -> dict[str, str]:
        """Return the status of each part in words, by id."""
        return {row_id: preview(row) for row_id, row in self.view.rows.items() if row_id != "run"}

    def part_name(self, part: str) -> str:  # noqa: ARG002 - for parts with names
        """Return the name of a part; empty for one that has only its id."""
        return ""

    def failed_part(self) -> str:
        """Return the failed part that explains the end of the run best; empty for none."""
        return ""

    def start_lines(self, row: RunRow) -> Iterable[StyledLine]:  # noqa: ARG002 - for machines with more to say
        """Return lines about what the run was started with."""
        return ()

    def nested_lines(self, _lines: Iterable[HistoryLine], now: float, _local_time: TimeFormat, _below: PartLines) -> Iterable[StyledLine]:
        """Return the lines about the run below the part that has started it."""
        return self.status_lines(now, MAX_LISTED)

    def detail_lines(self, lines: Iterable[HistoryLine], now: float, local_time: TimeFormat, _below: PartLines) -> Iterable[StyledLine]:
        """Return the log lines of the run's events, and its metrics.

        Args:
            lines: the log lines.
            now: seconds since the epoch.
            local_time: format of times.
            _below: returns the lines about the child runs of a part.
        """
        found = [StyledLine(self.heading, "bold")]
        for it in lines:
            if it.weight == "event":
                what = f"{plain(it.part)}  {it.text}" if it.part else it.text
                found.append(StyledLine(f"  {local_time(it.entry.at, DAYTIME)}  ", "dim").append(what))
        return found + self._metric_lines(self.summary(), now)

    def subject_lines(self, question: InquiryRow) -> list[str]:
        """Return the subject of an open question in short."""
        return folded_subject(subject_of(question))

    def data_fields(self, now: float, states: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: ARG002 - for machines with more data
        """Return the machine's own fields of the JSON data that ``show`` prints; ``states`` is the history of its states."""
        return {"states": states}

    # -- why ---------------------------------------------------------------------------------------

    def events_of(self, part: str, lines: Iterable[HistoryLine]) -> list[PartEvent]:
        """Return the events of a part in order, from the log lines of the run; empty if it never existed."""
        return [
            PartEvent(seq=it.entry.seq, at=it.entry.at, actor=it.entry.actor, text=it.text, because=because)
            for it in lines
            if it.part == part and (because := self.reasons(it)) is not None
        ]

    def reasons(self, it: HistoryLine) -> tuple[str, ...] | None:
        """Return the reasons behind what a log line says about its part; None if it is no event of the part."""
        return () if it.weight == "event" else None

    def standing(self, part: str) -> str:
        """Return the current status of a part in words, with the reason."""
        return self.part_status().get(part, "no longer part of the run")

    def _metric_lines(self, words: str, now: float) -> list[StyledLine]:
        return [
            StyledLine(),
            StyledLine("metrics", "bold"),
            StyledLine(f"  {words}; wall time {duration(self.until(now) - self.first_at)}"),
        ]

    # -- reading -----------------------------------------------------------------------------------

    def _read_entry(self, entry: Entry) -> Iterable[LogLine]:
        event = entry.event
        idle_s = entry.at - self.last_at if isinstance(event, OwnershipAcquired) else 0.0
        self.first_at, self.last_at = self.first_at or entry.at, entry.at
        if isinstance(event, EffectResult):
            if event.effect_id in self.spans and not entry.note:
                self.spans[event.effect_id].until = entry.at
        elif isinstance(event, Forked):
            self.forked = event
        elif isinstance(event, OwnershipAcquired):
            for span in self.spans.values():
                span.move(idle_s)
        lines = self._log_lines(entry)
        view = self.view if isinstance(self.view, BaseView) else None
        for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
            self.spans[effect_id] = Span(effect, entry.at, begun=entry.at)
            self._parts[effect_id] = part = view.part_of(effect_id, effect) if view else ""
            if isinstance(effect, StartChild):
                self.children[effect_id] = part
        return lines

    def _log_lines(self, entry: Entry) -> Iterable[LogLine]:
        """Read an entry with the view; return its log lines."""
        [delta] = self.view.read([entry])
        return delta.lines


def unread_history(form: Shown, run_id: str) -> RunHistory:
    """Return the history of a run before its first entry."""
    history: RunHistory = (form.history_class or RunHistory)(unread_view(form, run_id))
    return history


def history_line(it: HistoryLine, local_time: TimeFormat) -> StyledLine:
    """Return a log line below its part, with time of day and actor."""
    return StyledLine(f"      {local_time(it.entry.at, DAYTIME)}  ", "dim").append(it.text).append(f"  ({plain(it.entry.actor)})", "dim")


def last_lines(lines: list[StyledLine], limit: int) -> list[StyledLine]:
    """Return the last lines, below a line with the number of omitted ones."""
    return lines if len(lines) <= limit else [StyledLine(f"… {len(lines) - limit} more above", "dim"), *lines[-limit:]]


def differences(fork: RunHistory, origin: RunHistory) -> list[str]:
    """Return a line for each part whose status differs, or which only one of the runs has."""
    here, there = fork.part_status(), origin.part_status()
    lines = []
    for part in dict.fromkeys((*here, *there)):
        ours, theirs = here.get(part, "absent"), there.get(part, "absent")
        if ours != theirs:
            lines.append(f"{part}  {ours} here, {theirs} there")
    return lines


def log_line(history: RunHistory, it: HistoryLine, local_time: TimeFormat) -> StyledLine:
    """Return a log line with the time of day and the part that it is about."""
    line = StyledLine(local_time(it.entry.at, DAYTIME), "dim").append("  ")
    if it.part:
        name = history.part_name(it.part)
        line.append(f"{plain(it.part)} ", "dim")
        line.append(f"{plain(name)}  " if name else " ", "bold")
    return line.append(it.text)


def why_lines(task_id: str, status: str, reasons: list[PartEvent], local_time: TimeFormat) -> Iterator[StyledLine]:
    """Yield the lines about a part: its status, and its events with their reasons."""
    yield StyledLine(f"{plain(task_id)}: ", "bold").append(status)
    generation = reasons[0].generation
    for reason in reasons:
        if reason.generation != generation:
            generation = reason.generation
            yield StyledLine(f"  plan {generation + 1} of this run", "bold")
        line = StyledLine(f"  #{reason.seq} {local_time(reason.at, DAYTIME)}  ", "dim").append(reason.text)
        yield line.append(f"  ({plain(reason.actor)})", "dim")
        yield from (StyledLine(f"      {text}") for text in reason.because)
