"""What an agent's own ``extract_fields`` has found is read nowhere else in the message."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, ClassVar

import pytest

from asterism.conversation.python import InputField, Message, StandardAgent
from tests.support.conversation_harness import talk

NUMBERS = {"4": 4, "four": 4, "12": 12}


class Table(StandardAgent):
    triggers: ClassVar[list[str]] = ["table"]
    guests: int = InputField("For how many?")
    day: dt.date = InputField("On which day?")
    chairs: int | None = InputField("How many chairs?")

    async def extract_fields(self, msg: Message) -> dict[str, Any]:
        found = re.search(r"\b(4|four|12)\b", msg.get_text())
        return {"guests": NUMBERS[found[0]]} if found else {}


@pytest.mark.parametrize("text", ["a party of 4", "we are four", "for 4, please"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_value_of_an_own_extraction_is_not_complained_about(text: str, *, is_first: bool) -> None:
    """J2: it was stored, and the reply was "I do not know what '4' is for"."""
    turn = talk(Table, *([f"table {text}"] if is_first else ["table", text]))[1][-1]
    assert (turn.fields, turn.raw_message) == ({"guests": 4}, "On which day?")


def test_other_values_of_the_message_are_read_beside_an_own_extraction() -> None:
    turn = talk(Table, "table", "4 of us on 2026-12-01")[1][-1]
    assert turn.fields == {"guests": 4, "day": "2026-12-01"}
