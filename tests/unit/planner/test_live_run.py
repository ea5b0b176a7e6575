"""A live run as a draft, where nobody takes what is sent; the rest is in the end-to-end tests, with real owners."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from asterism.constellation.documents import parse_plan
from asterism.constellation.edits import EditRefused
from asterism.errors import InvalidInput
from asterism.machines.constellation_agent.events import ConstellationSubmitted
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.planner.live_run import LiveRun
from asterism.runtime.client import Client
from asterism.simulation.clock import WorldClock
from asterism.simulation.loop import run as run_in_virtual_time
from asterism.stores.memory import MemoryStore
from tests.agents import FLEET
from tests.stars import action, plan


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
    """Nobody comes."""


async def cannot(_: Client) -> None:
    raise InvalidInput("fleet.toml: it is gone")


async def refusal(draft: LiveRun, edit: dict[str, Any]) -> tuple[str, str]:
    with pytest.raises(EditRefused) as raised:
        await draft.edit(edit)
    return raised.value.refusal.code, raised.value.refusal.why


def test_an_edit_that_nobody_takes_is_refused_in_bounded_time_and_waits_in_the_inbox() -> None:
    async def talk(draft: LiveRun, client: Client) -> None:
        began = client.clock.now()
        code, why = await refusal(draft, action("add_task", task_id="n", device="d"))
        assert (code, why.partition(";")[0]) == ("unavailable", "whoever drives it has not taken it")
        assert client.clock.now() - began < 6
        rows = await client.store.inbox([(await client.runs())[0].run_id])
        assert [(row.kind, row.actor, row.verdict) for row in rows] == [("edited", "bob", "")]

    live(nothing, talk)


def test_a_run_that_cannot_be_driven_says_why_at_once() -> None:
    async def talk(draft: LiveRun, client: Client) -> None:
        code, why = await refusal(draft, action("add_task", task_id="n", device="d"))
        assert code == "unavailable"
        assert why.startswith("fleet.toml: it is gone; the edit waits in the inbox")

    live(cannot, talk)


def test_what_nobody_could_read_never_reaches_the_inbox() -> None:
    async def talk(draft: LiveRun, client: Client) -> None:
        deep: Any = 1
        for _ in range(500):
            deep = [deep]
        for inputs in ({"x": float("nan")}, {"x": "\ud800"}, {"x": deep}):
            code, _ = await refusal(draft, action("update_task", task_id="a", inputs=inputs))
            assert code == "bad_content"
        assert not await client.store.inbox([(await client.runs())[0].run_id])

    live(nothing, talk)


def test_a_run_without_a_plan_has_nothing_to_look_at() -> None:
    async def talk(draft: LiveRun, _: Client) -> None:
        with pytest.raises(EditRefused, match="no constellation yet"):
            await draft.look()

    live(nothing, talk, planned=False)
