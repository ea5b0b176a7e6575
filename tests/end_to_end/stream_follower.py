"""A program that follows runs by a stream of the API, over any number of connections; as a program, it writes what it receives.

usage: stream_follower.py URL FILE < RUN_IDS    (the token is in ASTERISM_TOKEN)
Each line of FILE is a delta with its run, or a number of connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

import msgspec

import asterism
from asterism.errors import StoreUnavailable
from asterism.service.http_connection import HttpConnection
from asterism.views.delta import Delta, Rows, fold, is_story

AGAIN_S = 0.2


class Follower:
    """Follows one run by its stream, or several by the multiplexed one.

    Args:
        runs: ids of the runs.
        copy: a file for what is received.

    Attributes:
        received: the deltas of each run.
        connections: connections that have begun.
        frames: events that were received.
        faults: what a stream must not send.
    """

    def __init__(self, runs: Sequence[str], copy: TextIO | None = None) -> None:
        self.received: dict[str, list[Any]] = {run_id: [] for run_id in runs}
        self.connections = self.frames = 0
        self.faults: list[str] = []
        self._copy = copy

    def seq(self, run_id: str) -> int:
        """Return the seq of the last entry that was received."""
        deltas = self.received[run_id]
        return int(deltas[-1]["seq"]) if deltas else 0

    async def follow(self, http: HttpConnection) -> None:
        """Follow until this is cancelled."""
        while True:
            with contextlib.suppress(StoreUnavailable):  # the server is away for longer than the client waits
                await self._follow(http)
            await asyncio.sleep(AGAIN_S)

    async def _follow(self, http: HttpConnection) -> None:
        path, params = "/api/stream", {"run": [f"{run_id}@{self.seq(run_id)}" for run_id in self.received], "topic": ["runs"]}
        if len(self.received) == 1:
            (run_id,) = self.received
            path, params = f"/api/runs/{run_id}/stream", {"after": self.seq(run_id)}  # type: ignore[dict-item]
        async with contextlib.aclosing(http.events(path, params)) as events:
            async for event in events:
                if event is None:
                    self.connections += 1
                    self._write({"connections": self.connections})
                    continue
                self.frames += 1
                match event.kind:
                    case "delta":
                        self._take(next(iter(self.received)), [event.data])
                    case "deltas":
                        for it in event.data:
                            self._take(it["run"], it["deltas"])
                    case "reset" | "problem":
                        self.faults.append(f"{event.kind} {event.data}")
                    case _:
                        pass  # "idle" and "changed" say when to read the lists again

    def _take(self, run_id: str, deltas: Sequence[Any]) -> None:
        for delta in deltas:
            if delta["seq"] != self.seq(run_id) + 1:
                self.faults.append(f"run {run_id}: {delta['seq']} after {self.seq(run_id)}")
            self.received[run_id].append(delta)
            self._write({"run": run_id, "delta": delta})

    def _write(self, what: Any) -> None:
        if self._copy:
            self._copy.write(msgspec.json.encode(what).decode() + "\n")
            self._copy.flush()


async def stream_faults(http: HttpConnection, run_id: str, deltas: Sequence[Any], seq: int, *, every: bool) -> list[str]:
    """Return how the deltas of a run that a program has received differ from its journal and its view.

    Args:
        http: a connection to the API.
        run_id: the run.
        deltas: what was received.
        seq: the last entry of the run.
        every: compare the rows after each entry, and not only after the last one.
    """
    if [it["seq"] for it in deltas] != list(range(1, seq + 1)):
        return [f"run {run_id}: of the deltas 1 to {seq}, {[it['seq'] for it in deltas]} were received"]
    rows: Rows = {}
    for delta in msgspec.convert(deltas, list[Delta]):
        fold([delta], rows)
        if every or delta.seq == seq:
            view = (await http.get(f"/api/runs/{run_id}/view", {"at": delta.seq}))["rows"]
            if {name: row for name, row in rows.items() if not is_story(name)} != view:
                return [f"run {run_id}: the fold differs from the view at {delta.seq}"]
    return []


async def main(url: str, follower: Follower) -> None:
    """Follow runs until this process is ended."""
    async with asterism.connect(url, token=os.environ["ASTERISM_TOKEN"]) as app:
        await follower.follow(app.connection)


if __name__ == "__main__":
    with Path(sys.argv[2]).open("a", encoding="utf-8") as file:
        asyncio.run(main(sys.argv[1], Follower(sys.stdin.read().split(), file)))
