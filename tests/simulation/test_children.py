"""Constellations within constellations: dropped at every entry of every journal, and reached from above."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from asterism.constellation.machine.events import RunOptions
from asterism.engine.control.children import ChildEnded
from asterism.engine.control.run_control import OwnershipAcquired
from asterism.testing.device import Behaviour
from asterism.testing.ending import Ending
from asterism.testing.people import Answer, Crash, ScheduledEvent, StoreFaults, everyone_says
from asterism.testing.world import World
from tests.simulation.demo_world import fleet_of, lines, says, statuses, tasks

JUST_BEFORE, WHILE_THEY_RUN, LATER = 0.0, 0.01, 1.7
APPROVED = says(Answer(verb="approve", after_s=30))
INNERMOST: dict[str, Any] = {
    "tasks": [*tasks("p", inputs={"x": "${inputs.x}"}), *tasks("q", requires_approval=True, inputs={"x": "${p.v}"})],
    "dependencies": lines("p>q"),
}
MIDDLE: dict[str, Any] = {
    "tasks": [*tasks("m"), {"task_id": "n", "inputs": {"x": "${inputs.x}"}, "constellation": INNERMOST}],
    "dependencies": lines("m>n"),
}
TREE: dict[str, Any] = {
    "tasks": [
        *tasks("a"),
        {"task_id": "b", "inputs": {"x": "${a.v}"}, "constellation": MIDDLE},
        *tasks("c", inputs={"x": "${b.completed}"}),
    ],
    "dependencies": lines("a>b", "b>c"),
}
NAMES = ["a", "c", "m", "p", "q"]


def world(*, idempotent: bool = True, seed: int = 1, duration_s: float = 2.0, **more: Any) -> World:
    script = {"do": Behaviour(duration_s=duration_s, result={"v": 7})}
    return World(seed, fleet=fleet_of("d", idempotent=idempotent), script=script, **more)


def nested(constellation: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"tasks": [{"task_id": "b", "constellation": constellation, **more}], "dependencies": []}


def end_of(ending: Ending) -> object:
    results = {task.task_id: task.result for task in ending.memory.constellation.tasks.values()}
    return ending.outcome, statuses(ending), results, [end_of(child) for child in ending.children]


def done(it: World) -> Counter[str]:
    return Counter(performance.task_id for performance in it.performance_log.performances if performance.status == "done")


UNDISTURBED = world(people=APPROVED).run(TREE)
JOURNALS = {"": len(UNDISTURBED.records)} | {child.row.run_id: len(child.records) for child in UNDISTURBED.children}


def test_a_tree_of_runs_ends_with_its_results_and_each_has_its_journal() -> None:
    middle, innermost = UNDISTURBED.children
    assert [middle.row.parent, innermost.row.parent] == [UNDISTURBED.row.run_id, middle.row.run_id]
    assert {middle.row.root, innermost.row.root, UNDISTURBED.row.root} == {UNDISTURBED.row.run_id}
    result = UNDISTURBED.task("b").result
    assert (result["total_tasks"], result["completed"]) == (2, 2)
    assert result["results"]["n"]["results"] == {"p": {"v": 7}, "q": {"v": 7}}
    (started,) = [effect for entry in innermost.entries for effect in entry.effects if getattr(effect, "task_id", "") == "p"]
    assert started.arguments == {"x": 7}  # type: ignore[attr-defined]
    assert [performance.task_id for performance in UNDISTURBED.memory.constellation.in_order()] == ["a", "b", "c"]


@pytest.mark.parametrize("after_s", [JUST_BEFORE, WHILE_THEY_RUN, LATER])
@pytest.mark.parametrize("run_id", JOURNALS, ids=lambda run: run or "root")
def test_a_crash_after_any_entry_of_any_journal_changes_nothing_of_the_end(run_id: str, after_s: float) -> None:
    for entry in range(2, JOURNALS[run_id] + 1):
        it = world(people=APPROVED, crashes=[Crash(entry=entry, after_s=after_s, run_id=run_id)])
        ending = it.run(TREE)
        assert end_of(ending) == end_of(UNDISTURBED), f"after entry {entry} of {run_id}: {ending.history}"
        assert sorted(done(it).elements()) == NAMES, "nothing is done twice"
        assert len(ending.children) == len(UNDISTURBED.children), "no child is started anew"


@pytest.mark.parametrize("after_s", [WHILE_THEY_RUN, LATER])
@pytest.mark.parametrize("run_id", JOURNALS, ids=lambda run: run or "root")
def test_what_may_not_be_repeated_is_asked_about_by_the_run_it_belongs_to(run_id: str, after_s: float) -> None:
    asked = 0
    for entry in range(2, JOURNALS[run_id] + 1):
        it = world(idempotent=False, people=APPROVED, crashes=[Crash(entry=entry, after_s=after_s, run_id=run_id)])
        ending = it.run(TREE)
        keys = [performance.key for performance in it.performance_log.performances]
        assert len(keys) == len(set(keys)), "never under the same key twice"
        assert ending.outcome == "finished"
        told = [inquiry for inquiry in it.database.inquiries.values() if "interrupted" in inquiry.prompt]
        asked += len(told)
        for inquiry in told:
            (run_of,) = {performance.run_id for performance in it.performance_log.performances if performance.task_id == inquiry.prompt[0]}
            assert inquiry.run_id == run_of
    assert asked


def test_a_tree_whose_every_branch_waits_for_people_is_let_go_of() -> None:
    it = world()
    ending = it.run(TREE)
    assert [ending.row.status, *(child.row.status for child in ending.children)] == ["waiting"] * 3
    assert not any(row.owner in it.database.living for row in it.database.runs.values())
    assert it.counts["processes"] == 1


@pytest.mark.parametrize("seed", range(10))
def test_an_answer_to_a_child_is_always_processed(seed: int) -> None:
    plan = nested({"tasks": tasks("p", "q", "r", requires_approval=True), "dependencies": []})
    it = world(seed=seed, duration_s=0.0, people=lambda asked: [Answer(verb="approve", after_s=0.001 * int(asked.inquiry_id[-1]))])
    assert it.run(plan).outcome == "finished"
    assert all(row.verdict for row in it.database.inbox.values())


@pytest.mark.parametrize("at_s", [0.5 + step for step in range(45)])
def test_cancel_reaches_the_innermost_task(at_s: float) -> None:
    it = world(people=APPROVED, scheduled_events=[ScheduledEvent(at_s=at_s, what="cancel")])
    ending = it.run(TREE)
    for run in (ending, *ending.children):
        assert run.row.status == "ended"
        assert all(task.settled for task in run.memory.constellation.tasks.values())
    if ending.outcome == "cancelled":
        killed = [performance.status for performance in it.performance_log.performances][-1:]
        assert killed in (["killed"], ["done"], [])
        assert not it.performance_log.running_keys
    else:
        assert end_of(ending) == end_of(UNDISTURBED)


def test_a_cancel_while_the_innermost_task_runs_kills_it() -> None:
    plan = nested(nested({"tasks": tasks("p"), "dependencies": []}))
    it = world(duration_s=1000.0, scheduled_events=[ScheduledEvent(at_s=50.0, what="cancel")])
    ending = it.run(plan)
    assert [run.outcome for run in (ending, *ending.children)] == ["cancelled"] * 3
    assert [performance.status for performance in it.performance_log.performances] == ["killed"]
    assert ending.lasted_s < 60


@pytest.mark.parametrize("after_s", [JUST_BEFORE, WHILE_THEY_RUN])
def test_a_cancel_survives_a_crash_on_its_way_down(after_s: float) -> None:
    plan = nested(nested({"tasks": tasks("p"), "dependencies": []}))
    cancel = ScheduledEvent(at_s=5.0, what="cancel")
    whole = world(duration_s=1000.0, scheduled_events=[cancel]).run(plan)
    for run in (whole, *whole.children):
        for entry in range(2, len(run.records) + 1):
            crash = Crash(entry=entry, after_s=after_s, run_id=run.row.run_id)
            it = world(duration_s=1000.0, scheduled_events=[cancel], crashes=[crash])
            ending = it.run(plan)
            assert [it.outcome for it in (ending, *ending.children)] == ["cancelled"] * 3, f"{crash}"


@pytest.mark.parametrize("at_s", [0.5 + step for step in range(0, 45, 2)])
def test_pause_holds_the_whole_tree_and_unpause_lets_it_go_on(at_s: float) -> None:
    pause, unpause = ScheduledEvent(at_s=at_s, what="pause"), ScheduledEvent(at_s=at_s + 100, what="unpause")
    it = world(people=APPROVED, scheduled_events=[pause, unpause])
    ending = it.run(TREE)
    assert end_of(ending) == end_of(UNDISTURBED)
    paused = [
        performance
        for performance in it.performance_log.performances
        if pause.at_s + 2 < performance.started_at - 1_767_225_600.0 < unpause.at_s
    ]
    assert paused == []


def test_a_paused_tree_is_let_go_of_and_stays_paused() -> None:
    it = world(duration_s=10.0, scheduled_events=[ScheduledEvent(at_s=12.0, what="pause")])
    ending = it.run(TREE)
    assert [ending.row.status, *(child.row.status for child in ending.children)] == ["paused"] * 2
    assert sorted(done(it)) == ["a", "m"], "what ran may end"


@pytest.mark.parametrize(
    ("limits", "code"),
    [({"timeout_s": 20}, "timeout"), ({"deadline_s": 20}, "deadline"), ({"timeout_s": 500, "deadline_s": 20}, "deadline")],
)
def test_a_limit_of_the_outermost_task_reaches_the_innermost(limits: dict[str, float], code: str) -> None:
    plan = nested(nested({"tasks": tasks("p"), "dependencies": []}), **limits)
    it = world(duration_s=1000.0)
    ending = it.run(plan)
    assert [performance.status for performance in it.performance_log.performances] == ["killed"]
    error = ending.task("b").error
    assert error is not None
    assert (ending.outcome, error.code) == ("failed", code)
    assert all(child.memory.code in ("wall_limit", "cancelled") for child in ending.children)
    assert 19 < ending.lasted_s < 40


def test_a_child_has_no_more_time_than_the_run_has_left() -> None:
    ending = world(duration_s=1000.0).run(nested(nested({"tasks": tasks("p"), "dependencies": []})), options=RunOptions(wall_limit_s=30))
    assert [run.outcome in ("failed", "cancelled") for run in (ending, *ending.children)] == [True] * 3
    assert 29 < ending.lasted_s < 45


def test_a_child_that_is_cancelled_by_itself_cancels_its_task_and_no_more() -> None:
    plan = {"tasks": [*nested({"tasks": tasks("p"), "dependencies": []})["tasks"], *tasks("z")], "dependencies": []}
    it = world(duration_s=10.0, scheduled_events=[ScheduledEvent(at_s=5.0, what="cancel", run_id="sim-1.3.0")])
    ending = it.run(plan)
    assert statuses(ending) == {"b": "CANCELLED", "z": "COMPLETED"}
    error = ending.task("b").error
    assert error is not None
    assert error.code == "cancelled"


@pytest.mark.parametrize(("on", "children"), [(["child_failed"], 3), (None, 1)])
def test_a_failed_child_is_tried_again_only_where_the_policy_names_it(on: list[str] | None, children: int) -> None:
    retry = {"max_attempts": 3, "backoff_s": 1.0, **({"on": on} if on else {})}
    script = {"do": Behaviour(error=None, hangs=False, breaks="simulated")}
    it = World(1, fleet=fleet_of("d"), script=script)
    ending = it.run(nested({"tasks": tasks("p"), "dependencies": []}, retry=retry))
    assert (ending.outcome, len(ending.children)) == ("failed", children)
    error = ending.task("b").error
    assert error is not None
    assert error.code == "child_failed"
    assert "p (do) is FAILED" in error.words


def test_a_child_that_needs_approval_is_shown_whole_and_not_started_before() -> None:
    inner = {"tasks": tasks("p"), "dependencies": []}
    it = world(people=everyone_says("reject"))
    ending = it.run(nested(inner, requires_approval=True))
    assert (ending.outcome, ending.children) == ("failed", ())
    (asked,) = it.database.inquiries.values()
    assert '"constellation":{"tasks":[{"task_id":"p"' in asked.subject
    assert world(people=everyone_says("approve")).run(nested(inner, requires_approval=True)).outcome == "finished"


@pytest.mark.parametrize("seed", range(20))
def test_a_tree_under_a_troubled_store_with_rivals_ends_all_the_same(seed: int) -> None:
    trouble = StoreFaults(fails=0.05, lost_reply=0.03, slow=0.1)
    scheduled_events = [ScheduledEvent(at_s=9.0, what="rival"), ScheduledEvent(at_s=15.0, what="crash")]
    it = world(seed=seed, people=APPROVED, store=trouble, scheduled_events=scheduled_events, drivers=2)
    ending = it.run(TREE)
    assert end_of(ending) == end_of(UNDISTURBED)
    assert sorted(set(done(it))) == NAMES


@pytest.mark.parametrize("seed", range(10))
def test_an_owner_that_was_robbed_lets_go_of_the_children_too(seed: int) -> None:
    it = world(seed=seed, people=APPROVED, scheduled_events=[ScheduledEvent(at_s=7.0, what="fence")])
    assert it.run(TREE).outcome == "finished"


def test_the_parent_writes_little_of_what_its_child_does() -> None:
    kinds = Counter(type(entry.event) for entry in UNDISTURBED.entries)
    assert (kinds[ChildEnded], kinds[OwnershipAcquired]) == (1, 2)
    assert len(UNDISTURBED.records) < 14
