"""A simulated process: one driver with its own store handle and its own devices. It can be killed.

It is wired as ``bootstrap`` wires a real one, from fakes. At a crash its store handle closes, its devices stop,
and tasks that still unwind can neither write nor perform anything.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import functools
import math
import random
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar

from asterism.constellation.form import FORM as CONSTELLATION
from asterism.constellation.machine.events import AskPlanner
from asterism.constellation.planner.port import Planner, PlannerRequest, Proposal
from asterism.constellation.python.performers import PlannerPerformer, attempt_performers
from asterism.conversation.machine.events import NotifyHandler
from asterism.conversation.machine.requests import HandlerCall, HandlerNotification
from asterism.conversation.python.performer import Devices, flow_performers
from asterism.conversation.python.plans import on_fleet
from asterism.conversation.python.secret_fields import SecretStore
from asterism.devices.dispatch.dispatcher import Dispatcher
from asterism.devices.port import Device
from asterism.engine.kernel.journal import Record
from asterism.engine.kernel.machine import Effect, EffectResult, kind_of, run_id_of
from asterism.engine.kernel.run import Run
from asterism.engine.ports.performer import Performer, Report
from asterism.engine.ports.store import Commit, InquiryRow, RunRow
from asterism.engine.runtime.clock import Clock
from asterism.engine.runtime.driver import Driver
from asterism.engine.runtime.due_runs import DueRunsEngine
from asterism.engine.runtime.form import Form, idle_kinds
from asterism.errors import AsterismError, RunOwned, StaleOwner, StoreUnavailable
from asterism.loop.machine.requests import ModelCall, ToolUse, WorkerCall
from asterism.loop.python.definition import open_performers
from asterism.stores.memory import MemoryDatabase, MemoryStore
from asterism.stores.writer import InlineWriter, Work
from asterism.testing.checks.checker import Checker
from asterism.testing.device import PerformanceLog, PerformanceStatus
from asterism.testing.invariants import InvariantViolated
from asterism.testing.people import StoreFaults
from asterism.testing.program import CountingObserver, Program

GRACE_S = 3.0
"""Seconds for the work under way when a server is stopped."""
LOOK_S = 2.0
"""Seconds between two looks of a server at the store, if nothing wakes it; a timer may fire so much later."""
IDLE_LOOK_S = 30.0
"""The longest time between two looks if nothing is due before: looks that would find nothing are left out."""
POLL_S = 1.0
"""Seconds between two reads of the inbox; polling is most of the work of an idle world."""

T = TypeVar("T")
ExitReason = Literal["", "done", "crashed", "run owned", "fenced", "store unavailable"]
"""``done``: the run has ended, is paused or waits for people. ``run owned``: another process owned it.
``store unavailable``: for too long."""


class ProcessEnvironment(Protocol):
    """The parts of a world that a process uses."""

    clock: Clock
    database: MemoryDatabase
    performance_log: PerformanceLog
    planner: Planner
    secret_store: SecretStore
    lost_devices: Mapping[str, str]
    interval_chars: int
    program: Program
    forms: Mapping[str, Form]
    checker: Checker
    counts: collections.Counter[str]

    def devices(self, process: str) -> Mapping[str, Device]:
        """Return the devices of the process of this name."""
        ...

    def submitted(self, row: RunRow, records: Sequence[Record], opened: Sequence[InquiryRow]) -> None:
        """Record a child run with its first inquiries, before the reply of the store reaches the process."""
        ...

    def committed(self, process: Process, commit: Commit) -> None:
        """Check a commit, before the reply of the store reaches the process."""
        ...

    def entered(self, process: Process, run_id: str) -> None:
        """Note that a handler of the process has entered ``on_running``."""
        ...


class Process:
    """One process.

    Args:
        name: unique name in its world.
        world: the surroundings of the process.
        store_faults: random faults of its store handle.
        rng: source of its random draws.
        changed: called when the process ends.

    Attributes:
        store: its store handle.
        observer: observer of its entries.
        exit_reason: reason why it ended; empty while it runs.
        store_failures: number of failed writes.
        is_stopping: True if it is a server that is being stopped: it starts nothing new, whatever is due.
    """

    def __init__(
        self, name: str, world: ProcessEnvironment, store_faults: StoreFaults, rng: random.Random, changed: Callable[[], None]
    ) -> None:
        self.name = name
        self.exit_reason: ExitReason = ""
        self.store_failures = 0
        self.is_stopping = False
        self.world = world
        self.store = _ProcessStore(self, store_faults, rng)
        self.observer = CountingObserver(world.program.observer_fails_after)
        self.dispatcher: Dispatcher | None = None
        self._driver: Driver | None = None
        self._task: asyncio.Task[Any] | None = None
        self._changed = changed

    @property
    def crashed(self) -> bool:
        """Return True if the process was killed."""
        return self.exit_reason == "crashed"

    def live(self, run_id: str) -> Run[Any] | None:
        """Return its live state of a run; None if it does not drive the run."""
        return self._driver.live(run_id) if self._driver else None

    def crash(self) -> None:
        """Stop at once, as by kill -9."""
        if self.exit_reason:
            return
        self._end("crashed")
        self.store.crash()
        if self._task:
            self._task.cancel()

    async def drive(self, run_id: str) -> None:
        """Drive a run as far as possible. Raises errors that no process may end with."""
        self._task = asyncio.current_task()
        try:
            if not self.crashed:  # it may be killed before it has begun
                await self._run_driver(run_id)
        except (asyncio.CancelledError, AsterismError, BaseExceptionGroup):
            if not self.crashed:
                raise
        finally:
            await self.store.close()

    async def _run_driver(self, run_id: str) -> None:
        world = self.world
        opened = {name: device for name, device in world.devices(self.name).items() if name not in world.program.unopened}
        queue_limit = world.program.queue_limit
        planning = PlannerPerformer(_ProcessPlanner(self), world.program.planner_timeout_s)
        chance = random.Random(f"{self.name} waits").random  # as in a server, but for the seed
        serving = Dispatcher(opened, world.clock.now, queue_limit=queue_limit, lost_s=math.inf, chance=chance)
        async with serving as dispatcher, open_performers() as loops, planning:
            self.dispatcher = dispatcher
            for device in opened:
                if device in world.lost_devices:
                    dispatcher.lose(device, world.lost_devices[device])
            fleet = tuple(device.profile for device in opened.values())
            flows = flow_performers(world.secret_store, devices=Devices(fleet, prepares={CONSTELLATION.machine.name: on_fleet}))
            performers: dict[type[Effect], Performer] = {
                **attempt_performers(dispatcher),
                AskPlanner: planning,
                **{kind: _RecordedPerformer(self, kind, performer) for kind, performer in {**loops, **flows}.items()},
                NotifyHandler: _EntryReporter(self, flows[NotifyHandler]),
            }
            driver = Driver(
                store=self.store,
                clock=world.clock,
                forms={name: self._of_process(form, performers) for name, form in world.forms.items()},
                initial_events=dispatcher.first_events,
                owner=self.name,
                poll_s=POLL_S,
                snapshot_interval_chars=world.interval_chars,
            )

            dispatcher.subscribe(driver.announce)
            self._driver = driver
            driver.observe(self.observer)
            async with driver.opened():
                self._end(await (self._serve(driver) if world.program.serves else self._drive(driver, run_id)))
            driver.unobserve(self.observer)

    async def _serve(self, driver: Driver) -> ExitReason:
        """Drive what is due, until this server is stopped."""
        world, rng = self.world, random.Random(f"{self.name} serves")
        idle = idle_kinds(world.forms.values())
        engine = DueRunsEngine(self.store, world.clock, ("",), lambda _: None, idle_kinds=idle, look_s=LOOK_S, before=driver.match_events)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(rng.choice((None, 3.0, 20.0, 100.0))):
                await engine.serve(functools.partial(self._drive_due, driver), concurrency=rng.choice((1, 10)))
        world.checker.released.add(self.name)
        return "done"

    async def _drive_due(self, driver: Driver, row: RunRow) -> None:
        try:
            await driver.drive_acquired(row, _is_drivable, grace_s=self._stopping)
        finally:
            now = self.world.database.runs[row.run_id]
            if now.tries > row.tries and not self.crashed:
                self.world.checker.released.add(self.name)
                self.world.counts["stuck"] += 1
                if not self.store_failures:
                    raise InvariantViolated(8, f"run {row.run_id} is stuck: {now.problem}", self.world.checker.history(row.run_id))

    def _stopping(self) -> float:
        """Note that this server stops; return the seconds for the work under way."""
        self.is_stopping = True
        return 0.0 if self.crashed else GRACE_S

    def _of_process(self, form: Form, performers: Mapping[type[Effect], Performer]) -> Form:
        """Return a form with performers that belong to this process, and the defects of its program."""
        own = {kind: _RecordedPerformer(self, kind, performer) for kind, performer in form.performers.items()}
        driven = form.performed_by({**performers, **own})
        return dataclasses.replace(driven, machine=self.world.program.machine(form.machine))

    async def _drive(self, driver: Driver, run_id: str) -> ExitReason:
        try:
            await (driver.start(run_id) if self.world.program.starts else driver.drive(run_id))
        except RunOwned:
            return "run owned"
        except StaleOwner:
            return "fenced"
        except StoreUnavailable:
            return "store unavailable"
        return "done"

    def _end(self, reason: ExitReason) -> None:
        if not self.exit_reason:
            self.exit_reason = reason
            self._changed()


async def _is_drivable(row: RunRow) -> None:
    """Check nothing: every process of a world can drive all of its runs."""


class _ProcessStore(MemoryStore):
    """The store of a process, which reports every entry to its world.

    Args:
        process: its process.
        faults: random faults of its writer.
        rng: source of its random draws.
    """

    def __init__(self, process: Process, faults: StoreFaults, rng: random.Random) -> None:
        self._process = process
        self._rng = rng
        self._faulty = _FaultyWriter(process, faults, rng)
        super().__init__(process.world.database, name=process.name, writer=self._faulty)

    def _submit(self, connection: sqlite3.Connection, row: RunRow, records: Sequence[Record], opened: Sequence[InquiryRow]) -> None:
        super()._submit(connection, row, records, opened)
        self._faulty.reports.append(functools.partial(self._process.world.submitted, row, records, opened))

    def _append(self, connection: sqlite3.Connection, commit: Commit) -> None:
        super()._append(connection, commit)
        self._faulty.reports.append(functools.partial(self._process.world.committed, self._process, commit))

    async def wait_for_work(self, timeout_s: float) -> None:
        """Wait as the base class does, but leave out the looks before the next time at which a run is due."""
        runs, living = self.database.runs.values(), self.database.living
        left_behind = any(row.owner and row.owner not in living for row in runs)
        due_at = min((row.due_at for row in runs if row.due_at is not None), default=math.inf)
        due_s = 0.0 if left_behind else max(0.0, due_at - self._process.world.clock.now())
        await super().wait_for_work(min(due_s + timeout_s * self._rng.random(), IDLE_LOOK_S))


class _FaultyWriter(InlineWriter):
    """A writer with random delays and faults, whose process can be killed between a commit and its reply.

    Attributes:
        reports: called after the commit of the transaction under way, before the reply.
    """

    def __init__(self, process: Process, faults: StoreFaults, rng: random.Random) -> None:
        database = process.world.database
        super().__init__(database.connection, database.path, database.lock)
        self.reports: list[Callable[[], None]] = []
        self._process = process
        self._faults = faults
        self._rng = rng
        self._failing = 0

    async def write(self, work: Work[T]) -> T:
        await self._delay()
        result = await super().write(work)
        reports = self.reports  # of this transaction: nothing else has run since its commit
        for report in reports:
            report()
        if self._process.crashed:
            await asyncio.get_running_loop().create_future()  # a crashed process gets no reply
        await self._delay()
        if reports and self._rng.random() < self._faults.lost_reply:
            self._process.store_failures += 1
            raise StoreUnavailable("simulated: the write succeeded but its reply was lost")
        return result

    async def read(self, work: Work[T]) -> T:
        result = await super().read(work)
        await self._delay()
        return result

    def perform(self, group: Sequence[Work[Any]], *, writes: bool) -> Sequence[object]:
        self.reports = []
        return super().perform(group, writes=writes)

    def commit(self) -> None:
        if self.reports and self._fails():
            self._process.store_failures += 1
            full = sqlite3.OperationalError("simulated")
            full.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise full
        super().commit()

    def _fails(self) -> bool:
        if not self._failing and self._rng.random() < self._faults.fails:
            self._failing = self._faults.times
        is_failing = self._failing > 0
        self._failing -= is_failing
        return is_failing

    async def _delay(self) -> None:
        for _ in range(self._rng.randrange(4)):
            await asyncio.sleep(0)
        if self._rng.random() < self._faults.slow:
            await asyncio.sleep(self._rng.random())


class _ProcessPlanner:
    """The planner of the world, which does not reply to a crashed process."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def propose(self, question: PlannerRequest) -> Proposal:
        if self._process.crashed:
            await asyncio.get_running_loop().create_future()
        return await self._process.world.planner.propose(question)


class _EntryReporter:
    """A performer of ``NotifyHandler`` that reports when a handler enters ``on_running``."""

    def __init__(self, process: Process, performer: Performer) -> None:
        self._process = process
        self._performer = performer

    async def perform(self, effect_id: str, request: HandlerNotification, report: Report) -> EffectResult:
        result = await self._performer.perform(effect_id, request, report)
        if request.effect.entered:
            self._process.world.entered(self._process, run_id_of(effect_id))
        return result


class _RecordedPerformer:
    """A performer of user code that logs its performances, and performs nothing after a crash."""

    def __init__(self, process: Process, kind: type[Effect], performer: Performer) -> None:
        self._process = process
        self._kind = kind
        self._performer = performer

    async def perform(self, effect_id: str, request: Any, report: Report) -> EffectResult:
        log = self._process.world.performance_log
        status: PerformanceStatus = "killed"
        if self._process.crashed:
            await asyncio.get_running_loop().create_future()
        entry = log.begin(effect_id, self._process.name, **_log_fields(self._kind, request))
        try:
            result = await self._performer.perform(effect_id, request, report)
            status = "done"
            return result
        finally:
            log.end(entry, status)


def _log_fields(kind: type[Effect], request: Any) -> dict[str, Any]:
    """Return the fields of the performance log for a request."""
    match request:
        case WorkerCall() | ModelCall():
            return {"task_id": request.effect.step_id, "device_id": request.effect.worker}
        case ToolUse():
            return {"task_id": request.effect.step_id, "device_id": request.effect.worker, "skill": request.effect.tool}
        case HandlerCall():
            return {"task_id": request.handler}
        case _:
            return {"task_id": kind_of(kind)}
