"""Tasks that wait for a duration or a time: what ends the wait, and what of the run goes on meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from asterism.constellation.machine.events import Edited
from asterism.constellation.model.edits import EditRefused
from asterism.constellation.model.wait import matches
from asterism.engine.control.run_control import Cancel, Pause, Unpause
from asterism.engine.control.waits import EventTaken, WaitFor
from asterism.engine.runtime.run_status import status_of
from asterism.errors import InvalidInput, Refused
from tests.support.constellation_harness import Agent
from tests.support.constellations import action


def error_of(it: Agent) -> tuple[str, str]:
    error = it.task("w").error
    return (error.code, error.words) if error else ("", "")


def chain(wait: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    return [{"task_id": "a", "device": "d"}, {"task_id": "w", "wait": wait, **fields}, {"task_id": "b", "device": "d"}]


def plan(wait: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"tasks": chain(wait, **fields), "dependencies": [{"from": "a", "to": "w"}, {"from": "w", "to": "b"}]}


def test_a_wait_ends_after_its_duration_and_the_next_task_starts_then() -> None:
    it = Agent(plan({"for_s": 60.0}))
    it.ends("a")
    assert (it.task("w").status, it.run.memory.wake_at(), status_of(it.run)) == ("RUNNING", 1060.0, "waiting")
    it.wait_until(1059.0)
    assert it.task("w").status == "RUNNING"
    it.wait_until(1060.0)
    assert (it.task("w").status, it.task("w").result, it.task("b").status) == ("COMPLETED", None, "RUNNING")


def test_a_wait_for_a_time_that_has_passed_ends_at_once() -> None:
    it = Agent(plan({"until": "1970-01-01T00:00:00Z"}))
    it.ends("a")
    it.drain()
    assert (it.task("w").status, it.task("b").status) == ("COMPLETED", "RUNNING")


def test_a_time_may_come_from_a_result_and_one_that_is_none_fails_the_task() -> None:
    it = Agent(plan({"until": "${a.at}"}))
    it.ends("a", result={"at": "1970-01-01T01:00:00+00:00"})
    assert it.run.memory.wake_at() == 3600.0
    it = Agent(plan({"until": "${a.at}"}))
    it.ends("a", result={"at": "tomorrow"})
    words = "w.wait.until: 'tomorrow' is no time with an offset, such as 2026-12-01T08:00:00+01:00"
    assert error_of(it) == ("bad_arguments", words)


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"timeout_s": 60.0}, "timeout", "it waited longer than 60 s"),
        ({"deadline_s": 60.0}, "deadline", "it still waited 60 s after the start of the run"),
    ],
)
def test_a_wait_that_takes_too_long_fails(fields: dict[str, Any], code: str, words: str) -> None:
    it = Agent(plan({"for_s": 61.0}, **fields))
    it.ends("a")
    it.wait_until(1060.0)
    assert error_of(it) == (code, words)
    it.finish_cancellations()
    assert it.state == "FAIL"


def test_time_in_which_a_run_only_waits_does_not_count_to_its_limit() -> None:
    it = Agent(plan({"for_s": 1000.0}), wall_limit_s=100.0)
    it.now = 1040.0
    it.ends("a")
    it.wait_until(2040.0)
    it.finish_cancellations()
    assert (it.task("b").status, it.run.memory.wake_at()) == ("RUNNING", 2100.0)
    it.wait_until(2100.0)
    assert it.run.memory.reason == "the run took longer than 100 s"


def test_time_in_which_a_person_alone_is_waited_for_does_not_count_either() -> None:
    it = Agent({"tasks": [{"task_id": "a", "device": "d", "requires_approval": True}]}, wall_limit_s=100.0)
    it.wait_until(5000.0)
    it.answers("approve")
    assert (it.task("a").status, it.run.memory.wake_at()) == ("RUNNING", 5100.0)


def test_time_counts_while_another_task_works() -> None:
    it = Agent({"tasks": [{"task_id": "a", "device": "d"}, {"task_id": "w", "wait": {"for_s": 1000.0}}]}, wall_limit_s=100.0)
    it.wait_until(1100.0)
    assert it.run.memory.code == "wall_limit"


def test_a_cancel_ends_a_wait() -> None:
    it = Agent({"tasks": [{"task_id": "w", "wait": {"for_s": 1000.0}}]})
    it.batch(Cancel())
    it.finish_cancellations()
    assert (it.task("w").status, it.state, it.run.ended, it.outstanding(WaitFor)) == ("CANCELLED", "FAIL", True, {})


def test_a_paused_run_begins_no_wait_and_ends_one_that_is_over() -> None:
    it = Agent(plan({"for_s": 60.0}))
    it.batch(Pause())
    it.ends("a")
    assert it.task("w").status == "PENDING"
    it.batch(Unpause())
    it.batch(Pause())
    it.wait_until(1060.0)
    assert (it.task("w").status, it.task("b").status) == ("COMPLETED", "PENDING")


def test_each_item_of_a_fan_out_waits_for_itself() -> None:
    it = Agent({"tasks": [{"task_id": "w", "wait": {"until": "${item}"}, "for_each": ["1970-01-01T00:30:00Z", "1970-01-01T00:20:00Z"]}]})
    it.wait_until(1200.0)
    assert (it.task("w[0]").status, it.task("w[1]").status) == ("RUNNING", "COMPLETED")


def test_a_wait_can_be_edited_until_it_begins() -> None:
    it = Agent(plan({"for_s": 60.0}))
    it.batch(Edited(actions=(action("update_task", task_id="w", wait={"for_s": 5.0}),)))
    it.ends("a")
    assert it.run.memory.wake_at() == 1005.0


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"wait": {}}, "give one of for_s, until and event"),
        ({"wait": {"for_s": 1.0, "until": "1970-01-01T00:00:00Z"}}, "give one of for_s, until and event"),
        ({"wait": {"event": "a b"}}, "'a b' is no name of an event"),
        ({"wait": {"for_s": 1.0, "match": "true"}}, "it is about an event"),
        ({"wait": {"event": "paid", "match": "event.n = 1"}}, "wait.match: the condition 'event.n = 1' does not parse"),
        ({"wait": {"for_s": 0}}, "0"),
        ({"wait": {"until": "2026-12-01T08:00"}}, "is no time with an offset"),
        ({"wait": {"for_s": 1.0}, "device": "d"}, "tasks[0].device: not for a task with a wait"),
        ({"wait": {"for_s": 1.0}, "requires_approval": True}, "requires_approval: not for a task with a wait"),
        ({"wait": {"seconds": 1.0}}, "its fields are for_s, until"),
    ],
)
def test_a_wait_that_says_nothing_or_too_much_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Agent({"tasks": [{"task_id": "w", **fields}]})
    assert problem in str(refused.value)


def test_an_event_completes_its_wait_with_its_data_and_a_second_one_is_refused() -> None:
    it = Agent(plan({"event": "paid", "match": "event.number == number"}, inputs={"number": "${a.number}"}))
    it.ends("a", result={"number": 7})
    wait = it.outstanding(WaitFor)[it.task("w").effect_id]
    assert (wait.event, wait.match, wait.values) == ("paid", "event.number == number", {"number": 7})
    assert (status_of(it.run), it.run.memory.wake_at()) == ("waiting", None)
    effect_id = it.task("w").effect_id
    it.batch(EventTaken(effect_id=effect_id, event_id="e1", data={"number": 7}))
    assert (it.task("w").status, it.task("w").result, it.task("b").status) == ("COMPLETED", {"number": 7}, "RUNNING")
    again = it.take(EventTaken(effect_id=effect_id, event_id="e2", data={}))
    assert again is not None
    assert "not_outstanding" in again.note


def test_an_event_that_comes_after_the_timeout_is_refused() -> None:
    it = Agent(plan({"event": "paid"}, timeout_s=60.0))
    it.ends("a")
    effect_id = it.task("w").effect_id
    it.wait_until(1060.0)
    with pytest.raises(Refused, match="is not open any more"):
        it.take(EventTaken(effect_id=effect_id, event_id="e1"))
    assert error_of(it) == ("timeout", "it waited longer than 60 s")


@pytest.mark.parametrize(("match", "met"), [("", True), ("event.n > least", True), ("event.n < least", False), ("event.x == 1", False)])
def test_a_match_compares_the_data_with_the_inputs(match: str, *, met: bool) -> None:
    assert matches({"match": match, "values": {"least": 2}}, {"n": 3}) is met


def test_a_match_is_bounded_as_a_condition_is() -> None:
    assert not matches({"match": "event.exists(x, x == 1)", "values": {}}, list(range(100_000)))


def test_a_match_that_asks_for_an_unknown_name_is_refused() -> None:
    with pytest.raises(EditRefused, match=r"match: 'event\.n == m' asks for 'm'; there is n, event"):
        Agent({"tasks": [{"task_id": "w", "wait": {"event": "paid", "match": "event.n == m"}, "inputs": {"n": 1}}]})
