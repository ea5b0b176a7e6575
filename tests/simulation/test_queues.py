"""Attempts that wait for their device: in order of priority, and never asked about when a process or a device is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from asterism.constellation.machine.events import AttemptBegun
from asterism.testing.device import Behaviour
from asterism.testing.ending import Ending
from asterism.testing.people import Answer, Crash, ScheduledEvent
from asterism.testing.recovery import killed_at_every_entry
from asterism.testing.world import World
from tests.simulation.demo_world import fleet_of, kinds, says, started, statuses, tasks

FOUR = {"tasks": tasks("a", "b", "c", "e")}


def world(
    seed: int = 1, *, crashes: Sequence[Crash] = (), scheduled_events: Sequence[ScheduledEvent] = (), idempotent: bool = False
) -> World:
    return World(
        seed,
        fleet=fleet_of("d", concurrency=1, idempotent=idempotent),
        script={"do": Behaviour(duration_s=10)},
        people=says(Answer(verb="approve", after_s=1)),
        crashes=crashes,
        scheduled_events=scheduled_events,
    )


def performed(it: World) -> Counter[str]:
    return Counter(task for task, _ in started(it))


def begun(ending: Ending) -> int:
    return sum(isinstance(entry.event, AttemptBegun) for entry in ending.entries)


@pytest.mark.parametrize("seed", range(10))
def test_after_a_crash_a_person_is_asked_only_about_the_attempt_that_had_begun(seed: int) -> None:
    it = world(seed, crashes=[Crash(entry=2, after_s=5)])
    ending = it.run(FOUR)
    assert kinds(ending, "ask_person") == ["a"]
    assert statuses(ending) == dict.fromkeys("abce", "COMPLETED")
    assert performed(it) == {"a": 2, "b": 1, "c": 1, "e": 1}


@pytest.mark.parametrize("seed", range(10))
def test_when_a_device_is_lost_a_person_is_asked_only_about_the_attempt_that_had_begun(seed: int) -> None:
    lost = [ScheduledEvent(at_s=5, what="lose", device="d"), ScheduledEvent(at_s=20, what="find", device="d")]
    it = world(seed, scheduled_events=lost)
    ending = it.run(FOUR)
    assert kinds(ending, "ask_person") == ["a"]
    assert statuses(ending) == dict.fromkeys("abce", "COMPLETED")
    assert performed(it) == {"a": 2, "b": 1, "c": 1, "e": 1}


@pytest.mark.parametrize("idempotent", [True, False])
def test_a_run_whose_attempts_wait_is_killed_at_every_entry(*, idempotent: bool) -> None:
    killed_at_every_entry(lambda crashes: world(crashes=crashes, idempotent=idempotent), lambda it: it.run(FOUR), after_s=0.5)


def test_each_attempt_that_waits_begins_once() -> None:
    assert begun(world().run(FOUR)) == 3


@pytest.mark.parametrize("seed", range(20))
def test_of_the_tasks_that_become_ready_together_the_highest_priority_begins(seed: int) -> None:
    it = world(seed)
    it.run({"tasks": [*tasks("low"), *tasks("high", priority=9), *tasks("middle", priority=5), *tasks("low_too")]})
    assert [task for task, _ in started(it)] == ["high", "middle", "low", "low_too"]
