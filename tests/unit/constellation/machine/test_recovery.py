"""The seeds' recovery table, where the machine decides it: what is tried again, what fails one task, what fails the run."""

from __future__ import annotations

from asterism.constellation.machine.events import Dispatch
from asterism.engine.control.run_control import CancelEffect, TransitionFailed
from tests.support.constellation_harness import Agent, memory_of
from tests.support.constellations import plan


def test_a_temporary_fault_of_a_device_is_tried_again_after_a_backoff() -> None:
    agent = Agent(plan("a", retry={"max_attempts": 2, "backoff_s": 8, "on": ["raised"]}))
    agent.ends("a", error="raised")
    assert (agent.statuses(), agent.running()) == ({"a": "PENDING"}, [])
    agent.wait_until(1008)
    assert agent.attempt("a").number == 2


def test_an_invalid_reply_is_asked_for_again_with_what_was_wrong() -> None:
    agent = Agent()
    agent.plans()
    question = agent.question()
    assert question is not None
    assert (question.number, str(question.feedback)) == (2, "reply: it holds no constellation")


def test_a_cycle_at_creation_fails_the_run_after_the_bounded_reprompts_and_names_it() -> None:
    agent = Agent(max_reasks=2)
    for _ in range(3):
        assert agent.state == "START"
        agent.plans(plan=plan("a b c", "a>b b>c c>a"))
    assert (agent.state, agent.memory.code) == ("FAIL", "cycle")
    assert agent.memory.reason == "no usable plan: a -> b -> c -> a: the plan has a cycle; a task cannot wait for itself"
    assert agent.run.ended


def test_a_timeout_fails_that_task_and_the_run_goes_on() -> None:
    agent = Agent(plan("a b c", "a>b"))
    agent.ends("a", error="timeout")
    assert agent.statuses() == {"a": "FAILED", "b": "SKIPPED", "c": "RUNNING"}
    assert agent.state == "CONTINUE"
    agent.ends("c")
    assert (agent.state, agent.memory.code) == ("FAIL", "task_failed")
    assert agent.memory.reason.startswith("a is FAILED: a: timeout")


def test_a_critical_error_fails_the_run_at_once_lets_go_of_everything_and_keeps_the_memory() -> None:
    agent = Agent(plan("a b c", "c>b"), replan="when_needed")
    agent.ends("a", {"replan": True, "found": 1})
    effect = next(key for key, it in agent.outstanding(Dispatch).items() if it.task_id == "c")
    agent.take(TransitionFailed(effect_id=effect, event="attempt_ended", reason="KeyError: 'x'"))
    assert (agent.state, agent.memory.code) == ("FAIL", "defect")
    assert agent.memory.reason == "attempt_ended could not be taken: KeyError: 'x'"
    assert {withdraw.effect_id for withdraw in agent.outstanding(CancelEffect).values()} >= set(agent.run.outstanding) - set(
        agent.outstanding(CancelEffect)
    )
    agent.finish_cancellations()
    assert agent.run.ended
    assert agent.task("a").result == {"replan": True, "found": 1}
    assert memory_of(agent.replayed()) == memory_of(agent.run)
