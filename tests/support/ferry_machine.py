"""A user-defined machine: a ferry that carries parcels, rests, and can tow another ferry as a child run.

Its memory is deliberately difficult for checks: it shares names with the constellation agent's memory, and has sets in a dict.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Any

import msgspec

from asterism.engine.control import (
    Answered,
    AskPerson,
    BatchEnded,
    ChildEnded,
    Effect,
    EffectResult,
    Event,
    RecoveryPolicy,
    RunControl,
    RunMemory,
    StartRequest,
    StepContext,
    Text,
    cancels_to,
    child_start,
    define_machine,
    fails_to,
    row,
)
from asterism.engine.runtime.form import Form


class State(StrEnum):
    MOORED = "MOORED"
    ASKING = "ASKING"
    SAILING = "SAILING"
    RESTING = "RESTING"
    DONE = "DONE"
    LEAKING = "LEAKING"
    SALVAGED = "SALVAGED"
    SUNK = "SUNK"


class Depart(Event, tag="depart", frozen=True, kw_only=True):
    parcels: tuple[str, ...] = ()
    tows: tuple[str, ...] = ()
    rest_s: float = 0.0
    asks: bool = False
    answer_within_s: float = 0.0


class Carried(EffectResult, tag="carried", frozen=True, kw_only=True):
    parcel: str = ""
    problem: str = ""


class Carry(Effect, tag="carry", frozen=True, kw_only=True):
    parcel: str

    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        return Carried(effect_id=effect_id, parcel=self.parcel, problem=str(why))


class Throw(Carry, tag="throw", frozen=True, kw_only=True):
    """Carry a parcel; never repeated."""

    @property
    def recovery_policy(self) -> RecoveryPolicy:
        return RecoveryPolicy.DO_NOT_RETRY


class Hold(RunMemory, kw_only=True):
    left: list[str] = msgspec.field(default_factory=list)
    tows: list[str] = msgspec.field(default_factory=list)
    rest_s: float = 0.0
    rests_until: float | None = None
    board: str = "timber"
    _timers: dict[str, float] = msgspec.field(default_factory=dict)
    seen: dict[str, set[str]] = msgspec.field(default_factory=dict)

    def wake_at(self) -> float | None:
        return self.rests_until

    def result(self) -> dict[str, Any]:
        return {"summary": "over", "seen": sorted(self.seen.get("parcels", ())), **self.failure_info()}


class Towed(msgspec.Struct):
    parcels: tuple[str, ...]
    rest_s: float

    def depart(self) -> Depart:
        return Depart(parcels=self.parcels, rest_s=self.rest_s)


def depart(memory: Hold, event: Depart, context: StepContext) -> State:
    memory.left, memory.tows, memory.rest_s = list(event.parcels), list(event.tows), event.rest_s
    if not event.asks:
        return State.SAILING
    context.schedule(AskPerson(question="May it leave?", expires_at=context.at + event.answer_within_s if event.answer_within_s else 0.0))
    return State.ASKING


def answered(memory: Hold, event: Answered, context: StepContext) -> State:
    memory.code = "" if event.verb == "approve" else "rejected"
    return State.SUNK if memory.code else State.SAILING


def look(memory: Hold, event: BatchEnded, context: StepContext) -> State | None:
    if memory.paused or context.outstanding:
        return None
    if memory.tows:
        context.schedule(child_start("ferry", StartRequest(definition={"parcels": memory.tows, "rest_s": 10.0}), "towed"))
        memory.tows = []
    elif memory.left:
        for parcel in memory.left:
            context.schedule(Throw(parcel=parcel) if parcel.startswith("!") else Carry(parcel=parcel))
        memory.left = []
    else:
        memory.rests_until = context.at + memory.rest_s
        return State.RESTING
    return State.SAILING


def carried(memory: Hold, event: Carried, context: StepContext) -> State:
    if event.problem:
        memory.code, memory.reason = "lost", event.problem
        return State.LEAKING
    memory.seen.setdefault("parcels", set()).add(event.parcel)
    return State.SAILING


def salvaged(memory: Hold, event: Carried, context: StepContext) -> State:
    return State.SALVAGED


def towed(memory: Hold, event: ChildEnded, context: StepContext) -> State:
    memory.seen["towed"] = set(event.result["seen"])
    return State.SAILING


def rested(memory: Hold, event: BatchEnded, context: StepContext) -> State | None:
    if memory.paused or memory.rests_until is None or context.at < memory.rests_until:
        return None
    memory.code, memory.rests_until = "finished", None
    return State.DONE


FERRY = define_machine(
    "ferry",
    states=State,
    initial=State.MOORED,
    table={
        State.MOORED: {Depart: row(depart, State.ASKING, State.SAILING)},
        State.ASKING: {Answered: row(answered, State.SAILING, State.SUNK)},
        State.SAILING: {
            BatchEnded: row(look, State.RESTING, internal=True),
            Carried: row(carried, State.LEAKING, internal=True),
            ChildEnded: row(towed, internal=True),
        },
        State.RESTING: {BatchEnded: row(rested, State.DONE)},
        State.DONE: {},
        State.LEAKING: {Carried: row(salvaged, State.SALVAGED)},
        State.SALVAGED: {},
        State.SUNK: {},
    },
    effects=(Carry, Throw),
    memory=Hold,
    ends=(State.LEAKING,),
    control=RunControl(cancel=cancels_to(State.SUNK), defect=fails_to(State.SUNK)),
    starts=lambda start: msgspec.convert(start.definition, Towed).depart(),
)


class Crew:
    """Performer that carries parcels; the parcel ``leaky`` is lost."""

    def __init__(self, lasts_s: float = 0.0) -> None:
        self.lasts_s = lasts_s

    async def perform(self, effect_id: str, effect: Carry, report: Any) -> EffectResult:
        await asyncio.sleep(0 if effect.parcel == "leaky" else self.lasts_s)
        if effect.parcel == "leaky":
            raise OSError("it leaks")
        return Carried(effect_id=effect_id, parcel=effect.parcel)


def registration(lasts_s: float = 0.0) -> Form:
    return Form(FERRY, performers={Carry: Crew(lasts_s), Throw: Crew(lasts_s)})
