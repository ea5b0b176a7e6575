"""A minimal machine, a kettle, for tests of the kernel."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

from asterism.engine.kernel.machine import Effect, EffectResult, Event, Machine, RecoveryPolicy, Row, StepContext, row
from asterism.engine.kernel.phrase import Text


class Kettle(StrEnum):
    COLD = "COLD"
    HEATING = "HEATING"
    HOT = "HOT"


class Press(Event, tag="press", frozen=True, kw_only=True):
    from_outside: ClassVar[bool] = True

    litres: float = 1.0


class Peek(Event, tag="peek", frozen=True, kw_only=True):
    pass


class Weigh(Event, tag="weigh", frozen=True, kw_only=True):
    pass


class Lift(Event, tag="lift", frozen=True, kw_only=True):
    pass


class Boiled(EffectResult, tag="boiled", frozen=True, kw_only=True):
    celsius: int = 100


class Stopped(EffectResult, tag="stopped", frozen=True, kw_only=True):
    pass


class Heat(Effect, tag="heat", frozen=True, kw_only=True):
    litres: float

    @property
    def recovery_policy(self) -> RecoveryPolicy:
        return RecoveryPolicy.REATTACH

    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        return Boiled(effect_id=effect_id, celsius=0)


class Switch(Effect, tag="switch", frozen=True, kw_only=True):
    target: str

    @property
    def cancels(self) -> str:
        return self.target


class Memory:
    def __init__(self) -> None:
        self.litres = 0.0
        self.heating = ""
        self.weighed: list[str] = []


SCALE = ["heavy"]
"""Result of weighing; tests change it, as a new version of a program would."""


def press(memory: Memory, event: Press, context: StepContext) -> Kettle:
    memory.litres = event.litres
    memory.heating = context.schedule(Heat(litres=event.litres))
    return Kettle.HEATING


def lift(memory: Memory, event: Lift, context: StepContext) -> Kettle:
    context.schedule(Switch(target=memory.heating))
    return Kettle.COLD


def boiled(memory: Memory, event: Boiled, context: StepContext) -> Kettle:
    return Kettle.HOT


def peek(memory: Memory, event: Peek, context: StepContext) -> None:
    """Do nothing."""


def weigh(memory: Memory, event: Weigh, context: StepContext) -> Kettle:
    memory.weighed.append(context.side_effect("weight", lambda: SCALE[0]))
    return Kettle.COLD


def settled(memory: Memory, event: Boiled | Stopped, context: StepContext) -> Kettle:
    return Kettle.COLD


TABLE: Mapping[StrEnum, Mapping[type[Event], Row]] = {
    Kettle.COLD: {Press: row(press, Kettle.HEATING), Weigh: row(weigh), Peek: row(peek), Boiled: row(settled), Stopped: row(settled)},
    Kettle.HEATING: {Boiled: row(boiled, Kettle.HOT), Lift: row(lift, Kettle.COLD), Peek: row(peek)},
    Kettle.HOT: {},
}


def make_kettle(**changed: Any) -> Machine[Memory]:
    """Return the kettle with some arguments replaced."""
    arguments: dict[str, Any] = {
        "states": Kettle,
        "initial": Kettle.COLD,
        "table": TABLE,
        "effects": (Heat, Switch),
        "memory": Memory,
    }
    return Machine("kettle", **{**arguments, **changed})


KETTLE = make_kettle()
