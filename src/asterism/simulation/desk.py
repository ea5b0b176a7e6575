"""The front desk of a simulated world: how people reach its runs, as they do through the programs. It drives nothing."""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from asterism.constellation.edits import refusal_of
from asterism.errors import InvalidInput, Refused, RunNotFound
from asterism.flows.conversation import Conversation
from asterism.flows.secret_store import SecretStore
from asterism.kernel.machine import Event, Machine, kind_of
from asterism.kernel.packing import event_body
from asterism.machines.constellation_agent.events import Edited, RaiseLimits
from asterism.machines.run_control import Answered, Cancel, Pause, Unpause
from asterism.runtime.children import PARENT
from asterism.runtime.client import Client
from asterism.runtime.clock import Clock
from asterism.runtime.journal_file import journal_lines, read_journals
from asterism.runtime.ports.store import ACCEPTED, Commit, InboxRow, InquiryRow
from asterism.simulation.ending import Ending
from asterism.simulation.people import Answer, Line, ScheduledEvent
from asterism.stores.memory import Memory, MemoryStore

COMMANDS: Mapping[str, Event] = {
    "cancel": Cancel(reason="simulated"),
    "pause": Pause(),
    "unpause": Unpause(),
    "allow": RaiseLimits(max_tokens=2**53),
}
"""What people can have happen, besides edits."""

DEFECT = "a defect of asterism"
"""How the verdict on a command begins that a move has failed over."""
RESEND_S = 2.0
"""How long somebody waits before they send a command again."""

Heard = tuple[str, str]
"""The run that something was said to, and the key of its inbox row; both empty for nothing."""


class SimulatedClient:
    """One desk.

    Args:
        memory: what the store holds.
        clock: time.
        counts: how often what happened.
        sent: told when there is something in an inbox, perhaps.
        resends: how often a command is sent again that a defect has refused.
        machines: those of the world, by name.

    Attributes:
        refusals: what was said to people whose answer, word or command was not taken, here or by its run.
        secrets, spoken: what was said in confidence, and what was not.
        written: set whenever something has become durable.
    """

    def __init__(
        self,
        memory: Memory,
        clock: Clock,
        counts: collections.Counter[str],
        sent: Callable[[], None],
        *,
        resends: int,
        machines: Mapping[str, Machine[Any]],
    ) -> None:
        self.client = Client(MemoryStore(memory, name="desk"), clock, machines)
        self.refusals: list[str] = []
        self.secrets: set[str] = set()
        self.spoken: set[str] = set()
        self.written = asyncio.Event()
        self._machines = machines
        self._memory = memory
        self._clock = clock
        self._counts = counts
        self._sent = sent
        self._resends = resends
        self._sendings: collections.Counter[str] = collections.Counter()

    def first(self) -> Client:
        """Return the client, for the first run of the world. Raises InvalidInput where there was one."""
        if self._memory.runs:
            raise InvalidInput("a world is lived once; make another one")
        return self.client

    async def answer(self, inquiry: InquiryRow, answer: Answer) -> None:
        """Somebody answers a question, in their own time."""
        await asyncio.sleep(answer.after_s)
        self._counts["answers"] += 1
        try:
            if answer.past_the_desk:
                event = Answered(effect_id=inquiry.inquiry_id, verb=answer.verb, value=answer.value, reason=answer.reason)
                key = f"{self._clock.new_id()}-{answer.by}"
                row = InboxRow(
                    run_id=inquiry.run_id, key=key, actor=answer.by, kind=kind_of(Answered), body=event_body(event), at=self._clock.now()
                )
                await self.client.store.send(row)
            else:
                await self.client.post_answer(inquiry.inquiry_id, answer.verb, actor=answer.by, value=answer.value, reason=answer.reason)
        except (Refused, InvalidInput) as refused:
            self._counts["answers refused"] += 1
            self.refusals.append(str(refused))

    def settled(self, commit: Commit) -> list[InboxRow]:
        """A run has taken what was said to it, or not. Returns the rows that their senders want to send again."""
        again: list[InboxRow] = []
        for key, verdict in commit.folded:
            row = self._memory.inbox[commit.run_id, key]
            if verdict != ACCEPTED and row.actor != PARENT:
                why = refusal_of(verdict)
                self.refusals.append(f"{why.what}: {why.why}" if why else verdict)
            if not verdict.startswith(DEFECT):
                continue
            self._counts["commands that met a defect"] += 1
            if row.actor != PARENT and self._sendings[key] < self._resends:
                again.append(row)
        return again

    async def send_again(self, row: InboxRow) -> None:
        """Somebody sends a command once more, under a key of its own; a run that has ended hears nothing."""
        await asyncio.sleep(RESEND_S)
        if self._memory.runs[row.run_id].status != "ended":
            self._counts["sent again"] += 1
            key = self._clock.new_id()
            self._sendings[key] = self._sendings[row.key] + 1
            await self.client.store.send(msgspec.structs.replace(row, key=key, at=self._clock.now(), verdict=""))

    def aimed_at(self, happening: ScheduledEvent, root: str) -> str:
        """The run that something happens to."""
        living = [run for run, row in self._memory.runs.items() if row.status != "ended"]
        return happening.run_id.replace("*", (living or [root])[-1]) or root

    async def fork(self, origin: Ending, at: int, new: str) -> str:
        """Take in the journal file of another world's run, after its time, and fork that run."""
        for ending in (origin, *origin.children):
            if self._machines.get(ending.row.machine) is not ending.machine:
                raise not_here(ending.machine)
        await asyncio.sleep(origin.lasted_s)
        tree = [(ending.row, list(ending.records)) for ending in (origin, *origin.children)]
        await self.client.import_journals(read_journals(journal_lines(tree)), self._machines)
        return await self.client.fork(origin.row.run_id, at, machine=origin.machine, actor="user", new_id=new)

    async def command(self, run_id: str, happening: ScheduledEvent) -> None:
        """Somebody commands a run, or writes to it; one that has ended hears nothing."""
        to = self._memory.runs.get(run_id)
        if to is None:
            raise RunNotFound(run_id)
        if to.status == "ended":
            return
        if happening.what == "letter":
            key, at = self._clock.new_id(), self._clock.now()
            await self.client.store.send(InboxRow(run_id=run_id, key=key, actor="eve", kind=happening.kind, body=happening.body, at=at))
        else:
            event = COMMANDS.get(happening.what) or Edited(actions=happening.actions)
            await self.client.post(to.run_id, event, actor="user", key=happening.key or self._clock.new_id())

    async def talk(self, conversation: Conversation, lines: Iterable[Line], vault: Callable[[], SecretStore]) -> None:
        """Somebody holds a conversation, line by line; ``vault`` is the one of the process that lives then."""
        heard: Heard = ("", "")
        for line in lines:
            while line.waits and not (self._has_heard(heard) and self._rests(conversation.run_id)):
                self.written.clear()
                await self.written.wait()
            await asyncio.sleep(line.after_s)
            conversation.vault = vault()
            heard = await self._say(conversation, line)
            self._sent()

    def _rests(self, run_id: str) -> bool:
        """True when it is the person's turn: something is asked, here or below, or it is paused, or has ended."""
        return self._memory.runs[run_id].status != "active" or any(not inquiry.answer for inquiry in self._memory.inquiries.values())

    async def _say(self, conversation: Conversation, line: Line) -> Heard:
        self._counts["lines"] += 1
        try:
            if line.command is not None:
                key = self._clock.new_id()
                await self.client.post(conversation.run_id, line.command, actor=conversation.user, key=key)
                return conversation.run_id, key
            heard = await conversation.put(self.client, line.text, line.values)
        except (Refused, InvalidInput) as refused:
            self._counts["lines refused"] += 1
            self.refusals.append(str(refused))
            return "", ""
        if heard is None:
            return "", ""
        key, run = heard
        in_confidence = '"secret":"' in self._memory.inbox[run, key].body
        (self.secrets if in_confidence else self.spoken).add(line.text)
        return run, key

    def _has_heard(self, heard: Heard) -> bool:
        """Whether what was said has been taken, or nobody will take it any more."""
        run, key = heard
        return not run or bool(self._memory.inbox[run, key].verdict) or self._memory.runs[run].status == "ended"


def not_here(machine: Machine[Any]) -> InvalidInput:
    """Return the error for a machine that a world does not have."""
    return InvalidInput(
        f"this world has no machine {machine.name!r}; give it one, World(machines=[Registration(machine, performers={{…}})])"
    )
