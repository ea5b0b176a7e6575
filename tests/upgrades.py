"""Programs of two versions of one machine each: what begins a run, who performs its effects, and a corrected move."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from asterism.bootstrap import MACHINES
from asterism.constellation.documents import parse_plan
from asterism.kernel.journal import Entry
from asterism.kernel.machine import Effect, EffectResult, Event, Machine, StepContext
from asterism.machines.constellation_agent.events import AttemptEnded, ConstellationSubmitted, Dispatch
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.machines.flow_agent.events import AgentStatus, CallHandler, ConversationStarted, HandlerEnded, Message
from asterism.machines.flow_agent.requests import HandlerCall
from asterism.machines.flow_agent.table import FLOW_AGENT
from asterism.machines.orchestration_loop.effects import Reflect, RunWorker, Synthesize
from asterism.machines.orchestration_loop.events import LoopSubmitted, Reflected, Synthesized, WorkerEnded
from asterism.machines.orchestration_loop.model import Finding
from asterism.machines.orchestration_loop.requests import Supervision, WorkerCall
from asterism.machines.orchestration_loop.table import ORCHESTRATION_LOOP
from asterism.machines.run_control import Verb
from asterism.runtime.driver import Driver
from asterism.runtime.ports.store import RunRow, Store
from asterism.runtime.runtime import Runtime
from tests.agents import FLEET
from tests.loops import WORKERS, steps
from tests.stars import lines

NAMES = tuple(MACHINES)
MAX_ANSWERS = 5
_ON = {"device": "s", "skill": "again"}
_PLAN = {
    "tasks": [{"task_id": "a", **_ON}, {"task_id": "b", **_ON, "requires_approval": True}, {"task_id": "c", **_ON}],
    "dependencies": lines("a>b b>c"),
}
FIRST: dict[str, Event] = {
    CONSTELLATION_AGENT.name: ConstellationSubmitted(request="go", fleet=FLEET, plan=parse_plan(_PLAN)),
    ORCHESTRATION_LOOP.name: LoopSubmitted(request="go", workers=WORKERS, plan=steps("a", "b:asks", "c")),
    FLOW_AGENT.name: ConversationStarted(agent="tests:Agent", message=Message(text="hello", by="ada")),
}
"""What begins a run, by its machine: it does something, asks a person, and does something more."""
ANSWER: dict[str, tuple[Verb, Any]] = {name: ("respond", "tea") if name == FLOW_AGENT.name else ("approve", None) for name in NAMES}

CORRECTED: dict[type[Effect], dict[str, Any]] = {
    Dispatch: {"timeout_s": 60.0},
    RunWorker: {"timeout_s": 60.0},
    CallHandler: {"message": Message(text="corrected")},
}
"""Fields that the moves of the next version give to these effects."""


def is_corrected(effect: Effect) -> bool:
    """True where an effect is as the next version asks for it."""
    return effect == corrected(effect)


def corrected(effect: Effect) -> Effect:
    """Return an effect as the next version asks for it."""
    return msgspec.structs.replace(effect, **CORRECTED.get(type(effect), {}))


class NextVersion(Machine[Any]):
    """A machine with a correction of its moves.

    Args:
        machine: as it was.
        asks: the correction asks for the version of the rules; without that it holds for old entries, too.
    """

    def __init__(self, machine: Machine[Any], *, asks: bool = True) -> None:
        vars(self).update(vars(machine))
        self.rules = machine.rules + 1
        self._since = self.rules if asks else 0

    def step(self, state: enum.StrEnum, memory: Any, event: Event, context: StepContext) -> enum.StrEnum | None:
        target = super().step(state, memory, event, context)
        if context.rules >= self._since:
            context.effects[:] = map(corrected, context.effects)
        return target


def next_version(*, asks: bool = True) -> dict[str, Machine[Any]]:
    """The machines of a program of the next version."""
    return {name: NextVersion(machine, asks=asks) for name, machine in MACHINES.items()}


class Hands:
    """Performs every effect at once.

    Args:
        holds: told of the first one, which it then never ends; by default there is no such one.
    """

    def __init__(self, holds: Callable[[], None] | None = None) -> None:
        self._holds = holds

    async def perform(self, effect_id: str, request: Any, report: Any) -> EffectResult:
        """Perform one effect."""
        if self._holds:
            self._holds()
            await asyncio.get_running_loop().create_future()
        match request:
            case HandlerCall():
                state = AgentStatus.COMPLETED if request.handler == "on_waiting_for_input" else AgentStatus.WAITING_FOR_INPUT
                return HandlerEnded(effect_id=effect_id, transitions=(state,), text="tea?")
            case WorkerCall():
                return WorkerEnded(effect_id=effect_id, finding=Finding(output=effect_id))
            case Supervision(effect=Synthesize()):
                return Synthesized(effect_id=effect_id, answer="done")
            case Supervision():
                return Reflected(effect_id=effect_id, reply="continue")
            case _:
                return AttemptEnded(effect_id=effect_id, result=effect_id)

    def performers(self) -> dict[type[Effect], Any]:
        """Return it as the performer of everything that the runs here ask for."""
        return dict.fromkeys((Dispatch, RunWorker, Reflect, Synthesize, CallHandler), self)


def runtime_of(store: Store, clock: Any, machines: dict[str, Machine[Any]], hands: Hands) -> Runtime:
    """A program; enter its driver's ``opened()``."""
    return Runtime(store, Driver(store=store, clock=clock, machines=machines, performers=hands.performers()), clock)


async def submit(runtime: Runtime, name: str, run_id: str) -> None:
    """Write a run of a machine."""
    await runtime.submit(runtime.driver.machines[name], FIRST[name], title=name, actor="me", run_id=run_id)


async def finish(runtime: Runtime, run_id: str) -> RunRow:
    """Drive a run to its end, answering what it asks."""
    row = await runtime.drive(run_id)
    for _ in range(MAX_ANSWERS):
        for asked in await runtime.store.inquiries(run_id=run_id):
            verb, value = ANSWER[row.machine]
            await runtime.post_answer(asked.inquiry_id, verb, actor="ada", value=value)
        row = await runtime.drive(run_id)
        if row.status == "ended":
            break
    return row


def by_rules(entries: Iterable[Entry]) -> dict[int, list[bool]]:
    """Whether each effect that was corrected is as the next version asks for it, by the version of the rules of its entry."""
    found: dict[int, list[bool]] = {}
    rules = 0
    for entry in entries:
        rules = entry.rules or rules
        found.setdefault(rules, []).extend(is_corrected(effect) for effect in entry.effects if type(effect) in CORRECTED)
    return found
