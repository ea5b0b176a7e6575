"""A client submits runs, sends them commands and answers, and reads them; it never drives a run.

A command is a row in a run's inbox. The driver that owns the run writes a verdict, and the client
waits for it.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Self

import msgspec

from asterism.engine.control.run_control import Answered, Forked, Imported, RunMemory, Verb, needs_digest
from asterism.engine.kernel.data import as_json, check_json
from asterism.engine.kernel.journal import Entry, Record, check_known, check_whole
from asterism.engine.kernel.machine import Event, Machine, kind_of, run_id_of
from asterism.engine.kernel.packing import event_body, packer
from asterism.engine.kernel.permissions import ALL, Permission, Permissions
from asterism.engine.kernel.phrase import phrase
from asterism.engine.kernel.profile import Fleet
from asterism.engine.kernel.refusal import CodedRefusal, refusal_of, verdict_words
from asterism.engine.kernel.run import Run
from asterism.engine.ports.files import Files
from asterism.engine.ports.store import ACCEPTED, InboxRow, InquiryRow, RunRow, RunStatus, Store
from asterism.engine.runtime.clock import Clock
from asterism.engine.runtime.form import Form, form_of
from asterism.engine.runtime.journal_file import Journal, with_run_id
from asterism.engine.runtime.snapshots import load
from asterism.engine.runtime.submission import check_id, submit_first, submit_whole
from asterism.errors import InvalidInput, Refused, RunNotFound

MAX_RUNS = 100_000
"""Runs of one tree that are exported."""
MAX_ANSWERS = 20
"""Refused answers to one inquiry after which no further answer is written."""
VERDICT_POLL_S = 0.05
"""Seconds between two looks for a verdict."""
NETWORKED: ContextVar[bool] = ContextVar("asterism_networked", default=False)
"""True while a request of another computer is answered: what is submitted or sent then marks its tree (``RunRow.via``)."""
_PLAIN = frozenset({"effect_id", "verb", "cancelled", "digest", "tasks", "max_tokens", "max_cost_usd"})
"""Fields of events that no task receives."""


class Client:
    """The runs of one store, for a program that need not drive them.

    Args:
        forms: forms of the runs that are submitted and read here, by the name of their machine.
        fleet: profiles of the devices that constellations submitted here are planned for, by id.
        fleet_file: fleet file with these devices, for the driver of such a run; empty for none.
        fleet_name: name of this fleet, by which a server knows the runs that it can drive.

    Attributes:
        permissions: those that are written on what this client sends: all of the local user, unless a server acts for somebody else.
        reserved_s: seconds in which this program must begin to drive a run that it submits; then a server takes it.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        forms: Mapping[str, Form],
        *,
        fleet: Fleet | None = None,
        fleet_file: str = "",
        fleet_name: str = "",
    ) -> None:
        self.store = store
        self.clock = clock
        self.forms = forms
        self.fleet: Fleet = fleet or {}
        self.fleet_file = fleet_file
        self.fleet_name = fleet_name
        self.files: Files | None = None
        self.permissions: Permissions = ALL
        self.reserved_s = 0.0

    def acting_with(self, permissions: Permissions) -> Self:
        """Return this client for a sender with other permissions."""
        other = copy.copy(self)
        other.permissions = permissions
        return other

    # -- new runs ----------------------------------------------------------------------------------

    async def submit(
        self, machine: Machine[Any], first: Event, *, title: str, actor: str, run_id: str = "", session: str = "", tenant: str = ""
    ) -> str:
        """Write a new run with its first entry; it is not driven yet.

        Args:
            machine: machine of the run.
            first: the event that starts it.
            title: one line for people.
            actor: who submits it.
            run_id: id of the run; a fresh one by default.
            session: groups runs of one user; the run's own id by default.
            tenant: the tenant that the run belongs to.

        Returns:
            The run's id.

        Raises:
            EditRefused, Refused: the machine refuses the event; nothing is written.
        """
        run_id = run_id or self.clock.new_id()
        at = self.clock.now()
        row = RunRow(
            run_id=run_id,
            machine=machine.name,
            title=title,
            state="",
            session=session or run_id,
            tenant=tenant,
            actor=actor,
            created_at=at,
            updated_at=at,
            fleet=self.fleet_name,
            due_at=self._due_at(at),
            via="network" if NETWORKED.get() else "",
        )
        live, entries = await submit_first(self.store, machine, row, first, self.permissions)
        self._submitted(live, entries)
        return run_id

    async def fork(self, run_id: str, at: int, *, actor: str, new_id: str = "", first: Event | None = None) -> str:
        """Write a new run that begins as a copy of another one up to an entry, and return its id.

        Effects that were in progress there are restarted if that is safe; else a person is asked.

        Args:
            run_id: id of the origin.
            at: seq of the last entry to copy.
            actor: who forks the run.
            new_id: id of the new run; a fresh one by default.
            first: an event that the new run takes before anything else.

        Raises:
            InvalidInput: the origin has no such entry.
            Refused: the new run rejects ``first``; nothing is written.
            RunNewer: a newer program has written to the origin.
            UnknownMachine: this client lacks its machine.
        """
        row = await self.store.run(run_id)
        machine = self.form_of(row).machine
        if not 1 <= at <= row.seq:
            raise InvalidInput(f"run {run_id} has no entry {at}; it has entries 1 to {row.seq}")
        copied = with_run_id((await self.store.records(run_id))[:at], run_id, new_id := new_id or self.clock.new_id())
        (live, entries), now = _replayed(machine, new_id, copied), self.clock.now()
        guards = {device: profile.guards for device, profile in self.fleet.items()} or None
        forked = Forked(origin=run_id, seq=at, idle_s=max(0.0, now - copied[-1].at), guards=guards)
        for event in (forked, first) if first is not None else (forked,):
            entries += filter(None, [live.take(event, at=now, actor=actor, permissions=self.permissions)])
        times = {"created_at": now, "updated_at": now, "due_at": self._due_at(now)}
        via = (await self.store.run(row.root)).via
        fresh = msgspec.structs.replace(row, run_id=new_id, actor=actor, parent="", root="", via=via, **times)
        await self.store.copy_files(row.root, new_id)  # first: the fork must find what its copied results name
        await submit_whole(self.store, fresh, live, entries)
        self._forked(new_id, entries[at:])
        return new_id

    async def export(self, run_id: str) -> list[Journal]:
        """Return the journals of a run and of the runs below it, the root's first.

        Raises:
            RunNotFound: no such run.
            InvalidInput: the run is a child of another one.
        """
        row = await self.store.run(run_id)
        if row.parent:
            raise InvalidInput(f"run {run_id} is a child of run {row.root}; export that one")
        tree = sorted(await self.store.runs(root=run_id, limit=MAX_RUNS), key=lambda it: (bool(it.parent), it.created_at))
        return [(it, await self.store.records(it.run_id)) for it in tree]

    async def import_journals(self, journals: Sequence[Journal], *, actor: str = "import") -> None:
        """Import a tree of runs with their whole journals, as an exported file has them.

        A run that can go on gets an ``Imported`` entry: approvals of work that has not begun are void.

        All runs are replayed before one is written, and the root is written last: an import that
        was interrupted can be repeated. No server drives an imported tree until it gets a command.

        Args:
            journals: journals of the tree, the root's first.
            actor: who imports them.

        Raises:
            JournalMismatch: a journal cannot be replayed, or ends before its row says; nothing is
                written.
            RunNewer: a newer program has written to one of them; nothing is written.
            UnknownMachine: the machine of a run is missing; nothing is written.
            InvalidInput: an id is invalid, or another run has it that no interrupted import has
                left.
        """
        for row, _ in journals:
            check_id(row.run_id, row.parent)
            self.form_of(row)
        replayed = [(row, records, *_replayed(self.forms[row.machine].machine, row.run_id, records)) for row, records in journals]
        missing = []
        for row, records, live, entries in replayed:
            check_whole(row.run_id, row.seq, live.seq)
            try:
                left = await self.store.run(row.run_id)
            except RunNotFound:
                missing.append((row, live, entries))
            else:
                if not row.parent or left.parent != row.parent or (await self.store.records(row.run_id))[: len(records)] != list(records):
                    raise InvalidInput(f"a run {row.run_id!r} already exists; nothing was imported")
        now = self.clock.now()
        for row, live, entries in reversed(missing):
            if not live.ended or live.memory.guards.lifted:
                voided = live.take(Imported(), at=max(now, entries[-1].at), actor=actor, permissions=self.permissions)
                entries.extend(filter(None, [voided]))
            await submit_whole(self.store, msgspec.structs.replace(row, due_at=None), live, entries)

    # -- commands and answers ----------------------------------------------------------------------

    async def send(self, run_id: str, event: Event, *, actor: str, key: str = "", timeout_s: float = 30.0) -> str:
        """Put an event into a run's inbox, and return the verdict of the driver that owns the run.

        Args:
            run_id: id of the run.
            event: the event to send.
            actor: who sends it.
            key: idempotency key: the same key returns the same verdict; a fresh one by default.
            timeout_s: seconds to wait for the verdict.

        Returns:
            ``accepted``.

        Raises:
            RunNotFound: no such run.
            RunNewer: a newer program has written to the run; nothing is sent.
            Refused: the run has ended, or the run refuses the event, or no verdict came in time
                (the row stays in the inbox).
        """
        await self._sendable(run_id)
        await self.post(run_id, event, actor=actor, key=(key := key or self.clock.new_id()))
        return await self.verdict(run_id, key, timeout_s=timeout_s)

    async def _sendable(self, run_id: str) -> RunRow:
        """Return the row of a run that accepts commands from this program; raises the errors of ``send``."""
        row = await self.store.run(run_id)
        if row.status == "ended":
            raise Refused(f"run {run_id} has ended already ({row.outcome})")
        if form := self.forms.get(row.machine):
            check_known(run_id, row.version, form.machine)
        return row

    async def post(self, run_id: str, event: Event, *, actor: str, key: str) -> InboxRow:
        """Put an event into a run's inbox; return its row, or the earlier one with the same key."""
        row = await self._send(self._row(run_id, event, actor=actor, key=key), event)
        self._sent()
        return row

    async def _send(self, row: InboxRow, event: Event) -> InboxRow:
        """Put a row into an inbox; first mark its tree if its event brings data from another computer."""
        if NETWORKED.get() and any(value for name, value in msgspec.structs.asdict(event).items() if name not in _PLAIN):
            await self.store.mark_networked(row.run_id)
        return await self.store.send(row)

    def _row(self, run_id: str, event: Event, *, actor: str, key: str) -> InboxRow:
        body, at = event_body(event), self.clock.now()
        return InboxRow(run_id=run_id, key=key, actor=actor, kind=kind_of(event), body=body, at=at, permissions=self.permissions)

    async def verdict(self, run_id: str, key: str, *, timeout_s: float = 30.0) -> str:
        """Wait for the verdict on an inbox row.

        Raises:
            Refused: the run refused the row, or the verdict did not come in time.
        """
        until = asyncio.get_running_loop().time() + timeout_s
        while not (verdict := await self.store.verdict(run_id, key)):
            if not await poll_again(until):
                raise Refused(no_verdict(run_id, timeout_s))
        return accepted(verdict)

    async def inquiry(self, inquiry_id: str) -> InquiryRow:
        """Return an inquiry, open or closed.

        Raises:
            InvalidInput: no inquiry has that id.
        """
        found = [row for row in await self.store.inquiries(run_id=run_id_of(inquiry_id), open_only=False) if row.inquiry_id == inquiry_id]
        if not found:
            raise InvalidInput(f"there is no question {inquiry_id!r}; `asterism inbox` lists the open ones")
        return found[0]

    async def post_answer(
        self, inquiry_id: str, verb: Verb, *, actor: str, value: Any = None, reason: str = "", key: str = "", digest: str = ""
    ) -> InboxRow:
        """Answer an open inquiry. The answer is validated first, and the first one written wins.

        If the run refuses the answer (an edit of an unknown argument), the inquiry stays open. With a ``key``, which
        is then that of the inbox row, the run decides between two answers, and the same answer again returns the same row.

        Returns:
            The inbox row of the answer; its verdict will be under its key.

        Raises:
            InvalidInput: no such inquiry, or an answer that it does not accept, or one of more than
                ``MAX_BYTES``. An edit may be larger: it may contain a whole plan. The key was used before with another one.
            Refused: the inquiry is closed or has expired, or another answer was first.
        """
        asked = await self.inquiry(inquiry_id)
        is_new = not (key and await self.has_sent(asked.run_id, key))
        if is_new:
            self._check_open(asked)
            _check_names(asked, verb, digest)
        if not asked.verbs and verb != "cancel":
            raise InvalidInput(
                f"{inquiry_id} asks for a secret, and answers are journaled; type it at a terminal, in `asterism resume {asked.run_id}`"
            )
        if verb not in (*asked.verbs, "cancel"):
            raise InvalidInput(f"{inquiry_id} accepts {', '.join(asked.verbs)}, not {verb}")
        if verb == "edit" and not isinstance(value, dict):
            raise InvalidInput(f"an edit of {inquiry_id} needs the new arguments as a JSON object")
        check_no_secret(asked, value)
        form = self.forms.get((await self.store.run(asked.run_id)).machine)
        machine = form.machine if form else None
        value = edit_of(machine, asked, value) if verb == "edit" else value
        check_json([value, reason], f"the answer to {inquiry_id}")  # the journal must give back exactly what was approved
        if verb != "edit":
            as_json([value, reason], f"the answer to {inquiry_id}")
        if needs_digest(verb, asked.verbs) and not digest and Permission.LOCAL in self.permissions:
            digest = asked.digest  # a local program sees the whole request where it sees the question
        event = Answered(effect_id=inquiry_id, verb=verb, value=value, reason=reason, digest=digest)
        if is_new:
            await check_values(self.store, machine, asked.run_id, event)
        for number in range(1, MAX_ANSWERS + 1):
            default = inquiry_id if number == 1 else f"{inquiry_id}#{number}"
            row = self._row(asked.run_id, event, actor=actor, key=key or default)
            there = await self._send(row, event)
            self._sent()
            if key and (there.kind, there.body) != (row.kind, row.body):
                raise InvalidInput("this key was used with another body; use a new key for a new answer")
            if key or msgspec.structs.replace(there, verdict="", permissions=row.permissions) == row:
                return there
            if there.verdict in ("", ACCEPTED):
                raise Refused(f"{inquiry_id} was answered already: {verb_of(there)} by {there.actor}")
        raise Refused(f"{inquiry_id}: {MAX_ANSWERS} answers were refused, and no more are accepted")

    async def has_sent(self, run_id: str, key: str) -> bool:
        """Return True if the inbox of a run has a row with a key, or had it."""
        return bool(await self.store.verdict(run_id, key)) or any(row.key == key for row in await self.store.inbox([run_id]))

    async def is_open(self, asked: InquiryRow) -> bool:
        """Return True if a run still takes an answer to its question: the question's row is closed later."""
        live, _ = await load(self.store, self.form_of(await self.store.run(asked.run_id)).machine, asked.run_id)
        return asked.inquiry_id in live.memory.inquiries and not live.machine.is_terminal(live.state)

    def _check_open(self, asked: InquiryRow) -> None:
        if asked.answer:
            raise Refused(f"{asked.inquiry_id} is no longer open: {asked.answer}")
        if 0 < asked.expires_at <= self.clock.now():
            raise Refused(f"{asked.inquiry_id} has expired")

    # -- reading -----------------------------------------------------------------------------------

    async def runs(self, *, limit: int = 100, status: RunStatus | None = None, roots_only: bool = False) -> list[RunRow]:
        """Return runs, newest first."""
        return await self.store.runs(limit=limit, status=status, roots_only=roots_only)

    async def describe(self, run_id: str) -> RunRow:
        """Return the row of a run: its machine, state, status, outcome and owner.

        Raises:
            RunNotFound: no such run.
        """
        return await self.store.run(run_id)

    async def wait(self, run_id: str, *, timeout_s: float = 3600.0) -> RunRow:
        """Return a run's row once it has ended, is paused or waits for people, or the time is over.

        Raises:
            RunNotFound: no such run.
        """
        until = asyncio.get_running_loop().time() + timeout_s
        while (row := await self.store.run(run_id)).status == "active" and await poll_again(until):
            pass
        return row

    async def inquiries(self, *, root: str | None = None) -> list[InquiryRow]:
        """Return the open inquiries of a run and of the runs below it, or of all; oldest first."""
        return await self.store.inquiries(root=root)

    async def records(self, run_id: str, *, after: int = 0) -> list[Record]:
        """Return the records of a run with a seq greater than ``after``."""
        await self.store.run(run_id)
        return await self.store.records(run_id, after=after)

    async def load(self, run_id: str) -> Run[Any]:
        """Return a run with its state, memory (``memory.result()``) and outstanding effects.

        Raises:
            RunNotFound, JournalMismatch: as named.
            UnknownMachine: this client lacks its machine.
        """
        return (await load(self.store, self.form_of(await self.store.run(run_id)).machine, run_id))[0]

    async def first_event(self, row: RunRow) -> Event | None:
        """Return the first event of a run; None for a run without entries. Raises as ``form_of``."""
        records = await self.store.records(row.run_id, limit=1)
        return packer(self.form_of(row).machine).unpack(records[0]).event if records else None

    def form_of(self, row: RunRow) -> Form:
        """Return the form of a run.

        Raises:
            UnknownMachine: this client lacks it.
            RunNewer: a newer program has written to the run.
        """
        return form_of(row, self.forms)

    # -- hooks for the driver of the same process --------------------------------------------------

    def _due_at(self, at: float) -> float:
        """Return when a run that is submitted at a time is due."""
        return at + self.reserved_s

    def _submitted(self, live: Run[Any], entries: Sequence[Entry]) -> None:
        """Called when a new run is durable, with its live state."""

    def _forked(self, run_id: str, entries: Sequence[Entry]) -> None:
        """Called when a fork is durable, with the entries that its origin lacks."""

    def _sent(self) -> None:
        """Called when a row was put into an inbox."""


def _check_names(asked: InquiryRow, verb: Verb, digest: str) -> None:
    """Refuse an answer that names another request: in the inbox it would keep right answers out until its verdict."""
    if needs_digest(verb, asked.verbs) and digest not in ("", asked.digest):
        raise Refused(phrase("answer.other_request", inquiry=asked.inquiry_id))


def polls(timeout_s: float) -> int:
    """Return the number of looks for a verdict within ``timeout_s``."""
    return max(1, round(timeout_s / VERDICT_POLL_S))


async def poll_again(until: float) -> bool:
    """Wait for the next look for a verdict; return False if a time of the event loop has passed."""
    left_s = until - asyncio.get_running_loop().time()
    await asyncio.sleep(max(0.0, min(left_s, VERDICT_POLL_S)))
    return left_s > 0


def _replayed(machine: Machine[Any], run_id: str, records: Sequence[Record]) -> tuple[Run[Any], list[Entry]]:
    live = Run(machine, run_id)
    entries = [packer(machine).unpack(record) for record in records]
    live.replay(entries)
    return live, entries


def check_no_secret(asked: InquiryRow, value: Any) -> None:
    """Check that an answer has no property that the schema of its question forbids (``false``): a secret.

    Raises:
        InvalidInput: it has one.
    """
    if not asked.schema or not isinstance(value, dict):
        return
    properties = msgspec.json.decode(asked.schema).get("properties", {})
    if secret := [name for name in value if properties.get(name) is False]:
        raise InvalidInput(
            f"{asked.inquiry_id} asks for a secret ({', '.join(secret)}), and answers are journaled; type it in the conversation"
        )


def edit_of(machine: Machine[Any] | None, asked: InquiryRow, value: dict[str, Any]) -> dict[str, Any]:
    """Return an edit as the run takes it (``RunMemory.edit_of``); as it is without the machine of the run.

    Raises:
        InvalidInput: as there.
    """
    return machine.memory().edit_of(msgspec.json.decode(asked.subject or "{}"), value) if machine else value


async def check_values(store: Store, machine: Machine[Any] | None, run_id: str, given: Answered) -> None:
    """Check an answer as the memory of its run does (``RunMemory.check_values``).

    Raises:
        InvalidInput: as there.
        RunNewer: a newer program has written to the run.
    """
    if machine and type(machine.memory()).check_values is not RunMemory.check_values:
        live, _ = await load(store, machine, run_id)
        live.memory.check_values(given)


def accepted(verdict: str) -> str:
    """Return a verdict that is ``accepted``.

    Raises:
        CodedRefusal: the run has refused edits; ``refusal`` has its code, ``index`` the place of the edit in its batch.
        Refused: the run has refused another command.
    """
    if verdict == ACCEPTED:
        return verdict
    if refusal := refusal_of(verdict):
        raise CodedRefusal(refusal.code, refusal.what, refusal.why, refusal.index)
    raise Refused(verdict_words(verdict))


def no_verdict(run_id: str, timeout_s: float) -> str:
    """Return the error text for a verdict that did not come in time."""
    return f"run {run_id} has not processed it within {timeout_s:g} s; its owner still may: `asterism show {run_id}`"


def verb_of(answer: InboxRow) -> str:
    """Return the verb of an answer in an inbox."""
    try:
        return msgspec.json.decode(answer.body, type=Answered).verb
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return "something unreadable"
