"""A loop in virtual time whose processes die: at an entry of the journal, or inside one of its functions."""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from asterism.errors import RunOwned, StaleOwner, StoreUnavailable
from asterism.kernel.journal import Record
from asterism.kernel.machine import Effect
from asterism.kernel.run import Run, packer
from asterism.loops import Handoff, LoopView, OrchestrationLoop, Worker
from asterism.loops.definition import open_performers
from asterism.machines.orchestration_loop.memory import LoopMemory
from asterism.machines.orchestration_loop.table import ORCHESTRATION_LOOP
from asterism.runtime.driver import Driver
from asterism.runtime.ports import Commit, InquiryRow, Performer, RunRow
from asterism.runtime.runtime import Runtime
from asterism.simulation.clock import WorldClock
from asterism.simulation.loop import run as run_in_virtual_time
from asterism.stores.memory import Memory, MemoryStore

MAX_PROCESSES = 40


class LoopWorld:
    """One run of one loop.

    Args:
        die_at: seqs after whose entry the driving process dies, each once.
        die_in: names of functions in the middle of which it dies, each once.
        people: answers a question, as ``(verb, value)``; None for nobody.

    Attributes:
        began, completed: what the functions did, as (name, key), in order.
        repeated: those that began though the journal had their outcome; none ever may.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        die_at: tuple[int, ...] = (),
        die_in: tuple[str, ...] = (),
        people: Callable[[InquiryRow], tuple[Any, Any] | None] = lambda _: None,
    ) -> None:
        self.seed = seed
        self.memory = Memory()
        self.clock = WorldClock()
        self.began: list[tuple[str, str]] = []
        self.completed: list[tuple[str, str]] = []
        self.repeated: list[str] = []
        self.processes = 0
        self._die_at = list(die_at)
        self._die_in = list(die_in)
        self._people = people
        self._dying: Callable[[], None] = lambda: None

    # -- what users write ----------------------------------------------------------------------------

    async def does(self, name: str, key: str, *, lasts_s: float = 1.0) -> None:
        """Called by a function of the loop: it takes time, and may be died in."""
        self.began.append((name, key))
        if any(f'"effect":"{key}"' in record.body for record in self.memory.records.get("r", []) if not record.note):
            self.repeated.append(name)
        if name in self._die_in:
            self._die_in.remove(name)
            asyncio.get_running_loop().call_later(lasts_s / 2, self._dying)
        await asyncio.sleep(lasts_s)
        self.completed.append((name, key))

    def worker(self, name: str, *, output: Any = None, lasts_s: float = 1.0, **more: Any) -> Worker:
        """A worker that does it and returns something."""

        async def work(handoff: Handoff) -> Any:
            await self.does(name, handoff.key, lasts_s=lasts_s)
            return output if output is not None else {"by": name, "of": handoff.intent, "with": handoff.artifacts}

        return Worker(work, **more)

    def supervising(self, name: str, says: Callable[[LoopView], Any]) -> Any:
        """A supervising function that takes time."""

        async def supervise(view: LoopView) -> Any:
            await self.does(name, view.key)
            return says(view)

        return supervise

    # -- living --------------------------------------------------------------------------------------

    def run(self, loop: OrchestrationLoop, request: str = "go") -> RunRow:
        """Submit, and live until it has ended or waits for people who say nothing."""
        return run_in_virtual_time(self.play(loop, request), self.seed)

    async def play(self, loop: OrchestrationLoop, request: str = "go") -> RunRow:
        store = MemoryStore(self.memory, name="desk")
        desk = Runtime(store, self._driver(store), self.clock)
        first = msgspec.structs.replace(loop.submitted(request), folder="/home/me/loops")
        run = await desk.submit(ORCHESTRATION_LOOP, first, title=request, actor="user", run="r")
        await store.close()
        with loop.here():
            return await self.drive(run)

    async def drive(self, run: str) -> RunRow:
        while self.processes < MAX_PROCESSES:
            self.processes += 1
            store = _DyingStore(self.memory, self._die_at)
            await self._live(store, run)
            row = self.memory.runs[run]
            answered = [await self._answer(inquiry) for inquiry in self.memory.inquiries.values() if not inquiry.answer]
            if row.status == "ended" or (row.status in ("waiting", "paused") and not any(answered)):
                return row
        raise AssertionError(f"{MAX_PROCESSES} processes have driven it, and it goes on")

    async def _live(self, store: _DyingStore, run: str) -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._drive(store, run))

            def die() -> None:
                store.crash()
                task.cancel()

            self._dying = store.dies = die
        await store.close()

    async def _drive(self, store: MemoryStore, run: str) -> None:
        try:
            async with open_performers() as performers, (driver := self._driver(store, performers)).opened():
                await driver.drive(run)
        except (RunOwned, StaleOwner, StoreUnavailable, BaseExceptionGroup):
            if store._me in self.memory.living:
                raise

    def _driver(self, store: MemoryStore, performers: Mapping[type[Effect], Performer] | None = None) -> Driver:
        machines = {ORCHESTRATION_LOOP.name: ORCHESTRATION_LOOP}
        return Driver(store=store, clock=self.clock, machines=machines, performers=performers or {}, owner=store._me, poll_s=1.0)

    async def _answer(self, inquiry: InquiryRow) -> bool:
        said = self._people(inquiry)
        if said is None:
            return False
        store = MemoryStore(self.memory, name="person")
        await Runtime(store, self._driver(store), self.clock).post_answer(inquiry.inquiry, said[0], actor="ada", value=said[1])
        await store.close()
        return True

    # -- what has come of it -------------------------------------------------------------------------

    @property
    def records(self) -> list[Record]:
        return self.memory.records["r"]

    def replayed(self) -> Run[LoopMemory]:
        live: Run[LoopMemory] = Run(ORCHESTRATION_LOOP, "r")
        live.replay(packer(ORCHESTRATION_LOOP).unpack(record) for record in self.records)
        return live

    def assert_sound(self) -> None:
        """Every effect has one accepted outcome, and what has one in the journal was not begun again."""
        asked: list[str] = []
        accepted: collections.Counter[str] = collections.Counter()
        for record in self.records:
            body = msgspec.json.decode(record.body)
            asked += [f"r:{record.seq}.{index}" for index in range(len(body.get("effects", [])))]
            if not record.note and body["event"].get("effect"):
                accepted[body["event"]["effect"]] += 1
        if self.memory.runs["r"].status == "ended":
            assert accepted == dict.fromkeys(asked, 1)
        assert all(count == 1 for count in accepted.values())
        assert self.repeated == []


class _DyingStore(MemoryStore):
    """A handle whose process dies after some entry became durable, before it knows."""

    def __init__(self, memory: Memory, die_at: list[int]) -> None:
        super().__init__(memory)
        self._die_at = die_at
        self.dies: Callable[[], None] = lambda: None

    async def append(self, commit: Commit) -> None:
        await super().append(commit)
        last = commit.expected_seq + len(commit.records)
        due = [seq for seq in self._die_at if seq <= last]
        if due:
            for seq in due:
                self._die_at.remove(seq)
            self.dies()
            await asyncio.get_running_loop().create_future()  # the dead get no answer
