"""Deterministic simulation of one run and its child runs, with devices, planner, people and faults, in virtual time.

Users test their own plans with it, and the project searches for its own defects with it. Ten lines::

    from asterism.engine.kernel.profile import AgentProfile, Skill
    from asterism.testing.device import Behaviour
    from asterism.testing.people import Crash
    from asterism.testing.world import World

    gpu = AgentProfile(device_id="gpu", skills=(Skill(name="train", idempotent=True),))
    plan = {"tasks": [{"task_id": "a", "device": "gpu", "skill": "train"}]}
    script = {"train": Behaviour(duration_s=3600, result={"accuracy": 0.97})}
    world = World(7, fleet=[gpu], script=script, crashes=[Crash(entry=3, after_s=60)])
    ending = world.run(plan)
    assert (ending.outcome, ending.task("a").result) == ("finished", {"accuracy": 0.97})

The invariants are checked after every journal entry (``checks``); a violation ends the simulation.
The same seed always produces a byte-identical journal.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from asterism.constellation.machine.events import RunOptions
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.planner.port import Planner
from asterism.conversation.python.conversation import Conversation
from asterism.conversation.python.secret_fields import SecretStore
from asterism.devices.port import Attempt, Device
from asterism.engine.kernel.journal import Record, history_line
from asterism.engine.kernel.machine import Event, Machine
from asterism.engine.kernel.profile import AgentProfile
from asterism.engine.ports.store import Commit, InquiryRow, RunRow
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.clock import Clock
from asterism.engine.runtime.form import Form, by_name
from asterism.engine.runtime.snapshots import INTERVAL_CHARS
from asterism.loop.machine.table import ORCHESTRATION_LOOP
from asterism.loop.python.definition import OrchestrationLoop
from asterism.stores.memory import MemoryDatabase
from asterism.testing.checks.checker import FORMS, Checker
from asterism.testing.checks.view_checks import VIEWS_CHECKED_EVERY
from asterism.testing.clock import WorldClock
from asterism.testing.device import Behaviour, Faults, Performance, PerformanceLog, Script
from asterism.testing.driver_processes import DriverProcesses
from asterism.testing.ending import Ending, ending_of
from asterism.testing.invariants import InvariantViolated
from asterism.testing.loop import Endless
from asterism.testing.loop import run as run_in_virtual_time
from asterism.testing.people import Answer, Answerer, Crash, Line, ScheduledEvent, StoreFaults, check_answerer, check_lines, nobody
from asterism.testing.planner import ScriptedPlanner
from asterism.testing.plans import AnyPlan, submission
from asterism.testing.process import Process
from asterism.testing.program import Program
from asterism.testing.remote import RemoteFaults
from asterism.testing.simulated_client import COMMANDS, SimulatedClient
from asterism.testing.validation import check_agent_class, check_each, check_fleet, check_int, check_type, unwrapped_group
from asterism.testing.world_devices import WorldDevices

MAX_STORE_OUTAGE_S = 70.0
"""Upper bound of the time that an executor retries a write before it releases its run."""
MAX_STEPS = 3_000_000
"""Event-loop steps allowed in one world; more means that a task spins."""
QUIET_S = 7.0
"""Seconds without a write after which every run must be able to name what it waits for."""
FOLDER = "/simulated"
"""Working directory of the runs of a world."""


class World:
    """One simulated run with its surroundings. A world runs once.

    Args:
        seed: seed of the schedule and of every random draw.
        fleet: profiles of the devices.
        script: behaviour of the devices, by skill or as a function of the attempt.
        faults: random device faults.
        planner: the planner; by default a scripted one without replies.
        people: function from an inquiry to the answers people give.
        crashes: journal entries or functions at which the driving process is killed.
        scheduled_events: commands, device losses and other events from outside, each at its time.
        store: random store faults.
        interval_chars: minimum number of journal characters between two snapshots.
        drivers: number of processes started whenever no process drives the run.
        questions: number of questions that a remote device asks in an attempt; remote devices are those whose profile
            has ``reattach``.
        remote_faults: random faults of remote devices.
        program: properties of the program that the processes run, such as its defects.
        resends: how often a person sends a command again after a defect rejected it.
        restart_s, limit_s: virtual seconds from a crash to the next process; and until the run must have ended.
        loops, machines: loop definitions for child runs; the forms of your own machines, with their performers.
        database: database of the runs; by default a new one in memory.

    Attributes:
        database: the rows of its runs, questions and commands can be read in it at any moment.
        performance_log: every effect that devices, workers and handlers really performed.
        counts: number of events by kind, such as ``counts["crashed"]``.
        refusals: error texts of refused answers, messages and commands.
        far_sides: the other sides of the remote devices, by device id.
        ending: the final state of the run; None until it ends.
        secret_store: secrets held by the current process; a crash clears them.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        fleet: Iterable[AgentProfile] = (),
        script: Script | Mapping[str, Behaviour] | None = None,
        faults: Faults | None = None,
        planner: Planner | None = None,
        people: Answerer = nobody,
        crashes: Sequence[Crash] = (),
        scheduled_events: Sequence[ScheduledEvent] = (),
        store: StoreFaults | None = None,
        interval_chars: int = INTERVAL_CHARS,
        drivers: int = 1,
        questions: Callable[[Attempt], int] = lambda _: 0,
        remote_faults: RemoteFaults | None = None,
        program: Program = Program(),  # noqa: B008 - frozen
        resends: int = 0,
        restart_s: float = 1.0,
        limit_s: float = 14_400.0,
        loops: Iterable[OrchestrationLoop] = (),
        machines: Iterable[Form] = (),
        database: MemoryDatabase | None = None,
    ) -> None:
        self.seed = check_int("seed", seed)
        self.fleet = check_fleet(fleet)
        self.clock: Clock = WorldClock()
        self.database = database or MemoryDatabase()
        self.forms: Mapping[str, Form] = by_name(FORMS.values(), check_each("machines", machines, Form))
        self.checker = Checker(self.clock.now, self.forms, checks_views=not self.seed % VIEWS_CHECKED_EVERY)
        self.performance_log = PerformanceLog(self.clock.now, self._performance_started)
        self.planner: Planner = planner or ScriptedPlanner()
        self.lost_devices: Mapping[str, str] = {}
        self.interval_chars = interval_chars
        self.program = check_type("program", program, Program)
        self.counts: collections.Counter[str] = collections.Counter()
        self.secret_store = SecretStore()
        self._changed = asyncio.Event()
        self._client = SimulatedClient(
            self.database, self.clock, self.counts, self._changed.set, resends=check_int("resends", resends, least=0), forms=self.forms
        )
        self.refusals = self._client.refusals
        self._loops = check_each("loops", loops, OrchestrationLoop)
        self._people = check_answerer(people)
        self._crashes = check_each("crashes", crashes, Crash)
        self._scheduled_events = check_each("scheduled_events", scheduled_events, ScheduledEvent)
        self.checker.max_store_outage_s = MAX_STORE_OUTAGE_S if store else 0.0
        self.ending: Ending | None = None
        self._pending = 0
        self._processes = DriverProcesses(
            world=self,
            seed=seed,
            store_faults=check_type("store", store or StoreFaults(), StoreFaults),
            at_once=check_int("drivers", drivers, least=1),
            restart_s=restart_s,
            limit_s=limit_s,
            has_pending=lambda: self._pending > 0,
            changed=self._changed,
        )
        self._devices = WorldDevices(self.fleet, script, faults, self.performance_log, questions, remote_faults)
        self._devices.report_to(self.checker.remote_started, self._processes.fail)
        self.far_sides = self._devices.far_sides
        self._group: asyncio.TaskGroup

    # -- running --------------------------------------------------------------------------------------

    def run(
        self, plan: AnyPlan | None = None, *, request: str = "simulated", options: RunOptions | None = None, params: Mapping[str, Any] = {}
    ) -> Ending:
        """Submit a plan with its parameters, or a request, and run until the end or until no person will act any more.

        Raises:
            InvariantViolated: an invariant does not hold.
            InvalidInput, EditRefused: the plan or a parameter is invalid.
        """
        return self._run_to_end(self.execute(plan, request=request, options=options, params=params))

    def run_loop(self, loop: OrchestrationLoop, request: str = "simulated", *, context: Mapping[str, Any] | None = None) -> Ending:
        """Run a loop; ``ending.memory.answer`` is its answer.

        Raises:
            InvariantViolated: an invariant does not hold.
            InvalidInput: ``loop`` is not a loop.
        """
        self._loops.append(check_type("loop", loop, OrchestrationLoop))
        submitted = msgspec.structs.replace(loop.submitted(request, context), working_directory=FOLDER)
        return self._run_to_end(self._drive(lambda client: client.submit(ORCHESTRATION_LOOP, submitted, title=request, actor="user")))

    def run_flow(self, agent: type, lines: Iterable[str | Line]) -> Ending:
        """Run a conversation with a flow agent. Each line is sent when the conversation waits for its user.

        Raises:
            InvariantViolated: an invariant does not hold.
            InvalidInput: ``agent`` is not an agent class, or there are no lines.
        """
        first, *more = check_lines(lines)
        conversation = Conversation(check_agent_class(agent), user="ada", vault=self.secret_store)
        person = functools.partial(self._client.converse, conversation, more, lambda: self.secret_store)
        return self._run_to_end(self._drive(lambda client: conversation.begin(client, first.text, first.values), person))

    def run_machine(self, machine: Machine[Any], first: Event, *, title: str = "simulated") -> Ending:
        """Run one of the world's own machines, starting with the event ``first``.

        Raises:
            InvariantViolated: an invariant does not hold.
            InvalidInput: this world has no such machine.
            IllegalTransition, Refused: the machine does not start with this event.
        """
        self._client.check_machine(check_type("machine", machine, Machine))
        check_type("first", first, Event)
        return self._run_to_end(self._drive(lambda client: client.submit(machine, first, title=title, actor="user")))

    def run_fork(self, origin: Ending, at: int, *, new: str = "fork") -> Ending:
        """Import the run of another world, fork it at an entry under the id ``new``, and run the fork.

        Raises:
            InvariantViolated, InvalidInput: as in ``run``; or the origin has no such entry.
        """
        return self._run_to_end(self._drive(lambda _: self._client.fork(origin, at, new)))

    async def execute(
        self, plan: AnyPlan | None = None, *, request: str = "simulated", options: RunOptions | None = None, params: Mapping[str, Any] = {}
    ) -> Ending:
        """Run a plan as ``run`` does, inside a loop in virtual time that is already running (``testing.loop``)."""
        submitted = submission(plan, params, self.fleet.values(), request, options)
        return await self._drive(lambda client: client.submit(CONSTELLATION_AGENT, submitted, title=request, actor="user"))

    def _run_to_end(self, execution: Coroutine[Any, Any, Ending]) -> Ending:
        try:
            return run_in_virtual_time(execution, self.seed, max_steps=MAX_STEPS)
        except Endless as endless:
            raise InvariantViolated(8, str(endless), self._last_entries()) from None

    def _last_entries(self) -> list[str]:
        return [history_line(record) for records in self.database.records.values() for record in records[-8:]]

    async def _drive(self, begin: Callable[[Client], Coroutine[Any, Any, str]], *people: Callable[[], Coroutine[Any, Any, None]]) -> Ending:
        run = await begin(self._client.first())
        self.checker.submitted(self.database.runs[run], *self.database.records[run])
        with unwrapped_group(), contextlib.ExitStack() as stack:
            for loop in self._loops:
                stack.enter_context(loop.here())
            async with asyncio.TaskGroup() as group:
                self._group, self._run = group, run
                if not people:  # the lines of a conversation answer its inquiries
                    self._ask_people([it for it in self.database.inquiries.values() if it.run_id == run and not it.answer])
                tasks = [self._spawn(functools.partial(self._fire, event), f"{event}") for event in self._scheduled_events]
                tasks.append(group.create_task(self._watch(), name="watch"))
                tasks += [self._spawn(person, "person") for person in people]
                await self._processes.drive(run, group)
                for task in tasks:
                    task.cancel()
        self.ending = self._ending()
        return self.ending

    def _ending(self) -> Ending:
        if self._processes.failure is not None and self.checker.violation is None:
            raise self._processes.failure
        self.checker.secrets = self._client.secrets - self._client.public_texts
        self.checker.check_end(self.database, self.performance_log, self.far_sides.jobs)
        if self.checker.violation is not None:
            raise self.checker.violation
        database, lasted_s = self.database, asyncio.get_running_loop().time()
        tree = [row for row in database.runs.values() if self._run in (row.run_id, row.root)]
        root, *below = [ending_of(row, self.forms[row.machine].machine, database.records[row.run_id], lasted_s) for row in tree]
        return msgspec.structs.replace(root, children=tuple(below))

    # -- surroundings of the processes, and checks ------------------------------------------------

    def devices(self, process: str) -> Mapping[str, Device]:
        """Return fresh devices for a process."""
        return self._devices.of(process)

    def submitted(self, row: RunRow, records: Sequence[Record], opened: Sequence[InquiryRow]) -> None:
        """Record a child run that a process has just written. The process has not had the reply yet."""
        self.counts["children"] += 1
        self.checker.submitted(row, *records)
        self._ask_people(opened)
        self._client.written.set()

    def committed(self, process: Process, commit: Commit) -> None:
        """Check a commit that a process has just written. The process has not had the reply yet."""
        self.checker.committed(process.name, commit, process.live(commit.run_id))
        for row in self._client.record_verdicts(commit):
            _ = self._spawn(functools.partial(self._client.send_again, row), f"{row.actor} resends {row.kind}")
        self._client.written.set()
        if self._processes.has_failed:
            self._changed.set()
            self._kill(process)
            return
        self._ask_people(commit.opened)
        last = commit.expected_seq + len(commit.records)
        for crash in [crash for crash in self._crashes if 0 < crash.entry <= last and self._matches(crash, commit.run_id)]:
            self._trigger(crash, process)

    def _ask_people(self, opened: Iterable[InquiryRow]) -> None:
        """Schedule the answers of people to new inquiries."""
        for inquiry in opened:
            for answer in check_each("people", self._people(inquiry), Answer):
                _ = self._spawn(functools.partial(self._client.answer, inquiry, answer), f"{answer.by} answers {inquiry.inquiry_id}")

    def _matches(self, crash: Crash, run_id: str) -> bool:
        return crash.run_id in ("*", run_id if run_id != self._run else "")

    def _trigger(self, crash: Crash, process: Process) -> None:
        self._crashes.remove(crash)
        if crash.after_s or crash.during:
            asyncio.get_running_loop().call_later(crash.after_s, self._kill, process)
        else:
            self._kill(process)

    def _kill(self, process: Process) -> None:
        process.crash()
        if process.crashed:
            self.performance_log.crash(process.name)
            self.secret_store = SecretStore()

    def _performance_started(self, performance: Performance) -> None:
        self.checker.performance_started(performance, self.performance_log)
        if self._processes.has_failed:
            self._changed.set()
        process = next(process for process in self._processes.processes if process.name == performance.process)
        self._crash_during((performance.task_id, performance.device_id, performance.skill), process, performance.run_id)

    def entered(self, process: Process, run_id: str) -> None:
        """Trigger crashes during ``on_running``: a handler of this process has entered its body."""
        self._crash_during(("on_running",), process, run_id)

    def _crash_during(self, what: Sequence[str], process: Process, run_id: str) -> None:
        for crash in [crash for crash in self._crashes if crash.during and crash.during in what and self._matches(crash, run_id)]:
            self._trigger(crash, process)

    async def _watch(self) -> None:
        """Check what quiet runs wait for, and fail the world when its time limit passes."""
        loop, seen = asyncio.get_running_loop(), -1
        while loop.time() < self._processes.limit_s and not self._processes.has_failed:
            await asyncio.sleep(QUIET_S)
            written = sum(row.seq for row in self.database.runs.values())
            if written == seen:
                for process in (it for it in self._processes.running if not it.store_failures and not it.is_stopping):
                    for run, row in self.database.runs.items():
                        self.checker.check_quiet(row, process.name, process.live(run))
            seen = written
        if not self._processes.has_failed:
            why = f"the run has not ended after {self._processes.limit_s:g} s (limit_s)"
            self._processes.fail(InvariantViolated(8, why, self._last_entries()))
        self._changed.set()

    # -- events from outside ---------------------------------------------------------------------

    def _spawn(self, action: Callable[[], Coroutine[Any, Any, None]], name: str) -> asyncio.Task[None]:
        """Run something from outside as a task; the world waits until the task has finished."""

        async def run() -> None:
            try:
                await action()
            finally:
                self._pending -= 1
                self._changed.set()

        self._pending += 1
        return self._group.create_task(run(), name=name)

    async def _fire(self, event: ScheduledEvent) -> None:
        await asyncio.sleep(event.at_s)
        self.counts[event.what] += 1
        if event.what in ("edit", "inbox_row") or event.what in COMMANDS:
            await self._client.command(self._client.target_of(event, self._run), event)
        else:
            self._inject(event)

    def _inject(self, event: ScheduledEvent) -> None:
        running = self._processes.running
        if event.device in self.far_sides:
            self.far_sides.inject(event.device, event.what)
            return
        if event.what == "lose":
            self.lost_devices = {**self.lost_devices, event.device: "simulated"}
        elif event.what == "find":
            self.lost_devices = {device: why for device, why in self.lost_devices.items() if device != event.device}
        elif event.what == "crash":
            for process in running:
                self._kill(process)
        else:
            if event.what == "fence":
                self.checker.fence()
                self.database.connection.execute("UPDATE runs SET owner = '' WHERE run = ?", (self._run,))
            self._processes.start(self._client.target_of(event, self._run), self._group)
        for process in running if event.what in ("lose", "find") else ():
            if process.dispatcher is not None and event.device not in self.program.unopened:
                (process.dispatcher.lose if event.what == "lose" else process.dispatcher.find)(event.device)
