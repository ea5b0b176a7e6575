"""A live run as a draft without a driver; the end-to-end tests use real drivers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from asterism.constellation.machine.events import ConstellationSubmitted
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan
from asterism.constellation.model.edits import EditRefused
from asterism.constellation.planner.live_run import LiveRun
from asterism.engine.runtime.client import Client
from asterism.errors import InvalidInput
from asterism.stores.memory import MemoryStore
from asterism.testing.clock import WorldClock
from asterism.testing.loop import run as run_in_virtual_time
from tests.support.constellation_harness import FLEET
from tests.support.constellations import action, plan


def live(rouse: Callable[[Client], Awaitable[None]], talk: Callable[[LiveRun, Client], Awaitable[Any]], *, planned: bool = True) -> Any:
    async def main() -> Any:
        client = Client(MemoryStore(), WorldClock(), {})
        document = parse_plan(plan("a")) if planned else None
        run = await client.submit(
            CONSTELLATION_AGENT, ConstellationSubmitted(request="x", fleet=FLEET, plan=document), title="x", actor="ada"
        )
        return await talk(LiveRun(client, CONSTELLATION_AGENT, run, actor="bob", rouse=lambda: rouse(client), timeout_s=5.0), client)

    return run_in_virtual_time(main(), 1)


async def nothing(_: Client) -> None:
    """Start no driver."""


async def cannot(_: Client) -> None:
    raise InvalidInput("fleet.toml: it is gone")


async def refusal(draft: LiveRun, edit: dict[str, Any]) -> tuple[str, str]:
    with pytest.raises(EditRefused) as raised:
        await draft.edit(edit)
    return raised.value.refusal.code, str(raised.value.refusal.why)


def test_an_unhandled_edit_is_refused_in_bounded_time_and_stays_in_the_inbox() -> None:
    async def talk(draft: LiveRun, client: Client) -> None:
        began = client.clock.now()
        code, why = await refusal(draft, action("add_task", task_id="n", device="d"))
        assert (code, why.partition(";")[0]) == ("unavailable", "the process that drives the run has not handled the edit in time")
        assert client.clock.now() - began < 6
        rows = await client.store.inbox([(await client.runs())[0].run_id])
        assert [(row.kind, row.actor, row.verdict) for row in rows] == [("edited", "bob", "")]

    live(nothing, talk)


def test_an_edit_of_an_undrivable_run_is_refused_at_once_with_the_reason() -> None:
    async def talk(draft: LiveRun, client: Client) -> None:
        code, why = await refusal(draft, action("add_task", task_id="n", device="d"))
        assert code == "unavailable"
        assert why.startswith("fleet.toml: it is gone; the edit stays in the inbox")

    live(cannot, talk)


def test_an_unreadable_edit_never_reaches_the_inbox() -> None:
    async def talk(draft: LiveRun, client: Client) -> None:
        deep: Any = 1
        for _ in range(500):
            deep = [deep]
        for inputs in ({"x": float("nan")}, {"x": "\ud800"}, {"x": deep}):
            code, _ = await refusal(draft, action("update_task", task_id="a", inputs=inputs))
            assert code == "bad_content"
        assert not await client.store.inbox([(await client.runs())[0].run_id])

    live(nothing, talk)


def test_a_run_without_a_plan_has_no_constellation() -> None:
    async def talk(draft: LiveRun, _: Client) -> None:
        with pytest.raises(EditRefused, match="no constellation yet"):
            await draft.read()

    live(nothing, talk, planned=False)
