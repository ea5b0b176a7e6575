"""The structure keeps its bounds."""

from __future__ import annotations

from tests.architecture.measures import FORMS, arrows, lines


def test_the_rooms_and_their_arrows_are_few_and_the_engine_imports_no_form() -> None:
    found = arrows()
    assert len(lines()) <= 17
    assert len(found) <= 115
    assert not [arrow for arrow in found if arrow[0] == "engine" and arrow[1] in (*FORMS, "devices", "words", "views")]
