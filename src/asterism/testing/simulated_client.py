"""Client of a simulated world: people send commands, answers and messages through it. It drives no run."""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from asterism.constellation.machine.events import Edited, RaiseLimits
from asterism.conversation.python.conversation import Conversation
from asterism.conversation.python.secret_fields import SecretStore
from asterism.engine.control.run_control import Answered, Cancel, Pause, Unpause
from asterism.engine.kernel.machine import Event, Machine, kind_of
from asterism.engine.kernel.packing import event_body
from asterism.engine.kernel.refusal import refusal_of, verdict_words
from asterism.engine.ports.store import ACCEPTED, Commit, InboxRow, InquiryRow
from asterism.engine.runtime.children import PARENT
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.clock import Clock
from asterism.engine.runtime.form import Form
from asterism.engine.runtime.journal_file import journal_lines, read_journals
from asterism.errors import InvalidInput, Refused, RunNotFound
from asterism.stores.memory import MemoryDatabase, MemoryStore
from asterism.testing.ending import Ending
from asterism.testing.people import Answer, Line, ScheduledEvent

COMMANDS: Mapping[str, Event] = {
    "cancel": Cancel(reason="simulated"),
    "pause": Pause(),
    "unpause": Unpause(),
    "raise_limits": RaiseLimits(max_tokens=2**53),
}
"""Commands that people send, except edits."""

DEFECT = "a defect of asterism"
"""Prefix of the verdict on a command for which a move raised an error."""
RESEND_S = 2.0
"""Seconds before a person sends a rejected command again."""

InboxKey = tuple[str, str]
"""Run and key of an inbox row; both empty if no row was written."""


class SimulatedClient:
    """The client through which the people of one world act.

    Args:
        database: database of the world.
        clock: clock of the world.
        counts: number of events by kind.
        sent: called when an inbox may have a new row.
        resends: how often a person sends a command again after a defect rejected it.
        forms: forms of the world by the name of their machine.

    Attributes:
        refusals: error texts of refused answers, messages and commands, refused by the client or by the run.
        secrets: texts sent as secrets.
        public_texts: texts sent in the open.
        written: set after every durable write.
    """

    def __init__(
        self,
        database: MemoryDatabase,
        clock: Clock,
        counts: collections.Counter[str],
        sent: Callable[[], None],
        *,
        resends: int,
        forms: Mapping[str, Form],
    ) -> None:
        self.client = Client(MemoryStore(database, name="desk"), clock, forms)
        self.refusals: list[str] = []
        self.secrets: set[str] = set()
        self.public_texts: set[str] = set()
        self.written = asyncio.Event()
        self._database = database
        self._clock = clock
        self._counts = counts
        self._sent = sent
        self._resends = resends
        self._resend_counts: collections.Counter[str] = collections.Counter()

    def first(self) -> Client:
        """Return the client for the only run of the world. Raises InvalidInput if the world has run already."""
        if self._database.runs:
            raise InvalidInput("a world runs only once; create another World")
        return self.client

    async def answer(self, inquiry: InquiryRow, answer: Answer) -> None:
        """Answer an inquiry after the delay of the answer."""
        await asyncio.sleep(answer.after_s)
        self._counts["answers"] += 1
        try:
            if answer.bypasses_client:
                event = Answered(
                    effect_id=inquiry.inquiry_id, verb=answer.verb, value=answer.value, reason=answer.reason, digest=inquiry.digest
                )
                key = f"{self._clock.new_id()}-{answer.by}"
                row = InboxRow(
                    run_id=inquiry.run_id,
                    key=key,
                    actor=answer.by,
                    kind=kind_of(Answered),
                    body=event_body(event),
                    at=self._clock.now(),
                    permissions=self.client.permissions,
                )
                await self.client.store.send(row)
            else:
                await self.client.post_answer(inquiry.inquiry_id, answer.verb, actor=answer.by, value=answer.value, reason=answer.reason)
        except (Refused, InvalidInput) as refused:
            self._counts["answers refused"] += 1
            self.refusals.append(str(refused))

    def record_verdicts(self, commit: Commit) -> list[InboxRow]:
        """Record the verdicts in a commit; return the rows that their senders send again."""
        resent: list[InboxRow] = []
        for key, verdict in commit.folded:
            row = self._database.inbox[commit.run_id, key]
            words = verdict_words(verdict)
            if verdict != ACCEPTED and row.actor != PARENT:
                why = refusal_of(verdict)
                self.refusals.append(f"{why.what}: {why.why}" if why else words)
            if not words.startswith(DEFECT):
                continue
            self._counts["commands that met a defect"] += 1
            if row.actor != PARENT and self._resend_counts[key] < self._resends:
                resent.append(row)
        return resent

    async def send_again(self, row: InboxRow) -> None:
        """Send a command again under a new key, unless its run has ended."""
        await asyncio.sleep(RESEND_S)
        if self._database.runs[row.run_id].status != "ended":
            self._counts["sent again"] += 1
            key = self._clock.new_id()
            self._resend_counts[key] = self._resend_counts[row.key] + 1
            await self.client.store.send(msgspec.structs.replace(row, key=key, at=self._clock.now(), verdict=""))

    def target_of(self, event: ScheduledEvent, root: str) -> str:
        """Return the id of the run that an event concerns."""
        living = [run for run, row in self._database.runs.items() if row.status != "ended"]
        return event.run_id.replace("*", (living or [root])[-1]) or root

    def check_machine(self, machine: Machine[Any]) -> None:
        """Check that the world has a machine. Raises InvalidInput if it does not."""
        form = self.client.forms.get(machine.name)
        if form is None or form.machine is not machine:
            raise InvalidInput(
                f"this world has no machine {machine.name!r}; give its form: World(machines=[Form(machine, performers={{…}})])"
            )

    async def fork(self, origin: Ending, at: int, new: str) -> str:
        """Wait as long as a run of another world lasted, import its journal file, and fork it."""
        for ending in (origin, *origin.children):
            self.check_machine(ending.machine)
        await asyncio.sleep(origin.lasted_s)
        tree = [(ending.row, list(ending.records)) for ending in (origin, *origin.children)]
        await self.client.import_journals(read_journals(journal_lines(tree)))
        return await self.client.fork(origin.row.run_id, at, actor="user", new_id=new)

    async def command(self, run_id: str, event: ScheduledEvent) -> None:
        """Send a command or an inbox row to a run, unless the run has ended."""
        to = self._database.runs.get(run_id)
        if to is None:
            raise RunNotFound(run_id)
        if to.status == "ended":
            return
        if event.what == "inbox_row":
            key, at = self._clock.new_id(), self._clock.now()
            await self.client.store.send(InboxRow(run_id=run_id, key=key, actor="eve", kind=event.kind, body=event.body, at=at))
        else:
            command = COMMANDS.get(event.what) or Edited(actions=event.actions)
            await self.client.post(to.run_id, command, actor="user", key=event.key or self._clock.new_id())

    async def converse(self, conversation: Conversation, lines: Iterable[Line], secret_store: Callable[[], SecretStore]) -> None:
        """Send the lines of a conversation; ``secret_store`` returns the store of the process that runs at that time."""
        row_key: InboxKey = ("", "")
        for line in lines:
            while line.waits and not (self._is_processed(row_key) and self._is_blocked(conversation.run_id)):
                self.written.clear()
                await self.written.wait()
            await asyncio.sleep(line.after_s)
            conversation.vault = secret_store()
            row_key = await self._send_line(conversation, line)
            self._sent()

    def _is_blocked(self, run_id: str) -> bool:
        """Return True if the run waits for a person: it or a child asks something, or it is paused or has ended."""
        return self._database.runs[run_id].status != "active" or any(not inquiry.answer for inquiry in self._database.inquiries.values())

    async def _send_line(self, conversation: Conversation, line: Line) -> InboxKey:
        self._counts["lines"] += 1
        try:
            if line.command is not None:
                key = self._clock.new_id()
                await self.client.post(conversation.run_id, line.command, actor=conversation.user, key=key)
                return conversation.run_id, key
            sent = await conversation.put(self.client, line.text, line.values)
        except (Refused, InvalidInput) as refused:
            self._counts["lines refused"] += 1
            self.refusals.append(str(refused))
            return "", ""
        if sent is None:
            return "", ""
        key, run = sent
        is_secret = '"secret":"' in self._database.inbox[run, key].body
        (self.secrets if is_secret else self.public_texts).add(line.text)
        return run, key

    def _is_processed(self, row_key: InboxKey) -> bool:
        """Return True if the inbox row has a verdict, or its run has ended."""
        run, key = row_key
        return not run or bool(self._database.inbox[run, key].verdict) or self._database.runs[run].status == "ended"
