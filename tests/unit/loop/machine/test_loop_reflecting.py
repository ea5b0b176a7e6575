"""REFLECTING: the word, the bounds, the strategies, the answer and its critique."""

from __future__ import annotations

import pytest

from asterism.engine.control.run_control import AskPerson
from asterism.engine.kernel.machine import kind_of
from asterism.loop.machine.effects import MakePlan, Reflect, RunWorker, Synthesize
from asterism.loop.machine.model import Decision, Step, Strategy
from asterism.loop.machine.reflection import is_ok, one_word
from tests.support.loop_harness import Loop, steps

PROSE = "All things considered, we are done. " * 300


@pytest.mark.parametrize(
    ("said", "decision"),
    [
        ("Done.", "done"),
        (" REPLAN\n", "replan"),
        ("not done", "continue"),
        ("continue, I think", "continue"),
        ("", "continue"),
        (PROSE, "continue"),
        ("**FAIL**", "fail"),
        ("'continue'", "continue"),
        ("done fail", "continue"),
        ("replanning", "continue"),
    ],
)
def test_a_reflection_is_one_word_and_anything_else_is_continue(said: str, decision: str) -> None:
    assert one_word(said) == decision
    loop = Loop(*steps("a", "b"))
    loop.ends("a")
    loop.says(said)
    ends = {"continue": "EXECUTING", "replan": "PLANNING", "done": "REFLECTING", "fail": "FAILED"}
    assert loop.state == ends[decision]
    assert bool(loop.outstanding(Synthesize)) == (decision == "done")


def test_continue_goes_to_the_next_step() -> None:
    loop = Loop(*steps("a", "b"))
    loop.ends("a")
    loop.says("continue")
    assert loop.working() == ["b"]


def test_continue_on_an_exhausted_plan_ends_in_synthesis() -> None:
    loop = Loop(*steps("a"))
    loop.ends("a")
    loop.says("continue")
    assert loop.outstanding(Synthesize)
    loop.answers_with("it is so")
    assert (loop.state, loop.memory.answer, loop.memory.outcome()) == ("COMPLETE", "it is so", "finished")
    assert loop.states == ["EXECUTING", "OBSERVING", "REFLECTING", "COMPLETE"]


def test_the_answer_and_complete_are_one_entry() -> None:
    loop = Loop(*steps("a"))
    loop.ends("a")
    loop.says("done")
    loop.answers_with({"n": 1})
    last = loop.entries[-1]
    assert (kind_of(last.event), last.state) == ("synthesized", "COMPLETE")


def test_endless_replanning_ends_failed_with_the_bound_named() -> None:
    loop = Loop(max_replans=3)
    for _ in range(3):
        loop.plans(*steps("a"))
        loop.ends("a")
        loop.says("replan")
        assert loop.state == "PLANNING"
    loop.plans(*steps("a"))
    loop.ends("a")
    loop.says("replan")
    assert loop.state == "FAILED"
    assert loop.memory.reason == "the plan was replaced 3 times, and must be replaced again (max_replans)"


def test_reflections_are_bounded_by_name() -> None:
    loop = Loop(*steps("a", "b", "c"), max_reflections=2)
    for name in "ab":
        loop.ends(name)
        loop.says("continue")
    loop.ends("c")
    assert loop.state == "FAILED"
    assert "(max_reflections)" in loop.memory.reason


def test_steps_are_bounded_by_name() -> None:
    loop = Loop(*steps("a", "b", "c"), max_steps=2)
    for name in "ab":
        loop.ends(name)
        loop.says("continue")
    assert (loop.state, loop.memory.code) == ("FAILED", "max_steps")


def test_tokens_are_bounded_by_name() -> None:
    loop = Loop(*steps("a", "b"), max_tokens=100)
    loop.ends("a")
    loop.says("continue", tokens=101)
    assert loop.state == "FAILED"
    assert loop.memory.reason == "its models took 101 tokens, the limit is 100 (max_tokens)"


def test_fail_names_the_step_that_was_the_matter() -> None:
    loop = Loop(*steps("a"))
    loop.fails("a", "no network")
    loop.says("fail")
    assert loop.memory.reason == "the reflection says fail after a: no network"


def test_a_reflection_that_raises_is_asked_again_and_then_ends_the_run() -> None:
    loop = Loop(*steps("a"))
    loop.ends("a")
    loop.says("", error="ValueError: no")
    assert loop.outstanding(Reflect)
    loop.says("", error="ValueError: no")
    assert loop.state == "FAILED"
    assert loop.memory.reason == "reflection failed 2 times (max_calls): ValueError: no"


# -- strategies --------------------------------------------------------------------------------------


def test_a_failed_step_goes_on_as_said_where_no_strategy_is_set() -> None:
    loop = Loop(*steps("a", "b"))
    loop.fails("a")
    loop.says("continue")
    assert loop.working() == ["b"]


def test_the_ladder_is_climbed_with_each_failure_of_the_step() -> None:
    plan = Step(step_id="a", worker="w", intent="x", alternatives=("once",))
    loop = Loop(plan, recovery=("retry", "retry_elsewhere", "decompose"))
    loop.fails("a")
    loop.says()
    (again,) = loop.outstanding(RunWorker).values()
    assert (again.worker, again.attempt) == ("w", 2)
    loop.fails("a")
    loop.says()
    (elsewhere,) = loop.outstanding(RunWorker).values()
    assert (elsewhere.worker, elsewhere.attempt) == ("once", 3)
    loop.fails("a", "too big")
    loop.says()
    (asked,) = loop.outstanding(MakePlan).values()
    assert str(asked.feedback) == "make smaller steps after a: too big"
    loop.assert_replays()


@pytest.mark.parametrize(("word", "state"), [("fail", "FAILED"), ("replan", "PLANNING"), ("done", "REFLECTING")])
def test_the_ladder_is_not_climbed_where_the_reflection_says_another_word_than_continue(word: str, state: str) -> None:
    loop = Loop(*steps("a", "b"), recovery=("retry",))
    loop.fails("a")
    loop.says(word)
    assert (loop.state, loop.working()) == (state, [])


def test_a_step_that_needs_a_yes_needs_another_to_be_tried_again() -> None:
    loop = Loop(*steps("a:asks"))
    loop.answers("approve")
    loop.fails("a")
    loop.says(strategy=Strategy.RETRY)
    assert (loop.state, len(loop.asked()), loop.working()) == ("WAITING", 1, [])


def test_attempts_of_one_step_are_bounded_by_name() -> None:
    loop = Loop(*steps("a"), max_attempts=2)
    loop.fails("a")
    loop.says(strategy=Strategy.RETRY)
    loop.fails("a", "still no")
    loop.says(strategy=Strategy.RETRY)
    assert loop.state == "FAILED"
    assert loop.memory.reason == "a was tried 2 times (max_attempts): still no"


def test_a_step_without_an_alternative_worker_ends_the_run() -> None:
    loop = Loop(*steps("a"))
    loop.fails("a", "no")
    loop.says(strategy=Strategy.RETRY_ELSEWHERE)
    assert loop.memory.reason == "nobody else can do a: no"


def test_giving_up_is_a_strategy_too() -> None:
    loop = Loop(*steps("a"))
    loop.fails("a", "no")
    loop.says(strategy=Strategy.GIVE_UP)
    assert (loop.state, loop.memory.reason) == ("FAILED", "it gives up after a: no")


def test_the_user_is_asked_and_the_next_reflection_sees_the_answer() -> None:
    loop = Loop(*steps("a", "b"), recovery=("ask_user",))
    loop.fails("a", "which one?")
    loop.says()
    assert loop.state == "WAITING"
    (asked,) = loop.asked()
    assert asked.prompt == "How should this run continue after a: which one??"
    loop.answers("respond", "the left one")
    assert loop.state == "REFLECTING"
    assert [finding.output for finding in loop.memory.latest_findings()] == ["the left one"]
    loop.says("continue")
    assert loop.working() == ["b"]


def test_no_new_output_in_k_steps_is_a_stall_and_its_strategy_is_chosen() -> None:
    loop = Loop(*steps("a", "b", "c", "d"), stall_after=2, when_stalled="give_up")
    for name in "abc":
        loop.ends(name, "the same")
        loop.says("continue")
    assert loop.memory.stalled == 2
    assert loop.memory.reason == "it gives up: the last steps gave nothing new"


# -- the answer and its critique ---------------------------------------------------------------------


@pytest.mark.parametrize(("said", "ok"), [("OK", True), ("ok.", True), ("not ok", False), ("", False)])
def test_a_critique_is_content_only_when_it_says_ok(*, said: str, ok: bool) -> None:
    assert is_ok(said) is ok


def criticised() -> Loop:
    loop = Loop(*steps("a"), critiques=True, max_revisions=2)
    loop.ends("a")
    loop.says("done")
    loop.answers_with("draft 1")
    return loop


def test_an_answer_that_is_criticised_is_written_again_with_the_critique() -> None:
    loop = criticised()
    assert loop.state == "REFLECTING"
    loop.criticises("shorter, please")
    (again,) = loop.outstanding(Synthesize).values()
    assert again.critique == "shorter, please"
    loop.answers_with("draft 2")
    loop.criticises("OK")
    assert (loop.state, loop.memory.answer) == ("COMPLETE", "draft 2")


def test_revisions_are_bounded_and_then_the_last_draft_is_the_answer() -> None:
    loop = criticised()
    for number in (2, 3):
        loop.criticises("still not")
        loop.answers_with(f"draft {number}")
    assert (loop.state, loop.memory.answer) == ("COMPLETE", "draft 3")


def test_every_decision_is_one_of_four_words() -> None:
    assert [str(decision) for decision in Decision] == ["continue", "replan", "done", "fail"]


def test_a_question_to_the_user_may_be_declined() -> None:
    loop = Loop(*steps("a", "b"))
    loop.fails("a")
    loop.says(strategy=Strategy.ASK_USER)
    assert list(loop.outstanding(AskPerson))
    loop.answers("reject", reason="decide yourself")
    assert loop.state == "REFLECTING"
    assert loop.memory.latest_findings()[0].feedback == "decide yourself"


def test_where_nothing_has_failed_there_is_nothing_to_retry_and_it_goes_on() -> None:
    loop = Loop(*steps("a", "b", "c"), stall_after=2, when_stalled="retry")
    for name in ("a", "b", "c"):
        loop.ends(name, "the same")
        loop.says("continue")
    loop.answers_with("done")
    assert loop.state == "COMPLETE"


@pytest.mark.parametrize("strategy", [Strategy.RETRY, Strategy.RETRY_ELSEWHERE])
def test_a_reflection_that_retries_what_went_well_goes_on(strategy: Strategy) -> None:
    loop = Loop(*steps("a"))
    loop.ends("a", "found")
    loop.says(strategy=strategy)
    loop.answers_with("done")
    assert loop.state == "COMPLETE"


def test_a_person_who_says_the_same_each_time_is_not_asked_at_once_again() -> None:
    loop = Loop(*steps("a", "b", "c", "d"), stall_after=1, when_stalled="ask_user")
    loop.ends("a", "the same")
    loop.says("continue")
    for name in ("b", "c"):
        loop.ends(name, "the same")
        loop.says("continue")
        loop.answers("respond", "go on")
        loop.says("continue")
    assert loop.working() == ["d"]
