"""A machine of a program's own in a world: time, crashes, people, forks, children; and what the invariants say of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from asterism.constellation.machine.events import ConstellationSubmitted
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.engine.control import AskPerson, BatchEnded, ChildEnded, EffectResult, Event, Row, StepContext, row
from asterism.engine.kernel.machine import kind_of
from asterism.engine.runtime.form import Form
from asterism.errors import InvalidInput, Refused
from asterism.testing.ending import Ending
from asterism.testing.invariants import InvariantViolated
from asterism.testing.people import Answer, Crash, ScheduledEvent, StoreFaults, everyone_says
from asterism.testing.recovery import killed_at_every_entry
from asterism.testing.world import World
from tests.support import ferry_machine as ferry
from tests.support.ferry_machine import FERRY, Carried, Depart, registration

WHOLE = Depart(parcels=("a", "b"), tows=("c",), rest_s=3600.0, asks=True)


def world(**more: Any) -> World:
    return World(7, machines=[registration(60.0)], **{"people": everyone_says("approve"), **more})


def test_it_runs_in_virtual_time_with_its_child() -> None:
    lived = world()
    ending = lived.run_machine(FERRY, WHOLE)
    assert (ending.outcome, ending.memory.result()["seen"]) == ("finished", ["a", "b"])
    assert [child.outcome for child in ending.children] == ["finished"]
    assert 3600 + 60 + 60 + 10 <= ending.lasted_s < 3800
    assert [it.task_id for it in lived.performance_log.performances] == ["carry", "carry", "carry"]
    assert [kind_of(entry.event) for entry in ending.entries][:2] == ["depart", "ownership_acquired"]


@pytest.mark.parametrize("after_s", [0.0, 0.01, 30.0])
def test_it_ends_alike_when_it_is_killed_at_any_entry_of_its_own_or_of_its_child(after_s: float) -> None:
    def run(world: World) -> Ending:
        return world.run_machine(FERRY, WHOLE)

    assert killed_at_every_entry(lambda crashes: world(crashes=crashes), run, after_s=after_s).outcome == "finished"


def test_it_ends_alike_when_what_it_has_frozen_is_thawed_at_every_entry() -> None:
    def frozen(crashes: Sequence[Crash]) -> World:
        return world(crashes=crashes, interval_chars=1)

    assert killed_at_every_entry(frozen, lambda world: world.run_machine(FERRY, WHOLE)).outcome == "finished"


def test_a_crash_in_the_middle_of_an_effect_performs_it_again() -> None:
    lived = world(crashes=[Crash(during="carry", after_s=30.0)])
    assert lived.run_machine(FERRY, Depart(parcels=("a",))).outcome == "finished"
    assert [it.status for it in lived.performance_log.performances] == ["killed", "done"]


def test_an_effect_that_is_never_repeated_has_the_outcome_of_an_interruption() -> None:
    lived = world(crashes=[Crash(during="throw", after_s=30.0)])
    ending = lived.run_machine(FERRY, Depart(parcels=("!a",)))
    assert (ending.outcome, ending.row.state, ending.memory.code) == ("failed", "LEAKING", "lost")
    assert [it.status for it in lived.performance_log.performances] == ["killed"]


def test_a_pause_starts_nothing_new_and_reaches_the_child() -> None:
    scheduled_events = [ScheduledEvent(at_s=30, what="pause"), ScheduledEvent(at_s=1000, what="unpause")]
    ending = world(scheduled_events=scheduled_events).run_machine(FERRY, Depart(parcels=("a",), tows=("b",)))
    assert ending.outcome == "finished"
    assert ending.lasted_s >= 1000
    assert "pause" in [record.kind for record in ending.children[0].records]


def test_a_cancel_calls_off_what_is_under_way() -> None:
    lived = world(scheduled_events=[ScheduledEvent(at_s=30, what="cancel")])
    ending = lived.run_machine(FERRY, Depart(parcels=("a",)))
    assert (ending.outcome, ending.memory.reason) == ("cancelled", "cancelled by user: simulated")
    assert [it.status for it in lived.performance_log.performances] == ["killed"]


def test_a_fork_is_driven_from_its_entry_on_and_people_are_asked_again() -> None:
    rejected = world(people=everyone_says("reject")).run_machine(FERRY, WHOLE)
    assert (rejected.outcome, rejected.memory.code) == ("failed", "rejected")
    copy = world()
    fork = copy.run_fork(rejected, 1)
    assert (fork.outcome, fork.row.run_id) == ("finished", "fork")
    asked = [row for row in copy.database.inquiries.values() if row.run_id == "fork"]
    assert asked[-1].inquiry_id.startswith("fork:"), "an id of the original would name the question of that"
    assert asked[-1].answer == "approve by ada"


def test_a_state_in_which_a_run_has_ended_may_be_left_as_its_table_says() -> None:
    ending = world().run_machine(FERRY, Depart(parcels=("leaky", "a")))
    assert [record.state for record in ending.records][-2:] == ["LEAKING", "SALVAGED"]


@pytest.mark.parametrize("seed", range(10))
def test_trouble_with_the_store_and_rivals_change_nothing(seed: int) -> None:
    trouble = StoreFaults(fails=0.2, lost_reply=0.1, slow=0.2)
    lived = World(seed, machines=[registration(5.0)], people=everyone_says("approve"), store=trouble, drivers=2, interval_chars=1)
    assert lived.run_machine(FERRY, WHOLE).outcome == "finished"


def test_an_answer_that_it_does_not_take_leaves_the_question_open() -> None:
    def people(_: object) -> list[Answer]:
        return [Answer(verb="respond", bypasses_client=True), Answer(verb="approve", after_s=5.0)]

    lived = world(people=people)
    assert lived.run_machine(FERRY, Depart(asks=True)).outcome == "finished"
    assert lived.refusals == ["sim-1:1.0 accepts approve, reject, not respond"]


def test_one_seed_is_one_journal() -> None:
    assert world().run_machine(FERRY, WHOLE).journal == world().run_machine(FERRY, WHOLE).journal


@pytest.mark.parametrize("returned", [None, "done", Carried(effect_id="sim-1:1.0", parcel="a"), Depart()])
def test_a_performer_that_returns_no_outcome_of_its_effect_has_failed(returned: Any) -> None:
    class Careless:
        async def perform(self, effect_id: str, effect: ferry.Carry, report: Any) -> Any:
            return returned

    careless = Form(FERRY, {ferry.Carry: Careless(), ferry.Throw: Careless()})
    ending = World(7, machines=[careless]).run_machine(FERRY, Depart(parcels=("a",)))
    assert (ending.outcome, ending.memory.code) == ("failed", "lost")
    assert "which is not its result" in ending.memory.reason


def departs_again(memory: ferry.Hold, event: Depart, context: StepContext) -> Any:
    raise KeyError("a defect in a move")


class Wordless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (7, "a journal cannot hold it: Expected `str`, got `int`"),
        (object(), "a journal cannot hold it: Encoding objects of type object is unsupported"),
        ("\udcff", "a journal cannot hold it: 'utf-8' codec can't encode"),
        (ValueError("\udcff"), "ValueError: \\udcff"),
        (Wordless(), "Wordless"),
    ],
)
@pytest.mark.parametrize("is_reported", [False, True])
def test_what_a_journal_would_not_give_back_is_a_failure_of_its_performer(result: Any, why: str, *, is_reported: bool) -> None:
    class Careless:
        async def perform(self, effect_id: str, effect: ferry.Carry, report: Any) -> EffectResult:
            if isinstance(result, Exception):
                raise result
            if is_reported:
                report(Depart(parcels=(result,)))
            return Carried(effect_id=effect_id, parcel=result)

    careless = Form(FERRY, {ferry.Carry: Careless(), ferry.Throw: Careless()})
    ending = World(7, machines=[careless]).run_machine(FERRY, Depart(parcels=("a",)))
    assert (ending.outcome, ending.memory.code) == ("failed", "lost")
    assert why in ending.memory.reason


@pytest.mark.parametrize("said", [None, Carried(effect_id="sim-1:1.0"), Carried(effect_id="sim-1:3.0", parcel=7)])  # type: ignore[arg-type]
def test_an_effect_that_cannot_say_how_it_comes_out_ends_the_run_by_name(said: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ferry.Carry, "interrupted", lambda *_: said)
    ending = world(scheduled_events=[ScheduledEvent(at_s=30, what="cancel")]).run_machine(FERRY, Depart(parcels=("a",)))
    assert (ending.row.state, ending.outcome) == ("SUNK", "cancelled")
    monkeypatch.setattr(ferry.Throw, "interrupted", lambda *_: said)
    ending = world(crashes=[Crash(during="throw", after_s=30.0)]).run_machine(FERRY, Depart(parcels=("!a",)))
    assert (ending.outcome, ending.memory.code) == ("failed", "defect")
    assert ending.memory.reason.startswith("throw could not be taken: ")


def test_a_report_that_a_move_fails_over_ends_the_run_by_name_and_calls_its_performer_off() -> None:
    over: list[str] = []

    class Hasty:
        async def perform(self, effect_id: str, effect: ferry.Carry, report: Any) -> EffectResult:
            report(Depart())
            try:
                await asyncio.sleep(3600)
            finally:
                over.append(effect.parcel)
            return Carried(effect_id=effect_id, parcel=effect.parcel)

    hasty = Form(FERRY, {ferry.Carry: Hasty(), ferry.Throw: Hasty()})
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FERRY.table[ferry.State.SAILING], Depart, row(departs_again))  # type: ignore[misc]
        ending = World(7, machines=[hasty]).run_machine(FERRY, Depart(parcels=("a",)))
    assert (ending.outcome, ending.memory.code, over) == ("failed", "defect", ["a"])
    assert ending.memory.reason == "depart could not be taken: KeyError: 'a defect in a move'"
    assert ending.lasted_s < 60


def test_an_outcome_that_no_row_takes_ends_the_run_by_name() -> None:
    class Unheard(EffectResult, tag="unheard", frozen=True, kw_only=True):
        pass

    class Careless:
        async def perform(self, effect_id: str, effect: ferry.Carry, report: Any) -> EffectResult:
            return Unheard(effect_id=effect_id)

    careless = Form(FERRY, {ferry.Carry: Careless(), ferry.Throw: Careless()})
    ending = World(7, machines=[careless]).run_machine(FERRY, Depart(parcels=("a",)))
    assert (ending.outcome, ending.memory.code) == ("failed", "defect")
    assert "ferry has no row for Unheard in any state" in ending.memory.reason


# -- what the invariants find ----------------------------------------------------------------------


def test_a_run_that_waits_for_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ferry.Hold, "wake_at", lambda memory: None)
    with pytest.raises(InvariantViolated, match="run sim-1: machine 'ferry' waits for nothing in RESTING") as found:
        world().run_machine(FERRY, Depart(rest_s=100.0))
    assert found.value.history[-1] == "#3 batch_ended by system -> RESTING"


def test_a_child_that_waits_for_nothing_is_found_and_is_no_outcome_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ferry.Hold, "wake_at", lambda memory: None)
    lived = world()
    with pytest.raises(InvariantViolated, match=r"run sim-1\.3\.0: machine 'ferry' waits for nothing in RESTING"):
        lived.run_machine(FERRY, Depart(tows=("a",)))
    assert lived.database.runs["sim-1"].state == "SAILING"


def test_a_time_that_has_passed_is_looked_at_once_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def idle(memory: ferry.Hold, event: BatchEnded, context: StepContext) -> None:
        nonlocal looks
        looks += 1

    rows: dict[type[Event], Row] = {**FERRY.table[ferry.State.RESTING], BatchEnded: row(idle)}
    monkeypatch.setattr(FERRY, "table", {**FERRY.table, ferry.State.RESTING: rows})
    with pytest.raises(InvariantViolated, match="the run has not ended after 100 s"):
        world(limit_s=100.0).run_machine(FERRY, Depart())
    assert 100 <= looks <= 120


def test_a_move_that_looks_at_something_outside_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def fickle(memory: ferry.Hold, event: ChildEnded, context: StepContext) -> ferry.State:
        calls.append(1)
        memory.reason = str(len(calls))
        return ferry.State.SAILING

    rows: dict[type[Event], Row] = {**FERRY.table[ferry.State.SAILING], ChildEnded: row(fickle, internal=True)}
    monkeypatch.setattr(FERRY, "table", {**FERRY.table, ferry.State.SAILING: rows})
    with pytest.raises(InvariantViolated, match='why is "1" live, but "2" replayed'):
        world().run_machine(FERRY, Depart(tows=("a",)))


def test_a_question_that_is_asked_past_its_time_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def asks(memory: ferry.Hold, event: BatchEnded, context: StepContext) -> ferry.State | None:
        if not context.outstanding:
            context.schedule(AskPerson(question="?", expires_at=context.at + 10))
            memory.rests_until = context.at + 100
            return ferry.State.SAILING
        return None

    monkeypatch.setattr(ferry.Hold, "has_pending_work", lambda memory: True)
    rows: dict[type[Event], Row] = {**FERRY.table[ferry.State.SAILING], BatchEnded: row(asks, internal=True)}
    monkeypatch.setattr(FERRY, "table", {**FERRY.table, ferry.State.SAILING: rows})
    with pytest.raises(InvariantViolated, match="has expired, but is still open"):
        world(people=lambda _: ()).run_machine(FERRY, Depart(parcels=("a",)))


# -- what a world refuses --------------------------------------------------------------------------


def test_a_machine_that_the_world_was_not_given_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"this world has no machine 'ferry'; give its form: World\(machines=\[Form"):
        World(7).run_machine(FERRY, WHOLE)


def test_a_fork_of_a_machine_that_the_world_was_not_given_is_refused() -> None:
    origin = world().run_machine(FERRY, WHOLE)
    with pytest.raises(InvalidInput, match="this world has no machine 'ferry'"):
        World(7).run_fork(origin, 1)


def test_what_is_no_registration_and_what_is_no_event_is_refused() -> None:
    with pytest.raises(InvalidInput, match="is not of type Form"):
        World(7, machines=[FERRY])  # type: ignore[list-item]
    with pytest.raises(InvalidInput, match="first: 'a' is not of type Event"):
        world().run_machine(FERRY, "a")  # type: ignore[arg-type]


def test_an_event_that_the_machine_does_not_begin_with_is_refused() -> None:
    with pytest.raises(Refused, match="a ferry cannot start with batch_ended"):
        world().run_machine(FERRY, BatchEnded())


def test_a_built_in_machine_needs_no_registration() -> None:
    assert World(7).run_machine(CONSTELLATION_AGENT, ConstellationSubmitted(request="nothing", fleet=())).outcome == "failed"
