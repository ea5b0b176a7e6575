"""Port of stores, which hold journals and the rows of runs, inquiries and inboxes."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from asterism.engine.control.run_control import Verb
from asterism.engine.kernel.guards import digest_of
from asterism.engine.kernel.journal import Record
from asterism.engine.kernel.permissions import LOWEST, Permissions
from asterism.engine.kernel.phrase import Text
from asterism.engine.kernel.snapshot import Snapshot
from asterism.engine.ports.events import EventRows
from asterism.engine.ports.files import FileRows
from asterism.engine.ports.logs import LogRows, LogStore
from asterism.engine.ports.notices import NoticeRows
from asterism.engine.ports.schedules import ScheduleReader, ScheduleRows
from asterism.engine.ports.tokens import TokenRows
from asterism.errors import InvalidInput

WorkKind = Literal["driven", "due", "stuck", "waiting", "paused", "later", "idle"]
"""``driven`` by a process; ``due`` now; ``stuck``, tried again after a delay; ``waiting`` for a person; ``paused``; due ``later``;
``idle``: due only when something is sent to it."""
RunStatus = Literal["active", "paused", "waiting", "ended"]
"""``waiting``: nothing is under way: questions or waits are open, or a child waits or is paused."""


class WorkSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The unfinished root runs of a database, and its messages to people.

    Attributes:
        counts: number of runs of each kind that has any.
        driven_by: number of driven runs of each process, in the words of ``list_processes``.
        oldest: ids of the runs of each kind whose last entries are the oldest.
        unrouted: notices for which no server has chosen channels.
        unsent: messages that wait to be sent, or sent again.
        failed: messages that no server tries to send any more.
        error: why one of the unsent messages could not be sent, after its channel.
    """

    counts: dict[WorkKind, int] = {}
    driven_by: dict[str, int] = {}
    oldest: dict[WorkKind, list[str]] = {}
    unrouted: int = 0
    unsent: int = 0
    failed: int = 0
    error: str = ""


class WorkRows(Protocol):
    """Summarizes the work; a part of every store. Errors as of ``Store``."""

    async def summarize_work(self, *, now: float, limit: int = 3) -> WorkSummary:
        """Return the work of all tenants at an epoch second, with ``limit`` ids of each kind at most."""
        ...


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """The row of a run.

    Attributes:
        parent: the run that started it; empty for a root.
        root: the run at the top of its tree; its own id for a root.
        version: the newest version that has written to it (``engine.kernel.journal.version_of``).
        fleet: name of the fleet whose devices it uses; empty if any program can drive it.
        due_at: when a driver should look at it again, in seconds since the epoch; None for never,
            while it is owned, and for a child. 0 is at once.
        tries: drives in a row that ended with a problem, or with the process of their owner.
        problem: the problem of the last drive; empty if it ended well.
        via: of a root, ``network`` if a part of what its tree works on came over the network. Then no
            text becomes a path of this computer.
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
    fleet: str = ""
    due_at: float | None = None
    tries: int = 0
    problem: str = ""
    via: Literal["", "network"] = ""


class RunQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that a search returns; each field that is set excludes others.

    Attributes:
        text: part of the title, or the beginning of the id or of its part after the first ``-``, in upper or lower case.
        outcome: how they have ended; excludes those that have not.
        machine: name of their machine.
        tenant: their tenant; None for every tenant.
        actor: who has started them.
        created_from, created_before: bounds of their creation, in seconds since the epoch.
        roots_only: exclude children.
        open_only: exclude runs that have ended.
    """

    text: str = ""
    status: RunStatus | None = None
    outcome: str = ""
    machine: str = ""
    tenant: str | None = None
    actor: str = ""
    created_from: float | None = None
    created_before: float | None = None
    roots_only: bool = True
    open_only: bool = False


class ProcessRow(msgspec.Struct, frozen=True, kw_only=True):
    """A live process that drives runs of a database, or can.

    Attributes:
        description: the process in words.
        serves: True for a server, which takes every due run.
        fleet: name of the fleet that it serves.
        fleet_file: path of the file of that fleet; empty if it has none.
        url: where its API listens; empty if it has none.
        since: when it began to serve, in seconds since the epoch; 0 if it does not serve.
        version: version of Asterism that serves.
    """

    description: str
    serves: bool = False
    fleet: str = ""
    fleet_file: str = ""
    url: str = ""
    since: float = 0.0
    version: str = ""


class InquiryRow(msgspec.Struct, frozen=True, kw_only=True):
    """The row of a durable question.

    Attributes:
        inquiry_id: id of the effect that asked it, and the inbox key of the first answer to it; later
            answers have the keys ``ID#2``, ``ID#3`` and so on.
        question: the prompt as in ``AskPerson``; the views have the words of a phrase.
        subject: JSON text of exactly what needs the answer.
        schema: JSON Schema, as text, of a ``respond`` or ``edit`` value; its ``false`` properties
            are refused. Empty for any value.
        risk: ``low``, ``medium`` or ``high``.
        expires_at: seconds since the epoch; 0 for never.
        answer: the answer that closed it; empty while it is open.
        event: name of the event that a task waits for, in place of a person; empty for a question.
    """

    inquiry_id: str = msgspec.field(name="inquiry")
    run_id: str = msgspec.field(name="run")
    question: Text
    verbs: tuple[Verb, ...]
    subject: str = ""
    schema: str = ""
    risk: str = "low"
    asked_at: float = 0.0
    expires_at: float = 0.0
    answer: str = ""
    event: str = ""

    @property
    def prompt(self) -> str:
        """Return the question in words."""
        return str(self.question)

    @property
    def digest(self) -> str:
        """Return the digest of the subject, by which an approval names it."""
        return digest_of(msgspec.json.decode(self.subject or b"{}"))


ACCEPTED = "accepted"
"""The verdict on an inbox row that was accepted."""


class InboxRow(msgspec.Struct, frozen=True, kw_only=True):
    """A command for a run from outside: cancel, pause, answer, message, live edit.

    Attributes:
        key: unique in its run; the same key later returns the same verdict.
        kind: kind of the event in it (``engine.kernel.machine.kind_of``).
        body: JSON text of that event.
        verdict: empty until the run has processed the row; then ``accepted``, or the reason of the
            refusal.
        permissions: those of the sender, written by the door that takes the command in; the lowest
            in a row of a program of an earlier version.
    """

    run_id: str = msgspec.field(name="run")
    key: str
    actor: str
    kind: str
    body: str
    at: float
    verdict: str = ""
    permissions: Permissions = LOWEST


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


class RunReader(LogRows, ScheduleReader, Protocol):
    """Reads runs and schedules, those of a store or of a server. Errors as of ``Store``."""

    async def run(self, run_id: str, *, tenant: str | None = None) -> RunRow:
        """Return the row of a run; RunNotFound if there is none, or none of this tenant."""
        ...

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
        """Return runs, newest first.

        Args:
            limit: the most of them.
            status: their status; None for every one.
            root: the root of their tree; None for every tree.
            roots_only: exclude children.
            open_only: exclude runs that have ended.
            begins: the beginning of their id, or of its part after the first ``-``.
        """
        ...

    async def records(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
        """Return the records with seq > after, in order."""
        ...

    async def inbox(self, runs: Sequence[str]) -> list[InboxRow]:
        """Return the rows of these runs without a verdict, oldest first."""
        ...

    async def inquiries(
        self,
        *,
        run_id: str | None = None,
        root: str | None = None,
        tenant: str | None = None,
        open_only: bool = True,
        events: bool = False,
    ) -> list[InquiryRow]:
        """Return the inquiries of one run, of a root's whole tree, of a tenant, or of all runs; oldest first.

        With ``events`` the waits for events, else the questions to people.
        """
        ...


class Store(RunReader, LogStore, FileRows, TokenRows, ScheduleRows, NoticeRows, EventRows, WorkRows, Protocol):
    """Holds journals, logs, schedules, notices, and the rows of files and tokens. Every operation is durable when it returns.

    Errors: ``RunNotFound``, ``RunOwned``, ``RunNewer``, ``StaleOwner`` as named;
    ``StoreUnavailable`` if the database cannot be written or read (an append may be retried with
    the same commit).
    """

    async def submit(self, row: RunRow, first: Record, *more: Record, opened: Sequence[InquiryRow] = ()) -> None:
        """Create a run with its first records and open inquiries, epoch 0 and no owner.

        The records go from seq 1 without gaps. A root that has not ended is due at its ``due_at``,
        and never without one. Raises InvalidInput if the run exists.
        """
        ...

    async def acquire(self, run_id: str, *, newest: int) -> int:
        """Make the process of this store the owner of a run; return the new epoch.

        The run is not due any more. ``newest`` is the newest version of it that this program supports.

        Raises:
            RunNotFound: no such run.
            RunNewer: a newer program has written to the run; nothing has changed.
            RunOwned: a live process, this one included, owns the run.
        """
        ...

    async def acquire_due(self, limit: int, *, fleets: Sequence[str], now: float, idle_kinds: Collection[str]) -> list[RunRow]:
        """Make the process of this store the owner of root runs that are due; return their rows.

        A root whose owner is dead is due, too, if it has not ended, or if something was sent to it
        that has no verdict. Its work may have ended that process: a run is due after a growing
        delay, with a problem, from the ``STUCK_TRIES``-th drive in a row on whose owner has died
        and recorded only entries of ``idle_kinds``. Free places go to the tenants that have
        the fewest runs here, and of one tenant to the run that has been due for longest.

        Args:
            limit: the most runs to acquire.
            fleets: only runs of these fleets; ``""`` for runs of none.
            now: seconds since the epoch.
            idle_kinds: kinds of events that are no progress of a run (``form.idle_kinds``).

        Returns:
            The rows as they are now, with the new epochs. The driver of a run must check its version.
        """
        ...

    async def wait_for_work(self, timeout_s: float) -> None:
        """Return when a run may have become due, and after ``timeout_s`` at the latest.

        A run that is due at a later time wakes nobody then. One task of a process may wait.
        """
        ...

    async def release(self, run_id: str, epoch: int, *, force: bool = False, due_at: float | None = None, problem: str = "") -> bool:
        """Release a run; return True if it was released.

        A run is not released while its inbox, or that of an unfinished run below it, has rows
        without a verdict. The runs below it are those whose root it is. With ``force`` the run is
        always released. With a stale epoch, nothing changes and the result is True.

        Args:
            run_id: id of the run.
            epoch: epoch of the ownership that ends.
            force: release it in any case.
            due_at: when the run is due again; by default never, or at once with ``force``. A child
                is never due.
            problem: why the drive ended, if it ended with a problem; counted in the run's row. Without
                one, a release that is not forced resets the count.
        """
        ...

    async def append(self, commit: Commit) -> None:
        """Write a commit.

        Raises:
            StaleOwner: the epoch or the seq does not match; nothing of this commit was written. A
                store may write commits of other runs in the same transaction, and those stand.
        """
        ...

    async def find_runs(self, query: RunQuery, *, after: str = "", limit: int = 100) -> list[RunRow]:
        """Return the runs that match a query, newest first, one page of them.

        Args:
            query: what they must match.
            after: where the page begins: ``run_cursor`` of the last row of the page before.
            limit: the most rows of a page; a shorter page is the last one.

        Raises:
            InvalidInput: ``after`` is no cursor.
        """
        ...

    async def records_after(self, cursors: Mapping[str, int], limit: int, *, tenant: str | None = None) -> list[Record]:
        """Return records of several runs, each with a seq greater than the run's cursor.

        The records of one run are in order and without gaps. The runs that have new records share
        the limit, but each returns at least one record.

        Args:
            cursors: the last seq that the caller has, by run id. Unknown runs have no records.
            limit: the most records, if no more runs than this have new ones.
            tenant: only runs of this tenant.
        """
        ...

    async def snapshot(self, run_id: str) -> Snapshot | None:
        """Return the last snapshot of a run; None if it has none."""
        ...

    async def send(self, row: InboxRow, *, tenant: str | None = None) -> InboxRow:
        """Put a row into the inbox if its (run, key) is new; then its root is due, if nobody owns it.

        Returns:
            The row that is stored: an earlier one, with its verdict, if the key was used before.

        Raises:
            RunNotFound: there is no such run, or none of this tenant.
        """
        ...

    async def mark_networked(self, run_id: str) -> None:
        """Set ``via`` of the root of a run to ``network``, for good."""
        ...

    async def verdict(self, run_id: str, key: str) -> str:
        """Return the verdict on an inbox row; empty while there is none."""
        ...

    async def find_inquiries(
        self, *, root: str | None = None, tenant: str | None = None, after: str = "", limit: int = 100
    ) -> list[InquiryRow]:
        """Return the open inquiries of a root's whole tree, of a tenant, or of all runs, oldest first, one page of them.

        Args:
            root: only those of the tree of this run.
            tenant: only those of the runs of this tenant.
            after: where the page begins: ``inquiry_cursor`` of the last row of the page before.
            limit: the most rows of a page; a shorter page is the last one.

        Raises:
            InvalidInput: ``after`` is no cursor.
        """
        ...

    async def prune(
        self, *, before: float | None = None, outcomes: Sequence[str] = (), keep_bytes: int | None = None, limit: int | None = None
    ) -> int:
        """Delete ended runs with their children and rows, oldest first, and reclaim the space.

        Args:
            before: only runs that ended before this time, in seconds since the epoch.
            outcomes: only runs with one of these outcomes; all if empty.
            keep_bytes: stop when the database, with its log, is no larger than this.
            limit: the most trees to delete; None for all.

        Returns:
            The number of trees that were deleted. A run that is owned or has not ended is never
            deleted; a child is deleted with its root.

        Raises:
            Refused: the runs that may not be deleted are larger than ``keep_bytes``; nothing was deleted.
        """
        ...

    async def announce_server(self, fleet: str, url: str = "", *, fleet_file: str = "") -> None:
        """Say in ``list_processes`` that this process serves a fleet until this store is closed."""
        ...

    async def list_processes(self) -> list[ProcessRow]:
        """Return the live processes that have acquired a run or serve a fleet."""
        ...

    async def close(self) -> None:
        """Write what is queued, then close the store and release all its locks."""
        ...


def begins_with(identity: str, named: str) -> bool:
    """Return True if an id, or its part after the first ``-``, begins with a text."""
    return identity.startswith(named) or identity.partition("-")[2].startswith(named)


def check_rows(run_id: str, records: Sequence[Record], first_seq: int, opened: Sequence[InquiryRow]) -> None:
    """Check that the records and inquiries are of this run, and seqs go from the first without gaps."""
    for seq, record in enumerate(records, first_seq):
        if record.seq != seq or record.run_id != run_id:
            raise ValueError(f"run {run_id}: there is record {record.run_id}#{record.seq} where {run_id}#{seq} belongs")
    for inquiry in opened:
        if inquiry.run_id != run_id:
            raise ValueError(f"run {run_id}: it opens question {inquiry.inquiry_id} of run {inquiry.run_id}")


def run_cursor(row: RunRow) -> str:
    """Return the place of a row in the result of ``Store.find_runs``."""
    return f"{row.created_at!r} {row.run_id}"


def read_run_cursor(cursor: str) -> tuple[float, str]:
    """Return the creation time and the id in a cursor; of an empty one, those before all rows.

    Raises:
        InvalidInput: it is no cursor.
    """
    return _read(cursor, "runs") if cursor else (math.inf, "")


def inquiry_cursor(row: InquiryRow) -> str:
    """Return the place of a row in the result of ``Store.find_inquiries``."""
    return f"{row.asked_at!r} {row.inquiry_id}"


def read_inquiry_cursor(cursor: str) -> tuple[float, str]:
    """Return the time and the id of the question in a cursor; of an empty one, those before all rows.

    Raises:
        InvalidInput: it is no cursor.
    """
    return _read(cursor, "questions") if cursor else (-math.inf, "")


def _read(cursor: str, rows: str) -> tuple[float, str]:
    at, _, row_id = cursor.partition(" ")
    try:
        return float(at), row_id
    except ValueError:
        raise InvalidInput(f"{cursor[:100]!r} is no place in a list of {rows}; use one that a list has returned") from None
