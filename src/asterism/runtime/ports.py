"""What the runtime needs of the world, and nothing of how it is done.

Each port has one contract suite in ``tests/contracts``, run on every adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import msgspec

from asterism.constellation.documents import PlanDocument
from asterism.constellation.profile import AgentProfile
from asterism.constellation.task import TaskError
from asterism.errors import AsterismError
from asterism.kernel.journal import Entry, Record
from asterism.kernel.machine import Event, Outcome
from asterism.kernel.snapshot import Snapshot
from asterism.machines.control import Verb
from asterism.machines.usage import Usage

RunStatus = Literal["active", "paused", "waiting", "ended"]
"""``waiting``: nothing is outstanding but questions to people, here or in a child."""


# -- devices ---------------------------------------------------------------------------------------
class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt at one task, as a device gets it.

    Attributes:
        key: idempotency key, the id of the effect; the same after a crash.
        run, task_id: whose it is.
        device_id: the device it is meant for.
        skill: the skill to perform; empty for a device that takes natural language.
        description: the task in words.
        arguments: JSON object, already resolved.
        results: JSON results of the direct predecessors, by task id.
        number: which attempt this is, from 1.
        priority: higher goes first on a busy device.
        timeout_s: bound on this attempt, from the moment the device takes it; None for none.
        deadline: seconds since the epoch after which it must not go on; None for none.
        folder: where the run was started, for what is relative in the arguments; empty for wherever the device is.
    """

    key: str
    run: str
    task_id: str
    device_id: str
    skill: str
    description: str = ""
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    results: dict[str, Any] = msgspec.field(default_factory=dict)
    number: int = 1
    priority: int = 0
    timeout_s: float | None = None
    deadline: float | None = None
    folder: str = ""


class AttemptProgress(msgspec.Struct, frozen=True, kw_only=True):
    """A sign of life of an attempt: how far it is, what it says. Either may be missing."""

    key: str
    fraction: float | None = None
    message: str = ""


class AttemptEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How an attempt ended: a JSON result, or an error."""

    result: Any = None
    error: TaskError | None = None


ProgressSink = Callable[[AttemptProgress], None]


class Device(Protocol):
    """Something that carries out attempts.

    ``perform`` never raises for what a skill does: that is an ``AttemptEnd`` with an error. When its
    coroutine is cancelled it kills the attempt (this one and nothing else) before it lets the
    cancellation through. Progress may be reported until it returns, and not after.
    """

    @property
    def profile(self) -> AgentProfile:
        """What the planner may know about it."""
        ...

    async def perform(self, attempt: Attempt, progress: ProgressSink) -> AttemptEnd:
        """Carry out one attempt; bounded by whoever calls."""
        ...


# -- stores ----------------------------------------------------------------------------------------
class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run as the store lists it.

    Attributes:
        parent: the run that started it; empty for none.
        root: the run at the top of its tree; itself for a run that nobody started.
    """

    run: str
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


class InquiryRow(msgspec.Struct, frozen=True, kw_only=True):
    """A durable question, as the store lists it.

    Attributes:
        inquiry: its id, which is the id of the effect that asked it, and the inbox key of its answer.
        prompt: the question, in words.
        subject: JSON text of exactly what is to be done.
        schema: JSON text of the JSON Schema of a ``respond`` or ``edit`` value, whose ``false`` properties are refused; empty for any.
        verbs: the answers it takes.
        risk: ``low``, ``medium`` or ``high``.
        expires_at: seconds since the epoch; 0 for never.
        answer: how it was closed; empty while it is open.
    """

    inquiry: str
    run: str
    prompt: str
    verbs: tuple[Verb, ...]
    subject: str = ""
    schema: str = ""
    risk: str = "low"
    asked_at: float = 0.0
    expires_at: float = 0.0
    answer: str = ""


class InboxRow(msgspec.Struct, frozen=True, kw_only=True):
    """Something from outside for a run: cancel, pause, answer, message, live edit.

    Attributes:
        key: unique in its run; the same key later gets the same verdict.
        kind: type name of the event it becomes.
        body: JSON text of that event.
        verdict: empty until it was folded; then ``accepted``, or why it was refused.
    """

    run: str
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
        opened: inquiries to insert.
        closed: (inquiry id, answer in a word) to close.
        folded: (inbox key, verdict) to settle.
        snapshot: takes the place of the run's last one. A commit that ends the run forgets it.
    """

    run: str
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


class Store(Protocol):
    """The journal's home. Every operation is durable when it returns.

    Errors: ``RunNotFound``, ``RunOwned``, ``StaleOwner`` as named; ``StoreUnavailable`` when the
    database cannot be written or read (an append may be tried again with the same commit).
    """

    async def submit(self, row: RunRow, first: Record, *more: Record, opened: Sequence[InquiryRow] = ()) -> None:
        """Create the run with its first records (from seq 1, no gaps), its open questions, epoch 0, no owner; InvalidInput if it exists."""
        ...

    async def claim(self, run: str) -> int:
        """Make this store's process the owner; return the new epoch.

        Raises:
            RunNotFound: no such run.
            RunOwned: a live process (this one included) owns it.
        """
        ...

    async def release(self, run: str, epoch: int, *, force: bool = False) -> bool:
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

    async def run(self, run: str) -> RunRow:
        """One run; RunNotFound if there is none."""
        ...

    async def runs(
        self, *, limit: int = 100, status: RunStatus | None = None, root: str | None = None, roots_only: bool = False
    ) -> list[RunRow]:
        """Runs, newest first; with ``root`` those of its tree, itself included; with ``roots_only`` no children."""
        ...

    async def records(self, run: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
        """Records with seq > after, in order."""
        ...

    async def snapshot(self, run: str) -> Snapshot | None:
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

    async def verdict(self, run: str, key: str) -> str:
        """The verdict on an inbox row; empty while there is none."""
        ...

    async def inquiries(self, *, run: str | None = None, root: str | None = None, open_only: bool = True) -> list[InquiryRow]:
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


# -- the shell's other sides -----------------------------------------------------------------------
Tell = Callable[[Event], None]
"""How a performer reports what is not an outcome: a sign of life, a lost device."""


class Performer(Protocol):
    """Performs one kind of effect."""

    async def perform(self, effect_id: str, effect: Any, memory: Any, tell: Tell) -> Outcome:
        """Do it and return its outcome; bounded. Cancelling the coroutine calls it off for good.

        Args:
            effect_id: its id, the idempotency key.
            effect: what is to be done.
            memory: the machine's memory, to read and not to write.
            tell: for what happens meanwhile.
        """
        ...


class Observer(Protocol):
    """Watches runs; nothing depends on what it does, and it must not block."""

    def appended(self, run: str, entries: Sequence[Entry]) -> None:
        """These entries are durable now."""
        ...

    def trouble(self, run: str, message: str) -> None:
        """Something is wrong that the driver is dealing with; said aloud."""
        ...


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """What a planner answers: a constellation, or edits; with its reasoning and the status it proposes. Fields as in ``Planned``."""

    thought: str = ""
    observation: str = ""
    status: Literal["START", "CONTINUE", "FINISH", "FAIL"] = "CONTINUE"
    plan: PlanDocument | None = None
    actions: tuple[dict[str, Any], ...] = ()
    result: dict[str, Any] = msgspec.field(default_factory=dict)
    usage: Usage = Usage()
    prompt: str = ""
    reply: str = ""
    notes: tuple[str, ...] = ()


class PlannerQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What a planner is asked.

    Attributes:
        key: id of the question, its idempotency key.
        mode: CREATION or EDITING.
        request: the user's words.
        fleet: profiles by device id.
        constellation: the current one as ``to_dict`` gives it; None in CREATION.
        batch: ids of the tasks that ended and are asked about.
        told: why the last answer could not be taken; empty on a first question.
        reason: why a new constellation is to be made, after a restart.
        rejections: why people said no to earlier answers, oldest first.
        earlier: rounds of the session, then archived generations of this run, oldest first, bounded (``earlier_of``).
        budget_left: what answering may still use (``tokens`` and ``cost_usd``); None for no limit.
        number: which question of the run this is, from 1.
    """

    key: str
    mode: Literal["CREATION", "EDITING"]
    request: str
    fleet: dict[str, AgentProfile]
    constellation: dict[str, Any] | None = None
    batch: tuple[str, ...] = ()
    told: str = ""
    reason: str = ""
    rejections: tuple[str, ...] = ()
    earlier: tuple[dict[str, Any], ...] = ()
    budget_left: Usage | None = None
    number: int = 1


class Planner(Protocol):
    """Plans and replans."""

    async def propose(self, question: PlannerQuestion) -> Proposal:
        """Answer a question; bounded by itself.

        Raises:
            PlanningUnavailable: no answer can be had.
        """
        ...


class PlanningUnavailable(AsterismError):
    """No plan can be had; the text says why, and for whom it is.

    ``code``: the same for programs; ``usage``: what trying has used; ``notes``: what went wrong on the way, in words.
    """

    def __init__(self, reason: str, code: str = "planning", usage: Usage = Usage(), notes: tuple[str, ...] = ()) -> None:  # noqa: B008 - frozen
        self.code = code
        self.usage = usage
        self.notes = notes
        super().__init__(reason)


class Dispatching(Protocol):
    """Carries attempts to devices, one queue per device."""

    async def perform(self, attempt: Attempt, progress: ProgressSink) -> AttemptEnd:
        """Carry out one attempt, queueing included; raises only CancelledError."""
        ...
