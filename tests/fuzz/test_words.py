"""Messages to conversations, and loop files: accepted or rejected in bounded time, without another error."""

from __future__ import annotations

import datetime as dt
import enum
import functools
import string
import tempfile
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from asterism.conversation.python import InputField, StandardAgent
from asterism.conversation.python.slot_filling import fill_slots
from asterism.errors import InvalidInput
from asterism.loop.python.toml import read_parts
from asterism.words.reading import replies
from asterism.words.reading.setting import Setting
from tests.fuzz.test_files import broken

F = TypeVar("F", bound=Callable[..., Any])
SAID = [
    "yes", "no", "no, because", "not", "please", "make it", "change", "set", "the count", "count", "to", "is", "=", ":", "7", "-7",
    "1,000", "7.5", "1e9", "seven", "²", "٣", "9" * 400, "in", "days", "weeks", "tomorrow", "monday", "30 february", "29 feb",
    "2026-13-40", "0000-00-00", "9999-12-31", "noon", "25:99", "7 pm", "small", "large", "cancel", "skip", ",", ";", " and ", "\n",
    "\0", "é", "’", '"', ".", "!", "?",
]  # fmt: skip
spoken = st.lists(
    st.sampled_from(SAID) | st.text(string.printable, max_size=4) | st.text(st.characters(codec="utf-8"), max_size=3), max_size=12
).flatmap(lambda parts: st.sampled_from([" ", ""]).map(lambda between: between.join(parts)))
LONG = [
    "a" * 20_000,
    " " * 20_000,
    "," * 20_000,
    "a " * 10_000,
    "no " * 7_000,
    "no" + ":" * 20_000 + "\n",
    "make it " * 3_000,
    "7 " * 10_000,
    ": " * 10_000,
]


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Everything(StandardAgent):
    count: int = InputField("?", ge=0)
    price: float = InputField("?")
    cost: Decimal = InputField("?")
    on: dt.date = InputField("?")
    at: dt.time = InputField("?")
    when: dt.datetime = InputField("?")
    size: Size = InputField("?")
    mode: Literal["a", "b"] = InputField("?")
    sure: bool = InputField("?")
    names: list[str] = InputField("?")
    numbers: list[int] = InputField("?")
    word: str = InputField("?")


def examples_of(texts: list[str]) -> Callable[[F], F]:
    def decorate(test: F) -> F:
        return functools.reduce(lambda decorated, text: example(text)(decorated), texts, test)

    return decorate


@examples_of(LONG)
@given(spoken)
def test_any_text_is_parsed_or_rejected_in_bounded_time(text: str) -> None:
    begun = time.monotonic()
    assert isinstance(replies.is_yes(text), bool)
    assert not (replies.is_yes(text) and replies.denial(text) == "")
    replies.intent_of(text)
    replies.change_of(text, {"count": "count"})
    replies.mentions_value(text, "count")
    assert time.monotonic() - begun < 10


@settings(max_examples=40)
@examples_of([*(text[:200] for text in LONG), "9" * 400, "9" * 5000, "in ² days", "1" + "0" * 30, "٣"])
@given(spoken)
def test_a_value_that_is_taken_of_what_is_said_is_what_a_journal_gives_back(text: str) -> None:
    for name in Everything.input_fields():
        see_what_is_taken(name, text)


@pytest.mark.slow
@pytest.mark.parametrize("text", LONG, ids=lambda text: text[:8])
def test_a_value_is_taken_of_the_longest_text_in_bounded_time(text: str) -> None:
    for name in Everything.input_fields():
        see_what_is_taken(name, text)


def see_what_is_taken(name: str, text: str) -> None:
    agent = Everything()
    field = agent.input_fields()[name]
    begun, told, value = time.monotonic(), "", None
    try:
        value = field.parse(agent, text, 1e9)
    except ValueError as error:
        told = str(error)
    assert time.monotonic() - begun < 10
    if told:
        assert "invalid literal" not in told
        agent._state.setting = Setting(at=1e9)
        assert fill_slots(agent, {name: text})
        return
    assert field.check(agent, msgspec.json.decode(msgspec.json.encode(msgspec.to_builtins(value)))) == value
    if isinstance(value, float):
        assert value - value == 0.0, "it is finite"


# -- loops -----------------------------------------------------------------------------------------
LOOP = b"""
model = "test"
[workers.writer]
instructions = "You write."
timeout_s = 9.5
[[workers.writer.servers]]
command = ["python", "-m", "server"]
allow = ["read"]
gates = { read = "destructive" }
within = { read = { folder = ".", arguments = ["path"] } }
[[steps]]
step_id = "a"
worker = "writer"
intent = "write"
[options]
max_steps = 7
"""


def read_loop(content: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "loop.toml"
        path.write_bytes(content)
        return read_parts(path)


def test_the_loop_file_is_valid_before_it_is_corrupted() -> None:
    assert list(read_loop(LOOP)["workers"]) == ["writer"]


@given(broken(LOOP))
def test_a_corrupted_loop_file_is_read_or_rejected(content: bytes) -> None:
    told = ""
    try:
        read_loop(content)
    except InvalidInput as error:
        told = str(error)
    assert len(told.splitlines()) <= 1
