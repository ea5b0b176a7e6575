"""What planning may use: counted from every answer, kept before every question, raised from outside."""

from __future__ import annotations

from typing import Any

import pytest

from asterism.constellation.machine.events import BUDGET, AskPlanner, PlanningFailed, RaiseLimits
from asterism.constellation.machine.memory import UNLIMITED
from asterism.engine.control.run_control import Cancel, Pause, Unpause
from asterism.engine.control.usage import Usage
from asterism.errors import Refused
from tests.support.constellation_harness import Agent, memory_of
from tests.support.constellations import action, plan


def used(tokens: int = 0, cost_usd: float = 0.0) -> Usage:
    return Usage(model="m", requests=1, input_tokens=tokens - tokens // 10, output_tokens=tokens // 10, cost_usd=cost_usd)


def test_what_was_used_is_summed_over_answers_and_failures() -> None:
    agent = Agent(plan("a b"), replan="always")
    agent.ends("a")
    agent.plans(usage=used(100, 0.5))
    agent.ends("b")
    effect = next(iter(agent.outstanding(AskPlanner)))
    agent.batch(PlanningFailed(effect_id=effect, code="planning", reason="away", usage=used(50, 0.25)))
    assert (agent.memory.used.tokens, agent.memory.used.cost_usd, agent.memory.used.requests) == (150, 0.75, 2)


@pytest.mark.parametrize("limits", [{"max_tokens": 100}, {"max_cost_usd": 0.5}])
def test_past_a_limit_the_run_pauses_itself_and_says_why_while_what_runs_goes_on(limits: dict[str, Any]) -> None:
    agent = Agent(plan("a b c", "a>c"), replan="always", **limits)
    agent.ends("a")
    agent.plans(usage=used(100, 0.5))
    assert agent.running() == ["b", "c"], "a limit that is reached stops nothing but questions"
    agent.ends("b")
    assert agent.question() is None
    assert agent.memory.paused
    assert str(agent.memory.limit).startswith(
        ("planning has used 100 tokens, and may use 100", "planning has cost 0.5000 dollars, and may cost 0.5000")
    )
    agent.ends("c")
    assert agent.state == "CONTINUE", "the end is not reached past a question that waits"


def test_with_a_higher_limit_the_question_that_waited_is_put() -> None:
    agent = Agent(plan("a b", "a>b"), replan="always", max_tokens=10)
    agent.ends("a")
    agent.plans(action("remove_task", task_id="never"), usage=used(10))
    assert agent.running() == [], "what the question is about is held"
    agent.batch(RaiseLimits(max_tokens=100))
    question = agent.question()
    assert question is not None
    assert (question.batch, agent.memory.paused, str(agent.memory.limit)) == (("a",), False, "")
    assert str(question.feedback).startswith("never: there is no such task")
    agent.plans()
    assert agent.running() == ["b"]
    assert memory_of(agent.replayed()) == memory_of(agent.run)


def test_completions_join_the_question_that_waits() -> None:
    agent = Agent(plan("a b c"), replan="always", max_tokens=10)
    agent.ends("a")
    agent.plans(usage=used(10))
    agent.ends("b")
    agent.ends("c")
    agent.batch(RaiseLimits(max_tokens=100))
    question = agent.question()
    assert question is not None
    assert question.batch == ("b", "c")


def test_a_limit_that_is_used_up_already_is_refused() -> None:
    agent = Agent(max_tokens=10)
    agent.plans(plan=plan("a", "a>z"), usage=used(50))
    assert (agent.state, agent.memory.paused) == ("START", True)
    with pytest.raises(Refused, match="planning has used 50 tokens, and may use 50; the new limit must be above what is used"):
        agent.take(RaiseLimits(max_tokens=50))
    assert agent.memory.options.max_tokens == 10


def test_going_on_without_a_higher_limit_pauses_again() -> None:
    agent = Agent(max_tokens=10)
    agent.plans(plan=plan("a", "a>z"), usage=used(50))
    agent.batch(Unpause())
    assert (agent.memory.paused, agent.question()) == (True, None)
    assert agent.memory.limit


def test_a_higher_limit_does_not_undo_what_a_person_paused() -> None:
    agent = Agent(plan("a"), replan="always", max_tokens=10)
    agent.batch(Pause(), RaiseLimits(max_tokens=50))
    assert agent.memory.paused
    assert agent.memory.options.max_tokens == 50


def test_a_higher_limit_does_not_undo_what_a_person_paused_after_an_earlier_limit() -> None:
    agent = Agent(plan("a b"), replan="always", max_tokens=1000)
    agent.ends("a")
    agent.planning_fails(BUDGET, "too long")
    assert (agent.memory.paused, str(agent.memory.limit)) == (True, "too long")
    agent.take(Unpause())
    assert (agent.memory.paused, str(agent.memory.limit)) == (False, "")
    agent.take(Pause())
    agent.take(RaiseLimits(max_tokens=10_000))
    assert agent.memory.paused
    assert memory_of(agent.replayed()) == memory_of(agent.run)


def test_a_planner_that_would_go_past_the_limit_is_asked_again_with_a_higher_one() -> None:
    agent = Agent(max_tokens=1000)
    agent.planning_fails(BUDGET, "the prompt alone has 2000 tokens")
    assert (agent.state, agent.memory.paused, str(agent.memory.limit)) == ("START", True, "the prompt alone has 2000 tokens")
    agent.batch(RaiseLimits(max_tokens=5000))
    agent.plans(plan=plan("a"))
    assert agent.running() == ["a"]


@pytest.mark.parametrize("given", [(), (plan("a b", "a>b"),)])
def test_a_deferred_request_is_the_same_request_when_it_is_made_again(given: tuple[Any, ...]) -> None:
    agent = Agent(*given, replan="always", max_tokens=1000, max_asks=1)
    if given:
        agent.ends("a")
    for _ in range(2):
        agent.planning_fails(BUDGET, "too long")
        agent.batch(Unpause())
    question = agent.question()
    assert (question and question.number, agent.memory.asks, agent.state) == (1, 1, "CONTINUE" if given else "START")
    assert memory_of(agent.replayed()) == memory_of(agent.run)


def test_in_editing_too_the_question_waits_and_the_hold_with_it() -> None:
    agent = Agent(plan("a b", "a>b"), replan="always", max_tokens=1000)
    agent.ends("a")
    agent.planning_fails(BUDGET, "too long")
    assert (agent.state, agent.running()) == ("CONTINUE", [])
    agent.batch(Unpause())
    assert agent.question() is not None


def test_a_run_that_has_paused_itself_can_be_cancelled() -> None:
    agent = Agent(max_tokens=10)
    agent.plans(plan=plan("a", "a>z"), usage=used(50))
    agent.batch(Cancel())
    assert (agent.state, agent.run.ended, agent.memory.outcome()) == ("FAIL", True, "cancelled")


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({}, None),
        ({"max_tokens": 100}, (40, UNLIMITED)),
        ({"max_cost_usd": 1.0}, (UNLIMITED, 0.75)),
        ({"max_tokens": 50, "max_cost_usd": 0.25}, (0, 0.0)),
    ],
)
def test_the_planner_gets_the_remaining_budget(options: dict[str, Any], left: tuple[float, float] | None) -> None:
    agent = Agent(plan("a b"), replan="always", **options)
    agent.ends("a")
    agent.plans(usage=used(60, 0.25))
    budget = agent.memory.budget_left()
    assert (budget and (budget.tokens, budget.cost_usd)) == left
