"""A run that is driven in the background: for as long as the driver is open, whoever waits."""

from __future__ import annotations

import asyncio

import pytest

from asterism.errors import InvalidInput, RunNotFound
from asterism.runtime.clock import SystemClock
from asterism.runtime.driver import Driver
from asterism.stores.memory import MemoryStore


def test_what_goes_wrong_is_told_to_who_waits_and_ends_nothing_else() -> None:
    async def main() -> None:
        driver = Driver(store=MemoryStore(), clock=SystemClock(), machines={}, performers={})
        with pytest.raises(InvalidInput, match="not open"):
            await driver.start("nobody")
        async with driver.opened():
            unheard = driver.start("nobody")
            with pytest.raises(RunNotFound):
                await driver.start("nobody")
            assert isinstance(unheard.exception(), RunNotFound)

    asyncio.run(main())
