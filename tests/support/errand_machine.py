"""A user-defined machine with four states; tests replace the part that is to fail: a move, a memory or a performer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

import asterism
from asterism.engine.control import (
    BatchEnded,
    Effect,
    EffectResult,
    Event,
    Machine,
    Row,
    RunControl,
    RunMemory,
    StepContext,
    Text,
    cancels_to,
    define_machine,
    fails_to,
    row,
)
from asterism.engine.ports.performer import Performer
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.driver import Driver
from asterism.engine.runtime.form import Form, by_name
from asterism.engine.runtime.runtime import Runtime
from asterism.stores.memory import MemoryStore

LIMIT_S = 10.0
"""Seconds within which a run must end or wait."""


class State(StrEnum):
    HOME = "HOME"
    OUT = "OUT"
    BACK = "BACK"
    DONE = "DONE"


class Leave(Event, tag="leave", frozen=True, kw_only=True):
    hours: float = 1.0


class Bought(EffectResult, tag="bought", frozen=True, kw_only=True):
    what: str = ""
    price: float = 0.0
    tags: tuple[str, ...] = ()


class Buy(Effect, tag="buy", frozen=True, kw_only=True):
    note: str = ""
    tags: tuple[str, ...] = ()

    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        return Bought(effect_id=effect_id, what=str(why))


class Basket(RunMemory, kw_only=True):
    hours: float = 0.0
    what: str = ""
    price: float = 0.0

    def result(self) -> dict[str, Any]:
        return {"what": self.what, **self.failure_info()}


def leave(memory: Basket, event: Leave, context: StepContext) -> State:
    memory.hours = event.hours
    context.schedule(Buy(note=f"for {event.hours} hours"))
    return State.OUT


def bought(memory: Basket, event: Bought, context: StepContext) -> State:
    memory.what, memory.price = event.what, event.price
    return State.BACK


def end(memory: Basket, event: BatchEnded, context: StepContext) -> State:
    memory.code = "finished"
    return State.DONE


def errand(
    *,
    leave: Callable[..., Any] = leave,
    bought: Callable[..., Any] = bought,
    back: Callable[..., Any] = end,
    buy: type[Effect] = Buy,
    memory: type[RunMemory] = Basket,
    more: dict[type[Event], Row] | None = None,
) -> Machine[Any]:
    """Return the machine with the given parts replaced; ``more`` are additional rows of BACK."""
    return define_machine(
        "errand",
        states=State,
        initial=State.HOME,
        table={
            State.HOME: {Leave: row(leave, State.OUT)},
            State.OUT: {Bought: row(bought, State.BACK, State.DONE)},
            State.BACK: {BatchEnded: row(back, State.DONE, internal=True), **(more or {})},
            State.DONE: {},
        },
        effects=(buy,),
        memory=memory,
        control=RunControl(cancel=cancels_to(State.DONE), defect=fails_to(State.DONE)),
    )


def stays_out(memory: Basket, event: Leave, context: StepContext) -> State:
    """Go OUT without an effect; a replacement for ``leave``."""
    return State.OUT


class Shop:
    """Performs effects with a function."""

    def __init__(self, sells: Callable[..., Any] = lambda effect_id, effect: Bought(effect_id=effect_id, what="tea")) -> None:
        self._sells = sells

    async def perform(self, effect_id: str, effect: Any, report: Any) -> Any:
        return self._sells(effect_id, effect)


@contextlib.asynccontextmanager
async def opened(folder: Path, machine: Machine[Any], sells: Callable[..., Any] | None = None) -> AsyncIterator[Runtime]:
    """Open a database in a folder, for a machine whose effects a function performs."""
    shop = Shop(sells) if sells else Shop()
    performers: dict[type[Effect], Performer] = {kind: shop for kind in machine.effects if issubclass(kind, Buy)}
    async with asterism.open(folder / "errands.db", machines=[Form(machine, performers)]) as runtime:
        yield runtime


@contextlib.asynccontextmanager
async def in_memory(machine: Machine[Any]) -> AsyncIterator[Runtime]:
    """Open a store in memory for a machine that performs nothing."""
    store, clock = MemoryStore(), SystemClock()
    driver = Driver(store=store, clock=clock, forms=by_name([Form(machine)]))
    async with driver.opened():
        yield Runtime(store, driver, clock)


async def ended(runtime: Runtime, machine: Machine[Any], first: Event | None = None) -> RunRow:
    """Submit a run and drive it as far as possible, within ``LIMIT_S``."""
    run = await runtime.submit(machine, first or Leave(), title="an errand", actor="ann", run_id="r")
    async with asyncio.timeout(LIMIT_S):
        return await runtime.drive(run)
