"""The story of a constellation: its tasks and what came of them."""

from __future__ import annotations

from typing import Any

import msgspec
from rich.text import Text

from asterism.cli.stories.picture import Sign, count_words, status_lines
from asterism.cli.stories.story import Story
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


class ConstellationStory(Story):
    """A run of a constellation agent as far as it has been read; its parts are tasks.

    Attributes:
        signs: the last sign of life, by task.
        waited: seconds between being able to start and starting, by task.
    """

    def __init__(self, machine: Machine[ConstellationMemory], run_id: str) -> None:
        super().__init__(machine, run_id)
        self.signs: dict[str, Sign] = {}
        self.waited: dict[str, float] = {}

    @property
    def memory(self) -> ConstellationMemory:
        """What the agent remembers."""
        memory: ConstellationMemory = self.run.memory
        return memory

    @property
    def constellation(self) -> TaskConstellation:
        """The current one."""
        return self.memory.constellation

    # -- how it stands -----------------------------------------------------------------------------

    def picture(self, now: float, limit: int, frame: int = 0) -> list[Text]:
        """Each task with its status, its progress, its time, and why."""
        return status_lines(self.constellation, self.signs, now, limit=limit, frame=frame) if self.constellation.tasks else []

    def counted(self) -> str:
        """How many tasks have come to what."""
        return count_words(self.constellation)

    def outcome(self) -> dict[str, Any]:
        """The tasks, for programs."""
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

    def standing(self) -> dict[str, str]:
        """What each task has come to, by its id."""
        return {task_id: _standing(task) for task_id, task in self.constellation.tasks.items()}

    # -- reading -----------------------------------------------------------------------------------

    def _after(self, entry: Entry) -> None:
        event = entry.event
        if isinstance(event, AttemptProgressed) and not entry.note:
            self.signs[self.part_of(event.effect_id)] = Sign(event.fraction, last_line(event.message))
        elif isinstance(event, AttemptEnded | ChildEnded):
            self.signs.pop(self.part_of(event.effect_id), None)
        elif isinstance(
            event, BatchEnded
        ):  # only it starts tasks; a question that comes with another event is about an attempt that was made
            for effect_id in entry.effect_ids():
                self._count_wait(self.part_of(effect_id), entry.at)

    def _count_wait(self, task_id: str, at: float) -> None:
        task = self.constellation.tasks.get(task_id)
        if task is not None and task.status is TaskStatus.RUNNING:
            self.waited[task_id] = self.waited.get(task_id, 0.0) + max(0.0, at - task.became_pending_at)


def _standing(task: TaskStar) -> str:
    if task.error:
        return f"{task.status} ({plain(task.error.message)})"
    return f"{task.status} ({preview(task.result)})" if task.result is not None else str(task.status)
