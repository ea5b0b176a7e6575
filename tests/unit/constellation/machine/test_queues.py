"""Attempts that wait for a place of their device: they have not begun, and may be started again."""

from __future__ import annotations

import pytest

from asterism.constellation.machine.events import AttemptBegun, AttemptQueued, Dispatch
from asterism.devices.model.attempt import DeviceFound, DeviceLost
from asterism.engine.control.run_control import AskPerson, Cancel, Forked
from asterism.engine.kernel.machine import RecoveryPolicy
from asterism.engine.kernel.profile import AgentProfile, Skill
from tests.support.constellation_harness import Agent, agent_of_rules
from tests.support.constellations import plan

SKILLS = (Skill(name="once"), Skill(name="again", idempotent=True))


def agent(ids: str, arrows: str = "", *, skill: str = "once", concurrency: int = 1, kind: type[Agent] = Agent) -> Agent:
    return kind(plan(ids, arrows, skill=skill), fleet=(AgentProfile(device_id="d", skills=SKILLS, concurrency=concurrency),))


def queued(it: Agent) -> list[str]:
    return [it.memory.attempts[effect].task_id for effect in it.memory.queued]


def begun(it: Agent, task_id: str) -> AttemptBegun:
    return AttemptBegun(of=it.task(task_id).effect_id)


@pytest.mark.parametrize(("concurrency", "waiting"), [(1, ["b", "c", "e"]), (2, ["c", "e"]), (4, [])])
def test_attempts_beyond_the_places_of_their_device_are_queued(concurrency: int, waiting: list[str]) -> None:
    it = agent("a b c e", concurrency=concurrency)
    assert queued(it) == waiting
    assert [effect.task_id for effect in it.outstanding(Dispatch).values() if effect.queued] == waiting


def test_no_attempt_of_a_chain_is_ever_queued() -> None:
    it = agent("a b c", "a>b b>c")
    for task_id in "abc":
        assert not queued(it)
        it.ends(task_id)
    assert it.state == "FINISH"
    assert not any(isinstance(effect, Dispatch) and effect.queued for entry in it.entries for effect in entry.effects)


def test_an_end_frees_the_place_that_an_attempt_begins_on() -> None:
    it = agent("a b c", "a>c")
    it.batch(it.end_of("a"), begun(it, "b"))
    assert queued(it) == ["c"]
    it.ends("b")
    it.batch(begun(it, "c"))
    assert queued(it) == []


def test_a_begin_that_the_journal_has_or_that_comes_too_late_makes_no_entry() -> None:
    it = agent("a b", "a>b")
    first = begun(it, "a")
    assert it.take(first) is None
    it.ends("a")
    assert it.take(first) is None
    assert it.take(AttemptQueued(of=first.of)) is None


def test_an_attempt_that_other_runs_keep_waiting_is_queued_again() -> None:
    it = agent("a b", concurrency=2)
    it.batch(AttemptQueued(of=it.task("a").effect_id))
    assert queued(it) == ["a"]
    assert it.take(AttemptQueued(of=it.task("a").effect_id)) is None
    it.batch(begun(it, "a"))
    assert queued(it) == []


@pytest.mark.parametrize("code", ["device_lost", "interrupted"])
def test_nobody_is_asked_about_an_attempt_that_never_began(code: str) -> None:
    it = agent("a b")
    it.batch(DeviceLost(device="d"), it.end_of("a", error=code), it.end_of("b", error=code))  # type: ignore[arg-type]
    assert [ask.subject["task_id"] for ask in it.outstanding(AskPerson).values()] == ["a"]
    assert it.statuses()["b"] == "PENDING"
    it.batch(DeviceFound(device="d"))
    assert it.attempt("b").number == 2


def test_an_attempt_that_never_begins_is_given_up_in_the_end_and_not_asked_about() -> None:
    it = agent("a b")
    for _ in range(10):
        it.ends("b", error="interrupted")
    assert it.statuses() == {"a": "RUNNING", "b": "FAILED"}
    assert not it.outstanding(AskPerson)


def test_a_queued_attempt_is_performed_again_after_a_crash_and_a_begun_one_is_not() -> None:
    it = agent("a b")
    found = {effect.task_id: it.memory.recovery_of(key, effect) for key, effect in it.outstanding(Dispatch).items()}
    assert found == {"a": RecoveryPolicy.DO_NOT_RETRY, "b": RecoveryPolicy.RETRY_SAME_KEY}


def test_a_fork_asks_about_the_attempt_that_had_begun_only() -> None:
    it = agent("a b")
    it.batch(Forked(origin="origin", seq=2, idle_s=0))
    assert [ask.subject["task_id"] for ask in it.outstanding(AskPerson).values()] == ["a"]
    assert (it.statuses()["b"], it.task("b").attempts) == ("RUNNING", 2)


def test_a_cancel_leaves_no_place_occupied() -> None:
    it = agent("a b")
    it.batch(Cancel())
    it.finish_cancellations()
    assert (it.state, it.memory.queued, it.memory.busy) == ("FAIL", {}, {})


def test_under_the_rules_before_no_attempt_is_queued() -> None:
    it = agent("a b", kind=agent_of_rules(3))
    assert not queued(it)


def test_replay_counts_alike() -> None:
    it = agent("a b c", skill="again")
    it.batch(it.end_of("a"), begun(it, "b"))
    replayed = it.replayed()
    assert (replayed.memory.queued, replayed.memory.busy) == (it.memory.queued, it.memory.busy)
