"""The structure keeps its bounds."""

from __future__ import annotations

from tests.architecture.measures import FORMS, arrows, lines, places_that_ask_for_the_form, rooms_in_a_circle, structs_of_an_attempt


def test_the_rooms_and_their_arrows_are_few_and_the_engine_imports_no_form() -> None:
    found = arrows()
    assert len(lines()) <= 17
    assert len(found) <= 115
    assert not [arrow for arrow in found if arrow[0] == "engine" and arrow[1] in (*FORMS, "devices", "words", "views")]


def test_only_the_rooms_that_list_the_forms_ask_which_form_a_run_has() -> None:
    assert places_that_ask_for_the_form() == []


def test_no_room_imports_itself_through_others() -> None:
    assert rooms_in_a_circle() == []


def test_the_fields_of_an_attempt_are_written_once() -> None:
    assert structs_of_an_attempt() == ["devices/model/attempt.py:AttemptFields"]
