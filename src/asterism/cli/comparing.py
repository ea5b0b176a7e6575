"""What became of each task, in words; to set a fork beside its origin."""

from __future__ import annotations

from asterism.cli.story import Story
from asterism.cli.words import plain, preview
from asterism.constellation.task import TaskStar


def standings(story: Story) -> dict[str, str]:
    """What each task has come to, by its id."""
    return {task_id: _standing(task) for task_id, task in story.constellation.tasks.items()}


def _standing(task: TaskStar) -> str:
    if task.error:
        return f"{task.status} ({plain(task.error.message)})"
    return f"{task.status} ({preview(task.result)})" if task.result is not None else str(task.status)
