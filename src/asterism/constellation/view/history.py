"""The history of a constellation run: its tasks with status and waits, and the decisions about its plan."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import msgspec

from asterism.constellation.machine.events import (
    AttemptBegun,
    AttemptEnded,
    AttemptProgressed,
    AttemptQueued,
    Dispatch,
    LookAtAttempt,
)
from asterism.constellation.machine.memory import ConstellationMemory
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.resolution import failed_items
from asterism.constellation.model.task import TaskStar, TaskStatus
from asterism.constellation.view.plan_history import PlanDecision, PlanHistory
from asterism.constellation.view.task_lines import LastSign, TaskTimes, status_counts, status_lines
from asterism.constellation.view.view import ConstellationRunView
from asterism.engine.control.children import ChildEnded, StartChild
from asterism.engine.control.run_control import BatchEnded
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.run import Run
from asterism.views.delta import LogLine
from asterism.views.text.history import RunHistory
from asterism.views.text.styled_line import StyledLine
from asterism.views.view import RunView
from asterism.views.words import last_line, plain, preview


class ConstellationHistory(RunHistory):
    """The history of a constellation run; its parts are tasks.

    Attributes:
        signs: last progress report of each running task.
        waited: seconds between ready and started, by task.
        began: time when the work of a task first began, by task.
        later_decisions: decisions about the constellation after the first entry.
    """

    part_noun = "task"

    def __init__(self, view: RunView) -> None:
        super().__init__(view)
        self.signs: dict[str, LastSign] = {}
        self.waited: dict[str, float] = {}
        self.began: dict[str, float] = {}
        self._plan = PlanHistory(self.run)
        self.later_decisions = self._plan.decisions
        self._first: list[Entry] = []

    @property
    def memory(self) -> ConstellationMemory:
        """Return the memory of the agent."""
        memory: ConstellationMemory = self.run.memory
        return memory

    @property
    def constellation(self) -> TaskConstellation:
        """Return the current constellation."""
        return self.memory.constellation

    # -- status ------------------------------------------------------------------------------------

    def status_lines(self, now: float, limit: int, frame: int = 0) -> list[StyledLine]:
        """Return a line for each task with its status, progress, time and error."""
        if not self.constellation.tasks:
            return []
        times = TaskTimes(self.began, self.queued_since())
        return status_lines(self.constellation, self.signs, times, now, limit=limit, frame=frame)

    def summary(self) -> str:
        """Return the number of tasks by status."""
        return status_counts(self.constellation, self.queued_since())

    def queued_since(self) -> dict[str, float]:
        """Return the time since when each task waits in the queue of its device, for those that do."""
        return {self.part_of(effect_id): self.spans[effect_id].since for effect_id in self.memory.queued}

    def result_fields(self) -> dict[str, Any]:
        """Return the tasks as JSON data."""
        tasks = {
            task.task_id: {
                "name": task.name,
                "device": task.device,
                "status": str(task.status),
                "result": task.result,
                "error": task.error and {"code": task.error.code, "message": task.error.words},
                **self._items_of(task),
            }
            for task in self.constellation.in_order()
        }
        return {"tasks": tasks}

    def _items_of(self, task: TaskStar) -> dict[str, Any]:
        if task.items is None:
            return {}
        return {"items": msgspec.structs.asdict(task.items), "failed": failed_items(task, self.constellation)}

    def part_status(self) -> dict[str, str]:
        """Return the status of each task in words, by id."""
        return {task_id: _status_words(task) for task_id, task in self.constellation.tasks.items()}

    # -- reading -----------------------------------------------------------------------------------

    @property
    def decisions(self) -> list[PlanDecision]:
        """Return all decisions about the constellation, in order."""
        return [*self._submission, *self.later_decisions]

    @functools.cached_property
    def _submission(self) -> list[PlanDecision]:
        """Return the decision of the first entry. Made only if it is read: it lists every task that was submitted."""
        plan = PlanHistory(Run(self.run.machine, self.run.id, performs=False))
        plan.read(self._first)
        return plan.decisions

    def _read_entry(self, entry: Entry) -> Iterable[LogLine]:
        if entry.seq == 1:
            self._first = [entry]
        else:
            self._plan.before(entry)
        lines = super()._read_entry(entry)
        self._plan.after(entry)
        for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
            if isinstance(effect, Dispatch) and effect.queued:
                self.spans[effect_id].begun = None
        event = entry.event
        if isinstance(event, AttemptProgressed) and not entry.note:
            self.signs[self.part_of(event.effect_id)] = LastSign(event.fraction, last_line(event.message))
        elif isinstance(event, AttemptEnded | ChildEnded):
            self.signs.pop(self.part_of(event.effect_id), None)
        elif isinstance(event, AttemptBegun | AttemptQueued):
            self.spans[event.of].begun = entry.at if isinstance(event, AttemptBegun) else None
            self._note_begin(event.of)
            if isinstance(event, AttemptQueued) and event.reason:
                self.signs[self.part_of(event.of)] = LastSign(None, event.reason)
        elif isinstance(event, BatchEnded):  # the only event that starts tasks
            for effect_id, effect in zip(entry.effect_ids(), entry.effects, strict=True):
                if not isinstance(effect, LookAtAttempt):  # it starts none
                    self._count_wait(self.part_of(effect_id), entry.at)
                self._note_begin(effect_id)
        return lines

    def _note_begin(self, effect_id: str) -> None:
        span, part = self.spans[effect_id], self.part_of(effect_id)
        if isinstance(span.effect, Dispatch | StartChild) and span.begun is not None:
            self.began.setdefault(part, span.begun)
        elif isinstance(span.effect, Dispatch) and span.effect.number == 1:
            self.began.pop(part, None)

    def _log_lines(self, entry: Entry) -> Iterable[LogLine]:
        """Read an entry without making its rows: no constellation is drawn from them."""
        return self.view.log_entry(entry) if isinstance(self.view, ConstellationRunView) else super()._log_lines(entry)

    def _count_wait(self, task_id: str, at: float) -> None:
        task = self.constellation.tasks.get(task_id)
        if task is not None and task.status is TaskStatus.RUNNING:
            self.waited[task_id] = self.waited.get(task_id, 0.0) + max(0.0, at - task.became_pending_at)


def _status_words(task: TaskStar) -> str:
    if task.error:
        return f"{task.status} ({plain(task.error.words)})"
    return f"{task.status} ({preview(task.result)})" if task.result is not None else str(task.status)
