"""A world that is watched by the oracles of gates and of waits, with people and clients that have less than all permissions."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import itertools
import random
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.devices.port import Attempt
from asterism.engine.control.waits import WaitFor
from asterism.engine.kernel.guards import DeviceGuards
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.permissions import ALL_BUT_LOCAL, Permission, Permissions
from asterism.engine.kernel.profile import AgentProfile
from asterism.engine.ports.events import Deliver
from asterism.engine.ports.store import InboxRow, InquiryRow
from asterism.engine.runtime.events import send_event
from asterism.engine.runtime.journal_file import journal_lines, read_journals
from asterism.errors import InvalidInput, Refused
from asterism.stores.database import open_database
from asterism.stores.memory import MemoryDatabase
from asterism.testing.device import Behaviour, Script
from asterism.testing.ending import Ending
from asterism.testing.invariants import InvariantViolated
from asterism.testing.people import Answer, ScheduledEvent
from asterism.testing.validation import check_each
from asterism.testing.world import World
from tests.simulation.search.gate_oracle import ConversationGateChecks, GateChecks, GateOracle
from tests.simulation.search.wait_oracle import WaitOracle

IDS = 10_000
"""Ids that the clock of an imported run's world may have given: keys of inbox rows are in its journal."""


IN_A_FILE = 1 / 25
"""Share of the worlds whose database is a file with a write-ahead log."""


FORKER: Permissions = (Permission.VIEW, Permission.SUBMIT, Permission.COMMAND)
"""Permissions of somebody who may fork runs, and lift no guard."""


class ClientEvent(ScheduledEvent, frozen=True, kw_only=True):
    """An ``inbox_row`` of a client of a server, with the permissions that the door has written on it."""

    permissions: Permissions = ALL_BUT_LOCAL


class Report(ScheduledEvent, frozen=True, kw_only=True):
    """A ``find`` of a device that reports other skills."""

    profile: AgentProfile


class ClientAnswer(Answer, frozen=True, kw_only=True):
    """An answer of a client of a server.

    Attributes:
        permissions: those that the door has written on it.
        is_stale: True if the client has read another question than the one that it answers.
    """

    permissions: Permissions = ALL_BUT_LOCAL
    is_stale: bool = False


class SentEvent(ScheduledEvent, frozen=True, kw_only=True):
    """An event for waits: ``kind`` is its name, and ``key`` its id.

    Attributes:
        data, deliver, keep_s: as in ``send_event``.
        sender_dies: True if its sender is killed when the event is stored, before it compares the event with waits.
    """

    data: dict[str, Any]
    deliver: Deliver
    keep_s: float
    sender_dies: bool = False


class FileDatabase(MemoryDatabase):
    """A database in a temporary file, for the stores of one world."""

    def __init__(self) -> None:
        path = Path(tempfile.mkdtemp(prefix="asterism-world-"), "runs.db")
        weakref.finalize(self, shutil.rmtree, path.parent, ignore_errors=True)
        super().__init__(open_database(path, create=True), path)


def database_of(seed: int) -> MemoryDatabase:
    """Return a new database for the world of a seed."""
    return FileDatabase() if random.Random(f"database:{seed}").random() < IN_A_FILE else MemoryDatabase()


class WatchedWorld(World):
    """A world with the oracle of gates; its arguments are those of ``World``."""

    def __init__(self, seed: int = 0, *, script: Script, **given: Any) -> None:
        def seen(attempt: Attempt) -> Behaviour:
            self.oracle.received[attempt.key] = attempt
            return script(attempt)

        super().__init__(seed, script=seen, database=database_of(seed), **given)
        self.oracle = oracle = GateOracle(self.fleet, self.database)
        self.waits = waits = WaitOracle(self.database)

        class Checks(GateChecks):
            def __init__(self, *given: Any) -> None:
                super().__init__(oracle, *given)
                self._waits: dict[str, WaitFor] = {}

            def before(self, entry: Entry) -> None:
                super().before(entry)
                self._waits = dict(self.replayed.memory.waits)

            def after(self, entry: Entry) -> None:
                super().after(entry)
                if wrong := waits.follow(entry, self._waits, self.replayed.memory, self.now()):
                    raise self.fail(6, wrong)

        class Conversations(ConversationGateChecks):
            def __init__(self, *given: Any) -> None:
                super().__init__(oracle, *given)

        watched = {CONSTELLATION_AGENT.name: Checks, FLOW_AGENT.name: Conversations}
        self.checker.forms = {name: dataclasses.replace(form, checks=watched.get(name, form.checks)) for name, form in self.forms.items()}

    def run_fork(self, origin: Ending, at: int, *, new: str = "fork") -> Ending:
        if any(profile.guards != DeviceGuards() for profile in self.fleet.values()):
            self._client.client.fleet = dict(self.fleet)  # as a program with a fleet file forks
            return self._run_to_end(self._drive(lambda _: self._fork(origin, at, new)))
        return super().run_fork(origin, at, new=new)

    async def _fork(self, origin: Ending, at: int, new: str) -> str:
        """Fork a run with guards, every other one as somebody who is no admin."""
        client = self._client.client
        self._client.client = client.acting_with(FORKER) if self.seed % 2 else client
        run_id = await self._client.fork(origin, at, new)
        self._client.client = client
        return run_id

    def run_import(self, origin: Ending, at: int) -> Ending:
        """Import a run of another world as it stood at an entry, before it had children, and run it."""
        self.oracle.imports = True
        return self._run_to_end(self._drive(lambda _: self._import(origin, at)))

    async def _import(self, origin: Ending, at: int) -> str:
        await asyncio.sleep(origin.lasted_s)
        for _ in range(IDS):
            self.clock.new_id()
        childless = itertools.takewhile(lambda record: '"type":"start_child"' not in record.body, origin.records[:at])
        records = [*childless]
        row = msgspec.structs.replace(origin.row, seq=len(records), status="active", outcome="", owner="")
        await self._client.client.import_journals(read_journals(journal_lines([(row, records)])))
        return origin.row.run_id

    def _run_to_end(self, execution: Any) -> Ending:
        ending = super()._run_to_end(execution)
        if wrong := self.waits.check_end():
            raise InvariantViolated(6, wrong, self._last_entries())
        self.counts["gated attempts"] += self.oracle.judged
        self.counts["events taken"] += self.waits.taken
        return ending

    def _ask_people(self, opened: Iterable[InquiryRow]) -> None:
        for inquiry in opened:
            for answer in check_each("people", self._people(inquiry), Answer):
                answered = functools.partial(self._client.answer, inquiry, answer)
                if isinstance(answer, ClientAnswer):
                    answered = functools.partial(self._answer_as_client, inquiry, answer)
                _ = self._spawn(answered, f"{answer.by} answers {inquiry.inquiry_id}")

    async def _answer_as_client(self, inquiry: InquiryRow, answer: ClientAnswer) -> None:
        await asyncio.sleep(answer.after_s)
        self.counts["answers of clients"] += 1
        digest, key = "0" * 64 if answer.is_stale else inquiry.digest, self.clock.new_id()
        if answer.is_stale:
            others = [row for row in self.database.inquiries.values() if row.subject != inquiry.subject]
            others.sort(key=lambda row: row.prompt == inquiry.prompt)  # last those about an earlier form of the same task
            digest = others[-1].digest if others else digest
            self.oracle.stale.add((inquiry.run_id, key))
        try:
            await self._client.client.acting_with(answer.permissions).post_answer(
                inquiry.inquiry_id, answer.verb, actor=answer.by, value=answer.value, reason=answer.reason, key=key, digest=digest
            )
        except (Refused, InvalidInput) as refused:
            self.counts["answers refused"] += 1
            self.refusals.append(str(refused))

    async def _fire(self, event: ScheduledEvent) -> None:
        if isinstance(event, SentEvent):
            await asyncio.sleep(event.at_s)
            await self._send(event)
            return
        if isinstance(event, Report):
            await asyncio.sleep(event.at_s)
            for process in self._processes.running:
                if process.dispatcher is not None:
                    self.counts["reports of other skills"] += 1
                    process.dispatcher.find(event.device, event.profile)
            return
        if not isinstance(event, ClientEvent):
            await super()._fire(event)
            return
        await asyncio.sleep(event.at_s)
        run_id = self._client.target_of(event, self._run)
        if self.database.runs[run_id].status == "ended":
            return
        self.counts[f"client's {event.kind}"] += 1
        key, at = self.clock.new_id(), self.clock.now()
        row = InboxRow(run_id=run_id, key=key, actor="mallory", kind=event.kind, body=event.body, at=at, permissions=event.permissions)
        await self._client.client.store.send(row)

    async def _send(self, event: SentEvent) -> None:
        self.counts["events sent"] += 1
        client = self._client.client
        forms = {} if event.sender_dies else client.forms
        await send_event(
            client.store,
            self.clock,
            forms,
            event.kind,
            event.data,
            event_id=event.key,
            keep_s=event.keep_s,
            deliver=event.deliver,
            actor="mallory",
        )
        self.waits.look()
