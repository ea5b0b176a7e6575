from __future__ import annotations

import msgspec
import pytest

from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.engine.kernel import packing
from asterism.engine.kernel.data import MAX_DEPTH
from asterism.engine.kernel.journal import SCHEMA_VERSION, Entry, JournalMismatch, Record, history_line, state_history, time_per_state
from asterism.engine.kernel.machine import make_effect_id, run_id_of
from asterism.engine.kernel.packing import MAX_COMMAND_DEPTH, Packer, event_body, packer
from asterism.engine.kernel.run import Run
from tests.support.kettle_machine import KETTLE, Boiled, Heat, Lift, Press, Weigh


def entries() -> list[Entry]:
    run = Run(KETTLE, "r")
    events = [Weigh(), Press(litres=0.5), Boiled(effect_id="r:9.0"), Lift()]
    taken = [run.take(event, at=10.0 * at, actor="me", key=f"k{at}") for at, event in enumerate(events, 1)]
    return [entry for entry in taken if entry]


def changed(record: Record, **fields: object) -> Record:
    return msgspec.structs.replace(record, **fields)


def test_packing_and_unpacking_gives_the_same_entries() -> None:
    both = packer(KETTLE)
    assert [both.unpack(both.pack(entry)) for entry in entries()] == entries()


def test_a_record_can_be_read_without_the_machine() -> None:
    record = packer(KETTLE).pack(entries()[1])
    assert (record.kind, record.state, record.version, record.key) == ("press", "HEATING", SCHEMA_VERSION, "k2")
    assert msgspec.json.decode(record.body) == {
        "event": {"type": "press", "litres": 0.5},
        "effects": [{"type": "heat", "litres": 0.5}],
    }


def test_a_record_survives_json() -> None:
    record = packer(KETTLE).pack(entries()[0])
    assert msgspec.json.decode(msgspec.json.encode(record), type=Record) == record


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"kind": "Explode"}, "cannot be read"),
        ({"kind": "Lift"}, "cannot be read"),
        ({"body": "{"}, "cannot be read"),
        ({"body": '{"event": {"type": "press", "litres": "many"}}'}, "cannot be read"),
        ({"body": '{"event": {"type": "press"}, "effects": [{"type": "Melt"}]}'}, "cannot be read"),
        ({"body": '{"event": {"type": "press"}, "effects": [1]}'}, "cannot be read"),
        ({"body": '{"event": {"type": "press"}, "effects": null}'}, "cannot be read"),
        ({"version": SCHEMA_VERSION + 1}, f"schema version {SCHEMA_VERSION + 1}, but this program reads {SCHEMA_VERSION}"),
    ],
)
def test_a_record_that_is_not_one_of_ours_is_a_mismatch(fields: dict[str, object], told: str) -> None:
    with pytest.raises(JournalMismatch, match=told) as raised:
        packer(KETTLE).unpack(changed(packer(KETTLE).pack(entries()[1]), **fields))
    assert (raised.value.run_id, raised.value.seq) == ("r", 2)


def test_a_record_of_an_earlier_form_is_read_through_the_steps_that_lead_to_todays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The procedure of a format change, exercised on a form that never was: one version had gallons, the next no types."""

    def with_litres(record: Record) -> Record:
        body = msgspec.json.decode(record.body)
        return changed(record, body=msgspec.json.encode({"event": {"litres": body["event"]["gallons"] * 4}}).decode())

    def with_types(record: Record) -> Record:
        body = msgspec.json.decode(record.body)
        return changed(record, body=msgspec.json.encode({"event": {"type": record.kind, **body["event"]}}).decode())

    monkeypatch.setattr(packing, "UPGRADES", {SCHEMA_VERSION - 2: with_litres, SCHEMA_VERSION - 1: with_types})
    today = packer(KETTLE).pack(entries()[0])
    old = changed(today, version=SCHEMA_VERSION - 2, kind="press", body='{"event": {"gallons": 0.5}}')
    assert packer(KETTLE).unpack(old).event == Press(litres=2.0)
    assert packer(KETTLE).pack(packer(KETTLE).unpack(old)).version == SCHEMA_VERSION, "what is written is written in today's form"
    assert packer(KETTLE).unpack(today) == packer(KETTLE).unpack(changed(today, version=SCHEMA_VERSION))
    with pytest.raises(JournalMismatch, match=f"schema version {SCHEMA_VERSION - 3}, but this program reads {SCHEMA_VERSION}"):
        packer(KETTLE).unpack(changed(old, version=SCHEMA_VERSION - 3))


@pytest.mark.parametrize("body", ["[]", "{}", "1"])
def test_an_upgrade_step_that_a_record_does_not_fit_is_a_mismatch(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    def step(record: Record) -> Record:
        return changed(record, body=msgspec.json.encode(msgspec.json.decode(record.body)["event"]["old"]).decode())

    monkeypatch.setattr(packing, "UPGRADES", {SCHEMA_VERSION - 1: step})
    with pytest.raises(JournalMismatch, match="cannot be read"):
        packer(KETTLE).unpack(changed(packer(KETTLE).pack(entries()[0]), version=SCHEMA_VERSION - 1, body=body))


def test_one_machine_has_one_packer() -> None:
    assert packer(KETTLE) is packer(KETTLE)
    assert isinstance(packer(KETTLE), Packer)


def test_an_event_goes_through_an_inbox_and_comes_back() -> None:
    assert packer(KETTLE).event("press", event_body(Press(litres=3.0))) == Press(litres=3.0)


@pytest.mark.parametrize(("kind", "body"), [("Nothing", "{}"), ("press", "{"), ("press", '{"type": "lift"}'), ("boiled", "{}")])
def test_what_is_not_an_event_of_the_machine_is_refused_by_name(kind: str, body: str) -> None:
    with pytest.raises(ValueError, match=f"kettle cannot read {kind}"):
        packer(KETTLE).event(kind, body)


@pytest.mark.parametrize(
    ("levels", "is_read"), [(MAX_DEPTH, True), (MAX_COMMAND_DEPTH + 1, False), (900, False), (2000, False), (100_000, False)]
)
def test_a_command_is_read_as_deep_as_its_sender_may_write_it(levels: int, *, is_read: bool) -> None:
    body = '{"type": "answered", "effect_id": "r:1.0", "verb": "respond", "value": @}'.replace("@", "[" * levels + "]" * levels)
    if is_read:
        event_body(packer(CONSTELLATION_AGENT).event("answered", body))
    else:
        with pytest.raises(ValueError, match="constellation agent cannot read answered"):
            packer(CONSTELLATION_AGENT).event("answered", body)


def test_an_effect_id_names_run_entry_and_place() -> None:
    assert make_effect_id("r", 12, 3) == "r:12.3"
    assert run_id_of("a:b:12.3") == "a:b"


def test_a_story_line_is_the_same_for_an_entry_and_its_record() -> None:
    for entry in entries():
        assert history_line(entry) == history_line(packer(KETTLE).pack(entry))
    assert history_line(entries()[2]) == "#3 boiled by me -> HEATING  (noted: r:9.0 is not outstanding)"


# -- what is read from a journal ---------------------------------------------------------------------


def records() -> list[Record]:
    return [packer(KETTLE).pack(entry) for entry in entries()]


def test_the_history_of_states_has_a_step_for_each_change() -> None:
    assert state_history(records(), constellation_id="c") == [
        {"step": 1, "state": "COLD", "timestamp": 10.0, "constellation_id": "c"},
        {"step": 2, "state": "HEATING", "timestamp": 20.0, "constellation_id": "c"},
        {"step": 3, "state": "COLD", "timestamp": 40.0, "constellation_id": "c"},
    ]


def test_time_is_counted_per_state_up_to_now() -> None:
    assert time_per_state(records(), now=45.0) == {"COLD": 15.0, "HEATING": 20.0}


def test_time_never_runs_backwards() -> None:
    assert time_per_state(records(), now=0.0) == {"COLD": 10.0, "HEATING": 20.0}
    earlier = [changed(record, at=-record.at) for record in records()]
    assert time_per_state(earlier, now=-100.0) == {"COLD": 0.0, "HEATING": 0.0}


def test_an_empty_journal_has_no_history() -> None:
    assert state_history([]) == []
    assert time_per_state([], now=1.0) == {}


def test_effects_are_unpacked_as_what_they_were() -> None:
    pressed = packer(KETTLE).unpack(records()[1])
    assert pressed.effects == (Heat(litres=0.5),)
