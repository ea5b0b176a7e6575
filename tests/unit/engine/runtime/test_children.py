"""Signals for children: each reaches a child that is being created; no signal waits for any other."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec

from asterism.constellation.form import FORM
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.engine.control.children import ChildEnded, ChildRequest, ChildSignaled, SignalChild, StartChild, child_run_id, signal_child
from asterism.engine.control.run_control import Cancel
from asterism.engine.kernel.machine import EffectResult, StartRequest
from asterism.engine.kernel.packing import packer
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.children import ChildPerformer, SignalPerformer
from asterism.engine.runtime.form import by_name
from asterism.stores.memory import MemoryStore
from asterism.testing.clock import WorldClock
from asterism.testing.loop import run as run_in_virtual_time
from tests.support.constellation_harness import FLEET, Agent
from tests.support.constellations import plan

PARENT, START = "r", "r:1.0"
CHILD = child_run_id(START)
DEFINED = StartRequest(definition={"fleet": msgspec.to_builtins(FLEET)}, request="do it")
STARTED = StartChild(
    machine=CONSTELLATION_AGENT.name, start=StartRequest(definition={"fleet": msgspec.to_builtins(FLEET)}, request="do it")
)


class Slow(MemoryStore):
    """Writes a run only after a while."""

    async def submit(self, row: Any, first: Any, *more: Any, **opened: Any) -> None:
        await asyncio.sleep(1)
        await super().submit(row, first, *more, **opened)


async def nursery() -> tuple[Any, list[list[str]]]:
    """A host of children with a parent; records the keys in a child's inbox when its drive begins."""
    store, waiting = Slow(), list[list[str]]()
    first = packer(CONSTELLATION_AGENT).pack(Agent(plan("a")).entries[0])
    await store.submit(RunRow(run_id=PARENT, machine=CONSTELLATION_AGENT.name, title="", state="START"), first)

    async def drive_child(run_id: str, rested: object) -> Any:
        waiting.append([row.key for row in await store.inbox([run_id])])
        await asyncio.sleep(1)
        return Agent(plan("a")).run

    known = SimpleNamespace(
        store=store,
        clock=WorldClock(),
        forms=by_name([FORM]),
        starters={},
        wake_inbox=lambda: None,
        submitted=lambda live: None,
        notify=lambda run, entries: None,
        drive_child=drive_child,
    )
    return known, waiting


def begin(known: Any, relayed: dict[str, SignalChild]) -> asyncio.Task[EffectResult]:
    request = ChildRequest(start=STARTED, signals=relayed)
    return asyncio.ensure_future(ChildPerformer(known).perform(START, request, lambda event: None))


def send(known: Any) -> asyncio.Task[EffectResult]:
    return asyncio.ensure_future(SignalPerformer(known).perform("r:2.0", signal_child(START, Cancel()), lambda event: None))


def test_a_command_waits_for_a_child_that_is_being_created() -> None:
    async def scene() -> None:
        known, _ = await nursery()
        sent = send(known)
        await asyncio.sleep(0.01)  # its task is the first to run
        started = begin(known, {})
        assert await sent == ChildSignaled(effect_id="r:2.0")
        assert [row.key for row in await known.store.inbox([CHILD])] == ["r:2.0"]
        await started

    run_in_virtual_time(scene())


def test_a_new_child_finds_the_commands_that_were_sent_before_it_existed() -> None:
    async def scene() -> None:
        known, waiting = await nursery()
        await begin(known, {"r:2.0": signal_child(START, Cancel())})
        assert waiting == [["r:2.0"]]

    run_in_virtual_time(scene())


def test_the_end_of_a_child_reports_its_edits() -> None:
    """A1, A7."""

    async def scene() -> None:
        known, _ = await nursery()
        ended = Agent(plan("a")).run
        ended.memory.edited = "foreign"

        async def drive_child(run_id: str, rested: object) -> Any:
            return ended

        known.drive_child = drive_child
        result = await begin(known, {})
        assert isinstance(result, ChildEnded)
        assert result.edited == "foreign"

    run_in_virtual_time(scene())


def test_a_signal_does_not_wait_for_a_child_that_is_not_being_created() -> None:
    async def scene() -> None:
        known, _ = await nursery()
        before = asyncio.get_running_loop().time()
        assert await send(known) == ChildSignaled(effect_id="r:2.0")
        assert asyncio.get_running_loop().time() - before < 1

    run_in_virtual_time(scene())
