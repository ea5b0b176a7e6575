"""The floors: the least code that does what a run of a plan does, written without Asterism.

The durable one keeps the promise that matters (a task starts after the end of what it waits for is on the disk) and
nothing else: one row per task, no journal, no ownership, no replay.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import tempfile
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

from asterism.constellation.model.documents import PlanDocument
from benchmarks.timing import Taken, taking

Row = tuple[tuple[str, str], asyncio.Future[None]]


async def _walk(plan: PlanDocument, ended: Callable[[str], Awaitable[None]]) -> None:
    """Each task of the plan as a task of the loop, started when what it waits for has ended."""
    waits = {task.task_id: 0 for task in plan.tasks}
    after: dict[str, list[str]] = {task.task_id: [] for task in plan.tasks}
    for line in plan.dependencies:
        waits[line.target] += 1
        after[line.source].append(line.target)
    async with asyncio.TaskGroup() as group:

        async def perform(task_id: str) -> None:
            await ended(task_id)
            for target in after[task_id]:
                waits[target] -= 1
                if not waits[target]:
                    group.create_task(perform(target))

        for task_id in [task_id for task_id, count in waits.items() if not count]:
            group.create_task(perform(task_id))


async def _kept_nowhere(task_id: str) -> None:
    """A task that does nothing."""


def memory_floor(plan: PlanDocument) -> Taken:
    """A plain ``asyncio.TaskGroup`` over the plan, kept nowhere."""
    with taking() as taken:
        asyncio.run(_walk(plan, _kept_nowhere))
    return taken


def durable_floor(plan: PlanDocument, copies: int = 1) -> Taken:
    """The same with a row for each end: ``sqlite3``, WAL, synchronous FULL, one writer thread, group commit."""

    async def measured() -> Taken:
        loop = asyncio.get_running_loop()
        rows: queue.SimpleQueue[Row | None] = queue.SimpleQueue()

        def keeping(copy: int) -> Callable[[str], Awaitable[None]]:
            async def keep(task_id: str) -> None:
                written: asyncio.Future[None] = loop.create_future()
                rows.put(((f"{copy}:{task_id}", "{}"), written))
                await written

            return keep

        with tempfile.TemporaryDirectory() as folder:
            writer = threading.Thread(target=write_all, args=(Path(folder) / "floor.db", rows, loop))
            writer.start()
            try:
                with taking() as taken:
                    async with asyncio.TaskGroup() as group:
                        for copy in range(copies):
                            group.create_task(_walk(plan, keeping(copy)))
                return taken
            finally:
                rows.put(None)
                await asyncio.to_thread(writer.join)

    return asyncio.run(measured())


def write_all(path: Path, rows: queue.SimpleQueue[Row | None], loop: asyncio.AbstractEventLoop) -> None:
    """Write what is queued, a group in a commit, until None comes."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE done (task TEXT PRIMARY KEY, result TEXT NOT NULL)")
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
