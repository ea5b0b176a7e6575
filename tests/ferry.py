"""A machine of a program's own: a ferry that carries parcels over, rests, and can tow another ferry.

Its memory has what a check could stumble over: names that the constellation agent's memory has, too, and sets within a dict.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Any

import msgspec

from asterism.machines import (
    Answered,
    Ask,
    ChildEnded,
    Control,
    Drained,
    Effect,
    Event,
    Governed,
    Outcome,
    Redo,
    StartRequest,
    Turn,
    begin_child,
    cancels_to,
    check_verb,
    fails_to,
    governed,
    row,
)
from asterism.runtime.registration import Registration


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


class Carried(Outcome, tag="carried", frozen=True, kw_only=True):
    parcel: str = ""
    problem: str = ""


class Carry(Effect, tag="carry", frozen=True, kw_only=True):
    parcel: str

    def interrupted(self, effect: str, why: str) -> Outcome:
        return Carried(effect=effect, parcel=self.parcel, problem=why)


class Throw(Carry, tag="throw", frozen=True, kw_only=True):
    """A parcel that is not to be thrown twice."""

    @property
    def redo(self) -> Redo:
        return Redo.NEVER


class Hold(Governed, kw_only=True):
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
        return {"summary": "over", "seen": sorted(self.seen.get("parcels", ())), **self.shortfall()}


class Towed(msgspec.Struct):
    parcels: tuple[str, ...]
    rest_s: float

    def depart(self) -> Depart:
        return Depart(parcels=self.parcels, rest_s=self.rest_s)


def depart(memory: Hold, event: Depart, turn: Turn) -> State:
    memory.left, memory.tows, memory.rest_s = list(event.parcels), list(event.tows), event.rest_s
    if not event.asks:
        return State.SAILING
    turn.perform(Ask(prompt="May it leave?"))
    return State.ASKING


def answered(memory: Hold, event: Answered, turn: Turn) -> State:
    check_verb(event, ("approve", "reject"))
    memory.code = "" if event.verb == "approve" else "rejected"
    return State.SUNK if memory.code else State.SAILING


def look(memory: Hold, event: Drained, turn: Turn) -> State | None:
    if memory.paused or turn.outstanding:
        return None
    if memory.tows:
        turn.perform(begin_child("ferry", StartRequest(definition={"parcels": memory.tows, "rest_s": 10.0}), "towed"))
        memory.tows = []
    elif memory.left:
        for parcel in memory.left:
            turn.perform(Throw(parcel=parcel) if parcel.startswith("!") else Carry(parcel=parcel))
        memory.left = []
    else:
        memory.rests_until = turn.at + memory.rest_s
        return State.RESTING
    return State.SAILING


def carried(memory: Hold, event: Carried, turn: Turn) -> State:
    if event.problem:
        memory.code, memory.reason = "lost", event.problem
        return State.LEAKING
    memory.seen.setdefault("parcels", set()).add(event.parcel)
    return State.SAILING


def salvaged(memory: Hold, event: Carried, turn: Turn) -> State:
    return State.SALVAGED


def towed(memory: Hold, event: ChildEnded, turn: Turn) -> State:
    memory.seen["towed"] = set(event.result["seen"])
    return State.SAILING


def rested(memory: Hold, event: Drained, turn: Turn) -> State | None:
    if memory.paused or memory.rests_until is None or turn.at < memory.rests_until:
        return None
    memory.code, memory.rests_until = "finished", None
    return State.DONE


FERRY = governed(
    "ferry",
    states=State,
    initial=State.MOORED,
    table={
        State.MOORED: {Depart: row(depart, State.ASKING, State.SAILING)},
        State.ASKING: {Answered: row(answered, State.SAILING, State.SUNK)},
        State.SAILING: {
            Drained: row(look, State.RESTING, internal=True),
            Carried: row(carried, State.LEAKING, internal=True),
            ChildEnded: row(towed, internal=True),
        },
        State.RESTING: {Drained: row(rested, State.DONE)},
        State.DONE: {},
        State.LEAKING: {Carried: row(salvaged, State.SALVAGED)},
        State.SALVAGED: {},
        State.SUNK: {},
    },
    effects=(Carry, Throw),
    memory=Hold,
    ends=(State.LEAKING,),
    control=Control(cancel=cancels_to(State.SUNK), defect=fails_to(State.SUNK)),
    starts=lambda start: msgspec.convert(start.definition, Towed).depart(),
)


class Crew:
    """Carries a parcel over in a while; one that is called ``leaky`` is lost."""

    def __init__(self, lasts_s: float = 0.0) -> None:
        self.lasts_s = lasts_s

    async def perform(self, effect_id: str, effect: Carry, report: Any) -> Outcome:
        await asyncio.sleep(0 if effect.parcel == "leaky" else self.lasts_s)
        if effect.parcel == "leaky":
            raise OSError("it leaks")
        return Carried(effect=effect_id, parcel=effect.parcel)


def registration(lasts_s: float = 0.0) -> Registration:
    return Registration(FERRY, performers={Carry: Crew(lasts_s), Throw: Crew(lasts_s)})
