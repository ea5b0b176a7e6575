"""What words mean, however many there are of them."""

from __future__ import annotations

import pytest

from asterism.words.reading import replies
from asterism.words.reading.chart import Chart
from asterism.words.reading.setting import Setting

LABELS = {"name": "name", "pin": "pin"}


@pytest.mark.parametrize("part", ["no ", "sorry, ", " ", "\n", "a ", "no, ", "is ", "'", "change ", "no because ", "yes. ", "the "])
def test_a_long_message_is_no_wish_and_no_answer(part: str) -> None:
    for text in (part * 3000 + "make", "x is a" + part * 3000 + "b", "a" + part * 3000 + "b"):
        assert replies.answer_of(text) is None
        assert replies.denial(text) is None
        assert replies.intent_of(text) == ""
        assert replies.change_of(text, LABELS) is None
        replies.mentions_value(text, "a pin")


@pytest.mark.parametrize("part", ["no ", "sorry, ", "one ", "the 3rd of ", "in 5 ", "12/3 "])
def test_a_message_is_read_in_steps_that_grow_with_its_length(part: str) -> None:
    steps = []
    for count in (10, 20):
        chart = Chart(part * count, Setting())
        for at in range(len(chart.tokens)):
            for table in ("date", "time", "duration"):
                list(chart.grammar(table, at))
        steps.append(chart.steps)
    assert steps[1] <= 3 * steps[0] + 50


@pytest.mark.parametrize(
    ("said", "change"),
    [
        ("actually the  name is\tAnn Lee", ("name", "Ann Lee")),
        ("please change my name  to  Bo", ("name", "Bo")),
        ("name: one\ntwo ", ("name", "one\ntwo")),
        ("yes is it", None),
        ("so be it", None),
    ],
)
def test_a_change_is_a_field_and_a_value(said: str, change: tuple[str, str] | None) -> None:
    found = replies.change_of(said, LABELS)
    assert (found and (found.field, found.value)) == change


@pytest.mark.parametrize(
    ("text", "language"),
    [("yes, actually no", "en"), ("yes, sorry, no", "en"), ("ja, ach nein", "de"), ("sí, perdón, no", "es")],
)
def test_a_yes_that_is_taken_back_is_a_no(text: str, language: str) -> None:
    assert replies.answer_of(text, language) is False


@pytest.mark.parametrize(("text", "language"), [("yes wait", "en"), ("yes no wait", "en"), ("ja, Moment", "de")])
def test_a_yes_before_a_correction_without_an_answer_is_no_yes(text: str, language: str) -> None:
    assert replies.answer_of(text, language) is None
