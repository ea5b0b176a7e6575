"""Tasks that are constellations of their own, as the machine sees them."""

from __future__ import annotations

from typing import Any

import pytest

from asterism.constellation.machine.definition import first_event
from asterism.constellation.model.documents import parse_plan
from asterism.constellation.model.resolution import REPORTED
from asterism.devices.model.attempt import ErrorCode
from asterism.engine.control.children import ChildBlocked, ChildEnded, ChildSignaled, SignalChild, StartChild, child_run_id
from asterism.engine.control.run_control import Cancel, OwnershipAcquired, Pause, Unpause
from asterism.engine.runtime.run_status import status_of
from tests.support.constellation_harness import Agent, memory_of
from tests.support.constellations import plan

INNER = {"tasks": [{"task_id": "p", "device": "s", "skill": "once", "inputs": {"x": "${inputs.x}"}}]}


def agent(*, replan: str = "never", **more: Any) -> Agent:
    return Agent({"tasks": [{"task_id": "b", "inputs": {"x": 1}, "constellation": INNER, **more}]}, replan=replan, wall_limit_s=1000)


def started(it: Agent) -> tuple[str, StartChild]:
    ((effect_id, effect),) = it.outstanding(StartChild).items()
    return effect_id, effect


def relayed(it: Agent) -> list[str]:
    return [effect.command["type"] for effect in it.outstanding(SignalChild).values()]


def ends(it: Agent, outcome: Any = "finished", code: str = "", result: Any = None) -> None:
    it.batch(ChildEnded(effect_id=started(it)[0], outcome=outcome, code=code, reason="why", result=result))


def test_a_child_is_started_with_the_plan_the_inputs_and_the_fleet() -> None:
    it = agent()
    effect_id, effect = started(it)
    assert effect.machine == "constellation agent"
    first = first_event(effect.start)
    assert first.plan == parse_plan(INNER)
    assert first.inputs == {"x": 1}
    assert [device.device_id for device in first.fleet] == list(it.memory.fleet)
    assert child_run_id(effect_id) == "r.2.0"
    assert memory_of(it.replayed()) == memory_of(it.run)


@pytest.mark.parametrize(
    ("limits", "limit_s"), [({}, 1000), ({"timeout_s": 20}, 20), ({"deadline_s": 30}, 30), ({"deadline_s": 30, "timeout_s": 40}, 30)]
)
def test_a_child_has_the_least_of_the_times_that_are_left(limits: dict[str, Any], limit_s: float) -> None:
    assert first_event(started(agent(**limits))[1].start).options.wall_limit_s == limit_s


@pytest.mark.parametrize(
    ("outcome", "code", "error", "status"),
    [
        ("failed", "task_failed", "child_failed", "FAILED"),
        ("failed", "wall_limit", "timeout", "FAILED"),
        ("cancelled", "cancelled", "cancelled", "CANCELLED"),
    ],
)
def test_the_end_of_a_child_is_the_end_of_its_task(outcome: str, code: str, error: ErrorCode, status: str) -> None:
    it = agent()
    ends(it, outcome, code)
    found = it.task("b").error
    assert found is not None
    assert (it.task("b").status, found.code, found.message, it.state) == (status, error, "why", "FAIL")


def test_a_child_that_ran_out_of_the_tasks_deadline_says_so() -> None:
    it = agent(deadline_s=30)
    it.now += 30
    ends(it, "failed", "wall_limit")
    error = it.task("b").error
    assert error is not None
    assert error.code == "deadline"


def test_a_child_that_ran_out_of_its_timeout_before_the_tasks_deadline_says_so() -> None:
    it = agent(deadline_s=30, timeout_s=20)
    it.now += 20
    ends(it, "failed", "wall_limit")
    error = it.task("b").error
    assert error is not None
    assert error.code == "timeout"


def test_a_child_whose_fate_is_not_known_is_asked_about() -> None:
    it = agent()
    ends(it, "failed", "interrupted")
    assert "b was interrupted and may have finished (why). Run it again?" in it.inquiry().prompt
    it.answers("approve")
    assert child_run_id(started(it)[0]) != "r.2.0"


def test_the_report_has_the_fields_that_plans_are_checked_for() -> None:
    it = Agent(plan("a b", "a>b", device="s", skill="again"))
    it.ends("a", {"v": 1})
    it.ends("b", error="raised")
    report = it.memory.report()
    assert set(report) == {*REPORTED, "code", "reason"}
    assert report["results"] == {"a": {"v": 1}}


def test_a_cancel_is_relayed_and_the_run_ends_when_its_child_has() -> None:
    it = agent()
    effect_id, _ = started(it)
    it.batch(Cancel(reason="enough"))
    assert (it.state, relayed(it), status_of(it.run)) == ("FAIL", ["cancel"], "active")
    it.batch(ChildSignaled(effect_id=next(iter(it.outstanding(SignalChild)))))
    it.batch(ChildEnded(effect_id=effect_id, outcome="cancelled"))
    assert status_of(it.run) == "ended"
    assert memory_of(it.replayed()) == memory_of(it.run)


def test_pause_and_unpause_are_relayed_to_every_child() -> None:
    it = agent()
    it.batch(Pause())
    it.batch(Unpause())
    assert relayed(it) == ["pause", "unpause"]


def test_a_run_with_blocked_children_waits_until_its_owner_changes_or_one_goes_on() -> None:
    it = agent()
    effect_id, _ = started(it)
    assert status_of(it.run) == "active"
    it.take(ChildBlocked(effect_id=effect_id, blocked=True))
    assert status_of(it.run) == "waiting"
    assert it.take(ChildBlocked(effect_id=effect_id, blocked=True)) is None, "no news"
    it.take(ChildBlocked(effect_id=effect_id, blocked=False))
    assert status_of(it.run) == "active"
    it.take(ChildBlocked(effect_id=effect_id, blocked=True))
    it.take(OwnershipAcquired(epoch=2, owner="other", retried=(effect_id,)))
    assert status_of(it.run) == "active"
    it.take(ChildBlocked(effect_id=effect_id, blocked=True))
    ends(it)
    assert it.memory.blocked_children == set()
    assert it.state == "FINISH"


def test_a_report_about_an_unknown_child_is_ignored() -> None:
    assert agent().take(ChildBlocked(effect_id="r:9.9", blocked=True)) is None


def test_a_restart_cancels_the_children_and_plans_when_they_have_ended() -> None:
    first = {"tasks": [{"task_id": "a", "device": "s", "skill": "again"}, {"task_id": "b", "constellation": INNER, "inputs": {"x": 1}}]}
    it = Agent(first, replan="always")
    it.ends("a", {"v": 1})
    it.plans(status="START")
    assert (it.state, relayed(it), it.question()) == ("START", ["cancel"], None)
    it.take(ChildSignaled(effect_id=next(iter(it.outstanding(SignalChild)))))
    ends(it, "cancelled")
    assert it.question() is not None
