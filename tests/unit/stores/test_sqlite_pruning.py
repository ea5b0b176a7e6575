"""Pruning of the store in SQLite: what the files on the disk come to."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from asterism.stores.sqlite import SqliteStore
from tests.contracts.test_stores import commit, record, row

MB = 1_000_000


async def filled(database: Path, runs: int) -> SqliteStore:
    """A store with so many ended runs of about 100 kB each; run 0 ended first."""
    store = SqliteStore.open(database, create=True)
    for number in range(runs):
        name = f"r{number}"
        large = tuple(msgspec.structs.replace(it, body='"' + "x" * 9_900 + '"') for it in commit(name, count=10).records)
        await store.submit(row(name), record(name))
        epoch = await store.acquire(name, newest=0)
        ended = msgspec.structs.replace(
            commit(name, epoch=epoch), records=large, status="ended", outcome="finished", updated_at=float(number)
        )
        await store.append(ended)
        await store.release(name, epoch)
    return store


def on_disk(database: Path) -> int:
    return sum(file.stat().st_size for file in (database, Path(f"{database}-wal")))


def test_only_the_oldest_runs_go_until_database_and_log_fit(tmp_path: Path) -> None:
    """B1."""

    async def scenario() -> None:
        store = await filled(tmp_path / "runs.db", 40)
        try:
            assert on_disk(tmp_path / "runs.db") > 4 * MB
            deleted = await store.prune(keep_bytes=3 * MB)
            assert 2.8 * MB < on_disk(tmp_path / "runs.db") <= 3 * MB
            left = {it.run_id for it in await store.runs()}
            assert left == {f"r{number}" for number in range(deleted, 40)}
            assert await store.prune(keep_bytes=3 * MB) == 0
        finally:
            await store.close()

    asyncio.run(scenario())


def test_the_file_shrinks_when_runs_are_deleted_by_age(tmp_path: Path) -> None:
    """B1."""

    async def scenario() -> None:
        store = await filled(tmp_path / "runs.db", 20)
        try:
            assert await store.prune(before=15.0, limit=100) == 15
            assert on_disk(tmp_path / "runs.db") < MB
        finally:
            await store.close()

    asyncio.run(scenario())
