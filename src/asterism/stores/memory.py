"""The store in memory: the same guarantees within one process, for simulations and tests.

Several handles on one ``Memory`` stand for several processes on one database. Everything happens
inline and in order. Each operation first yields to the event loop once, so that a simulated
scheduler can interleave handles; an operation that was cancelled then has done nothing.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence

import msgspec

from asterism.errors import InvalidInput, RunNewer, RunNotFound, RunOwned, StaleOwner, StoreUnavailable
from asterism.kernel.journal import Record
from asterism.kernel.snapshot import Snapshot
from asterism.runtime.ports.files import FileRow
from asterism.runtime.ports.logs import LogChunk
from asterism.runtime.ports.store import Commit, InboxRow, InquiryRow, RunRow, RunStatus, check_rows
from asterism.stores.log_bounds import end_of, thinned
from asterism.stores.sqlite_files import check_size

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
        self.living: set[str] = set()
        self.handles = 0


@functools.cache
def process_memory() -> Memory:
    """Return the memory that all stores of this process share by default."""
    return Memory()


class MemoryStore:
    """A ``Store`` in memory: one handle, which stands for one process.

    Args:
        memory: shared with other handles; a new one if None.
        name: name of this handle as an owner; a number if empty.
        fail: called before each write of this handle.
    """

    def __init__(self, memory: Memory | None = None, *, name: str = "", fail: Fault | None = None) -> None:
        self.memory = memory or Memory()
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

    async def submit(self, row: RunRow, first: Record, *more: Record, opened: Sequence[InquiryRow] = ()) -> None:
        records = [first, *more]
        check_rows(row.run_id, records, 1, opened)
        await self._begin("submit")
        if row.run_id in self.memory.runs:
            raise InvalidInput(f"a run {row.run_id!r} already exists; choose another id")
        self.memory.runs[row.run_id] = msgspec.structs.replace(row, root=row.root or row.run_id, epoch=0, seq=len(records), owner="")
        self.memory.records[row.run_id] = records
        self.memory.inquiries.update({inquiry.inquiry_id: inquiry for inquiry in opened})

    async def acquire(self, run_id: str, *, newest: int) -> int:
        await self._begin("claim")
        row = self._row(run_id)
        if row.version > newest:
            raise RunNewer(run_id, row.version, newest)
        if row.owner in self.memory.living:
            raise RunOwned(run_id, row.owner + (" (this one)" if row.owner == self._me else ""))
        self.memory.runs[run_id] = msgspec.structs.replace(row, epoch=row.epoch + 1, owner=self._me)
        return row.epoch + 1

    async def release(self, run_id: str, epoch: int, *, force: bool = False) -> bool:
        await self._begin("release")
        row = self.memory.runs.get(run_id)
        if row is None or row.epoch != epoch:
            return True
        if not force and self._has_unfolded(run_id):
            return False
        self.memory.runs[run_id] = msgspec.structs.replace(row, owner="")
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
        if commit.status == "ended":
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

    async def run(self, run_id: str) -> RunRow:
        await self._begin()
        return self._shown(self._row(run_id))

    async def runs(
        self, *, limit: int = 100, status: RunStatus | None = None, root: str | None = None, roots_only: bool = False
    ) -> list[RunRow]:
        await self._begin()
        found = [
            row
            for row in reversed(self.memory.runs.values())
            if status in (None, row.status) and root in (None, row.root) and not (roots_only and row.root != row.run_id)
        ]
        found.sort(key=lambda row: row.created_at, reverse=True)
        return [self._shown(row) for row in found[:limit]]

    async def records(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
        await self._begin()
        # Seqs have no gaps, so a record's place is its seq.
        later = self.memory.records.get(run_id, [])[max(after, 0) :]
        return later[:limit]

    async def snapshot(self, run_id: str) -> Snapshot | None:
        await self._begin()
        return self.memory.snapshots.get(run_id)

    async def send(self, row: InboxRow) -> InboxRow:
        await self._begin("send")
        self._row(row.run_id)
        return self.memory.inbox.setdefault((row.run_id, row.key), msgspec.structs.replace(row, verdict=""))

    async def inbox(self, runs: Sequence[str]) -> list[InboxRow]:
        await self._begin()
        wanted = set(runs)
        return [row for row in self.memory.inbox.values() if row.run_id in wanted and not row.verdict]

    async def verdict(self, run_id: str, key: str) -> str:
        await self._begin()
        row = self.memory.inbox.get((run_id, key))
        return row.verdict if row else ""

    async def inquiries(self, *, run_id: str | None = None, root: str | None = None, open_only: bool = True) -> list[InquiryRow]:
        await self._begin()
        below = None if root is None else self._tree(root)
        return [
            inquiry
            for inquiry in self.memory.inquiries.values()
            if run_id in (None, inquiry.run_id) and (below is None or inquiry.run_id in below) and not (open_only and inquiry.answer)
        ]

    async def prune(self, *, before: float | None = None, outcomes: Sequence[str] = (), keep_bytes: int | None = None) -> int:
        await self._begin("prune")
        memory, forgotten = self.memory, 0
        for row in sorted(memory.runs.values(), key=lambda row: row.updated_at):
            if keep_bytes is not None and sum(len(record.body) for records in memory.records.values() for record in records) <= keep_bytes:
                break
            old = before is None or row.updated_at < before
            if (
                row.root == row.run_id
                and row.status == "ended"
                and row.owner not in memory.living
                and old
                and (not outcomes or row.outcome in outcomes)
            ):
                tree = self._tree(row.run_id)
                for run in tree:
                    del memory.runs[run], memory.records[run]
                    memory.snapshots.pop(run, None)
                    memory.logs.pop(run, None)
                memory.inquiries = {key: inquiry for key, inquiry in memory.inquiries.items() if inquiry.run_id not in tree}
                memory.files = {key: it for key, it in memory.files.items() if it.root not in tree}
                memory.inbox = {key: row for key, row in memory.inbox.items() if row.run_id not in tree}
                forgotten += 1
        return forgotten

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

    async def logs(self, runs: Sequence[str], *, after: int = 0, limit: int = 256) -> list[LogChunk]:
        await self._begin()
        found = [chunk for run in dict.fromkeys(runs) for chunk in self.memory.logs.get(run, ()) if chunk.seq > after]
        return sorted(found, key=lambda chunk: chunk.seq)[:limit]

    async def add_file(self, row: FileRow) -> None:
        await self._begin("file")
        check_size(row, sum({it.digest: it.size for it in self._files(row.root) if it.digest != row.digest}.values()))
        self.memory.files[row.root, row.digest, row.name] = row

    async def files(self, root: str | None = None) -> list[FileRow]:
        await self._begin()
        return sorted(self._files(root), key=lambda row: (row.at, row.name))

    async def copy_files(self, origin: str, root: str) -> None:
        await self._begin("file")
        for row in self._files(origin):
            self.memory.files[root, row.digest, row.name] = msgspec.structs.replace(row, root=root)

    async def remove_files(self, roots: Sequence[str], *, before: float) -> None:
        await self._begin("file")
        runs = self.memory.runs
        rows = {key: it for key, it in self.memory.files.items() if it.root in runs or it.at >= before}
        self.memory.files = {key: it for key, it in rows.items() if it.root not in roots}

    async def close(self) -> None:
        self._closed = self._closed or "this program has closed it"
        self.memory.living.discard(self._me)

    async def _begin(self, write: str = "") -> None:
        await asyncio.sleep(0)
        if self._closed:
            raise StoreUnavailable(f"store of {self._me}: {self._closed}")
        if write and self._fail and (fault := self._fail(write)):
            raise fault

    def _row(self, run_id: str) -> RunRow:
        try:
            return self.memory.runs[run_id]
        except KeyError:
            raise RunNotFound(run_id) from None

    def _files(self, root: str | None) -> list[FileRow]:
        return [row for row in self.memory.files.values() if root in (None, row.root)]

    def _has_unfolded(self, run_id: str) -> bool:
        """Return True if a row of the run, or of an unfinished run below it, has no verdict."""
        addressed = (self.memory.runs[row.run_id] for row in self.memory.inbox.values() if not row.verdict)
        return any(row.run_id == run_id or (row.root == run_id and row.status != "ended") for row in addressed)

    def _tree(self, root: str) -> set[str]:
        return {row.run_id for row in self.memory.runs.values() if row.root == root}

    def _shown(self, row: RunRow) -> RunRow:
        return row if row.owner in self.memory.living else msgspec.structs.replace(row, owner="")
