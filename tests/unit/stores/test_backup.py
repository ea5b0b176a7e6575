"""A copy of a database: one moment of it, with the files of its runs, or nothing."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from asterism.app.bootstrap import run_files
from asterism.engine.kernel.journal import Record
from asterism.engine.ports.store import Commit, RunRow
from asterism.errors import InvalidInput, StoreUnavailable
from asterism.stores.backup import back_up
from asterism.stores.database import newest_version
from asterism.stores.sqlite import SqliteStore

ROW = RunRow(run_id="r1", machine="m", title="t", state="START")
FIRST = Record(run_id="r1", seq=1, at=1.0, actor="ada", kind="Request", state="START", body="{}")


async def chunks(text: bytes) -> AsyncIterator[bytes]:
    yield text


def test_a_copy_that_is_made_amid_writes_is_one_moment_of_the_database(tmp_path: Path) -> None:
    async def scenario() -> list[Path]:
        store = SqliteStore.open(tmp_path / "runs.db", create=True)
        await store.submit(ROW, FIRST)
        epoch = await store.acquire("r1", newest=0)
        stop, copies = threading.Event(), []

        async def write() -> None:
            seq = 1
            while not stop.is_set():
                records = [msgspec.structs.replace(FIRST, seq=seq + 1, body=f'"{"x" * 5000}"')]
                await store.append(Commit(run_id="r1", epoch=epoch, expected_seq=seq, records=records, state="S", status="active"))
                seq += 1

        async with asyncio.TaskGroup() as group:
            writing = group.create_task(write())
            for number in range(5):
                copies.append(tmp_path / "copies" / f"{number}.db")
                await asyncio.to_thread(back_up, tmp_path / "runs.db", copies[-1], with_files=True)
            stop.set()
            await writing
        await store.close()
        return copies

    seen = []
    for path in asyncio.run(scenario()):
        with closing(sqlite3.connect(path)) as copy:
            assert copy.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert copy.execute("PRAGMA user_version").fetchone() == (newest_version(),)
            seen.append(copy.execute("SELECT seq, (SELECT count(*) FROM entries), (SELECT max(seq) FROM entries) FROM runs").fetchone())
        assert path.stat().st_mode & 0o777 == 0o600
    assert all(seq == number == last for seq, number, last in seen)
    assert [seq for seq, _, _ in seen] == sorted(seq for seq, _, _ in seen)
    assert sorted(it.name for it in (tmp_path / "copies").iterdir() if "-" not in it.name) == [f"{number}.db" for number in range(5)]


def test_a_copy_has_the_files_of_its_runs_and_reads_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = SqliteStore.open(tmp_path / "runs.db", create=True)
        await store.submit(ROW, FIRST)
        files = run_files(store, tmp_path / "runs.db")
        value = await files.put("r1", "report.txt", chunks(b"all is well"))
        lost = await files.put("r1", "lost.txt", chunks(b"gone"))
        await store.close()
        (tmp_path / "runs.db.files" / lost["$file"].removeprefix("sha256:")).unlink()
        done = back_up(tmp_path / "runs.db", tmp_path / "copy.db", with_files=True)
        assert (done.bytes, done.files, done.lost) == ((tmp_path / "copy.db").stat().st_size, 1, 1)
        assert back_up(tmp_path / "runs.db", tmp_path / "bare.db", with_files=False).files == 0
        assert not (tmp_path / "bare.db.files").exists()
        copy = SqliteStore.open(tmp_path / "copy.db", create=False)
        assert [chunk async for chunk in run_files(copy, tmp_path / "copy.db").read("r1", value["$file"])] == [b"all is well"]
        await copy.close()

    asyncio.run(scenario())


def test_nothing_is_overwritten_and_what_is_no_database_is_refused(tmp_path: Path) -> None:
    asyncio.run(SqliteStore.open(tmp_path / "runs.db", create=True).close())
    (tmp_path / "there.db").write_text("a letter")
    with pytest.raises(InvalidInput, match="it exists"):
        back_up(tmp_path / "runs.db", tmp_path / "there.db", with_files=True)
    with pytest.raises(InvalidInput, match="it exists"):
        back_up(tmp_path / "runs.db", tmp_path / "runs.db", with_files=True)
    with pytest.raises(StoreUnavailable, match="not a SQLite database"):
        back_up(tmp_path / "there.db", tmp_path / "copy.db", with_files=True)
    with pytest.raises(StoreUnavailable, match="there is none"):
        back_up(tmp_path / "none.db", tmp_path / "copy.db", with_files=True)
    assert (tmp_path / "there.db").read_text() == "a letter"
    assert not (tmp_path / "copy.db").exists()
    assert not [it.name for it in tmp_path.iterdir() if it.name.endswith(".new")]


def test_a_copy_on_a_file_system_without_links_is_moved_into_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(SqliteStore.open(tmp_path / "runs.db", create=True).close())

    def link(_draft: Path, _target: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    assert back_up(tmp_path / "runs.db", tmp_path / "stick" / "copy.db", with_files=True).bytes > 0
    assert [it.name for it in (tmp_path / "stick").iterdir()] == ["copy.db"]


def test_a_copy_that_cannot_be_written_whole_is_not_there(tmp_path: Path) -> None:
    asyncio.run(SqliteStore.open(tmp_path / "runs.db", create=True).close())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(StoreUnavailable, match="disk"):
            back_up(tmp_path / "runs.db", tmp_path / "copies" / "copy.db", with_files=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list((tmp_path / "copies").iterdir()) == []
