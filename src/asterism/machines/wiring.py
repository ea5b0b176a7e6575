"""How the task lifecycles and their constellation are coupled: a table, run to a fixed point.

A task's new status says what becomes of it on the board; a settled task gives its dependencies a
verdict; a verdict makes other tasks ready, or doomed. No machine calls another: they meet here.
The idea of coupling machines by a table is h11's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

import msgspec

from asterism.constellation import frozen as frozen_form
from asterism.constellation.condition import Condition
from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.line import DependencyType, TaskStarLine, Verdict, judge
from asterism.constellation.task import TaskStar, TaskStatus
from asterism.kernel.machine import Event, Turn
from asterism.machines.task_lifecycle import TASK_LIFECYCLE, Blocked, Unblocked


class FrozenBoard(msgspec.Struct):
    """A board as data."""

    constellation: frozen_form.FrozenConstellation
    startable: list[str]
    running: list[str]
    doomed: list[str]


class Board:
    """A constellation and where its tasks stand, each index in the order things happened.

    Attributes:
        startable: PENDING tasks.
        running: RUNNING tasks.
        doomed: editable tasks that can no longer start, until they are skipped or edited.
    """

    frozen_as: ClassVar[type[msgspec.Struct]] = FrozenBoard

    def __init__(self, constellation: TaskConstellation) -> None:
        self.constellation = constellation
        self.startable: dict[str, None] = {}
        self.running: dict[str, None] = {}
        self.doomed: dict[str, None] = {}

    def freeze(self) -> FrozenBoard:
        """It as data, for a snapshot."""
        return FrozenBoard(frozen_form.freeze(self.constellation), list(self.startable), list(self.running), list(self.doomed))

    @classmethod
    def thaw(cls, frozen: FrozenBoard) -> Board:
        """The board that was frozen."""
        board = cls(frozen_form.thaw(frozen.constellation))
        board.startable = dict.fromkeys(frozen.startable)
        board.running = dict.fromkeys(frozen.running)
        board.doomed = dict.fromkeys(frozen.doomed)
        return board

    def forget_removed(self) -> None:
        """Drop what edits have removed from the constellation."""
        for index in (self.startable, self.doomed):
            for task_id in [task_id for task_id in index if task_id not in self.constellation.tasks]:
                del index[task_id]


def _waits(board: Board, task: TaskStar) -> None:
    board.startable.pop(task.task_id, None)


def _can_start(board: Board, task: TaskStar) -> None:
    board.running.pop(task.task_id, None)
    board.startable[task.task_id] = None


def _runs(board: Board, task: TaskStar) -> None:
    board.startable.pop(task.task_id, None)
    board.running[task.task_id] = None


def _settled(board: Board, task: TaskStar) -> None:
    for index in (board.startable, board.running, board.doomed):
        index.pop(task.task_id, None)
    board.constellation.source_settled(task.task_id)


COUPLING: Mapping[TaskStatus, Callable[[Board, TaskStar], None]] = {
    TaskStatus.WAITING_DEPENDENCY: _waits,
    TaskStatus.PENDING: _can_start,
    TaskStatus.RUNNING: _runs,
    TaskStatus.COMPLETED: _settled,
    TaskStatus.FAILED: _settled,
    TaskStatus.CANCELLED: _settled,
    TaskStatus.SKIPPED: _settled,
}
"""What a task's new status means for the board."""


def move_task(board: Board, task: TaskStar, event: Event, turn: Turn) -> None:
    """Move one task by its table, then everything that follows from it."""
    target = TASK_LIFECYCLE.step(task.status, task, event, turn)
    task.status = cast("TaskStatus", target or task.status)
    turn.touched["task", task.task_id] = None
    COUPLING[task.status](board, task)
    settle(board, turn)


def settle(board: Board, turn: Turn) -> None:
    """Judge what wants a verdict and ready what can start, until nothing changes.

    Bounded: each dependency is judged once, and each verdict unsettles one task.
    """
    constellation = board.constellation
    while constellation.unjudged or constellation.restless:
        for line_id in tuple(constellation.unjudged):
            constellation.set_verdict(line_id, _verdict(constellation, constellation.lines[line_id], turn))
        for task_id in tuple(constellation.restless):
            del constellation.restless[task_id]
            _refresh(board, constellation.tasks[task_id], turn)


def _refresh(board: Board, task: TaskStar, turn: Turn) -> None:
    if not task.editable:
        return
    ready = board.constellation.is_ready(task.task_id)
    if ready != (task.status is TaskStatus.PENDING):
        event: Event = Unblocked() if ready else Blocked()
        task.status = cast("TaskStatus", TASK_LIFECYCLE.step(task.status, task, event, turn) or task.status)
        turn.touched["task", task.task_id] = None
        COUPLING[task.status](board, task)
    if board.constellation.is_doomed(task.task_id):
        board.doomed[task.task_id] = None
    else:
        board.doomed.pop(task.task_id, None)


def _verdict(constellation: TaskConstellation, line: TaskStarLine, turn: Turn) -> Verdict:
    """The verdict on a dependency; a condition's is recorded, so that a replay does not depend on the language's version."""
    source = constellation.tasks[line.source]
    if line.type is not DependencyType.CONDITIONAL:
        return judge(line, source, {})
    name = f"{line.line_id} v{constellation.version}"
    recorded = turn.recorded(name, lambda: msgspec.to_builtins(judge(line, source, _facts(constellation, line))))
    return msgspec.convert(recorded, Verdict)


def _facts(constellation: TaskConstellation, line: TaskStarLine) -> dict[str, dict[str, Any]]:
    """Status and result of the ancestors that a condition asks about."""
    asked = Condition(line.condition).task_ids
    found = [constellation.tasks[task_id] for task_id in sorted(asked) if task_id in constellation.tasks]
    return {task.task_id: {"status": str(task.status), "result": task.result} for task in found}
