"""The history of a loop, from entries made by hand."""

from __future__ import annotations

import pytest

from asterism.engine.control.run_control import Answered, AskPerson, Forked
from asterism.loop.form import FORM
from asterism.views.text.history import unread_history
from tests.support.loop_harness import Loop, steps


@pytest.mark.parametrize(
    ("said", "told"),
    [("Done.", "reflection: done"), ("perhaps", 'reflection: continue, read from "perhaps"')],
)
def test_an_unclear_reflection_is_logged_with_its_reply(said: str, told: str) -> None:
    loop = Loop(*steps("a"))
    loop.ends("a")
    loop.says(said)
    assert told in [it.text for it in unread_history(FORM, loop.run.id).read(loop.entries)]


def told(loop: Loop) -> list[str]:
    return [it.text for it in unread_history(FORM, loop.run.id).read(loop.entries)]


def test_a_rejected_answer_has_a_line_with_the_reason() -> None:
    loop = Loop(*steps("a:asks"))
    answer = Answered(effect_id=loop.effect(AskPerson), verb="edit", value={"step_id": "b"})
    loop.entries.append(loop.run.note(answer, at=loop.now, actor="ada", key="k", why="an edit changes its intent"))
    assert told(loop)[-1] == "answer edit by ada refused: an edit changes its intent"


def test_a_step_that_a_fork_cancels_is_not_logged_as_a_failure() -> None:
    loop = Loop(*steps("a:once"))
    loop.batch(Forked(origin="r1", seq=3, idle_s=0.0))
    loop.finish_cancellations()
    assert "cancelled while running" in told(loop)
    assert not [text for text in told(loop) if "failed" in text]


def test_the_summary_counts_the_steps_of_a_group_that_is_under_way() -> None:
    loop = Loop(*steps("a", "b", group="g"), *steps("c:asks"))

    def summary() -> str:
        history = unread_history(FORM, loop.run.id)
        history.read(loop.entries)
        return history.summary()

    assert summary() == "2 steps: 2 running"
    loop.ends("a")
    assert summary() == "2 steps: 1 ok, 1 running"
    loop.ends("b")
    loop.says("continue")
    assert summary() == "3 steps: 2 ok, 1 waiting for a person"
