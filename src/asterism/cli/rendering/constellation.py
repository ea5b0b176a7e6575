"""The renderer of a constellation: its tasks, their status and their results."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.text import Text

from asterism.cli.rendering.renderer import RunRenderer
from asterism.cli.rendering.task_lines import LastSign, status_counts, status_lines
from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.task import TaskStar, TaskStatus
from asterism.kernel.journal import Entry
from asterism.kernel.machine import Machine
from asterism.machines.children import ChildEnded
from asterism.machines.constellation_agent.events import (
    AttemptEnded,
    AttemptProgressed,
)
from asterism.machines.constellation_agent.memory import ConstellationMemory
from asterism.machines.run_control import BatchEnded
from asterism.views.words import last_line, plain, preview


class ConstellationRenderer(RunRenderer):
    """Renderer of a constellation run; its parts are tasks.

    Attributes:
        signs: last progress report of each running task.
        waited: seconds between ready and started, by task.
    """

    def __init__(self, machine: Machine[ConstellationMemory], run_id: str) -> None:
        super().__init__(machine, run_id)
        self.signs: dict[str, LastSign] = {}
        self.waited: dict[str, float] = {}

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

    def render(self, now: float, limit: int, frame: int = 0) -> list[Text]:
        """Return a line for each task with its status, progress, time and error."""
        return status_lines(self.constellation, self.signs, now, limit=limit, frame=frame) if self.constellation.tasks else []

    def summary_line(self) -> str:
        """Return the number of tasks by status."""
        return status_counts(self.constellation)

    def result_fields(self) -> dict[str, Any]:
        """Return the tasks as JSON data."""
        tasks = {
            task.task_id: {
                "name": task.name,
                "device": task.device,
                "status": str(task.status),
                "result": task.result,
                "error": msgspec.to_builtins(task.error),
            }
            for task in self.constellation.in_order()
        }
        return {"tasks": tasks}

    def part_status(self) -> dict[str, str]:
        """Return the status of each task in words, by id."""
        return {task_id: _status_words(task) for task_id, task in self.constellation.tasks.items()}

    # -- reading -----------------------------------------------------------------------------------

    def _entry_read(self, entry: Entry) -> None:
        event = entry.event
        if isinstance(event, AttemptProgressed) and not entry.note:
            self.signs[self.part_of(event.effect_id)] = LastSign(event.fraction, last_line(event.message))
        elif isinstance(event, AttemptEnded | ChildEnded):
            self.signs.pop(self.part_of(event.effect_id), None)
        elif isinstance(event, BatchEnded):  # the only event that starts tasks
            for effect_id in entry.effect_ids():
                self._count_wait(self.part_of(effect_id), entry.at)

    def _count_wait(self, task_id: str, at: float) -> None:
        task = self.constellation.tasks.get(task_id)
        if task is not None and task.status is TaskStatus.RUNNING:
            self.waited[task_id] = self.waited.get(task_id, 0.0) + max(0.0, at - task.became_pending_at)


def _status_words(task: TaskStar) -> str:
    if task.error:
        return f"{task.status} ({plain(task.error.message)})"
    return f"{task.status} ({preview(task.result)})" if task.result is not None else str(task.status)
