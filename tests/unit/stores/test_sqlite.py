"""Behaviour of the SQLite store only."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from asterism.engine.kernel.journal import Record
from asterism.engine.kernel.snapshot import Snapshot
from asterism.engine.ports.store import Commit, InboxRow, InquiryRow, RunQuery, RunRow
from asterism.errors import InvalidInput, StaleOwner, StoreUnavailable
from asterism.stores.database import open_database
from asterism.stores.sqlite import SqliteStore

ROW = RunRow(run_id="r1", machine="m", title="t", state="START")
FIRST = Record(run_id="r1", seq=1, at=1.0, actor="ada", kind="Request", state="START", body="{}")
NEXT = Commit(run_id="r1", epoch=1, expected_seq=1, records=(msgspec.structs.replace(FIRST, seq=2),), state="CONTINUE", status="active")


def on(path: Path, act: Callable[[SqliteStore], Awaitable[None]]) -> None:
    async def whole() -> None:
        store = SqliteStore.open(path, create=True)
        try:
            await act(store)
        finally:
            await store.close()

    asyncio.run(whole())


@pytest.mark.parametrize(
    ("table", "struct", "more"),
    [
        ("runs", RunRow, ()),
        ("entries", Record, ("epoch",)),
        ("inquiries", InquiryRow, ("tenant", "seen", "given")),
        ("inbox", InboxRow, ()),
        ("snapshots", Snapshot, ()),
    ],
)
def test_a_table_has_the_fields_of_its_rows(tmp_path: Path, table: str, struct: type[msgspec.Struct], more: tuple[str, ...]) -> None:
    with closing(open_database(tmp_path / "a.db", create=True)) as connection:
        columns = tuple(column[1] for column in connection.execute(f"PRAGMA table_info({table})"))
    assert sorted(columns) == sorted((*(field.encode_name for field in msgspec.structs.fields(struct)), *more))


def test_a_search_waits_for_no_write_and_no_write_for_a_search(tmp_path: Path) -> None:
    read, written = threading.Event(), threading.Event()  # one event for both might be cleared before its thread waits for it

    async def act(store: SqliteStore) -> None:
        await store.submit(ROW, FIRST)
        writing = asyncio.ensure_future(store._writer.write(lambda _: read.wait()))
        try:
            assert [row.run_id for row in await store.find_runs(RunQuery())] == ["r1"]
        finally:
            read.set()
        await writing
        searching = asyncio.ensure_future(store._search(lambda _: written.wait()))
        try:
            await store.acquire("r1", newest=0)
            await store.append(NEXT)
        finally:
            written.set()
        await searching
        assert [row.seq for row in await store.find_runs(RunQuery())] == [2]

    on(tmp_path / "a b?#.db", act)


def test_a_search_after_the_store_was_closed_or_the_file_is_gone_says_so(tmp_path: Path) -> None:
    async def act(store: SqliteStore) -> None:
        await store.close()
        with pytest.raises(StoreUnavailable, match="has closed it"):
            await store.find_runs(RunQuery())

    on(tmp_path / "a.db", act)

    async def gone(store: SqliteStore) -> None:
        (tmp_path / "b.db").unlink()
        with pytest.raises(StoreUnavailable, match="cannot be opened"):
            await store.find_runs(RunQuery())
        assert not (tmp_path / "b.db").exists()

    on(tmp_path / "b.db", gone)


def test_looking_at_runs_makes_no_owners_folder(tmp_path: Path) -> None:
    async def act(store: SqliteStore) -> None:
        await store.submit(ROW, FIRST)
        await store.runs()

    on(tmp_path / "a.db", act)
    assert [it.name for it in tmp_path.iterdir()] == ["a.db"]


def test_one_database_under_two_names_has_one_set_of_owners(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "a.db")

    async def act(store: SqliteStore) -> None:
        await store.submit(ROW, FIRST)
        await store.acquire("r1", newest=0)
        other = SqliteStore.open(tmp_path / "link.db", create=False)
        try:
            assert (await other.run("r1")).owner.startswith("process")
        finally:
            await other.close()

    on(tmp_path / "a.db", act)


def test_an_owner_that_lost_its_lock_is_stale_once_another_has_acquired_the_run(tmp_path: Path) -> None:
    path = tmp_path / "a.db"

    async def act(store: SqliteStore) -> None:
        await store.submit(ROW, FIRST)
        await store.acquire("r1", newest=0)
        shutil.rmtree(tmp_path / "a.db.owners")
        other = SqliteStore.open(path, create=False)
        try:
            assert await other.acquire("r1", newest=0) == 2
            with pytest.raises(StaleOwner):
                await store.append(NEXT)
            await other.append(msgspec.structs.replace(NEXT, epoch=2))
        finally:
            await other.close()

    on(path, act)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT seq, epoch FROM entries ORDER BY seq").fetchall() == [(1, 0), (2, 2)]


def test_a_text_that_is_not_unicode_is_the_callers_error(tmp_path: Path) -> None:
    async def act(store: SqliteStore) -> None:
        with pytest.raises(InvalidInput, match="not valid Unicode"):
            await store.submit(msgspec.structs.replace(ROW, title="caf\udce9"), FIRST)
        assert await store.runs() == []

    on(tmp_path / "a.db", act)


def test_a_quiet_inbox_is_one_seek(tmp_path: Path) -> None:
    from asterism.stores.sqlite import SELECT_INBOX  # noqa: PLC0415

    with closing(open_database(tmp_path / "a.db", create=True)) as connection:
        steps = 0

        def count() -> int:
            nonlocal steps
            steps += 1
            return 0

        connection.set_progress_handler(count, 1)
        connection.execute(SELECT_INBOX, ("[" + ",".join(['"r"'] * 10_000) + "]",)).fetchall()
    assert steps < 30


def test_a_database_that_is_removed_in_use_is_reported_as_gone(tmp_path: Path) -> None:
    path = tmp_path / "a.db"

    async def act(store: SqliteStore) -> None:
        await store.submit(ROW, FIRST)
        path.unlink()
        with pytest.raises(StoreUnavailable, match="removed or replaced while in use"):
            await store.acquire("r1", newest=0)

    on(path, act)
