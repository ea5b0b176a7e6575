"""Rewriting a constellation while it runs: what waits, what is asked again, what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from asterism.constellation.machine.events import PlanningFailed, RunOptions
from asterism.constellation.model.documents import parse_plan
from asterism.constellation.planner.port import PlannerRequest, Proposal
from asterism.devices.port import Attempt
from asterism.engine.kernel.machine import kind_of
from asterism.testing.device import Behaviour
from asterism.testing.ending import Ending
from asterism.testing.people import ScheduledEvent
from asterism.testing.planner import Reply, ScriptedPlanner
from asterism.testing.program import Program
from asterism.testing.world import World
from tests.simulation.demo_world import DEMO, demo, fleet_of, lines, started, statuses, tasks

RETRAIN = "Retrain with learning rate decay and data augmentation"
SEEDS_EDIT = (
    {
        "tool": "add_task",
        "parameters": {"task_id": "task_005", "name": "retrain_with_tuning", "device": "gpu_server", "description": RETRAIN},
    },
    {"tool": "add_dependency", "parameters": {"from": "task_003", "to": "task_005", "type": "SUCCESS_ONLY"}},
    {"tool": "remove_task", "parameters": {"task_id": "task_004"}},
)


def durations(**seconds: float) -> Any:
    return lambda attempt: Behaviour(duration_s=seconds.get(attempt.task_id, 1.0), result={"of": attempt.task_id})


Plan = dict[str, Any] | None


def live(plan: Plan, planner: ScriptedPlanner, script: Any = None, *, seed: int = 1, **options: Any) -> tuple[World, Ending]:
    world = World(seed, fleet=fleet_of("d", "e"), script=script, planner=planner)
    return world, world.run(plan, options=RunOptions(**{"replan": "always", **options}))


def test_the_seeds_story_a_bad_accuracy_has_the_model_retrained_and_not_deployed() -> None:
    planner = ScriptedPlanner(lambda question: Proposal(actions=SEEDS_EDIT) if question.batch == ("task_003",) else Proposal())
    world = demo(accuracy=0.92, planner=planner)
    plan = {**DEMO, "tasks": [dict(task) for task in DEMO["tasks"]]}
    ending = world.run(plan, options=RunOptions(replan="when_needed"))
    assert ending.outcome == "finished"
    assert statuses(ending) == {"task_001": "COMPLETED", "task_002": "COMPLETED", "task_003": "COMPLETED", "task_005": "COMPLETED"}
    assert set(ending.memory.constellation.lines) == {"task_001->task_002", "task_002->task_003", "task_003->task_005"}
    assert planner.questions[0].batch == ("task_003",)


def test_a_planner_that_never_answers_holds_successors_for_its_time_limit_only() -> None:
    planner = ScriptedPlanner(lambda _: Reply(after_s=86_400))
    _, ending = live({"tasks": tasks("a", "b"), "dependencies": lines("a>b")}, planner)
    assert (ending.outcome, statuses(ending)) == ("finished", {"a": "COMPLETED", "b": "COMPLETED"})
    failed = [entry.event for entry in ending.entries if isinstance(entry.event, PlanningFailed)]
    assert {(event.code, event.reason) for event in failed} == {("timeout", "the planner has not answered within 600 s")}
    assert 600 <= ending.task("b").started_at - ending.task("a").ended_at < 601


def test_a_planner_that_never_answers_ends_a_run_without_a_plan_at_its_time_limit() -> None:
    world = World(fleet=fleet_of("d"), planner=ScriptedPlanner([Reply(after_s=86_400)]), program=Program(planner_timeout_s=20))
    ending = world.run(request="do it")
    assert (ending.outcome, ending.memory.code, ending.memory.reason) == ("failed", "timeout", "the planner has not answered within 20 s")


def test_two_completions_in_one_batch_both_count() -> None:
    together = 0
    for seed in range(20):
        planner = ScriptedPlanner()
        plan = {"tasks": tasks("first", "a", "b", "c"), "dependencies": lines("a>c", "b>c")}
        _, ending = live(plan, planner, durations(first=5, a=5, b=5), seed=seed)
        assert statuses(ending) == dict.fromkeys(("first", "a", "b", "c"), "COMPLETED")
        asked = [task for question in planner.questions for task in question.batch]
        assert sorted(asked) == ["a", "b", "c", "first"], "each is asked about once"
        together += any(len(question.batch) > 1 for question in planner.questions)
    assert together > 0, "some schedule brings two in one batch"


def test_three_completions_while_the_planner_thinks_are_one_further_question() -> None:
    planner = ScriptedPlanner([Reply(after_s=60)])
    live({"tasks": tasks("a", "b", "c", "e")}, planner, durations(a=1, b=10, c=20, e=30))
    assert [question.batch for question in planner.questions] == [("a",), ("b", "c", "e")]


@pytest.mark.parametrize(
    ("hold", "expected"),
    [
        ("successors", {"below": 101.0, "beside": 10.0}),
        ("none", {"below": 1.0, "beside": 10.0}),
        ("all", {"below": 101.0, "beside": 101.0}),
    ],
)
def test_hold_says_what_waits_while_an_edit_is_decided(hold: str, expected: dict[str, float]) -> None:
    plan = {"tasks": tasks("a", "b", "below", "beside"), "dependencies": lines("a>below", "b>beside")}
    planner = ScriptedPlanner(lambda question: Reply(after_s=100 if question.batch == ("a",) else 0))

    def script(attempt: Attempt) -> Behaviour:
        return Behaviour(duration_s=10.0 if attempt.task_id == "b" else 1.0, result={"replan": attempt.task_id == "a"})

    world, ending = live(plan, planner, script, hold=hold, replan="when_needed")
    assert ending.outcome == "finished"
    assert {task: at for task, at in started(world) if task in expected} == expected
    assert planner.questions[0].batch == ("a",)


def test_an_edit_of_what_has_started_meanwhile_is_asked_again_and_then_dropped() -> None:
    late = Reply(after_s=20, proposal=Proposal(actions=({"tool": "update_task", "parameters": {"task_id": "b", "priority": 9}},)))
    planner = ScriptedPlanner(lambda question: late if "a" in question.batch else Reply())
    plan = {"tasks": tasks("a", "b", "z"), "dependencies": lines("z>b")}
    _, ending = live(plan, planner, durations(a=1, z=5, b=300), hold="none", max_reasks=2, replan="always")
    about_a = [question for question in planner.questions if "a" in question.batch]
    assert len(about_a) == 3
    assert [bool(question.feedback) for question in about_a] == [False, True, True]
    assert "it is RUNNING" in about_a[1].feedback
    assert ending.outcome == "finished"
    assert ending.task("b").priority == 0
    assert any("dropped" in entry.side_effects for entry in ending.entries)


def test_finish_is_refused_while_something_runs() -> None:
    planner = ScriptedPlanner(lambda question: Proposal(status="FINISH", result={"summary": "done"}))
    _, ending = live({"tasks": tasks("a", "b")}, planner, durations(a=1, b=50), max_reasks=1)
    assert [question.feedback for question in planner.questions][1].startswith("FINISH is refused: b still running")
    assert (ending.outcome, statuses(ending)) == ("finished", {"a": "COMPLETED", "b": "COMPLETED"})
    assert ending.memory.result()["summary"] == "done"


def test_a_restart_archives_a_generation_and_is_bounded() -> None:
    def script(question: Any) -> Proposal:
        if question.mode == "CREATION":
            return Proposal(plan=parse_plan({"tasks": tasks("a", "b")}))
        return Proposal(status="START", thought="from scratch")

    planner = ScriptedPlanner(script)
    _, ending = live(None, planner, durations(b=100), max_restarts=2)
    assert (ending.outcome, ending.memory.code) == ("failed", "restarts")
    assert [archived["generation"] for archived in ending.memory.archive] == [0, 1]
    assert [task["status"] for task in ending.memory.archive[0]["tasks"]] == ["COMPLETED", "CANCELLED"]
    assert ending.memory.constellation.generation == 2


def test_a_planner_that_is_away_fails_the_creation() -> None:
    _, ending = live(None, ScriptedPlanner([Reply(unavailable="no model answers")]))
    assert (ending.outcome, ending.memory.reason) == ("failed", "no model answers")


@pytest.mark.parametrize("trouble", [Reply(unavailable="no model answers", after_s=30), Reply(breaks="a bug", after_s=30)])
def test_a_planner_that_is_away_while_editing_releases_the_hold(trouble: Reply) -> None:
    world, ending = live({"tasks": tasks("a", "b"), "dependencies": lines("a>b")}, ScriptedPlanner([trouble]))
    assert ending.outcome == "finished"
    assert dict(started(world))["b"] == 31.0
    assert any(kind_of(entry.event) == "planning_failed" for entry in ending.entries)


def test_an_impossible_plan_is_told_and_asked_again_and_then_the_run_fails() -> None:
    planner = ScriptedPlanner(lambda _: Proposal(plan=parse_plan({"tasks": tasks("a", device="nowhere")})))
    _, ending = live(None, planner, max_reasks=2)
    assert ending.outcome == "failed"
    assert len(planner.questions) == 3
    assert "unknown device 'nowhere'" in planner.questions[1].feedback


def test_a_removed_task_that_would_have_been_skipped_is_gone_when_the_skips_are_settled() -> None:
    remove = Proposal(actions=({"tool": "remove_task", "parameters": {"task_id": "b"}},))
    planner = ScriptedPlanner(lambda question: remove if question.batch == ("a",) else Proposal())
    error = Behaviour(breaks="always")
    _, ending = live({"tasks": tasks("a", "b"), "dependencies": lines("a>b")}, planner, lambda _: error)
    assert statuses(ending) == {"a": "FAILED"}


def test_a_question_that_a_pause_meets_is_put_when_the_run_goes_on() -> None:
    planner = ScriptedPlanner()
    scheduled_events = [ScheduledEvent(at_s=10, what="pause"), ScheduledEvent(at_s=100, what="unpause")]
    world = World(1, fleet=fleet_of("d"), planner=planner, script=durations(a=20), scheduled_events=scheduled_events)
    ending = world.run({"tasks": tasks("a", "b"), "dependencies": lines("a>b")}, options=RunOptions(replan="when_needed"))
    assert ending.outcome == "finished"
    assert dict(started(world))["b"] >= 100


def test_fifty_edits_two_hundred_tasks_and_four_hundred_dependencies_work_in_one_run() -> None:
    ids = [f"t{number}" for number in range(200)]
    pairs = [f"{ids[at - back]}>{ids[at]}" for at in range(200) for back in (4, 5, 9) if at >= back][:400]

    def script(question: PlannerRequest) -> Proposal:
        number = len(planner.questions)
        if number > 50:
            return Proposal()
        task = {"tool": "add_task", "parameters": {"task_id": f"n{number}", "device": "d", "skill": "do"}}
        return Proposal(actions=(task, {"tool": "add_dependency", "parameters": {"from": question.batch[0], "to": f"n{number}"}}))

    planner = ScriptedPlanner(script)
    _, ending = live({"tasks": tasks(*ids), "dependencies": lines(*pairs)}, planner)
    assert len(pairs) == 400
    assert ending.outcome == "finished"
    assert len(ending.memory.constellation.tasks) == 250
    assert ending.memory.constellation.version == 51


def test_a_chain_of_forty_tasks_is_replanned_after_each_to_its_end() -> None:
    ids = [f"t{number}" for number in range(40)]
    planner = ScriptedPlanner()
    _, ending = live({"tasks": tasks(*ids), "dependencies": lines(*(f"{one}>{two}" for one, two in itertools.pairwise(ids)))}, planner)
    assert (ending.outcome, len(planner.questions)) == ("finished", 40)
