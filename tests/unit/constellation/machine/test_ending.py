from __future__ import annotations

from typing import Any

import pytest

from asterism.constellation.machine.memory import NAMED
from asterism.devices.model.attempt import TaskError
from tests.support.constellation_harness import Agent
from tests.support.constellations import plan


def run(ids: str, arrows: str, *ends: tuple[str, Any], **options: Any) -> Agent:
    """A run in which tasks end: ``(id, error)``, or ``(id, result)``."""
    agent = Agent(plan(ids, arrows), **options)
    for task_id, how in ends:
        if isinstance(how, str):
            agent.batch(agent.end_of(task_id, error=how))  # type: ignore[arg-type]
        else:
            agent.ends(task_id, how)
    return agent


def test_a_run_whose_tasks_completed_finishes() -> None:
    agent = run("a b", "a>b", ("a", None), ("b", None))
    assert (agent.state, agent.memory.outcome(), agent.run.ended) == ("FINISH", "finished", True)


def test_a_task_skipped_by_its_condition_is_a_good_end() -> None:
    agent = run("a b", "a>b:x>1", ("a", {"x": 0}))
    assert agent.state == "FINISH"
    result = agent.memory.result()
    assert (result["completed"], result["skipped"], result["failed"]) == (1, 1, 0)
    assert result["summary"] == "2 tasks: 1 completed, 1 skipped; b (x>1 is false: x is 0)"


def test_an_unhandled_failure_fails_the_run_by_name() -> None:
    agent = run("a b", "a>b", ("a", "raised"))
    assert (agent.state, agent.memory.outcome()) == ("FAIL", "failed")
    assert (agent.memory.code, agent.memory.reason) == ("task_failed", "a is FAILED: a: raised")
    result = agent.memory.result()
    assert (result["failed"], result["skipped"], result["code"], result["reason"]) == (1, 1, "task_failed", agent.memory.reason)


def test_several_failures_are_counted() -> None:
    agent = run("a b", "", ("a", "raised"), ("b", "crashed"))
    assert agent.memory.reason == "a is FAILED: a: raised (and 1 more)"


@pytest.mark.parametrize("kind", ["UNCONDITIONAL", "COMPLETION_ONLY", 'status=="FAILED"'])
def test_a_failure_with_a_completed_task_after_it_that_handles_it_is_a_good_end(kind: str) -> None:
    agent = run("a b", f"a>b:{kind}", ("a", "raised"), ("b", None))
    assert agent.state == "FINISH"


def test_a_handler_that_fails_itself_handles_nothing() -> None:
    agent = run("a b", "a>b:UNCONDITIONAL", ("a", "raised"), ("b", "raised"))
    assert agent.state == "FAIL"


def test_a_task_that_only_runs_after_a_success_handles_no_failure() -> None:
    agent = run("a b c", "a>b a>c:x>1", ("a", "raised"))
    assert agent.state == "FAIL"


def test_a_cancelled_task_may_be_handled_too() -> None:
    assert run("a b", "a>b:UNCONDITIONAL", ("a", "cancelled"), ("b", None)).state == "FINISH"
    assert run("a b", "a>b:COMPLETION_ONLY", ("a", "cancelled")).state == "FAIL"


def test_a_run_ends_only_when_nothing_runs() -> None:
    agent = run("a b", "", ("a", "raised"))
    assert agent.state == "CONTINUE"


def test_a_long_list_of_what_did_not_run_is_cut_and_says_so() -> None:
    size = NAMED + 5
    ids = " ".join(f"t{number}" for number in range(size))
    agent = run(ids, " ".join(f"t0>t{number}" for number in range(1, size)), ("t0", "raised"))
    assert agent.memory.result()["summary"].endswith(f"and {size - NAMED} more")


def test_a_run_without_a_plan_says_so() -> None:
    agent = Agent()
    assert agent.memory.result()["summary"] == "no plan"
    assert agent.memory.outcome() == ""


def test_the_reason_names_the_task_and_why() -> None:
    agent = Agent({"tasks": [{"task_id": "a", "name": "train", "device": "d"}]})
    ended = agent.end_of("a")
    agent.batch(type(ended)(effect_id=ended.effect_id, error=TaskError(code="raised", message="out of memory")))
    assert agent.memory.reason == "a (train) is FAILED: out of memory"


@pytest.mark.parametrize(
    ("ends", "state"),
    [
        ([("first", "raised"), ("second", None), ("use", None)], "FINISH"),
        ([("second", None), ("use", None), ("first", "raised")], "FINISH"),
        ([("first", "raised"), ("second", None), ("use", "raised")], "FAIL"),
        ([("first", "raised"), ("second", "raised")], "FAIL"),
    ],
)
def test_the_first_source_that_works_handles_the_failure_of_the_others(ends: list[tuple[str, Any]], state: str) -> None:
    sources = plan("first second use alert", "first>use second>use")
    use, alert = sources["tasks"][2:]
    sources["tasks"] = [*sources["tasks"][:2], {**use, "join": "any"}]
    agent = Agent({**sources, "on_failure": [alert]})
    for task_id, how in ends:
        agent.batch(agent.end_of(task_id, error=how)) if how else agent.ends(task_id, how)
    if state == "FAIL":
        assert agent.running() == ["alert"]
        agent.ends("alert")
    assert agent.state == state
    assert agent.task("alert").status == ("COMPLETED" if state == "FAIL" else "SKIPPED")
