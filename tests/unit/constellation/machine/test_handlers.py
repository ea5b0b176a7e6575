"""Handlers: the tasks of ``on_failure`` and ``finally`` run when the rest is settled, and change nothing about the end."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from asterism.constellation.machine.definition import first_event
from asterism.constellation.machine.events import ConstellationSubmitted, Edited
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.edits import EditRefused
from asterism.engine.control.children import StartChild
from asterism.engine.control.run_control import Cancel, Pause, Unpause
from asterism.errors import InvalidInput
from tests.support.constellation_harness import Agent, memory_of
from tests.support.constellations import action, lines, tasks
from tests.support.machine_harness import MachineHarness

ALERT = {
    "task_id": "alert",
    "device": "d",
    "inputs": {"text": "${run.outcome} ${run.id}: ${run.error}", "got": "${b.x}", "why": "${a.error}"},
}
CLEAN = {"task_id": "clean", "device": "d", "inputs": {"outcome": "${run.outcome}", "error": "${run.error}"}}


def handled(arrows: str = "a>b", **more: Any) -> dict[str, Any]:
    return {"tasks": tasks("a b"), "dependencies": lines(arrows), "on_failure": [ALERT], "finally": [CLEAN], **more}


def same_on_replay(agent: Agent) -> None:
    assert memory_of(agent.replayed()) == memory_of(agent.run)


def test_after_a_failure_on_failure_runs_then_finally_and_the_run_stays_failed() -> None:
    agent = Agent(handled())
    assert agent.running() == ["a"]
    agent.ends("a", error="raised")
    assert (agent.running(), agent.state, agent.memory.code) == (["alert"], "CONTINUE", "")
    assert agent.attempt("alert").arguments == {"text": "failed r: a is FAILED: a: raised", "got": None, "why": "a: raised"}
    agent.ends("alert")
    assert agent.running() == ["clean"]
    agent.ends("clean")
    assert (agent.state, agent.memory.code, agent.memory.outcome()) == ("FAIL", "task_failed", "failed")
    assert agent.memory.result()["summary"] == "2 tasks: 1 failed, 1 skipped; a (a: raised); b (a is FAILED)"
    same_on_replay(agent)


@pytest.mark.parametrize(("rules", "error"), [(5, "a is CANCELLED: me said no (and 1 more)"), (6, "b is FAILED: b: raised (and 1 more)")])
def test_an_alert_names_a_failed_task_before_a_rejected_one(rules: int, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CONSTELLATION_AGENT, "rules", rules)
    alert = {"task_id": "alert", "device": "d", "inputs": {"text": "${run.error}"}}
    agent = Agent({"tasks": [*tasks("a", requires_approval=True), *tasks("b")], "on_failure": [alert]})
    agent.answers("reject")
    agent.ends("b", error="raised")
    assert agent.attempt("alert").arguments == {"text": error}
    monkeypatch.undo()
    same_on_replay(agent)


def test_a_run_that_finishes_runs_finally_only() -> None:
    agent = Agent(handled())
    agent.ends("a")
    agent.ends("b", {"x": 1})
    assert agent.running() == ["clean"]
    assert agent.attempt("clean").arguments == {"outcome": "finished", "error": None}
    agent.ends("clean")
    assert agent.state == "FINISH"
    assert agent.statuses()["alert"] == "SKIPPED"
    assert agent.memory.result()["total_tasks"] == 2
    same_on_replay(agent)


def test_a_handler_that_fails_changes_no_outcome_and_is_named_in_the_result() -> None:
    agent = Agent(handled())
    agent.ends("a")
    agent.ends("b")
    agent.ends("clean", error="raised")
    assert (agent.state, agent.memory.outcome()) == ("FINISH", "finished")
    result = agent.memory.result()
    assert result["handlers_failed"] == {"clean": "clean: raised"}
    assert result["summary"].endswith("; finally task clean is FAILED (clean: raised)")


def test_after_a_cancel_finally_runs_once_what_was_cancelled_has_ended() -> None:
    agent = Agent(handled())
    agent.batch(Cancel(reason="enough"))
    assert (agent.statuses()["a"], agent.running(), agent.state) == ("CANCELLED", [], "CONTINUE")
    agent.finish_cancellations()
    assert agent.running() == ["clean"]
    assert agent.attempt("clean").arguments == {"outcome": "cancelled", "error": "cancelled by me: enough"}
    agent.ends("clean")
    assert (agent.state, agent.memory.outcome(), agent.statuses()["alert"]) == ("FAIL", "cancelled", "SKIPPED")
    same_on_replay(agent)


def test_a_second_cancel_ends_at_once() -> None:
    agent = Agent(handled())
    agent.batch(Cancel(reason="enough"))
    agent.finish_cancellations()
    agent.batch(Cancel(reason="now"))
    assert (agent.state, agent.memory.reason, agent.statuses()["clean"]) == ("FAIL", "cancelled by me: enough", "CANCELLED")
    same_on_replay(agent)


def test_a_paused_run_that_is_cancelled_runs_its_handlers() -> None:
    agent = Agent(handled())
    agent.batch(Pause())
    agent.batch(Cancel())
    agent.finish_cancellations()
    assert agent.running() == ["clean"]


def test_a_paused_run_begins_no_handlers_until_it_is_unpaused() -> None:
    agent = Agent(handled())
    agent.batch(Pause())
    agent.ends("a", error="raised")
    assert agent.running() == []
    agent.batch(Unpause())
    assert agent.running() == ["alert"]


def test_handlers_have_a_limit_each_role_its_own() -> None:
    agent = Agent(handled(), finally_limit_s=60)
    agent.ends("a", error="raised")
    agent.wait_until(agent.now + 60)
    assert agent.task("alert").error is not None
    assert str(agent.task("alert").error.words) == "the on_failure tasks took longer than 60 s"  # type: ignore[union-attr]
    agent.finish_cancellations()
    assert agent.running() == ["clean"]
    agent.wait_until(agent.now + 60)
    agent.finish_cancellations()
    assert (agent.state, agent.memory.code) == ("FAIL", "task_failed")
    same_on_replay(agent)


def gated(**more: Any) -> dict[str, Any]:
    gate = {"task_id": "gate", "device": "d", "requires_approval": True}
    return {"tasks": tasks("a"), "finally": [gate, {"task_id": "clean", "device": "d"}], **more}


def test_the_time_in_which_a_handler_waits_for_a_person_does_not_count() -> None:
    agent = Agent(gated(), finally_limit_s=60)
    agent.ends("a")
    agent.wait_until(agent.now + 20)
    agent.ends("clean")
    agent.wait_until(agent.now + 10_000)
    agent.answers("approve")
    assert agent.running() == ["gate"]
    agent.wait_until(agent.now + 59)
    assert agent.running() == ["gate"]
    agent.wait_until(agent.now + 1)
    agent.finish_cancellations()
    assert (agent.state, agent.memory.outcome(), agent.statuses()["gate"]) == ("FINISH", "finished", "CANCELLED")
    assert agent.memory.result()["handlers_failed"] == {"gate": "the finally tasks took longer than 60 s"}
    same_on_replay(agent)


def test_two_handlers_that_wait_for_a_person_share_the_time_that_does_not_count() -> None:
    second = {"task_id": "second", "device": "d", "requires_approval": True}
    agent = Agent(gated(on_failure=[second, {**second, "task_id": "third"}]), finally_limit_s=60)
    agent.ends("a", error="raised")
    agent.wait_until(agent.now + 100)
    agent.answers("approve")
    agent.ends("second")
    agent.wait_until(agent.now + 100)
    agent.answers("approve")
    agent.wait_until(agent.now + 59)
    agent.ends("third")
    assert agent.statuses()["third"] == "COMPLETED"
    assert agent.running() == ["gate", "clean"]
    same_on_replay(agent)


@pytest.mark.parametrize(("options", "after_s"), [({"inquiry_timeout_s": 500}, 500), ({"wall_limit_s": 2000}, 2000)])
def test_an_approval_of_a_handler_that_expires_fails_its_task_and_the_others_run(options: dict[str, Any], after_s: float) -> None:
    agent = Agent(gated(), finally_limit_s=60, **options)
    agent.ends("a")
    agent.wait_until(agent.now + after_s - 1)
    assert agent.running() == ["gate", "clean"]
    assert agent.inquiry().expires_at == agent.now + 1
    agent.wait_until(agent.now + 1)
    assert agent.statuses()["gate"] == "FAILED"
    agent.ends("clean")
    agent.finish_cancellations()
    assert (agent.state, agent.memory.outcome()) == ("FINISH", "finished")
    assert "nobody answered in time" in agent.memory.result()["handlers_failed"]["gate"]
    same_on_replay(agent)


def test_the_wall_limit_is_a_failure_with_handlers_that_it_does_not_bound() -> None:
    agent = Agent(handled(), wall_limit_s=100)
    agent.wait_until(agent.now + 100)
    agent.finish_cancellations()
    assert agent.running() == ["alert"]
    agent.wait_until(agent.now + 200)
    agent.ends("alert")
    agent.ends("clean")
    assert (agent.state, agent.memory.code) == ("FAIL", "wall_limit")


def test_a_planner_that_finishes_runs_the_handlers_too() -> None:
    agent = Agent(handled(), replan="always")
    agent.ends("a")
    agent.plans(action("remove_task", task_id="b"), status="FINISH")
    assert agent.running() == ["clean"]
    agent.ends("clean")
    assert agent.state == "FINISH"
    assert agent.question() is None


def test_handlers_may_depend_on_each_other_within_their_kind() -> None:
    plan = {"tasks": tasks("a"), "finally": tasks("c d"), "dependencies": lines("c>d")}
    agent = Agent(plan)
    agent.ends("a")
    assert agent.running() == ["c"]
    agent.ends("c")
    assert agent.running() == ["d"]


@pytest.mark.parametrize("arrows", ["a>clean", "clean>b", "alert>clean"])
def test_a_handler_that_depends_on_a_task_of_another_kind_is_refused(arrows: str) -> None:
    with pytest.raises(EditRefused, match="an on_failure or finally task waits for all other tasks"):
        Agent(handled(arrows))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"on_failure": [{**ALERT, "inputs": {"x": "${run.eror}"}}]}, r"it refers to \$\{run\.eror\}; did you mean error"),
        ({"on_failure": [{**ALERT, "inputs": {"x": "${nobody.x}"}}]}, r"inputs refer to \$\{nobody…\}, but there is no task nobody"),
        ({"tasks": [*tasks("a"), *tasks("b", inputs={"x": "${run.error}"})]}, "but only on_failure and finally tasks have it"),
        ({"finally": [{**CLEAN, "deadline_s": 5}]}, "a handler has a timeout_s instead"),
    ],
)
def test_what_a_handler_cannot_have_is_refused_with_the_plan(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(EditRefused, match=why):
        Agent(handled(**changed))


def test_a_role_that_disagrees_with_its_place_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"plan\.finally\[0\]\.role: 'task' stands under finally; they must agree"):
        Agent({**handled(), "finally": [{**CLEAN, "role": "task"}]})


def test_a_live_edit_may_change_handlers_until_they_run() -> None:
    agent = Agent(handled())
    agent.batch(Edited(actions=(action("update_task", task_id="clean", priority=2),), base_version=1))
    with pytest.raises(EditRefused, match="it cannot change; remove the task and add it again"):
        agent.take(Edited(actions=(action("update_task", task_id="clean", role="task"),), base_version=2))
    agent.ends("a", error="raised")
    with pytest.raises(EditRefused, match="only its on_failure and finally tasks still run"):
        agent.take(Edited(actions=(action("update_task", task_id="clean", priority=3),), base_version=2))


# -- parameters ------------------------------------------------------------------------------------

WITH_PARAMS = {
    "params": {"url": "str", "keep": {"type": "int", "default": 7}},
    "tasks": tasks("a", inputs={"x": "${params.url}/${params.keep}"}),
}


def submitted(plan: dict[str, Any], **params: Any) -> Agent:
    class Submitted(Agent):
        def take(self, event: Any, actor: str = "me", key: str = "", permissions: Any = None) -> Any:
            if isinstance(event, ConstellationSubmitted):
                event = msgspec.structs.replace(event, params=params)
            return super().take(event, actor, key, permissions)

    return Submitted(plan)


def test_tasks_refer_to_the_parameters_of_the_plan() -> None:
    agent = submitted(WITH_PARAMS, url="u")
    assert agent.attempt("a").arguments == {"x": "u/7"}
    agent.batch(Edited(actions=(action("add_task", task_id="n", device="d", inputs={"y": "${params.keep}"}),), base_version=1))
    assert agent.attempt("n").arguments == {"y": 7}
    same_on_replay(agent)


@pytest.mark.parametrize(
    ("plan", "params", "why"),
    [
        (WITH_PARAMS, {}, r"params: the plan needs url \(str\)"),
        (WITH_PARAMS, {"url": 1}, r"params: params\.url: it is str, not int"),
        ({**WITH_PARAMS, "tasks": tasks("a", inputs={"x": "${params.ulr}"})}, {"url": "u"}, r"\$\{params\.ulr\}; did you mean url"),
        ({"tasks": tasks("a", inputs={"x": "${params.url}"})}, {}, r"it refers to \$\{params\.url\}; there is none"),
    ],
)
def test_a_parameter_that_is_missing_or_unknown_is_refused(plan: dict[str, Any], params: dict[str, Any], why: str) -> None:
    with pytest.raises(EditRefused, match=why):
        submitted(plan, **params)


def test_the_parameters_of_a_nested_plan_are_filled_by_the_inputs_of_its_task() -> None:
    nested = {"task_id": "n", "inputs": {"url": "${a.url}"}, "constellation": WITH_PARAMS}
    agent = Agent({"tasks": [*tasks("a"), nested], "dependencies": lines("a>n")})
    agent.ends("a", {"url": "u"})
    (start,) = agent.outstanding(StartChild).values()
    first = first_event(start.start)
    child = Agent.__new__(Agent)
    MachineHarness.__init__(child, Agent.machine, first, 1.0)
    assert child.attempt("a").arguments == {"x": "u/7"}


def test_inputs_that_do_not_fit_the_parameters_of_a_nested_plan_are_refused_or_fail_the_task() -> None:
    for inputs, why in (({}, r"n\.inputs: the plan needs url"), ({"url": 3}, r"n\.inputs: params\.url: it is str, not int")):
        with pytest.raises(EditRefused, match=why):
            Agent({"tasks": [{"task_id": "n", "inputs": inputs, "constellation": WITH_PARAMS}]})
    nested = {"task_id": "n", "inputs": {"url": "${a.url}"}, "constellation": WITH_PARAMS}
    agent = Agent({"tasks": [*tasks("a"), nested], "dependencies": lines("a>n")})
    agent.ends("a", {"url": 3})
    error = agent.task("n").error
    assert error is not None
    assert (error.code, error.words) == ("bad_arguments", "params.url: it is str, not int")
    same_on_replay(agent)


def test_a_plan_that_is_merged_into_a_run_has_no_parameters_of_its_own() -> None:
    agent = Agent({"tasks": tasks("a")})
    with pytest.raises(EditRefused, match="a plan has its parameters when it is submitted"):
        agent.take(
            Edited(actions=(action("build_constellation", tasks=tasks("b"), params={"x": {"default": ""}}, clear=False),), base_version=1)
        )
