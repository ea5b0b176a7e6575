"""The store in memory: the same guarantees within one process, for simulations and tests.

Several handles on one ``Memory`` stand for several processes on one database. Everything happens
inline and in order. Each operation first yields to the event loop once, so that a simulated
scheduler can interleave handles; an operation that was cancelled then has done nothing.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from asterism.engine.kernel.journal import Record
from asterism.engine.kernel.snapshot import Snapshot
from asterism.engine.ports.files import FileRow
from asterism.engine.ports.logs import ALL_OUTPUT, LogChunk, LogQuery
from asterism.engine.ports.store import (
    Commit,
    InboxRow,
    InquiryRow,
    ProcessRow,
    RunQuery,
    RunRow,
    RunStatus,
    WorkSummary,
    begins_with,
    check_open_bytes,
    check_rows,
    first_due_at,
    read_inquiry_cursor,
    read_run_cursor,
)
from asterism.engine.ports.tokens import TokenRow
from asterism.engine.runtime.problems import CRASHED
from asterism.errors import InvalidInput, RunNewer, RunNotFound, RunOwned, StaleOwner, StoreUnavailable
from asterism.stores.fair_share import fair_share
from asterism.stores.log_bounds import end_of, selected, thinned
from asterism.stores.memory_files import MemoryFiles
from asterism.stores.memory_notices import MemoryNotices, NoticeMemory
from asterism.stores.memory_rows import freed, has_progressed
from asterism.stores.memory_schedules import MemorySchedules, ScheduleMemory
from asterism.stores.memory_search import matches, place_of, work_of
from asterism.stores.memory_tokens import MemoryTokens

Fault = Callable[[str], Exception | None]
"""Called before each write with its name (``append``, …); if it returns an exception, that is
raised instead."""


class Memory:
    """The data that all handles share. Runs, inquiries and inbox rows are in order of arrival."""

    def __init__(self) -> None:
        self.runs: dict[str, RunRow] = {}
        self.records: dict[str, list[Record]] = {}
        self.inquiries: dict[str, InquiryRow] = {}
        self.inbox: dict[tuple[str, str], InboxRow] = {}
        self.snapshots: dict[str, Snapshot] = {}
        self.logs: dict[str, list[LogChunk]] = {}
        self.log_seq = 0
        self.files: dict[tuple[str, str, str], FileRow] = {}
        self.tokens: dict[str, TokenRow] = {}
        self.schedules = ScheduleMemory(self.runs)
        self.notices = NoticeMemory()
        self.acquired_at: dict[str, int] = {}
        self.living: set[str] = set()
        self.servers: dict[str, ProcessRow] = {}
        self.work: dict[str, asyncio.Event] = {}
        self.handles = 0

    def size(self, runs: Iterable[str] | None = None) -> int:
        """Return the characters of the journals of some runs, or of all."""
        return sum(len(record.body) for run in (self.records if runs is None else runs) for record in self.records[run])

    def tree(self, root: str) -> set[str]:
        """Return the ids of a root and of the runs below it."""
        return {row.run_id for row in self.runs.values() if row.root == root}

    def remove(self, root: str) -> None:
        """Remove a tree with its rows."""
        tree = self.tree(root)
        for run in tree:
            del self.runs[run], self.records[run]
            self.snapshots.pop(run, None)
            self.logs.pop(run, None)
        self.inquiries = {key: it for key, it in self.inquiries.items() if it.run_id not in tree}
        self.files = {key: it for key, it in self.files.items() if it.root not in tree}
        self.inbox = {key: it for key, it in self.inbox.items() if it.run_id not in tree}
        self.notices.remove(lambda notice: notice.run_id in tree)

    def wake(self) -> None:
        """Wake the handles that wait for work."""
        for event in self.work.values():
            event.set()


@functools.cache
def process_memory() -> Memory:
    """Return the memory that all stores of this process share by default."""
    return Memory()


class MemoryStore(MemoryFiles, MemoryTokens, MemorySchedules, MemoryNotices):
    """A ``Store`` in memory: one handle, which stands for one process.

    Args:
        memory: shared with other handles; a new one if None.
        name: name of this handle as an owner; a number if empty.
        fail: called before each write of this handle.
    """

    def __init__(self, memory: Memory | None = None, *, name: str = "", fail: Fault | None = None) -> None:
        self.memory = memory or Memory()
        self._scheduled, self._noted = self.memory.schedules, self.memory.notices
        self.memory.handles += 1
        # The number distinguishes a handle from an earlier one of the same name.
        self._me = f"{name or 'process'} {self.memory.handles}"
        self._fail = fail
        self._closed = ""
        self.memory.living.add(self._me)

    def crash(self) -> None:
        """Die as from kill -9: release nothing, and let every further operation fail."""
        self._closed = "it crashed"
        self.memory.living.discard(self._me)
        self.memory.work.pop(self._me, None)

    async def submit(self, row: RunRow, first: Record, *more: Record, opened: Sequence[InquiryRow] = ()) -> None:
        records = [first, *more]
        check_rows(row.run_id, records, 1, opened)
        await self._begin("submit")
        if row.run_id in self.memory.runs:
            raise InvalidInput(f"a run {row.run_id!r} already exists; choose another id")
        self.memory.runs[row.run_id] = msgspec.structs.replace(
            row, root=row.root or row.run_id, epoch=0, seq=len(records), owner="", due_at=first_due_at(row), tries=0, problem=""
        )
        self.memory.records[row.run_id] = records
        self.memory.inquiries.update({inquiry.inquiry_id: inquiry for inquiry in opened})
        self.memory.wake()
        self.memory.notices.note(self.memory.runs[row.run_id], opened, failed=False)

    async def acquire(self, run_id: str, *, newest: int) -> int:
        await self._begin("claim")
        row = self._row(run_id)
        if row.version > newest:
            raise RunNewer(run_id, row.version, newest)
        if row.owner in self.memory.living:
            raise RunOwned(run_id, row.owner + (" (this one)" if row.owner == self._me else ""))
        return self._own(row).epoch

    def _own(self, row: RunRow) -> RunRow:
        owned = self.memory.runs[row.run_id] = msgspec.structs.replace(row, epoch=row.epoch + 1, owner=self._me, due_at=None)
        self.memory.acquired_at[row.run_id] = row.seq
        return owned

    async def acquire_due(self, limit: int, *, fleets: Sequence[str], now: float, idle_kinds: Collection[str]) -> list[RunRow]:
        await self._begin("claim")
        due: dict[str, list[RunRow]] = {}
        owned: collections.Counter[str] = collections.Counter()
        self._free_dead(now, idle_kinds)
        for row in self.memory.runs.values():
            if row.root != row.run_id:
                continue
            owned[row.tenant] += row.owner == self._me
            if row.owner not in self.memory.living and row.fleet in fleets and row.due_at is not None and row.due_at <= now:
                due.setdefault(row.tenant, []).append(row)
        for rows in due.values():
            rows.sort(key=lambda row: row.due_at or 0.0)
        return [self._own(row) for row in fair_share(due, owned, limit)]

    def _free_dead(self, now: float, idle_kinds: Collection[str]) -> None:
        runs = self.memory.runs
        dead = [row for row in runs.values() if row.root == row.run_id and row.owner and row.owner not in self.memory.living]
        for row in dead:
            progressed = has_progressed(row, runs, self.memory.records, self.memory.acquired_at, idle_kinds)
            runs[row.run_id] = free = freed(row, now, progressed=progressed, has_unread=self._has_unfolded(row.run_id))
            self.memory.notices.note_stuck(free, CRASHED if free.tries > row.tries else "")

    async def count_stuck(self) -> int:
        await self._begin()
        return sum(row.due_at is not None and row.problem != "" and row.status != "ended" for row in self.memory.runs.values())

    async def wait_for_work(self, timeout_s: float) -> None:
        await self._begin()
        event = self.memory.work.setdefault(self._me, asyncio.Event())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await event.wait()
        event.clear()

    async def release(self, run_id: str, epoch: int, *, force: bool = False, due_at: float | None = None, problem: str = "") -> bool:
        await self._begin("release")
        row = self.memory.runs.get(run_id)
        if row is None or row.epoch != epoch:
            return True
        if not force and self._has_unfolded(run_id):
            return False
        if force:
            due_at = due_at or 0.0
        tries, reason = (row.tries + bool(problem), problem or row.problem) if force else (0, "")
        self.memory.runs[run_id] = msgspec.structs.replace(
            row, owner="", due_at=due_at if row.root == run_id else None, tries=tries, problem=reason
        )
        self.memory.notices.note_stuck(self.memory.runs[run_id], problem)
        if due_at is not None:
            self.memory.wake()
        return True

    async def append(self, commit: Commit) -> None:
        check_rows(commit.run_id, commit.records, commit.expected_seq + 1, commit.opened)
        await self._begin("append")
        memory, run = self.memory, commit.run_id
        row = memory.runs.get(run)
        if row is None or (row.epoch, row.seq) != (commit.epoch, commit.expected_seq):
            raise StaleOwner(run, commit.epoch)
        opened = {inquiry.inquiry_id: inquiry for inquiry in commit.opened}
        if len(opened) < len(commit.opened) or opened.keys() & memory.inquiries.keys():
            raise ValueError(f"run {run}: a commit opens an inquiry whose id is used already")
        memory.inquiries.update(opened)
        for key, answer in commit.closed:
            inquiry = memory.inquiries.get(key)
            if inquiry is not None and inquiry.run_id == run and not inquiry.answer:
                memory.inquiries[key] = msgspec.structs.replace(inquiry, answer=answer)
        for key, verdict in commit.folded:
            sent = memory.inbox.get((run, key))
            if sent is not None and not sent.verdict:
                memory.inbox[run, key] = msgspec.structs.replace(sent, verdict=verdict)
        memory.records[run].extend(commit.records)
        if commit.snapshot:
            memory.snapshots[run] = commit.snapshot
        if ends := commit.status == "ended" and row.status != "ended":
            memory.snapshots.pop(run, None)
        memory.runs[run] = msgspec.structs.replace(
            row,
            seq=row.seq + len(commit.records),
            state=commit.state,
            status=commit.status,
            outcome=commit.outcome,
            updated_at=commit.updated_at,
            version=max(row.version, commit.version),
        )
        memory.notices.note(memory.runs[run], commit.opened, failed=ends and commit.outcome == "failed")

    async def run(self, run_id: str, *, tenant: str | None = None) -> RunRow:
        await self._begin()
        return self._shown(self._row(run_id, tenant))

    async def runs(
        self,
        *,
        limit: int = 100,
        status: RunStatus | None = None,
        root: str | None = None,
        roots_only: bool = False,
        open_only: bool = False,
        begins: str = "",
    ) -> list[RunRow]:
        await self._begin()
        found = [
            row
            for row in reversed(self.memory.runs.values())
            if status in (None, row.status) and root in (None, row.root) and not (roots_only and row.root != row.run_id)
            if not (open_only and row.status == "ended") and begins_with(row.run_id, begins)
        ]
        found.sort(key=lambda row: row.created_at, reverse=True)
        return [self._shown(row) for row in found[:limit]]

    async def records(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
        await self._begin()
        # Seqs have no gaps, so a record's place is its seq.
        later = self.memory.records.get(run_id, [])[max(after, 0) :]
        return later[:limit]

    async def find_runs(self, query: RunQuery, *, after: str = "", limit: int = 100) -> list[RunRow]:
        await self._begin()
        place = read_run_cursor(after)
        found = [row for row in self.memory.runs.values() if (row.created_at, row.run_id) < place and matches(row, query)]
        found.sort(key=lambda row: (row.created_at, row.run_id), reverse=True)
        return [self._shown(row) for row in found[:limit]]

    async def summarize_work(self, *, now: float, limit: int = 3) -> WorkSummary:
        await self._begin()
        return work_of(self.memory.runs.values(), self.memory.notices, self.memory.living, now, limit)

    async def records_after(self, cursors: Mapping[str, int], limit: int, *, tenant: str | None = None) -> list[Record]:
        await self._begin()
        rows = [self.memory.runs[run] for run in sorted(cursors) if run in self.memory.runs]
        grown = [row.run_id for row in rows if row.seq > cursors[row.run_id] and tenant in (None, row.tenant)][:limit]
        return [record for run in grown for record in self.memory.records[run][max(cursors[run], 0) :][: max(1, limit // len(grown))]]

    async def snapshot(self, run_id: str) -> Snapshot | None:
        await self._begin()
        return self.memory.snapshots.get(run_id)

    async def send(self, row: InboxRow, *, tenant: str | None = None) -> InboxRow:
        await self._begin("send")
        root = self._row(self._row(row.run_id, tenant).root)
        if (row.run_id, row.key) not in self.memory.inbox and (not root.owner or root.status == "ended"):
            due_at = row.at if root.due_at is None else min(root.due_at, row.at)
            self.memory.runs[root.run_id] = msgspec.structs.replace(root, due_at=due_at)
        self.memory.wake()
        return self.memory.inbox.setdefault((row.run_id, row.key), msgspec.structs.replace(row, verdict=""))

    async def mark_networked(self, run_id: str) -> None:
        await self._begin("send")
        root = self._row(self._row(run_id).root)
        self.memory.runs[root.run_id] = msgspec.structs.replace(root, via="network")

    async def inbox(self, runs: Sequence[str]) -> list[InboxRow]:
        await self._begin()
        wanted = set(runs)
        return [row for row in self.memory.inbox.values() if row.run_id in wanted and not row.verdict]

    async def verdict(self, run_id: str, key: str) -> str:
        await self._begin()
        row = self.memory.inbox.get((run_id, key))
        return row.verdict if row else ""

    async def inquiries(
        self, *, run_id: str | None = None, root: str | None = None, tenant: str | None = None, open_only: bool = True
    ) -> list[InquiryRow]:
        await self._begin()
        below = None if root is None else self.memory.tree(root)
        return [
            inquiry
            for inquiry in self.memory.inquiries.values()
            if run_id in (None, inquiry.run_id)
            and (below is None or inquiry.run_id in below)
            and (tenant is None or self.memory.runs[inquiry.run_id].tenant == tenant)
            and not (open_only and inquiry.answer)
        ]

    async def find_inquiries(
        self, *, root: str | None = None, tenant: str | None = None, after: str = "", limit: int = 100
    ) -> list[InquiryRow]:
        place = read_inquiry_cursor(after)
        rows = await self.inquiries(root=root, tenant=tenant)
        return sorted((row for row in rows if place_of(row) > place), key=place_of)[:limit]

    async def prune(
        self, *, before: float | None = None, outcomes: Sequence[str] = (), keep_bytes: int | None = None, limit: int | None = None
    ) -> int:
        await self._begin("prune")
        memory = self.memory
        oldest = (
            row.run_id
            for row in sorted(memory.runs.values(), key=lambda row: row.updated_at)
            if row.root == row.run_id and row.status == "ended" and row.owner not in memory.living
            if (before is None or row.updated_at < before) and (not outcomes or row.outcome in outcomes)
        )
        if keep_bytes is not None and memory.size() > keep_bytes:
            open_roots = {row.run_id for row in memory.runs.values() if row.status != "ended" or row.owner in memory.living}
            check_open_bytes(memory.size({run for run in memory.runs if memory.runs[run].root in open_roots}), keep_bytes)
        pruned = 0
        for root in itertools.islice(oldest, limit):
            if keep_bytes is not None and memory.size() <= keep_bytes:
                break
            memory.remove(root)
            pruned += 1
        return pruned

    async def add_logs(self, chunks: Sequence[LogChunk]) -> None:
        await self._begin("log")
        for chunk in chunks:
            if chunk.run_id in self.memory.runs:
                there = self.memory.logs.setdefault(chunk.run_id, [])
                self.memory.log_seq += 1
                position = end_of(there, chunk) + chunk.skipped
                there.append(msgspec.structs.replace(chunk, seq=self.memory.log_seq, position=position, skipped=0))
        for run in {chunk.run_id for chunk in chunks} & self.memory.logs.keys():
            self.memory.logs[run] = thinned(self.memory.logs[run])

    async def logs(self, runs: Sequence[str], query: LogQuery = ALL_OUTPUT, *, after: int = 0, limit: int = 256) -> list[LogChunk]:
        await self._begin()
        return selected([chunk for run in dict.fromkeys(runs) for chunk in self.memory.logs.get(run, ())], query, after, limit)

    async def announce_server(self, fleet: str, url: str = "", *, fleet_file: str = "") -> None:
        await self._begin()
        self.memory.servers[self._me] = ProcessRow(description=self._me, serves=True, fleet=fleet, fleet_file=fleet_file, url=url)

    async def list_processes(self) -> list[ProcessRow]:
        await self._begin()
        active = {row.owner for row in self.memory.runs.values()} | self.memory.servers.keys()
        return [self.memory.servers.get(name, ProcessRow(description=name)) for name in sorted(active & self.memory.living)]

    async def close(self) -> None:
        self._closed = self._closed or "this program has closed it"
        self.memory.living.discard(self._me)
        self.memory.work.pop(self._me, None)

    async def _begin(self, write: str = "") -> None:
        await asyncio.sleep(0)
        if self._closed:
            raise StoreUnavailable(f"store of {self._me}: {self._closed}")
        if write and self._fail and (fault := self._fail(write)):
            raise fault

    def _row(self, run_id: str, tenant: str | None = None) -> RunRow:
        row = self.memory.runs.get(run_id)
        if row is None or tenant not in (None, row.tenant):
            raise RunNotFound(run_id)
        return row

    def _has_unfolded(self, run_id: str) -> bool:
        """Return True if a row of the run, or of an unfinished run below it, has no verdict."""
        addressed = (self.memory.runs[row.run_id] for row in self.memory.inbox.values() if not row.verdict)
        return any(row.run_id == run_id or (row.root == run_id and row.status != "ended") for row in addressed)

    def _shown(self, row: RunRow) -> RunRow:
        return row if row.owner in self.memory.living else msgspec.structs.replace(row, owner="")
