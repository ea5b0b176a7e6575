"""What an edit of arguments changes, and which secrets an answer may not have."""

from __future__ import annotations

from typing import Any

import pytest

from asterism.constellation.profile import Skill
from asterism.errors import InvalidInput
from asterism.runtime.answer_values import check_no_secret, edited_arguments, task_of
from asterism.runtime.ports.store import InquiryRow

REFERENCE = "${secret.SHOP_TOKEN}"


PUBLISH = Skill(
    name="publish",
    parameters={
        "properties": {
            "amount": {"type": "number"},
            "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "note": {"type": "string"},
        }
    },
)


def about(arguments: Any) -> dict[str, Any]:
    return {"task_id": "publish", "device": "desk", "skill": "publish", "arguments": arguments}


def test_a_secret_that_an_edit_leaves_as_shown_stays_as_it_is() -> None:
    task = about({"price": 1050, "token": REFERENCE})
    assert edited_arguments(task, {"price": 1095, "token": REFERENCE}, None) == {"price": 1095}


@pytest.mark.parametrize("shown", [REFERENCE, {"url": "shop", "token": REFERENCE}, [f"Bearer {REFERENCE}"]])
def test_an_argument_with_a_secret_cannot_be_edited(shown: Any) -> None:
    with pytest.raises(InvalidInput, match="argument token is a secret, and answers are journaled: leave it out"):
        edited_arguments(about({"token": shown}), {"token": "sesame"}, PUBLISH)


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ({"amount": "x"}, "amount takes number, not string"),
        ({"limit": "3"}, "limit takes integer or null, not string"),
        ({"limit": 3.5}, "limit takes integer or null, not number"),
        ({"note": True}, "note takes string, not boolean"),
    ],
)
def test_a_value_of_another_type_is_refused_before_the_approval_is_used(edit: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=f"argument {why}"):
        edited_arguments(about({}), edit, PUBLISH)
    accepted = {"amount": 2, "limit": None, "note": "3", "other": "x"}
    assert edited_arguments(about({}), accepted, PUBLISH) == accepted


def test_a_question_about_a_tool_of_a_loop_is_not_about_a_task() -> None:
    subject = '{"tool": "pay", "arguments": {"token": "${secret.X}"}}'
    assert task_of(InquiryRow(inquiry_id="run:1.0", run_id="run", prompt="Call it?", verbs=("edit",), subject=subject)) is None


def test_an_answer_has_no_value_for_a_secret_field() -> None:
    asked = InquiryRow(inquiry_id="run:1.0", run_id="run", prompt="PIN?", verbs=("edit",), schema='{"properties": {"pin": false}}')
    with pytest.raises(InvalidInput, match=r"asks for a secret \(pin\)"):
        check_no_secret(asked, {"pin": "1234"})
    check_no_secret(asked, {"amount": 40})
