"""The demo's shape, dropped and recovered after every entry."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from asterism.engine.kernel.machine import kind_of
from asterism.testing.ending import Ending
from asterism.testing.people import Answer, Crash, ScheduledEvent, StoreFaults
from asterism.testing.world import World
from tests.simulation.demo_world import DEMO, demo, says, statuses

JUST_BEFORE, WHILE_THEY_RUN, LATER = 0.0, 0.01, 1.7
"""After the append and before its effects; after the effects were started; some time into them."""
LENGTH = len(demo().run(DEMO).records)


def end_of(ending: Ending) -> object:
    return ending.outcome, statuses(ending), {task_id: task.result for task_id, task in ending.memory.constellation.tasks.items()}


def performed(world: World) -> Counter[tuple[str, str]]:
    return Counter((performance.task_id, str(performance.status)) for performance in world.performance_log.performances)


@pytest.mark.parametrize("accuracy", [0.97, 0.92])
@pytest.mark.parametrize("after_s", [JUST_BEFORE, WHILE_THEY_RUN, LATER])
def test_a_crash_after_any_entry_changes_nothing_of_the_end(after_s: float, accuracy: float) -> None:
    undisturbed = demo(accuracy=accuracy)
    expected = end_of(undisturbed.run(DEMO))
    for entry in range(2, LENGTH + 1):
        world = demo(accuracy=accuracy, crashes=[Crash(entry=entry, after_s=after_s)])
        ending = world.run(DEMO)
        assert end_of(ending) == expected, f"after entry {entry}: {ending.history}"
        done = {task: count for (task, how), count in performed(world).items() if how == "done"}
        assert set(done.values()) == {1}, "no completed task runs again"
        keys = {(performance.task_id, performance.key) for performance in world.performance_log.performances}
        assert len(keys) == len(done), "what is redone is redone under the same key"


@pytest.mark.parametrize("after_s", [JUST_BEFORE, WHILE_THEY_RUN, LATER])
@pytest.mark.parametrize(("verb", "status"), [("approve", "COMPLETED"), ("respond", "COMPLETED"), ("reject", "FAILED")])
def test_what_may_not_be_repeated_is_interrupted_and_a_person_decides(after_s: float, verb: str, status: str) -> None:
    interruptions = 0
    for entry in range(2, LENGTH + 1):
        answer = Answer(verb=verb, value={"accuracy": 0.99} if verb == "respond" else None)  # type: ignore[arg-type]
        world = demo(idempotent=False, crashes=[Crash(entry=entry, after_s=after_s)], people=says(answer))
        ending = world.run(DEMO)
        asked = list(world.database.inquiries.values())
        assert len(asked) <= 1
        keys = [performance.key for performance in world.performance_log.performances]
        assert len(keys) == len(set(keys)), "never under the same key twice"
        if asked:
            interruptions += 1
            about = json.loads(asked[0].subject)["task_id"]
            interrupted = [task for task in ending.memory.constellation.tasks.values() if task.task_id == about]
            assert [str(task.status) for task in interrupted] == [status]
            assert "was interrupted and may have finished" in asked[0].prompt
        assert ending.outcome == ("failed" if asked and verb == "reject" else "finished")
    assert interruptions >= 4, "each of the four tasks was caught at work"


def test_nobody_answers_an_interruption_and_the_run_waits() -> None:
    ending = demo(idempotent=False, crashes=[Crash(entry=3, after_s=1.0)]).run(DEMO)
    assert (ending.row.status, ending.outcome) == ("waiting", "")
    assert statuses(ending)["task_001"] == "RUNNING"


def test_a_crash_at_every_entry_of_one_run_still_ends_it() -> None:
    world = demo(crashes=[Crash(entry=entry) for entry in range(2, 60)])
    assert world.run(DEMO).outcome == "finished"
    assert world.counts["crashed"] >= 10


@pytest.mark.parametrize("seed", range(20))
def test_of_two_drivers_that_resume_one_run_one_goes_on(seed: int) -> None:
    world = demo(seed=seed, drivers=2, crashes=[Crash(entry=5, after_s=2.0)])
    ending = world.run(DEMO)
    assert ending.outcome == "finished"
    assert (world.counts["run owned"], world.counts["crashed"]) == (2, 1)
    claims = [entry for entry in ending.entries if kind_of(entry.event) == "ownership_acquired"]
    assert len(claims) == 2, "who is turned away writes nothing"


def test_a_rival_of_a_living_driver_does_nothing() -> None:
    world = demo(scheduled_events=[ScheduledEvent(at_s=10, what="rival")])
    ending = world.run(DEMO)
    assert (ending.outcome, world.counts["run owned"]) == ("finished", 1)
    assert {performance.process for performance in world.performance_log.performances} == {"process-1"}


def test_an_owner_that_was_robbed_drops_the_run() -> None:
    world = demo(scheduled_events=[ScheduledEvent(at_s=10, what="fence")])
    ending = world.run(DEMO)
    assert (ending.outcome, world.counts["fenced"]) == ("finished", 1)


@pytest.mark.parametrize(
    ("trouble", "counted"),
    [
        (StoreFaults(fails=0.3, times=3), "store faults"),
        (StoreFaults(fails=0.3, times=9), "store unavailable"),
        (StoreFaults(lost_reply=0.3), "fenced"),
        (StoreFaults(slow=0.5), "processes"),
    ],
    ids=["fails for a while", "fails too long and is let go", "wrote and its word was lost", "is slow"],
)
def test_a_store_in_trouble_delays_and_loses_nothing(trouble: StoreFaults, counted: str) -> None:
    counts: Counter[str] = Counter()
    for seed in range(10):
        world = demo(store=trouble, seed=seed)
        ending = world.run(DEMO)
        assert ending.outcome == "finished"
        assert [record.seq for record in ending.records] == list(range(1, len(ending.records) + 1))
        counts.update(world.counts)
    assert counts[counted] > 0
