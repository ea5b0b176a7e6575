"""The story of a loop, from entries made by hand."""

from __future__ import annotations

import pytest

from asterism.cli.loop_story import LoopStory
from asterism.machines.orchestration_loop.table import ORCHESTRATION_LOOP
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
