"""A fork beside its origin: what became of each task here and there."""

from __future__ import annotations

from asterism.cli.story import Story
from asterism.cli.words import plain, preview
from asterism.constellation.task import TaskStar


def differences(fork: Story, origin: Story) -> list[str]:
    """One line for each task that has come to something else, or is on one side only."""
    here, there = fork.constellation.tasks, origin.constellation.tasks
    lines = []
    for task_id in dict.fromkeys((*here, *there)):
        ours, theirs = _standing(here.get(task_id)), _standing(there.get(task_id))
        if ours != theirs:
            lines.append(f"{task_id}  {ours} here, {theirs} there")
    return lines


def _standing(task: TaskStar | None) -> str:
    if task is None:
        return "absent"
    if task.error:
        return f"{task.status} ({plain(task.error.message)})"
    return f"{task.status} ({preview(task.result)})" if task.result is not None else str(task.status)
