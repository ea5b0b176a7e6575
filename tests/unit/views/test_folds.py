"""What views promise, on every golden journal: rows from deltas are rows from memory, wherever one begins to read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from asterism.constellation.form import FORM
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.view.view import ConstellationRunView
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.run import Run
from asterism.views import Delta, fold, is_story
from asterism.views.delta import Rows
from asterism.views.view import BaseView, RunView, unread_view, view_of
from tests.journals.test_golden import FORM_OF, MACHINE_OF, golden
from tests.journals.write import GOLDEN
from tests.unit.views.write import FILE, written


def entries_of(name: str) -> list[Entry]:
    return [packer(MACHINE_OF[name]).unpack(record) for record in golden(name)]


def state_rows(rows: Rows) -> bytes:
    return msgspec.json.encode({row_id: row for row_id, row in rows.items() if not is_story(row_id)}, order="deterministic")


def joined_at(name: str, entries: list[Entry], *, plainly: bool = False) -> RunView:
    """The view that has the rows of a run's memory, and has read no entry."""
    run: Run[Any] = Run(MACHINE_OF[name], entries[0].run_id, performs=False)
    run.replay(entries)
    return BaseView.at(run) if plainly else view_of(FORM_OF[name], run)


@pytest.mark.parametrize("name", GOLDEN)
def test_state_rows_from_deltas_equal_those_from_memory_after_every_entry(name: str) -> None:
    entries = entries_of(name)
    view = unread_view(FORM_OF[name], entries[0].run_id)
    rows: Rows = {}
    for number, entry in enumerate(entries, start=1):
        fold(view.read([entry]), rows)
        expected = joined_at(name, entries[:number]).rows
        assert state_rows(rows) == state_rows(expected) == state_rows(view.rows), f"entry {number}"


@pytest.mark.parametrize("name", GOLDEN)
def test_the_default_view_keeps_the_same_promise(name: str) -> None:
    entries = entries_of(name)
    view = BaseView(Run(MACHINE_OF[name], entries[0].run_id, performs=False))
    rows: Rows = {}
    for number, entry in enumerate(entries, start=1):
        fold(view.read([entry]), rows)
        assert state_rows(rows) == state_rows(joined_at(name, entries[:number], plainly=True).rows), f"entry {number}"


@pytest.mark.parametrize("name", GOLDEN)
def test_a_view_joined_at_any_entry_gives_the_same_deltas(name: str) -> None:
    entries = entries_of(name)
    whole = unread_view(FORM_OF[name], entries[0].run_id).read(entries)
    for number in range(len(entries)):
        view = joined_at(name, entries[:number]) if number else unread_view(FORM_OF[name], entries[0].run_id)
        assert view.read(entries[number:]) == whole[number:], f"joined after entry {number}"


@pytest.mark.parametrize("name", GOLDEN)
def test_each_entry_is_one_delta_with_text_that_survives_json(name: str) -> None:
    entries = entries_of(name)
    deltas = unread_view(FORM_OF[name], entries[0].run_id).read(entries)
    assert [delta.seq for delta in deltas] == [entry.seq for entry in entries]
    assert all(delta.text for delta in deltas if delta.weight != "progress")
    assert msgspec.json.decode(msgspec.json.encode(deltas), type=list[Delta]) == deltas


@pytest.mark.parametrize("name", [name for name in GOLDEN if MACHINE_OF[name] is CONSTELLATION_AGENT])
def test_a_log_without_rows_has_the_same_lines_and_the_rows_are_made_afterwards(name: str) -> None:
    entries = entries_of(name)
    deltas = unread_view(FORM, entries[0].run_id).read(entries)
    for number in range(len(entries) + 1):
        view = ConstellationRunView(Run(CONSTELLATION_AGENT, entries[0].run_id, performs=False))
        lines = [tuple(view.log_entry(entry)) for entry in entries[:number]]
        assert lines == [delta.lines for delta in deltas[:number]]
        assert view.read(entries[number:]) == deltas[number:]
        assert state_rows(view.rows) == state_rows(joined_at(name, entries).rows)


@pytest.mark.parametrize("name", GOLDEN)
def test_a_row_has_all_its_fields_at_once_and_no_put_is_empty(name: str) -> None:
    entries = entries_of(name)
    rows: Rows = {}
    for delta in unread_view(FORM_OF[name], entries[0].run_id).read(entries):
        for row_id, fields in delta.put.items():
            if not is_story(row_id) and row_id in rows:
                assert fields.keys() <= rows[row_id].keys()
                assert fields, row_id
        assert rows.keys() >= set(delta.drop)
        fold([delta], rows)


def test_the_golden_folds_fold_to_their_rows() -> None:
    for case in msgspec.json.decode(FILE.read_bytes()):
        deltas = msgspec.convert(case["deltas"], list[Delta])
        assert fold(deltas) == case["rows"], case["name"]


def test_the_golden_folds_equal_those_of_the_current_views() -> None:
    assert FILE.read_text(encoding="utf-8") == written(), "read what has changed, and run: python -m tests.unit.views.write"


def test_attempts_that_a_resumed_run_performs_again_say_when() -> None:
    view = unread_view(FORM_OF["fan_out"], entries_of("fan_out")[0].run_id)
    deltas = view.read(entries_of("fan_out"))
    resumed = [delta for delta in deltas if any("retried_at" in fields for fields in delta.put.values())]
    assert [(delta.text, delta.put) for delta in resumed] == [
        ("resumed by process-2", {f"attempt:sim-1:8.{n}": {"retried_at": resumed[0].at} for n in range(2)})
    ]
