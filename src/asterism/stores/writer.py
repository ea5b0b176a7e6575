"""One thread that owns a SQLite connection and commits in groups.

It takes everything that is queued, performs it in one transaction, commits once, and then tells each
caller its own outcome. A caller is told nothing before the commit, so what it was told is durable, and
reads in a group see nothing that could still be undone.

Work that refuses raises an ``AsterismError`` *before* its first write; so a refusal costs the rest of its
group nothing. Work that fails in any other way may have written half, so its group is rolled back and
done again without it. When the database itself fails, so does the whole group.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from asterism.errors import AsterismError, InvalidInput, StoreUnavailable
from asterism.stores.database import unavailable

QUEUE_LIMIT = 65_536
"""Operations that may wait; one more is refused with StoreUnavailable."""

GROUP_LIMIT = 512
"""Operations in one transaction."""

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]


class Job(NamedTuple):
    """One operation and who waits for it."""

    work: Work[Any]
    writes: bool
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class GroupWriter:
    """The thread, its queue and its connection.

    Args:
        connection: handed over; nobody else may use it from now on.
        path: the database, for messages.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._identity = _identity(path)
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name=f"asterism store {path.name}", daemon=False)
        self._thread.start()

    async def write(self, work: Work[T]) -> T:
        """Perform work that writes; durable when this returns.

        A caller that is cancelled while it waits cannot know whether the work was done.

        Raises:
            StoreUnavailable: nothing of it was written.
            Exception: whatever the work raised; nothing of it was written.
        """
        return await self._enqueue(work, writes=True)

    async def read(self, work: Work[T]) -> T:
        """Perform work that only reads; it sees everything written before it."""
        return await self._enqueue(work, writes=False)

    async def close(self) -> None:
        """Perform what is queued, close the connection, end the thread. Again is harmless."""
        if not self._closing:
            self._closing = True
            self._queue.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    async def _enqueue(self, work: Work[T], *, writes: bool) -> T:
        if self._closing:
            raise StoreUnavailable(f"database {self._path}: this program has closed it")
        if self._queue.qsize() >= QUEUE_LIMIT:
            raise StoreUnavailable(f"database {self._path}: {QUEUE_LIMIT} operations wait already; try again later")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._queue.put(Job(work, writes, loop, future))
        return await future

    # -- in the thread ---------------------------------------------------------------------------

    def _serve(self) -> None:
        last = False
        while not last:
            group, last = self._take()
            if group:
                _tell(group, self._perform(group))
        self._connection.close()

    def _take(self) -> tuple[list[Job], bool]:
        """Everything queued, up to the limit, at least one; and whether it is the end."""
        group: list[Job] = []
        job = self._queue.get()
        while job is not None:
            group.append(job)
            if len(group) == GROUP_LIMIT:
                return group, False
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                return group, False
        return group, True

    def _perform(self, group: Sequence[Job]) -> Sequence[object]:
        """The outcome of each job; an outcome that is an exception is to be raised."""
        faults: dict[int, Exception] = {}
        if any(job.writes for job in group) and _identity(self._path) != self._identity:
            # SQLite would go on writing into a file that nobody can find any more.
            gone = f"database {self._path}: it was removed or replaced while in use; what was written since cannot be found there"
            return [StoreUnavailable(gone) for _ in group]
        try:
            self._roll_back()
            # Each round but the last finds one more fault, so there are not more rounds than jobs and one.
            while not (outcomes := self._attempt(group, faults)):
                self._roll_back()
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self._roll_back()
            return [unavailable(self._path, error) for _ in group]
        return outcomes

    def _attempt(self, group: Sequence[Job], faults: dict[int, Exception]) -> list[object]:
        """One transaction over all but the faulty; nothing committed and an empty list if one more is."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE" if any(job.writes for job in group) else "BEGIN")
        outcomes: list[object] = []
        for index, job in enumerate(group):
            if index in faults:
                outcomes.append(faults[index])
                continue
            try:
                outcomes.append(job.work(connection))
            except AsterismError as refusal:
                outcomes.append(refusal)
            except Exception as error:  # boundary: each caller gets what its own work raised
                if _is_of_the_database(error):
                    raise
                faults[index] = _in_words(error)
                return []
        connection.execute("COMMIT")
        return outcomes

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file a path leads to; None where it leads to none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_of_the_database(error: Exception) -> bool:
    """Whether an error says something of the database, rather than of what was asked of it."""
    theirs = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError, sqlite3.InterfaceError)
    return isinstance(error, sqlite3.Error) and not isinstance(error, theirs)


def _in_words(error: Exception) -> Exception:
    if isinstance(error, UnicodeEncodeError):
        return InvalidInput("a text to be stored is not valid Unicode; give it in UTF-8")
    if isinstance(error, sqlite3.Error):
        return ValueError(f"this cannot be stored: {error}")
    return error


def _tell(group: Sequence[Job], outcomes: Sequence[object]) -> None:
    """Hand out the outcomes, waking each event loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], object]]] = {}
    for job, outcome in zip(group, outcomes, strict=True):
        by_loop.setdefault(job.loop, []).append((job.future, outcome))
    for loop, settled in by_loop.items():
        # A loop that is closed has nobody left who waits.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, settled)


def _settle(settled: Sequence[tuple[asyncio.Future[Any], object]]) -> None:
    for future, outcome in settled:
        if future.done():
            continue
        if isinstance(outcome, Exception):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
