"""(b) How long a run stands still when its process is killed: from the start of the next process to the next task executing.

Real processes. ``python -m benchmarks.restart DATABASE`` is the one that is killed, halfway; with ``again`` it is the next one.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from asterism.devices.port import Attempt, AttemptResult, Device, Signs
from asterism.engine.kernel.journal import Entry
from asterism.stores.sqlite import SqliteStore
from benchmarks.engine import IDLE, open_runtime, submit
from benchmarks.plans import chain

LENGTH = 200
POLL_S = 0.002
PATIENCE_S = 20.0

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""As users have it: what was compiled once is not compiled again."""

SKILLS = """
import time
from asterism import skill

@skill(idempotent=True)
def nothing(log: str) -> dict:
    "Writes down when it was called."
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"{time.monotonic()}\\n")
    return {}
"""
FLEET = """
[[devices]]
id = "idle"
kind = "local"
skills = ["skills.py:nothing"]
"""


class Killed:
    """An observer that is the crash."""

    def appended(self, run_id: str, entries: Sequence[Entry]) -> None:
        if entries[-1].seq >= LENGTH:  # two entries a task
            os.kill(os.getpid(), signal.SIGKILL)

    def trouble(self, run_id: str, message: str) -> None:
        print(message, file=sys.stderr)


class Telling(Device):
    """A device that says when it is first asked, and is the end of the measurement."""

    def __init__(self) -> None:
        super().__init__(IDLE)

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        await signs.begun()
        print(time.monotonic(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        return AttemptResult()


async def _begin(database: Path) -> None:
    store = SqliteStore.open(database, create=True)
    async with open_runtime(store, observers=[Killed()]) as runtime:
        await runtime.drive(await submit(runtime, chain(LENGTH)))


async def _again(database: Path) -> None:
    store = SqliteStore.open(database, create=False)
    async with open_runtime(store, device=Telling()) as runtime:
        (row,) = await runtime.runs()
        await runtime.drive(row.run_id)


def engine_restart_s() -> float:
    """Seconds until a device in the next process is asked: interpreter, imports, database, claim, replay, redo."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.restart", str(Path(folder) / "runs.db")]
        subprocess.run(command, check=False, env=ENVIRONMENT)
        started = time.monotonic()
        told = subprocess.run([*command, "again"], check=False, capture_output=True, text=True, env=ENVIRONMENT).stdout
        return float(told) - started


def command_restart_s() -> float:
    """Seconds until a skill's process is at work again after ``asterism resume``: all of that, the command and its device's process."""
    with tempfile.TemporaryDirectory() as name:
        folder, log = Path(name), Path(name) / "log"
        (folder / "skills.py").write_text(SKILLS, encoding="utf-8")
        (folder / "fleet.toml").write_text(FLEET, encoding="utf-8")
        tasks = [{"task_id": f"t{n}", "name": "nothing", "device": "idle", "inputs": {"log": str(log)}} for n in range(LENGTH)]
        lines = [{"from": f"t{n}", "to": f"t{n + 1}"} for n in range(LENGTH - 1)]
        (folder / "plan.json").write_text(json.dumps({"tasks": tasks, "dependencies": lines}), encoding="utf-8")
        asterism = [sys.executable, "-m", "asterism.cli"]
        options = ["--fleet", str(folder / "fleet.toml"), "--database", str(folder / "runs.db")]
        with subprocess.Popen([*asterism, "run", str(folder / "plan.json"), *options], stdout=subprocess.DEVNULL, env=ENVIRONMENT) as first:
            _wait_for(log, LENGTH // 2)
            first.kill()
        before = len(_times(log))
        started = time.monotonic()
        with subprocess.Popen([*asterism, "resume", *options], stdout=subprocess.DEVNULL, env=ENVIRONMENT) as second:
            after = _wait_for(log, before + 1)
            second.kill()
        return after[before] - started


def _wait_for(log: Path, count: int) -> list[float]:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if len(times := _times(log)) >= count:
            return times
        time.sleep(POLL_S)
    raise RuntimeError(f"no {count} tasks within {PATIENCE_S:g} s")


def _times(log: Path) -> list[float]:
    return [float(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []


def rows(*, quick: bool) -> list[str]:
    """Rows of the table of figures."""
    repeats = 1 if quick else 15
    engine = statistics.median(engine_restart_s() for _ in range(repeats))
    command = statistics.median(command_restart_s() for _ in range(repeats))
    killed = f"(b) a chain of {LENGTH} killed halfway: from the start of the next process to that of the next task, no device process"
    return [
        f"| {killed} | {engine * 1000:,.0f} ms |",
        f"| (b) the same by `asterism resume`, with a local device and its process | {command * 1000:,.0f} ms |",
    ]


if __name__ == "__main__":
    asyncio.run(_again(Path(sys.argv[1])) if "again" in sys.argv else _begin(Path(sys.argv[1])))
