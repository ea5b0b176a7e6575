"""``python -m examples.console``: a server with runs to look at, for people who try the console and for its pictures.

Every run is a real one. What was done "last night" was done by a process whose clock is slow (``earlier.py``). A script stands in for
the model.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime as dt
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import httpx2

from asterism.engine.runtime.clock import SystemClock
from asterism.testing.scripted_model import ScriptedModel
from examples.console import model, plans
from examples.digits.__main__ import REQUEST as DIGITS
from examples.replan.__main__ import REQUEST as REPLAN

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FLEET = HERE / "fleet.toml"
AGENTS = ROOT / "examples" / "flows" / "flows.py"
HOUR_S = 3600.0
LIMIT_S = 300.0
"""Limit of each wait."""
END_S = 15.0
TRIES = 200
MODEL = "openai:gpt-4o"


class Site:
    """A folder with a database, and commands in it, which have ended when the site is closed."""

    def __init__(self, folder: Path, model_url: str) -> None:
        self.folder = folder
        self._started: list[asyncio.subprocess.Process] = []
        self._environment = {
            **os.environ,
            "ASTERISM_DATABASE": str(folder / "runs.db"),
            "ASTERISM_DIGITS_DIR": str(folder / "digits"),
            "ASTERISM_MODEL_BASE_URL": model_url,
            "OPENAI_API_KEY": "any",
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
        }

    async def start(self, *command: str, slow_s: float = 0.0, model: str = "") -> asyncio.subprocess.Process:
        """Start a command whose clock is slow."""
        argv = (sys.executable, "-m", "examples.console.earlier", str(slow_s), *command)
        environment = {**self._environment, "ASTERISM_MODEL": model, "ASTERISM_BACKUP_MODEL": ""}
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*argv, cwd=self.folder, env=environment, stdout=pipe, start_new_session=True)
        self._started.append(process)
        return process

    async def command(self, *command: str, slow_s: float = 0.0, model: str = "") -> str:
        """Return what a command prints."""
        process = await self.start(*command, slow_s=slow_s, model=model)
        async with asyncio.timeout(LIMIT_S):
            printed, _ = await process.communicate()
        return printed.decode()

    async def until(self, process: asyncio.subprocess.Process, words: str) -> str:
        """Read what a process prints until a line has these words; return the line, or nothing if it has ended."""
        line, output = "", cast("asyncio.StreamReader", process.stdout)
        async with asyncio.timeout(LIMIT_S):
            while words not in line and (read := await output.readline()):
                line = read.decode()
        return line if words in line else ""

    async def close(self) -> None:
        """End what is under way: a server in good order, and then whatever is left."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in self._started:
                if process.returncode is None:
                    process.send_signal(number)
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(process.wait(), END_S)


def write_inputs(folder: Path) -> None:
    """Write the files that the skills read."""
    (folder / "orders").mkdir()
    for number in range(1, 9):
        (folder / "orders" / f"2026-{number:02}.csv").write_text(f"lamp,{number}\n" * 50)
    (folder / "rates.json").write_text('{"EUR": 0.9}')
    (folder / "stock.csv").write_text("lamp,40\ntable,12\nchair,61\nshelf,9\nbench,7\ndesk,18\nstool,twelve\nbed,5\n")
    for supplier in ("acme", "borealis"):
        (folder / f"{supplier}.csv").touch()
    (folder / "backup.json").write_text(json.dumps(plans.backup()))


async def last_night(site: Site, until_night_s: float) -> None:
    """Train with noisy digits, whose deployment is skipped, and start the backup of two nights, by a server that was late."""
    fleet = ("--fleet", str(FLEET))
    await site.command(
        "schedule", "add", "0 2 * * *", "backup.json", "--name", "nightly-backup", *fleet, slow_s=until_night_s + 30 * HOUR_S
    )
    await site.command("run", DIGITS.format(" with noise 6"), *fleet, slow_s=until_night_s + 2 * HOUR_S)
    for nights in (1, 0):
        slow_s = until_night_s + nights * 24 * HOUR_S
        server = await site.start("serve", "--no-api", *fleet, slow_s=slow_s)
        for _ in range(TRIES):
            listed = await site.command("runs", slow_s=slow_s)
            if listed.count("finished") == 3 - nights:
                break
        server.send_signal(signal.SIGTERM)
        await server.wait()


async def this_morning(site: Site) -> None:
    """A run that is killed and resumed, one whose plan a model changes, and two loops."""
    fleet = ("--fleet", str(FLEET))
    first = await site.start("run", DIGITS.format(""), *fleet, slow_s=3 * HOUR_S)
    await site.until(first, "started on gpu_server")
    os.killpg(first.pid, signal.SIGKILL)
    await first.wait()
    await site.command("resume", slow_s=2.99 * HOUR_S)
    await site.command("run", REPLAN, *fleet, "--replan", "always", slow_s=2 * HOUR_S, model=MODEL)
    await site.command("loop", "run", f"{HERE / 'agents.py'}:slow_checkout", "Why is the checkout slow since nine?", slow_s=1.5 * HOUR_S)
    asked = await site.command("loop", "run", f"{ROOT / 'examples/refund/desk.py'}:desk", "Order 17 arrived broken.", slow_s=1.2 * HOUR_S)
    if found := re.search(r"asterism answer (\S+) approve", asked):
        await site.command("answer", found[1], "approve", slow_s=1.1 * HOUR_S)


class Api:
    """The API of the server, with the token that the server has written."""

    def __init__(self, url: str, token: str) -> None:
        self._http = httpx2.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60)

    async def post(self, path: str, body: Any = None) -> Any:
        """Send a body; return the answer."""
        answer = await self._http.post(path, json=body)
        if answer.is_error:
            raise RuntimeError(f"{path}: {answer.status_code} {answer.text}")
        return answer.json() if answer.content else None

    async def get(self, path: str) -> Any:
        """Return the answer."""
        return (await self._http.get(path)).raise_for_status().json()

    async def submit(self, plan: plans.Plan, **more: Any) -> str:
        """Submit a plan; return the id of the run."""
        run = await self.post("/api/runs", {"plan": plan, "title": plan["name"], **more})
        return str(run["run_id"])

    async def ended(self, run_id: str) -> None:
        """Wait until a run has ended."""
        for _ in range(TRIES):
            if (await self.get(f"/api/runs/{run_id}"))["run"]["status"] == "ended":
                return
            await asyncio.sleep(0.5)
        raise TimeoutError(f"run {run_id} does not end")


async def now(api: Api, folder: Path) -> None:
    """What is live: a failure, a fork, approvals, costs, conversations and schedules."""
    stock = await api.submit(plans.stock())
    sales = await api.submit(plans.sales())
    await api.ended(sales)
    entries = (await api.get(f"/api/runs/{sales}/entries?limit=1000"))["entries"]
    read = next(it["seq"] for it in entries if it["kind"] == "attempt_ended")
    (folder / "rates.json").write_text('{"EUR": 0.95}')
    fork = await api.post(f"/api/runs/{sales}/commands", {"command": "fork", "at": read})
    await api.ended(fork["run_id"])
    await api.ended(stock)
    (folder / "stock.csv").write_text((folder / "stock.csv").read_text().replace("twelve", "12"))

    await api.submit(plans.release())
    await api.submit(plans.catalogue())
    await api.post("/api/runs", {"request": model.COMPARE, "options": {"replan": "always", "hold": "none"}})
    for agent, text, values in conversations():
        await api.post("/api/conversations", {"agent": agent, "text": text, "values": values})
    await schedules(api)


def conversations() -> list[tuple[str, str, Mapping[str, Any]]]:
    """Agents, first messages and values: one that waits for an approval, one for a field, one that has ended."""
    return [
        ("LeaveRequest", "I need leave", {"first": "2026-12-21", "last": "2026-12-31", "reason": "a wedding"}),
        ("RestaurantBooking", "book a table for 4 on Friday", {}),
        ("RestaurantBooking", "book a table", {"guests": 2, "day": "2026-12-04", "name": "Nakamura", "seating": "inside"}),
    ]


async def schedules(api: Api) -> None:
    """Add a schedule that fails, one that is paused, and one that was never due."""
    await api.post("/api/schedules", {"name": "stock-of-the-branch", "cron": "30 5 * * *", "zone": "Europe/Berlin", "plan": plans.branch()})
    await api.post("/api/schedules", {"name": "weekly-sales", "cron": "0 7 * * 1", "zone": "Europe/Berlin", "plan": plans.sales()})
    await api.post("/api/schedules", {"name": "winter-catalogue", "cron": "0 3 1 * *", "zone": "Europe/Berlin", "plan": plans.catalogue()})
    await api.post("/api/schedules/stock-of-the-branch/commands", {"command": "run"})
    await api.post("/api/schedules/winter-catalogue/commands", {"command": "pause"})


def seconds_since_night() -> float:
    """Return the seconds since two o'clock of the last night."""
    at = dt.datetime.fromtimestamp(SystemClock().now()).astimezone()
    night = at.replace(hour=2, minute=0, second=4, microsecond=0)
    return (at - night).total_seconds() % (24 * HOUR_S)


async def serve(folder: Path, port: int) -> int:
    """Fill a folder, serve it until Ctrl-C or SIGTERM, and return the exit code of the server."""
    if task := asyncio.current_task():
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    write_inputs(folder)
    async with ScriptedModel(model.answer) as scripted:
        site = Site(folder, scripted.openai_url)
        began = time.monotonic()
        try:
            await last_night(site, seconds_since_night())
            await this_morning(site)
            server = await site.start("serve", "--fleet", str(FLEET), "--agents", str(AGENTS), "--port", str(port), model=MODEL)
            if found := re.search(r"(http\S+)/#login=", await site.until(server, "#login=")):
                api = Api(found[1], (folder / "runs.db.token").read_text().strip())
                await now(api, folder)
                link = (await api.post("/api/login-links"))["link"]
                print(f"filled {folder} in {time.monotonic() - began:.0f} s\n{found[1]}/#login={link}", flush=True)
            return await server.wait()
        finally:
            await site.close()


def main() -> int:
    """Run the example."""
    parser = argparse.ArgumentParser(prog="python -m examples.console", description=__doc__)
    parser.add_argument("--port", type=int, default=8642)
    parser.add_argument("--folder", type=Path, help="an empty folder for the database and the files [default: a temporary one]")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="asterism-console-"))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        parser.error(f"{folder} is not empty")
    try:
        return asyncio.run(serve(folder.absolute(), options.port))
    except asyncio.CancelledError:
        return 0


if __name__ == "__main__":
    sys.exit(main())
