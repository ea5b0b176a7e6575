"""Two versions of a program for each machine: first events, performers, and a corrected move."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from asterism.app.bootstrap import FORMS
from asterism.constellation.machine.events import AttemptEnded, ConstellationSubmitted, Dispatch
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan
from asterism.conversation.machine.events import AgentStatus, CallHandler, ConversationStarted, HandlerEnded, Message
from asterism.conversation.machine.requests import HandlerCall
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.engine.control.run_control import Verb
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.machine import Effect, EffectResult, Event, Machine, StepContext
from asterism.engine.ports.store import RunRow, Store
from asterism.engine.runtime.driver import Driver
from asterism.engine.runtime.form import Form
from asterism.engine.runtime.runtime import Runtime
from asterism.loop.machine.effects import Reflect, RunWorker, Synthesize
from asterism.loop.machine.events import LoopSubmitted, Reflected, Synthesized, WorkerEnded
from asterism.loop.machine.model import Finding
from asterism.loop.machine.requests import Supervision, WorkerCall
from asterism.loop.machine.table import ORCHESTRATION_LOOP
from tests.support.constellation_harness import FLEET
from tests.support.constellations import lines
from tests.support.loop_harness import WORKERS, steps

NAMES = tuple(FORMS)
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
"""First event by machine: the run performs an effect, asks a person, and performs another effect."""
ANSWER: dict[str, tuple[Verb, Any]] = {name: ("respond", "tea") if name == FLOW_AGENT.name else ("approve", None) for name in NAMES}

CORRECTED: dict[type[Effect], dict[str, Any]] = {
    Dispatch: {"timeout_s": 60.0},
    RunWorker: {"timeout_s": 60.0},
    CallHandler: {"message": Message(text="corrected")},
}
"""Fields of these effects in the next version."""


def is_corrected(effect: Effect) -> bool:
    """Return True if an effect is one of the next version."""
    return effect == corrected(effect)


def corrected(effect: Effect) -> Effect:
    """Return an effect as the next version schedules it."""
    return msgspec.structs.replace(effect, **CORRECTED.get(type(effect), {}))


class NextVersion(Machine[Any]):
    """A machine with a correction of its moves.

    Args:
        machine: the uncorrected machine.
        asks: True if the correction checks the version of the rules; otherwise it also changes old entries.
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


def next_version(*, asks: bool = True) -> dict[str, Form]:
    """Return the forms of the next version."""
    return {name: dataclasses.replace(form, machine=NextVersion(form.machine, asks=asks)) for name, form in FORMS.items()}


class Hands:
    """Performs every effect at once.

    Args:
        holds: called at the first effect, which then never ends; None to perform every effect.
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
        """Return this object as the performer of all effects used here."""
        return dict.fromkeys((Dispatch, RunWorker, Reflect, Synthesize, CallHandler), self)


def runtime_of(store: Store, clock: Any, forms: Mapping[str, Form], hands: Hands) -> Runtime:
    """Return the runtime of a program; enter its driver's ``opened()``."""
    driven = {name: form.performed_by(hands.performers()) for name, form in forms.items()}
    return Runtime(store, Driver(store=store, clock=clock, forms=driven), clock)


async def submit(runtime: Runtime, name: str, run_id: str) -> None:
    """Submit a run of a machine."""
    await runtime.submit(runtime.forms[name].machine, FIRST[name], title=name, actor="me", run_id=run_id)


async def finish(runtime: Runtime, run_id: str) -> RunRow:
    """Drive a run to its end, answering its inquiries."""
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
    """Return by version of the rules whether each corrected effect is one of the next version."""
    found: dict[int, list[bool]] = {}
    rules = 0
    for entry in entries:
        rules = entry.rules or rules
        found.setdefault(rules, []).extend(is_corrected(effect) for effect in entry.effects if type(effect) in CORRECTED)
    return found
