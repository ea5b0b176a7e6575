"""A server in real processes: it is killed, stopped and frozen while runs of all machines go on."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import IO, TypeVar

import pytest

import asterism
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.client import Client
from tests.end_to_end import command
from tests.support.small_disk import fill, mounted

HERE = Path(__file__).parent
LIMIT_S = 60.0
T = TypeVar("T")


class Place:
    """A folder with a database, in which servers run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / "runs.db"
        shutil.copy(HERE / "served_agents.py", folder / "agents.py")

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "ASTERISM_DATABASE": str(self.database), "PYTHONUNBUFFERED": "1"}

    def command(self, *arguments: str, timeout: float = LIMIT_S) -> subprocess.CompletedProcess[str]:
        return command.run(arguments, env=self.environment, cwd=self.folder, timeout=timeout)

    def submit(self, constellations: int, loops: int, conversations: int) -> list[str]:
        argv = [sys.executable, "agents.py", str(constellations), str(loops), str(conversations)]
        done = subprocess.run(argv, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=LIMIT_S, check=True)
        return done.stdout.split()

    @contextlib.contextmanager
    def server(self, *options: str, errors: IO[str] | int | None = None) -> Iterator[subprocess.Popen[str]]:
        """A server that says that it serves; it is killed at the end. Its standard error goes to ``errors``."""
        argv = [sys.executable, "-m", "asterism.cli", "serve", *options]
        with subprocess.Popen(argv, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
            try:
                assert process.stdout
                assert process.stdout.readline().startswith("serving ")
                yield process
            finally:
                process.kill()

    def ask(self, work: Callable[[Client], Awaitable[T]]) -> T:
        async def connected() -> T:
            async with asterism.connect(self.database) as client:
                return await work(client)

        return asyncio.run(connected())

    def rows(self) -> list[RunRow]:
        return self.ask(lambda client: client.runs(limit=1000, roots_only=True))

    def until(self, holds: Callable[[list[RunRow]], bool], limit_s: float = LIMIT_S) -> list[RunRow]:
        """Wait until the rows of the runs are so; return them."""
        end = time.monotonic() + limit_s
        while not holds(rows := self.rows()):
            assert time.monotonic() < end, [(row.title, row.status, row.owner, row.problem) for row in rows]
            time.sleep(0.1)
        return rows

    def done(self) -> collections.Counter[str]:
        """How often each effect was performed, by its name and key."""
        with contextlib.suppress(FileNotFoundError):
            return collections.Counter((self.folder / "done").read_text(encoding="utf-8").splitlines())
        return collections.Counter()

    def approve_all(self) -> int:
        """Let people say that what was interrupted may run again; return how often they were asked anew."""

        async def approve(client: Client) -> int:
            asked = [row for row in await client.inquiries() if not await client.has_sent(row.run_id, row.inquiry_id)]
            for row in asked:
                await client.post_answer(row.inquiry_id, "approve", actor="test")
            return len(asked)

        return self.ask(approve)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def ended(rows: list[RunRow]) -> bool:
    return all(row.status == "ended" for row in rows)


def settled(rows: list[RunRow]) -> bool:
    return all(not row.owner and row.status in ("ended", "waiting") for row in rows)


def assert_all_finished(place: Place, runs: int, *, interrupted: bool) -> None:
    asked = 0

    def answered_and_ended(rows: list[RunRow]) -> bool:
        nonlocal asked
        asked += place.approve_all()
        return ended(rows)

    rows = place.until(answered_and_ended, 4 * LIMIT_S)
    assert interrupted or not asked, "work that must not be repeated had time to end"
    assert [row.outcome for row in rows] == ["finished"] * runs
    times = place.done()
    assert {name: count for name, count in times.items() if name.startswith("deploy") and count > 1} == {}
    keys = collections.Counter(name.split()[0] for name in times)
    assert {name: keys[name] for name in ("prepare", "work_a", "work_b", "settle")} == {
        "prepare": 8,
        "work_a": 6,
        "work_b": 6,
        "settle": 6,
    }


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_that_is_killed_again_and_again_loses_and_doubles_nothing(place: Place, number: signal.Signals) -> None:
    place.submit(8, 6, 6)
    for after_s in (0.3, 0.6, 0.9):
        with place.server() as process:
            time.sleep(after_s)
            process.send_signal(number)
            assert process.wait(30) == (0 if number is signal.SIGTERM else -number)
    with place.server():
        assert_all_finished(place, 20, interrupted=number is signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_frozen_server_keeps_its_runs_and_goes_on_and_two_servers_share_the_work(place: Place) -> None:
    with place.server() as first, place.server():
        place.submit(8, 6, 6)
        time.sleep(0.5)
        first.send_signal(signal.SIGSTOP)
        time.sleep(2)
        first.send_signal(signal.SIGCONT)
        assert_all_finished(place, 20, interrupted=False)
        assert set(place.done().values()) == {1}


def test_what_was_interrupted_goes_on_with_the_next_server_and_sigterm_loses_nothing(place: Place) -> None:
    place.submit(2, 1, 1)
    with place.server() as process:
        place.until(lambda rows: any(row.owner for row in rows))
        process.terminate()
        assert process.wait(30) == 0
        assert process.stdout
        assert process.stdout.read().splitlines()[-1] == "stopped; the runs continue with the next server, or with: asterism resume"
    assert all(not row.owner and not row.problem for row in place.rows())
    with place.server():
        rows = place.until(ended)
    assert [row.outcome for row in rows] == ["finished"] * 4
    assert {count for name, count in place.done().items() if name.startswith("deploy")} == {1}


def test_a_second_sigterm_ends_the_waiting_for_work_that_must_not_be_repeated(place: Place) -> None:
    (place.folder / "long.py").write_text(
        "import time\nfrom asterism import Constellation, skill\n\n\n@skill\ndef wait() -> None:\n    open('began', 'w').close()\n"
        "    time.sleep(600)\n\n\nlong = Constellation('long')\nlong.task(wait)\n"
    )
    with place.server("--no-api", "--grace", "600", errors=subprocess.PIPE) as process:
        argv = [sys.executable, "-m", "asterism.cli", "run", "long.py"]
        with subprocess.Popen(argv, cwd=place.folder, env=place.environment, stdout=subprocess.DEVNULL) as following:
            place.until(lambda _: (place.folder / "began").exists())
            process.terminate()
            assert process.stderr
            assert process.stderr.readline() == "asterism: SIGTERM: stopping; runs are released at their next transition\n"
            process.terminate()
            assert process.wait(LIMIT_S) == 0
            following.terminate()
    assert [(row.status, row.owner) for row in place.rows()] == [("active", "")]


def test_a_server_whose_log_is_on_a_full_disk_drives_its_runs(place: Place) -> None:
    lost = place.submit(0, 1, 0)
    agents = (place.folder / "agents.py").rename(place.folder / "hidden.py")
    with Path("/dev/full").open("w", encoding="utf-8") as full, place.server("--no-api", errors=full):
        place.until(lambda rows: rows[0].tries > 0)
        agents.rename(place.folder / "agents.py")
        place.submit(1, 0, 0)
        place.until(lambda rows: [row.outcome for row in rows if row.run_id not in lost] == ["finished"])


def test_a_server_deletes_runs_that_ended_longer_ago_than_it_retains_them(place: Place) -> None:
    assert place.command("run", "agents.py:plan").returncode == 0
    refused = place.command("serve", "--retain-days", "0")
    assert (refused.returncode, refused.stderr) == (2, "asterism: --retain-days must be a number of days above 0, not 0\n")
    with place.server("--no-api", "--retain-days", "0.000001"):
        place.until(lambda rows: not rows)


def test_the_status_shows_servers_runs_and_schedules_here_and_from_a_server(place: Place) -> None:
    (run,) = place.submit(0, 1, 0)
    assert place.command("schedule", "add", "0 2 * * *", "agents.py:plan", "--name", "nightly").returncode == 0
    before = place.command("status").stdout.splitlines()
    assert before[:2] == ["server    none runs; start one with: asterism serve", "runs      1 due"]
    (place.folder / "agents.py").unlink()
    with place.server("--port", "0") as process:
        assert process.stdout
        url = process.stdout.readline().removeprefix("API at ").partition(",")[0]
        place.until(lambda rows: rows[0].tries > 0 and not rows[0].owner)
        shown = place.command("status").stdout
        assert re.match(rf"server    process {process.pid} on \S+, drives 0 runs, since \d{{4}}-.*\n          version \d.*, {url}\n", shown)
        assert re.search(rf"\nruns      1 stuck\nstuck     {run}  .*\n          .*cannot be found.*again at", shown)
        assert re.search(r"\nnext      \d{4}-\d\d-\d\d \d\d:00  nightly\n", shown)
        for options in ((), ("--server", url)):
            found = json.loads(place.command("status", "--json", *options).stdout)
            assert (found["work"]["counts"], found["runs"]["stuck"][0]["run"]) == ({"stuck": 1}, run)
            assert [(it["serves"], it["url"]) for it in found["processes"]] == [(True, url)]
        assert "1 stuck" in place.command("status", "--server", url).stdout


def test_a_backup_of_a_live_database_continues_and_repeats_what_came_after_it(place: Place) -> None:
    (place.folder / "ops.py").write_text(
        "from pathlib import Path\nfrom asterism import Constellation, SkillContext, skill\n\n\ndef did(name: str, key: str) -> None:\n"
        "    with Path('done').open('a') as log:\n        log.write(f'{name} {key}\\n')\n\n\n"
        "@skill\ndef prepare(context: SkillContext) -> None:\n    did('prepare', context.key)\n\n\n"
        "@skill\ndef ship(context: SkillContext) -> None:\n    did('ship', context.key)\n\n\n"
        "ops = Constellation('ops')\nops.task(ship, after=[ops.task(prepare)], requires_approval=True)\n"
    )
    with place.server("--no-api") as process:
        assert place.command("run", "ops.py").returncode == 3
        done = place.command("backup", "copy.db")
        assert (done.returncode, done.stderr) == (0, "")
        assert re.fullmatch(r"\S+/runs.db: \d+\.\d MB in copy.db\n", done.stdout)
        assert place.approve_all() == 1
        place.until(ended)
        process.terminate()
        assert process.wait(LIMIT_S) == 0
    assert sorted(place.done().values()) == [1, 1]
    for left in place.folder.glob("runs.db*"):
        left.rename(left.with_name(left.name.replace("runs", "lost")))
    (place.folder / "copy.db").rename(place.database)
    with place.server("--no-api"):
        place.until(settled)
        assert place.approve_all() == 1
        (row,) = place.until(ended)
    assert row.outcome == "finished"
    assert {key.split()[0]: count for key, count in place.done().items()} == {"prepare": 1, "ship": 2}, "under the same key"


def test_a_command_follows_a_run_that_a_server_drives_and_its_question_expires_by_itself(place: Place) -> None:
    with place.server():
        done = place.command("run", "agents.py:plan")
        assert (done.returncode, done.stderr) == (0, "")
        assert "FINISH: finished" in done.stdout
        flow = place.command("loop", "run", "agents.py:loop", "go")
        assert flow.returncode == 0
        (folder := place.folder / "asked.py").write_text(
            "from asterism import Constellation, skill\n\n\n@skill\ndef ask() -> int:\n    return 1\n\n\n"
            "asked = Constellation('asked')\nasked.task(ask, requires_approval=True)\n"
        )
        waiting = place.command("run", str(folder), "--inquiry-timeout-s", "4")
        assert waiting.returncode == 3
        assert "waits for a person" in waiting.stdout
        (row,) = (row for row in place.rows() if row.status == "waiting")
        assert (row.owner, row.due_at is not None) == ("", True)
        rows = place.until(ended)
        assert [row.outcome for row in rows if row.title == "asked"] == ["failed"]


def test_a_command_follows_a_run_of_a_server_through_its_waits(place: Place) -> None:
    tasks = [{"task_id": "pause", "wait": {"for_s": 0.5}}, {"task_id": "paid", "wait": {"event": "paid"}, "timeout_s": 1}]
    plan = {"tasks": tasks, "dependencies": [{"from": "pause", "to": "paid"}]}
    (file := place.folder / "waits.json").write_text(json.dumps(plan))
    with place.server():
        done = place.command("run", str(file))
    assert (done.returncode, "it waited longer than 1 s" in done.stdout) == (1, True)


def test_a_run_that_a_server_drives_needs_its_secrets_only_there(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.folder / "uses.py").write_text(
        "from asterism import Constellation, skill\n\n\n@skill\ndef use(token: str) -> int:\n    return len(token)\n\n\n"
        "uses = Constellation('uses')\nuses.task(use, token='${secret.KEY}')\n"
    )
    refused = place.command("run", "uses.py")
    assert (refused.returncode, refused.stderr.count("secret KEY is not set")) == (2, 1)
    monkeypatch.setenv("ASTERISM_SECRET_KEY", "long enough")
    with place.server():
        monkeypatch.delenv("ASTERISM_SECRET_KEY")
        assert place.command("run", "uses.py").returncode == 0
        assert place.command("run", "uses.py", "--here").returncode == 2


def test_a_run_that_cannot_be_driven_is_stuck_until_its_definition_is_back(place: Place) -> None:
    (agents := place.folder / "agents.py").rename(hidden := place.folder / "hidden.py")
    shutil.copy(hidden, agents)
    (run,) = place.submit(0, 1, 0)
    agents.unlink()
    with place.server():
        rows = place.until(lambda rows: rows[0].tries > 0)
        assert "the loop agents.py:loop cannot be found" in rows[0].problem
        listed, shown = place.command("runs").stdout, place.command("show", run).stdout
        assert re.search(r"stuck +\d", listed)
        assert "cannot be found" in listed
        assert re.search(r"stuck: .*cannot be found.*\(tried \d times?, again at ", shown)
        hidden.rename(agents)
        resumed = place.command("resume", run)
        assert resumed.returncode == 0 or "has already ended (finished)" in resumed.stderr, "the server may have been first"
        assert place.rows()[0].outcome == "finished"


def catches_sigterm(pid: int) -> bool:
    """Whether a process handles signals by itself, as a command does once it follows a run."""
    (caught,) = re.findall(r"SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def test_ctrl_c_stops_the_following_and_not_the_run(place: Place) -> None:
    (slow := place.folder / "slow.py").write_text(
        "import time\nfrom pathlib import Path\nfrom asterism import Constellation, skill\n\n\n@skill\ndef wait() -> int:\n"
        "    while not Path('gate').exists():\n        time.sleep(0.02)\n    return 1\n\n\n"
        "slow = Constellation('slow')\nslow.task(wait)\n"
    )
    argv = [sys.executable, "-m", "asterism.cli", "run", str(slow)]
    with (
        place.server(),
        subprocess.Popen(argv, cwd=place.folder, env=place.environment, stdout=subprocess.PIPE, text=True) as following,
    ):
        place.until(lambda rows: bool(rows) and bool(rows[0].owner) and catches_sigterm(following.pid))
        following.send_signal(signal.SIGINT)
        printed, _ = following.communicate(timeout=LIMIT_S)
        assert following.returncode == 130
        assert "goes on in the server; follow it with: asterism log" in printed
        assert not place.rows()[0].outcome
        (place.folder / "gate").touch()
        (row,) = place.until(ended)
    assert row.outcome == "finished"


APPROVED = """
from pathlib import Path

from asterism import Constellation, skill

@skill
def send() -> str:
    "Fail while there is a file."
    if Path("closed").exists():
        raise ValueError("closed")
    return "sent"

approved = Constellation("approved")
approved.task(send, requires_approval=True)
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_commands_follow_the_runs_of_a_server_unless_they_are_to_drive_them(place: Place) -> None:
    (place.folder / "approved.py").write_text(APPROVED, encoding="utf-8")
    (place.folder / "echo.py").write_text("async def echo(handoff):\n    return handoff.intent\n", encoding="utf-8")
    (place.folder / "loop.toml").write_text(
        '[[steps]]\nworker = "echo"\nintent = "a"\n\n[workers.echo]\nfunction = "echo.py:echo"\n', encoding="utf-8"
    )

    def did(exit_code: int, *arguments: str) -> tuple[str, int]:
        """Perform a command; return the id of its run, and the process that drove it last."""
        done = place.command(*arguments)
        assert done.returncode == exit_code, done.stdout + done.stderr
        run = re.findall(r"(?:run|show) (\d{6}-[0-9a-f]{8})", done.stdout)[-1]
        owners = re.findall(r"by process (\d+)", place.command("log", run).stdout)
        return run, int(owners[-1])

    with place.server("--no-api") as process:
        for here in ([], ["--here"]):
            (place.folder / "closed").touch()
            run, _ = did(3, "run", "approved.py")
            drivers = [did(1, "answer", run, "approve", *here)[1]]
            (place.folder / "closed").unlink()
            again, driver = did(3, "retry", run, *here)  # it asks again
            assert again != run
            drivers += [driver, did(0, "answer", again, "approve", *here)[1]]
            drivers += [did(3, "follow", again, "approved.py", *here)[1], did(0, "loop", "run", "loop.toml", "look", *here)[1]]
            drivers += [did(3, "fork", again, "--at", "1", *here)[1]]
            if here:
                assert process.pid not in drivers
            else:
                assert set(drivers) == {process.pid}


def test_a_run_without_a_fleet_uses_that_of_the_server(place: Place) -> None:
    (place.folder / "fleet.toml").write_text('[[devices]]\nid = "desk"\nskills = ["agents.py:prepare"]\n', encoding="utf-8")
    (place.folder / "elsewhere").mkdir()
    request = ("run", "prepare", "--database", str(place.database))
    assert "needs --fleet" in place.command(*request).stderr
    with place.server("--fleet", "fleet.toml", "--no-api"):
        place.folder /= "elsewhere"
        done = place.command(*request)
        assert (done.returncode, "desk" in done.stdout) == (0, True), done.stdout + done.stderr
        assert "needs --fleet" in place.command(*request, "--here").stderr


def test_a_server_waits_for_room_on_a_full_disk_and_then_its_run_goes_on(place: Place) -> None:
    folder, said = place.folder / "small", place.folder / "said"
    with mounted(folder, "size=2m"), said.open("w", encoding="utf-8") as errors:
        place.database = folder / "runs.db"
        with place.server("--no-api", errors=errors) as process:
            (run,) = place.submit(1, 0, 0)
            filler = fill(folder)
            end = time.monotonic() + LIMIT_S
            while "full" not in said.read_text(encoding="utf-8"):
                assert time.monotonic() < end, said.read_text(encoding="utf-8")
            filler.unlink()
            place.until(lambda rows: [(row.run_id, row.outcome) for row in rows] == [(run, "finished")])
            assert process.poll() is None
    assert (len(place.done()), max(place.done().values())) == (2, 1)


def test_a_server_of_a_read_only_database_does_not_start_and_says_why(place: Place) -> None:
    folder = place.folder / "small"
    with mounted(folder, "size=2m"):
        place.database = folder / "runs.db"
        place.submit(1, 0, 0)
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        refused = place.command("serve", "--no-api", timeout=20)
        assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1), refused.stderr
        assert "writable" in refused.stderr
    assert place.done() == {}
