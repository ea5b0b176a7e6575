"""Corrupted input files: each is read completely or rejected with InvalidInput."""

from __future__ import annotations

import asyncio
import contextlib
import io
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from asterism.app.bootstrap import FORMS
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.planner.plan_file import read_plan
from asterism.devices.fleet.fleet_file import DeviceKind, read_fleet
from asterism.devices.kinds.local import LocalEntry
from asterism.engine.kernel.journal import SCHEMA_VERSION, JournalMismatch, Record
from asterism.engine.kernel.packing import packer
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.journal_file import journal_lines, read_journals
from asterism.errors import InvalidInput, RunNewer
from asterism.stores.memory import MemoryStore
from tests.journals.write import path_of
from tests.support.journal_conversion import converted

KINDS = {"local": DeviceKind(LocalEntry, AsyncMock())}  # read, and never opened
FLEET = b"""
name = "lab"
[[devices]]
id = "desk"
aliases = ["my desk"]
concurrency = 2
skills = ["skills.py:measure"]
[[devices.commands]]
name = "list"
argv = ["ls", "{folder}"]
[[devices]]
id = "server"
metadata = { os = "linux", cores = 8, since = 2020-01-01 }
"""
PLAN_JSON = b"""{"tasks": [{"task_id": "a", "device": "d", "inputs": {"x": [1, 2.5, null]}, "retry": {"max_attempts": 2}},
 {"task_id": "b", "constellation": {"tasks": {"p": {"inputs": {"y": "${inputs.y}"}}}}, "inputs": {"y": "${a.x}"}}],
 "dependencies": [{"from": "a", "to": "b", "condition": "x > 1"}]}"""
PLAN_YAML = b"""
tasks:
  a: &first {device: d, priority: 3, deadline_s: 9}
  b: {<<: *first, inputs: {x: "${a.x}", when: "2020-01-01"}}
  c:
    tips: [one, 'two']
    requires_approval: true
dependencies:
  - {from: a, to: b, type: COMPLETION_ONLY}
  - {from: b, to: c, condition: 'x > 1'}
"""
ODD = [
    b"", b"{", b"}", b"[", b"]", b'"', b"'", b":", b",", b"\n", b"- ", b"\x00", b"\xff", b"\xed\xa0\x80", b"&a", b"*a", b"<<: *first",
    b"!!python/name:os.system", b"!!set", b"!!timestamp x", b"!!binary x", b"!!int x", b"!!float x", b"!!omap [a]", b"? ", b"1e999", b"-0",
    b"9" * 5000, b"NaN", b".nan", b"0x", b"1_0:99", b"=", b"[" * 3000, b"{a: " * 3000, b"'''", b'"""', b"\\ud800", b"null", b"~", b"true",
    b"2020-99-99", b"tasks", b"${", b"a.b", b"id",
]  # fmt: skip


@st.composite
def broken(draw: st.DrawFn, whole: bytes) -> bytes:
    """Return a file with up to four changes: a flipped bit; a piece inserted, removed, moved or doubled; a lost end."""
    text = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(text) - 1)))
        to = min(len(text), at + draw(st.integers(0, 30)))
        match draw(st.sampled_from(["flip", "insert", "insert", "cut", "double", "end"])):
            case "flip" if text:
                text[at] ^= 1 << draw(st.integers(0, 7))
            case "insert":
                text[at:at] = draw(st.one_of(st.sampled_from(ODD), st.binary(max_size=6)))
            case "cut":
                del text[at:to]
            case "double":
                text[to:to] = text[at:to]
            case _:  # the end is lost
                del text[at:]
    return bytes(text)


def refused_or_read(read: Any, name: str, content: bytes) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        try:
            return read(path)
        except InvalidInput as error:
            told = str(error)
    assert len(told.splitlines()) == 1
    assert str(path) in told
    return None


@given(broken(FLEET))
def test_a_corrupted_fleet_file_is_read_or_rejected(content: bytes) -> None:
    refused_or_read(lambda path: read_fleet(path, KINDS), "fleet.toml", content)


@pytest.mark.parametrize(("name", "whole"), [("plan.json", PLAN_JSON), ("plan.yaml", PLAN_YAML)])
def test_the_plans_are_valid_before_they_are_corrupted(name: str, whole: bytes) -> None:
    assert refused_or_read(read_plan, name, whole) is not None


@given(broken(PLAN_JSON))
def test_a_corrupted_json_plan_is_read_or_rejected(content: bytes) -> None:
    a_plan("plan.json", content)


@settings(max_examples=40)  # PyYAML is slow
@given(broken(PLAN_YAML))
def test_a_corrupted_yaml_plan_is_read_or_rejected(content: bytes) -> None:
    a_plan("plan.yaml", content)


def a_plan(name: str, content: bytes) -> None:
    plan = refused_or_read(read_plan, name, content)
    if plan is not None:
        try:
            it = TaskConstellation.from_dict(msgspec.to_builtins(plan))
        except InvalidInput:
            return
        assert TaskConstellation.from_json(it.to_json()).to_dict() == it.to_dict()


# -- journals --------------------------------------------------------------------------------------
RECORDS = list(
    converted(CONSTELLATION_AGENT, (msgspec.json.decode(line, type=Record) for line in path_of("approval").read_bytes().splitlines()))
)
IMPORTED = [msgspec.structs.replace(it, version=SCHEMA_VERSION) for it in RECORDS]
ROW = RunRow(run_id=RECORDS[0].run_id, machine="constellation agent", title="t", state="FINISH", seq=len(RECORDS), root=RECORDS[0].run_id)
LINES = list(journal_lines([(ROW, RECORDS)]))
ROWS_SAY = ["ended", "active", "flow agent", "orchestration loop", "FAIL", "../x", "r", 2**63, -1]


def taken_in(text: str) -> list[Record]:
    """Import a file as ``asterism import`` does; return the records of the store."""

    async def adopt() -> list[Record]:
        client = Client(MemoryStore(), SystemClock(), FORMS)
        journals = read_journals(io.StringIO(text))
        await client.import_journals(journals)
        return await client.records(journals[0][0].run_id)

    return asyncio.run(adopt())


def test_the_journal_file_is_valid_before_it_is_corrupted() -> None:
    assert taken_in("".join(LINES)) == IMPORTED


@given(broken("".join(LINES).encode()))
def test_a_journal_file_that_was_changed_anywhere_is_refused(content: bytes) -> None:
    text = content.decode("utf-8", "surrogateescape")
    if says_the_same(text):
        return
    with pytest.raises(InvalidInput, match="journal file"):
        taken_in(text)


def says_the_same(text: str) -> bool:
    """Return True if the content is equal although the bytes differ (white space at the end of a line)."""
    try:
        return [msgspec.json.decode(line) for line in text.splitlines()] == [msgspec.json.decode(line) for line in LINES]
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False


@given(st.lists(st.sampled_from(LINES), max_size=len(LINES) + 2) | st.permutations(LINES))
def test_a_journal_file_with_lines_lost_doubled_or_swapped_is_refused(lines: list[str]) -> None:
    if lines == LINES:
        return
    with pytest.raises(InvalidInput, match="journal file"):
        taken_in("".join(lines))


@given(st.data())
def test_records_that_were_sealed_after_they_were_changed_are_refused_by_the_replay(data: st.DataObject) -> None:
    """A file with valid checksums must still replay on the current table."""
    records = list(RECORDS)
    at, other = data.draw(st.integers(0, len(records) - 1)), data.draw(st.integers(0, len(records) - 1))
    match data.draw(st.sampled_from(["swap", "drop", "double", "state", "kind", "version", "body"])):
        case "swap":
            records[at], records[other] = records[other], records[at]
        case "drop":
            del records[at]
        case "double":
            records.insert(at, records[at])
        case "state":
            records[at] = msgspec.structs.replace(records[at], state=data.draw(st.sampled_from(["START", "FAIL", "FINISH", "", "x"])))
        case "kind":
            records[at] = msgspec.structs.replace(
                records[at], kind=data.draw(st.sampled_from(["cancel", "", "attempt_ended", "batch_ended"]))
            )
        case "version":
            records[at] = msgspec.structs.replace(records[at], version=data.draw(st.integers(-3, 3)))
        case _:  # the body
            body = data.draw(broken(records[at].body.encode())).decode("utf-8", "replace")
            records[at] = msgspec.structs.replace(records[at], body=body)
    try:
        kept = taken_in("".join(journal_lines([(ROW, records)])))
    except (InvalidInput, JournalMismatch, RunNewer):
        return
    assert [(it.seq, it.kind, it.state) for it in kept] == [(it.seq, it.kind, it.state) for it in RECORDS], "accepted"


def test_a_journal_that_was_cut_and_sealed_anew_is_refused() -> None:
    with pytest.raises(JournalMismatch, match=f"says that the run has {len(RECORDS)} entries"):
        taken_in("".join(journal_lines([(ROW, RECORDS[:-1])])))


@given(st.sampled_from(RunRow.__struct_fields__), st.none() | st.integers() | st.floats() | st.text(max_size=9) | st.sampled_from(ROWS_SAY))
def test_a_row_that_was_changed_and_sealed_anew_is_refused_or_changes_nothing_that_was_done(name: str, value: Any) -> None:
    """The state, the outcome and the owner of the run must not change either."""
    lines = list(journal_lines([(msgspec.structs.replace(ROW, **{name: value}), RECORDS)]))
    with contextlib.suppress(InvalidInput, JournalMismatch, RunNewer, KeyError if name == "machine" else InvalidInput):
        assert taken_in("".join(lines)) == IMPORTED


@settings(max_examples=60)
@example(RECORDS, "{")
@example(RECORDS, '{"event": ' + "[" * 5000)
@given(st.just(RECORDS), st.text(max_size=20))
def test_a_body_that_is_anything_is_read_or_refused(records: list[Record], body: str) -> None:
    for record in records:
        with contextlib.suppress(JournalMismatch):
            packer(FORMS["constellation agent"].machine).unpack(msgspec.structs.replace(record, body=body))
