from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from asterism.engine.kernel.journal import Entry, JournalMismatch
from asterism.engine.kernel.machine import Effect, EffectResult, Machine, RequestFactory, StepContext, row
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.permissions import ALL, LOWEST
from asterism.engine.kernel.refusal import verdict_words
from asterism.engine.kernel.run import HISTORY_LENGTH, Run
from asterism.errors import IllegalTransition
from tests.support.kettle_machine import (
    KETTLE,
    SCALE,
    TABLE,
    Boiled,
    Heat,
    Kettle,
    Lift,
    Memory,
    Peek,
    Press,
    Stopped,
    Switch,
    Weigh,
    make_kettle,
)


@pytest.fixture(autouse=True)
def an_honest_scale() -> Iterator[None]:
    yield
    SCALE[0] = "heavy"


def boiling() -> tuple[Run[Memory], list[Entry]]:
    run = Run(KETTLE, "r")
    entry = run.take(Press(litres=2.0), at=1.0, actor="me")
    assert entry is not None
    return run, [entry]


def replay(*entries: Entry) -> Run[Memory]:
    run = Run(KETTLE, "r")
    run.replay(entries)
    return run


# -- taking events -----------------------------------------------------------------------------------


def test_an_event_becomes_an_entry_with_its_effects() -> None:
    run, [entry] = boiling()
    assert (entry.run_id, entry.seq, entry.at, entry.actor, entry.state) == ("r", 1, 1.0, "me", "HEATING")
    assert entry.effects == (Heat(litres=2.0),)
    assert entry.effect_ids() == ("r:1.0",)
    assert run.outstanding == {"r:1.0": Heat(litres=2.0)}


def test_a_move_and_its_replay_see_the_permissions_of_the_sender() -> None:
    """A6: without them no move can check who sends a command."""
    run, [first] = boiling()
    assert first.permissions == LOWEST  # no door has written any
    entry = run.take(Lift(), at=2.0, actor="ada", permissions=ALL)
    assert entry is not None
    assert entry.permissions == ALL
    noted = run.note(Lift(), at=3.0, actor="eve", key="k", why="late", permissions=LOWEST)
    read = [packer(KETTLE).unpack(packer(KETTLE).pack(it)) for it in (first, entry, noted)]
    assert [it.permissions for it in read] == [LOWEST, ALL, LOWEST]
    assert ["permissions" in packer(KETTLE).pack(it).body for it in (first, entry, noted)] == [False, True, False]
    assert replay(*read).seq == 3
    assert run.context(Lift(), at=2.0, actor="ada", permissions=ALL).permissions == ALL


def test_a_move_that_says_nothing_happened_leaves_no_entry() -> None:
    run, _ = boiling()
    assert run.take(Peek(), at=2.0, actor="me") is None
    assert run.seq == 1


def test_an_illegal_event_changes_nothing_and_its_error_has_the_history() -> None:
    run, _ = boiling()
    before = (run.seq, run.state, dict(run.outstanding), tuple(run.history))
    with pytest.raises(IllegalTransition) as raised:
        run.take(Press(), at=2.0, actor="me")
    assert raised.value.history == ("#1 press by me -> HEATING",)
    assert "#1 press by me -> HEATING" in str(raised.value)
    assert (run.seq, run.state, dict(run.outstanding), tuple(run.history)) == before


def test_the_story_is_bounded() -> None:
    run = Run(KETTLE, "r")
    for at in range(HISTORY_LENGTH + 5):
        run.take(Weigh(), at=float(at), actor="me")
    assert len(run.history) == HISTORY_LENGTH
    assert run.history[-1].startswith(f"#{HISTORY_LENGTH + 5} ")


def test_a_result_settles_its_effect() -> None:
    run, _ = boiling()
    run.take(Boiled(effect_id="r:1.0"), at=2.0, actor="stove")
    assert run.state is Kettle.HOT
    assert not run.outstanding
    assert run.ended


def test_a_duplicate_result_is_noted_without_a_step() -> None:
    run, _ = boiling()
    run.take(Boiled(effect_id="r:1.0"), at=2.0, actor="stove")
    noted = run.take(Boiled(effect_id="r:1.0"), at=3.0, actor="stove", key="k")
    assert noted is not None
    assert (verdict_words(noted.note), noted.state, noted.effects, noted.key) == ("r:1.0 is not outstanding", "HOT", (), "k")


def test_a_result_of_an_unknown_effect_is_noted() -> None:
    run, _ = boiling()
    noted = run.take(Boiled(effect_id="r:9.0"), at=2.0, actor="stove")
    assert noted is not None
    assert noted.note
    assert run.state is Kettle.HEATING
    assert list(run.outstanding) == ["r:1.0"]


def test_a_cancelled_effect_stays_outstanding_until_its_own_result() -> None:
    run, _ = boiling()
    run.take(Lift(), at=2.0, actor="me")
    assert run.cancelled_effects == {"r:1.0"}
    assert list(run.outstanding) == ["r:1.0", "r:2.0"]
    run.take(Boiled(effect_id="r:1.0"), at=3.0, actor="stove")
    assert run.cancelled_effects == set()
    assert list(run.outstanding) == ["r:2.0"]


def test_the_result_of_an_abandoned_effect_settles_it_and_no_move_sees_it() -> None:
    def forget(memory: Memory, event: Lift, context: StepContext) -> Kettle:
        context.abandon(memory.heating)
        return Kettle.HEATING

    rows = {**TABLE, Kettle.HEATING: {**TABLE[Kettle.HEATING], Lift: row(forget)}}
    run = Run(make_kettle(table=rows), "r")
    run.take(Press(), at=1.0, actor="me")
    run.take(Lift(), at=2.0, actor="me")
    assert run.abandoned == {"r:1.0"}
    entry = run.take(Boiled(effect_id="r:1.0"), at=3.0, actor="stove")
    assert entry is not None
    assert (entry.state, entry.note) == ("HEATING", "")
    assert (run.outstanding, run.abandoned) == ({}, set())


def test_a_result_without_a_row_in_a_state_settles_its_effect_and_changes_nothing() -> None:
    rows = {**TABLE, Kettle.COLD: {kind: it for kind, it in TABLE[Kettle.COLD].items() if kind is not Boiled}}
    run = Run(make_kettle(table=rows), "r")
    run.take(Press(), at=1.0, actor="me")
    run.take(Lift(), at=2.0, actor="me")
    entry = run.take(Boiled(effect_id="r:1.0"), at=3.0, actor="stove")
    assert entry is not None
    assert (entry.state, entry.note) == ("COLD", "")
    assert list(run.outstanding) == ["r:2.0"]


def test_what_an_effect_has_used_is_counted_though_it_was_abandoned() -> None:
    counted: list[str] = []

    def lift_off(memory: Memory, event: Lift, context: StepContext) -> Kettle:
        context.abandon(memory.heating)
        return Kettle.COLD

    rows = {**TABLE, Kettle.HEATING: {**TABLE[Kettle.HEATING], Lift: row(lift_off, Kettle.COLD)}}
    run = Run(make_kettle(table=rows, settled=lambda memory, event: counted.append(event.effect_id)), "r")
    for event in (Press(), Lift(), Boiled(effect_id="r:1.0"), Boiled(effect_id="r:1.0")):
        run.take(event, at=1.0, actor="me")
    assert counted == ["r:1.0"]


def test_a_terminal_machine_has_not_ended_while_an_effect_is_outstanding() -> None:
    run = Run(make_kettle(ends=[Kettle.HEATING]), "r")
    run.take(Press(), at=1.0, actor="me")
    assert not run.ended


def test_an_effect_that_the_machine_does_not_declare_never_reaches_the_journal() -> None:
    run = Run(make_kettle(effects=(Switch,)), "r")
    with pytest.raises(TypeError, match="kettle schedules Heat, which it does not declare"):
        run.take(Press(), at=1.0, actor="me")
    assert run.seq == 0


@pytest.mark.parametrize(
    ("litres", "why"),
    [
        ("much", "a journal cannot hold it: Expected `float`, got `str`"),
        (float("nan"), "a journal cannot hold it: Expected `float`, got `null`"),
        (object(), "a journal cannot hold it: Encoding objects of type object is unsupported"),
    ],
)
def test_an_effect_that_a_journal_would_not_give_back_never_reaches_it(litres: Any, why: str) -> None:
    run = Run(make_kettle(), "r")
    with pytest.raises(TypeError, match=f"kettle schedules Heat: {why}"):
        run.take(Press(litres=litres), at=1.0, actor="me")
    assert run.seq == 0


def test_an_effect_is_what_a_journal_gives_back_of_it() -> None:
    class Stir(Effect, tag="stir", frozen=True, kw_only=True):
        what: Any

    def stir(memory: Memory, event: Press, context: StepContext) -> Kettle:
        context.schedule(Stir(what=("a", "b")))
        return Kettle.HEATING

    run = Run(make_kettle(table={**TABLE, Kettle.COLD: {Press: row(stir, Kettle.HEATING)}}, effects=(Heat, Switch, Stir)), "r")
    entry = run.take(Press(), at=1.0, actor="me")
    assert entry is not None
    assert entry.effects == (Stir(what=["a", "b"]),)
    assert run.outstanding == {"r:1.0": Stir(what=["a", "b"])}


def test_a_result_without_any_row_never_reaches_the_journal() -> None:
    class Unheard(EffectResult, tag="unheard", frozen=True, kw_only=True):
        pass

    run = Run(make_kettle(), "r")
    run.take(Press(), at=1.0, actor="me")
    with pytest.raises(TypeError, match="kettle has no row for Unheard in any state: the run could not be replayed"):
        run.take(Unheard(effect_id="r:1.0"), at=2.0, actor="me")
    assert (run.seq, list(run.outstanding)) == (1, ["r:1.0"])


# -- replay ------------------------------------------------------------------------------------------


def journal() -> tuple[Run[Memory], list[Entry]]:
    run, entries = boiling()
    events = [Lift(), Boiled(effect_id="r:1.0"), Boiled(effect_id="r:1.0"), Stopped(effect_id="r:2.0"), Weigh(), Press()]
    for at, event in enumerate(events, 2):
        entry = run.take(event, at=float(at), actor="me")
        assert entry is not None
        entries.append(entry)
    return run, entries


def test_replay_gives_the_live_state() -> None:
    run, entries = journal()
    again = replay(*entries)
    assert (again.state, again.seq, again.outstanding, again.cancelled_effects) == (
        run.state,
        run.seq,
        run.outstanding,
        run.cancelled_effects,
    )
    assert again.history == run.history
    assert vars(again.memory) == vars(run.memory)


def test_replay_of_a_part_gives_the_state_then() -> None:
    _, entries = journal()
    assert [replay(*entries[:length]).state for length in range(len(entries) + 1)] == [
        "COLD", "HEATING", "COLD", "COLD", "COLD", "COLD", "COLD", "HEATING",
    ]  # fmt: skip


def test_recorded_side_effects_are_not_computed_again_on_replay() -> None:
    run = Run(KETTLE, "r")
    entry = run.take(Weigh(), at=1.0, actor="me")
    assert entry is not None
    assert entry.side_effects == {"weight": "heavy"}
    SCALE[0] = "light"
    assert replay(entry).memory.weighed == ["heavy"]


@pytest.mark.parametrize("kind", [KeyError, RuntimeError, TypeError, ValueError, AttributeError, AssertionError, OverflowError])
def test_a_move_that_fails_over_an_old_entry_is_a_mismatch_that_names_the_entry(kind: type[Exception]) -> None:
    def press(memory: Memory, event: Press, context: StepContext) -> Kettle:
        raise kind("too hot")

    _, entries = boiling()
    run = Run(make_kettle(table={**TABLE, Kettle.COLD: {**TABLE[Kettle.COLD], Press: row(press, Kettle.HEATING)}}), "r")
    with pytest.raises(JournalMismatch, match=rf"journal of run r, entry 1: it cannot be replayed \({kind.__name__}: .*too hot"):
        run.replay(entries)


@pytest.mark.parametrize("fact", [5, ["heavy"], {"a": {}}])
def test_a_fact_of_another_type_is_a_mismatch_where_it_trips_the_move(fact: Any) -> None:
    def weigh(memory: Memory, event: Weigh, context: StepContext) -> Kettle:
        memory.weighed.append(context.side_effect("weight", lambda: "heavy").upper())
        return Kettle.COLD

    machine = make_kettle(table={**TABLE, Kettle.COLD: {**TABLE[Kettle.COLD], Weigh: row(weigh)}})
    entry = Run(machine, "r").take(Weigh(), at=1.0, actor="me")
    assert entry is not None
    with pytest.raises(JournalMismatch, match=r"cannot be replayed \(AttributeError"):
        Run(machine, "r").replay([msgspec.structs.replace(entry, side_effects={"weight": fact})])


def test_a_fact_that_the_journal_lacks_is_a_mismatch() -> None:
    run = Run(KETTLE, "r")
    entry = run.take(Weigh(), at=1.0, actor="me")
    assert entry is not None
    with pytest.raises(JournalMismatch, match="cannot be replayed"):
        replay(msgspec.structs.replace(entry, side_effects={}))


def test_a_gap_is_a_mismatch() -> None:
    _, entries = journal()
    with pytest.raises(JournalMismatch, match="entry 2: it is missing; entry 3 of run r is in its place"):
        replay(entries[0], *entries[2:])


def test_an_entry_of_another_run_is_a_mismatch() -> None:
    _, entries = journal()
    with pytest.raises(JournalMismatch, match="entry 1 of run other is in its place"):
        replay(msgspec.structs.replace(entries[0], run_id="other"))


@pytest.mark.parametrize(
    ("effects", "where"),
    [
        ((Heat(litres=3.0),), "heat differs in litres"),
        ((Switch(target="r:1.0"),), "heat in the replay, switch in the journal"),
        ((), "1 in the replay, 0 in the journal"),
    ],
)
def test_altered_effects_are_a_mismatch_that_says_where_they_begin_to_differ(effects: tuple[Effect, ...], where: str) -> None:
    _, entries = journal()
    with pytest.raises(JournalMismatch, match=f"entry 1: a replay schedules other effects than the journal has: {where};"):
        replay(msgspec.structs.replace(entries[0], effects=effects))


def test_an_altered_state_is_a_mismatch() -> None:
    _, entries = journal()
    with pytest.raises(JournalMismatch, match="a replay leads to HEATING, but the journal has HOT"):
        replay(msgspec.structs.replace(entries[0], state="HOT"))


def test_a_note_that_moves_the_state_is_a_mismatch() -> None:
    _, entries = journal()
    noted = next(entry for entry in entries if entry.note)
    with pytest.raises(JournalMismatch, match="a note does not change the state COLD, but the journal has HOT"):
        replay(*entries[: noted.seq - 1], msgspec.structs.replace(noted, state="HOT"))


def test_a_second_accepted_result_is_a_mismatch() -> None:
    _, entries = journal()
    noted = next(entry for entry in entries if entry.note)
    with pytest.raises(JournalMismatch, match=r"r:1\.0, which is not outstanding"):
        replay(*entries[: noted.seq - 1], msgspec.structs.replace(noted, note=""))


def test_an_event_that_today_has_no_row_is_a_mismatch() -> None:
    _, entries = journal()
    run = Run(make_kettle(table={**TABLE, Kettle.COLD: {event: it for event, it in TABLE[Kettle.COLD].items() if event is not Weigh}}), "r")
    with pytest.raises(JournalMismatch, match="cannot be replayed"):
        run.replay(entries)


def test_an_event_that_today_does_nothing_is_a_mismatch() -> None:
    _, entries = journal()
    with pytest.raises(JournalMismatch, match="a replay leads to nothing"):
        replay(msgspec.structs.replace(entries[0], event=Peek()))


# -- requests --------------------------------------------------------------------------------------


class Order(msgspec.Struct, frozen=True):
    litres: float
    seq: int


def ordering(made: list[str], *, fixed: bool) -> Machine[Memory]:
    def order(run: Run[Memory], effect_id: str, effect: Heat) -> Order:
        made.append(effect_id)
        return Order(effect.litres, run.seq)

    return make_kettle(requests={Heat: RequestFactory(order, fixed=Order if fixed else None)})


def test_the_request_of_an_effect_is_the_effect_where_its_machine_says_nothing_else() -> None:
    run, _ = boiling()
    assert run.request("r:1.0") == Heat(litres=2.0)


@pytest.mark.parametrize(("fixed", "seq"), [(True, 1), (False, 2)])
def test_a_fixed_request_says_what_was_when_its_effect_was_issued_and_another_what_is(*, fixed: bool, seq: int) -> None:
    run = Run(ordering([], fixed=fixed), "r")
    run.take(Press(litres=2.0), at=1.0, actor="me")
    run.take(Lift(), at=2.0, actor="me")
    assert run.request("r:1.0") == Order(2.0, seq)


def test_a_replay_makes_the_requests_that_it_leaves_outstanding_and_no_other() -> None:
    made: list[str] = []
    machine = ordering(made, fixed=True)
    live = Run(machine, "r")
    given = [Press(litres=1.0), Lift(), Boiled(effect_id="r:1.0"), Stopped(effect_id="r:2.0"), Press(litres=3.0), Lift()]
    entries = [entry for event in given if (entry := live.take(event, at=1.0, actor="me"))]
    made.clear()
    again = Run(machine, "r")
    again.replay(entry for entry in entries)
    assert (made, again.fixed_requests) == (["r:5.0"], {"r:5.0": Order(3.0, 5)})
    assert again.fixed_requests == live.fixed_requests


def test_a_run_that_is_only_read_makes_no_requests() -> None:
    made: list[str] = []
    run = Run(ordering(made, fixed=True), "r", performs=False)
    run.take(Press(litres=2.0), at=1.0, actor="me")
    assert not made
