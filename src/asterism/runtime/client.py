"""A client: submits runs, sends them commands and answers, and reads them. It needs no devices, and never drives a run.

A command is a row in the inbox of its run. The worker that drives the run writes a verdict, and the client waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from asterism.constellation.profile import Fleet
from asterism.errors import InvalidInput, Refused, RunNotFound
from asterism.kernel.data import as_json, check_json
from asterism.kernel.journal import Entry, Record, check_known, check_whole
from asterism.kernel.machine import Event, Machine, kind_of, run_id_of
from asterism.kernel.packing import event_body, packer
from asterism.kernel.run import Run
from asterism.machines.run_control import Answered, Forked, Verb
from asterism.runtime.clock import Clock
from asterism.runtime.journal_file import Journal, with_run_id
from asterism.runtime.ports.store import ACCEPTED, InboxRow, InquiryRow, RunRow, RunStatus, Store
from asterism.runtime.registration import machine_of
from asterism.runtime.snapshots import load
from asterism.runtime.submission import check_id, submit_first, submit_whole

MAX_RUNS = 100_000
"""Runs of one tree that are exported."""
MAX_ANSWERS = 20
"""Answers to one inquiry that its run may refuse; the next is not written."""
VERDICT_POLL_S = 0.05
"""How often a sender looks for its verdict."""


class Client:
    """The runs of one store, for a program that need not drive them.

    Args:
        store: where the journals are.
        clock: time, and fresh ids.
        machines: by name, those of the runs that are submitted and read here.
        fleet: profiles of the devices that constellations submitted here are planned for, by id.
        fleet_file: file from which the worker of such a run opens these devices; empty for none.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        machines: Mapping[str, Machine[Any]],
        *,
        fleet: Fleet | None = None,
        fleet_file: str = "",
    ) -> None:
        self.store = store
        self.clock = clock
        self.machines = machines
        self.fleet: Fleet = fleet or {}
        self.fleet_file = fleet_file

    # -- new runs ------------------------------------------------------------------------------------

    async def submit(
        self, machine: Machine[Any], first: Event, *, title: str, actor: str, run_id: str = "", session: str = "", tenant: str = ""
    ) -> str:
        """Write a new run with its first entry; nobody drives it yet.

        Args:
            machine: of the run.
            first: the event that begins it.
            title: one line for people.
            actor: who submits it.
            run_id: its id; a fresh one by default.
            session: the line of runs it belongs to; itself by default.
            tenant: whose it is.

        Returns:
            The run's id.

        Raises:
            EditRefused, Refused: the machine does not take the event; nothing is written.
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
        )
        live, entries = await submit_first(self.store, machine, row, first)
        self._submitted(live, entries)
        return run_id

    async def fork(self, run_id: str, at: int, *, machine: Machine[Any] | None = None, actor: str, new_id: str = "") -> str:
        """A new run that begins as a copy of another one up to an entry; the other one is untouched.

        What was under way there is decided anew: started again where that is harmless, else a person is asked.

        Args:
            run_id: the origin.
            at: seq of the last entry to copy.
            machine: of the origin; by default the one that this client knows by its name.
            actor: who forks.
            new_id: the new run's id; a fresh one by default.

        Raises:
            InvalidInput: the origin has no such entry.
            RunNewer: a newer program has written to the origin.
            UnknownMachine: no machine is given, and this client does not know that of the origin.
        """
        row = await self.store.run(run_id)
        machine = machine or self.machine_of(row)
        check_known(run_id, row.version, machine)
        if not 1 <= at <= row.seq:
            raise InvalidInput(f"run {run_id} has entries 1 to {row.seq}, and no {at}")
        new_id = new_id or self.clock.new_id()
        copied = with_run_id((await self.store.records(run_id))[:at], run_id, new_id)
        live, entries = _replayed(machine, new_id, copied)
        now = self.clock.now()
        forked = live.take(Forked(origin=run_id, seq=at, idle_s=max(0.0, now - copied[-1].at)), at=now, actor=actor)
        entries += [forked] if forked else []
        fresh = msgspec.structs.replace(row, run_id=new_id, actor=actor, parent="", root="", created_at=now, updated_at=now)
        await submit_whole(self.store, fresh, live, entries)
        self._forked(new_id, entries[at:])
        return new_id

    async def export(self, run_id: str) -> list[Journal]:
        """Return the journals of a run and of the runs below it, the root's first; ``journal_lines`` makes a file of them.

        Raises:
            RunNotFound: no such run.
            InvalidInput: it is a part of another run.
        """
        row = await self.store.run(run_id)
        if row.parent:
            raise InvalidInput(f"run {run_id} is a part of run {row.root}; export that one")
        tree = sorted(await self.store.runs(root=run_id, limit=MAX_RUNS), key=lambda it: (bool(it.parent), it.created_at))
        return [(it, await self.store.records(it.run_id)) for it in tree]

    async def import_journals(self, journals: Sequence[Journal], machines: Mapping[str, Machine[Any]] | None = None) -> None:
        """Take in a tree of runs with their whole journals, as an exported file has them.

        All are replayed before one is written, and the root is written last: what was cut short is taken in by doing it again.

        Args:
            journals: the root's first.
            machines: by name, those of the runs; by default those that this client knows.

        Raises:
            JournalMismatch: a journal cannot be replayed, or ends before its row says; nothing is written.
            RunNewer: a newer program has written to one of them; nothing is written.
            UnknownMachine: a run is of none of these machines; nothing is written.
            InvalidInput: an id is none that a run may have, or there is a run of it that is not what such an end has left.
        """
        known: dict[str, Machine[Any]] = {}
        for row, _ in journals:
            check_id(row.run_id, row.parent)
            known[row.machine] = machine_of(row, machines or self.machines)
        replayed = [(row, records, *_replayed(known[row.machine], row.run_id, records)) for row, records in journals]
        missing = []
        for row, records, live, entries in replayed:
            check_whole(row.run_id, row.seq, live.seq)
            try:
                left = await self.store.run(row.run_id)
            except RunNotFound:
                missing.append((row, live, entries))
            else:
                if not row.parent or left.parent != row.parent or await self.store.records(row.run_id) != list(records):
                    raise InvalidInput(f"there is a run {row.run_id!r} already; nothing was taken in")
        for row, live, entries in reversed(missing):
            await submit_whole(self.store, row, live, entries)

    # -- commands and answers ------------------------------------------------------------------------

    async def send(self, run_id: str, event: Event, *, actor: str, key: str = "", timeout_s: float = 30.0) -> str:
        """Put an event into a run's inbox, and return the verdict of the worker that drives the run.

        Args:
            run_id: the run's id.
            event: what happens to it.
            actor: who says so.
            key: the same key again gets the same verdict; a fresh one by default.
            timeout_s: how long to wait for the verdict.

        Returns:
            ``accepted``.

        Raises:
            RunNotFound: no such run.
            RunNewer: a newer program has written to it; nothing is sent.
            Refused: it has ended; or the verdict was a refusal; or it did not come in time (the row stays in the inbox).
        """
        await self._sendable(run_id)
        await self.post(run_id, event, actor=actor, key=(key := key or self.clock.new_id()))
        return await self.verdict(run_id, key, timeout_s=timeout_s)

    async def _sendable(self, run_id: str) -> RunRow:
        """Return the row of a run that can take what is sent from here; raises as ``send``."""
        row = await self.store.run(run_id)
        if row.status == "ended":
            raise Refused(f"run {run_id} has ended already ({row.outcome})")
        if machine := self.machines.get(row.machine):
            check_known(run_id, row.version, machine)
        return row

    async def post(self, run_id: str, event: Event, *, actor: str, key: str) -> InboxRow:
        """Put an event into a run's inbox; returns the row that is there, which is an earlier one if the key was used."""
        there = await self.store.send(self._row(run_id, event, actor=actor, key=key))
        self._sent()
        return there

    def _row(self, run_id: str, event: Event, *, actor: str, key: str) -> InboxRow:
        return InboxRow(run_id=run_id, key=key, actor=actor, kind=kind_of(event), body=event_body(event), at=self.clock.now())

    async def verdict(self, run_id: str, key: str, *, timeout_s: float = 30.0) -> str:
        """Wait for the verdict on an inbox row.

        Raises:
            Refused: it is a refusal, or it did not come in time.
        """
        for _ in range(polls(timeout_s)):
            if verdict := await self.store.verdict(run_id, key):
                return accepted(verdict)
            await asyncio.sleep(VERDICT_POLL_S)
        raise Refused(no_verdict(run_id, timeout_s))

    async def inquiry(self, inquiry_id: str) -> InquiryRow:
        """One inquiry, open or closed.

        Raises:
            InvalidInput: no inquiry has that id.
        """
        found = [row for row in await self.store.inquiries(run_id=run_id_of(inquiry_id), open_only=False) if row.inquiry_id == inquiry_id]
        if not found:
            raise InvalidInput(f"there is no question {inquiry_id!r}; `asterism inbox` lists the open ones")
        return found[0]

    async def post_answer(self, inquiry_id: str, verb: Verb, *, actor: str, value: Any = None, reason: str = "") -> InboxRow:
        """Answer an open inquiry; the answer is validated before it is written, and the first one written wins.

        An answer that its run then refuses (an edit of an argument that is not there) leaves the inquiry open for another.

        Returns:
            The inbox row of the answer; its key is where the verdict will be.

        Raises:
            InvalidInput: no such inquiry, or an answer it does not take; one that is larger than ``MAX_BYTES``, but for an edit: that
                may give a whole plan.
            Refused: it is not asked any more, or somebody else has answered first.
        """
        asked = await self.inquiry(inquiry_id)
        if asked.answer:
            raise Refused(f"{inquiry_id} is not asked any more: {asked.answer}")
        if 0 < asked.expires_at <= self.clock.now():
            raise Refused(f"{inquiry_id} has expired")
        if not asked.verbs and verb != "cancel":
            raise InvalidInput(
                f"{inquiry_id} asks for a secret, and an answer is journaled: type it at a terminal, in `asterism resume {asked.run_id}`"
            )
        if verb not in (*asked.verbs, "cancel"):
            raise InvalidInput(f"{inquiry_id} takes {', '.join(asked.verbs)}, not {verb}")
        if verb == "edit" and not isinstance(value, dict):
            raise InvalidInput(f"an edit of {inquiry_id} gives the new arguments, as a JSON object")
        if never := _never_given(asked, value):
            raise InvalidInput(
                f"{', '.join(never)} of {inquiry_id} is a secret, and an answer is journaled: it is told in the conversation"
            )
        check_json([value, reason], f"the answer to {inquiry_id}")  # what a journal would not give back is not what was approved
        if verb != "edit":
            as_json([value, reason], f"the answer to {inquiry_id}")
        event = Answered(effect_id=inquiry_id, verb=verb, value=value, reason=reason)
        for number in range(1, MAX_ANSWERS + 1):
            key = inquiry_id if number == 1 else f"{inquiry_id}#{number}"
            row = self._row(asked.run_id, event, actor=actor, key=key)
            there = await self.store.send(row)
            self._sent()
            if msgspec.structs.replace(there, verdict="") == row:
                return there
            if there.verdict in ("", ACCEPTED):
                said = _verb_of(there)
                raise Refused(f"{inquiry_id} was answered already: {said} by {there.actor}")
        raise Refused(f"{inquiry_id} has had {MAX_ANSWERS} answers that it does not take")

    # -- reading -------------------------------------------------------------------------------------

    async def runs(self, *, limit: int = 100, status: RunStatus | None = None, roots_only: bool = False) -> list[RunRow]:
        """Runs, newest first."""
        return await self.store.runs(limit=limit, status=status, roots_only=roots_only)

    async def describe(self, run_id: str) -> RunRow:
        """Return the row of a run: its machine and state, its status and outcome, who owns it.

        Raises:
            RunNotFound: no such run.
        """
        return await self.store.run(run_id)

    async def wait(self, run_id: str, *, timeout_s: float = 3600.0) -> RunRow:
        """Wait until a run has ended or only people can move it on, for so many seconds at most; return its row as it is then.

        Raises:
            RunNotFound: no such run.
        """
        row = await self.store.run(run_id)
        for _ in range(polls(timeout_s)):
            if row.status != "active":
                break
            await asyncio.sleep(VERDICT_POLL_S)
            row = await self.store.run(run_id)
        return row

    async def inquiries(self, *, root: str | None = None) -> list[InquiryRow]:
        """Return the open questions of a run and of the runs below it, or of all runs; the oldest first."""
        return await self.store.inquiries(root=root)

    async def records(self, run_id: str, *, after: int = 0) -> list[Record]:
        """The journal of a run, from after a seq on."""
        await self.store.run(run_id)
        return await self.store.records(run_id, after=after)

    async def load(self, run_id: str) -> Run[Any]:
        """Return a run as its journal has it: its state, what it remembers (``memory.result()``), what is outstanding.

        Raises:
            RunNotFound, JournalMismatch: as named.
            UnknownMachine: its machine is not known here.
        """
        return (await load(self.store, self.machine_of(await self.store.run(run_id)), run_id))[0]

    def machine_of(self, row: RunRow) -> Machine[Any]:
        """Return the machine of a run.

        Raises:
            UnknownMachine: it is none of those that this client knows.
            RunNewer: a newer program has written to the run.
        """
        return machine_of(row, self.machines)

    # -- for the driver of the same process, where there is one -----------------------------------------

    def _submitted(self, live: Run[Any], entries: Sequence[Entry]) -> None:
        """Called when a new run is durable, with its live state."""

    def _forked(self, run_id: str, entries: Sequence[Entry]) -> None:
        """Called when a fork is durable, with the entries that it has in addition to its origin."""

    def _sent(self) -> None:
        """Called when a row is in an inbox."""


def _never_given(asked: InquiryRow, value: Any) -> list[str]:
    """The properties of an answer that its schema never takes (``false``)."""
    if not asked.schema or not isinstance(value, dict):
        return []
    properties = msgspec.json.decode(asked.schema).get("properties", {})
    return [name for name in value if properties.get(name) is False]


def _verb_of(answer: InboxRow) -> str:
    try:
        return msgspec.json.decode(answer.body, type=Answered).verb
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return "something unreadable"


def polls(timeout_s: float) -> int:
    """Return how often a verdict is looked for within so many seconds."""
    return max(1, round(timeout_s / VERDICT_POLL_S))


def accepted(verdict: str) -> str:
    """Return a verdict that is no refusal; raises Refused with one that is."""
    if verdict != ACCEPTED:
        raise Refused(verdict)
    return verdict


def no_verdict(run_id: str, timeout_s: float) -> str:
    """Return the error for a verdict that did not come in time."""
    return f"run {run_id} has not taken it within {timeout_s:g} s; it will when its owner does: `asterism show {run_id}`"


def _replayed(machine: Machine[Any], run_id: str, records: Sequence[Record]) -> tuple[Run[Any], list[Entry]]:
    live = Run(machine, run_id)
    entries = [packer(machine).unpack(record) for record in records]
    live.replay(entries)
    return live, entries
