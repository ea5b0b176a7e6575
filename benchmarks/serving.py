"""What a server of many runs costs: searches, a server with nothing to do, and one under load beside a bare server."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import msgspec

from asterism.engine.kernel.journal import Record
from asterism.engine.ports.store import InquiryRow, RunQuery, RunRow
from asterism.service.tokens import new_token
from asterism.stores.sqlite import SqliteStore
from benchmarks.http_load import connected
from benchmarks.served import Served, asterism_server, bare_server
from benchmarks.server_load import Amounts, Loaded, write_fleet

LATER_S = 1e6
LOOKS = 9

QUERIES = {
    "the newest 100": RunQuery(),
    "a text that none has": RunQuery(text="nothing"),
    "the ended runs of one of 50 tenants, of which there are none": RunQuery(tenant="t1", status="ended"),
}
PATHS = {
    "`GET /api/runs`, the newest 100 of one of 50 tenants": "/api/runs",
    "`GET /api/runs?q=…` of that tenant, a text that none has": "/api/runs?q=nothing",
    "`GET /api/inquiries` of that tenant, the oldest 100": "/api/inquiries",
}


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured: the parked runs, the seconds of an idle server, and the load."""

    parked: int = 100_000
    idle_s: float = 20.0
    amounts: Amounts = Amounts()


QUICK = Scale(parked=200, idle_s=0.5, amounts=Amounts(live=20, runs=40, rounds=1, chain=30))


async def _fill(store: SqliteStore, runs: int) -> None:
    """Write runs that wait for a person, each with its question."""
    now = time.time()

    async def park(number: int) -> None:
        run, title = f"r{number}", f"count the files of customer {number}"
        row = RunRow(
            run_id=run,
            machine="constellation agent",
            title=title,
            state="CONTINUE",
            status="waiting",
            tenant=f"t{number % 50}",
            created_at=now + number / 1000,
            due_at=now + LATER_S,
        )
        first = Record(run_id=run, seq=1, at=now, actor="ada", kind="k", state="CONTINUE", body="{}", key="", note="", version=1)
        asked = InquiryRow(
            inquiry_id=f"{run}:1.0", run_id=run, question="Approve it?", verbs=("approve", "reject"), subject="{}", asked_at=now
        )
        await store.submit(row, first, opened=[asked])

    for start in range(0, runs, 500):
        async with asyncio.TaskGroup() as group:
            for number in range(start, min(start + 500, runs)):
                group.create_task(park(number))


async def _median_ms(look: Callable[[], Awaitable[object]]) -> float:
    taken = []
    for _ in range(LOOKS):
        started = time.perf_counter()
        await look()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken) * 1000


async def _lists(server: Served, store: SqliteStore, runs: int) -> AsyncIterator[str]:
    """Rows about lists that the API returns to one of 50 tenants."""
    token, row = new_token("reader", ["viewer"], 0.0, tenant="t1")
    await store.add_token(row)
    async with connected(server.port) as connection:
        for what, path in PATHS.items():
            taken = await _median_ms(lambda path=path: connection.call("GET", path, token=token))  # type: ignore[misc]
            yield f"| {what}, of {runs:,} | {taken:.1f} ms |"


async def _idle(server: Served, idle_s: float) -> float:
    """Return the share of a core that a server uses while nobody asks anything."""
    await asyncio.sleep(1)
    before = server.processor_s
    await asyncio.sleep(idle_s)
    return (server.processor_s - before) / idle_s


async def _measured(folder: Path, scale: Scale) -> AsyncIterator[str]:
    database, live = folder / "runs.db", scale.amounts.live
    store = SqliteStore.open(database, create=True)
    try:
        await _fill(store, scale.parked)
        for what, query in QUERIES.items():
            taken = await _median_ms(lambda query=query: store.find_runs(query))  # type: ignore[misc]
            yield f"| a search of {scale.parked:,} runs for {what} | {taken:.1f} ms |"
        with asterism_server(database, write_fleet(folder), concurrency=2 * live) as server, bare_server(folder) as bare:
            async for row in _lists(server, store, scale.parked):
                yield row
            yield f"| an idle server of {scale.parked:,} parked runs: processor used | {await _idle(server, scale.idle_s):.2%} |"
            async for row in Loaded(server, bare, store, scale.amounts).rows():
                yield row
            yield f"| the same server with {live:,} live runs, whose tasks wait: processor used | {await _idle(server, scale.idle_s):.2%} |"
    finally:
        await store.close()


def rows(*, quick: bool) -> Iterator[str]:
    """Rows of the table of figures."""

    async def collected(folder: Path) -> list[str]:
        return [row async for row in _measured(folder, QUICK if quick else Scale())]

    with tempfile.TemporaryDirectory() as folder:
        yield from asyncio.run(collected(Path(folder)))
