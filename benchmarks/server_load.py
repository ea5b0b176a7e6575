"""What a busy server does in a second: submissions, answers and deltas, beside the bare server under the same load."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from asterism.engine.ports.store import InquiryRow, RunRow, RunStatus, Store
from asterism.service.tokens import new_token
from benchmarks.device_runs import chain
from benchmarks.http_load import Connection, Watchers, connected, seconds
from benchmarks.served import Served

SKILLS = """
from asterism import skill

@skill(idempotent=True)
def nothing() -> dict:
    "Does nothing."
    return {}
"""
FLEET = """
[[devices]]
id = "shop"
kind = "local"
skills = ["skills.py:nothing"]
concurrency = 2

[[devices]]
id = "busy"
kind = "local"

[[devices.commands]]
name = "wait"
argv = ["sleep", "3600"]
"""
"""A device whose tasks end at once, and one whose first task keeps all others waiting: their runs are live."""
ASKING = {"task_id": "t", "device": "shop", "skill": "nothing", "requires_approval": True}
WAITING = {"task_id": "t", "device": "busy", "skill": "wait"}
CONNECTIONS = 20
CLIENTS = 100
RUNS_OF_A_TOKEN, STREAMS_OF_A_TOKEN = 50, 20
"""Below the limits of a server."""
BARE_DELTA = '{"seq":123,"at":1790000000.123,"text":"t123 ended","rows":[{"kind":"task","id":"t123","status":"COMPLETED","attempts":1}]}'
POLL_S = 0.02


class Amounts(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured.

    Attributes:
        live: runs that are driven meanwhile.
        runs: runs that are submitted and answered in one round.
        chain: tasks of the run whose deltas are sent.
    """

    live: int = 1000
    runs: int = 300
    rounds: int = 5
    chain: int = 300


def write_fleet(folder: Path) -> Path:
    """Write the fleet file of a server."""
    (folder / "skills.py").write_text(SKILLS, encoding="utf-8")
    (folder / "fleet.toml").write_text(FLEET, encoding="utf-8")
    return folder / "fleet.toml"


class Loaded:
    """A server under load, and the bare server.

    Args:
        store: the database of the server, for what only the benchmark wants to know.
    """

    def __init__(self, server: Served, bare: Served, store: Store, amounts: Amounts) -> None:
        self._server = server
        self._bare = bare
        self._store = store
        self._amounts = amounts
        self._tokens: list[str] = []
        self._submitted = 0

    async def rows(self) -> AsyncIterator[str]:
        """Rows of the table of figures."""
        amounts = self._amounts
        submissions = amounts.live + amounts.rounds * (amounts.runs + 1)
        self._tokens = [
            await self._token(number) for number in range(max(submissions // RUNS_OF_A_TOKEN, CLIENTS // STREAMS_OF_A_TOKEN) + 1)
        ]
        await self._seconds(amounts.live, lambda connection, _: self._submit(connection, {"tasks": [WAITING]}))
        await self._driven(amounts.live)
        submitted, answered = [], []
        asked: list[str] = []
        for _ in range(amounts.rounds):
            asked, pair = await self._submissions()
            submitted.append(pair)
            answered.append(await self._answers(asked))
        yield _row("runs submitted in a second", amounts.runs, submitted)
        yield _row("questions answered in a second", amounts.runs, answered)
        yield await self._memory(asked)  # before the deltas, whose clients would leave memory that is free
        yield await self._deltas()

    async def _submissions(self) -> tuple[list[str], tuple[float, float]]:
        """Return the runs of one round, which wait for a person then, and its seconds, of the server and of the bare one."""
        runs: list[str] = []

        async def submit(connection: Connection, _: int) -> None:
            runs.append(await self._submit(connection, {"tasks": [ASKING]}))

        ours = await self._seconds(self._amounts.runs, submit)
        for run_id in runs:
            await self._reached(run_id, "waiting")
        return runs, (ours, await self._bare_seconds(self._amounts.runs, {"plan": {"tasks": [ASKING]}}))

    async def _answers(self, runs: Sequence[str]) -> tuple[float, float]:
        """Return the seconds of one round, of the server and of the bare one."""
        asked = [(await self._store.inquiries(run_id=run_id))[0] for run_id in runs]

        async def answer(connection: Connection, number: int) -> None:
            await self._answer(connection, asked[number])

        ours = await self._seconds(len(asked), answer)
        for run_id in runs:
            await self._reached(run_id, "ended")
        return ours, await self._bare_seconds(len(asked), {"verb": "approve"})

    async def _seconds(self, count: int, call: Callable[[Connection, int], Awaitable[object]]) -> float:
        return await seconds(self._server.port, CONNECTIONS, count, call)

    async def _bare_seconds(self, count: int, body: object) -> float:
        return await seconds(self._bare.port, CONNECTIONS, count, lambda connection, _: connection.call("POST", "/append", body=body))

    async def _deltas(self) -> str:
        """Return the row of the deltas of one run that all clients follow."""
        rates = []
        plan = chain(self._amounts.chain, device="shop", skill="nothing")
        plan["tasks"][0]["requires_approval"] = True
        for _ in range(self._amounts.rounds):
            async with connected(self._server.port) as connection:
                run_id = await self._submit(connection, plan)
            before = CLIENTS * (await self._reached(run_id, "waiting")).seq
            (asked,) = await self._store.inquiries(run_id=run_id)
            watchers = Watchers()
            async with watchers.watching(self._server.port, self._streams([run_id] * CLIENTS)):
                await watchers.until(before)
                async with connected(self._server.port) as connection:
                    started = time.perf_counter()
                    await self._answer(connection, asked)
                row = await self._reached(run_id, "ended")
                await watchers.until(CLIENTS * row.seq)
            ours = (CLIENTS * row.seq - before) / (watchers.last_at - started)
            rates.append((ours, await self._bare_rate(row.seq)))
        ours, theirs = (statistics.median(side) for side in zip(*rates, strict=True))
        times = statistics.median(b / a for a, b in rates)
        return f"| deltas sent to {CLIENTS} SSE clients in a second | {ours:,.0f}; the bare server: {theirs:,.0f}, {times:.1f} times |"

    async def _bare_rate(self, count: int) -> float:
        watchers = Watchers()
        async with watchers.watching(self._bare.port, [("/stream", "")] * CLIENTS):
            async with connected(self._bare.port) as connection:
                started = time.perf_counter()
                await connection.call("POST", f"/deltas/{count}", body=msgspec.Raw(BARE_DELTA.encode()))
            await watchers.until(CLIENTS * count)
        return CLIENTS * count / (watchers.last_at - started)

    async def _memory(self, runs: Sequence[str]) -> str:
        """Return the row of the memory of clients, each with a run of its own."""
        ours = await self._grown(self._server, self._streams([runs[number % len(runs)] for number in range(CLIENTS)]))
        theirs = await self._grown(self._bare, [("/stream", "")] * CLIENTS)
        what = f"| one of {CLIENTS} SSE clients, each with a run of its own: memory of the server"
        return f"{what} | {ours:.0f} kB; of the bare server: {theirs:.0f} kB |"

    async def _grown(self, served: Served, streams: Sequence[tuple[str, str]]) -> float:
        before = served.resident_bytes
        async with Watchers().watching(served.port, streams):
            await asyncio.sleep(1)
            return (served.resident_bytes - before) / len(streams) / 1024

    async def _reached(self, run_id: str, status: RunStatus) -> RunRow:
        """Return the row of a run once it has a status."""
        while (row := await self._store.run(run_id)).status != status:  # noqa: ASYNC110 - the server is another process
            await asyncio.sleep(POLL_S)
        return row

    async def _driven(self, live: int) -> None:
        """Return once so many runs are driven."""
        while sum(bool(row.owner) for row in await self._store.runs(status="active", limit=live)) < live:  # noqa: ASYNC110 - as above
            await asyncio.sleep(POLL_S)

    def _streams(self, runs: Sequence[str]) -> list[tuple[str, str]]:
        return [(f"/api/runs/{run_id}/stream", self._tokens[number // STREAMS_OF_A_TOKEN]) for number, run_id in enumerate(runs)]

    async def _submit(self, connection: Connection, plan: dict[str, Any]) -> str:
        token = self._tokens[self._submitted // RUNS_OF_A_TOKEN]
        self._submitted += 1
        return str((await connection.call("POST", "/api/runs", token=token, body={"plan": plan}))["run_id"])

    async def _answer(self, connection: Connection, asked: InquiryRow) -> None:
        body = {"verb": "approve", "digest": asked.digest}
        verdict = await connection.call("POST", f"/api/inquiries/{asked.inquiry_id}/answer", token=self._tokens[0], body=body)
        if verdict["verdict"] != "accepted":
            raise RuntimeError(f"the answer is {verdict['verdict']}")

    async def _token(self, number: int) -> str:
        token, row = new_token(f"bench-{number}", ["admin"], 0.0)
        await self._store.add_token(row)
        return token


def _row(what: str, count: int, pairs: Sequence[tuple[float, float]]) -> str:
    ours, theirs = (count / statistics.median(side) for side in zip(*pairs, strict=True))
    times = statistics.median(a / b for a, b in pairs)
    return f"| {what}, by {CONNECTIONS} clients | {ours:,.0f}; the bare server: {theirs:,.0f}, {times:.1f} times |"
