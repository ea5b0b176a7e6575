"""The story of a loop, from entries made by hand."""

from __future__ import annotations

import pytest

from asterism.cli.stories.loop_story import LoopStory
from asterism.machines.orchestration_loop.table import ORCHESTRATION_LOOP
from asterism.machines.run_control import Answered, AskPerson, Forked
from tests.loops import Loop, steps


@pytest.mark.parametrize(
    ("said", "told"),
    [("Done.", "the reflection says done"), ("perhaps", 'the reflection says continue, since it said "perhaps"')],
)
def test_a_reflection_that_says_none_of_the_words_is_told_with_what_it_said(said: str, told: str) -> None:
    loop = Loop(*steps("a"))
    loop.ends("a")
    loop.says(said)
    assert told in [happening.text for happening in LoopStory(ORCHESTRATION_LOOP, loop.run.id).read(loop.entries)]


def told(loop: Loop) -> list[str]:
    return [happening.text for happening in LoopStory(ORCHESTRATION_LOOP, loop.run.id).read(loop.entries)]


def test_an_answer_that_is_not_taken_is_told_with_the_reason() -> None:
    loop = Loop(*steps("a:asks"))
    answer = Answered(effect_id=loop.effect(AskPerson), verb="edit", value={"step_id": "b"})
    loop.entries.append(loop.run.note(answer, at=loop.now, actor="ada", key="k", why="an edit changes its intent"))
    assert told(loop)[-1] == "the answer edit by ada is not taken: an edit changes its intent"


def test_what_was_under_way_when_a_run_was_forked_is_not_told_as_a_failure() -> None:
    loop = Loop(*steps("a:once"))
    loop.batch(Forked(origin="r1", seq=3, idle_s=0.0))
    loop.call_off()
    assert "it was under way, and is called off" in told(loop)
    assert not [text for text in told(loop) if "failed" in text]
