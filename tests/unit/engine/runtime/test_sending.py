"""How long ``send`` takes, and what observers may do to the runs that they watch; in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from asterism.engine.control.run_control import Pause, Unpause
from asterism.engine.kernel.journal import Entry
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.driver import Driver
from asterism.engine.runtime.form import by_name
from asterism.engine.runtime.runtime import Runtime
from asterism.errors import Refused
from asterism.stores.memory import MemoryStore
from asterism.testing.clock import WorldClock
from asterism.testing.loop import run as run_in_virtual_time
from tests.support.ferry_machine import FERRY, Depart, registration

SAILS_S = 4.0


def played(scene: Callable[[Runtime], Awaitable[None]], parcel: str = "a") -> None:
    """Play a scene with a run ``r`` that nobody drives yet; its only work lasts four seconds."""

    async def play() -> None:
        clock, store, own = WorldClock(), MemoryStore(), registration(SAILS_S)
        driver = Driver(store=store, clock=clock, forms=by_name([own]))
        async with driver.opened():
            runtime = Runtime(store, driver, clock)
            await runtime.submit(FERRY, Depart(parcels=(parcel,)), title="over", actor="ann", run_id="r")
            await scene(runtime)

    run_in_virtual_time(play())


@pytest.mark.parametrize("timeout_s", [0.2, 1.0])
def test_send_returns_in_its_time_and_the_run_goes_on(timeout_s: float) -> None:
    """B6."""

    async def scene(runtime: Runtime) -> None:
        loop = asyncio.get_running_loop()
        assert await runtime.send("r", Unpause(), actor="ann", timeout_s=timeout_s) == "accepted"
        assert loop.time() == pytest.approx(timeout_s)
        assert (await runtime.store.run("r")).owner
        await asyncio.sleep(SAILS_S)
        assert (await runtime.store.run("r")).outcome == "finished"

    played(scene)


def test_send_returns_before_its_time_when_only_people_can_advance_the_run() -> None:
    async def scene(runtime: Runtime) -> None:
        assert await runtime.send("r", Unpause(), actor="ann", timeout_s=60.0) == "accepted"
        assert asyncio.get_running_loop().time() == pytest.approx(SAILS_S)
        assert (await runtime.store.run("r")).outcome == "finished"

    played(scene)


def test_a_client_waits_for_a_verdict_as_long_as_it_says_though_the_store_is_slow() -> None:
    """B6."""

    class Slow(MemoryStore):
        async def verdict(self, run_id: str, key: str) -> str:
            await asyncio.sleep(0.5)
            return await super().verdict(run_id, key)

    async def play() -> None:
        clock, store = WorldClock(), Slow()
        client = Client(store, clock, by_name([registration()]))
        await client.submit(FERRY, Depart(parcels=("a",)), title="over", actor="ann", run_id="r")
        with pytest.raises(Refused, match=r"has not processed it within 1 s"):
            await client.send("r", Pause(), actor="ann", timeout_s=1.0)
        assert asyncio.get_running_loop().time() <= 1.5

    run_in_virtual_time(play())


class Faulty:
    """An observer that fails when there is trouble."""

    def appended(self, run_id: str, entries: Sequence[Entry]) -> None:
        """See ``Observer``."""

    def trouble(self, run_id: str, message: str) -> None:
        raise ValueError(f"not {message}")


class Notes(Faulty):
    def __init__(self) -> None:
        self.troubles: list[str] = []

    def trouble(self, run_id: str, message: str) -> None:
        self.troubles.append(message)


def test_an_observer_whose_trouble_raises_does_not_end_the_run_that_it_watches() -> None:
    """B7."""
    notes = Notes()

    async def scene(runtime: Runtime) -> None:
        runtime.driver.observe(Faulty())
        runtime.driver.observe(Faulty())
        runtime.driver.observe(notes)
        assert (await runtime.drive("r")).outcome == "failed"

    played(scene, "leaky")
    trouble = "OSError: it leaks"
    failed = [it for it in notes.troubles if "Faulty failed and is no longer notified: ValueError: not" in it]
    assert len(failed) == 2
    assert sum(it.endswith(trouble) and "Faulty" not in it for it in notes.troubles) == 1
