"""Attempts on remote devices: handles, what is stopped and when, legs, and devices that come and go."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from asterism.constellation.machine.events import (
    AskPlanner,
    AttemptAttached,
    AttemptBegun,
    AttemptEnded,
    AttemptLooked,
    AttemptStopped,
    Dispatch,
    LookAtAttempt,
    StopAttempt,
)
from asterism.constellation.machine.questions import MAX_LEGS
from asterism.constellation.machine.stopping import STOP_TIMEOUT_S
from asterism.devices.model.attempt import Attempt, DeviceFound, DeviceLost, DeviceQuestion, DeviceReply
from asterism.engine.control.run_control import AskPerson, Cancel, Forked, OwnershipAcquired
from asterism.engine.kernel.machine import Event, RecoveryPolicy
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.errors import Refused
from tests.support.constellation_harness import Agent, agent_of_rules, memory_of

SKILLS = (Skill(name="once", parameters={"properties": {"x": {"type": "integer"}}}), Skill(name="again", idempotent=True))
FLEET = (
    AgentProfile(device_id="far", kind="a2a", skills=SKILLS, reattach=True),
    AgentProfile(device_id="mcp", kind="mcp", skills=SKILLS),
    AgentProfile(device_id="near", skills=SKILLS),
    AgentProfile(device_id="tools", kind="mcp", skills=SKILLS, outlives_cancel=True),
)
WHICH = DeviceQuestion(prompt="Which one?", state={"task": "17"})


def agent(skill: str = "once", device: str = "far", **task: Any) -> Agent:
    return Agent({"tasks": [{"task_id": "a", "device": device, "skill": skill, **task}]}, fleet=FLEET)


def effect_of(it: Agent, task_id: str = "a") -> str:
    return it.task(task_id).effect_id


def request(it: Agent, task_id: str = "a") -> Attempt:
    made = it.run.request(effect_of(it, task_id))
    assert isinstance(made, Attempt)
    return made


def attached(it: Agent, handle: str = "h1", task_id: str = "a") -> None:
    it.batch(AttemptAttached(of=effect_of(it, task_id), handle=handle))


def asks(it: Agent, question: DeviceQuestion = WHICH) -> None:
    it.batch(AttemptEnded(effect_id=effect_of(it), question=question))


def acquired(it: Agent) -> None:
    retried = tuple(key for key, it_ in it.run.outstanding.items() if it.memory.recovery_of(key, it_) is not RecoveryPolicy.DO_NOT_RETRY)
    it.take(OwnershipAcquired(epoch=2, owner="p", retried=retried))


def stops(it: Agent) -> list[StopAttempt]:
    return list(it.outstanding(StopAttempt).values())


# -- recovery --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("skill", "device", "policy"),
    [
        ("again", "near", RecoveryPolicy.RETRY_SAME_KEY),
        ("again", "far", RecoveryPolicy.RETRY_SAME_KEY),
        ("once", "far", RecoveryPolicy.REATTACH),
        ("once", "mcp", RecoveryPolicy.DO_NOT_RETRY),
        ("once", "near", RecoveryPolicy.DO_NOT_RETRY),
    ],
)
def test_an_attempt_is_performed_again_if_its_work_may_happen_twice_or_its_device_finds_it(
    skill: str, device: str, policy: RecoveryPolicy
) -> None:
    assert agent(skill, device).attempt("a").recovery is policy


def test_an_attempt_with_a_handle_is_performed_again_by_the_next_owner() -> None:
    it = agent(device="mcp")
    attached(it, "h1")
    acquired(it)
    assert (request(it).again, request(it).handle) == (True, "h1")


def test_an_attempt_is_not_performed_again_without_a_new_owner() -> None:
    assert not request(agent()).again


def test_an_attempt_in_the_queue_is_started_and_not_looked_for() -> None:
    it = Agent({"tasks": [{"task_id": name, "device": "far", "skill": "once"} for name in "ab"]}, fleet=FLEET)
    acquired(it)
    assert [request(it, name).again for name in "ab"] == [True, False]
    it.batch(it.end_of("a"), AttemptBegun(of=effect_of(it, "b")))
    acquired(it)
    assert request(it, "b").again


def test_a_handle_implies_that_the_attempt_has_begun() -> None:
    it = Agent({"tasks": [{"task_id": name, "device": "far", "skill": "once"} for name in "ab"]}, fleet=FLEET)
    attached(it, task_id="b")
    assert not it.memory.queued


@pytest.mark.parametrize("code", ["crashed", "timeout"])
def test_an_attempt_that_its_device_finds_again_is_not_repeated_after_an_error(code: Any) -> None:
    it = agent(retry={"max_attempts": 3})
    it.ends("a", error=code)
    assert it.statuses() == {"a": "FAILED"}


# -- stopping --------------------------------------------------------------------------------------


def test_a_cancel_stops_the_attempt_on_its_device() -> None:
    it = agent()
    key = effect_of(it)
    attached(it, "h1")
    it.batch(Cancel())
    (stop,) = stops(it)
    assert (stop.of, stop.device, stop.task_id, stop.handle, stop.until) == (key, "far", "a", "h1", it.now + STOP_TIMEOUT_S)
    assert stop.recovery_policy is RecoveryPolicy.RETRY_SAME_KEY


def test_the_run_ends_when_the_device_has_stopped_the_attempt() -> None:
    it = agent()
    it.batch(Cancel())
    it.finish_cancellations()
    assert it.outstanding(StopAttempt)
    (effect_id,) = it.outstanding(StopAttempt)
    it.batch(AttemptStopped(effect_id=effect_id))
    assert it.run.ended
    assert not it.memory.still_running


def given_up(it: Agent) -> str:
    """Let a stop be given up, since its device stays lost, while the run waits for a person; return the key of the attempt."""
    it.batch(DeviceLost(device="far", reason="no route"))
    it.ends("a", error="device_lost")
    (effect_id,) = it.outstanding(StopAttempt)
    it.batch(AttemptStopped(effect_id=effect_id, error="a may still run on far: no answer"))
    assert not stops(it)
    (key,) = it.memory.still_running
    return key


@pytest.mark.parametrize("found", [DeviceFound(device="far"), OwnershipAcquired(epoch=2, owner="p")])
def test_a_stop_that_was_given_up_is_tried_again_when_the_device_is_found_or_the_run_is_resumed(found: Event) -> None:
    """G1: the stop of an attempt on a lost device was given up for good."""
    it = agent()
    attached(it, "h1")
    key = given_up(it)
    it.batch(DeviceFound(device="near"))
    assert not stops(it)
    it.batch(found)
    (stop,) = stops(it)
    assert (stop.of, stop.handle, stop.until) == (key, "h1", it.now + STOP_TIMEOUT_S)
    (effect_id,) = it.outstanding(StopAttempt)
    it.batch(AttemptStopped(effect_id=effect_id))
    assert not it.memory.still_running
    it.batch(found)
    assert not stops(it)
    assert memory_of(it.replayed()) == memory_of(it.run)


def test_a_run_of_earlier_rules_gives_a_stop_up_for_good() -> None:
    it = agent_of_rules(6)({"tasks": [{"task_id": "a", "device": "far", "skill": "once"}]}, fleet=FLEET)
    given_up(it)
    it.batch(DeviceFound(device="far"))
    assert not stops(it)


def test_what_may_still_run_is_named() -> None:
    it = agent()
    key = effect_of(it)
    it.batch(Cancel())
    it.finish_cancellations()
    (effect_id,) = it.outstanding(StopAttempt)
    it.batch(AttemptStopped(effect_id=effect_id, error="a may still run on far: no answer"))
    assert it.run.ended
    assert it.memory.still_running == {key: "a may still run on far: no answer"}


@pytest.mark.parametrize("device", ["mcp", "near"])
def test_a_cancel_stops_nothing_that_ends_with_the_process(device: str) -> None:
    it = agent(device=device)
    it.batch(Cancel())
    assert not stops(it)


def test_an_attempt_in_the_queue_has_nothing_to_stop() -> None:
    it = Agent({"tasks": [{"task_id": name, "device": "far", "skill": "once"} for name in "ab"]}, fleet=FLEET)
    it.batch(Cancel())
    assert [stop.task_id for stop in stops(it)] == ["a"]


def test_a_handle_that_arrives_after_the_cancel_is_stopped() -> None:
    it = agent(device="mcp")
    effect = effect_of(it)
    it.batch(Cancel())
    assert not stops(it)
    it.batch(AttemptAttached(of=effect, handle="late"))
    assert [(stop.of, stop.handle) for stop in stops(it)] == [(effect, "late")]


@pytest.mark.parametrize("code", ["device_lost", "timeout", "deadline", "crashed"])
def test_an_attempt_that_may_go_on_after_its_error_is_stopped(code: Any) -> None:
    it = agent()
    attached(it, "h1")
    it.ends("a", error=code)
    assert [stop.handle for stop in stops(it)] == ["h1"]
    assert not it.memory.handles


@pytest.mark.parametrize("code", ["raised", "bad_result", "interrupted"])
def test_an_attempt_that_has_ended_is_not_stopped(code: Any) -> None:
    it = agent()
    it.ends("a", error=code)
    assert not stops(it)


# -- legs ------------------------------------------------------------------------------------------


def test_a_question_of_a_device_is_asked_and_the_task_keeps_running_without_a_place() -> None:
    it = agent()
    attached(it, "h1")
    asks(it, DeviceQuestion(prompt="Which one?", schema={"type": "string"}, verbs=("respond",), risk="medium"))
    question = it.inquiry()
    assert (question.prompt, question.verbs, question.schema, question.risk) == ("Which one?", ("respond",), {"type": "string"}, "medium")
    assert question.subject == {"task_id": "a", "device": "far", "skill": "once", "question": "Which one?", "leg": 1}
    assert it.statuses() == {"a": "RUNNING"}
    assert not it.memory.busy
    assert not it.outstanding(Dispatch)


def test_an_answer_begins_the_next_leg_of_the_same_attempt() -> None:
    it = agent(timeout_s=5)
    key = effect_of(it)
    attached(it, "h1")
    asks(it)
    it.answers("respond", "the left one")
    made = request(it)
    assert made.key == key != effect_of(it)
    assert (made.leg, made.number, made.handle, made.state, made.timeout_s) == (2, 1, "h1", {"task": "17"}, 5)
    assert made.reply == DeviceReply(verb="respond", value="the left one")
    assert (made.message_key, it.task("a").attempts) == (f"{key}#2", 1)
    it.ends("a", 42)
    assert it.statuses() == {"a": "COMPLETED"}
    assert it.task("a").result == 42


def test_a_leg_that_waits_for_a_place_belongs_to_an_attempt_that_has_begun() -> None:
    it = Agent({"tasks": [{"task_id": name, "device": "far", "skill": "once"} for name in "ab"]}, fleet=FLEET)
    asks(it)
    it.batch(AttemptBegun(of=effect_of(it, "b")))
    it.answers("respond", 1)
    assert it.attempt("a").queued
    it.ends("a", error="device_lost")
    assert [stop.task_id for stop in stops(it)] == ["a"]
    assert "may have finished" in it.inquiry().prompt


def test_a_reject_declines_in_the_next_leg() -> None:
    it = agent()
    asks(it)
    it.answers("reject", reason="not today")
    assert request(it).reply == DeviceReply(verb="reject", reason="not today")


def test_an_answer_that_does_not_fit_the_schema_is_refused() -> None:
    it = agent()
    asks(it, DeviceQuestion(prompt="When?", schema={"type": "object", "properties": {"day": {"type": "integer"}}, "required": ["day"]}))
    refused = [(3, "asks for an object with day"), ({}, "lacks day"), ({"day": []}, "takes integer"), ({"day": 1, "hour": 2}, "takes day")]
    for value, why in refused:
        with pytest.raises(Refused, match=why):
            it.take(it.answer("respond", value))
    it.answers("respond", {"day": 3})
    assert request(it).leg == 2


def test_a_verb_that_the_question_does_not_accept_is_refused() -> None:
    it = agent()
    asks(it)
    with pytest.raises(Refused):
        it.take(it.answer("approve"))


def test_cancelling_the_question_stops_the_attempt() -> None:
    it = agent()
    key = effect_of(it)
    attached(it, "h1")
    asks(it)
    it.answers("cancel")
    assert it.statuses() == {"a": "CANCELLED"}
    assert [(stop.of, stop.handle, stop.state) for stop in stops(it)] == [(key, "h1", {"task": "17"})]


def test_a_question_that_expires_stops_the_attempt() -> None:
    it = Agent({"tasks": [{"task_id": "a", "device": "far", "skill": "once"}]}, fleet=FLEET, inquiry_timeout_s=10)
    asks(it)
    it.now += 10
    it.drain()
    assert it.statuses() == {"a": "FAILED"}
    assert len(stops(it)) == 1


def test_a_cancel_between_two_legs_stops_the_attempt() -> None:
    it = agent()
    key = effect_of(it)
    asks(it)
    it.batch(Cancel())
    assert [stop.of for stop in stops(it)] == [key]


def test_an_attempt_has_a_limited_number_of_legs() -> None:
    it = agent()
    for _ in range(MAX_LEGS - 1):
        asks(it)
        it.answers("respond", 1)
    asks(it)
    assert it.statuses() == {"a": "FAILED"}
    assert not it.outstanding(AskPerson)
    assert len(stops(it)) == 1


# -- attempts that go on without an answer ---------------------------------------------------------


def waiting() -> Agent:
    """An attempt that waits for an answer, and may go on without one."""
    it = agent()
    attached(it, "h1")
    asks(it, msgspec.structs.replace(WHICH, may_go_on=True))
    return it


def looks(it: Agent, *, gone_on: bool = False) -> None:
    """Let the device say whether the attempt has gone on, at the time of the next look."""
    it.now = max(it.now, it.memory.wake_at() or 0.0)
    it.drain()
    (look,) = it.outstanding(LookAtAttempt)
    made = it.run.request(look)
    assert (made.handle, made.state, made.reply) == ("h1", {"task": "17"}, None)
    it.batch(AttemptLooked(effect_id=look, gone_on=gone_on))


def test_an_attempt_that_goes_on_without_an_answer_gives_its_result_and_its_question_closes() -> None:
    """G2: nobody looked at the task while its question was open."""
    it = waiting()
    key = effect_of(it)
    looks(it)
    assert it.inquiry().prompt == "Which one?"
    looks(it, gone_on=True)
    assert key in it.run.cancelled_effects
    made = request(it)
    assert (made.leg, made.reply, made.state, made.handle) == (2, None, {"task": "17"}, "h1")
    it.ends("a", 42)
    assert (it.statuses(), it.task("a").result, it.memory.inquiries) == ({"a": "COMPLETED"}, 42, {})
    assert not stops(it)
    assert memory_of(it.replayed()) == memory_of(it.run)


def test_an_attempt_that_waits_is_looked_at_after_growing_waits_and_by_a_new_owner_at_once() -> None:
    """G2."""
    it, start, times = waiting(), 0.0, []
    start = it.now
    for _ in range(9):
        looks(it)
        times.append(it.now - start)
    assert times == [10, 30, 70, 150, 310, 630, 1230, 1830, 2430]
    acquired(it)
    it.drain()
    assert it.outstanding(LookAtAttempt)


@pytest.mark.parametrize("gone_on", [False, True])
def test_an_answer_during_a_look_counts(*, gone_on: bool) -> None:
    it = waiting()
    it.now += 10
    it.drain()
    (look,) = it.outstanding(LookAtAttempt)
    it.answers("respond", 1)
    it.batch(AttemptLooked(effect_id=look, gone_on=gone_on))
    assert (request(it).leg, request(it).reply) == (2, DeviceReply(verb="respond", value=1))
    it.now += 1000
    it.drain()
    assert not it.outstanding(LookAtAttempt)


def test_an_attempt_that_cannot_go_on_without_an_answer_is_not_looked_at() -> None:
    it = agent()
    asks(it)
    assert not it.memory.looks


def test_a_fork_does_not_look_at_the_attempt_of_its_original() -> None:
    it = waiting()
    it.now += 10
    it.drain()
    (look,) = it.outstanding(LookAtAttempt)
    forked(it)
    assert look in it.run.cancelled_effects
    it.take(AttemptLooked(effect_id=look))
    it.now += 1000
    it.drain()
    assert not it.outstanding(LookAtAttempt)


# -- forks -----------------------------------------------------------------------------------------


def forked(it: Agent) -> Agent:
    it.take(Forked(origin="r0", seq=it.run.seq, idle_s=0.0))
    return it


def test_a_fork_takes_no_handles_and_stops_nothing() -> None:
    it = agent()
    attached(it, "h1")
    forked(it)
    assert not it.memory.handles
    assert not stops(it)
    assert "was under way when r0 was forked" in it.inquiry().prompt


def test_a_fork_does_not_stop_what_its_original_was_stopping() -> None:
    it = agent()
    it.batch(Cancel())
    (stop,) = it.outstanding(StopAttempt)
    forked(it)
    assert stop in it.run.cancelled_effects
    it.take(AttemptStopped(effect_id=stop, error="may still run"))
    assert not it.memory.still_running
    assert not it.memory.unstopped


def test_a_fork_asks_about_the_interruption_in_place_of_the_question_of_a_device() -> None:
    it = agent()
    asks(it)
    forked(it)
    question = next(it_ for key, it_ in it.outstanding(AskPerson).items() if key not in it.run.cancelled_effects)
    assert question.prompt == "a on far was waiting for an answer when r0 was forked, and has begun there. Run it here?"
    assert question.verbs == ("approve", "respond", "reject")
    assert not stops(it)


# -- devices that come and go ----------------------------------------------------------------------


def test_a_device_joins_and_leaves_the_fleet() -> None:
    it = agent()
    new = AgentProfile(device_id="new", skills=SKILLS)
    it.batch(DeviceFound(device="new", profile=new))
    assert it.memory.fleet["new"] == new
    it.batch(DeviceLost(device="new", reason="it has left the fleet", removed=True))
    assert "new" not in it.memory.fleet


def test_the_same_profile_again_makes_no_entry() -> None:
    it = agent()
    assert it.take(DeviceFound(device="far", profile=FLEET[0])) is None


def test_a_task_whose_only_device_has_left_the_fleet_fails() -> None:
    it = Agent(
        {
            "tasks": [{"task_id": "a", "device": "near", "skill": "once"}, {"task_id": "b", "device": "far", "skill": "unique"}],
            "dependencies": [{"from": "a", "to": "b"}],
        },
        fleet=(*FLEET[1:], AgentProfile(device_id="far", skills=(Skill(name="unique"),))),
    )
    it.batch(DeviceLost(device="far", removed=True))
    it.ends("a")
    error = it.task("b").error
    assert error is not None
    assert (error.code, error.words) == ("no_device", "device 'far' has left the fleet, and no other device has the skill 'unique'")


@pytest.mark.parametrize(
    ("skills", "why"),
    [
        ((), "device 'near' has no skill 'once' any more"),
        ((Skill(name="once", parameters={"properties": {"y": {}}}),), "once takes y"),
        ((Skill(name="once", parameters={"properties": {"x": {"type": "string"}}}),), "once takes string, not int"),
        ((Skill(name="once", parameters={"properties": {"x": {}, "z": {}}, "required": ["z"]}),), "it needs z"),
    ],
)
def test_a_skill_that_has_changed_since_planning_is_refused_before_the_call(skills: Any, why: str) -> None:
    it = Agent(
        {
            "tasks": [
                {"task_id": "a", "device": "far", "skill": "again"},
                {"task_id": "b", "device": "near", "skill": "once", "inputs": {"x": 1}},
            ],
            "dependencies": [{"from": "a", "to": "b"}],
        },
        fleet=FLEET,
    )
    it.batch(DeviceFound(device="near", profile=AgentProfile(device_id="near", skills=skills)))
    it.ends("a")
    error = it.task("b").error
    assert error is not None
    assert error.code == "bad_arguments"
    assert why in error.words


def test_a_skill_that_still_takes_the_arguments_is_performed() -> None:
    it = Agent(
        {
            "tasks": [
                {"task_id": "a", "device": "far", "skill": "again"},
                {"task_id": "b", "device": "near", "skill": "once", "inputs": {"x": 1}},
            ],
            "dependencies": [{"from": "a", "to": "b"}],
        },
        fleet=FLEET,
    )
    more = Skill(name="once", parameters={"properties": {"x": {"type": "integer"}, "y": {}}})
    it.batch(DeviceFound(device="near", profile=AgentProfile(device_id="near", skills=(more,))))
    it.ends("a")
    assert it.running() == ["b"]


def test_a_planner_is_told_which_devices_are_lost_and_busy() -> None:
    it = Agent(
        {"tasks": [{"task_id": "a", "device": "near", "skill": "once"}, {"task_id": "b", "device": "far", "skill": "once"}]},
        fleet=FLEET,
        replan="always",
    )
    it.batch(DeviceLost(device="mcp", reason="unplugged"))
    it.ends("a")
    (effect_id,) = it.outstanding(AskPlanner)
    made = it.run.request(effect_id)
    assert (made.lost, made.busy) == (("mcp",), {"far": 1})


# -- devices that confirm no cancel ----------------------------------------------------------------


@pytest.mark.parametrize("skill", ["once", "again"])
def test_a_cancelled_attempt_that_its_device_cannot_find_again_is_asked_about(skill: str) -> None:
    it = Agent({"tasks": [{"task_id": task_id, "device": "tools", "skill": skill} for task_id in "ab"]}, fleet=FLEET)
    running = effect_of(it)
    it.batch(Cancel())
    (stop,) = stops(it)  # the other one waits in the queue
    assert (stop.of, stop.device, stop.handle) == (running, "tools", "")
    it.batch(AttemptStopped(effect_id=next(iter(it.outstanding(StopAttempt))), error="a may still run on tools: it cannot say"))
    it.finish_cancellations()
    assert list(it.memory.still_running.values()) == ["a may still run on tools: it cannot say"]


def test_a_lost_or_crashed_attempt_of_such_a_device_is_not_stopped() -> None:
    for error in ("device_lost", "crashed", "timeout"):
        it = agent(device="tools")
        it.ends("a", error=error)
        assert not stops(it)
