"""What ``show`` and ``why`` print about a constellation: its tasks, its metrics, and the decisions on its plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from asterism.constellation.machine.events import Dispatch, Edited
from asterism.constellation.model.task import TaskStatus
from asterism.constellation.view.history import ConstellationHistory
from asterism.constellation.view.metrics import measure
from asterism.constellation.view.plan_history import decision_words, usage_words
from asterism.constellation.view.proposals import proposal_lines, subject_of
from asterism.constellation.view.task_details import metric_lines, task_lines
from asterism.constellation.view.why import task_events, task_status_words
from asterism.engine.kernel.journal import Entry
from asterism.views.text.history import MAX_LISTED, HistoryLine, PartLines
from asterism.views.text.rows import OpenQuestion, RunSummary
from asterism.views.text.styled_line import DAYTIME, StyledLine, TimeFormat
from asterism.views.text.why import PartEvent
from asterism.views.words import count, plain, preview


class ShownConstellation(ConstellationHistory):
    """The history of a constellation run, as it is shown."""

    has_commands = True
    retries = True

    def part_name(self, part: str) -> str:
        """Return the name of a task."""
        task = self.constellation.tasks.get(part)
        return task.name if task else ""

    def failed_part(self) -> str:
        """Return the first failed task."""
        tasks = self.constellation.in_order()
        return next((task.task_id for task in tasks if task.status is TaskStatus.FAILED and task.role == "task"), "")

    def start_lines(self, row: RunSummary) -> Iterator[StyledLine]:
        """Yield lines about the parameters and the fleet of a run, its earlier rounds and the limit at which it has paused."""
        memory = self.memory
        if memory.params:
            yield StyledLine(f"parameters {preview(memory.params)}", "dim")
        if memory.fleet_file:
            yield StyledLine(f"fleet {plain(memory.fleet_file)}", "dim")
        if memory.previous_rounds:
            before = ", ".join(str(earlier.get("run", "")) for earlier in memory.previous_rounds)
            yield StyledLine(f"session {plain(row.session)}: follows {plain(before)}", "dim")
        if memory.limit:
            yield StyledLine(f"paused at a limit: {plain(memory.limit)}", "yellow")

    def nested_lines(self, lines: Iterable[HistoryLine], now: float, local_time: TimeFormat, below: PartLines) -> Iterator[StyledLine]:
        """Yield the lines about each task, below the task that has started the run."""
        return task_lines(self, lines, measure(self, now), local_time, below)

    def detail_lines(self, lines: Iterable[HistoryLine], now: float, local_time: TimeFormat, below: PartLines) -> Iterator[StyledLine]:
        """Yield the lines about each task, the metrics and the decisions on the plan."""
        metrics = measure(self, now)
        yield from (StyledLine("tasks", "bold"), *task_lines(self, lines, metrics, local_time, below))
        yield from (StyledLine(), StyledLine("metrics", "bold"), *metric_lines(metrics))
        yield from _planning_lines(self, local_time)

    def subject_lines(self, question: OpenQuestion) -> list[str]:
        """Return the subject of an open question in short: a proposal as a graph or as changes."""
        return proposal_lines(subject_of(question))

    def data_fields(self, now: float, states: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the plan, its metrics and the decisions on it as JSON data."""
        memory, plan = self.memory, self.constellation
        return {
            "states": [{**state, "constellation_id": plan.constellation_id} for state in states],
            "params": memory.params,
            "constellation": plan.shown(),
            "metrics": msgspec.to_builtins(measure(self, now)),
            "planning": [decision.shown() for decision in self.decisions],
            "usage": {"questions": memory.asks, "tokens": memory.used.tokens, **msgspec.to_builtins(memory.used)},
            "limit": str(memory.limit),
            "earlier": [earlier.get("run", "") for earlier in memory.previous_rounds],
        }

    # -- why ---------------------------------------------------------------------------------------

    def events_of(self, part: str, lines: Iterable[HistoryLine]) -> list[PartEvent]:
        """Return the events of a task, and those that changed its plan; of an item, also how its task came to be."""
        lines = list(lines)
        events = task_events(part, self, super().events_of(part, lines))
        item = self.constellation.tasks.get(part)
        if item is not None and item.item_of:
            first = min((it.seq for it in events), default=0)
            events[:0] = [it for it in self.events_of(item.item_of, lines) if not first or it.seq <= first][-1:]
        return events

    def explains(self, it: HistoryLine) -> bool:
        """Return True for events; a decision has the reasons behind an edit."""
        return super().explains(it) and not isinstance(it.entry.event, Edited)

    def reasons(self, part: str, entry: Entry) -> tuple[str, ...]:
        """Return the arguments of attempts."""
        given = [it for it in entry.effects if isinstance(it, Dispatch) and it.task_id == part and it.arguments]
        return tuple(f"arguments: {preview(it.arguments, 500)}" for it in given)

    def standing(self, part: str) -> str:
        """Return the current status of a task in words, with the reason."""
        return task_status_words(self, part)


def _planning_lines(history: ConstellationHistory, local_time: TimeFormat) -> Iterator[StyledLine]:
    """Yield lines about the decisions on the constellation; none for a submitted plan that was never changed."""
    listed, memory = history.later_decisions, history.memory
    if not listed:
        return
    yield from (StyledLine(), StyledLine("planning", "bold"))
    for decision in listed[:MAX_LISTED]:
        head, *more = decision_words(decision)
        line = StyledLine(f"  #{decision.seq} {local_time(decision.at, DAYTIME)}  ", "dim").append(head)
        yield line.append(f"  ({plain(decision.actor)})", "dim")
        yield from (StyledLine(f"      {text}") for text in more)
    if len(listed) > MAX_LISTED:
        yield StyledLine(f"  and {count(len(listed) - MAX_LISTED, 'decision')} more; --json has all", "dim")
    if memory.asks:
        used = usage_words(memory.used)
        yield StyledLine(f"  total: {count(memory.asks, 'question')}{f', {used}' if used else ''}")
