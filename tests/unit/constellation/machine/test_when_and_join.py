"""``when``, ``join: any`` and ``${task.error}``: what decides that a task starts, and what it is told of a failure."""

from __future__ import annotations

from typing import Any

import pytest

from asterism.constellation.machine.events import Dispatch, Edited
from asterism.constellation.model.edits import EditRefused
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.engine.kernel.run import Run
from tests.support.constellation_harness import Agent, agent_of_rules, memory_of
from tests.support.constellations import action, lines, plan, tasks

OUTPUT = {"type": "object", "properties": {"v": {}}}
TYPED = AgentProfile(
    device_id="t", skills=(Skill(name="do", parameters={"type": "object", "properties": {"x": {}, "v": {}}}, output=OUTPUT),)
)
FLEET = (TYPED, AgentProfile(device_id="d", natural_language=True))


def planned(*given: dict[str, Any], arrows: str = "") -> dict[str, Any]:
    return {"tasks": [{"device": "d", **task} for task in given], "dependencies": lines(arrows)}


def same_on_replay(agent: Agent) -> None:
    assert memory_of(agent.replayed()) == memory_of(agent.run)


def test_when_is_read_over_the_inputs_once_all_it_depends_on_is_settled() -> None:
    publish = {"task_id": "publish", "inputs": {"parts": "${a.parts}", "least": 2}, "when": "size(parts) >= least"}
    agent = Agent(planned(*tasks("a b"), publish, *tasks("after"), arrows="a>publish b>publish publish>after"))
    agent.ends("a", {"parts": [1, 2]})
    assert agent.running() == ["b"]
    agent.ends("b")
    assert agent.running() == ["publish"]
    assert agent.entries[-1].side_effects == {"when of publish": [True, ""]}
    same_on_replay(agent)


@pytest.mark.parametrize(
    ("when", "why"),
    [
        ("size(parts) >= 3", "size(parts) >= 3 is false: parts is [1]"),
        ("parts > 3", "parts > 3: No matching overloads"),
        ("parts", "parts: gives LIST<DYN>, not yes or no"),
    ],
)
def test_a_task_whose_when_is_not_met_is_skipped_with_the_reason(when: str, why: str) -> None:
    publish = {"task_id": "publish", "inputs": {"parts": "${a.parts}"}, "when": when}
    agent = Agent(planned(*tasks("a"), publish, *tasks("after"), arrows="a>publish publish>after"))
    agent.ends("a", {"parts": [1]})
    assert agent.statuses() == {"a": "COMPLETED", "publish": "SKIPPED", "after": "SKIPPED"}
    error = agent.task("publish").error
    assert error is not None
    assert (error.code, error.words[: len(why)]) == ("unsatisfied", why)
    assert agent.state == "FINISH"
    same_on_replay(agent)


def test_a_parameter_that_nothing_has_filled_is_an_error_in_when() -> None:
    task = {"task_id": "b", "device": "t", "skill": "do", "when": "v != 3"}
    agent = Agent(planned({"task_id": "a"}, task, arrows="a>b"), fleet=FLEET)
    agent.ends("a", {"other": 1})
    error = agent.task("b").error
    assert error is not None
    assert error.words == "v != 3: there is no input v"


def test_when_is_read_once_even_if_the_task_is_retried_or_approved() -> None:
    retry = {"max_attempts": 2, "backoff_s": 0}
    agent = Agent(planned({"task_id": "a", "inputs": {"x": 1}, "when": "x == 1", "requires_approval": True, "retry": retry}))
    agent.answers("edit", {"x": 2})
    agent.ends("a", error="raised")
    agent.wait_until(agent.now + 60)
    assert agent.running() == ["a"]
    assert sum("when of a" in entry.side_effects for entry in agent.entries) == 1


@pytest.mark.parametrize(
    ("when", "why"),
    [
        ("size(pats) > 1", "when: 'size(pats) > 1' asks for 'pats', the inputs are parts; did you mean parts?"),
        ("result > 1", "when: 'result > 1' asks for 'result', the inputs are parts"),
    ],
)
def test_a_name_in_when_that_is_no_input_is_refused_at_planning(when: str, why: str) -> None:
    with pytest.raises(EditRefused) as refused:
        Agent(planned({"task_id": "a", "inputs": {"parts": []}, "when": when}))
    assert str(refused.value.refusal.why) == why


# -- join ------------------------------------------------------------------------------------------


def joined(arrows: str = "a>n b>n", **more: Any) -> dict[str, Any]:
    return planned(*tasks("a b"), {"task_id": "n", "join": "any", **more}, arrows=arrows)


def test_a_task_that_joins_any_starts_with_the_first_dependency_that_is_satisfied() -> None:
    agent = Agent(joined())
    agent.ends("b", {"x": 1})
    assert agent.running() == ["a", "n"]
    agent.ends("a")
    assert agent.statuses()["n"] == "RUNNING"
    same_on_replay(agent)


def test_a_failed_dependency_does_not_skip_a_task_that_joins_any_until_none_is_left() -> None:
    agent = Agent(joined())
    agent.ends("a", error="raised")
    assert agent.statuses()["n"] == "WAITING_DEPENDENCY"
    agent.ends("b", error="raised")
    error = agent.task("n").error
    assert error is not None
    assert error.words == "none of its dependencies is satisfied: a is FAILED; b is FAILED"


def test_a_task_that_joins_any_has_the_results_of_those_that_had_completed_also_after_a_crash() -> None:
    agent = Agent(joined("a>n b>n"))
    agent.ends("b", {"x": 1})
    key = next(key for key, it in agent.outstanding(Dispatch).items() if it.task_id == "n")
    before = agent.run.request(key).results
    agent.ends("a", {"x": 2})
    assert agent.run.request(key).results == before == {"b": {"x": 1}}


def test_an_edit_can_change_the_join_of_a_waiting_task() -> None:
    agent = Agent(planned(*tasks("a b"), {"task_id": "n"}, arrows="a>n b>n"))
    agent.ends("a")
    assert agent.statuses()["n"] == "WAITING_DEPENDENCY"
    agent.batch(Edited(actions=(action("update_task", task_id="n", join="any"),), base_version=1))
    assert agent.statuses()["n"] == "RUNNING"
    same_on_replay(agent)


def test_removing_the_satisfied_dependency_of_a_task_that_joins_any_lets_it_wait_again() -> None:
    agent = Agent(joined())
    agent.take(agent.end_of("a"))
    agent.take(Edited(actions=(action("remove_dependency", dependency_id="a->n"),), base_version=1))
    assert agent.statuses()["n"] == "WAITING_DEPENDENCY"


# -- errors ----------------------------------------------------------------------------------------


def told(kind: str, *, device: str = "d") -> dict[str, Any]:
    first = {"task_id": "a", "device": device} | ({"skill": "do"} if device == "t" else {})
    return planned(first, {"task_id": "n", "inputs": {"text": "${a.error}", "in": "it said: ${a.error}"}}, arrows=f"a>n:{kind}")


def test_the_error_of_a_failed_task_is_its_message_and_null_once_it_has_completed() -> None:
    agent = Agent(told("COMPLETION_ONLY"))
    agent.ends("a", error="raised")
    assert agent.attempt("n").arguments == {"text": "a: raised", "in": "it said: a: raised"}
    agent = Agent(told("COMPLETION_ONLY"))
    agent.ends("a", {"v": 1})
    assert agent.attempt("n").arguments["text"] is None


def test_a_result_field_error_of_a_completed_task_comes_first() -> None:
    agent = Agent(told("UNCONDITIONAL"))
    agent.ends("a", {"error": "mine"})
    assert agent.attempt("n").arguments["text"] == "mine"


@pytest.mark.parametrize("kind", ["COMPLETION_ONLY", "UNCONDITIONAL", "status=='FAILED'"])
def test_the_error_of_a_skill_with_known_fields_needs_a_dependency_that_admits_failure(kind: str) -> None:
    agent = Agent(told(kind, device="t"), fleet=FLEET)
    agent.ends("a", error="raised")
    assert agent.attempt("n").arguments["text"] == "a: raised"


@pytest.mark.parametrize("kind", ["SUCCESS_ONLY", "v>1"])
def test_an_error_that_is_always_null_is_refused_at_planning(kind: str) -> None:
    with pytest.raises(EditRefused, match=r"\$\{a\.error\} is always null, as a->n is .*; COMPLETION_ONLY also admits a failure"):
        Agent(told(kind, device="t"), fleet=FLEET)


@pytest.mark.parametrize("task_id", ["params", "item", "index", "run"])
def test_a_reserved_id_is_refused_in_new_plans_and_moves_as_before_in_old_ones(task_id: str) -> None:
    document = plan(f"{task_id} b", f"{task_id}>b")
    document["tasks"][1]["inputs"] = {"x": f"${{{task_id}.v}}"}
    with pytest.raises(EditRefused, match=r"this id is taken"):
        Agent(document)
    agent = agent_of_rules(3)(document)
    agent.ends(task_id, {"v": 7})
    assert agent.attempt("b").arguments == {"x": 7}
    today: Run[Any] = agent.replayed(Agent.machine)
    assert memory_of(today) == memory_of(agent.run)


def test_an_earlier_rule_refuses_the_error_of_a_task_as_it_did() -> None:
    with pytest.raises(EditRefused, match="the result of a has no 'error'; it has v"):
        agent_of_rules(3)(told("COMPLETION_ONLY", device="t"), fleet=FLEET)
    agent = agent_of_rules(3)(told("COMPLETION_ONLY"))
    agent.ends("a", error="raised")
    assert agent.statuses()["n"] == "SKIPPED"
    assert memory_of(agent.replayed(Agent.machine)) == memory_of(agent.run)


PARAMS: dict[str, Any] = {"params": {"least": {"type": "int", "default": 3}}}


@pytest.mark.parametrize(("rows", "status"), [(4, "RUNNING"), (2, "SKIPPED")])
def test_a_condition_and_when_use_the_parameters_of_the_plan(rows: int, status: str) -> None:
    asked = {"task_id": "c", "device": "d", "inputs": {"x": 4}, "when": "x > params.least"}
    tasks = [{"task_id": "a", "device": "d"}, {"task_id": "b", "device": "d"}, asked]
    line = {"from": "a", "to": "b", "condition": "rows > params.least"}
    agent = Agent({"tasks": tasks, "dependencies": [line], **PARAMS})
    agent.ends("a", {"rows": rows})
    assert agent.statuses() == {"a": "COMPLETED", "b": status, "c": "RUNNING"}
    assert memory_of(agent.replayed()) == memory_of(agent.run)


def test_by_earlier_rules_a_condition_over_a_declared_result_has_no_parameters() -> None:
    output = {"type": "object", "properties": {"rows": {}}}
    fleet = (AgentProfile(device_id="s", natural_language=True, skills=(Skill(name="count", output=output),)),)
    tasks = [{"task_id": "a", "device": "s", "skill": "count"}, {"task_id": "b", "device": "s"}]
    plan = {"tasks": tasks, "dependencies": [{"from": "a", "to": "b", "condition": "rows > params.least"}], **PARAMS}
    Agent(plan, fleet=fleet)
    with pytest.raises(EditRefused, match=r"asks for 'params', the result of a has rows"):
        agent_of_rules(4)(plan, fleet=fleet)
