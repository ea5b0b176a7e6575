"""Port of stores, which hold journals and the rows of runs, inquiries and inboxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from asterism.kernel.journal import Record
from asterism.kernel.snapshot import Snapshot
from asterism.machines.run_control import Verb
from asterism.runtime.ports.files import FileRows
from asterism.runtime.ports.logs import LogStore

RunStatus = Literal["active", "paused", "waiting", "ended"]
"""``waiting``: only people can advance the run: questions are open, or a child waits or is paused."""


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """The row of a run.

    Attributes:
        parent: the run that started it; empty for a root.
        root: the run at the top of its tree; its own id for a root.
        version: the newest version that has written to it (``kernel.journal.version_of``).
    """

    run_id: str = msgspec.field(name="run")
    machine: str
    title: str
    state: str
    status: RunStatus = "active"
    outcome: str = ""
    session: str = ""
    parent: str = ""
    tenant: str = ""
    actor: str = ""
    epoch: int = 0
    seq: int = 0
    owner: str = ""
    created_at: float = 0.0
    updated_at: float = 0.0
    root: str = ""
    version: int = 0


class InquiryRow(msgspec.Struct, frozen=True, kw_only=True):
    """The row of a durable question.

    Attributes:
        inquiry_id: id of the effect that asked it, and the inbox key of the first answer to it; later
            answers have the keys ``ID#2``, ``ID#3`` and so on.
        subject: JSON text of exactly what needs the answer.
        schema: JSON Schema, as text, of a ``respond`` or ``edit`` value; its ``false`` properties
            are refused. Empty for any value.
        risk: ``low``, ``medium`` or ``high``.
        expires_at: seconds since the epoch; 0 for never.
        answer: the answer that closed it; empty while it is open.
    """

    inquiry_id: str = msgspec.field(name="inquiry")
    run_id: str = msgspec.field(name="run")
    prompt: str
    verbs: tuple[Verb, ...]
    subject: str = ""
    schema: str = ""
    risk: str = "low"
    asked_at: float = 0.0
    expires_at: float = 0.0
    answer: str = ""


ACCEPTED = "accepted"
"""The verdict on an inbox row that was accepted."""


class InboxRow(msgspec.Struct, frozen=True, kw_only=True):
    """A command for a run from outside: cancel, pause, answer, message, live edit.

    Attributes:
        key: unique in its run; the same key later returns the same verdict.
        kind: kind of the event in it (``kernel.machine.kind_of``).
        body: JSON text of that event.
        verdict: empty until the run has processed the row; then ``accepted``, or the reason of the
            refusal.
    """

    run_id: str = msgspec.field(name="run")
    key: str
    actor: str
    kind: str
    body: str
    at: float
    verdict: str = ""


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """All that one batch of events changes: written whole or not at all.

    Attributes:
        epoch, expected_seq: guards; the run's row must still have both.
        records: new records, from ``expected_seq + 1`` on, without gaps.
        status, state, outcome, updated_at: new values of the run's row.
        version: version of the writing program; the run's row has the newest.
        closed: (inquiry id, answer) of inquiries to close.
        folded: (inbox key, verdict) of the inbox rows that the run has processed.
        snapshot: replaces the run's last snapshot. A commit that ends the run deletes it.
    """

    run_id: str
    epoch: int
    expected_seq: int
    records: Sequence[Record]
    state: str
    status: RunStatus
    outcome: str = ""
    updated_at: float = 0.0
    opened: Sequence[InquiryRow] = ()
    closed: Sequence[tuple[str, str]] = ()
    folded: Sequence[tuple[str, str]] = ()
    snapshot: Snapshot | None = None
    version: int = 0


class Store(LogStore, FileRows, Protocol):
    """Holds journals, logs and the rows of files. Every operation is durable when it returns.

    Errors: ``RunNotFound``, ``RunOwned``, ``RunNewer``, ``StaleOwner`` as named;
    ``StoreUnavailable`` if the database cannot be written or read (an append may be retried with
    the same commit).
    """

    async def submit(self, row: RunRow, first: Record, *more: Record, opened: Sequence[InquiryRow] = ()) -> None:
        """Create a run with its first records and open inquiries, epoch 0 and no owner.

        The records go from seq 1 without gaps. Raises InvalidInput if the run exists.
        """
        ...

    async def acquire(self, run_id: str, *, newest: int) -> int:
        """Make the process of this store the owner of a run; return the new epoch.

        ``newest`` is the newest version of the run that this program supports.

        Raises:
            RunNotFound: no such run.
            RunNewer: a newer program has written to the run; nothing has changed.
            RunOwned: a live process, this one included, owns the run.
        """
        ...

    async def release(self, run_id: str, epoch: int, *, force: bool = False) -> bool:
        """Release a run; return True if it was released.

        A run is not released while its inbox, or that of an unfinished run below it, has rows
        without a verdict. The runs below it are those whose root it is. With ``force`` the run is
        always released. With a stale epoch, nothing changes and the result is True.
        """
        ...

    async def append(self, commit: Commit) -> None:
        """Write a commit.

        Raises:
            StaleOwner: the epoch or the seq does not match; nothing of this commit was written. A
                store may write commits of other runs in the same transaction, and those stand.
        """
        ...

    async def run(self, run_id: str) -> RunRow:
        """Return the row of a run; RunNotFound if there is none."""
        ...

    async def runs(
        self, *, limit: int = 100, status: RunStatus | None = None, root: str | None = None, roots_only: bool = False
    ) -> list[RunRow]:
        """Return runs, newest first; with ``root`` its tree; with ``roots_only`` no children."""
        ...

    async def records(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
        """Return the records with seq > after, in order."""
        ...

    async def snapshot(self, run_id: str) -> Snapshot | None:
        """Return the last snapshot of a run; None if it has none."""
        ...

    async def send(self, row: InboxRow) -> InboxRow:
        """Put a row into the inbox if its (run, key) is new.

        Returns:
            The row that is stored: an earlier one, with its verdict, if the key was used before.

        Raises:
            RunNotFound: there is no such run.
        """
        ...

    async def inbox(self, runs: Sequence[str]) -> list[InboxRow]:
        """Return the rows of these runs without a verdict, oldest first."""
        ...

    async def verdict(self, run_id: str, key: str) -> str:
        """Return the verdict on an inbox row; empty while there is none."""
        ...

    async def inquiries(self, *, run_id: str | None = None, root: str | None = None, open_only: bool = True) -> list[InquiryRow]:
        """Return the inquiries of one run, of a root's whole tree, or of all runs; oldest first."""
        ...

    async def prune(self, *, before: float | None = None, outcomes: Sequence[str] = (), keep_bytes: int | None = None) -> int:
        """Delete ended runs with their children and rows, oldest first, and reclaim the space.

        Args:
            before: only runs that ended before this time, in seconds since the epoch.
            outcomes: only runs with one of these outcomes; all if empty.
            keep_bytes: stop when the database is no larger than this.

        Returns:
            The number of trees that were deleted. A run that is owned or has not ended is never
            deleted; a child is deleted with its root.
        """
        ...

    async def close(self) -> None:
        """Write what is queued, then close the store and release all its locks."""
        ...


def check_rows(run_id: str, records: Sequence[Record], first_seq: int, opened: Sequence[InquiryRow]) -> None:
    """Check that the records and inquiries are of this run, and seqs go from the first without gaps."""
    for seq, record in enumerate(records, first_seq):
        if record.seq != seq or record.run_id != run_id:
            raise ValueError(f"run {run_id}: there is record {record.run_id}#{record.seq} where {run_id}#{seq} belongs")
    for inquiry in opened:
        if inquiry.run_id != run_id:
            raise ValueError(f"run {run_id}: it opens question {inquiry.inquiry_id} of run {inquiry.run_id}")
