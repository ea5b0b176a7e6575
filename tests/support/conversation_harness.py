"""A test harness for conversations in virtual time: each turn runs in a process that can be killed after any entry."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from asterism.app.bootstrap import FORMS
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.conversation.python import AgentResult
from asterism.conversation.python.conversation import Conversation, result_of
from asterism.conversation.python.performer import Extractor, flow_performers
from asterism.conversation.python.secret_fields import SecretStore
from asterism.engine.kernel.journal import Record, state_history
from asterism.engine.ports.store import Commit, InboxRow
from asterism.engine.runtime.driver import Driver
from asterism.engine.runtime.runtime import Runtime
from asterism.engine.runtime.snapshots import load
from asterism.loop.python.definition import open_performers
from asterism.stores.memory import MemoryDatabase, MemoryStore
from asterism.testing.clock import WorldClock
from asterism.testing.loop import run as run_in_virtual_time

NEVER = 10**9


class MortalStore(MemoryStore):
    """A store handle whose process is killed after it has written an entry, before its effects are performed."""

    def __init__(self, database: MemoryDatabase, dies_after: int) -> None:
        super().__init__(database)
        self.dies_after = dies_after
        self.died = asyncio.Event()

    async def append(self, commit: Commit) -> None:
        await super().append(commit)
        if commit.expected_seq + len(commit.records) >= self.dies_after:
            self.crash()
            self.died.set()
            await asyncio.get_running_loop().create_future()  # the dead get no answer


class Stage:
    """One conversation. Every turn is taken by a fresh process.

    Args:
        agent: the class that talks.
        dies_after: seq of the entry after which the process that writes it is killed, once.
        forgetful: each process has a vault of its own, as separate processes do.
    """

    def __init__(self, agent: type, *, dies_after: int = NEVER, forgetful: bool = True, extractor: Extractor | None = None) -> None:
        self.agent = agent
        self.database = MemoryDatabase()
        self.clock = WorldClock()
        self.dies_after = dies_after
        self.deaths = 0
        self.processes = 0
        self.run_id = ""
        self.vault = SecretStore()
        self.forgetful = forgetful
        self.extractor = extractor
        self._living: Any = None

    @contextlib.asynccontextmanager
    async def process(self) -> AsyncIterator[tuple[Runtime, Conversation, MortalStore]]:
        """Open one process."""
        self.processes += 1
        store = MortalStore(self.database, self.dies_after)
        vault = SecretStore() if self.forgetful else self.vault
        async with open_performers() as loops:
            performers = {**loops, **flow_performers(vault, self.extractor)}
            forms = {name: form.performed_by(performers) for name, form in FORMS.items()}
            driver = Driver(store=store, clock=self.clock, forms=forms, poll_s=1.0)
            async with driver.opened():
                runtime = Runtime(store, driver, self.clock)
                yield runtime, self.talker(runtime, vault), store
        await store.close()

    def talker(self, runtime: Runtime, vault: SecretStore) -> Any:
        """Return the conversation in a process."""
        return Conversation(self.agent, runtime=runtime, run_id=self.run_id, vault=vault)

    @contextlib.asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        """Run all turns inside the context in one process."""
        async with self.process() as (_, self._living, _):
            yield
        self._living = None

    async def turn(self, what: str, *said: Any) -> AgentResult:
        """Run one turn (``say``, ``pause``, ``resume``, ``cancel``); another process resumes it if this one is killed."""
        if self._living is not None:
            result: AgentResult = await getattr(self._living, what)(*said)
            self.run_id = self._living.run_id
            return result
        async with self.process() as (_, conversation, store):
            task = asyncio.ensure_future(getattr(conversation, what)(*said))
            death = asyncio.ensure_future(store.died.wait())
            await asyncio.wait([task, death], return_when=asyncio.FIRST_COMPLETED)
            death.cancel()
            if not store.died.is_set():
                self.run_id = conversation.run_id
                answered: AgentResult = await task
                return answered
            task.cancel()
            await asyncio.wait([task])
            _ = task.cancelled() or task.exception()  # what the dead say is nobody's concern
            self.run_id = conversation.run_id
        self.deaths, self.dies_after = self.deaths + 1, NEVER
        return await self.look()

    async def look(self) -> AgentResult:
        """Resume the conversation in the next process, and read it."""
        async with self.process() as (_, conversation, _):
            result: AgentResult = await conversation.settle()
            return result

    def say(self, text: str) -> AgentResult:
        result: AgentResult = self.play(self.turn("say", text))
        return result

    def play(self, coro: Any) -> Any:
        return run_in_virtual_time(coro)

    @property
    def records(self) -> list[Record]:
        return self.database.records[self.run_id]

    @property
    def states(self) -> list[str]:
        return [it["state"] for it in state_history(self.records)]


def talk(agent: type, *lines: str, **more: Any) -> tuple[Stage, list[AgentResult]]:
    """Send lines one after the other, each to a new process; ``!`` starts a command or a wait in seconds."""
    stage = Stage(agent, **more)

    async def play() -> list[AgentResult]:
        return [result for line in lines if (result := await act(stage, line)) is not None]

    return stage, stage.play(play())


async def act(stage: Stage, line: str) -> AgentResult | None:
    """Run one line of a script."""
    if not line.startswith("!"):
        return await stage.turn("say", line)
    command, _, rest = line[1:].partition(" ")
    if command == "wait":
        await asyncio.sleep(float(rest))
        return None
    return await stage.turn(command, *([rest] if rest else []))


async def memory_of(stage: Stage) -> Any:
    store = MemoryStore(stage.database)
    live, _ = await load(store, FLOW_AGENT, stage.run_id)
    return live.memory


__all__ = ["InboxRow", "Stage", "act", "memory_of", "result_of", "talk"]
