"""Logs and secrets with real processes: everything that is printed, and no secret anywhere."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.desk import Desk

TOKEN = 'hunter2-and-"more"-é'  # noqa: S105 - none
REFERENCE = "${secret.TOKEN}"
SKILLS = Path(__file__).parent / "log_skills.py"
FLEET = f"""
[[devices]]
id = "desk"
concurrency = 4
skills = [{", ".join(f'"{SKILLS}:{name}"' for name in ("flood", "reveal", "measure", "talk", "print_and_wait"))}]
env = {{VARIABLE = "device ${{secret.TOKEN}}"}}

[[devices.commands]]
name = "echo"
argv = ["sh", "-c", "echo \\"says $TOKEN\\"; echo \\"complains $TOKEN\\" >&2; exit {{code}}"]
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("ASTERISM_SECRET_TOKEN", TOKEN)
    found = Desk(tmp_path)
    found.fleet.write_text(FLEET, encoding="utf-8")
    return found


def task(task_id: str, skill: str, **fields: Any) -> dict[str, Any]:
    return {"task_id": task_id, "device": "desk", "skill": skill, **fields}


def run(desk: Desk, *tasks: dict[str, Any], code: int | None = 0) -> tuple[str, str]:
    """The run of these tasks, and all that it has printed to the terminal."""
    done = desk.do("run", desk.plan(*tasks), "--fleet", desk.fleet, code=code)
    return str(desk.runs()[0]["run"]), done.stdout + done.stderr


def forms() -> list[bytes]:
    return [form.encode() for form in ("hunter2", json.dumps(TOKEN)[1:-1])]


def assert_nowhere(desk: Desk, *texts: str) -> None:
    """No file of the database has the secret, nor any of the texts."""
    files = [path for path in desk.database.parent.rglob("*") if path.is_file()]
    for content in [*(path.read_bytes() for path in files), *(text.encode() for text in texts)]:
        assert not any(form in content for form in forms())


def until(is_so: Callable[[], bool], within_s: float = 30.0) -> None:
    give_up = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def test_very_long_output_is_bounded_masked_and_followed_with_the_whole_traceback(desk: Desk) -> None:
    plan = desk.plan(task("big", "flood", inputs={"token": REFERENCE, "megabytes": 100}))
    with desk.start("run", plan, "--fleet", desk.fleet) as driver:
        until(lambda: desk.database.exists() and bool(desk.runs()))
        run_id = str(desk.runs()[0]["run"])
        before = resident(driver.pid)
        with desk.start("logs", run_id, "--follow") as follower:
            followed = follower.communicate(timeout=60)[0]
        peak = high_water(driver.pid) if driver.poll() is None else before
        driver.communicate(timeout=60)
    assert driver.returncode == 1
    assert peak < before + 60_000, "kB"
    text = desk.do("logs", run_id).stdout
    assert 8_000_000 < len(text) < 9_000_000
    assert text.startswith("--- big ---\nfirst line\n")
    assert re.search(r"\n… 9\d(\.\d)? MB left out …\n", text)
    assert "last line\n" in text  # two pipes: the end of stdout may be read after it
    assert "\nTraceback (most recent call last):\n" in text
    assert text.endswith("ValueError: no luck with [secret]\n")
    assert "    _give_up(token)\n" in text
    assert followed.endswith("ValueError: no luck with [secret]\n")
    assert len(followed) > 8_000_000
    assert "\n[secret]\n" in text
    assert "hunter2" not in followed
    assert desk.database.stat().st_size < 24 << 20
    assert_nowhere(desk, text, followed, desk.do("show", run_id).stdout, desk.do("log", run_id).stdout, desk.do("export", run_id).stdout)


def resident(pid: int) -> int:
    return _status(pid, "VmRSS")


def high_water(pid: int) -> int:
    return _status(pid, "VmHWM")


def _status(pid: int, field: str) -> int:
    found = re.search(rf"{field}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
    return int(found[1]) if found else 0


def test_a_secret_is_in_no_place_that_a_task_can_write_to(desk: Desk) -> None:
    run_id, shown = run(
        desk,
        task("reveal", "reveal", inputs={"token": REFERENCE}),
        task("measure", "measure", inputs={"token": f"Bearer {REFERENCE}"}),
        task("echo", "echo", inputs={"code": "0"}, env={"TOKEN": REFERENCE}),
        task("fail", "echo", inputs={"code": "3"}, env={"TOKEN": REFERENCE}),
        task("argv", "echo", inputs={"code": REFERENCE}),
        code=1,
    )
    result = desk.do("show", run_id, "--json").stdout
    logs = desk.do("logs", run_id).stdout
    assert "printed [secret] {'repr': '[secret]'}" in logs
    assert "child [secret]" in logs
    assert "variable device [secret]" in desk.do("logs", run_id, "measure").stdout  # in the logs of all, another task may be within
    assert logs.count("complains [secret]") == 2
    assert "the result contains the secret TOKEN, and results are journaled" in result
    assert "sh ended with exit code 3: complains [secret]" in result
    assert "argument code has a secret, and every user can see a command line; pass it as a variable of the task (env)" in result
    states = {name: it["status"] for name, it in json.loads(result)["tasks"].items()}
    assert states == {"reveal": "FAILED", "measure": "COMPLETED", "echo": "FAILED", "fail": "FAILED", "argv": "FAILED"}
    fork = desk.do("fork", run_id, "--at", "1", "--no-drive").stdout
    exported = desk.do("export", run_id).stdout
    assert_nowhere(desk, shown, result, logs, fork, exported, desk.do("log", run_id, "--json").stdout)


def test_text_of_a_result_is_no_reference(desk: Desk) -> None:
    dependency = {"from": "fetch", "to": "use"}
    plan = desk.plan(
        task("fetch", "talk", inputs={"text": "page: ${params.page}"}),
        task("use", "talk", inputs={"text": "${fetch}"}),
        dependencies=[dependency],
    )
    content = json.loads(plan.read_text())
    content["params"] = {"page": {"type": "str"}}
    plan.write_text(json.dumps(content))
    desk.do("run", plan, "--fleet", desk.fleet, "--set", f"page={REFERENCE}")
    assert desk.do("logs", str(desk.runs()[0]["run"]), "use").stdout == f"page: {REFERENCE}\n"


def test_a_missing_secret_is_named_before_the_run_starts(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASTERISM_SECRET_TOKEN")
    plan = desk.plan(task("a", "talk", inputs={"text": REFERENCE}))
    said = "secret TOKEN is not set; set ASTERISM_SECRET_TOKEN where the task is performed"
    for command in ("plan", "run"):
        done = desk.do(command, plan, "--fleet", desk.fleet, code=2)
        assert done.stderr.count(said) == 1
        assert said not in done.stdout
    assert not desk.runs()


def test_output_of_a_worker_that_is_killed_and_of_one_whose_driver_is_killed(desk: Desk) -> None:
    there = desk.folder / "there"
    plan = desk.plan(task("a", "print_and_wait", inputs={"there": str(there)}))
    for victim in ("worker", "driver"):
        there.unlink(missing_ok=True)
        with desk.start("run", plan, "--fleet", desk.fleet) as driver:
            until(lambda: there.exists() and bool(there.read_text()))
            run_id = str(desk.runs()[0]["run"])
            until(lambda: "half a line" in desk.do("logs", run_id).stdout) if victim == "driver" else None  # noqa: B023
            os.kill(int(there.read_text()) if victim == "worker" else driver.pid, signal.SIGKILL)
            driver.communicate(timeout=60)
        assert desk.do("logs", run_id, "a").stdout == "before the kill\nhalf a line\n"


def test_logs_by_task_stream_and_attempt_and_as_json(desk: Desk) -> None:
    run_id, _ = run(
        desk,
        task("one", "talk", inputs={"text": "größer"}),
        task("two", "flood", inputs={"token": "none here", "megabytes": 0}, retry={"max_attempts": 2, "backoff_s": 0}),
        code=1,
    )
    assert desk.do("logs", run_id, "one").stdout == "größer\n"
    assert desk.do("logs", run_id, "two", "--stream", "stdout", "--attempt", "2").stdout == "first line\n"
    both = desk.do("logs", run_id, "two").stdout
    assert both.count("Traceback") == 2
    chunks = [json.loads(line) for line in desk.do("logs", run_id, "one", "--json").stdout.splitlines()]
    assert [(it["task"], it["stream"], it["position"], it["data"]) for it in chunks] == [("one", "stdout", 0, "größer\n")]
    assert "three has printed nothing" in desk.do("logs", run_id, "three", code=2).stderr


def test_logs_are_exported_imported_and_pruned(desk: Desk) -> None:
    run_id, _ = run(desk, task("one", "talk", inputs={"text": "printed"}))
    file = desk.folder / "run.jsonl"
    desk.do("export", run_id, "-o", file)
    assert b"\nprinted" not in file.read_bytes()
    desk.do("prune", "--outcome", "finished")
    with closing(sqlite3.connect(desk.database)) as connection:
        assert connection.execute("SELECT count(*) FROM logs").fetchone() == (0,)
    desk.do("import", file)
    assert desk.do("logs", run_id).stdout == "--- one ---\nprinted\n"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(lines[:-1]), encoding="utf-8")
    assert "its end is missing" in desk.do("import", file, code=2).stderr
    desk.do("export", run_id, "-o", file, "--no-logs")
    assert len(file.read_text(encoding="utf-8").splitlines()) == len(lines) - 1


def test_functions_of_the_program_itself_and_loops_have_logs(desk: Desk) -> None:
    program = desk.folder / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    done = subprocess.run(
        [*desk.argv()[:1], str(program)], env=desk.environment(), capture_output=True, text=True, timeout=60, check=False, cwd=desk.folder
    )
    assert "printed by a lambda" in done.stdout, done.stderr
    found = {str(it["run"]): desk.do("logs", str(it["run"])).stdout for it in desk.runs()}
    text = "".join(found.values())
    assert "printed by a lambda\n" in text
    assert "printed by a worker\n" in text
    assert "ValueError: a worker failed [secret]" in text
    assert_nowhere(desk, text)


PROGRAM = """
import asyncio, os
import asterism
from asterism.loop.python.worker import Worker

async def work(handoff):
    print("printed by a worker")
    raise ValueError("a worker failed " + os.environ["ASTERISM_SECRET_TOKEN"])

async def leak(handoff):
    return {"a": os.environ["ASTERISM_SECRET_TOKEN"]}

async def plan(view):
    return [{"step_id": name, "worker": name, "intent": "x"} for name in ("work", "leak")]

async def main():
    async with asterism.open() as app:
        c = asterism.Constellation("c")
        local = 1
        c.task(lambda text="x": print("printed by a lambda"), text="y")
        await app.run(c)
        print(await loop.run("do it"))

loop = asterism.OrchestrationLoop(plan=plan, workers={"work": Worker(work), "leak": Worker(leak)})
if __name__ == "__main__":
    asyncio.run(main())
"""
