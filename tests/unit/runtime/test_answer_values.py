"""What an edit of arguments changes, and which secrets an answer may not have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from asterism.errors import InvalidInput
from asterism.runtime.answer_values import check_no_secret, edited_arguments
from asterism.runtime.ports.store import InquiryRow

REFERENCE = "${secret.SHOP_TOKEN}"


def question(arguments: Any, **more: Any) -> InquiryRow:
    subject = {"task_id": "publish", "arguments": arguments, **more}
    return InquiryRow(inquiry_id="run:1.0", run_id="run", prompt="Run publish?", verbs=("approve", "edit"), subject=json.dumps(subject))


def test_a_secret_that_an_edit_leaves_as_shown_stays_as_it_is() -> None:
    asked = question({"price": 1050, "token": REFERENCE})
    assert edited_arguments(asked, {"price": 1095, "token": REFERENCE}) == {"price": 1095}


@pytest.mark.parametrize("shown", [REFERENCE, {"url": "shop", "token": REFERENCE}, [f"Bearer {REFERENCE}"]])
def test_an_argument_with_a_secret_cannot_be_edited(shown: Any) -> None:
    with pytest.raises(InvalidInput, match="argument token is a secret, and answers are journaled: leave it out"):
        edited_arguments(question({"token": shown}), {"token": "sesame"})


def test_an_edit_of_other_things_than_the_arguments_of_a_task_is_not_changed() -> None:
    asked = InquiryRow(
        inquiry_id="run:1.0",
        run_id="run",
        prompt="Call it?",
        verbs=("edit",),
        subject='{"tool": "pay", "arguments": {"token": "${secret.X}"}}',
    )
    assert edited_arguments(asked, {"token": "${secret.X}"}) == {"token": "${secret.X}"}


def test_an_answer_has_no_value_for_a_secret_field() -> None:
    asked = InquiryRow(inquiry_id="run:1.0", run_id="run", prompt="PIN?", verbs=("edit",), schema='{"properties": {"pin": false}}')
    with pytest.raises(InvalidInput, match=r"asks for a secret \(pin\)"):
        check_no_secret(asked, {"pin": "1234"})
    check_no_secret(asked, {"amount": 40})
