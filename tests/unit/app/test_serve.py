"""A server: which planner a run has, and what it says of a run that it cannot drive."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from asterism.app.serve import ServeOptions, Server, open_server
from asterism.constellation.machine.events import ConstellationSubmitted
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.engine.ports.store import RunRow
from asterism.words.planner.planner import OfflinePlanner

LIMIT_S = 30.0
FLEET = (AgentProfile(device_id="d", skills=(Skill(name="count", description="counts"),)),)
PLAN = parse_plan({"tasks": [{"task_id": "a", "device": "d", "skill": "count"}]})


@contextlib.asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Server]:
    async with (
        asyncio.timeout(LIMIT_S),
        open_server(folder / "runs.db", None, ServeOptions(grace_s=0.0)) as server,
        asyncio.TaskGroup() as group,
    ):
        driving = group.create_task(server.drive_due_runs())
        yield server
        driving.cancel()


async def stuck(server: Server, **first: Any) -> RunRow:
    """Submit a run, and return its row as soon as it is stuck."""
    submitted = ConstellationSubmitted(request="count", fleet=FLEET, plan=PLAN, **first)
    run = await server.app.submit(CONSTELLATION_AGENT, submitted, title="t", actor="me")
    while not (row := await server.app.describe(run)).problem or row.owner:  # noqa: ASYNC110 - a server writes
        await asyncio.sleep(0.01)
    return row


@pytest.mark.parametrize(
    ("first", "problem"),
    [
        ({}, "this fleet has no device 'd', which task a needs; name another one with --fleet"),
        ({"fleet_file": "/else/where.toml"}, "needs the fleet /else/where.toml, which this server does not serve; use: asterism resume "),
        ({"planner": {"model": "replay:/no/such/file"}}, "/no/such/file"),
    ],
)
def test_a_run_that_lacks_something_here_is_stuck_with_the_reason_and_is_not_changed(
    tmp_path: Path, first: dict[str, Any], problem: str
) -> None:
    async def main() -> RunRow:
        async with serving(tmp_path) as server:
            return await stuck(server, **first)

    row = asyncio.run(main())
    assert problem in row.problem
    assert (row.status, row.seq, row.tries) == ("active", 1, 1)
    assert row.due_at is not None


def test_a_run_without_a_model_has_the_offline_planner_and_models_are_opened_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_server(tmp_path / "runs.db", None, ServeOptions()) as server:
            rows = []
            for _ in range(2):
                submitted = ConstellationSubmitted(request="count", fleet=FLEET, plan=PLAN)
                run = await server.app.submit(CONSTELLATION_AGENT, submitted, title="t", actor="me")
                rows.append(await server.app.describe(run))
            planners = [await server.planners.planner_of(row) for row in rows]
            assert isinstance(planners[0], OfflinePlanner)
            assert planners[0] is planners[1]

    asyncio.run(main())


def test_a_server_says_so_in_the_database_until_it_is_closed(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_server(tmp_path / "runs.db", None, ServeOptions()) as server:
            store = server.app.store
            (process,) = await store.list_processes()
            assert (process.serves, process.fleet, process.url) == (True, "", "")
            await store.announce_server("", "http://127.0.0.1:1")
            (process,) = await store.list_processes()
            assert process.url == "http://127.0.0.1:1"
        assert list((tmp_path / "runs.db.owners").iterdir()) == []

    asyncio.run(main())
