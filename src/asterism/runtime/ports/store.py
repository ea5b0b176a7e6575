"""A store: the journal's home, and the rows that it keeps of runs, questions and mail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from asterism.kernel.journal import Record
from asterism.kernel.snapshot import Snapshot
from asterism.machines.run_control import Verb

RunStatus = Literal["active", "paused", "waiting", "ended"]
"""``waiting``: nothing is outstanding but questions to people, here or in a child."""


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run as the store lists it.

    Attributes:
        parent: the run that started it; empty for none.
        root: the run at the top of its tree; itself for a run that nobody started.
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
    """A durable question, as the store lists it.

    Attributes:
        inquiry_id: its id, which is the id of the effect that asked it, and the inbox key of its answer.
        prompt: the question, in words.
        subject: JSON text of exactly what is to be done.
        schema: JSON text of the JSON Schema of a ``respond`` or ``edit`` value, whose ``false`` properties are refused; empty for any.
        verbs: the answers it takes.
        risk: ``low``, ``medium`` or ``high``.
        expires_at: seconds since the epoch; 0 for never.
        answer: how it was closed; empty while it is open.
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
"""The verdict on an inbox row that was taken."""


class InboxRow(msgspec.Struct, frozen=True, kw_only=True):
    """Something from outside for a run: cancel, pause, answer, message, live edit.

    Attributes:
        key: unique in its run; the same key later gets the same verdict.
        kind: kind of the event it becomes (``kernel.machine.kind_of``).
        body: JSON text of that event.
        verdict: empty until it was folded; then ``accepted``, or why it was refused.
    """

    run_id: str = msgspec.field(name="run")
    key: str
    actor: str
    kind: str
    body: str
    at: float
    verdict: str = ""


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """What one batch of events caused: written whole or not at all.

    Attributes:
        epoch, expected_seq: the guard; the run's row must still show both.
        records: new records, from ``expected_seq + 1`` on, without gaps.
        status, state, outcome, updated_at: the run's row after it.
        version: of the program that writes; the run's row has the newest.
        opened: inquiries to insert.
        closed: (inquiry id, answer in a word) to close.
        folded: (inbox key, verdict) to settle.
        snapshot: takes the place of the run's last one. A commit that ends the run forgets it.
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


class Store(Protocol):
    """The journal's home. Every operation is durable when it returns.

    Errors: ``RunNotFound``, ``RunOwned``, ``RunNewer``, ``StaleOwner`` as named; ``StoreUnavailable`` when the
    database cannot be written or read (an append may be tried again with the same commit).
    """

    async def submit(self, row: RunRow, first: Record, *more: Record, opened: Sequence[InquiryRow] = ()) -> None:
        """Create the run with its first records (from seq 1, no gaps), its open questions, epoch 0, no owner; InvalidInput if it exists."""
        ...

    async def claim(self, run_id: str, *, newest: int) -> int:
        """Make this store's process the owner; return the new epoch.

        Args:
            run_id: its id.
            newest: the newest version of the run that this program knows.

        Raises:
            RunNotFound: no such run.
            RunNewer: a newer program has written to it; nothing has changed.
            RunOwned: a live process (this one included) owns it.
        """
        ...

    async def release(self, run_id: str, epoch: int, *, force: bool = False) -> bool:
        """Let go of the run, unless its inbox, or that of a run below it that has not ended, holds something unfolded.

        Then it is kept, and False returned. Below it is every run whose root it is.

        ``force`` lets go all the same. A stale epoch changes nothing and returns True.
        """
        ...

    async def append(self, commit: Commit) -> None:
        """Write a commit.

        Raises:
            StaleOwner: epoch or seq do not match; nothing of this commit was written (others in the same group were).
        """
        ...

    async def run(self, run_id: str) -> RunRow:
        """One run; RunNotFound if there is none."""
        ...

    async def runs(
        self, *, limit: int = 100, status: RunStatus | None = None, root: str | None = None, roots_only: bool = False
    ) -> list[RunRow]:
        """Runs, newest first; with ``root`` those of its tree, itself included; with ``roots_only`` no children."""
        ...

    async def records(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
        """Records with seq > after, in order."""
        ...

    async def snapshot(self, run_id: str) -> Snapshot | None:
        """The last snapshot of a run; None if it has none."""
        ...

    async def send(self, row: InboxRow) -> InboxRow:
        """Put a row into the inbox if its (run, key) is new; RunNotFound if there is no such run, for nobody would ever take it.

        Returns:
            The row that is there now: the earlier one, with its verdict, if there was one.
        """
        ...

    async def inbox(self, runs: Sequence[str]) -> list[InboxRow]:
        """Unfolded rows of these runs, oldest first."""
        ...

    async def verdict(self, run_id: str, key: str) -> str:
        """The verdict on an inbox row; empty while there is none."""
        ...

    async def inquiries(self, *, run_id: str | None = None, root: str | None = None, open_only: bool = True) -> list[InquiryRow]:
        """Inquiries of one run, of a root's whole tree, or all; oldest first."""
        ...

    async def prune(self, *, before: float | None = None, outcomes: Sequence[str] = (), keep_bytes: int | None = None) -> int:
        """Forget ended runs with all that belongs to them, their children too, oldest first, and give their space back.

        Args:
            before: only runs that ended before this time, in seconds since the epoch.
            outcomes: only runs with one of these outcomes; all if empty.
            keep_bytes: stop as soon as no more than this is kept.

        Returns:
            How many were forgotten, each with its tree counted once. A run that is owned, or has not ended, is never
            forgotten; a child goes with its root.
        """
        ...

    async def close(self) -> None:
        """Write what is queued and let everything go, locks included."""
        ...
