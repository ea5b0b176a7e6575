"""Writers: they perform the operations of a store on a SQLite connection, in groups.

A group is performed in one transaction. No caller gets a result before the commit. So every result is
durable, and no read in a group sees data that could still be rolled back. ``GroupWriter`` has a thread,
and takes all operations that wait as one group; ``InlineWriter`` has none, and performs each one at once.

An operation that is refused raises an ``AsterismError`` *before* its first write, so the rest of
its group is not affected. An operation that fails in another way may have written half its data:
its group is rolled back and repeated without it. An error of the database itself fails the whole
group.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar, cast

from asterism.errors import AsterismError, InvalidInput, StoreUnavailable
from asterism.stores.database import unavailable

QUEUE_LIMIT = 65_536
"""Operations that may wait; a further one raises StoreUnavailable."""

GROUP_LIMIT = 512
"""Operations in one transaction."""

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]


class Writer(Protocol):
    """Performs the operations of a store."""

    async def write(self, work: Work[T]) -> T:
        """Perform an operation that writes; it is durable when this returns.

        If the caller is cancelled while it waits, the work may still be done.

        Raises:
            StoreUnavailable: the database failed; nothing was written.
            Exception: the error of the work itself; nothing was written.
        """
        ...

    async def read(self, work: Work[T]) -> T:
        """Perform an operation that only reads; it sees everything written before it."""
        ...

    async def close(self) -> None:
        """Perform what waits, then release the connection. It may be repeated."""
        ...


class Writing(Protocol):
    """A store, or a part of one, with its writer."""

    _writer: Writer


P = ParamSpec("P")
S = TypeVar("S", bound=Writing)


def reads(work: Callable[Concatenate[S, sqlite3.Connection, P], T]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Return the method of a store whose writer performs an operation that only reads."""

    async def method(self: S, /, *args: P.args, **options: P.kwargs) -> T:
        return await self._writer.read(lambda connection: work(self, connection, *args, **options))

    return method


def writes(work: Callable[Concatenate[S, sqlite3.Connection, P], T]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Return the method of a store whose writer performs an operation; it raises an AsterismError before its first write."""

    async def method(self: S, /, *args: P.args, **options: P.kwargs) -> T:
        return await self._writer.write(lambda connection: work(self, connection, *args, **options))

    return method


class Transactions:
    """Performs groups of operations, each group in one transaction.

    Args:
        connection: used only by this object while it performs a group.
        path: the database, for messages.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def perform(self, group: Sequence[Work[Any]], *, writes: bool) -> Sequence[object]:
        """Return the result of each operation; an exception among them is to be raised."""
        faults: dict[int, Exception] = {}
        try:
            self._roll_back()
            # Each round but the last finds one more fault, so there are at most as many rounds as
            # operations, plus one.
            while not (outcomes := self._attempt(group, faults, "BEGIN IMMEDIATE" if writes else "BEGIN")):
                self._roll_back()
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self._roll_back()
            return [unavailable(self._path, error) for _ in group]
        return outcomes

    def _attempt(self, group: Sequence[Work[Any]], faults: dict[int, Exception], begin: str) -> list[object]:
        """Perform all operations but the faulty ones in one transaction; return [] on a further fault."""
        connection = self._connection
        connection.execute(begin)
        outcomes: list[object] = []
        for index, work in enumerate(group):
            if index in faults:
                outcomes.append(faults[index])
                continue
            try:
                outcomes.append(work(connection))
            except AsterismError as refusal:
                outcomes.append(refusal)
            except Exception as error:  # boundary: each caller gets the error of its own operation
                if _is_of_the_database(error):
                    raise
                faults[index] = _in_words(error)
                return []
        self.commit()
        return outcomes

    def commit(self) -> None:
        """Commit the group."""
        self._connection.execute("COMMIT")

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


class InlineWriter(Transactions):
    """A ``Writer`` in the thread of its caller. Several may share a connection.

    An operation first yields to the event loop once, so that a simulated scheduler can interleave the stores of a
    database; an operation that was cancelled then has done nothing.

    Args:
        connection, path: as for ``Transactions``.
        lock: held by each operation; the same one for all writers of the connection.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path, lock: threading.Lock) -> None:
        super().__init__(connection, path)
        self._lock = lock
        self._closed = ""

    async def write(self, work: Work[T]) -> T:
        return await self._perform(work, writes=True)

    async def read(self, work: Work[T]) -> T:
        return await self._perform(work, writes=False)

    async def close(self) -> None:
        self.end("this program has closed it")

    def end(self, reason: str) -> None:
        """Let each further operation fail."""
        self._closed = self._closed or reason

    async def _perform(self, work: Work[T], *, writes: bool) -> T:
        await asyncio.sleep(0)
        if self._closed:
            raise StoreUnavailable(f"database {self._path}: {self._closed}")
        with self._lock:
            (outcome,) = self.perform([work], writes=writes)
        if isinstance(outcome, Exception):
            raise outcome
        return cast("T", outcome)


class Job(NamedTuple):
    """One operation with the future of its caller."""

    work: Work[Any]
    writes: bool
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class GroupWriter(Transactions):
    """A ``Writer`` with a thread and a queue; the connection is its own."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        super().__init__(connection, path)
        self._identity = _identity(path)
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._closing = False
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._serve, name=f"asterism store {path.name}", daemon=False)
        self._thread.start()

    async def write(self, work: Work[T]) -> T:
        return await self._enqueue(work, writes=True)

    async def read(self, work: Work[T]) -> T:
        return await self._enqueue(work, writes=False)

    async def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._queue.put(None)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.join)

    async def _enqueue(self, work: Work[T], *, writes: bool) -> T:
        if os.getpid() != self._process:  # the thread did not survive the fork, so nobody would take the job
            raise StoreUnavailable(
                f"database {self._path}: process {self._process} opened it before it forked this one; open it again in this process"
            )
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
                _tell(group, self.perform([job.work for job in group], writes=any(job.writes for job in group)))
        self._connection.close()

    def _take(self) -> tuple[list[Job], bool]:
        """Return the queued jobs, from 1 to GROUP_LIMIT; and True if the writer is closing."""
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

    def perform(self, group: Sequence[Work[Any]], *, writes: bool) -> Sequence[object]:
        if writes and _identity(self._path) != self._identity:
            # SQLite would keep writing to a file that no path leads to.
            gone = f"database {self._path}: it was removed or replaced while in use; entries written since then are not in the file there"
            return [StoreUnavailable(gone) for _ in group]
        return super().perform(group, writes=writes)


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the identity of the file at a path; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_of_the_database(error: Exception) -> bool:
    """Return True if an error is about the database, not about one operation."""
    theirs = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError, sqlite3.InterfaceError)
    return isinstance(error, sqlite3.Error) and not isinstance(error, theirs)


def _in_words(error: Exception) -> Exception:
    if isinstance(error, UnicodeEncodeError):
        return InvalidInput("a text to be stored is not valid Unicode; give it in UTF-8")
    if isinstance(error, sqlite3.Error):
        return ValueError(f"the database cannot store this: {error}")
    return error


def _tell(group: Sequence[Job], outcomes: Sequence[object]) -> None:
    """Return the results to the callers, waking each event loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], object]]] = {}
    for job, outcome in zip(group, outcomes, strict=True):
        by_loop.setdefault(job.loop, []).append((job.future, outcome))
    for loop, settled in by_loop.items():
        # If a loop is closed, nobody waits any more.
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
