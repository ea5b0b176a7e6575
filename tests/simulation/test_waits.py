"""Worlds with waits: their oracle finds what is planted, and they meet forks, imports and several servers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.stores import sqlite_events
from asterism.testing.device import Behaviour
from asterism.testing.people import Crash, ScheduledEvent
from asterism.testing.world import World
from tests.simulation.search.campaign import campaign
from tests.simulation.search.watched_world import SentEvent, WatchedWorld

Plant = Callable[[pytest.MonkeyPatch], None]


def _replace(patch: pytest.MonkeyPatch, old: str, new: str) -> None:
    for query in ("_HAS_PAIR", "_FIRST_PAIRS", "_EVENT"):
        patch.setattr(sqlite_events, query, getattr(sqlite_events, query).replace(old, new))


def event_matched_twice(patch: pytest.MonkeyPatch) -> None:
    _replace(patch, "events.taken = 0", "1")
    _replace(patch, "OR taken = 0", "OR 1")


def event_before_its_wait_lost(patch: pytest.MonkeyPatch) -> None:
    _replace(patch, "events.at >= roots.created_at", "events.at >= waits.asked_at")


def newest_event_first(patch: pytest.MonkeyPatch) -> None:
    _replace(patch, "ORDER BY events.number", "ORDER BY events.number DESC")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("plant", [event_matched_twice, event_before_its_wait_lost, newest_event_first])
def test_a_planted_defect_of_waits_is_found_within_a_thousand_seeds(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    broken = campaign(0, ("waits",), runs=1000).failure
    assert broken is not None
    assert "invariant 6 " in broken[2]
    print(*broken)


def test_events_waits_forks_and_imports_lose_no_event_and_take_none_twice() -> None:
    tally = campaign(2_000, ("waits", "forks of waits", "imports of waits"), runs=60)
    assert tally.failure is None, tally.failure
    for tried in ("events sent", "events taken", "crashed", "entry forked", "entry imported", "entry wait_ended"):
        assert tally.counts[tried] > 0, tried


def test_a_run_goes_on_when_a_process_dies_that_took_it_while_another_waited_for_its_time() -> None:
    rival = ScheduledEvent(at_s=10, what="rival")
    world = World(crashes=[Crash(entry=4)], scheduled_events=[rival])
    ending = world.run({"tasks": [{"task_id": "w", "wait": {"event": "paid"}, "timeout_s": 60}]})
    assert (world.counts["crashed"], ending.memory.reason) == (1, "w is FAILED: it waited longer than 60 s")


def test_a_run_that_also_works_gets_the_event_of_a_sender_that_died() -> None:
    sent = SentEvent(at_s=10, what="inbox_row", kind="paid", key="p", data={"n": 1}, deliver="all", keep_s=100, sender_dies=True)
    device = AgentProfile(device_id="d", skills=(Skill(name="work"),))
    world = WatchedWorld(fleet=[device], script=lambda _: Behaviour(duration_s=60), scheduled_events=[sent])
    ending = world.run({"tasks": [{"task_id": "a", "device": "d", "skill": "work"}, {"task_id": "w", "wait": {"event": "paid"}}]})
    assert ending.outcome == "finished"
    assert ending.task("w").ended_at < ending.task("a").ended_at - 40
