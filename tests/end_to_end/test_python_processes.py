"""Programs with an open app: one that Ctrl-C ends, and one that forks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.end_to_end import command

SLOW = """
import asyncio
import sys
import time
from pathlib import Path

import asterism
from asterism import Constellation, skill


@skill(idempotent=True)
def slow(name: str) -> str:
    Path(f"{name}.begun").touch()
    while not Path("gate").exists():
        time.sleep(0.02)
    return name


def of(name: str) -> Constellation:
    plan = Constellation(name)
    plan.task(slow, name=name)
    return plan


async def main() -> None:
    async with asterism.open("runs.db") as app, asyncio.TaskGroup() as group:
        for name in sys.argv[1:]:
            group.create_task(app.run(of(name)))


if __name__ == "__main__":
    asyncio.run(main())
"""
FORKS = """
import asyncio
import os

import asterism
from asterism import Constellation


async def main() -> None:
    async with asterism.open("runs.db") as app:
        read, write = os.pipe()
        if os.fork() == 0:
            for use in (lambda: app.runs(), lambda: app.run("x"), lambda: app.run_of("x").result()):
                try:
                    asyncio.run(use())
                except asterism.AsterismError as error:
                    os.write(write, f"{type(error).__name__}: {error}\\n".encode())
            os._exit(0)
        os.wait()
        print(os.read(read, 10_000).decode().replace(str(os.getpid()), "PID"), end="")
        print(len(await app.runs()))


asyncio.run(main())
"""
WITHIN_S = 60.0


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "ASTERISM_DATABASE": str(folder / "runs.db")}


@pytest.mark.parametrize(
    ("names", "resume"), [(("a",), "asterism resume {run} --database runs.db"), (("a", "b"), "asterism resume --database runs.db")]
)
def test_ctrl_c_in_an_open_app_is_one_line_and_its_runs_are_resumed(names: tuple[str, ...], resume: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SLOW, encoding="utf-8")
    program = subprocess.Popen(
        [sys.executable, "program.py", *names], cwd=tmp_path, env=environment(tmp_path), stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + WITHIN_S
    while not all((tmp_path / f"{name}.begun").exists() for name in names):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    program.send_signal(signal.SIGINT)
    _, said = program.communicate(timeout=WITHIN_S)
    assert program.returncode == -signal.SIGINT, "as a shell expects it: exit code 130"
    listed = asterism(tmp_path, "runs").stdout.split()
    assert said == f"interrupted; nothing is lost. Resume with: {resume.format(run=listed[0])}\n"
    (tmp_path / "gate").touch()
    assert asterism(tmp_path, "resume").returncode == 0
    assert asterism(tmp_path, "runs").stdout.count("finished") == len(names)


def asterism(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return command.run(arguments, env=environment(folder), cwd=folder, timeout=WITHIN_S)


def test_an_app_refuses_to_be_used_in_a_process_that_its_process_has_forked(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(FORKS, encoding="utf-8")
    argv = [sys.executable, "-W", "ignore", "program.py"]
    done = subprocess.run(argv, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=False, timeout=WITHIN_S)
    refused = "InvalidInput: process PID opened this runtime before it forked this one; open another one here\n"
    of_store = (
        f"StoreUnavailable: database {tmp_path}/runs.db: process PID opened it before it forked this one; open it again in this process\n"
    )
    assert (done.stdout, done.stderr) == (f"{of_store}{refused}{refused}0\n", "")
