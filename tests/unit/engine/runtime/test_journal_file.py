from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Mapping

import msgspec
import pytest

from asterism.constellation.form import FORM
from asterism.constellation.machine.memory import ConstellationMemory
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.engine.kernel import packing
from asterism.engine.kernel.journal import SCHEMA_VERSION, JournalMismatch, Record
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.run import Run
from asterism.engine.ports.logs import LogChunk
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.form import by_name
from asterism.engine.runtime.journal_file import FORMAT, Journal, journal_lines, read_journals, with_run_id
from asterism.errors import InvalidInput
from asterism.stores.memory import MemoryStore
from tests.support.constellation_harness import Agent
from tests.support.constellations import plan

ROW = RunRow(
    run_id="r", machine="constellation agent", title="t", state="FINISH", session="r", actor="me", seq=1, created_at=1.0, updated_at=1.0
)


def records() -> list[Record]:
    agent = Agent(plan("a b", "a>b"), replan="always")
    agent.ends("a", {"note": "r:1.0 is only mentioned here"})
    agent.plans()
    return [packer(CONSTELLATION_AGENT).pack(entry) for entry in agent.entries]


def test_a_journal_goes_into_a_file_and_comes_back() -> None:
    assert read_journals(journal_lines([(ROW, records())])) == [(ROW, records())]


def test_a_line_of_a_journal_file_is_one_line_for_everybody_and_in_every_encoding() -> None:
    row = msgspec.structs.replace(ROW, title="de\u2028ux lignes,\u0085 œuvre")
    text = "".join(journal_lines([(row, records())]))
    assert text.isascii()
    assert read_journals(text.splitlines(keepends=True)) == [(row, records())]


def test_a_journal_under_another_id_replays_there() -> None:
    moved = with_run_id(records(), "r", "copy")
    assert not any('"r:' in record.body.replace('"r:1.0 is', "") for record in moved)
    run: Run[ConstellationMemory] = Run(CONSTELLATION_AGENT, "copy")
    run.replay(map(packer(CONSTELLATION_AGENT).unpack, moved))
    assert run.memory.constellation.tasks["b"].status == "RUNNING"
    assert all(effect.startswith("copy:") for effect in run.outstanding)


def test_what_only_mentions_an_effect_is_left_alone() -> None:
    assert any("r:1.0 is only mentioned here" in record.body for record in with_run_id(records(), "r", "copy"))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda lines: [lines[0].replace("FINISH", "FAILED"), *lines[1:]], "checksum mismatch"),
        (lambda lines: [*lines[:2], lines[2].replace("system", "nobody"), *lines[3:]], "checksum mismatch"),
        (lambda lines: [*lines[:2], *lines[3:]], "checksum mismatch"),
        (lambda lines: [lines[0], lines[2], lines[1], *lines[3:]], "checksum mismatch"),
        (lambda lines: lines[:-1], "its end is missing"),
        (lambda lines: [*lines, lines[-1]], "the format is None"),
        (lambda lines: ["not json\n", *lines[1:]], "line 1: "),
        (lambda lines: ["{}\n", *lines[1:]], "line 1: the format is None, this program reads 'asterism journal 1'"),
        (lambda lines: lines[1:], "line 1: the format is None"),
        (lambda lines: [], "its end is missing"),
        (lambda lines: sealed(), "it has a run without a journal"),
    ],
)
def test_a_file_with_a_line_that_was_changed_removed_moved_or_added_is_refused(change: object, told: str) -> None:
    lines = list(journal_lines([(ROW, records())]))
    with pytest.raises(InvalidInput, match=told):
        read_journals(change(lines))  # type: ignore[operator]


def tree_of(*rows: tuple[str, str, str]) -> list[str]:
    """The lines of a file with runs of these ids, parents and roots."""
    journals = [(msgspec.structs.replace(ROW, run_id=run, parent=parent, root=root), records()) for run, parent, root in rows]
    return list(journal_lines(journals))


def sealed(*contents: dict[str, object]) -> list[str]:
    """Return the lines of a file with these contents and a valid checksum, as any program can make them."""
    lines = [json.dumps(content) + "\n" for content in contents]
    return [*lines, json.dumps({"sha256": hashlib.sha256("".join(lines).encode()).hexdigest()})]


def contents(header: Mapping[str, object], record: Mapping[str, object]) -> list[dict[str, object]]:
    """A whole journal of one record with these fields in its header and its record."""
    first: dict[str, object] = msgspec.to_builtins(records()[0])
    return [
        {"format": FORMAT, "run": {**msgspec.to_builtins(ROW), **header}},
        {"record": {**first, **record}},
    ]


def test_a_file_that_another_program_has_sealed_is_read() -> None:
    assert read_journals(sealed(*contents({}, {}))) == [(ROW, records()[:1])]


@pytest.mark.parametrize("run_id", ["", "a\x1b]0;x\x07\nb", "a\u202e", "../../x", "--help", "a b", "a:1", "x" * 101, ".", "ünder"])
def test_a_run_with_an_invalid_id_is_not_imported(run_id: str) -> None:
    with pytest.raises(InvalidInput, match=r"line 1: .* cannot be the id of a run") as refused:
        read_journals(sealed(*contents({"run": run_id}, {"run": run_id})))
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, 1, 0])
def test_a_journal_of_an_unsupported_version_is_rejected_in_one_line(version: int) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_journals(sealed(*contents({}, {"version": version})))
    assert str(refused.value) == (
        f"journal file, line 2: its records have schema version {version}, and this program reads {SCHEMA_VERSION}; "
        "import it with the version of asterism that exported it"
    )


def test_a_journal_of_an_earlier_version_with_upgrade_steps_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "UPGRADES", {SCHEMA_VERSION - 1: lambda record: record})
    ((_, read),) = read_journals(sealed(*contents({}, {"version": SCHEMA_VERSION - 1})))
    assert [record.version for record in read] == [SCHEMA_VERSION - 1]


@pytest.mark.parametrize("run_id", ["r", "r.1", "r.1.0.", "r.1.0\x1b", "r.a.b", "s.1.0", "r.1.0.1.0"])
def test_a_child_whose_id_does_not_follow_from_its_parent_is_not_imported(run_id: str) -> None:
    with pytest.raises(InvalidInput, match=r"cannot be the id of a child of run 'r'"):
        read_journals(tree_of(TOP, (run_id, "r", "r")))


@pytest.mark.parametrize("at", [1e300, -1.0, 253_370_764_800, 10**30])
@pytest.mark.parametrize("field", ["created_at", "updated_at", "at"])
def test_an_invalid_time_is_not_imported(field: str, at: float) -> None:
    line = 2 if field == "at" else 1
    with pytest.raises(InvalidInput, match=f"line {line}: .* is not a valid time"):
        read_journals(sealed(*contents({field: at} if line == 1 else {}, {field: at} if line == 2 else {})))


def test_logs_of_a_run_that_is_not_in_the_file_are_refused() -> None:
    log = LogChunk(run_id="elsewhere", key="", task="", number=0, stream="stdout", position=0, at=1.0, data=b"")
    with pytest.raises(InvalidInput, match="it has logs of run elsewhere, which is not in the file"):
        read_journals(journal_lines([(ROW, records())], [log]))


TOP, BELOW, DEEP = ("r", "", "r"), ("r.1.0", "r", "r"), ("r.1.0.1.0", "r.1.0", "r")


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ((TOP, DEEP), "run r.1.0.1.0 is a child of r.1.0, which is not in the file"),
        ((BELOW, TOP), "the first run r.1.0 is a child of r"),
        ((TOP, BELOW, BELOW), "a run occurs twice"),
        ((TOP, ("other", "", "other")), "run other is a child of nothing"),
        ((TOP, ("r.1.0", "r", "elsewhere")), "run r.1.0 is a child of r, which is not in the file"),
    ],
)
def test_runs_that_are_no_tree_are_not_imported(rows: tuple[tuple[str, str, str], ...], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        read_journals(tree_of(*rows))


def test_a_tree_comes_back_in_order() -> None:
    assert [row.run_id for row, _ in read_journals(tree_of(TOP, DEEP, BELOW))] == ["r", "r.1.0.1.0", "r.1.0"]


def taken_in(before: list[Journal], tree: list[Journal]) -> set[str]:
    """Return the ids of the runs of a store that had some before a tree was imported or rejected."""

    async def main() -> set[str]:
        store = MemoryStore()
        for row, (first, *more) in before:
            await store.submit(row, first, *more)
        client = Client(store, SystemClock(), by_name([FORM]))
        with contextlib.suppress(InvalidInput, JournalMismatch):
            await client.import_journals(tree)
        return {row.run_id for row in await store.runs()}

    return asyncio.run(main())


def test_a_tree_that_a_program_has_put_together_has_ids_that_runs_may_have() -> None:
    rows = [msgspec.structs.replace(ROW, run_id=run, parent=parent, root="../x") for run, parent in (("../x", ""), ("../x.1.0", "../x"))]
    assert taken_in([], [(row, with_run_id(records(), "r", row.run_id)) for row in rows]) == set()


def adoptable() -> list[Journal]:
    rows = [msgspec.structs.replace(ROW, run_id=run, parent=parent, root=root) for run, parent, root in (TOP, BELOW)]
    return [(row, with_run_id(records(), "r", row.run_id)) for row in rows]


def test_nothing_is_imported_of_a_tree_with_a_journal_that_cannot_be_replayed() -> None:
    (top, journal), below = adoptable()
    assert taken_in([], [(top, journal[:1] + journal[2:]), below]) == set()


def test_an_import_that_was_interrupted_can_be_repeated() -> None:
    tree = adoptable()
    assert taken_in([], tree) == {"r", "r.1.0"}
    assert taken_in(tree[1:], tree) == {"r", "r.1.0"}


def test_a_run_below_that_went_another_way_is_not_mixed_with_a_tree() -> None:
    top, (below, journal) = adoptable()
    assert taken_in([(below, journal[:-1])], [top, (below, journal)]) == {"r.1.0"}
