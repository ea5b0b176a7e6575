"""Retries, deadlines, limits, cancels, pauses and lost devices, in exact virtual time."""

from __future__ import annotations

import itertools
import zlib
from typing import Any

import pytest

from asterism.constellation.machine.events import RunOptions
from asterism.constellation.machine.memory import ConstellationMemory
from asterism.devices.model.attempt import TaskError
from asterism.devices.port import Attempt
from asterism.testing.clock import EPOCH
from asterism.testing.device import Behaviour, Script
from asterism.testing.people import ScheduledEvent
from asterism.testing.planner import Reply, ScriptedPlanner
from asterism.testing.world import World
from tests.simulation.demo_world import DEMO, demo, fleet_of, kinds, lines, started, statuses, tasks


def takes(**seconds: float) -> Script:
    """One second each, but for those named."""
    return lambda attempt: Behaviour(duration_s=seconds.get(attempt.task_id, 1.0))


FAILS = Behaviour(duration_s=2, error=TaskError(code="raised", message="no"))


def test_a_retry_comes_after_exactly_its_backoff() -> None:
    world = World(1, fleet=fleet_of("d"), script=lambda attempt: FAILS if attempt.number < 4 else Behaviour(duration_s=2))
    retry = {"max_attempts": 4, "backoff_s": 10, "max_backoff_s": 25}
    ending = world.run({"tasks": tasks("a", retry=retry)})
    assert (ending.outcome, ending.task("a").attempts) == ("finished", 4)
    expected, at = [0.0], 0.0
    for performance, wait_s in zip(world.performance_log.performances, (10, 20, 25), strict=False):
        at += 2 + wait_s * (0.5 + zlib.crc32(performance.key.encode()) / 2**33)
        expected.append(at)
    assert [at for _, at in started(world)] == pytest.approx(expected, abs=0.002)


def test_attempts_end_with_the_policy_and_the_task_fails_by_name() -> None:
    world = World(1, fleet=fleet_of("d"), script=lambda _: FAILS)
    ending = world.run({"tasks": tasks("a", retry={"max_attempts": 3, "backoff_s": 1})})
    assert (ending.outcome, ending.task("a").attempts) == ("failed", 3)
    assert ending.memory.reason.startswith("a (do) is FAILED: no")


def test_a_timeout_ends_an_attempt_at_its_second() -> None:
    world = World(1, fleet=fleet_of("d"), script={"do": Behaviour(hangs=True)})
    ending = world.run({"tasks": tasks("a", timeout_s=7)})
    assert ending.task("a").error == TaskError(code="timeout", message="it took longer than its timeout of 7 s")
    assert ending.task("a").ended_at - EPOCH == pytest.approx(7, abs=0.001)


def test_a_deadline_counts_the_time_in_the_queue() -> None:
    world = World(1, fleet=fleet_of("d", "e", concurrency=1), script=takes(long=30))
    plan = {"tasks": [*tasks("long"), *tasks("gate", device="e"), *tasks("late", deadline_s=20)], "dependencies": lines("gate>late")}
    ending = world.run(plan)
    error = ending.task("late").error
    assert statuses(ending) == {"long": "COMPLETED", "gate": "COMPLETED", "late": "FAILED"}
    assert error is not None
    assert error.code == "deadline"
    assert ending.task("late").ended_at - EPOCH == pytest.approx(20, abs=0.001)
    assert "late" not in dict(started(world))


def test_a_deadline_passes_for_a_task_that_never_became_ready() -> None:
    world = World(1, fleet=fleet_of("d"), script={"do": Behaviour(duration_s=30)})
    ending = world.run({"tasks": [*tasks("a"), *tasks("b", deadline_s=20)], "dependencies": lines("a>b")})
    assert ending.task("b").ended_at - EPOCH == pytest.approx(20, abs=0.001)
    assert ending.task("a").ended_at - EPOCH == pytest.approx(30, abs=0.001)


def test_a_deadline_that_passed_while_an_attempt_was_being_lost_is_not_forgotten() -> None:
    stubborn = {"do": Behaviour(duration_s=60, ignores_cancel_s=5)}
    world = World(1, fleet=fleet_of("d", "e"), script=stubborn, scheduled_events=[ScheduledEvent(at_s=19, what="lose", device="d")])
    ending = world.run({"tasks": tasks("a", deadline_s=20)})
    error = ending.task("a").error
    assert error is not None
    assert error.code == "deadline"
    assert [performance.device_id for performance in world.performance_log.performances] == ["d"]


def test_a_run_past_its_wall_limit_fails_and_leaves_nothing_working() -> None:
    world = World(1, fleet=fleet_of("d"), script={"do": Behaviour(hangs=True)})
    ending = world.run({"tasks": tasks("a", "b")}, options=RunOptions(wall_limit_s=50))
    assert (ending.memory.code, ending.row.status) == ("wall_limit", "ended")
    assert [performance.status for performance in world.performance_log.performances] == ["killed", "killed"]


@pytest.mark.parametrize("at_s", [0.0, 0.5, 4.999, 5.0, 5.001, 20.0, 65.0, 67.5, 69.99, 70.5])
def test_a_cancel_at_any_time_ends_the_run_cancelled_unless_it_had_ended(at_s: float) -> None:
    world = demo(scheduled_events=[ScheduledEvent(at_s=at_s, what="cancel")])
    ending = world.run(DEMO)
    cancelled = any(record.kind == "cancel" and not record.note for record in ending.records)
    assert ending.outcome == ("cancelled" if cancelled else "finished")
    assert ending.row.status == "ended"
    assert cancelled or set(statuses(ending).values()) == {"COMPLETED"}  # taken with the last outcome, it still counts
    assert cancelled or at_s > 69  # the last task ends at 70 s


def test_a_cancel_while_the_planner_thinks_calls_the_question_off() -> None:
    planner = ScriptedPlanner([Reply(after_s=1000)])
    world = World(1, fleet=fleet_of("d"), planner=planner, scheduled_events=[ScheduledEvent(at_s=10, what="cancel")])
    ending = world.run(None, request="anything")
    assert ending.outcome == "cancelled"
    assert ending.lasted_s == pytest.approx(10.2, abs=1)


def test_a_cancel_of_a_run_that_waits_for_a_person_withdraws_the_question() -> None:
    world = World(1, fleet=fleet_of("d"), scheduled_events=[ScheduledEvent(at_s=100, what="cancel")])
    ending = world.run({"tasks": tasks("a", requires_approval=True)})
    assert ending.outcome == "cancelled"
    assert [inquiry.answer for inquiry in world.database.inquiries.values()] == ["withdrawn"]


def test_a_device_that_ignores_its_cancel_is_answered_for_after_the_grace() -> None:
    script = {"do": Behaviour(hangs=True, ignores_cancel_s=25)}
    world = World(1, fleet=fleet_of("d"), script=script, scheduled_events=[ScheduledEvent(at_s=10, what="cancel")])
    ending = world.run({"tasks": tasks("a")})
    assert ending.outcome == "cancelled"
    cancelled = next(record for record in ending.records if record.kind == "cancel")
    assert ending.records[-1].at - cancelled.at == pytest.approx(10, abs=0.5)


def test_a_pause_lets_what_runs_end_and_starts_nothing() -> None:
    world = demo(scheduled_events=[ScheduledEvent(at_s=10, what="pause")])
    ending = world.run(DEMO)
    assert (ending.row.status, [task for task, _ in started(world)]) == ("paused", ["task_001", "task_002"])
    assert statuses(ending)["task_002"] == "COMPLETED"


def test_an_unpause_goes_on_where_it_was() -> None:
    world = demo(scheduled_events=[ScheduledEvent(at_s=10, what="pause"), ScheduledEvent(at_s=500, what="unpause")])
    ending = world.run(DEMO)
    assert ending.outcome == "finished"
    assert dict(started(world))["task_003"] >= 500


def test_a_lost_device_hands_an_idempotent_task_to_a_stand_in() -> None:
    scheduled_events = [ScheduledEvent(at_s=10, what="lose", device="d")]
    world = World(1, fleet=fleet_of("d", "e"), script=takes(a=30), scheduled_events=scheduled_events)
    ending = world.run({"tasks": tasks("a")})
    assert ending.outcome == "finished"
    assert [(performance.device_id, performance.status) for performance in world.performance_log.performances] == [
        ("d", "killed"),
        ("e", "done"),
    ]


def test_a_task_on_a_device_that_is_lost_and_has_no_stand_in_waits_for_it() -> None:
    scheduled_events = [ScheduledEvent(at_s=0, what="lose", device="d"), ScheduledEvent(at_s=300, what="find", device="d")]
    world = World(1, fleet=fleet_of("d"), scheduled_events=scheduled_events)
    ending = world.run({"tasks": [*tasks("first"), *tasks("a")], "dependencies": lines("first>a")})
    assert ending.outcome == "finished"
    assert all(at >= 300 for _, at in started(world)[1:])


def test_a_lost_device_interrupts_what_may_not_be_repeated() -> None:
    world = World(
        1,
        fleet=fleet_of("d", "e", idempotent=False),
        script={"do": Behaviour(duration_s=30)},
        scheduled_events=[ScheduledEvent(at_s=10, what="lose", device="d")],
    )
    ending = world.run({"tasks": tasks("a")})
    assert (ending.row.status, len(world.performance_log.performances)) == ("waiting", 1)


def test_a_device_that_comes_and_goes_is_given_up_after_a_bound() -> None:
    world = World(1, fleet=fleet_of("d"), script={"do": Behaviour(duration_s=300)}, scheduled_events=comes_and_goes(every_s=200))
    ending = world.run({"tasks": tasks("a")})
    assert ending.task("a").attempts == 10
    assert ending.row.status == "waiting"


def comes_and_goes(every_s: float, times: int = 39) -> list[ScheduledEvent]:
    lost = [ScheduledEvent(at_s=number * every_s, what="lose", device="d") for number in range(1, times + 1)]
    return [*lost, *(ScheduledEvent(at_s=it.at_s + 5, what="find", device="d") for it in lost)]


def test_a_device_that_was_lost_five_times_in_ten_minutes_is_used_again_when_it_was_there_for_as_long() -> None:
    world = World(1, fleet=fleet_of("d"), script={"do": Behaviour(duration_s=300)}, scheduled_events=comes_and_goes(10, times=5))
    ending = world.run({"tasks": tasks("a")})
    assert ending.outcome == "finished"
    assert [at for _, at in started(world)] == [0, 15, 25, 35, 45, 655]


def test_priorities_go_first_on_a_busy_device() -> None:
    world = World(1, fleet=fleet_of("d", "e", concurrency=1), script=takes(long=9))
    queued = [*tasks("low", priority=-1), *tasks("middle"), *tasks("high", priority=5)]
    plan = {"tasks": [*tasks("long"), *tasks("gate", device="e"), *queued], "dependencies": lines("gate>low", "gate>middle", "gate>high")}
    world.run(plan)
    assert [task for task, at in started(world) if at >= 9] == ["high", "middle", "low"]


def test_a_reference_to_a_result_that_is_not_there_skips_the_task_with_the_reason() -> None:
    world = World(1, fleet=fleet_of("d"), script=lambda _: FAILS)
    plan = {"tasks": [*tasks("a"), *tasks("b", inputs={"x": "${a.value}"})], "dependencies": lines("a>b", kind="UNCONDITIONAL")}
    ending = world.run(plan)
    error = ending.task("b").error
    assert error is not None
    assert (statuses(ending)["b"], error.code, error.words) == ("SKIPPED", "no_result", "a ended without a result")


def test_a_move_that_breaks_over_an_outcome_ends_its_run_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def script(attempt: Attempt) -> Behaviour:
        return Behaviour(duration_s=5 if attempt.task_id == "a" else 50, result={"value": 1})

    real = ConstellationMemory.wake_up_at

    def broken(self: ConstellationMemory, at: float) -> None:
        if self.schedule and self.schedule.constellation.tasks["a"].attempts:
            raise ZeroDivisionError
        real(self, at)

    monkeypatch.setattr(ConstellationMemory, "wake_up_at", broken)
    world = World(1, fleet=fleet_of("d"), script=lambda attempt: FAILS if attempt.task_id == "a" else script(attempt))
    ending = world.run({"tasks": [*tasks("a", retry={"max_attempts": 2}), *tasks("b")]})
    assert (ending.outcome, ending.memory.code) == ("failed", "defect")
    assert "attempt_ended could not be taken: ZeroDivisionError" in ending.memory.reason
    assert statuses(ending) == {"a": "CANCELLED", "b": "CANCELLED"}


def test_a_condition_that_is_not_met_skips_and_the_run_finishes() -> None:
    ending = demo(accuracy=0.92).run(DEMO)
    assert (ending.outcome, statuses(ending)["task_004"]) == ("finished", "SKIPPED")
    assert "accuracy is 0.92" in ending.memory.result()["summary"]


def test_a_chain_of_two_thousand_tasks_builds_and_runs() -> None:
    ids = [f"t{number}" for number in range(2000)]
    plan: dict[str, Any] = {"tasks": tasks(*ids), "dependencies": lines(*(f"{one}>{two}" for one, two in itertools.pairwise(ids)))}
    world = World(1, fleet=fleet_of("d"), script={"do": Behaviour(duration_s=1)})
    ending = world.run(plan)
    assert (ending.outcome, ending.memory.result()["completed"]) == ("finished", 2000)
    assert kinds(ending, "dispatch") == ids
