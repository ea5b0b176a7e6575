from __future__ import annotations

from typing import Any

import pytest

from asterism.constellation.model.line import TRUTH_TABLE, DependencyType, Evaluation, TaskStarLine, evaluate
from asterism.constellation.model.task import SETTLED, TaskStar, TaskStatus


def verdict(kind: str, status: TaskStatus, condition: str = "", result: Any = None) -> Evaluation:
    line = TaskStarLine(line_id="a->b", source="a", target="b", type=DependencyType(kind), condition=condition)
    return evaluate(line, TaskStar(task_id="a", status=status, result=result), {})


@pytest.mark.parametrize(
    ("kind", "status", "satisfied"),
    [
        ("UNCONDITIONAL", "COMPLETED", True),
        ("UNCONDITIONAL", "FAILED", True),
        ("UNCONDITIONAL", "SKIPPED", True),
        ("UNCONDITIONAL", "CANCELLED", True),
        ("SUCCESS_ONLY", "COMPLETED", True),
        ("SUCCESS_ONLY", "FAILED", False),
        ("SUCCESS_ONLY", "SKIPPED", False),
        ("SUCCESS_ONLY", "CANCELLED", False),
        ("COMPLETION_ONLY", "COMPLETED", True),
        ("COMPLETION_ONLY", "FAILED", True),
        ("COMPLETION_ONLY", "SKIPPED", False),
        ("COMPLETION_ONLY", "CANCELLED", False),
    ],
)
def test_each_cell_of_the_truth_table(kind: str, status: str, *, satisfied: bool) -> None:
    found = verdict(kind, TaskStatus(status))
    assert (found.satisfied, str(found.reason)) == (satisfied, "" if satisfied else f"a is {status}")


@pytest.mark.parametrize(
    ("status", "condition", "satisfied"),
    [
        ("COMPLETED", "accuracy > 0.9", True),
        ("COMPLETED", "accuracy > 0.99", False),
        ("COMPLETED", 'status == "COMPLETED"', True),
        ("COMPLETED", 'status == "FAILED"', False),
        ("FAILED", "accuracy > 0.9", False),
        ("FAILED", "true", False),
        ("FAILED", 'status == "FAILED"', True),
        ("FAILED", 'status == "COMPLETED"', False),
        ("FAILED", 'status == "FAILED" || accuracy > 0.9', True),
        ("SKIPPED", "true", False),
        ("SKIPPED", 'status == "SKIPPED"', False),
        ("CANCELLED", 'status == "CANCELLED"', False),
    ],
)
def test_each_cell_of_a_condition(status: str, condition: str, *, satisfied: bool) -> None:
    assert verdict("CONDITIONAL", TaskStatus(status), condition, {"accuracy": 0.95}).satisfied is satisfied


def test_the_truth_table_answers_for_every_settled_status() -> None:
    assert {kind: set(row) for kind, row in TRUTH_TABLE.items()} == {
        kind: set(SETTLED) for kind in DependencyType if kind is not DependencyType.CONDITIONAL
    }


def test_a_condition_that_is_not_met_says_why() -> None:
    unmet = verdict("CONDITIONAL", TaskStatus.COMPLETED, "accuracy > 0.95", {"accuracy": 0.92})
    assert (unmet.satisfied, str(unmet.reason)) == (False, "accuracy > 0.95 is false: accuracy is 0.92")
    assert str(verdict("CONDITIONAL", TaskStatus.FAILED, "accuracy > 0.95").reason) == "a is FAILED"
