"""Which secrets an answer may not have."""

from __future__ import annotations

import pytest

from asterism.engine.ports.store import InquiryRow
from asterism.engine.runtime.answer_values import check_no_secret
from asterism.errors import InvalidInput


def test_an_answer_has_no_value_for_a_secret_field() -> None:
    asked = InquiryRow(inquiry_id="run:1.0", run_id="run", prompt="PIN?", verbs=("edit",), schema='{"properties": {"pin": false}}')
    with pytest.raises(InvalidInput, match=r"asks for a secret \(pin\)"):
        check_no_secret(asked, {"pin": "1234"})
    check_no_secret(asked, {"amount": 40})
