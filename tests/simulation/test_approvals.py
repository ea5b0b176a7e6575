"""Tasks that need a yes: parked, answered by anybody, run once."""

from __future__ import annotations

import pytest

from asterism.constellation.machine.events import RunOptions
from asterism.engine.kernel.machine import kind_of
from asterism.engine.kernel.refusal import verdict_words
from asterism.testing.device import Behaviour
from asterism.testing.ending import Ending
from asterism.testing.people import Answer, Crash, ScheduledEvent, everyone_says
from asterism.testing.world import World
from tests.simulation.demo_world import fleet_of, kinds, lines, says, started, statuses, tasks

PLAN = {"tasks": [*tasks("a", requires_approval=True, inputs={"x": 1}), *tasks("b")], "dependencies": lines("a>b")}


def live(*answers: Answer, seed: int = 1, options: RunOptions | None = None, **more: object) -> tuple[World, Ending]:
    world = World(seed, fleet=fleet_of("d", "e"), people=says(*answers), **more)  # type: ignore[arg-type]
    return world, world.run(PLAN, options=options)


def test_without_a_yes_nothing_runs_and_the_run_waits() -> None:
    world, ending = live()
    assert (ending.row.status, statuses(ending)["a"]) == ("waiting", "RUNNING")
    assert not world.performance_log.performances
    assert ending.task("a").inquiry_id in world.database.inquiries


def test_a_parked_run_is_answered_later_and_driven_on_by_another_process() -> None:
    world, ending = live(Answer(verb="approve", after_s=3000))
    assert ending.outcome == "finished"
    assert [task for task, _ in started(world)] == ["a", "b"]
    assert {performance.process for performance in world.performance_log.performances} == {"process-2"}


@pytest.mark.parametrize("seed", range(10))
def test_of_two_answers_one_wins_and_the_other_is_told(seed: int) -> None:
    world, ending = live(Answer(verb="approve", by="ada"), Answer(verb="reject", by="bob"), seed=seed)
    assert len(world.refusals) == 1
    assert "answered already" in world.refusals[0] or "not asked any more" in world.refusals[0]
    yes = world.database.inquiries[next(iter(world.database.inquiries))].answer == "approve by ada"
    assert [task for task, _ in started(world)] == (["a", "b"] if yes else [])
    assert ending.outcome == ("finished" if yes else "failed")


def test_a_stale_answer_is_refused() -> None:
    world, ending = live(Answer(verb="approve"), Answer(verb="approve", after_s=500, by="bob"))
    assert ending.outcome == "finished"
    assert [task for task, _ in started(world)] == ["a", "b"]
    assert "no longer open: approve by ada" in world.refusals[0]


def test_a_second_approval_written_into_the_inbox_is_ignored() -> None:
    world, ending = live(Answer(verb="approve"), Answer(verb="approve", after_s=1.1, by="eve", bypasses_client=True))
    assert kinds(ending, "dispatch") == ["a", "b"]
    assert [entry.note != "" for entry in ending.entries if kind_of(entry.event) == "answered"] == [False, True]
    verdicts = [row.verdict for row in world.database.inbox.values()]
    assert verdicts[0] == "accepted"
    assert "not outstanding" in verdict_words(verdicts[1])


def test_a_question_that_expires_is_a_no() -> None:
    world, ending = live(Answer(verb="approve", after_s=60), options=RunOptions(inquiry_timeout_s=30))
    assert ending.outcome in ("failed", "")  # parked, it is found to have expired by whoever drives next
    assert not world.performance_log.performances
    assert "has expired" in world.refusals[0]


def test_an_answer_that_its_run_does_not_take_is_among_the_refusals() -> None:
    world = World(2, fleet=fleet_of("d"), people=everyone_says("edit", value={"nosuch": 1}))
    ending = world.run({"tasks": tasks("a", requires_approval=True)})
    assert ending.row.status == "waiting"
    assert world.refusals == ["a.inputs.nosuch: do takes x, y"]


def test_an_edit_is_what_runs_and_only_that() -> None:
    _, ending = live(Answer(verb="edit", value={"x": 5}))
    attempt = next(effect for entry in ending.entries for effect in entry.effects if kind_of(effect) == "dispatch")
    assert attempt.arguments == {"x": 5}  # type: ignore[attr-defined]
    assert ending.outcome == "finished"


def test_an_edit_that_the_skill_does_not_take_leaves_the_question_open_for_another_answer() -> None:
    world, ending = live(Answer(verb="edit", value={"colour": "red"}), Answer(verb="approve", after_s=20, by="bob"))
    assert ending.outcome == "finished"
    assert [row.verdict == "accepted" for row in world.database.inbox.values()] == [False, True]


def test_a_no_cancels_the_task_and_names_who_said_it() -> None:
    _, ending = live(Answer(verb="reject", reason="not on a friday"))
    assert statuses(ending) == {"a": "CANCELLED", "b": "SKIPPED"}
    assert "ada said no: not on a friday" in ending.memory.reason


def test_a_yes_while_the_run_is_paused_starts_nothing_before_it_goes_on() -> None:
    world, ending = live(
        Answer(verb="approve", after_s=20),
        scheduled_events=[ScheduledEvent(at_s=10, what="pause"), ScheduledEvent(at_s=100, what="unpause")],
    )
    assert ending.outcome == "finished"
    assert started(world)[0][0] == "a"
    assert started(world)[0][1] >= 100


@pytest.mark.parametrize("after_s", [0.0, 0.01])
def test_a_crash_at_any_entry_neither_loses_nor_doubles_a_yes(after_s: float) -> None:
    for entry in range(2, 12):
        world, ending = live(Answer(verb="approve"), crashes=[Crash(entry=entry, after_s=after_s)])
        assert ending.outcome == "finished"
        done = [performance.task_id for performance in world.performance_log.performances if performance.status == "done"]
        assert done == ["a", "b"], f"after entry {entry}"


def test_while_one_task_waits_for_a_yes_the_rest_goes_on_even_after_a_backoff() -> None:
    plan = {"tasks": [*tasks("asks", requires_approval=True), *tasks("fails", retry={"max_attempts": 2, "backoff_s": 100})]}
    error = Behaviour(duration_s=1, breaks="once")
    world = World(3, fleet=fleet_of("d"), script=lambda attempt: error if attempt.number == 1 else Behaviour(result=1))
    ending = world.run(plan)
    assert (ending.row.status, statuses(ending)) == ("waiting", {"asks": "RUNNING", "fails": "COMPLETED"})


def test_a_yes_to_run_again_on_a_device_is_not_one_for_a_stand_in() -> None:
    world = World(
        5,
        fleet=fleet_of("d", "e", idempotent=False),
        script={"do": Behaviour(duration_s=30)},
        people=lambda inquiry: [Answer(verb="approve", after_s=5)] if '"device":"d"' in inquiry.subject else [],
        scheduled_events=[ScheduledEvent(at_s=10, what="lose", device="d")],
    )
    ending = world.run({"tasks": tasks("a")})
    assert ending.row.status == "waiting"
    assert [inquiry.subject for inquiry in world.database.inquiries.values() if not inquiry.answer] == [
        '{"task_id":"a","device":"e","skill":"do","arguments":{}}'
    ]
