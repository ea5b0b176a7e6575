"""The runtime at hand: where loops and flows run when they are given none."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import ContextVar
from typing import Any

from asterism.kernel.machine import Effect, Machine
from asterism.runtime.clock import SystemClock
from asterism.runtime.driver import Driver
from asterism.runtime.ports.performer import Performer
from asterism.runtime.ports.store import Store
from asterism.runtime.runtime import Runtime

CURRENT: ContextVar[Runtime | None] = ContextVar("asterism_runtime", default=None)
"""The runtime that ``asterism.open()`` has opened around the caller; None outside of one."""


@contextlib.asynccontextmanager
async def current_runtime(
    given: Runtime | None,
    *,
    store: Callable[[], Store],
    machines: Mapping[str, Machine[Any]],
    performers: Mapping[type[Effect], Performer],
) -> AsyncIterator[Runtime]:
    """The runtime that was given, else the one that ``asterism.open()`` has opened, else a fresh one over ``store()``.

    Args:
        given: used as it is, and left open.
        store: makes the store of a fresh one; closed at the end.
        machines: what a fresh one can drive.
        performers: how it performs what they ask for.
    """
    if there := given or CURRENT.get():
        yield there
        return
    clock, own = SystemClock(), store()
    try:
        driver = Driver(store=own, clock=clock, machines=machines, performers=performers)
        async with driver.opened():
            yield Runtime(own, driver, clock)
    finally:
        await own.close()
