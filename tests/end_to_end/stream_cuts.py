"""Two programs that follow live runs of a real server through cuts and restarts: ``python -m tests.end_to_end.stream_cuts``.

Both follow all runs by one multiplexed stream each, through a proxy that cuts each connection after two seconds. Meanwhile the server
is killed, stopped and killed again. In the end, the fold of what each program has received must equal the view after every entry.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from asterism.service.http_connection import HttpConnection
from examples.remote.servers import Servers
from tests.end_to_end.mixed_load import Load, Mix
from tests.end_to_end.served_site import ROOT, ServedSite
from tests.end_to_end.stream_follower import stream_faults
from tests.support.post_server import post_server
from tests.unit.service.test_streams import cutting_proxy

PROGRAMS = 2
CUT_S = 2.0
WITHIN_S = 900.0
PATIENCE_S = 30
"""Seconds until a person answers, at most: the runs live for about three times as long."""
STOPS = (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL)


@dataclass
class Received:
    """What one program has received."""

    file: Path
    deltas: dict[str, list[Any]] = field(default_factory=dict)
    connections: int = 0

    def read(self) -> None:
        """Read its file."""
        self.deltas, self.connections = {}, 0
        for line in self.file.read_bytes().splitlines(keepends=True) if self.file.exists() else []:
            if line.endswith(b"\n"):  # else it is being written
                it = msgspec.json.decode(line)
                self.connections = it.get("connections", self.connections)
                if "run" in it:
                    self.deltas.setdefault(it["run"], []).append(it["delta"])


@dataclass
class Cuts:
    """What a trial came to."""

    runs: int = 0
    entries: int = 0
    deltas: list[int] = field(default_factory=list)
    connections: list[int] = field(default_factory=list)
    restarts: int = 0
    faults: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """Yield the report."""
        yield f"{self.runs} runs with {self.entries} entries, {self.restarts} restarts of the server"
        yield f"each program: {self.deltas} deltas, over {self.connections} connections while runs were live"
        yield f"{len(self.faults)} faults"
        yield from self.faults


@contextlib.contextmanager
def programs(site: ServedSite, url: str, runs: list[str]) -> Iterator[list[Received]]:
    """Programs that follow the runs; yields what they receive."""
    found, started = [Received(site.folder / f"received-{number}") for number in range(PROGRAMS)], list[subprocess.Popen[str]]()
    try:
        for it in found:
            argv = [sys.executable, "-m", "tests.end_to_end.stream_follower", url, str(it.file)]
            environment = {**site.servers.environment, "ASTERISM_TOKEN": site.token}
            process = subprocess.Popen(argv, cwd=ROOT, env=environment, stdin=subprocess.PIPE, text=True)
            started.append(process)
            if process.stdin:
                process.stdin.write("\n".join(runs))
                process.stdin.close()
        yield found
    finally:
        for process in started:
            process.kill()
            process.wait()


async def follow(site: ServedSite, mix: Mix, seed: int) -> Cuts:
    """Do a trial."""
    load, cuts = Load(site, random.Random(seed), 0, mix, tuple(range(PATIENCE_S))), Cuts()
    async with contextlib.AsyncExitStack() as stack:
        enter = stack.enter_async_context
        await site.serving()
        http = await enter(site.connected())
        url = await enter(cutting_proxy(site.port, CUT_S))
        group = await enter(asyncio.TaskGroup())
        await load.submit(http)
        found = stack.enter_context(programs(site, url, list(load.runs)))
        tasks = [group.create_task(it) for it in (load.answer(http), load.cancel(http))]
        for number in STOPS:
            await asyncio.sleep(2 * CUT_S)
            await site.end(number)
            await site.serving()
            cuts.restarts += 1
        give_up = time.monotonic() + WITHIN_S
        while load.unended() and time.monotonic() < give_up:  # noqa: ASYNC110 - another process ends them
            await asyncio.sleep(0.5)
        for it in found:
            it.read()
            cuts.connections.append(it.connections)
        cuts.faults += load.faults + load.outcome_faults()
        await check(site, http, load, found, cuts)
        for task in tasks:
            task.cancel()
    await site.end(signal.SIGTERM)
    return cuts


async def check(site: ServedSite, http: HttpConnection, load: Load, found: list[Received], cuts: Cuts) -> None:
    """Wait until the programs have everything, and compare it with the views."""
    seqs = {run_id: seq for run_id, seq in site.ask("SELECT run, seq FROM runs") if run_id in load.runs}
    give_up = time.monotonic() + WITHIN_S
    for it in found:
        it.read()
        while any(not it.deltas.get(run_id) or it.deltas[run_id][-1]["seq"] < seq for run_id, seq in seqs.items()):
            if time.monotonic() > give_up:
                break  # the check names the runs
            await asyncio.sleep(1)
            it.read()
        cuts.deltas.append(sum(map(len, it.deltas.values())))
        for run_id, seq in seqs.items():
            cuts.faults += await stream_faults(http, run_id, it.deltas.get(run_id, []), seq, every=it is found[0])
    for it in found[1:]:
        if it.deltas != found[0].deltas:
            cuts.faults.append("the programs have received different deltas")
    cuts.runs, cuts.entries = len(seqs), sum(seqs.values())


def trial(folder: Path, mix: Mix, seed: int) -> Cuts:
    """Do a trial in an empty folder."""
    with Servers(folder) as servers, post_server() as hook:
        return asyncio.run(follow(ServedSite(servers, hook.port), mix, seed))


def main() -> int:
    """Print the figures; return 1 if there is a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.end_to_end.stream_cuts")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="asterism-cuts-") as folder:
        cuts = trial(Path(folder), Mix(local=90, remote=10, cancelled=10, failing=10, loops=40, settlements=20, payments=20), given.seed)
    print("\n".join(cuts.lines()))
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if cuts.faults else 0


if __name__ == "__main__":
    sys.exit(main())
