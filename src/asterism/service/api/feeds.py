"""Feeds: the deltas of the runs that somebody watches, read and folded once however many watch.

A feed has the last deltas of its run. A watcher has a cursor, the seq of the last entry that it has, and takes the deltas
after it: from the feed, or, if they are older than the feed's, from the journal. So nothing is queued for a watcher, and
a slow one misses nothing.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import itertools
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from asterism.engine.kernel.journal import Entry, Record
from asterism.engine.kernel.machine import Machine
from asterism.engine.kernel.packing import packer
from asterism.engine.ports.store import RunRow, Store
from asterism.engine.runtime.form import Form, form_of
from asterism.engine.runtime.snapshots import load
from asterism.errors import AsterismError
from asterism.service.api.changes import Changes
from asterism.views.view import unread_view, view_of

POLL_S = 0.25
"""Seconds between two reads of the watched journals."""
MAX_DELTAS = 1000
"""Deltas that a feed has."""
FIRST_QUIET_S = 0.25
"""Seconds without a delta after which a watcher is given its first empty list."""
IDLE_S = 30.0
"""Seconds for which a feed that nobody watches stays, for a watcher that connects again."""
PAGE = 200
"""Entries that are folded before other work gets its turn."""
MAX_BEHIND = 10_000
"""Entries that a watcher may be behind; beyond it, it begins again with the current view."""
BATCH_BYTES = 1 << 20
"""Bytes of deltas after which a watcher is given what was found; the rest comes next."""
FOLDS = 2
"""Journals that are folded from their beginning at once."""

encode = msgspec.json.encode


class EncodedDelta(msgspec.Struct, frozen=True):
    """A delta as JSON, and the seq of its entry."""

    seq: int
    data: bytes


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """What a watcher of a run receives next.

    Attributes:
        lines: the next deltas, without gaps.
        reset: the seq from which the watcher must begin again, because its cursor cannot be continued; else None.
        problem: why the run cannot be followed; empty if it can.
    """

    run_id: str
    lines: Sequence[EncodedDelta] = ()
    reset: int | None = None
    problem: str = ""


class Feed:
    """The last deltas of one run."""

    def __init__(self, row: RunRow, machine: Machine[Any], view: Any) -> None:
        self.row = row
        self.machine = machine
        self.seq: int = view.run.seq
        self.problem = ""
        self.watchers = 0
        self.idle_since = 0.0
        self._view = view
        self._unpack = packer(machine).unpack
        self._lines: collections.deque[EncodedDelta] = collections.deque(maxlen=MAX_DELTAS)

    def read(self, records: Iterable[Record]) -> None:
        """Fold the next records."""
        try:
            lines = _lines(self._view.read(self._unpack(record) for record in records))
        except AsterismError as error:  # a run that cannot be replayed here; the others are not affected
            self.problem = str(error)
            return
        self._lines.extend(lines)
        self.seq = lines[-1].seq if lines else self.seq

    def since(self, after: int) -> list[EncodedDelta] | None:
        """Return the deltas after a seq; None if they are older than the feed's."""
        missing = self.seq - after
        if missing > len(self._lines):
            return None
        first = len(self._lines) - missing
        return list(itertools.islice(self._lines, first, first + PAGE))


class Feeds:
    """The feeds of one server; the entries that the driver of the same process appends are read at once."""

    def __init__(self, store: Store, forms: Mapping[str, Form]) -> None:
        self._store = store
        self._forms = forms
        self._feeds: dict[str, Feed] = {}
        self._opening = asyncio.Lock()
        self._folds = asyncio.Semaphore(FOLDS)
        self._news = asyncio.Event()
        self._wanted = asyncio.Event()
        self._stopped = False
        self.changes = Changes()

    # -- the driver of this process ------------------------------------------------------------------

    def appended(self, run_id: str, entries: Sequence[Entry]) -> None:
        """Note the change, and read the journals now if this run is watched."""
        self.changes.appended(run_id, entries)
        if run_id in self._feeds:
            self._wanted.set()

    # -- reading -----------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Read the journals of the watched runs as they grow; runs until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_S):
                    await self._wanted.wait()
            self._wanted.clear()
            await self._read()

    def stop(self) -> None:
        """End all streams; their clients connect again, here or to another server."""
        self._stopped = True
        self._publish()

    async def _read(self) -> None:
        now = asyncio.get_running_loop().time()
        self._feeds = {run: feed for run, feed in self._feeds.items() if feed.watchers or feed.idle_since > now - IDLE_S}
        watched = {run: feed.seq for run, feed in self._feeds.items() if feed.watchers and not feed.problem}
        if not watched:
            return
        try:
            records = await self._store.records_after(watched, PAGE)
        except AsterismError:  # the database cannot be read now; the next time it may
            return
        by_run: dict[str, list[Record]] = {}
        for record in records:
            by_run.setdefault(record.run_id, []).append(record)
        for run, found in by_run.items():
            self._feeds[run].read(found)
        if by_run:
            self._publish()
        if len(records) >= PAGE:
            self._wanted.set()  # there may be more

    def _publish(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def follow(self, rows: Sequence[RunRow], cursors: Mapping[str, int], idle_s: float) -> AsyncGenerator[list[Batch], None]:
        """Yield what comes after the cursors of some runs, until the server stops.

        Args:
            rows: rows of the runs.
            cursors: seq of the last entry that the watcher has, by run id.
            idle_s: the most seconds after which an empty list is yielded if nothing comes; the first one comes soon.
        """
        async with contextlib.AsyncExitStack() as stack:
            feeds = [stack.enter_context(self._watched(await self._open(row))) for row in rows]
            reached, quiet_s = dict(cursors), FIRST_QUIET_S
            while not self._stopped:
                news = self._news  # before looking: none is missed
                batches, left = list[Batch](), BATCH_BYTES
                for looked, feed in enumerate(feeds, 1):
                    if batch := await self._next(feed, reached[feed.row.run_id]):
                        batches.append(batch)
                        left -= sum(len(line.data) for line in batch.lines)
                    if left <= 0:
                        feeds = feeds[looked:] + feeds[:looked]  # those that were not looked at come first
                        break
                for batch in batches:
                    reached[batch.run_id] = (
                        batch.lines[-1].seq if batch.lines else reached[batch.run_id] if batch.reset is None else batch.reset
                    )
                if batches:
                    yield batches
                ended = {batch.run_id for batch in batches if batch.problem}
                feeds = [feed for feed in feeds if feed.row.run_id not in ended]
                if rows and not feeds:
                    return
                if batches:
                    quiet_s = FIRST_QUIET_S
                    continue
                try:
                    async with asyncio.timeout(min(quiet_s, idle_s)):
                        await news.wait()
                except TimeoutError:
                    quiet_s *= 2
                    yield []

    async def _next(self, feed: Feed, after: int) -> Batch | None:
        """Return what comes after a cursor; None if it has everything."""
        run_id = feed.row.run_id
        if feed.problem:
            return Batch(run_id=run_id, problem=feed.problem)
        if not 0 <= feed.seq - after <= MAX_BEHIND:
            return Batch(run_id=run_id, reset=feed.seq)
        if after == feed.seq:
            return None
        lines = feed.since(after)
        if lines is None:
            lines, left = [], BATCH_BYTES
            async with contextlib.aclosing(self.history(feed.row, after, until=feed.seq)) as history:
                async for line in history:
                    lines.append(line)
                    if (left := left - len(line.data)) <= 0:
                        break
        return Batch(run_id=run_id, lines=lines)

    @contextlib.contextmanager
    def _watched(self, feed: Feed) -> Any:
        feed.watchers += 1
        try:
            yield feed
        finally:
            feed.watchers -= 1
            feed.idle_since = asyncio.get_running_loop().time()

    async def _open(self, row: RunRow) -> Feed:
        async with self._opening:
            feed = self._feeds.get(row.run_id)
            if feed is None or feed.problem:
                form = form_of(row, self._forms)
                live, _ = await load(self._store, form.machine, row.run_id)
                feed = self._feeds[row.run_id] = Feed(row, form.machine, view_of(form, live))
                feed.idle_since = asyncio.get_running_loop().time()
            return feed

    async def history(self, row: RunRow, after: int, *, until: int) -> AsyncGenerator[EncodedDelta, None]:
        """Yield the deltas of a run after an entry, up to another one, from its journal.

        Raises:
            UnknownMachine, RunNewer, JournalMismatch: the journal cannot be read here.
        """
        form = form_of(row, self._forms)
        view, unpack, seen = unread_view(form, row.run_id), packer(form.machine).unpack, 0
        async with self._folds:
            while seen < until:
                records = await self._store.records(row.run_id, after=seen, limit=min(PAGE, until - seen))
                if not records:
                    return
                seen = records[-1].seq
                for line in _lines(view.read(map(unpack, records))):
                    if line.seq > after:
                        yield line


def _lines(deltas: Iterable[Any]) -> list[EncodedDelta]:
    return [EncodedDelta(delta.seq, encode(delta)) for delta in deltas]
