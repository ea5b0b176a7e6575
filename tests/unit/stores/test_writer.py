"""Group commit: which operations fail together."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from asterism.errors import InvalidInput, RunNotFound, StoreUnavailable
from asterism.stores import database
from asterism.stores import writer as writer_module
from asterism.stores.database import open_database
from asterism.stores.writer import GroupWriter


def with_writer(path: Path, act: Callable[[GroupWriter], Awaitable[None]]) -> None:
    async def whole() -> None:
        connection = open_database(path, create=True)
        connection.execute("CREATE TABLE IF NOT EXISTS t (a UNIQUE)")
        writer = GroupWriter(connection, path)
        try:
            await act(writer)
        finally:
            await writer.close()

    asyncio.run(whole())


def insert(value: object) -> Callable[[sqlite3.Connection], None]:
    def work(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO t VALUES (?)", (value,))

    return work


def contents(connection: sqlite3.Connection) -> list[object]:
    return [value for (value,) in connection.execute("SELECT a FROM t ORDER BY rowid")]


class Gate:
    """Holds the writer in one job, so that later calls form one group."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()

    def __call__(self, connection: sqlite3.Connection) -> None:
        self.entered.set()
        self.opened.wait(30)


async def in_one_group(writer: GroupWriter, works: list[Callable[[sqlite3.Connection], None]]) -> list[BaseException | None]:
    """The error of each work, None where it was done."""
    gate = Gate()
    errors: list[BaseException | None] = [None] * len(works)

    async def call(index: int) -> None:
        try:
            await writer.write(works[index])
        except Exception as error:
            errors[index] = error

    async with asyncio.TaskGroup() as group:
        group.create_task(writer.read(gate))
        await asyncio.to_thread(gate.entered.wait)
        for index in range(len(works)):
            group.create_task(call(index))
        await asyncio.sleep(0)
        gate.opened.set()
    return errors


def test_work_that_fails_halfway_is_rolled_back_and_the_rest_of_its_group_is_written(tmp_path: Path) -> None:
    def half(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO t VALUES ('half')")
        connection.execute("INSERT INTO t VALUES (1)")

    def wrong(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO t VALUES ('wrong')")
        raise ZeroDivisionError

    def refused(_connection: sqlite3.Connection) -> None:
        raise RunNotFound("r1")

    async def act(writer: GroupWriter) -> None:
        errors = await in_one_group(writer, [insert(1), half, insert(2), wrong, refused, insert("\udcff"), insert(3)])
        kinds = [type(error) for error in errors]
        assert kinds == [type(None), ValueError, type(None), ZeroDivisionError, RunNotFound, InvalidInput, type(None)]
        assert await writer.read(contents) == [1, 2, 3]

    with_writer(tmp_path / "a.db", act)


def test_a_group_is_one_transaction(tmp_path: Path) -> None:
    began: list[str] = []

    async def act(writer: GroupWriter) -> None:
        def trace(connection: sqlite3.Connection) -> None:
            connection.set_trace_callback(lambda statement: began.append(statement) if statement.startswith(("BEGIN", "COMMIT")) else None)

        await writer.read(trace)
        began.clear()
        await in_one_group(writer, [insert(number) for number in range(50)])

    with_writer(tmp_path / "a.db", act)
    assert began == ["BEGIN", "COMMIT", "BEGIN IMMEDIATE", "COMMIT"]


def test_when_the_database_is_full_the_whole_group_fails_and_nothing_of_it_is_written(tmp_path: Path) -> None:
    async def act(writer: GroupWriter) -> None:
        def limit(pages: int) -> Callable[[sqlite3.Connection], object]:
            return lambda connection: connection.execute(f"PRAGMA max_page_count = {pages}").fetchone()

        await writer.write(insert(1))
        await writer.read(limit(20))
        errors = await in_one_group(writer, [insert(2), insert("x" * 200_000), insert(3)])
        assert [type(error) for error in errors] == [StoreUnavailable] * 3
        assert all("the disk is full; free some space" in str(error) for error in errors)
        assert len(set(map(id, errors))) == 3
        assert await writer.read(contents) == [1]
        await writer.read(limit(1000))
        assert await in_one_group(writer, [insert(2), insert("x" * 200_000)]) == [None, None]

    with_writer(tmp_path / "a.db", act)


def test_when_the_commit_fails_the_whole_group_fails_and_may_be_retried(tmp_path: Path) -> None:
    async def act(writer: GroupWriter) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        await writer.write(insert(1))
        resource.setrlimit(resource.RLIMIT_FSIZE, (65_536, hard))
        try:
            errors = await in_one_group(writer, [insert(2), insert("x" * 200_000), insert(3)])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert [type(error) for error in errors] == [StoreUnavailable] * 3
        assert "reading or writing the disk failed" in str(errors[0])
        assert await writer.read(contents) == [1]
        assert await in_one_group(writer, [insert(2), insert(3)]) == [None, None]
        assert await writer.read(contents) == [1, 2, 3]

    with_writer(tmp_path / "a.db", act)


def test_a_read_waits_for_no_lock_while_another_process_writes(tmp_path: Path) -> None:
    async def act(writer: GroupWriter) -> None:
        await writer.write(insert(1))
        other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
            assert await writer.read(contents) == [1]
        finally:
            other.close()

    with_writer(tmp_path / "a.db", act)


def test_a_group_that_gets_no_lock_fails_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)

    async def act(writer: GroupWriter) -> None:
        other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
        try:
            other.execute("BEGIN IMMEDIATE")
            errors = await in_one_group(writer, [insert(1), insert(2)])
            assert ["another process has locked it" in str(error) for error in errors] == [True, True]
            other.execute("ROLLBACK")
            assert await in_one_group(writer, [insert(1), insert(2)]) == [None, None]
        finally:
            other.close()

    with_writer(tmp_path / "a.db", act)


def test_a_cancelled_caller_does_not_disturb_the_others(tmp_path: Path) -> None:
    async def act(writer: GroupWriter) -> None:
        gate = Gate()
        async with asyncio.TaskGroup() as group:
            group.create_task(writer.read(gate))
            await asyncio.to_thread(gate.entered.wait)
            gone, stays = group.create_task(writer.write(insert(1))), group.create_task(writer.write(insert(2)))
            await asyncio.sleep(0)
            gone.cancel()
            gate.opened.set()
            await stays
        assert await writer.read(contents) == [1, 2]

    with_writer(tmp_path / "a.db", act)


def test_an_operation_beyond_the_queue_limit_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "QUEUE_LIMIT", 2)

    async def act(writer: GroupWriter) -> None:
        errors = await in_one_group(writer, [insert(1), insert(2), insert(3)])
        assert [type(error) for error in errors] == [type(None), type(None), StoreUnavailable]

    with_writer(tmp_path / "a.db", act)


def test_more_than_one_group_may_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "GROUP_LIMIT", 3)

    async def act(writer: GroupWriter) -> None:
        assert await in_one_group(writer, [insert(number) for number in range(8)]) == [None] * 8
        assert await writer.read(contents) == list(range(8))

    with_writer(tmp_path / "a.db", act)


def test_closing_writes_what_is_queued_ends_the_thread_and_rejects_further_work(tmp_path: Path) -> None:
    async def act(writer: GroupWriter) -> None:
        async with asyncio.TaskGroup() as group:
            queued = [group.create_task(writer.write(insert(number))) for number in range(5)]
            await asyncio.sleep(0)
            group.create_task(writer.close())
        assert [task.exception() for task in queued] == [None] * 5
        assert not writer._thread.is_alive()
        with pytest.raises(StoreUnavailable, match="this program has closed it"):
            await writer.write(insert(9))

    with_writer(tmp_path / "a.db", act)
    with_writer(tmp_path / "a.db", lambda writer: expect(writer, [0, 1, 2, 3, 4]))


async def expect(writer: GroupWriter, values: list[object]) -> None:
    assert await writer.read(contents) == values
