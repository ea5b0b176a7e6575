"""The floors: the least code that does what a chain does, written without Asterism.

The durable one keeps the promise that matters (a task starts after the end of the one before it is on the
disk) and nothing else: one row per task, no journal, no ownership, no replay.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import tempfile
import threading
import time
from pathlib import Path

Row = tuple[tuple[int, str], asyncio.Future[None]]


async def _nothing() -> None:
    """A task that does nothing."""


async def _performed() -> None:
    """One task, as a task of the loop: anything that can be cancelled or timed out needs one."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_nothing())


def memory_floor_s(length: int) -> float:
    """Seconds of a chain of asyncio tasks, kept nowhere."""

    async def measured() -> float:
        started = time.perf_counter()
        for _ in range(length):
            await _performed()
        return time.perf_counter() - started

    return asyncio.run(measured())


def durable_floor_s(length: int) -> float:
    """Seconds of the same chain with a row for each end: WAL, synchronous FULL, one writer thread, group commit."""

    async def measured() -> float:
        loop = asyncio.get_running_loop()
        rows: queue.SimpleQueue[Row | None] = queue.SimpleQueue()
        with tempfile.TemporaryDirectory() as folder:
            writer = threading.Thread(target=_write_all, args=(Path(folder) / "floor.db", rows, loop))
            writer.start()
            try:
                started = time.perf_counter()
                for number in range(length):
                    await _performed()
                    written: asyncio.Future[None] = loop.create_future()
                    rows.put(((number, "{}"), written))
                    await written
                return time.perf_counter() - started
            finally:
                rows.put(None)
                await asyncio.to_thread(writer.join)

    return asyncio.run(measured())


def _write_all(path: Path, rows: queue.SimpleQueue[Row | None], loop: asyncio.AbstractEventLoop) -> None:
    """Write what is queued, a group in a commit, until None comes."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE done (number INTEGER PRIMARY KEY, result TEXT NOT NULL)")
    closing = False
    while not closing:
        taken = [rows.get()]
        while not rows.empty():
            taken.append(rows.get())
        closing = None in taken
        group = [row for row in taken if row is not None]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO done VALUES (?, ?)", [values for values, _ in group])
        connection.execute("COMMIT")
        loop.call_soon_threadsafe(_settle, [written for _, written in group])
    connection.close()


def _settle(written: list[asyncio.Future[None]]) -> None:
    for future in written:
        future.set_result(None)
