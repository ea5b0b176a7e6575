"""The planner with a model and the machine: questions, replies and refusals between them."""

from __future__ import annotations

from typing import Any

from asterism.constellation.machine.events import AskPlanner, AttemptEnded, Planned, PlanningFailed
from asterism.constellation.planner.processor import ConstellationAgentProcessor
from asterism.constellation.python.performers import PlannerPerformer
from asterism.testing import loop
from tests.support.constellation_harness import Agent
from tests.support.constellations import action, plan
from tests.support.fake_models import FakeModel, access


def answered(agent: Agent, told: FakeModel) -> Any:
    """Ask a model the open question, and pass the result to the machine."""
    (effect_id,) = agent.outstanding(AskPlanner)
    performer = PlannerPerformer(ConstellationAgentProcessor(access(told)))
    outcome = loop.run(performer.perform(effect_id, agent.run.request(effect_id), lambda event: None))
    agent.batch(outcome)
    return outcome


def reply(*actions: dict[str, Any], status: str = "CONTINUE", **fields: Any) -> dict[str, Any]:
    return {"thought": "because", "status": status, "actions": list(actions), **fields}


CREATED = {"thought": "three", "status": "CONTINUE", "constellation": plan("a b c", "a>b b>c")}


def test_creation_edit_and_finish() -> None:
    agent = Agent(replan="always")
    told = FakeModel(CREATED, reply(action("remove_task", task_id="c")), reply(status="FINISH", result={"summary": "all there"}))
    assert isinstance(answered(agent, told), Planned)
    assert agent.running() == ["a"]
    agent.ends("a", {"n": 1})
    answered(agent, told)
    assert agent.statuses() == {"a": "COMPLETED", "b": "RUNNING"}
    agent.ends("b", {"n": 2})
    answered(agent, told)
    assert agent.state == "FINISH"
    assert agent.memory.result()["summary"] == "all there"
    assert [len(asked) for asked in told.asked] == [1, 1, 1]
    assert agent.memory.used.requests == 3


def test_a_cycle_at_creation_fails_the_run_and_is_named() -> None:
    agent = Agent()
    cycle = {"thought": "t", "status": "CONTINUE", "constellation": plan("a b", "a>b b>a")}
    outcome = answered(agent, FakeModel(*[cycle] * 4))
    assert isinstance(outcome, PlanningFailed)
    assert agent.state == "FAIL"
    assert agent.memory.code == "cycle"
    assert "a -> b -> a" in agent.memory.reason


def test_an_unavailable_edit_is_dropped_and_the_run_continues() -> None:
    agent = Agent(plan("a b", "a>b"), replan="always")
    agent.ends("a")
    outcome = answered(agent, FakeModel(*["rubbish"] * 4))
    assert (outcome.code, len(outcome.notes)) == ("invalid_reply", 3)
    assert outcome.usage.requests == 4
    assert agent.state == "CONTINUE"
    assert agent.running() == ["b"]


def test_an_edit_of_a_task_that_started_meanwhile_is_asked_for_again_with_the_changes() -> None:
    agent = Agent(plan("a b c", "a>c"), replan="always", hold="none")
    agent.ends("b")
    (effect_id,) = agent.outstanding(AskPlanner)
    told = FakeModel(reply(action("update_task", task_id="c", name="new")), reply(action("add_task", task_id="d", device="d")))
    performer = PlannerPerformer(ConstellationAgentProcessor(access(told)))
    late = loop.run(performer.perform(effect_id, agent.run.request(effect_id), lambda event: None))
    agent.batch(AttemptEnded(effect_id=agent.task("a").effect_id))  # c starts while the model thinks
    assert agent.running() == ["c"]
    agent.batch(late)
    assert agent.task("c").name == ""
    answered(agent, told)
    assert "# Why your last answer could not be taken" in told.last()
    assert "RUNNING" in told.last()
    assert "d" in agent.constellation.tasks
