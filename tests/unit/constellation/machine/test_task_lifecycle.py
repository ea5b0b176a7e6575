from __future__ import annotations

import itertools
from typing import Any

import pytest

from asterism.constellation.machine.task_lifecycle import (
    TASK_LIFECYCLE,
    Blocked,
    Completed,
    Continued,
    Failed,
    Released,
    Retried,
    Skipped,
    Started,
    Stopped,
    Unblocked,
)
from asterism.constellation.model.task import EDITABLE, SETTLED, TaskStar, TaskStatus
from asterism.devices.model.attempt import TaskError
from asterism.engine.kernel.machine import Event, StepContext
from asterism.errors import IllegalTransition

EDGES = {
    "WAITING_DEPENDENCY": {"PENDING", "SKIPPED", "FAILED", "CANCELLED"},
    "PENDING": {"WAITING_DEPENDENCY", "RUNNING", "SKIPPED", "FAILED", "CANCELLED"},
    "RUNNING": {"COMPLETED", "FAILED", "CANCELLED", "PENDING"},
    "COMPLETED": set(),
    "FAILED": set(),
    "CANCELLED": set(),
    "SKIPPED": set(),
}
ERROR = TaskError(code="raised", message="boom")


def step(task: TaskStar, event: Event, at: float = 5.0) -> TaskStar:
    context = StepContext(run_id="r", seq=1, at=at, actor="me", state=task.status)
    task.status = TaskStatus(TASK_LIFECYCLE.step(task.status, task, event, context) or task.status)
    assert not context.effects
    return task


def star(status: str, **fields: Any) -> TaskStar:
    return TaskStar(task_id="t", status=TaskStatus(status), **fields)


@pytest.mark.parametrize(("state", "target"), list(itertools.product(TaskStatus, TaskStatus)))
def test_each_pair_of_states(state: TaskStatus, target: TaskStatus) -> None:
    assert (target in TASK_LIFECYCLE.matrix()[state]) == (target in EDGES[state])


def test_settled_is_terminal_and_only_what_has_not_started_is_editable() -> None:
    assert {state for state in TaskStatus if TASK_LIFECYCLE.is_terminal(state)} == SETTLED
    assert {"PENDING", "WAITING_DEPENDENCY"} == EDITABLE
    for state in TaskStatus:
        assert star(state).editable == (state in EDITABLE)
        assert star(state).settled == (state in SETTLED)


@pytest.mark.parametrize("state", sorted(SETTLED))
def test_a_settled_task_accepts_no_event(state: TaskStatus) -> None:
    with pytest.raises(IllegalTransition, match="accepted: nothing"):
        step(star(state), Completed(result=1))


def test_a_task_goes_from_waiting_to_completed() -> None:
    task = star("WAITING_DEPENDENCY")
    step(task, Unblocked(), at=1.0)
    step(task, Started(effect_id="e"), at=2.0)
    assert (task.status, task.effect_id, task.attempts) == (TaskStatus.RUNNING, "e", 1)
    step(task, Completed(result={"x": 1}), at=3.0)
    assert (task.status, task.result, task.effect_id, task.error) == (TaskStatus.COMPLETED, {"x": 1}, "", None)
    assert (task.became_pending_at, task.started_at, task.ended_at) == (1.0, 2.0, 3.0)


def test_a_task_that_is_ready_may_be_blocked_again() -> None:
    assert step(star("PENDING"), Blocked()).status is TaskStatus.WAITING_DEPENDENCY


def test_a_question_to_a_person_is_running_but_no_attempt() -> None:
    task = step(star("PENDING"), Started(effect_id="q", inquiry_id="q"))
    assert (task.status, task.inquiry_id, task.attempts) == (TaskStatus.RUNNING, "q", 0)
    step(task, Released(), at=7.0)
    assert (task.status, task.effect_id, task.inquiry_id, task.became_pending_at) == (TaskStatus.PENDING, "", "", 7.0)


def test_a_retry_waits_and_the_next_attempt_is_counted() -> None:
    task = step(star("PENDING"), Started(effect_id="e"), at=2.0)
    step(task, Retried(error=ERROR, not_before=9.0), at=3.0)
    assert (task.status, task.error, task.not_before, task.effect_id) == (TaskStatus.PENDING, ERROR, 9.0, "")
    step(task, Started(effect_id="e2"), at=9.0)
    assert (task.attempts, task.error, task.started_at) == (2, None, 2.0)


def test_an_interrupted_attempt_goes_on_as_a_question() -> None:
    task = step(star("PENDING"), Started(effect_id="e"))
    step(task, Continued(effect_id="q", inquiry_id="q"))
    assert (task.status, task.effect_id, task.inquiry_id, task.attempts) == (TaskStatus.RUNNING, "q", "q", 1)


@pytest.mark.parametrize(
    ("event", "state"), [(Failed(error=ERROR), "FAILED"), (Stopped(error=ERROR), "CANCELLED"), (Skipped(error=ERROR), "SKIPPED")]
)
def test_a_task_that_did_not_complete_keeps_its_reason(event: Event, state: str) -> None:
    task = step(star("PENDING"), event, at=4.0)
    assert (task.status, task.error, task.ended_at) == (state, ERROR, 4.0)


def test_a_running_task_cannot_be_skipped() -> None:
    with pytest.raises(IllegalTransition):
        step(star("RUNNING"), Skipped(error=ERROR))
