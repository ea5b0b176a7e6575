"""A server that is killed, stopped and frozen at many moments of a mixed load: ``python -m tests.end_to_end.server_kills``.

The load comes in rounds of 50 runs of all three machines: local and remote devices, files, approvals that are answered over HTTP, cancels,
failures. A schedule starts a run each minute, and some at once. Programs follow the runs by streams, and a receiver gets notifications.
At a sampled moment the process of ``asterism serve`` gets a signal: after a number of entries, after a time, or while it starts.
Then it is started again. In the end, every run must have ended as it must, each effect that may not be repeated must have happened once,
no stream may have missed or repeated anything, each due time must have one run, and each notification must have arrived: once,
or marked as repeated. No process may be left.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import asterism
from asterism.service.http_connection import HttpConnection
from asterism.service.schedules.firing import started
from examples.remote.servers import Servers
from tests.end_to_end.mixed_load import Load, Mix
from tests.end_to_end.served_site import AGENTS, ROOT, ServedSite
from tests.end_to_end.stream_follower import Follower, stream_faults
from tests.support.post_server import PostServer, post_server

ROUND_MOMENTS = 25
"""Moments of a round, at most; it is over when its runs have ended."""
ENDS_S, CATCHES_UP_S = 400.0, 120.0
ENTRIES_S = 5.0
KILLED_TWICE = 0.3
"""Part of the servers that are killed while they stop."""
MINUTE_S = 60


@dataclass
class Figures:
    """What was done, and what came of it."""

    moments: collections.Counter[str] = field(default_factory=collections.Counter)
    runs: collections.Counter[str] = field(default_factory=collections.Counter)
    interrupted: collections.Counter[str] = field(default_factory=collections.Counter)
    answers: int = 0
    frames: int = 0
    deltas: int = 0
    connections: int = 0
    more: dict[str, object] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """Yield the report."""
        yield f"moments {self.moments.total()}: {dict(sorted(self.moments.items()))}"
        yield f"runs {self.runs.total()}: {dict(sorted(self.runs.items()))}"
        yield f"questions answered {self.answers}; about interrupted work: {dict(sorted(self.interrupted.items()))}"
        yield f"streams: {self.frames} frames, {self.deltas} deltas, {self.connections} connections"
        yield "; ".join(f"{name} {value}" for name, value in self.more.items())
        yield f"{len(self.faults)} faults"
        yield from self.faults


class Trial:
    """A server and its load.

    Args:
        site: the site of the server.
        hook: receives the notifications.
        seed: determines the load and the moments.
    """

    def __init__(self, site: ServedSite, hook: PostServer, seed: int) -> None:
        self.site = site
        self.hook = hook
        self.chance = random.Random(seed)
        self.figures = Figures()
        self._loads: list[Load] = []

    async def run(self, moments: int, mix: Mix) -> Figures:
        """Do the rounds; return what came of them."""
        await self.site.serving()
        self._schedule("add", "* * * * *", f"{AGENTS}:ticking", "--overlap", "allow", "--zone", "UTC")
        while (left := moments - self.figures.moments.total()) > 0:
            load = Load(self.site, self.chance, len(self._loads), mix)
            self._loads.append(load)
            await self._round(load, min(left, ROUND_MOMENTS))
            print(
                f"{time.strftime('%X')} round {len(self._loads)}: {self.figures.moments.total()} moments, {self.figures.faults}", flush=True
            )
        await self._finish()
        return self.figures

    # -- one round ---------------------------------------------------------------------------------

    async def _round(self, load: Load, moments: int) -> None:
        async with contextlib.AsyncExitStack() as stack:
            http = await stack.enter_async_context(self.site.connected())
            group = await stack.enter_async_context(asyncio.TaskGroup())
            answering = group.create_task(load.answer(http))
            submitting = group.create_task(load.submit(http))
            cancelling, followers, following = None, list[Follower](), list[asyncio.Task[None]]()
            for _ in range(moments):
                if submitting.done() and cancelling is None:
                    cancelling = group.create_task(load.cancel(http))
                    followers = self._followers(load)
                    following = [group.create_task(it.follow(http)) for it in followers]
                    await self._run_schedule_now()
                if submitting.done() and not load.unended():
                    break
                name = await self._moment()
                self.figures.moments[name] += 1
                with (self.site.folder / "moments.log").open("a") as log:
                    log.write(f"{time.time():.3f} {name}, {self.site.entries()} entries\n")
            await self.site.serving()
            await submitting
            if cancelling is None:
                cancelling = group.create_task(load.cancel(http))
                followers = self._followers(load)
                following = [group.create_task(it.follow(http)) for it in followers]
            await self._until_ended(load)
            await cancelling
            answering.cancel()
            await self._check_streams(http, load, followers)
            self.figures.faults += await load.file_faults(http)
            for task in following:
                task.cancel()
        self._note(load)

    def _followers(self, load: Load) -> list[Follower]:
        """Return a follower of all runs of a round, and one of a run of each kind."""
        one_of_each = {kind: run_id for run_id, kind in load.runs.items()}
        return [Follower(list(load.runs)), *(Follower([run_id]) for run_id in one_of_each.values())]

    async def _until_ended(self, load: Load) -> None:
        give_up = time.monotonic() + ENDS_S
        while load.unended():
            if time.monotonic() > give_up:
                return  # the check of the outcomes names the runs
            await asyncio.sleep(0.5)

    async def _check_streams(self, http: HttpConnection, load: Load, followers: list[Follower]) -> None:
        seqs = {run_id: seq for run_id, seq in self.site.ask("SELECT run, seq FROM runs") if run_id in load.runs}
        give_up = time.monotonic() + CATCHES_UP_S
        while time.monotonic() < give_up and any(it.seq(run) < seqs[run] for it in followers for run in it.received):  # noqa: ASYNC110 - what comes is the measure
            await asyncio.sleep(0.2)
        for number, it in enumerate(followers):
            self.figures.frames += it.frames
            self.figures.connections += it.connections
            self.figures.deltas += sum(map(len, it.received.values()))
            self.figures.faults += it.faults
            for run_id, deltas in it.received.items():
                self.figures.faults += await stream_faults(http, run_id, deltas, seqs[run_id], every=number > 0)

    def _note(self, load: Load) -> None:
        self.figures.faults += load.faults + load.outcome_faults() + load.effect_faults()
        self.figures.interrupted.update(load.interrupted)
        self.figures.runs.update(load.runs.values())
        self.figures.answers += load.answers

    # -- moments -----------------------------------------------------------------------------------

    async def _moment(self) -> str:
        """Send a signal to the server at some moment; return the name of both."""
        number = self.chance.choices((signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP), (5, 3, 2))[0]
        when = self.chance.choices(("start", "entries", "time"), (1, 5, 4))[0]
        if when == "start" and self.site.process is None and number is not signal.SIGSTOP:
            await self.site.spawn()
            await asyncio.sleep(self.chance.uniform(0, 3))
        else:
            process = await self.site.serving()
            when = await self._waited("time" if when == "start" else when)
            if number is signal.SIGSTOP:
                process.send_signal(number)
                await asyncio.sleep(self.chance.uniform(0.1, 3))
                process.send_signal(signal.SIGCONT)
                return f"{number.name} {when}"
        if number is signal.SIGTERM and self.chance.random() < KILLED_TWICE and self.site.process:  # while it releases its runs
            self.site.process.send_signal(number)
            await asyncio.sleep(self.chance.uniform(0, 1))
            await self.site.end(signal.SIGKILL)
            return f"SIGTERM, SIGKILL {when}"
        code = await self.site.end(number)
        if code not in ((-number,) if number is signal.SIGKILL else (0, -number) if when == "start" else (0,)):
            self.figures.faults.append(f"the server ended with {code} after {number.name} ({when}) in its life {self.site.lives}")
        return f"{number.name} {when}"

    async def _waited(self, when: str) -> str:
        if when == "time":
            await asyncio.sleep(self.chance.uniform(0, 2.5))
            return when
        entries, give_up = self.site.entries() + self.chance.randint(1, 60), time.monotonic() + ENTRIES_S
        while self.site.entries() < entries:
            if time.monotonic() > give_up:
                return "time"
            await asyncio.sleep(0.002)
        return when

    # -- the schedule ------------------------------------------------------------------------------

    def _schedule(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "asterism.cli", "schedule", *arguments]
        subprocess.run(command, cwd=ROOT, env=self.site.servers.environment, check=True, stdout=subprocess.DEVNULL)

    async def _run_schedule_now(self) -> None:
        """Let the schedule start some runs now, as ``asterism schedule run`` does."""
        async with asterism.connect(self.site.database) as client:
            for _ in range(3):
                (schedule,) = await client.store.schedules("", name="ticking")
                await client.store.replace_schedule(schedule, before=schedule, firings=[started(schedule, round(time.time(), 3))])
                await asyncio.sleep(0.01)

    def _minutes(self) -> list[int]:
        """Return the due times of the schedule, without those of runs that were started now."""
        return [int(due_at) for (due_at,) in self.site.ask("SELECT due_at FROM firings ORDER BY due_at") if due_at % MINUTE_S == 0]

    def _schedule_faults(self) -> list[str]:
        firings = self.site.ask("SELECT due_at, run, status, reason FROM firings ORDER BY due_at")
        runs = dict(self.site.ask("SELECT run, outcome FROM runs WHERE actor = 'schedule ticking'"))
        faults = [f"the firing of {due_at}: {status}, {reason}" for due_at, _, status, reason in firings if status != "started"]
        wanted = [run_id for _, run_id, status, _ in firings if status == "started"]
        if sorted(wanted) != sorted(runs):
            faults.append(f"the schedule has started {sorted(runs)}, and its firings are {sorted(wanted)}")
        faults += [f"run {run_id} of the schedule: {outcome!r}" for run_id, outcome in runs.items() if outcome != "finished"]
        minutes = self._minutes()
        if not minutes or minutes != list(range(minutes[0], minutes[-1] + 1, MINUTE_S)):
            faults.append(f"due times are missing or repeated: {minutes}")
        ticks = collections.Counter(key for name, key in self.site.done() if name == "tick")
        if len(ticks) != len(runs):
            faults.append(f"{len(runs)} runs of the schedule have done {len(ticks)} ticks")
        self.figures.more |= {"minutes": len(minutes), "firings": len(firings)}
        return faults

    # -- the end -----------------------------------------------------------------------------------

    async def _finish(self) -> None:
        """Wait for the last runs of the schedule and notifications, stop the server, and check what is left."""
        give_up = time.monotonic() + ENDS_S
        await self.site.serving()
        while not self._minutes() and time.monotonic() < give_up:  # noqa: ASYNC110 - a trial of a few moments is shorter
            await asyncio.sleep(1)
        await asyncio.to_thread(self._schedule, "pause", "ticking")
        while self._waiting() and time.monotonic() < give_up:  # noqa: ASYNC110 - another process sends them
            await asyncio.sleep(1)
        if code := await self.site.end(signal.SIGTERM):
            self.figures.faults.append(f"the server ended with {code} at last")
        submitted = {run_id for load in self._loads for run_id in load.runs}
        roots = {run_id for (run_id,) in self.site.ask("SELECT run FROM runs WHERE root = run AND actor <> 'schedule ticking'")}
        if roots != submitted:
            self.figures.faults.append(f"{len(roots)} runs instead of {len(submitted)}")
        self.figures.faults += self._schedule_faults() + self._notice_faults() + [f"left: {it}" for it in await self.site.left()]
        self.figures.more |= {
            "lives of the server": self.site.lives,
            "entries": self.site.entries(),
            "attempts": self.site.ask("SELECT count(*) FROM entries WHERE kind = 'attempt_ended'")[0][0],
            "owners": self.site.ask("SELECT count(*) FROM entries WHERE kind = 'ownership_acquired'")[0][0],
            "effects outside": self.site.done().total() + len(self.site.work()),
            "repeated under their key": sum(count - 1 for count in self.site.done().values()),
        }

    def _waiting(self) -> bool:
        left = (
            "deliveries WHERE status IN ('waiting', 'sending')",
            "notices WHERE NOT routed",
            "firings WHERE status = 'due'",
            "runs WHERE status <> 'ended'",
        )
        return any(self.site.ask(f"SELECT count(*) FROM {it}")[0][0] for it in left)  # noqa: S608 - the texts above

    def _notice_faults(self) -> list[str]:
        """Return the messages that are missing, and those that came again without saying so."""
        messages = [json.loads(body) for _, _, body in list(self.hook.received)]
        firsts = collections.Counter(it["id"] for it in messages if not it.get("repeated"))
        faults = [f"message {name} came {count} times without a mark" for name, count in firsts.items() if count > 1]
        arrived = {it["id"] for it in messages}
        deliveries = self.site.ask("SELECT notice, channel, status, error FROM deliveries")
        faults += [
            f"message {notice} was {status} ({error}), and has not arrived"
            for notice, channel, status, error in deliveries
            if status != "skipped" and f"{notice}-{channel}" not in arrived
        ]
        failed = {run_id for (run_id,) in self.site.ask("SELECT run FROM runs WHERE outcome = 'failed'")}
        told = collections.Counter(it["run"] for it in messages if it["kind"] == "failed" and not it.get("repeated"))
        arrived = {it["run"] for it in messages if it["kind"] == "failed"}
        if failed != arrived or any(count > 1 for count in told.values()):
            faults.append(f"failures: {len(failed)}; with a message: {len(arrived & failed)}; others {arrived - failed}")
        self.figures.more |= {
            "notifications": len(messages),
            "of them repeated": sum(bool(it.get("repeated")) for it in messages),
            "stuck": sum(it["kind"] == "stuck" for it in messages),
        }
        return faults


def trial(folder: Path, moments: int, seed: int, mix: Mix = Mix()) -> Figures:  # noqa: B008 - frozen
    """Do a trial in an empty folder; return its figures."""
    with Servers(folder) as servers, post_server() as hook:
        hook.delay_s = 0.3  # a kill may fall between a message and its record
        return asyncio.run(Trial(ServedSite(servers, hook.port), hook, seed).run(moments, mix))


def main() -> int:
    """Print the figures; return 1 if there is a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.end_to_end.server_kills")
    parser.add_argument("--moments", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="an empty folder that stays; a temporary one by default")
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="asterism-kills-") as temporary:
        figures = trial(given.folder or Path(temporary), given.moments, given.seed)
    print("\n".join(figures.lines()))
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if figures.faults else 0


if __name__ == "__main__":
    sys.exit(main())
