"""Worlds with remote devices: crashes, cancels, lost connections, questions, and other sides that forget or report nonsense."""

from __future__ import annotations

from typing import Any

import pytest

from asterism.constellation.machine.events import RunOptions
from asterism.constellation.machine.stopping import STOP_TIMEOUT_S
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.engine.ports.store import InquiryRow
from asterism.testing.device import Behaviour
from asterism.testing.people import Answer, Crash, ScheduledEvent
from asterism.testing.remote import RemoteFaults
from asterism.testing.world import World

SKILLS = (Skill(name="do"), Skill(name="again", idempotent=True))
FAR = AgentProfile(device_id="far", kind="a2a", skills=SKILLS, reattach=True, concurrency=4)
PLAN = {
    "tasks": [
        {"task_id": "a", "device": "far", "skill": "do"},
        {"task_id": "b", "device": "far", "skill": "again"},
        {"task_id": "c", "device": "far", "skill": "do"},
    ],
    "dependencies": [{"from": "a", "to": "c"}, {"from": "b", "to": "c"}],
}
WORKS = Behaviour(duration_s=20, result={"value": 1})


def says(verb: Any, value: Any = None, after_s: float = 5.0) -> Any:
    return lambda inquiry: [Answer(verb=verb, value=value, after_s=after_s)]


def world(**given: Any) -> World:
    return World(given.pop("seed", 1), fleet=[FAR], script=lambda _: WORKS, **given)


def statuses(it: World) -> list[tuple[str, str]]:
    return sorted((job.attempt.task_id, job.status) for job in it.far_sides["far"].jobs)


ALL_ENDED = [("a", "ended"), ("b", "ended"), ("c", "ended")]
LENGTH = len(world().run(PLAN).records)


@pytest.mark.parametrize("after_s", [0.0, 0.005, 0.015, 3.0])
def test_a_crash_after_any_entry_repeats_no_remote_work_and_asks_nobody(after_s: float) -> None:
    for entry in range(2, LENGTH + 1):
        it = world(crashes=[Crash(entry=entry, after_s=after_s)])
        ending = it.run(PLAN)
        assert (ending.outcome, statuses(it)) == ("finished", ALL_ENDED), f"after entry {entry}: {ending.history}"


@pytest.mark.parametrize("after_s", [0.0, 0.005, 0.015, 3.0])
def test_a_crash_in_the_middle_of_a_cancel_leaves_nothing_running(after_s: float) -> None:
    cancel = [ScheduledEvent(at_s=10, what="cancel")]
    length = len(world(scheduled_events=cancel).run(PLAN).records)
    for entry in range(2, length + 1):
        it = world(scheduled_events=cancel, crashes=[Crash(entry=entry, after_s=after_s)])
        assert it.run(PLAN).outcome == "cancelled"
        assert all(status == "stopped" for _, status in statuses(it))


@pytest.mark.parametrize("after_s", [0.0, 0.015, 3.0])
def test_a_question_is_answered_once_whatever_crashes(after_s: float) -> None:
    given: dict[str, Any] = {"questions": lambda attempt: 2 if attempt.task_id == "a" else 0, "people": says("respond", "left")}
    length = len(world(**given).run(PLAN).records)
    for entry in range(2, length + 1):
        it = world(**given, crashes=[Crash(entry=entry, after_s=after_s)])
        ending = it.run(PLAN)
        assert (ending.outcome, statuses(it)) == ("finished", ALL_ENDED), f"after entry {entry}: {ending.history}"
        (job,) = (job for job in it.far_sides["far"].jobs if job.attempt.task_id == "a")
        assert [reply.value for reply in job.replies.values()] == ["left", "left"]
        assert ending.task("a").attempts == 1


def test_a_run_that_only_waits_for_the_answer_to_a_device_is_released() -> None:
    it = world(questions=lambda attempt: attempt.task_id == "a")
    ending = it.run(PLAN)
    assert ending.row.status == "waiting"
    assert ("a", "asking") in statuses(it)


def test_an_attempt_that_goes_on_without_an_answer_ends_its_task() -> None:
    """G2."""
    it = world(questions=lambda attempt: attempt.task_id == "a", remote_faults=RemoteFaults(goes_on=1.0))
    it.far_sides["far"]._script = lambda attempt: Behaviour(duration_s=200 if attempt.task_id == "b" else 1)  # else nobody drives the run
    ending = it.run(PLAN)
    assert (ending.outcome, statuses(it)) == ("finished", ALL_ENDED)
    assert not next(job for job in it.far_sides["far"].jobs if job.attempt.task_id == "a").replies


def test_a_question_that_expires_stops_the_attempt() -> None:
    it = world(questions=lambda attempt: attempt.task_id == "a")
    it.far_sides["far"]._script = lambda attempt: Behaviour(duration_s=200 if attempt.task_id == "b" else 1)  # else nobody drives the run
    ending = it.run(PLAN, options=RunOptions(inquiry_timeout_s=60))
    assert ending.outcome == "failed"
    assert ("a", "stopped") in statuses(it)


def test_a_lost_connection_costs_nothing() -> None:
    events = [ScheduledEvent(at_s=5, what="lose", device="far"), ScheduledEvent(at_s=60, what="find", device="far")]
    it = world(scheduled_events=events)
    assert (it.run(PLAN).outcome, statuses(it)) == ("finished", ALL_ENDED)


def test_replies_that_never_arrive_cost_nothing() -> None:
    events = [ScheduledEvent(at_s=0, what="mute", device="far"), ScheduledEvent(at_s=40, what="unmute", device="far")]
    it = world(scheduled_events=events)
    assert (it.run(PLAN).outcome, statuses(it)) == ("finished", ALL_ENDED)


def test_past_the_grace_period_a_person_is_asked_and_the_attempt_is_stopped_when_the_device_is_found() -> None:
    events = [ScheduledEvent(at_s=5, what="lose", device="far"), ScheduledEvent(at_s=300, what="find", device="far")]
    it = world(scheduled_events=events, people=says("approve"))
    it.far_sides["far"]._script = lambda _: Behaviour(duration_s=1000)
    ending = it.run(PLAN)
    assert ending.outcome == "finished"
    assert [status for task, status in statuses(it) if task == "a"] == ["ended", "stopped"]


def test_a_cancel_without_connection_names_what_may_still_run() -> None:
    events = [ScheduledEvent(at_s=5, what="lose", device="far"), ScheduledEvent(at_s=6, what="cancel")]
    it = world(scheduled_events=events)
    it.far_sides["far"]._script = lambda _: Behaviour(hangs=True)
    ending = it.run(PLAN)
    assert ending.outcome == "cancelled"
    assert sorted(ending.memory.result()["still_running"]) == [f"{task} may still run on far: no route to host" for task in "ab"]
    assert ending.records[-1].at - ending.records[0].at >= STOP_TIMEOUT_S


def test_a_device_that_forgets_is_asked_about() -> None:
    asked: list[InquiryRow] = []

    def people(inquiry: InquiryRow) -> list[Answer]:
        asked.append(inquiry)
        return [Answer(verb="approve")]

    it = world(scheduled_events=[ScheduledEvent(at_s=5, what="forget", device="far")], people=people)
    ending = it.run(PLAN)
    assert ending.outcome == "finished"
    assert ["the other side does not know it any more" in inquiry.prompt for inquiry in asked] == [True]  # b is idempotent


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("goes_on", [0.0, 0.5])
def test_an_unreliable_network_repeats_nothing(seed: int, goes_on: float) -> None:
    faults = RemoteFaults(seed=seed, lost_request=0.2, lost_reply=0.2, slow=0.2, chatter=0.5, goes_on=goes_on)
    it = world(seed=seed, remote_faults=faults, crashes=[Crash(entry=5, after_s=3)], questions=lambda _: 1, people=says("respond", "x"))
    ending = it.run(PLAN)
    assert (ending.outcome, statuses(it)) == ("finished", ALL_ENDED)
