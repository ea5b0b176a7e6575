"""Versions of a machine's rules: a correction holds from the claim that brought it, and replay knows which entries are older."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec
import pytest

from asterism.engine.kernel.journal import SCHEMA_VERSION, Entry, JournalMismatch, check_known, version_of
from asterism.engine.kernel.machine import Event, Machine, StepContext, row
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.run import Run
from asterism.engine.kernel.snapshot import restore_snapshot, take_snapshot
from asterism.errors import RunNewer, version_text
from tests.support.kettle_machine import TABLE, Boiled, Heat, Kettle, Lift, Memory, Peek, Press, Stopped, make_kettle


class Grip(Event, tag="grip", frozen=True, kw_only=True):
    """Another hand takes the kettle."""

    adopts_rules: ClassVar[bool] = True


def gripped(memory: Memory, event: Grip, context: StepContext) -> Any:
    return context.state


def press_full(memory: Memory, event: Press, context: StepContext) -> Kettle:
    """The corrected move: never heats less than a litre."""
    litres = max(event.litres, 1.0) if context.rules >= 2 else event.litres
    memory.heating = context.schedule(Heat(litres=litres))
    return Kettle.HEATING


def press_always_full(memory: Memory, event: Press, context: StepContext) -> Kettle:
    """The same correction, which does not ask for the version."""
    memory.heating = context.schedule(Heat(litres=max(event.litres, 1.0)))
    return Kettle.HEATING


def kettle(rules: int, press: Any = None) -> Machine[Memory]:
    cold = dict(TABLE[Kettle.COLD])
    if press:
        cold[Press] = row(press, Kettle.HEATING)
    return make_kettle(table={**TABLE, Kettle.COLD: cold}, common={Grip: row(gripped)}, rules=rules)


FIRST, SECOND, CARELESS = kettle(1), kettle(2, press_full), kettle(2, press_always_full)


def take(run: Run[Memory], *events: Event) -> list[Entry]:
    taken = [run.take(event, at=1.0, actor="me") for event in events]
    return [entry for entry in taken if entry]


def replayed(machine: Machine[Memory], entries: list[Entry]) -> Run[Memory]:
    run = Run(machine, "r")
    run.replay(entries)
    return run


def half_a_litre() -> list[Entry]:
    """A run that has heated too little once, by the first rules."""
    return take(Run(FIRST, "r"), Press(litres=0.5), Lift(), Boiled(effect_id="r:1.0"), Stopped(effect_id="r:2.0"))


def test_the_first_entry_and_each_change_of_owner_record_the_version_of_the_rules() -> None:
    entries = take(Run(SECOND, "r"), Press(), Grip(), Lift(), Grip())
    assert [entry.rules for entry in entries] == [2, 2, 0, 2]
    bodies = [msgspec.json.decode(packer(SECOND).pack(entry).body) for entry in entries]
    assert [body.get("rules") for body in bodies] == [2, 2, None, 2]
    assert [packer(SECOND).unpack(packer(SECOND).pack(entry)) for entry in entries] == entries


def test_a_first_entry_that_is_a_note_says_it_too() -> None:
    entries = take(Run(SECOND, "r"), Boiled(effect_id="r:9.0"))
    assert [(bool(entry.note), entry.rules) for entry in entries] == [(True, 2)]
    assert replayed(SECOND, entries).rules == 2


def test_a_correction_applies_from_the_owner_that_brought_it() -> None:
    entries = half_a_litre()
    run = replayed(SECOND, entries)
    assert run.rules == 1
    [before] = take(run, Press(litres=0.5))
    assert before.effects == (Heat(litres=0.5),), "nobody has claimed it since"
    claimed = replayed(SECOND, entries)
    _, after = take(claimed, Grip(), Press(litres=0.5))
    assert (claimed.rules, after.effects) == (2, (Heat(litres=1.0),))
    assert replayed(SECOND, [*entries, *take(replayed(SECOND, entries), Grip(), Press(litres=0.5))]).memory.heating == "r:6.0"


def test_a_correction_that_does_not_ask_for_the_version_strands_the_run() -> None:
    with pytest.raises(JournalMismatch, match="entry 1: a replay schedules other effects than the journal has"):
        replayed(CARELESS, half_a_litre())


def test_a_new_run_moves_by_todays_rules_at_once() -> None:
    [entry] = take(Run(SECOND, "r"), Press(litres=0.5))
    assert entry.effects == (Heat(litres=1.0),)


def test_newer_rules_are_refused_by_name() -> None:
    entries = take(Run(SECOND, "r"), Press(), Grip())
    ours, theirs = version_text(version_of(FIRST)), version_text(version_of(SECOND))
    assert (ours, theirs) == (f"{SCHEMA_VERSION}.1", f"{SCHEMA_VERSION}.2")
    with pytest.raises(RunNewer) as raised:
        replayed(FIRST, entries)
    assert str(raised.value) == (
        f"run r was written with run version {theirs}, and this program supports run versions up to {ours};"
        " upgrade Asterism, or the program that defines the run's machine"
    )
    with pytest.raises(RunNewer):
        check_known("r", version_of(SECOND), FIRST)
    check_known("r", version_of(FIRST), SECOND)


@pytest.mark.parametrize(("place", "rules"), [(0, 0), (1, 0), (2, 1)], ids=["first", "claim", "other"])
def test_a_version_that_is_missing_or_out_of_place_is_a_mismatch(place: int, rules: int) -> None:
    entries = take(Run(FIRST, "r"), Press(), Grip(), Lift())
    entries[place] = msgspec.structs.replace(entries[place], rules=rules)
    with pytest.raises(JournalMismatch, match=f"entry {place + 1}: only the first entry and entries that acquire ownership"):
        replayed(FIRST, entries)


@pytest.mark.parametrize("rules", ["-1", '"one"'])
def test_an_invalid_version_cannot_be_read(rules: str) -> None:
    record = packer(FIRST).pack(take(Run(FIRST, "r"), Press())[0])
    with pytest.raises(JournalMismatch, match="cannot be read"):
        packer(FIRST).unpack(msgspec.structs.replace(record, body=record.body.replace('"rules":1', f'"rules":{rules}')))


@pytest.mark.parametrize("rules", [0, 1000])
def test_a_version_of_rules_goes_from_1_to_999(rules: int) -> None:
    with pytest.raises(ValueError, match=f"rules: {rules} is not a version from 1 to 999"):
        kettle(rules)


def test_the_format_counts_more_than_the_rules() -> None:
    assert version_of(FIRST) < version_of(SECOND) < version_of(FIRST, 999) < (SCHEMA_VERSION + 1) * 1000


class Noted(msgspec.Struct):
    """A memory that can be frozen."""

    heating: str = ""


def test_a_snapshot_has_the_rules_of_the_last_owner() -> None:
    machine = make_kettle(
        table={**TABLE, Kettle.COLD: {**TABLE[Kettle.COLD], Press: row(press_full, Kettle.HEATING)}}, memory=Noted, rules=2
    )
    run = Run(machine, "r")
    take(run, Press(), Peek())
    run.rules = 1  # as one that was submitted under the first rules
    snapshot = take_snapshot(run, "x")
    assert snapshot is not None
    thawed = restore_snapshot(machine, snapshot, "x")
    assert thawed is not None
    assert thawed.rules == 1
