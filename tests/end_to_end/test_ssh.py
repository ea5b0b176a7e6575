"""The kind ``ssh`` against a real OpenSSH server, and runs that are killed while it works. Starts are counted on the host."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from asterism.devices.kinds.ssh.device import SshDevice
from asterism.devices.kinds.ssh.script import folder_of
from asterism.devices.port import Attempt, AttemptResult
from tests.support.attempt_files import TestFiles
from tests.support.device_signs import Heard
from tests.support.fleets import open_fleet
from tests.support.openssh_server import OpensshServer, find_sshd, openssh_server, processes

ROOT = Path(__file__).parents[2]
COMMANDS = """
[[devices.commands]]
name = "say"
argv = ["printf", "%s", "{text}"]
[[devices.commands]]
name = "sh"
argv = ["sh", "-c", 'echo "$1" >>~/starts; eval "$2"', "sh", "{name}", "{script}"]
[[devices.commands]]
name = "copy"
argv = ["cp", "{source}", "{output}"]
files = ["source"]
output = "file"
file = "copy.bin"
"""
GATED = "echo waiting >&2; while [ ! -e ~/go ]; do sleep 0.05; done; echo done"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_sshd() is None, reason="there is no OpenSSH server here: apt-get install openssh-server"),
]

Scenario = Callable[[OpensshServer, SshDevice], Awaitable[None]]


def play(folder: Path, scenario: Scenario) -> None:
    async def whole() -> None:
        async with asyncio.timeout(120), openssh_server(folder) as server:
            (folder / "fleet.toml").write_text(server.table("d") + COMMANDS)
            async with open_fleet(folder / "fleet.toml") as devices:
                device = devices["d"]
                assert isinstance(device, SshDevice)
                await scenario(server, device)

    asyncio.run(whole())


def attempt(script: str, key: str = "r:1.0", *, again: bool = False) -> Attempt:
    arguments = {"name": key, "script": script}
    return Attempt(key=key, run_id="r", task_id="t", device_id="d", skill="sh", arguments=arguments, again=again)


def starts(server: OpensshServer) -> list[str]:
    file = server.home / "starts"
    return file.read_text().splitlines() if file.exists() else []


def text(output: str) -> AttemptResult:
    return AttemptResult(result={"output": output, "exit_code": 0})


def test_results_arguments_and_many_attempts_at_once(tmp_path: Path) -> None:
    async def scenario(server: OpensshServer, device: SshDevice) -> None:
        hostile = "'; touch pwned; $(touch pwned) `touch pwned` \n \\ \" * é"
        say = Attempt(key="s:1.0", run_id="s", task_id="t", device_id="d", skill="say", arguments={"text": hostile})
        assert await device.perform(say, Heard()) == text(hostile)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(device.perform(attempt(f"echo {n}", f"r:{n}.0"), Heard())) for n in range(40)]
        assert [task.result() for task in tasks] == [text(str(n)) for n in range(40)]
        assert sorted(starts(server)) == sorted(f"r:{n}.0" for n in range(40))

    play(tmp_path, scenario)


def test_a_file_travels_both_ways(tmp_path: Path) -> None:
    async def scenario(server: OpensshServer, device: SshDevice) -> None:
        files = TestFiles(tmp_path)
        with files.current():
            value = await files.put("$(touch pwned).bin", *(os.urandom(1 << 20) for _ in range(20)))
            copy = Attempt(key="s:1.0", run_id="s", task_id="t", device_id="d", skill="copy", arguments={"source": value})
            end = await device.perform(copy, Heard())
        assert end.error is None, end
        assert (end.result["$file"], end.result["size"]) == (value["$file"], 20 << 20)

    play(tmp_path, scenario)


def test_a_server_that_is_killed_under_way_and_comes_back_costs_nothing(tmp_path: Path) -> None:
    async def scenario(server: OpensshServer, device: SshDevice) -> None:
        heard = Heard()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(device.perform(attempt(GATED), heard))
            await heard.arrived.wait()
            await server.stop()
            end = await task
            assert end.error is not None
            assert end.error.code == "device_lost"
            await server.start()
            (server.home / "go").touch()
            await asyncio.sleep(1.1)  # a failed connection is not tried again at once
            assert await device.perform(attempt(GATED, again=True), Heard()) == text("done")
        assert starts(server) == ["r:1.0"]

    play(tmp_path, scenario)


def test_stop_ends_the_group_and_prevents_a_late_start(tmp_path: Path) -> None:
    async def scenario(server: OpensshServer, device: SshDevice) -> None:
        heard = Heard()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(device.perform(attempt(f"sleep 1000 & {GATED}"), heard))
            await heard.arrived.wait()
            assert await device.stop(attempt("")) == ""
        assert task.result().error is not None
        pid = (server.home / ".asterism" / folder_of("r:1.0") / "pid").read_text().split()[0]
        assert int(pid) not in {group for _, _, group in processes()}
        assert await device.stop(attempt("", "r:2.0")) == ""
        end = await device.perform(attempt("echo 1", "r:2.0"), Heard())
        assert end.error is not None
        assert end.error.code == "cancelled"
        assert starts(server) == ["r:1.0"]

    play(tmp_path, scenario)


def test_a_client_that_is_killed_in_the_middle_of_the_output_is_replaced_by_another(tmp_path: Path) -> None:
    program = """
import asyncio, sys
from pathlib import Path
from tests.end_to_end.test_ssh import attempt
from tests.support.attempt_files import TestFiles
from tests.support.device_signs import Heard
from tests.support.fleets import open_fleet

async def main():
    async with open_fleet(Path(sys.argv[1])) as devices:
        device = devices["d"]
        await device.perform(attempt(sys.argv[2]), Heard(listener=lambda _, line: print(line, flush=True)))

asyncio.run(main())
"""

    async def scenario(server: OpensshServer, device: SshDevice) -> None:
        script = "for i in $(seq 1 30); do echo line $i; echo line $i >&2; sleep 0.05; done"
        client = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, str(tmp_path / "fleet.toml"), script, stdout=subprocess.PIPE, cwd=ROOT
        )
        assert client.stdout is not None
        await client.stdout.readuntil(b"line 10\n")
        client.kill()
        await client.wait()
        assert await device.perform(attempt(script, again=True), Heard()) == text("\n".join(f"line {n}" for n in range(1, 31)))
        assert starts(server) == ["r:1.0"]

    play(tmp_path, scenario)


def drive(folder: Path, run: str, plan: Any, die_after: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.end_to_end.crash_owner", folder / "runs.db", folder / "fleet.toml", run, plan, str(die_after)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100)


@pytest.mark.timeout(600)
def test_a_run_that_is_killed_after_every_entry_starts_each_program_once(tmp_path: Path) -> None:
    names = ("first", "second")
    plan = {
        "tasks": [
            {"task_id": name, "device": "d", "skill": "sh", "inputs": {"name": name, "script": f"sleep 0.3; echo {name}"}} for name in names
        ],
        "dependencies": [{"from": "first", "to": "second"}],
    }

    async def scenario(server: OpensshServer, device: SshDevice) -> None:
        for die_after in range(1, 60):
            (server.home / "starts").unlink(missing_ok=True)
            run = f"r{die_after}"
            first = await asyncio.to_thread(drive, tmp_path, run, json.dumps(plan), die_after)
            if first.returncode == 0:
                assert die_after > 5
                return
            assert first.returncode == -signal.SIGKILL, first.stderr
            then = await asyncio.to_thread(drive, tmp_path, run, "-", 1000)
            assert (then.returncode, then.stdout) == (0, "ended finished\n"), then
            assert starts(server) == list(names), die_after
        raise AssertionError("the run never ended")

    play(tmp_path, scenario)


def test_a_command_ends_after_its_run_while_the_host_stays_away(tmp_path: Path) -> None:
    """G1: it tried for ten minutes to stop the program."""
    task = {"task_id": "a", "device": "d", "skill": "sh", "inputs": {"name": "a", "script": "sleep 60"}}
    (tmp_path / "plan.json").write_text(json.dumps({"tasks": [task]}))

    async def scenario(server: OpensshServer, device: SshDevice) -> None:
        run = ("run", "plan.json", "--fleet", "fleet.toml", "--database", "runs.db", "--wall-limit-s", "6")
        command = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "asterism.cli", *run, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
        )
        while not starts(server):  # noqa: ASYNC110 - a program on the host writes it
            await asyncio.sleep(0.05)
        await server.stop()
        said, _ = await command.communicate()
        assert command.returncode == 1
        assert "a may still run on d: sh may still run" in said.decode()

    play(tmp_path, scenario)
