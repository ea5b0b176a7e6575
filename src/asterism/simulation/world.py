"""A world in a box: one run and its children, with its devices, its planner, its people and its troubles, in virtual time.

It is what users test their own plans with, and what searches for our mistakes. Ten lines::

    from asterism.constellation.profile import AgentProfile, Skill
    from asterism.simulation.device import Behaviour
    from asterism.simulation.people import Crash
    from asterism.simulation.world import World

    gpu = AgentProfile(device_id="gpu", skills=(Skill(name="train", idempotent=True),))
    plan = {"tasks": [{"task_id": "a", "device": "gpu", "skill": "train"}]}
    script = {"train": Behaviour(duration_s=3600, result={"accuracy": 0.97})}
    world = World(7, fleet=[gpu], script=script, crashes=[Crash(entry=3, after_s=60)])
    ending = world.run(plan)
    assert (ending.outcome, ending.task("a").result) == ("finished", {"accuracy": 0.97})

After every entry the invariants are checked (``watched``); a violation ends the world. One seed leaves one journal, to the byte.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from asterism.constellation.documents import PlanDocument, parse_plan
from asterism.constellation.profile import AgentProfile
from asterism.errors import InvalidInput
from asterism.flows.conversation import Conversation
from asterism.flows.secret_store import SecretStore
from asterism.kernel.journal import Record, history_line
from asterism.kernel.machine import Event, Machine
from asterism.loops.definition import OrchestrationLoop
from asterism.machines.constellation_agent.events import ConstellationSubmitted, RunOptions
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.machines.orchestration_loop.table import ORCHESTRATION_LOOP
from asterism.runtime.client import Client
from asterism.runtime.clock import Clock
from asterism.runtime.ports.device import Attempt, Device
from asterism.runtime.ports.planner import Planner
from asterism.runtime.ports.store import Commit, InquiryRow, RunRow
from asterism.runtime.registration import Registration, registered
from asterism.runtime.snapshots import INTERVAL_CHARS
from asterism.simulation.checks.checker import MACHINES, Checker, own_views
from asterism.simulation.clock import WorldClock
from asterism.simulation.crew import DriverProcesses
from asterism.simulation.desk import COMMANDS, SimulatedClient, not_here
from asterism.simulation.device import Behaviour, FakeDevice, Faults, Performance, PerformanceLog, Script, script_for
from asterism.simulation.ending import Ending, ending_of
from asterism.simulation.given import agent_class, alone, by_id, each, of_kind, whole
from asterism.simulation.invariants import InvariantViolated
from asterism.simulation.loop import Endless
from asterism.simulation.loop import run as run_in_virtual_time
from asterism.simulation.people import Answer, Answerer, Crash, Line, ScheduledEvent, StoreTrouble, answerer, nobody, said
from asterism.simulation.planner import ScriptedPlanner
from asterism.simulation.process import Process
from asterism.simulation.program import Program
from asterism.stores.memory import Memory

LONGEST_SILENCE_S = 70.0
"""How long a session goes on trying to write before it lets go, and a little more."""
MAX_STEPS = 3_000_000
"""Steps of the event loop in one world; more is a task that spins."""
QUIET_S = 7.0
"""How long nothing is written before the run must be able to say what it waits for."""
FOLDER = "/simulated"
"""Where everything of a world was started."""


class World:
    """One world; it is run once.

    Args:
        seed: of the schedule, and of every chance.
        fleet: profiles of the devices.
        script: what they do, by skill or as a function of the attempt.
        faults: trouble with devices.
        planner: at the planner port.
        people: what is said to questions.
        crashes: at which entries the driver dies.
        happenings: what comes from outside, and when.
        store: trouble with the store.
        spacing: characters of journal between two snapshots, at least.
        drivers: how many processes want to drive whenever nobody does.
        program: what is peculiar about what they run.
        resends: how often a person sends a command again that a defect has refused.
        restart_s, limit_s: virtual seconds from a crash to the next process, and until a run must have ended.
        loops, machines: loop definitions for child runs, and machines of your own with their performers.

    Attributes:
        ledger: what was really performed, by devices, workers and handlers.
        counts: how often what happened.
        refusals: what was said to people whose answer, word or command was not taken.
        vault: what was said in confidence to the process that lives now; a crash forgets it.
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
        happenings: Sequence[ScheduledEvent] = (),
        store: StoreTrouble | None = None,
        spacing: int = INTERVAL_CHARS,
        drivers: int = 1,
        program: Program = Program(),  # noqa: B008 - frozen
        resends: int = 0,
        restart_s: float = 1.0,
        limit_s: float = 14_400.0,
        loops: Iterable[OrchestrationLoop] = (),
        machines: Iterable[Registration] = (),
    ) -> None:
        self.seed = whole("seed", seed)
        self.fleet = by_id(fleet)
        self.clock: Clock = WorldClock()
        self.memory = Memory()
        self.registrations: Sequence[Registration] = each("machines", machines, Registration)
        self.machines = registered(MACHINES, self.registrations)
        self.checker = Checker(self.clock.now, self.machines, own_views(self.seed, self.registrations))
        self.ledger = PerformanceLog(self.clock.now, self._began)
        self.planner: Planner = planner or ScriptedPlanner()
        self.away: Mapping[str, str] = {}
        self.spacing = spacing
        self.program = of_kind("program", program, Program)
        self.counts: collections.Counter[str] = collections.Counter()
        self.vault = SecretStore()
        self._changed = asyncio.Event()
        self._desk = SimulatedClient(
            self.memory, self.clock, self.counts, self._changed.set, resends=whole("resends", resends, least=0), machines=self.machines
        )
        self.refusals = self._desk.refusals
        self._loops = each("loops", loops, OrchestrationLoop)
        self._script = script_for(self.fleet, {} if script is None else script)
        self._faults = of_kind("faults", faults or Faults(), Faults)
        self._people = answerer(people)
        self._crashes = each("crashes", crashes, Crash)
        self._happenings = each("happenings", happenings, ScheduledEvent)
        self.checker.patience_s = LONGEST_SILENCE_S if store else 0.0
        self._limit_s = limit_s
        self._pending = 0
        self._crew = DriverProcesses(
            self,
            seed,
            of_kind("store", store or StoreTrouble(), StoreTrouble),
            at_once=whole("drivers", drivers, least=1),
            restart_s=restart_s,
            awaits=lambda: self._pending > 0,
            changed=self._changed,
        )
        self._group: asyncio.TaskGroup

    # -- what is lived -----------------------------------------------------------------------------

    def run(
        self, plan: PlanDocument | Mapping[str, Any] | None = None, *, request: str = "simulated", options: RunOptions | None = None
    ) -> Ending:
        """Submit a plan (or a request, for the planner), and live until the run has ended or waits for people who say nothing more.

        Raises:
            InvariantViolated: the world found what must never be.
            InvalidInput, EditRefused: the plan cannot be used.
        """
        return self._lived_through(self.play(plan, request=request, options=options))

    def run_loop(self, loop: OrchestrationLoop, request: str = "simulated", *, context: Mapping[str, Any] | None = None) -> Ending:
        """The same of a loop; ``ending.memory.answer`` is what it came to.

        Raises:
            InvariantViolated: the world found what must never be.
            InvalidInput: it is no loop.
        """
        self._loops.append(of_kind("loop", loop, OrchestrationLoop))
        submitted = msgspec.structs.replace(loop.submitted(request, context), working_directory=FOLDER)
        return self._lived_through(self._live(lambda desk: desk.submit(ORCHESTRATION_LOOP, submitted, title=request, actor="user")))

    def run_flow(self, agent: type, lines: Iterable[str | Line]) -> Ending:
        """The same of a conversation with a flow agent: each line is said when it rests, and answers what it asks then.

        Raises:
            InvariantViolated: the world found what must never be.
            InvalidInput: it is no class of an agent, or nothing is said.
        """
        first, *more = said(lines)
        conversation = Conversation(agent_class(agent), user="ada", vault=self.vault)
        talk = functools.partial(self._desk.talk, conversation, more, lambda: self.vault)
        return self._lived_through(self._live(lambda desk: conversation.begin(desk, first.text, first.values), talk))

    def run_machine(self, machine: Machine[Any], first: Event, *, title: str = "simulated") -> Ending:
        """The same of a machine of your own, which this world was given, from the event that begins its run.

        Raises:
            InvariantViolated: the world found what must never be.
            InvalidInput: this world has no such machine.
            IllegalTransition, Refused: the machine does not begin with the event.
        """
        if self.machines.get(of_kind("machine", machine, Machine).name) is not machine:
            raise not_here(machine)
        of_kind("first", first, Event)
        return self._lived_through(self._live(lambda desk: desk.submit(machine, first, title=title, actor="user")))

    def run_fork(self, origin: Ending, at: int, *, new: str = "fork") -> Ending:
        """The same of a fork, called ``new``: a copy of another world's run up to an entry, which came here as a journal file.

        Raises:
            InvariantViolated, InvalidInput: as ``run``; the origin has no such entry.
        """
        return self._lived_through(self._live(lambda _: self._desk.fork(origin, at, new)))

    async def play(
        self, plan: PlanDocument | Mapping[str, Any] | None = None, *, request: str = "simulated", options: RunOptions | None = None
    ) -> Ending:
        """As ``run``, within a loop that is there already."""
        document = plan if isinstance(plan, PlanDocument) or plan is None else parse_plan(plan)
        submitted = ConstellationSubmitted(
            request=request, fleet=tuple(self.fleet.values()), options=options or RunOptions(), plan=document
        )
        return await self._live(lambda desk: desk.submit(CONSTELLATION_AGENT, submitted, title=request, actor="user"))

    def _lived_through(self, life: Coroutine[Any, Any, Ending]) -> Ending:
        try:
            return run_in_virtual_time(life, self.seed, max_steps=MAX_STEPS)
        except Endless as endless:
            raise InvariantViolated(8, str(endless), self._tail()) from None

    def _tail(self) -> list[str]:
        return [history_line(record) for records in self.memory.records.values() for record in records[-8:]]

    async def _live(self, begin: Callable[[Client], Coroutine[Any, Any, str]], *people: Callable[[], Coroutine[Any, Any, None]]) -> Ending:
        run = await begin(self._desk.first())
        self.checker.submitted(self.memory.runs[run], *self.memory.records[run])
        with alone(), contextlib.ExitStack() as stack:
            for loop in self._loops:
                stack.enter_context(loop.here())
            async with asyncio.TaskGroup() as group:
                self._group, self._run = group, run
                if not people:  # a person who talks to a conversation answers what it asks
                    self._asked([it for it in self.memory.inquiries.values() if it.run_id == run and not it.answer])
                around = [self._outside(functools.partial(self._happen, happening), f"{happening}") for happening in self._happenings]
                around.append(group.create_task(self._watch(), name="watch"))
                around += [self._outside(person, "person") for person in people]
                await self._crew.drive(run, group)
                for task in around:
                    task.cancel()
        return self._ending()

    def _ending(self) -> Ending:
        if self._crew.failure is not None and self.checker.violation is None:
            raise self._crew.failure
        self.checker.secrets = self._desk.secrets - self._desk.spoken
        self.checker.over(self.memory, self.ledger)
        if self.checker.violation is not None:
            raise self.checker.violation
        lived, lasted_s = self.memory, asyncio.get_running_loop().time()
        tree = [row for row in lived.runs.values() if self._run in (row.run_id, row.root)]
        root, *below = [ending_of(row, self.machines[row.machine], lived.records[row.run_id], lasted_s) for row in tree]
        return msgspec.structs.replace(root, children=tuple(below))

    # -- what its processes are given, and how they are watched ------------------------------------

    def devices(self, process: str) -> Mapping[str, Device]:
        """The devices as a process has them."""
        return {
            device_id: FakeDevice(profile, self.ledger, self._behaviour, self._faults, process) for device_id, profile in self.fleet.items()
        }

    def _behaviour(self, attempt: Attempt) -> Behaviour:
        """What the script says. Where that is no behaviour it is not a device that is broken, but the test, and the world is over."""
        behaviour = self._script(attempt)
        try:
            what = f"script: what it returned for task {attempt.task_id!r} of device {attempt.device_id!r}"
            return of_kind(what, behaviour, Behaviour, "return Behaviour(result=…)")
        except InvalidInput as mistaken:
            self._crew.fail(mistaken)
            raise

    def submitted(self, row: RunRow, records: Sequence[Record], opened: Sequence[InquiryRow]) -> None:
        """A process has written a child run with the questions that it begins with, and does not know it yet."""
        self.counts["children"] += 1
        self.checker.submitted(row, *records)
        self._asked(opened)
        self._desk.written.set()

    def committed(self, process: Process, commit: Commit) -> None:
        """A process has written something, and does not know it yet."""
        self.checker.committed(process.name, commit, process.live(commit.run_id))
        for row in self._desk.settled(commit):
            _ = self._outside(functools.partial(self._desk.send_again, row), f"{row.actor} sends {row.kind} again")
        self._desk.written.set()
        if self._crew.is_broken:
            self._changed.set()
            self._kill(process)
            return
        self._asked(commit.opened)
        last = commit.expected_seq + len(commit.records)
        for crash in [crash for crash in self._crashes if 0 < crash.entry <= last and self._is_of(crash, commit.run_id)]:
            self._die(crash, process)

    def _asked(self, opened: Iterable[InquiryRow]) -> None:
        """People hear of questions."""
        for inquiry in opened:
            for answer in each("people", self._people(inquiry), Answer):
                _ = self._outside(functools.partial(self._desk.answer, inquiry, answer), f"{answer.by} answers {inquiry.inquiry_id}")

    def _is_of(self, crash: Crash, run_id: str) -> bool:
        return crash.run_id in ("*", run_id if run_id != self._run else "")

    def _die(self, crash: Crash, process: Process) -> None:
        self._crashes.remove(crash)
        if crash.after_s or crash.during:
            asyncio.get_running_loop().call_later(crash.after_s, self._kill, process)
        else:
            self._kill(process)

    def _kill(self, process: Process) -> None:
        process.crash()
        if process.crashed:
            self.ledger.crash(process.name)
            self.vault = SecretStore()

    def _began(self, performance: Performance) -> None:
        self.checker.began(performance, self.ledger)
        if self._crew.is_broken:
            self._changed.set()
        process = next(process for process in self._crew.processes if process.name == performance.process)
        self._die_in((performance.task_id, performance.device_id, performance.skill), process, performance.run_id)

    def entered(self, process: Process, run_id: str) -> None:
        """A handler of a conversation that a process drives is in the body of ``on_running``."""
        self._die_in(("on_running",), process, run_id)

    def _die_in(self, what: Sequence[str], process: Process, run_id: str) -> None:
        for crash in [crash for crash in self._crashes if crash.during and crash.during in what and self._is_of(crash, run_id)]:
            self._die(crash, process)

    async def _watch(self) -> None:
        """Ask a run that is quiet what it waits for, and bound its life."""
        loop = asyncio.get_running_loop()
        seen = -1
        while loop.time() < self._limit_s and not self._crew.is_broken:
            await asyncio.sleep(QUIET_S)
            written = sum(row.seq for row in self.memory.runs.values())
            if written == seen:
                for process in self._crew.processes:
                    for run in self.memory.runs if not process.how and not process.faults else ():
                        self.checker.quiet(run, process.name, process.live(run))
            seen = written
        if not self._crew.is_broken:
            self._crew.fail(InvariantViolated(8, f"it has not ended after {self._limit_s:g} s (limit_s)", self._tail()))
        self._changed.set()

    # -- what comes from outside -------------------------------------------------------------------

    def _outside(self, comes: Callable[[], Coroutine[Any, Any, None]], name: str) -> asyncio.Task[None]:
        """Something that will come; the world goes on until it has."""

        async def come() -> None:
            try:
                await comes()
            finally:
                self._pending -= 1
                self._changed.set()

        self._pending += 1
        return self._group.create_task(come(), name=name)

    async def _happen(self, happening: ScheduledEvent) -> None:
        await asyncio.sleep(happening.at_s)
        self.counts[happening.what] += 1
        if happening.what in ("edit", "letter") or happening.what in COMMANDS:
            await self._desk.command(self._desk.aimed_at(happening, self._run), happening)
        else:
            self._befall(happening)

    def _befall(self, happening: ScheduledEvent) -> None:
        living = self._crew.living
        if happening.what == "lose":
            self.away = {**self.away, happening.device: "simulated"}
        elif happening.what == "find":
            self.away = {device: why for device, why in self.away.items() if device != happening.device}
        elif happening.what == "crash":
            for process in living:
                self._kill(process)
        else:
            if happening.what == "rob":
                self.checker.rob()
                self.memory.runs[self._run] = msgspec.structs.replace(self.memory.runs[self._run], owner="")
            self._crew.start(self._desk.aimed_at(happening, self._run), self._group)
        for process in living if happening.what in ("lose", "find") else ():
            if process.dispatcher is not None and happening.device not in self.program.unopened:
                (process.dispatcher.lose if happening.what == "lose" else process.dispatcher.find)(happening.device)
