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

After every entry that becomes durable the ten invariants are checked (``invariants``); a violation ends the world
with ``InvariantViolated``. One seed is one story, to the byte. Not here: a second root in the same world.
"""

from __future__ import annotations

import asyncio
import collections
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from asterism.constellation.documents import PlanDocument, parse_plan
from asterism.constellation.profile import AgentProfile
from asterism.errors import AsterismError, InvalidInput, Refused
from asterism.kernel.journal import Record, story_line
from asterism.kernel.machine import Event
from asterism.kernel.run import Run, event_body, packer
from asterism.machines.constellation_agent.events import Edited, RaiseLimits, RunOptions, Submitted
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.machines.control import Answered, Cancel, Pause, Unpause
from asterism.runtime.clock import Clock
from asterism.runtime.driver import Driver
from asterism.runtime.ports import Commit, Device, InboxRow, InquiryRow, Planner, RunRow
from asterism.runtime.runtime import Runtime
from asterism.runtime.snapshots import SPACING
from asterism.simulation.checkers import Checker
from asterism.simulation.clock import WorldClock
from asterism.simulation.device import Behaviour, FakeDevice, Faults, Ledger, Performance, Script, by_skill
from asterism.simulation.ending import Ending
from asterism.simulation.invariants import InvariantViolated
from asterism.simulation.loop import Endless
from asterism.simulation.loop import run as run_in_virtual_time
from asterism.simulation.people import Answer, Answerer, Crash, Happening, StoreTrouble, nobody
from asterism.simulation.planner import ScriptedPlanner
from asterism.simulation.process import MACHINES, Process
from asterism.stores.memory import Memory, MemoryStore

MAX_PROCESSES = 200
"""Processes of one world; one that needs more goes round in circles."""
LONGEST_SILENCE_S = 70.0
"""How long a session goes on trying to write before it lets go, and a little more."""
MAX_STEPS = 3_000_000
"""Steps of the event loop in one world; more is a task that spins."""
QUIET_S = 7.0
"""How long nothing is written before the run must be able to say what it waits for."""

_COMMANDS: Mapping[str, Event] = {
    "cancel": Cancel(reason="simulated"),
    "pause": Pause(),
    "unpause": Unpause(),
    "allow": RaiseLimits(max_tokens=2**53),
}


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
        restart_s: seconds from a crash to the next process.
        limit_s: virtual seconds after which a run that has not ended counts as one that never will.

    Attributes:
        ledger: what the devices really did.
        counts: how often what happened.
        refusals: what was said to people whose answer or command was not taken.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        fleet: Iterable[AgentProfile],
        script: Script | Mapping[str, Behaviour] | None = None,
        faults: Faults | None = None,
        planner: Planner | None = None,
        people: Answerer = nobody,
        crashes: Sequence[Crash] = (),
        happenings: Sequence[Happening] = (),
        store: StoreTrouble | None = None,
        spacing: int = SPACING,
        drivers: int = 1,
        restart_s: float = 1.0,
        limit_s: float = 14_400.0,
    ) -> None:
        self.seed = seed
        self.fleet = {profile.device_id: profile for profile in fleet}
        self.clock: Clock = WorldClock()
        self.memory = Memory()
        self.checker = Checker(self.clock.now)
        self.ledger = Ledger(self.clock.now, self._began)
        self.planner: Planner = planner or ScriptedPlanner()
        self.away: Mapping[str, str] = {}
        self.spacing = spacing
        self.counts: collections.Counter[str] = collections.Counter()
        self.refusals: list[str] = []
        self._script = by_skill(script) if isinstance(script, Mapping) else script
        self._faults = faults
        self._people = people
        self._crashes = list(crashes)
        self._happenings = happenings
        self._trouble = store or StoreTrouble()
        self.checker.patience_s = LONGEST_SILENCE_S if store else 0.0
        self._drivers = drivers
        self._restart_s = restart_s
        self._limit_s = limit_s
        self._processes: list[Process] = []
        self._pending = 0
        self._changed = asyncio.Event()
        self._failure: BaseException | None = None
        self._group: asyncio.TaskGroup

    def run(
        self, plan: PlanDocument | Mapping[str, Any] | None = None, *, request: str = "simulated", options: RunOptions | None = None
    ) -> Ending:
        """Submit a plan (or a request, for the planner), and live until the run has ended or waits for people who say nothing more.

        Raises:
            InvariantViolated: the world found what must never be.
            InvalidInput, EditRefused: the plan cannot be used.
        """
        try:
            return run_in_virtual_time(self.play(plan, request=request, options=options), self.seed, max_steps=MAX_STEPS)
        except Endless as endless:
            raise InvariantViolated(8, str(endless), self._tail()) from None

    def _tail(self) -> list[str]:
        return [story_line(record) for records in self.memory.records.values() for record in records[-8:]]

    async def play(
        self, plan: PlanDocument | Mapping[str, Any] | None = None, *, request: str = "simulated", options: RunOptions | None = None
    ) -> Ending:
        """As ``run``, within a loop that is there already."""
        document = plan if isinstance(plan, PlanDocument) or plan is None else parse_plan(plan)
        submitted = Submitted(request=request, fleet=tuple(self.fleet.values()), options=options or RunOptions(), plan=document)
        desk_store = MemoryStore(self.memory, name="desk")
        desk = Runtime(desk_store, Driver(store=desk_store, clock=self.clock, machines=MACHINES, performers={}), self.clock)
        run = await desk.submit(CONSTELLATION_AGENT, submitted, title=request, actor="user")
        self.checker.submitted(run, self.memory.records[run][0])
        async with asyncio.TaskGroup() as group:
            self._group, self._desk, self._run = group, desk, run
            around = [group.create_task(self._happen(happening), name=f"{happening}") for happening in self._happenings]
            around.append(group.create_task(self._watch(), name="watch"))
            self._pending += len(self._happenings)
            await self._supervise()
            for task in around:
                task.cancel()
        return self._ending()

    def _ending(self) -> Ending:
        if self._failure is not None and self.checker.violation is None:
            raise self._failure
        self.checker.over(self.memory, self.ledger)
        if self.checker.violation is not None:
            raise self.checker.violation
        root, *below = [self._ending_of(run) for run in self.memory.runs]
        return msgspec.structs.replace(root, children=tuple(below))

    def _ending_of(self, run: str) -> Ending:
        records = self.memory.records[run]
        replayed = Run(CONSTELLATION_AGENT, run)
        replayed.replay(packer(CONSTELLATION_AGENT).unpack(record) for record in records)
        lasted_s = asyncio.get_running_loop().time()
        return Ending(row=self.memory.runs[run], records=tuple(records), memory=replayed.memory, lasted_s=lasted_s)

    # -- who drives --------------------------------------------------------------------------------

    async def _supervise(self) -> None:
        """See to it that somebody drives while there is something to drive."""
        while not self._is_broken():
            living = [process for process in self._processes if not process.how]
            if living or self._parked():
                if not living and not self._pending:
                    return
                self._changed.clear()
                await self._changed.wait()
                continue
            if self.memory.runs[self._run].status == "ended" and not self._unfolded():
                return
            if len(self._processes) >= MAX_PROCESSES:
                raise InvariantViolated(8, f"{MAX_PROCESSES} processes have driven it, and it goes on")
            self.checker.let_go.update(process.name for process in self._processes if process.how in ("let go", "robbed"))
            if self._processes and self._processes[-1].how != "done":
                await asyncio.sleep(self._restart_s)
            for _ in range(self._drivers):
                self._start()
        for process in self._processes:
            process.crash()

    def _is_broken(self) -> bool:
        return self.checker.violation is not None or self._failure is not None

    def _parked(self) -> bool:
        """True when nobody need drive: only people can move it, and they have not."""
        drove = [process.how for process in self._processes if process.how != "turned away"]
        return bool(drove) and drove[-1] == "done" and self.memory.runs[self._run].status in ("waiting", "paused") and not self._unfolded()

    def _unfolded(self) -> bool:
        """True when something waits for a run; what comes for a child that has ended nobody takes."""
        addressed = (self.memory.runs[row.run] for row in self.memory.inbox.values() if not row.verdict)
        return any(row.status != "ended" or not row.parent for row in addressed)

    def _start(self) -> None:
        number = len(self._processes) + 1
        name = f"process-{number}"
        process = Process(name, self, self._trouble, random.Random(f"{self.seed}:{name}"), self._changed.set)
        self._processes.append(process)
        self.counts["processes"] += 1
        self._group.create_task(self._lived(process), name=name)

    async def _lived(self, process: Process) -> None:
        try:
            await process.drive(self._run)
        except (AsterismError, BaseExceptionGroup, RuntimeError) as error:
            self._failure = self._failure or error
            self._changed.set()
        self.counts[process.how or "broke"] += 1
        self.counts["store faults"] += process.faults

    def devices(self, process: str) -> Mapping[str, Device]:
        """The devices as a process has them."""
        return {
            device_id: FakeDevice(profile, self.ledger, self._script, self._faults, process) for device_id, profile in self.fleet.items()
        }

    # -- what is watched ---------------------------------------------------------------------------

    def submitted(self, row: RunRow, records: Sequence[Record]) -> None:
        """A process has written a child run, and does not know it yet."""
        self.counts["children"] += 1
        self.checker.submitted(row.run, *records)

    def committed(self, process: Process, commit: Commit) -> None:
        """A process has written something, and does not know it yet."""
        self.checker.committed(process.name, commit, process.live(commit.run))
        if self._is_broken():
            self._changed.set()
            self._kill(process)
            return
        for inquiry in commit.opened:
            for answer in self._people(inquiry):
                self._pending += 1
                self._group.create_task(self._say(inquiry, answer), name=f"{answer.by} answers {inquiry.inquiry}")
        last = commit.expected_seq + len(commit.records)
        for crash in [
            crash for crash in self._crashes if crash.entry <= last and crash.run in ("*", commit.run if commit.run != self._run else "")
        ]:
            self._crashes.remove(crash)
            if crash.after_s:
                asyncio.get_running_loop().call_later(crash.after_s, self._kill, process)
            else:
                self._kill(process)

    def _kill(self, process: Process) -> None:
        process.crash()
        if process.crashed:
            self.ledger.crash(process.name)

    def _began(self, performance: Performance) -> None:
        self.checker.began(performance, self.ledger)
        if self._is_broken():
            self._changed.set()

    async def _watch(self) -> None:
        """Ask a run that is quiet what it waits for, and bound its life."""
        loop = asyncio.get_running_loop()
        seen = -1
        while loop.time() < self._limit_s and not self._is_broken():
            await asyncio.sleep(QUIET_S)
            written = sum(row.seq for row in self.memory.runs.values())
            if written == seen:
                for process in self._processes:
                    for run in self.memory.runs if not process.how and not process.faults else ():
                        self.checker.quiet(run, process.name, process.live(run))
            seen = written
        if not self._is_broken():
            self._failure = InvariantViolated(8, f"it has not ended after {self._limit_s:g} s", self._tail())
        self._changed.set()

    # -- what comes from outside -------------------------------------------------------------------

    async def _say(self, inquiry: InquiryRow, answer: Answer) -> None:
        await asyncio.sleep(answer.after_s)
        self.counts["answers"] += 1
        try:
            if answer.past_the_desk:
                event = Answered(effect=inquiry.inquiry, verb=answer.verb, value=answer.value, reason=answer.reason)
                key = f"{self.clock.new_id()}-{answer.by}"
                row = InboxRow(run=inquiry.run, key=key, actor=answer.by, kind="Answered", body=event_body(event), at=self.clock.now())
                await self._desk.store.send(row)
            else:
                await self._desk.post_answer(inquiry.inquiry, answer.verb, actor=answer.by, value=answer.value, reason=answer.reason)
        except (Refused, InvalidInput) as refused:
            self.counts["answers refused"] += 1
            self.refusals.append(str(refused))
        finally:
            self._pending -= 1
            self._changed.set()

    async def _happen(self, happening: Happening) -> None:
        await asyncio.sleep(happening.at_s)
        self.counts[happening.what] += 1
        try:
            if happening.what == "edit" or happening.what in _COMMANDS:
                to = self.memory.runs.get(happening.run or self._run)
                if to is not None and to.status != "ended":
                    event = _COMMANDS.get(happening.what) or Edited(actions=happening.actions)
                    await self._desk.post(to.run, event, actor="user", key=happening.key or self.clock.new_id())
            else:
                self._befall(happening)
        finally:
            self._pending -= 1
            self._changed.set()

    def _befall(self, happening: Happening) -> None:
        living = [process for process in self._processes if not process.how]
        if happening.what == "lose":
            self.away = {**self.away, happening.device: "simulated"}
        elif happening.what == "find":
            self.away = {device: why for device, why in self.away.items() if device != happening.device}
        elif happening.what == "crash":
            for process in living:
                self._kill(process)
        else:
            if happening.what == "rob":
                self.checker.robbed = True
                self.memory.runs[self._run] = msgspec.structs.replace(self.memory.runs[self._run], owner="")
            self._start()
        for process in living if happening.what in ("lose", "find") else ():
            if process.dispatcher is not None:
                (process.dispatcher.lose if happening.what == "lose" else process.dispatcher.find)(happening.device)
