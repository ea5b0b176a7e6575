"""What words mean, however many there are of them."""

from __future__ import annotations

import time

import pytest

from asterism.language import replies


@pytest.mark.parametrize("part", ["no ", "sorry, ", " ", "\n", "a ", "no, ", "is ", "'", "change ", "no because ", "yes. ", "the "])
def test_no_message_takes_long_to_parse(part: str) -> None:
    began = time.process_time()
    for text in (part * 3000 + "make", "x is a" + part * 3000 + "b", "a" + part * 3000 + "b"):
        replies.is_yes(text)
        replies.denial(text)
        replies.intent_of(text)
        replies.correction_of(text)
        replies.short_correction(text)
        replies.mentions_value(text, "a pin")
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("said", "change"),
    [
        ("no, make it 80", ("", "80")),
        ("sorry, I meant  Friday. ", ("", "Friday")),
        ("actually the  name is\tAnn Lee", ("name", "Ann Lee")),
        ("please change my name  to  Bo", ("name", "Bo")),
        ("notes: one\ntwo ", ("notes", "one\ntwo")),
        ("yes is it", None),
        ("so be it", None),
    ],
)
def test_a_correction_is_a_field_and_a_value(said: str, change: tuple[str, str] | None) -> None:
    assert replies.correction_of(said) == change
