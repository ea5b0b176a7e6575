"""Somebody edits a run that is under way: in time, too late, twice, and while who drives it dies."""

from __future__ import annotations

from typing import Any

import pytest

from asterism.constellation.machine import planning
from asterism.constellation.model.edits import parse_actions
from asterism.engine.kernel.machine import kind_of
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.engine.kernel.refusal import refusal_of, verdict_words
from asterism.testing.device import Behaviour
from asterism.testing.ending import Ending
from asterism.testing.people import Answer, Crash, ScheduledEvent
from asterism.testing.world import World
from tests.simulation.demo_world import fleet_of, lines, says, started, statuses, tasks
from tests.simulation.search.campaign import campaign
from tests.support.constellations import action

PLAN = {"tasks": tasks("a", "b"), "dependencies": lines("a>b")}
ADDED = (action("add_task", task_id="n", device="d", skill="do"), action("add_dependency", from_="a", to="n"))


def edit(at_s: float, *actions: dict[str, Any], key: str = "") -> ScheduledEvent:
    return ScheduledEvent(at_s=at_s, what="edit", actions=actions, key=key)


def live(*scheduled_events: ScheduledEvent, plan: dict[str, Any] = PLAN, seed: int = 1, **more: Any) -> tuple[World, Ending]:
    fleet = [*fleet_of("d"), AgentProfile(device_id="e", skills=(Skill(name="note"),))]
    world = World(seed, fleet=fleet, script={"do": Behaviour(duration_s=10)}, scheduled_events=scheduled_events, **more)
    return world, world.run(plan)


def verdicts(world: World) -> list[str]:
    return [refusal.code if (refusal := refusal_of(row.verdict)) else verdict_words(row.verdict) for row in world.database.inbox.values()]


def test_a_task_added_while_another_runs_is_run_in_its_turn() -> None:
    world, ending = live(edit(5, *ADDED))
    assert ending.outcome == "finished"
    assert sorted(started(world)) == [("a", 0), ("b", 10), ("n", 10)]
    entry = next(entry for entry in ending.entries if kind_of(entry.event) == "edited")
    assert (entry.actor, entry.note) == ("user", "")


def test_an_edit_of_what_has_started_leaves_all_as_it_was() -> None:
    world, ending = live(edit(15, *ADDED, action("remove_task", task_id="b")))
    assert verdicts(world) == ["read_only"]
    assert statuses(ending) == {"a": "COMPLETED", "b": "COMPLETED"}


def test_the_same_key_again_is_taken_once() -> None:
    world, ending = live(edit(2, *ADDED, key="k"), edit(4, action("remove_task", task_id="b"), key="k"))
    assert [kind_of(entry.event) for entry in ending.entries].count("edited") == 1
    assert (verdicts(world), "b" in statuses(ending)) == (["accepted"], True)


def test_a_parked_run_is_edited_and_goes_on() -> None:
    plan = {"tasks": tasks("a", requires_approval=True), "dependencies": []}
    world, ending = live(edit(50, action("add_task", task_id="n", device="e", skill="note")), plan=plan)
    assert (ending.row.status, statuses(ending)["n"]) == ("waiting", "COMPLETED")
    assert {performance.process for performance in world.performance_log.performances} == {"process-2"}
    _, answered = live(edit(50, action("remove_task", task_id="a")), plan=plan, people=says(Answer(verb="approve", after_s=90)))
    assert (answered.outcome, statuses(answered)) == ("finished", {"a": "COMPLETED"})


@pytest.mark.parametrize("entry", range(2, 8))
def test_an_edit_is_taken_once_however_its_owner_dies(entry: int) -> None:
    world, ending = live(edit(5, *ADDED, key="k"), crashes=[Crash(entry=entry)], drivers=2)
    assert (ending.outcome, verdicts(world)) == ("finished", ["accepted"])
    assert [kind_of(it.event) for it in ending.entries].count("edited") == 1
    assert statuses(ending)["n"] == "COMPLETED"


def test_a_defect_over_an_edit_is_told_to_its_sender_and_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(actions: Any) -> Any:
        if actions[0]["tool"] == "boom":
            raise ZeroDivisionError("of ours")
        return parse_actions(actions)

    monkeypatch.setattr(planning, "parse_actions", breaks)
    world, ending = live(edit(5, {"tool": "boom"}), edit(6, *ADDED))
    assert ending.outcome == "finished"
    assert verdicts(world) == ["a defect of asterism: edited could not be taken: ZeroDivisionError: of ours", "accepted"]
    assert statuses(ending)["n"] == "COMPLETED"


def test_random_edits_break_no_invariant() -> None:
    tally = campaign(0, ("edits",), runs=120)
    assert tally.failure is None, tally.failure
    assert tally.counts["entry edited"] > tally.counts["noted"] / 2 > 0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_thousand_schedules_of_random_edits_break_no_invariant() -> None:
    tally = campaign(10_000, ("edits", "storm"), runs=1_000)
    assert tally.failure is None, tally.failure
