"""The current runtime: where loops and flows run if they are given none."""

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
"""The runtime of the enclosing ``asterism.open()``; None outside of one."""


@contextlib.asynccontextmanager
async def current_runtime(
    given: Runtime | None,
    *,
    store: Callable[[], Store],
    machines: Mapping[str, Machine[Any]],
    performers: Mapping[type[Effect], Performer],
) -> AsyncIterator[Runtime]:
    """Yield the given runtime, else that of the enclosing ``asterism.open()``, else a new one.

    Args:
        given: used as it is, and left open.
        store: makes the store of a new runtime; closed at the end.
        machines: machines that a new runtime can drive.
        performers: performers of a new runtime, by kind of effect.
    """
    if runtime := given or CURRENT.get():
        yield runtime
        return
    clock, own = SystemClock(), store()
    try:
        driver = Driver(store=own, clock=clock, machines=machines, performers=performers)
        async with driver.opened():
            yield Runtime(own, driver, clock)
    finally:
        await own.close()
