"""Fan-out: a task with ``for_each`` is performed once for each item of a list that is known when it could start."""

from __future__ import annotations

from typing import Any

import pytest

from asterism.constellation.machine.definition import first_event
from asterism.constellation.machine.events import AttemptBegun, Dispatch, Edited, Retry
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.edits import EditRefused
from asterism.constellation.model.fan_out import MAX_ITEMS, items_words
from asterism.devices.model.attempt import DeviceFound, DeviceLost
from asterism.engine.control.children import StartChild
from asterism.engine.control.run_control import BatchEnded, Cancel, Forked, OwnershipAcquired, Pause, Unpause
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.engine.kernel.run import Run
from asterism.errors import Refused
from tests.support.constellation_harness import FLEET, Agent, agent_of_rules, memory_of, retried
from tests.support.constellations import action, lines

WIDE = (*FLEET, AgentProfile(device_id="w", natural_language=True, concurrency=10))
"""The fleet, with a device that performs ten attempts at a time."""


def planned(arrows: str = "a>b", device: str = "d", items: Any = "${a.files}", after: dict[str, Any] | None = None, **of_b: Any) -> Any:
    """Return a plan of ``a``, the fan-out ``b`` and, with ``after``, the task ``c``."""
    each: dict[str, Any] = {"items": items, **{key: of_b.pop(key) for key in ("max_concurrent", "failed") if key in of_b}}
    b = {"task_id": "b", "device": device, "inputs": {"x": "${item}"}, "for_each": each, **of_b}
    if device == "s":
        b = {"skill": "again", **b}
    c = [{"task_id": "c", "device": "d", **after}] if after is not None else []
    return {"tasks": [{"task_id": "a", "device": "d"}, b, *c], "dependencies": lines(arrows + (" b>c" if c else ""))}


def begun(files: list[Any], **plan: Any) -> Agent:
    """Return a run whose task ``a`` has returned the files."""
    agent = Agent(planned(**plan), fleet=WIDE)
    agent.ends("a", {"files": files})
    return agent


def under_way(agent: Agent) -> list[str]:
    return [it.task_id for key, it in agent.outstanding(Dispatch).items() if key not in agent.run.cancelled_effects]


def items(agent: Agent) -> list[str]:
    return [str(task.status) for task in agent.constellation.in_order_with_items() if task.item_of]


def same_on_replay(agent: Agent) -> None:
    assert memory_of(agent.replayed()) == memory_of(agent.run)


def test_each_item_is_a_task_and_the_results_are_in_order() -> None:
    agent = begun(["p", "q", "r"], after={"inputs": {"parts": "${b}", "second": "${b.1}"}})
    assert agent.statuses() == {"a": "COMPLETED", "b": "RUNNING", "c": "WAITING_DEPENDENCY"}
    assert under_way(agent) == ["b[0]", "b[1]", "b[2]"]
    assert agent.attempt("b[1]").arguments == {"x": "q"}
    for task_id in ("b[2]", "b[0]", "b[1]"):
        assert agent.task("b").status == "RUNNING"
        agent.ends(task_id, f"result of {task_id}")
    assert agent.task("b").result == ["result of b[0]", "result of b[1]", "result of b[2]"]
    assert agent.attempt("c").arguments == {"parts": agent.task("b").result, "second": "result of b[1]"}
    agent.ends("c")
    assert agent.state == "FINISH"
    assert agent.memory.result() == {"summary": "3 tasks: 3 completed", "total_tasks": 3, "completed": 3} | dict.fromkeys(
        ("failed", "skipped", "cancelled"), 0
    )
    assert agent.memory.report()["results"] == {"a": {"files": ["p", "q", "r"]}, "b": agent.task("b").result, "c": None}
    same_on_replay(agent)


def test_an_item_is_a_value_of_its_own_with_fields_and_a_number() -> None:
    files = [{"name": "${a.secret}", "size": 3}, {"name": "y", "size": 4}]
    agent = begun(files, inputs={"text": "${index}: ${item.name}", "whole": "${item}", "size": "${item.size}"})
    assert agent.attempt("b[0]").arguments == {"text": "0: ${a.secret}", "whole": files[0], "size": 3}
    assert agent.attempt("b[1]").arguments == {"text": "1: y", "whole": files[1], "size": 4}


def test_an_item_gets_the_results_before_its_task_but_not_the_list_as_a_whole() -> None:
    plan = planned("a>b e>b")
    plan["tasks"].append({"task_id": "e", "device": "d"})
    agent = Agent(plan)
    agent.ends("a", {"files": [1, 2]})
    agent.ends("e", "of e")
    request = agent.run.request(next(key for key, it in agent.outstanding(Dispatch).items() if it.task_id == "b[1]"))
    assert request.results == {"e": "of e"}


def test_at_most_max_concurrent_items_are_under_way() -> None:
    agent = begun([1, 2, 3, 4, 5], max_concurrent=2)
    assert under_way(agent) == ["b[0]", "b[1]"]
    agent.ends("b[1]")
    assert under_way(agent) == ["b[0]", "b[2]"]
    agent.batch(agent.end_of("b[0]"), agent.end_of("b[2]"))
    assert under_way(agent) == ["b[3]", "b[4]"]
    same_on_replay(agent)


def test_an_item_in_its_backoff_holds_its_place() -> None:
    agent = begun([1, 2], max_concurrent=1, retry={"max_attempts": 2, "backoff_s": 10})
    agent.ends("b[0]", error="raised")
    assert under_way(agent) == []
    agent.wait_until(agent.now + 20)
    assert under_way(agent) == ["b[0]"]
    agent.ends("b[0]")
    assert under_way(agent) == ["b[1]"]


def test_an_empty_list_completes_with_an_empty_list() -> None:
    agent = begun([], after={"inputs": {"parts": "${b}", "failed": "${b.failed}"}})
    assert agent.task("b").result == []
    assert agent.attempt("c").arguments == {"parts": [], "failed": []}
    same_on_replay(agent)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("abc", "for_each.items is a text, not a list: ${a.files}"),
        ({"x": 1}, "for_each.items is an object, not a list: ${a.files}"),
        (None, "for_each.items is null, not a list: ${a.files}"),
        (3, "for_each.items is a number, not a list: ${a.files}"),
        ([0] * (MAX_ITEMS + 1), "for_each.items has 10,001 items; at most 10,000"),
    ],
)
def test_what_is_no_list_or_too_long_fails_the_task(value: Any, why: str) -> None:
    agent = begun(value)
    error = agent.task("b").error
    assert error is not None
    assert (error.code, error.words) == ("bad_arguments", why)
    assert agent.memory.outcome() == "failed"
    assert items(agent) == []
    same_on_replay(agent)


def test_a_list_that_is_missing_skips_the_task_as_any_missing_value() -> None:
    agent = Agent(planned())
    agent.ends("a", {})
    error = agent.task("b").error
    assert error is not None
    assert (agent.task("b").status, error.code) == ("SKIPPED", "no_result")


def test_the_items_of_a_run_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asterism.constellation.machine.items.MAX_ITEMS_OF_RUN", 3)
    agent = Agent(planned("a>b a>c", after={"inputs": {"x": "${item}"}, "for_each": "${a.files}"}) | {"dependencies": lines("a>b a>c")})
    agent.ends("a", {"files": [1, 2]})
    error = agent.task("c").error
    assert error is not None
    assert error.words == "for_each.items has 2 items, and the run has 2 already; at most 3 in all"


def test_after_a_failure_no_item_starts_and_the_task_names_it() -> None:
    agent = begun([1, 2, 3, 4], max_concurrent=2, after={})
    agent.ends("b[1]", error="raised")
    assert under_way(agent) == ["b[0]"]
    assert items(agent) == ["RUNNING", "FAILED", "SKIPPED", "SKIPPED"]
    assert agent.task("b").status == "RUNNING"
    agent.ends("b[0]", 1)
    error = agent.task("b").error
    assert error is not None
    assert (error.code, error.words) == ("item_failed", "1 of 4 items failed: b[1]: b[1]: raised")
    assert agent.statuses() == {"a": "COMPLETED", "b": "FAILED", "c": "SKIPPED"}
    assert agent.memory.reason == "b is FAILED: 1 of 4 items failed: b[1]: b[1]: raised"
    same_on_replay(agent)


def test_items_in_the_queue_of_their_device_do_not_start_after_a_failure() -> None:
    """B2."""
    agent = begun([1, 2, 3], device="s", after={})
    waiting = AttemptBegun(of=agent.task("b[1]").effect_id)
    agent.batch(agent.end_of("b[0]", error="raised"), waiting)
    assert items(agent) == ["FAILED", "SKIPPED", "SKIPPED"]
    assert under_way(agent) == []
    assert (agent.memory.queued, agent.memory.busy) == ({}, {})
    agent.finish_cancellations()
    assert (agent.state, agent.memory.reason) == ("FAIL", "b (again) is FAILED: 1 of 3 items failed: b[0]: b[0]: raised")
    same_on_replay(agent)


def test_an_item_that_began_in_the_batch_before_the_failure_ends_by_itself() -> None:
    """B2."""
    agent = begun([1, 2, 3], device="s")
    agent.batch(AttemptBegun(of=agent.task("b[1]").effect_id), agent.end_of("b[0]", error="raised"))
    assert items(agent) == ["FAILED", "RUNNING", "SKIPPED"]
    agent.ends("b[1]")
    assert agent.task("b").status == "FAILED"


def test_a_queued_retry_of_an_item_that_has_begun_goes_on_after_a_failure() -> None:
    """B2."""
    agent = begun([1, 2, 3], device="s", retry={"max_attempts": 2, "backoff_s": 0})
    agent.batch(agent.end_of("b[0]", error="raised"), AttemptBegun(of=agent.task("b[1]").effect_id))
    agent.wait_until(agent.now + 1)
    assert agent.attempt("b[0]").queued
    agent.ends("b[1]", error="bad_arguments")
    assert items(agent) == ["RUNNING", "FAILED", "SKIPPED"]


def test_under_the_rules_before_queued_items_start_after_a_failure() -> None:
    agent = agent_of_rules(6)(planned("", items=[1, 2, 3], device="s"))
    agent.ends("b[0]", error="raised")
    assert under_way(agent) == ["a", "b[1]", "b[2]"]


def test_an_item_of_a_list_that_stops_waits_until_the_journal_has_its_begin() -> None:
    """B2."""
    for failed, waits in (("stop", True), ("omit", False)):
        agent = begun([1, 2], device="s", failed=failed)
        assert agent.run.request(agent.task("b[1]").effect_id).begins_durably is waits


def test_an_item_that_has_begun_is_retried_after_the_failure_of_another() -> None:
    agent = begun([1, 2, 3], max_concurrent=2, retry={"max_attempts": 2, "backoff_s": 0}, device="s")
    agent.ends("b[1]", error="bad_arguments")
    agent.ends("b[0]", error="raised")
    agent.wait_until(agent.now + 60)
    assert under_way(agent) == ["b[0]"]
    agent.ends("b[0]")
    assert items(agent) == ["COMPLETED", "FAILED", "SKIPPED"]
    assert agent.task("b").status == "FAILED"


def test_failed_items_can_be_left_out_and_are_listed() -> None:
    after = {"inputs": {"parts": "${b}", "lost": "${b.failed}", "first": "${b.failed.0.item}"}, "when": "size(parts) >= 2"}
    agent = begun(["p", "q", "r"], failed="omit", after=after)
    agent.ends("b[1]", error="raised")
    agent.batch(agent.end_of("b[0]", "P"), agent.end_of("b[2]", "R"))
    lost = [{"index": 1, "item": "q", "error": "b[1]: raised"}]
    assert agent.attempt("c").arguments == {"parts": ["P", "R"], "lost": lost, "first": "q"}
    agent.ends("c")
    assert agent.memory.outcome() == "finished"
    assert agent.memory.result()["summary"] == "3 tasks: 3 completed; b: 2 of 3 items, 1 failed"
    same_on_replay(agent)


def test_an_error_names_the_first_failed_items() -> None:
    agent = begun(list(range(6)), device="w")
    agent.batch(*(agent.end_of(f"b[{number}]", error="raised") for number in (5, 4, 3, 2, 1, 0)))
    error = agent.task("b").error
    assert error is not None
    assert error.words == "6 of 6 items failed: b[0]: b[0]: raised; b[1]: b[1]: raised; b[2]: b[2]: raised; and 3 more"


def test_when_chooses_items() -> None:
    agent = begun([1, 5, 2, 6], max_concurrent=1, when="x > 2")
    assert under_way(agent) == ["b[1]"]
    agent.ends("b[1]", "five")
    agent.ends("b[3]", "six")
    assert agent.task("b").result == ["five", "six"]
    assert items(agent) == ["SKIPPED", "COMPLETED", "SKIPPED", "COMPLETED"]
    assert agent.state == "FINISH"
    same_on_replay(agent)


def test_an_item_that_lacks_a_value_fails() -> None:
    agent = begun([{"n": 1}, {}], failed="omit", inputs={"n": "${item.n}"})
    error = agent.task("b[1]").error
    assert error is not None
    assert (error.code, error.words) == ("no_result", "${item.n}: the item has no 'n'")
    agent.ends("b[0]", 1)
    assert agent.task("b").result == [1]


def test_each_item_is_approved_on_its_own() -> None:
    agent = begun([1, 2, 3], max_concurrent=1, requires_approval=True, failed="omit")
    assert agent.inquiry().subject["task_id"] == "b[0]"
    assert agent.inquiry().subject["arguments"] == {"x": 1}
    agent.answers("edit", {"x": 7})
    assert agent.attempt("b[0]").arguments == {"x": 7}
    agent.ends("b[0]", "done")
    agent.answers("reject")
    agent.answers("approve")
    agent.ends("b[2]", "too")
    assert agent.task("b").result == ["done", "too"]
    same_on_replay(agent)


def test_a_rejected_item_has_failed() -> None:
    agent = begun([1, 2], requires_approval=True)
    agent.answers("reject", reason="no")
    assert items(agent) == ["CANCELLED", "SKIPPED"]
    error = agent.task("b").error
    assert error is not None
    assert error.words == "1 of 2 items failed: b[0]: me said no: no"
    assert agent.memory.questions == {}
    agent.finish_cancellations()
    assert agent.state == "FAIL"
    same_on_replay(agent)


def test_unanswered_items_expire_one_by_one() -> None:
    agent = begun([1, 2], requires_approval=True, deadline_s=100)
    agent.wait_until(agent.now + 200)
    assert items(agent) == ["FAILED", "SKIPPED"]
    agent.finish_cancellations()
    assert agent.state == "FAIL"
    same_on_replay(agent)


def test_a_deadline_holds_for_items_that_have_not_started() -> None:
    agent = begun([1, 2, 3], max_concurrent=1, deadline_s=100, failed="omit")
    agent.wait_until(agent.now + 200)
    assert items(agent) == ["RUNNING", "FAILED", "FAILED"]
    agent.ends("b[0]", 1)
    assert agent.task("b").result == [1]
    same_on_replay(agent)


def test_a_cancel_stops_every_item() -> None:
    agent = begun([1, 2, 3], max_concurrent=2)
    agent.take(Cancel(reason="enough"))
    assert items(agent) == ["CANCELLED"] * 3
    agent.finish_cancellations()
    assert (agent.state, agent.memory.outcome()) == ("FAIL", "cancelled")
    assert agent.memory.result()["total_tasks"] == 2
    same_on_replay(agent)


def test_a_paused_run_starts_no_further_item() -> None:
    agent = begun([1, 2], max_concurrent=1)
    agent.batch(Pause())
    agent.ends("b[0]")
    assert under_way(agent) == []
    agent.batch(Unpause())
    assert under_way(agent) == ["b[1]"]


def test_a_fork_decides_about_each_item_again() -> None:
    agent = begun([1, 2, 3], device="s", max_concurrent=2)
    agent.ends("b[0]", "one")
    agent.batch(Forked(origin="before", seq=agent.run.seq, idle_s=0.0))
    assert under_way(agent) == ["b[1]", "b[2]"]
    agent.finish_cancellations()
    agent.ends("b[1]")
    agent.ends("b[2]")
    assert agent.task("b").result == ["one", None, None]
    same_on_replay(agent)


def test_items_have_the_priority_of_their_task() -> None:
    agent = Agent(planned("", items=[1, 2], priority=7))
    assert {task_id: agent.attempt(task_id).priority for task_id in under_way(agent)} == {"a": 0, "b[0]": 7, "b[1]": 7}


def test_the_planner_hears_of_the_task_and_not_of_its_items() -> None:
    agent = Agent(planned(), replan="always")
    agent.ends("a", {"files": [1, 2]})
    agent.plans()
    agent.ends("b[0]")
    assert agent.question() is None
    agent.ends("b[1]")
    question = agent.question()
    assert question is not None
    assert question.batch == ("b",)
    request = agent.run.request(next(iter(agent.run.outstanding)))
    assert [task["task_id"] for task in request.constellation["tasks"]] == ["a", "b"]


def test_items_cannot_be_edited_and_their_task_only_before_it_starts() -> None:
    agent = Agent(planned(max_concurrent=1))
    agent.batch(Edited(actions=(action("update_task", task_id="b", for_each={"items": "${a.files}", "max_concurrent": 2}),)))
    agent.ends("a", {"files": [1, 2, 3]})
    assert under_way(agent) == ["b[0]", "b[1]"]
    for refused, why in (
        (action("update_task", task_id="b[2]", priority=3), "it is an item of b"),
        (action("remove_task", task_id="b[2]"), "it is an item of b"),
        (action("add_dependency", from_="b[2]", to="a"), "it is an item of b"),
        (action("update_task", task_id="b", priority=3), "it is RUNNING"),
    ):
        with pytest.raises(EditRefused, match=why.replace("[", r"\[")):
            agent.take(Edited(actions=(refused,)))
    agent.batch(
        Edited(actions=(action("add_task", task_id="z", device="d", inputs={"x": "${b}"}), action("add_dependency", from_="b", to="z")))
    )
    for task_id in ("b[0]", "b[1]", "b[2]"):
        agent.ends(task_id, task_id)
    assert agent.attempt("z").arguments == {"x": ["b[0]", "b[1]", "b[2]"]}
    same_on_replay(agent)


def test_a_handler_can_fan_out_over_the_failed_items() -> None:
    plan = planned(device="w")
    plan["on_failure"] = [{"task_id": "h", "device": "w", "inputs": {"x": "${item.error}"}, "for_each": "${b.failed}"}]
    agent = Agent(plan, fleet=WIDE)
    agent.ends("a", {"files": [1, 2]})
    agent.batch(agent.end_of("b[0]", error="raised"), agent.end_of("b[1]", error="raised"))
    assert under_way(agent) == ["h[0]", "h[1]"]
    assert agent.attempt("h[1]").arguments == {"x": "b[1]: raised"}
    agent.ends("h[0]")
    agent.ends("h[1]", error="raised")
    assert (agent.state, agent.memory.code) == ("FAIL", "task_failed")
    assert "h" in agent.memory.result()["handlers_failed"]
    same_on_replay(agent)


def test_each_item_can_be_a_constellation_of_its_own() -> None:
    nested = {"tasks": [{"task_id": "n", "device": "d", "inputs": {"x": "${inputs.x}"}}]}
    agent = begun(["p", "q"], device="", constellation=nested)
    assert [it.start.inputs for it in agent.outstanding(StartChild).values()] == [{"x": "p"}, {"x": "q"}]


SKILLS = (
    AgentProfile(device_id="d", natural_language=True),
    AgentProfile(device_id="t", skills=(Skill(name="do", parameters={"type": "object", "properties": {"x": {"type": "integer"}}}),)),
)


@pytest.mark.parametrize(
    ("b", "why"),
    [
        ({"inputs": {"x": "${item}"}, "for_each": None}, "only a task with for_each has it"),
        ({"inputs": {"x": "${index}"}, "for_each": None}, "only a task with for_each has it"),
        ({"for_each": "${z.files}"}, "z is not upstream of it"),
        ({"inputs": {"y": "${item}"}}, "do takes x"),
        ({"when": "size > 3"}, "asks for 'size'"),
    ],
)
def test_a_fan_out_is_checked_when_it_is_planned(b: dict[str, Any], why: str) -> None:
    plan = planned()
    plan["tasks"][1] |= {"device": "t", "skill": "do", **b}
    with pytest.raises(EditRefused) as refused:
        Agent(plan, fleet=SKILLS)
    assert why in str(refused.value)


def test_a_field_of_the_list_of_results_is_refused() -> None:
    with pytest.raises(EditRefused, match="the result of b is the list of its items' results, and has no 'size'"):
        Agent(planned(after={"inputs": {"x": "${b.size}"}}))


def test_a_retry_performs_the_failed_and_skipped_items_again() -> None:
    agent = begun([1, 2, 3, 4], max_concurrent=2, after={"inputs": {"parts": "${b}"}})
    agent.ends("b[0]", "one")
    agent.batch(agent.end_of("b[1]", error="raised"), agent.end_of("b[2]", "three"))
    assert items(agent) == ["COMPLETED", "FAILED", "COMPLETED", "SKIPPED"]
    again = retried(agent)
    assert again.statuses() == {"a": "COMPLETED", "b": "RUNNING", "c": "WAITING_DEPENDENCY"}
    assert under_way(again) == ["b[1]", "b[3]"]
    again.ends("b[1]", "two")
    again.ends("b[3]", "four")
    assert again.attempt("c").arguments == {"parts": ["one", "two", "three", "four"]}
    again.ends("c")
    assert again.memory.outcome() == "finished"
    same_on_replay(again)


def test_a_single_item_can_be_retried() -> None:
    agent = begun([1, 2, 3], failed="omit")
    agent.batch(agent.end_of("b[0]", error="raised"), agent.end_of("b[1]", error="raised"), agent.end_of("b[2]", 3))
    again = retried(agent, "b[1]")
    assert under_way(again) == ["b[1]"]
    again.ends("b[1]", 2)
    assert again.task("b").result == [2, 3]
    assert again.memory.result()["summary"] == "2 tasks: 2 completed; b: 2 of 3 items, 1 failed"
    same_on_replay(again)


def test_an_item_of_a_live_run_is_retried_in_it() -> None:
    agent = begun([1, 2, 3], max_concurrent=2, device="w")
    agent.ends("b[0]", error="raised")
    agent.batch(Retry(tasks=("b[0]",)))
    assert under_way(agent) == ["b[1]", "b[0]"]
    agent.ends("b[1]", 2)
    assert under_way(agent) == ["b[0]", "b[2]"]
    agent.batch(agent.end_of("b[0]", 1), agent.end_of("b[2]", 3))
    assert agent.task("b").result == [1, 2, 3]
    same_on_replay(agent)


def test_items_are_retried_one_after_another_although_others_have_failed() -> None:
    agent = begun([1, 2, 3, 4], device="w", after={})
    agent.batch(*(agent.end_of(f"b[{number}]", error="raised") for number in range(4)))
    again = retried(agent, "b[0]", "b[2]", "b[3]")
    again.ends("b[0]")
    again.ends("b[2]", error="raised")
    assert items(again) == ["COMPLETED", "FAILED", "FAILED", "RUNNING"]
    again.ends("b[3]")
    assert again.task("b").status == "FAILED"
    same_on_replay(again)


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ("z", "there is no task 'z'"),
        ("a", "a is COMPLETED; only failed and cancelled tasks can be retried"),
        ("b[1]", r"b\[1\] is COMPLETED"),
        ("b[0]", "c has used the result of b"),
    ],
)
def test_what_has_not_failed_or_was_used_is_not_retried(task: str, why: str) -> None:
    agent = begun([1, 2], failed="omit", after={})
    agent.batch(agent.end_of("b[0]", error="raised"), agent.end_of("b[1]"))
    before = memory_of(agent.run)
    with pytest.raises(Refused, match=why):
        agent.take(Retry(tasks=(task,)))
    assert memory_of(agent.run) == before


def test_a_retry_of_any_task_runs_what_was_skipped_and_the_handlers_again() -> None:
    plan = {
        "tasks": [{"task_id": key, "device": "d"} for key in "abcx"],
        "dependencies": lines("a>b b>c x>c"),
        "on_failure": [{"task_id": "h", "device": "d"}],
    }
    agent = Agent(plan)
    agent.batch(agent.end_of("a", error="raised"), agent.end_of("x"))
    assert agent.statuses() == {"a": "FAILED", "b": "SKIPPED", "c": "SKIPPED", "x": "COMPLETED", "h": "RUNNING"}
    with pytest.raises(Refused, match="its end is decided; retry it when it has ended"):
        agent.take(Retry())
    agent.ends("h")
    assert agent.state == "FAIL"
    again = retried(agent)
    assert again.statuses() == {"a": "RUNNING", "x": "COMPLETED"} | dict.fromkeys("bch", "WAITING_DEPENDENCY")
    for task_id in "abc":
        again.ends(task_id)
    assert again.memory.outcome() == "finished"
    assert again.task("h").status == "SKIPPED"
    same_on_replay(again)


def test_a_retried_task_waits_for_a_task_that_was_retried_before() -> None:
    agent = Agent({
        "tasks": [{"task_id": "a", "device": "d"}, {"task_id": "b", "device": "d"}, {"task_id": "x", "device": "d"}],
        "dependencies": lines("a>b:COMPLETION_ONLY"),
    })  # fmt: skip
    agent.ends("a", error="raised")
    agent.ends("b", error="raised")
    agent.batch(Retry(tasks=("a",)))
    agent.batch(Retry(tasks=("b",)))
    assert agent.statuses() == {"a": "RUNNING", "b": "WAITING_DEPENDENCY", "x": "RUNNING"}
    agent.ends("a")
    assert agent.statuses()["b"] == "RUNNING"
    same_on_replay(agent)


def test_a_retry_of_all_names_an_item_that_was_left_out() -> None:
    agent = begun([1, 2], failed="omit", after={})
    agent.batch(agent.end_of("b[0]", error="raised"), agent.end_of("b[1]"))
    with pytest.raises(Refused, match=r"name an item that was left out, such as b\[0\]$"):
        agent.take(Retry())


def test_a_run_without_a_failed_task_has_nothing_to_retry() -> None:
    agent = Agent({"tasks": [{"task_id": "a", "device": "d"}, {"task_id": "b", "device": "d"}]})
    agent.ends("a")
    agent.take(agent.end_of("b"))
    with pytest.raises(Refused, match="no task has failed"):
        agent.take(Retry())


def test_a_retry_performs_every_item_of_a_handler_again() -> None:
    plan: dict[str, Any] = {"tasks": [{"task_id": "a", "device": "d"}]}
    plan["finally"] = [{"task_id": "h", "device": "d", "inputs": {"x": "${item}"}, "for_each": [1, 2]}]
    agent = Agent(plan)
    agent.ends("a", error="raised")
    agent.batch(agent.end_of("h[0]"), agent.end_of("h[1]"))
    again = retried(agent)
    assert under_way(again) == ["a"]
    again.ends("a")
    assert under_way(again) == ["h[0]", "h[1]"]
    again.batch(again.end_of("h[0]"), again.end_of("h[1]"))
    assert again.memory.outcome() == "finished"
    same_on_replay(again)


def test_the_planner_is_asked_about_a_task_that_ends_without_an_attempt() -> None:
    agent = Agent(planned("", items=[], after={}), replan="always", hold="all")
    agent.ends("a")
    question = agent.question()
    assert question is not None
    assert question.batch == ("b",)
    agent.plans()
    agent.plans()
    assert under_way(agent) == ["c"]
    same_on_replay(agent)


def test_items_beyond_the_concurrency_of_the_device_are_queued() -> None:
    agent = begun([1, 2, 3], device="s")
    assert [agent.attempt(f"b[{number}]").queued for number in range(3)] == [False, True, True]
    agent.batch(agent.end_of("b[0]"), AttemptBegun(of=agent.task("b[1]").effect_id))
    assert list(agent.memory.queued) == [agent.task("b[2]").effect_id]
    agent.batch(AttemptBegun(of=agent.task("b[2]").effect_id), DeviceLost(device="s", reason="unplugged"))
    agent.batch(agent.end_of("b[1]", error="device_lost"), agent.end_of("b[2]", error="device_lost"), DeviceFound(device="s"))
    assert [agent.attempt(f"b[{number}]").queued for number in (1, 2)] == [False, True]
    same_on_replay(agent)


def test_a_cancel_leaves_counts_of_items_that_are_true() -> None:
    agent = begun([1, 2, 3], max_concurrent=2)
    agent.ends("b[0]")
    agent.take(Cancel(reason="enough"))
    counts = agent.task("b").items
    assert counts is not None
    assert items_words(counts) == "1 of 3 items, 2 cancelled"
    assert counts.under_way == 0


def test_finally_runs_after_a_cancel_of_items() -> None:
    plan = planned("", items=[1, 2, 3], max_concurrent=2)
    plan["finally"] = [{"task_id": "f", "device": "d", "inputs": {"x": "${b.failed}"}}]
    agent = Agent(plan)
    agent.ends("b[0]")
    agent.take(Cancel(reason="enough"))
    agent.finish_cancellations()
    assert under_way(agent) == ["f"]
    why = agent.task("b[1]").error
    assert why is not None
    assert agent.attempt("f").arguments == {"x": [{"index": number, "item": number + 1, "error": why.words} for number in (1, 2)]}
    agent.ends("f")
    assert agent.memory.outcome() == "cancelled"
    same_on_replay(agent)


def test_a_list_can_be_a_parameter_or_an_input_of_a_nested_plan() -> None:
    plan = {"params": {"pages": {"type": "list", "default": ["p", "q"]}}, **planned("", items="${params.pages}")}
    agent = Agent(plan)
    assert [agent.attempt(f"b[{number}]").arguments for number in range(2)] == [{"x": "p"}, {"x": "q"}]
    inner = {"tasks": [{"task_id": "i", "device": "d", "inputs": {"x": "${item}"}, "for_each": "${inputs.pages}"}]}
    outer = Agent({"tasks": [{"task_id": "o", "constellation": inner, "inputs": {"pages": [1, 2]}}]})
    (child,) = outer.outstanding(StartChild).values()
    assert child.start.inputs == {"pages": [1, 2]}
    nested = Run(CONSTELLATION_AGENT, "r.2.0")
    nested.take(first_event(child.start), at=1000.0, actor="r")
    nested.take(BatchEnded(), at=1000.0, actor="r")
    assert [it.arguments for it in nested.outstanding.values() if isinstance(it, Dispatch)] == [{"x": 1}, {"x": 2}]


def test_join_any_starts_when_the_items_of_one_of_two_tasks_have_ended() -> None:
    plan = planned("a>c", items=[1, 2], failed="omit", after={"join": "any"})
    agent = Agent(plan)
    agent.ends("b[0]")
    assert agent.task("c").status == "WAITING_DEPENDENCY"
    agent.ends("b[1]", error="raised")
    assert agent.task("c").status == "RUNNING"
    same_on_replay(agent)


def test_a_killed_run_performs_the_items_that_were_under_way_again() -> None:
    agent = begun([1, 2, 3], device="s", max_concurrent=2)
    agent.ends("b[0]", "one")
    keys = sorted(agent.outstanding(Dispatch))
    agent.take(OwnershipAcquired(epoch=2, owner="next", retried=tuple(keys)))
    assert sorted(agent.outstanding(Dispatch)) == keys
    assert under_way(agent) == ["b[1]", "b[2]"]
    same_on_replay(agent)
