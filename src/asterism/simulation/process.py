"""A process of the simulated world: its own store handle, its own devices, one driver; it can be killed.

It is put together as ``bootstrap`` does it, from fakes. When it crashes, its store handle dies at that
instant, its devices let go, and whatever of its tasks is still unwinding can write and perform nothing.
"""

from __future__ import annotations

import asyncio
import collections
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

from asterism.constellations.performers import AttemptPerformer, PlannerPerformer
from asterism.devices.device_notices import announcing, lost_now
from asterism.devices.dispatcher import Dispatcher
from asterism.errors import AsterismError, RunOwned, StaleOwner, StoreUnavailable
from asterism.flows.performer import flow_performers
from asterism.flows.secret_store import SecretStore
from asterism.kernel.journal import Record
from asterism.kernel.machine import Effect, EffectResult, kind_of, run_id_of
from asterism.kernel.run import Run
from asterism.loops.definition import open_performers
from asterism.machines.constellation_agent.events import AskPlanner, Dispatch
from asterism.machines.flow_agent.events import NotifyHandler
from asterism.machines.flow_agent.requests import HandlerCall, HandlerNotification
from asterism.machines.orchestration_loop.requests import ModelCall, ToolUse, WorkerCall
from asterism.runtime.clock import Clock
from asterism.runtime.driver import Driver
from asterism.runtime.ports.device import Device
from asterism.runtime.ports.performer import Performer, Report
from asterism.runtime.ports.planner import Planner, PlannerQuestion, Proposal
from asterism.runtime.ports.store import Commit, InboxRow, InquiryRow, RunRow
from asterism.runtime.registration import Registration
from asterism.simulation.checks.checker import MACHINES, Checker
from asterism.simulation.device import How as Performed
from asterism.simulation.device import PerformanceLog
from asterism.simulation.people import StoreTrouble
from asterism.simulation.program import Program, Watcher
from asterism.stores.memory import Memory, MemoryStore

POLL_S = 1.0
"""How often a process looks into the inbox; as seldom as this because it is most of what an idle world does."""

How = Literal["", "done", "crashed", "turned away", "robbed", "let go"]
"""``done``: the run has ended, or only people can move it. ``let go``: the store failed too long."""


class Surroundings(Protocol):
    """What a process knows of its world."""

    clock: Clock
    memory: Memory
    ledger: PerformanceLog
    planner: Planner
    vault: SecretStore
    away: Mapping[str, str]
    spacing: int
    program: Program
    registrations: Sequence[Registration]
    checker: Checker
    counts: collections.Counter[str]

    def devices(self, process: str) -> Mapping[str, Device]:
        """The devices of a process of that name."""
        ...

    def submitted(self, row: RunRow, records: Sequence[Record], opened: Sequence[InquiryRow]) -> None:
        """A process has written a child run with the questions that it begins with, and does not know it yet."""
        ...

    def committed(self, process: Process, commit: Commit) -> None:
        """A process has written something, and does not know it yet."""
        ...

    def entered(self, process: Process, run_id: str) -> None:
        """A handler of a conversation that a process drives is in the body of ``on_running``."""
        ...


class Process:
    """One process.

    Args:
        name: unique in its world.
        world: where it lives.
        trouble: what is wrong with its store.
        rng: chance.

    Attributes:
        store: its handle.
        watcher: told of everything it writes.
        how: how it came to an end; empty while it has not.
        faults: how often its store failed it.
    """

    def __init__(self, name: str, world: Surroundings, trouble: StoreTrouble, rng: random.Random, changed: Callable[[], None]) -> None:
        self.name = name
        self.how: How = ""
        self.faults = 0
        self.world = world
        self.store = _Handle(self, trouble, rng)
        self.watcher = Watcher(world.program.deaf_after)
        self.dispatcher: Dispatcher | None = None
        self._driver: Driver | None = None
        self._task: asyncio.Task[Any] | None = None
        self._changed = changed

    @property
    def crashed(self) -> bool:
        """True once it was killed."""
        return self.how == "crashed"

    def live(self, run_id: str) -> Run[Any] | None:
        """Its state of a run; None where it does not drive it."""
        return self._driver.live(run_id) if self._driver else None

    def crash(self) -> None:
        """Die as by kill -9."""
        if self.how:
            return
        self._end("crashed")
        self.store.crash()
        if self._task:
            self._task.cancel()

    async def drive(self, run_id: str) -> None:
        """Take a run as far as it goes. Raises what no process may end with."""
        self._task = asyncio.current_task()
        try:
            await self._live(run_id)
        except (asyncio.CancelledError, AsterismError, BaseExceptionGroup):
            if not self.crashed:
                raise
        finally:
            await self.store.close()

    async def _live(self, run_id: str) -> None:
        world = self.world
        opened = {name: device for name, device in world.devices(self.name).items() if name not in world.program.unopened}
        queue_limit = world.program.queue_limit
        async with Dispatcher(opened, world.clock.now, queue_limit=queue_limit) as dispatcher, open_performers() as loops:
            self.dispatcher = dispatcher
            for device in opened:
                if device in world.away:
                    dispatcher.lose(device, world.away[device])
            flows = flow_performers(world.vault, fleet=[device.profile for device in opened.values()])
            performers: dict[type[Effect], Performer] = {
                Dispatch: AttemptPerformer(dispatcher),
                AskPlanner: PlannerPerformer(_WhileAlive(self)),
                **{kind: _Recorded(self, kind, performer) for kind, performer in {**loops, **flows}.items() if kind is not NotifyHandler},
                NotifyHandler: _Entering(self, flows[NotifyHandler]),
            }
            driver = Driver(
                store=self.store,
                clock=world.clock,
                machines={name: world.program.machine(machine) for name, machine in MACHINES.items()},
                performers=performers,
                registrations=[self._registered(it) for it in world.registrations],
                news=lambda: lost_now(dispatcher, opened),
                owner=self.name,
                poll_s=POLL_S,
                spacing=world.spacing,
            )

            dispatcher.subscribe(announcing(driver.announce))
            self._driver = driver
            driver.observe(self.watcher)
            async with driver.opened():
                self._end(await self._driven(driver, run_id))
            driver.unobserve(self.watcher)

    def _registered(self, given: Registration) -> Registration:
        """Return a machine of the user's with its performers, as this process has them."""
        performers = {kind: _Recorded(self, kind, performer) for kind, performer in given.performers.items()}
        return Registration(self.world.program.machine(given.machine), performers)

    async def _driven(self, driver: Driver, run_id: str) -> How:
        try:
            await (driver.start(run_id) if self.world.program.starts else driver.drive(run_id))
        except RunOwned:
            return "turned away"
        except StaleOwner:
            return "robbed"
        except StoreUnavailable:
            return "let go"
        return "done"

    def _end(self, how: How) -> None:
        if not self.how:
            self.how = how
            self._changed()


class _Handle(MemoryStore):
    """A handle that takes its time, fails by chance, and tells the world what it has written."""

    def __init__(self, process: Process, trouble: StoreTrouble, rng: random.Random) -> None:
        super().__init__(process.world.memory, name=process.name, fail=self._why_failed)
        self._process = process
        self._trouble = trouble
        self._rng = rng
        self._failing = 0

    async def submit(self, row: RunRow, first: Record, *more: Record, opened: Sequence[InquiryRow] = ()) -> None:
        await self._travel()
        await super().submit(row, first, *more, opened=opened)
        self._process.world.submitted(row, [first, *more], opened)
        await self._travel()

    async def append(self, commit: Commit) -> None:
        await super().append(commit)
        self._process.world.committed(self._process, commit)
        if self._process.crashed:
            await asyncio.get_running_loop().create_future()  # the dead get no answer
        await self._travel()
        if self._rng.random() < self._trouble.lost_word:
            self._process.faults += 1
            raise StoreUnavailable("simulated: written, and the word of it was lost")

    async def inbox(self, runs: Any) -> list[InboxRow]:
        found = await super().inbox(runs)
        await self._travel()
        return found

    async def _travel(self) -> None:
        for _ in range(self._rng.randrange(4)):
            await asyncio.sleep(0)
        if self._rng.random() < self._trouble.slow:
            await asyncio.sleep(self._rng.random())

    def _why_failed(self, write: str) -> Exception | None:
        if write != "append":
            return None
        if not self._failing and self._rng.random() < self._trouble.fails:
            self._failing = self._trouble.times
        if not self._failing:
            return None
        self._failing -= 1
        self._process.faults += 1
        return StoreUnavailable("simulated: the disk is full")


class _WhileAlive:
    """The planner, as a process that may be dead asks it."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def propose(self, question: PlannerQuestion) -> Proposal:
        if self._process.crashed:
            await asyncio.get_running_loop().create_future()
        return await self._process.world.planner.propose(question)


class _Entering:
    """The performer of ``NotifyHandler``: whoever is woken when its entry is in the journal enters ``on_running``."""

    def __init__(self, process: Process, performer: Performer) -> None:
        self._process = process
        self._performer = performer

    async def perform(self, effect_id: str, request: HandlerNotification, report: Report) -> EffectResult:
        outcome = await self._performer.perform(effect_id, request, report)
        if request.effect.entered:
            self._process.world.entered(self._process, run_id_of(effect_id))
        return outcome


class _Recorded:
    """A performer of user code, as a process that may be dead has it, with everything it begins in the world's ledger."""

    def __init__(self, process: Process, kind: type[Effect], performer: Performer) -> None:
        self._process = process
        self._kind = kind
        self._performer = performer

    async def perform(self, effect_id: str, request: Any, report: Report) -> EffectResult:
        ledger = self._process.world.ledger
        how: Performed = "killed"
        if self._process.crashed:
            await asyncio.get_running_loop().create_future()
        entry = ledger.begin(effect_id, self._process.name, **_what(self._kind, request))
        try:
            outcome = await self._performer.perform(effect_id, request, report)
            how = "done"
            return outcome
        finally:
            ledger.end(entry, how)


def _what(kind: type[Effect], request: Any) -> dict[str, Any]:
    """What is performed, in the words of the ledger."""
    match request:
        case WorkerCall() | ModelCall():
            return {"task_id": request.effect.step_id, "device_id": request.effect.worker}
        case ToolUse():
            return {"task_id": request.effect.step_id, "device_id": request.effect.worker, "skill": request.effect.tool}
        case HandlerCall():
            return {"task_id": request.handler}
        case _:
            return {"task_id": kind_of(kind)}
