"""The written conversations, word for word: in one process, in a fresh one for each turn, and killed after each entry of the journal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.simulation.conversations import Conversation, hold, read

CONVERSATIONS = read()


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path) -> None:
    os.chdir(tmp_path)


def test_there_are_many_and_none_twice() -> None:
    assert len(CONVERSATIONS) >= 40
    assert len({conversation.title for conversation in CONVERSATIONS}) == len(CONVERSATIONS)


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda it: it.title)
def test_a_conversation_gives_the_recorded_replies_in_one_process(conversation: Conversation) -> None:
    assert hold(conversation, restarts=False)[1] == conversation.text


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda it: it.title)
def test_a_conversation_gives_the_same_replies_with_a_restart_between_turns(conversation: Conversation) -> None:
    stage, text = hold(conversation)
    assert text == conversation.text
    assert stage.processes >= len([line for line in conversation.lines if not line.startswith("!wait")])


TOLD_AGAIN = [it for it in CONVERSATIONS if it.agent not in ("Expense", "Desk") and it.title != "pausing twice"]
"""A secret dies with its process and is asked for again; a refusal is told only to who sent what was refused, as is the way back."""
SAMPLE = [it for it in TOLD_AGAIN if it.title in ("three fields in one answer", "a pause during the approval", "a cancel after an error")]


def assert_same_when_killed(conversation: Conversation) -> None:
    length = len(hold(conversation)[0].records)
    deaths = 0
    for entry in range(2, length + 1):
        stage, text = hold(conversation, dies_after=entry)
        assert text == conversation.text, f"killed after entry {entry}"
        deaths += stage.deaths
    assert deaths >= length // 3


@pytest.mark.parametrize("conversation", SAMPLE, ids=lambda it: it.title)
def test_it_goes_the_same_when_a_process_is_killed_after_any_entry(conversation: Conversation) -> None:
    assert_same_when_killed(conversation)


@pytest.mark.slow
@pytest.mark.parametrize("conversation", TOLD_AGAIN, ids=lambda it: it.title)
def test_each_goes_the_same_when_a_process_is_killed_after_any_entry(conversation: Conversation) -> None:
    assert_same_when_killed(conversation)
