from __future__ import annotations

from typing import Any

import pytest

from asterism.constellation.machine.events import AttemptEnded, Dispatch
from asterism.constellation.machine.tasks import INTERRUPTED_REPEATED, MAX_LOSSES
from asterism.devices.model.attempt import DeviceFound, DeviceLost, ErrorCode, TaskError
from asterism.engine.control.run_control import AskPerson, OwnershipAcquired, Pause, Unpause
from asterism.engine.kernel.machine import RecoveryPolicy
from asterism.engine.kernel.profile import AgentProfile, Skill
from tests.support.constellation_harness import FLEET, Agent, agent_of_rules, memory_of
from tests.support.constellations import plan


def one(**fields: Any) -> dict[str, Any]:
    return {"tasks": [{"task_id": "a", "device": "d", **fields}]}


# -- starting ------------------------------------------------------------------------------------------


def test_an_attempt_carries_all_that_a_device_needs() -> None:
    agent = Agent(
        one(device="s", skill="again", name="n", description="what", inputs={"x": 1}, priority=4, timeout_s=9, deadline_s=60), at=500.0
    )
    assert agent.attempt("a") == Dispatch(
        task_id="a",
        device_id="s",
        skill="again",
        description="what",
        arguments={"x": 1},
        number=1,
        priority=4,
        timeout_s=9.0,
        deadline=560.0,
        recovery=RecoveryPolicy.RETRY_SAME_KEY,
    )
    assert agent.attempt("a").actor == "device:s"


def test_a_skill_that_is_not_idempotent_is_never_redone_by_itself() -> None:
    assert Agent(one(device="s", skill="once")).attempt("a").recovery_policy is RecoveryPolicy.DO_NOT_RETRY
    assert Agent(one()).attempt("a").recovery_policy is RecoveryPolicy.DO_NOT_RETRY


def test_what_is_ready_starts_higher_priority_first_and_then_in_order() -> None:
    document = {"tasks": [{"task_id": f"t{number}", "device": "d", "priority": number % 3} for number in range(6)]}
    assert [it.task_id for it in Agent(document).outstanding(Dispatch).values()] == ["t2", "t5", "t1", "t4", "t0", "t3"]


def test_results_upstream_become_arguments() -> None:
    document = plan("a b", "a>b")
    document["tasks"][1] |= {"device": "s", "skill": "once", "inputs": {"x": "${a.n}"}}
    agent = Agent(document)
    agent.ends("a", {"n": 3, "y": "filled in", "z": "not a parameter"})
    assert agent.attempt("b").arguments == {"x": 3, "y": "filled in"}


def test_a_task_whose_reference_has_no_value_is_skipped_with_the_reason() -> None:
    document = plan("a b c", "a>b b>c")
    document["tasks"][1]["inputs"] = {"x": "${a.n}"}
    agent = Agent(document)
    agent.ends("a", {"m": 3})
    error = agent.task("b").error
    assert error is not None
    assert (error.code, error.words) == ("no_result", "${a.n}: the result of a has no 'n'")
    assert agent.statuses() == {"a": "COMPLETED", "b": "SKIPPED", "c": "SKIPPED"}
    assert agent.state == "FINISH"


def test_a_reference_to_a_failed_source_skips_the_task() -> None:
    document = plan("a b", "a>b:UNCONDITIONAL")
    document["tasks"][1]["inputs"] = {"x": "${a.n}"}
    agent = Agent(document)
    agent.ends("a", error="raised")
    assert agent.statuses() == {"a": "FAILED", "b": "SKIPPED"}
    error = agent.task("b").error
    assert error is not None
    assert error.words == "a ended without a result"


def test_a_condition_may_ask_about_an_ancestor_that_settles_later() -> None:
    document = plan("a b c", "b>c")
    document["dependencies"].append({"from": "a", "to": "c", "condition": 'tasks["b"].result.n > 1'})
    agent = Agent(document)
    agent.ends("a")
    assert agent.task("c").status == "WAITING_DEPENDENCY"
    agent.ends("b", {"n": 2})
    assert agent.task("c").status == "RUNNING"
    assert memory_of(agent.replayed()) == memory_of(agent.run)


@pytest.mark.parametrize("first", ["a", "b"])
def test_the_order_of_two_completions_does_not_decide_a_condition(first: str) -> None:
    document = plan("a b c", "b>c")
    document["dependencies"].append({"from": "a", "to": "c", "condition": 'tasks["b"].result.n > 1'})
    agent = Agent(document)
    for task_id in (first, "b" if first == "a" else "a"):
        agent.ends(task_id, {"n": 2})
    assert agent.task("c").status == "RUNNING"


# -- ending --------------------------------------------------------------------------------------------


def test_an_error_that_is_not_retried_fails_the_task() -> None:
    agent = Agent(one(retry={"max_attempts": 5, "on": ["timeout"]}))
    agent.ends("a", error="raised")
    assert (agent.task("a").status, agent.task("a").attempts) == ("FAILED", 1)


def test_a_retry_waits_longer_each_time_and_then_the_task_fails() -> None:
    agent = Agent(one(retry={"max_attempts": 4, "backoff_s": 8, "max_backoff_s": 20, "on": ["timeout"]}))
    waits = []
    for _ in range(3):
        agent.ends("a", error="timeout")
        assert agent.task("a").status == "PENDING"
        waits.append(agent.task("a").not_before - agent.now)
        assert agent.memory.wake_at() == agent.task("a").not_before
        agent.wait_until(agent.task("a").not_before - 0.001)
        assert agent.task("a").status == "PENDING"
        agent.wait_until(agent.task("a").not_before)
    assert [low <= wait <= 2 * low for wait, low in zip(waits, (4, 8, 10), strict=True)] == [True, True, True]
    agent.ends("a", error="timeout")
    assert (agent.task("a").status, agent.task("a").attempts) == ("FAILED", 4)


def test_jitter_is_a_hash_and_no_chance() -> None:
    def wait() -> float:
        agent = Agent(one(retry={"max_attempts": 2}))
        agent.ends("a", error="raised")
        return agent.task("a").not_before

    assert wait() == wait()
    agents = Agent({"tasks": [{"task_id": f"t{number}", "device": "d", "retry": {"max_attempts": 2}} for number in range(20)]})
    agents.batch(*(agents.end_of(f"t{number}", error="raised") for number in range(20)))
    assert len({agents.task(f"t{number}").not_before for number in range(20)}) == 20


def test_a_failed_task_does_not_stop_branches_that_do_not_depend_on_it() -> None:
    agent = Agent(plan("a b c", "b>c"))
    agent.ends("a", error="raised")
    agent.ends("b")
    assert agent.running() == ["c"]


def test_an_attempt_that_was_stopped_is_cancelled() -> None:
    agent = Agent(one())
    agent.ends("a", error="cancelled")
    assert agent.task("a").status == "CANCELLED"


def test_a_task_that_has_not_started_by_its_deadline_fails() -> None:
    document = plan("a b", "a>b")
    document["tasks"][1]["deadline_s"] = 10
    agent = Agent(document)
    agent.wait_until(1010.0)
    error = agent.task("b").error
    assert error is not None
    assert (agent.task("b").status, error.code) == ("FAILED", "deadline")
    assert error.words == "not started within 10 s of the start of the run"
    assert agent.running() == ["a"]


@pytest.mark.parametrize(("skill", "error"), [("again", "device_lost"), ("once", "interrupted"), ("once", "device_lost")])
def test_a_deadline_that_passed_during_an_attempt_counts_when_it_is_lost(skill: str, error: ErrorCode) -> None:
    agent = Agent(one(device="s", skill=skill, deadline_s=10))
    agent.wait_until(1010.0)
    assert agent.task("a").status == "RUNNING", "an attempt under way is the dispatcher's to end"
    agent.now = 1011.0
    agent.ends("a", error=error)
    found = agent.task("a").error
    assert found is not None
    assert (agent.task("a").status, found.code) == ("FAILED", "deadline")
    assert not agent.outstanding(Dispatch)
    agent.finish_cancellations()
    assert agent.run.ended
    assert memory_of(agent.replayed()) == memory_of(agent.run)


def test_an_interrupted_attempt_of_an_idempotent_skill_is_performed_again() -> None:
    """G4: a person was asked, although the reference promises another attempt."""
    agent = Agent(one(device="s", skill="again"))
    for _ in range(MAX_LOSSES - 1):
        agent.ends("a", error="interrupted")
    assert (agent.task("a").status, agent.task("a").attempts) == ("RUNNING", MAX_LOSSES)
    assert not agent.outstanding(AskPerson)
    agent.ends("a", error="interrupted")
    assert "may have finished" in agent.inquiry().prompt
    assert memory_of(agent.replayed()) == memory_of(agent.run)


def test_earlier_rules_ask_about_an_interrupted_attempt_of_an_idempotent_skill() -> None:
    agent = agent_of_rules(INTERRUPTED_REPEATED - 1)(one(device="s", skill="again"))
    agent.ends("a", error="interrupted")
    assert "may have finished" in agent.inquiry().prompt


def test_a_time_that_came_and_changed_nothing_is_journaled_all_the_same() -> None:
    agent = Agent({"tasks": [{"task_id": "a", "device": "d", "deadline_s": 10}, {"task_id": "b", "device": "d"}]})
    agent.wait_until(1010.0)
    agent.now = 1011.0
    agent.ends("b")
    assert memory_of(agent.replayed()) == memory_of(agent.run)


# -- pausing -------------------------------------------------------------------------------------------


def test_pausing_starts_nothing_and_lets_what_runs_end() -> None:
    agent = Agent(plan("a b", "a>b"))
    agent.take(Pause())
    agent.ends("a", {"x": 1})
    assert agent.statuses() == {"a": "COMPLETED", "b": "PENDING"}
    assert agent.memory.paused
    agent.batch(Unpause())
    assert agent.running() == ["b"]


def test_a_backoff_that_ends_while_paused_starts_nothing() -> None:
    agent = Agent(one(retry={"max_attempts": 2}))
    agent.take(Pause())
    agent.ends("a", error="raised")
    agent.wait_until(5000.0)
    assert agent.task("a").status == "PENDING"
    agent.batch(Unpause())
    assert agent.task("a").status == "RUNNING"


# -- devices -------------------------------------------------------------------------------------------


def test_nothing_is_started_on_a_lost_device_until_it_is_found() -> None:
    agent = Agent(plan("a b", "a>b"))
    agent.take(DeviceLost(device="d", reason="gone"))
    agent.ends("a")
    assert agent.task("b").status == "PENDING"
    assert agent.state == "CONTINUE"
    agent.batch(DeviceFound(device="d"))
    assert agent.task("b").status == "RUNNING"


def test_another_device_with_the_skill_stands_in() -> None:
    agent = Agent({"tasks": [{"task_id": "a", "device": "d"}, {"task_id": "b", "device": "s", "skill": "again"}],
                   "dependencies": [{"from": "a", "to": "b"}]})  # fmt: skip
    agent.take(DeviceLost(device="s"))
    agent.ends("a")
    assert agent.attempt("b").device_id == "s2"


def test_what_is_idempotent_is_retried_elsewhere_when_its_device_is_lost() -> None:
    agent = Agent(one(device="s", skill="again"))
    agent.batch(DeviceLost(device="s"), agent.end_of("a", error="device_lost"))
    assert (agent.attempt("a").device_id, agent.attempt("a").number) == ("s2", 2)


def test_what_is_not_idempotent_asks_a_person_when_its_device_is_lost() -> None:
    agent = Agent(one(device="s", skill="once"))
    agent.batch(DeviceLost(device="s"), agent.end_of("a", error="device_lost"))
    assert not agent.outstanding(Dispatch)
    assert "may have finished" in agent.inquiry().prompt


def test_losing_devices_is_bounded() -> None:
    agent = Agent(one(device="s", skill="again"))
    for _ in range(MAX_LOSSES):
        agent.ends("a", error="device_lost")
    assert agent.task("a").attempts == MAX_LOSSES
    assert agent.outstanding(AskPerson)


def test_a_new_owner_forgets_lost_devices() -> None:
    agent = Agent(plan("a b", "a>b"))
    agent.take(DeviceLost(device="d"))
    agent.take(OwnershipAcquired(epoch=2, owner="p"))
    agent.ends("a")
    assert agent.running() == ["b"]


# -- what is recorded ----------------------------------------------------------------------------------


def test_the_evaluation_of_a_condition_is_recorded_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(plan("a b", "a>b:x>1"))
    agent.ends("a", {"x": 2})
    assert [entry.side_effects for entry in agent.entries if entry.side_effects] == [{"a->b v1": {"satisfied": True, "reason": ""}}]
    monkeypatch.setattr("asterism.constellation.machine.task_coupling.evaluate", None)
    assert memory_of(agent.replayed()) == memory_of(agent.run)


def test_the_ranking_of_a_skill_is_recorded_and_not_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = (*FLEET, AgentProfile(device_id="p", skills=(Skill(name="print_page", description="Print a page"), Skill(name="scan"))))
    agent = Agent({"tasks": [{"task_id": "a", "name": "put_it_on_paper", "description": "print the page", "device": "p"}]}, fleet=fleet)
    assert agent.attempt("a").skill == "print_page"
    assert agent.entries[0].side_effects == {"skill of a": "print_page"}
    monkeypatch.setattr("asterism.constellation.machine.planning.best_match", None)
    assert memory_of(agent.replayed()) == memory_of(agent.run)


def test_a_result_that_asks_for_nothing_new_leaves_the_journal_readable() -> None:
    agent = Agent(one())
    agent.batch(AttemptEnded(effect_id=agent.task("a").effect_id, result=[1, {"x": None}], error=None))
    assert agent.replayed().memory.constellation.tasks["a"].result == [1, {"x": None}]


def test_an_error_is_stored_unchanged() -> None:
    agent = Agent(one())
    agent.ends("a", error="crashed")
    assert agent.replayed().memory.constellation.tasks["a"].error == TaskError(code="crashed", message="a: crashed")
