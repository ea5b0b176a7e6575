"""Changing a constellation while it runs: rebase under every schedule, approvals and limits through crashes."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from asterism.constellation.machine.events import AskPlanner, Dispatch, RunOptions
from asterism.constellation.model.documents import parse_plan
from asterism.constellation.planner.port import PlannerRequest, Proposal
from asterism.engine.control.usage import Usage
from asterism.engine.ports.store import InquiryRow
from asterism.testing.device import Behaviour
from asterism.testing.ending import Ending
from asterism.testing.people import Answer, Crash, ScheduledEvent
from asterism.testing.planner import Reply, ScriptedPlanner
from asterism.testing.world import World
from tests.simulation.demo_world import fleet_of, lines, started, statuses, tasks
from tests.support.constellation_harness import refusal_in

SCHEDULES = 1000
PRIORITY = ({"tool": "update_task", "parameters": {"task_id": "c", "priority": 9}},)
ADDED = (
    {"tool": "add_task", "parameters": {"task_id": "n", "device": "d", "skill": "do"}},
    {"tool": "add_dependency", "parameters": {"from": "c", "to": "n"}},
)
REBASED = {"tasks": tasks("a", "b", "c"), "dependencies": lines("b>c")}


# -- rebase ----------------------------------------------------------------------------------------


def rebased(seed: int) -> tuple[ScriptedPlanner, Ending]:
    """The planner is asked about a, and answers with an edit of c; whether c has started by then is the schedule's to say."""

    def script(question: PlannerRequest) -> Reply:
        if "a" not in question.batch:
            return Reply(after_s=0.0)
        actions = (*ADDED, *PRIORITY) if not question.feedback else ADDED
        return Reply(after_s=thinks_s, proposal=Proposal(actions=actions))

    def work(attempt: Any) -> Behaviour:
        return Behaviour(
            duration_s={"a": 1.0, "b": works_s, "c": 50.0}.get(attempt.task_id, 1.0), result={"replan": attempt.task_id == "a"}
        )

    rng = random.Random(seed)
    thinks_s, works_s = rng.choice((0.0, 2.0, 5.0, 8.0)), rng.choice((1.0, 3.0, 6.0, 9.0))
    planner = ScriptedPlanner(script)
    crashes = [Crash(entry=2 + seed % 12, after_s=(0.0, 0.5)[seed % 2])] if seed % 3 == 0 else []
    world = World(seed, fleet=fleet_of("d"), planner=planner, script=work, crashes=crashes, restart_s=(0.1, 1.0, 7.0)[seed % 3])
    return planner, world.run(REBASED, options=RunOptions(replan="when_needed"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_edit_of_what_has_started_meanwhile_is_refused_whole_and_made_anew_under_every_schedule() -> None:
    refused = 0
    for seed in range(SCHEDULES):
        refused += _rebases(seed)
    assert 0.2 * SCHEDULES < refused < SCHEDULES, "some schedules start c in time, and some do not"


def test_an_edit_of_what_has_started_meanwhile_is_refused_whole_and_made_anew() -> None:
    assert 0 < sum(_rebases(seed) for seed in range(40)) < 40


def _rebases(seed: int) -> bool:
    """Live one schedule; True if the edit came too late."""
    planner, ending = rebased(seed)
    about_a = [question for question in planner.questions if "a" in question.batch]
    assert ending.outcome == "finished"
    assert statuses(ending) == dict.fromkeys(("a", "b", "c", "n"), "COMPLETED")
    assert sum(isinstance(effect, Dispatch) and effect.task_id == "n" for entry in ending.entries for effect in entry.effects) == 1
    if len(about_a) == 1:
        assert ending.task("c").priority == 9
        return False
    asked = [effect for entry in ending.entries for effect in entry.effects if isinstance(effect, AskPlanner) and effect.feedback]
    assert [(refusal_in(effect).code, refusal_in(effect).what) for effect in asked] == [("read_only", "c")]
    assert "c: it is RUNNING" in about_a[1].feedback
    assert ending.task("c").priority == 0, "the running task was never touched"
    version = (about_a[1].constellation or {})["version"]
    assert version == 1, "nothing of the refused batch was applied"
    return True


# -- approvals -------------------------------------------------------------------------------------


def says_to_proposals(*answers: Answer) -> Any:
    return lambda inquiry: answers if "kind" in json.loads(inquiry.subject) else ()


PLAN = {"tasks": tasks("a", "b"), "dependencies": lines("a>b")}
EDIT = ({"tool": "update_task", "parameters": {"task_id": "b", "priority": 3}},)


def approving() -> ScriptedPlanner:
    """Plans a and b, and edits b when a has ended."""

    def script(question: PlannerRequest) -> Proposal:
        if question.mode == "CREATION":
            return Proposal(plan=parse_plan(PLAN))
        return Proposal(actions=EDIT) if "a" in question.batch else Proposal()

    return ScriptedPlanner(script)


ALL = RunOptions(approve_plan=True, approve_edits=True, replan="always")


@pytest.mark.parametrize("after_s", [0.0, 0.01, 0.5])
def test_a_crash_at_any_entry_neither_loses_nor_doubles_an_approval(after_s: float) -> None:
    for entry in range(2, 22):
        planner = approving()
        crashes = [Crash(entry=entry, after_s=after_s)]
        world = World(entry, fleet=fleet_of("d"), planner=planner, people=says_to_proposals(Answer(verb="approve")), crashes=crashes)
        ending = world.run(None, options=ALL)
        assert (ending.outcome, statuses(ending)) == ("finished", {"a": "COMPLETED", "b": "COMPLETED"}), f"after entry {entry}"
        assert (ending.task("b").priority, ending.memory.constellation.version) == (3, 2)
        assert [performance.task_id for performance in world.performance_log.performances if performance.status == "done"] == ["a", "b"]
        assert len(planner.questions) == 3


def test_without_a_yes_nothing_runs_and_the_run_waits() -> None:
    world = World(1, fleet=fleet_of("d"), planner=approving())
    ending = world.run(None, options=ALL)
    assert (ending.row.status, ending.row.state, world.performance_log.performances) == ("waiting", "START", [])


def test_a_parked_run_whose_edit_is_approved_later_is_driven_on_by_another_process() -> None:
    def later(inquiry: InquiryRow) -> list[Answer]:
        return [Answer(verb="approve", after_s=5000 if "changes" in inquiry.subject else 1)]

    world = World(1, fleet=fleet_of("d"), planner=approving(), people=later)
    ending = world.run(None, options=ALL)
    assert ending.outcome == "finished"
    assert world.counts["processes"] > 1
    at = dict(started(world))
    assert at["b"] > at["a"] + 5000, "b is held until the yes"


def test_what_does_not_depend_on_the_edit_goes_on_while_a_person_thinks() -> None:
    plan = {"tasks": tasks("a", "b", "z1", "z2"), "dependencies": lines("a>b", "z1>z2")}
    planner = ScriptedPlanner(lambda question: Proposal(actions=EDIT) if "a" in question.batch else Proposal())
    script = lambda attempt: Behaviour(duration_s=10.0 if attempt.task_id == "z1" else 1.0, result={"replan": attempt.task_id == "a"})  # noqa: E731
    people = says_to_proposals(Answer(verb="approve", after_s=300))
    world = World(1, fleet=fleet_of("d"), planner=planner, people=people, script=script)
    ending = world.run(plan, options=RunOptions(approve_edits=True, replan="when_needed"))
    at = dict(started(world))
    assert ending.outcome == "finished"
    assert at["z2"] == 10.0
    assert at["b"] > 300


def test_an_approval_that_comes_too_late_for_its_edit_has_the_planner_asked_again() -> None:
    plan = {"tasks": tasks("a", "b", "z"), "dependencies": lines("z>b")}
    planner = ScriptedPlanner(lambda question: Proposal(actions=EDIT) if "a" in question.batch and not question.feedback else Proposal())

    def script(attempt: Any) -> Behaviour:
        return Behaviour(duration_s={"z": 20.0, "b": 500.0}.get(attempt.task_id, 1.0), result={"replan": attempt.task_id == "a"})

    world = World(1, fleet=fleet_of("d"), planner=planner, people=says_to_proposals(Answer(verb="approve", after_s=100)), script=script)
    ending = world.run(plan, options=RunOptions(approve_edits=True, replan="when_needed"))
    assert (ending.outcome, ending.task("b").priority) == ("finished", 0)
    (again,) = [question for question in planner.questions if question.feedback]
    assert "b: it is RUNNING" in again.feedback


def test_a_rejection_reaches_the_planner_with_its_reason() -> None:
    planner = ScriptedPlanner(lambda question: Proposal(plan=parse_plan({"tasks": tasks("x" if question.rejections else "a")})))

    def people(inquiry: InquiryRow) -> list[Answer]:
        return [Answer(verb="approve")] if '"x"' in inquiry.subject else [Answer(verb="reject", reason="not a")]

    ending = World(1, fleet=fleet_of("d"), planner=planner, people=people).run(None, options=RunOptions(approve_plan=True))
    assert (ending.outcome, statuses(ending)) == ("finished", {"x": "COMPLETED"})
    assert planner.questions[1].rejections == ("ada said no: not a",)


def test_an_approval_that_nobody_gives_in_time_is_a_no() -> None:
    late = Answer(verb="approve", after_s=60)
    world = World(1, fleet=fleet_of("d"), planner=approving(), people=says_to_proposals(late))
    ending = world.run(None, options=RunOptions(approve_plan=True, inquiry_timeout_s=30))
    assert not world.performance_log.performances
    assert ending.outcome in ("failed", "")  # parked, it is found to have expired by whoever drives next


# -- limits ----------------------------------------------------------------------------------------


def test_a_run_that_has_used_what_it_may_finishes_what_runs_and_goes_on_with_a_higher_limit() -> None:
    spent = Usage(requests=1, input_tokens=100)
    planner = ScriptedPlanner(lambda _: Proposal(usage=spent))
    plan = {"tasks": tasks("a", "b", "c", "e"), "dependencies": lines("a>b", "b>c")}
    scheduled_events = [ScheduledEvent(at_s=1000, what="raise_limits")]
    script = lambda attempt: Behaviour(duration_s=100.0 if attempt.task_id == "e" else 1.0)  # noqa: E731
    world = World(1, fleet=fleet_of("d"), planner=planner, script=script, scheduled_events=scheduled_events)
    ending = world.run(plan, options=RunOptions(replan="always", max_tokens=100))
    at = dict(started(world))
    assert ending.outcome == "finished"
    assert at["b"] < 100
    assert at["c"] >= 1000
    assert ending.task("e").ended_at - world_began(ending) < 110, "what ran has finished meanwhile"
    assert ending.memory.used.tokens == 100 * len(planner.questions)


def world_began(ending: Ending) -> float:
    return ending.records[0].at


def test_a_run_that_nobody_gives_more_rests_paused_and_says_why() -> None:
    planner = ScriptedPlanner(lambda _: Proposal(usage=Usage(requests=1, cost_usd=0.3)))
    world = World(1, fleet=fleet_of("d"), planner=planner)
    ending = world.run(
        {"tasks": tasks("a", "b", "c"), "dependencies": lines("a>b", "b>c")}, options=RunOptions(replan="always", max_cost_usd=0.5)
    )
    assert (ending.row.status, len(planner.questions)) == ("paused", 2)
    assert str(ending.memory.limit) == "planning has cost 0.6000 dollars, and may cost 0.5000"


def test_a_crash_at_any_entry_neither_loses_nor_doubles_what_was_used() -> None:
    for entry in range(2, 14):
        planner = ScriptedPlanner(lambda _: Reply(after_s=1.0, proposal=Proposal(usage=Usage(requests=1, input_tokens=10))))
        world = World(entry, fleet=fleet_of("d"), planner=planner, crashes=[Crash(entry=entry, after_s=0.5)])
        ending = world.run(PLAN, options=RunOptions(replan="always", max_tokens=1000))
        assert ending.outcome == "finished"
        assert ending.memory.used.tokens == 10 * len(planner.questions)
