"""Local devices, without their pool."""

from __future__ import annotations

import asyncio
from pathlib import Path

from asterism.devices.fleet import open_fleet
from asterism.devices.local import local_kind
from asterism.devices.pool import WorkerPool
from asterism.runtime.ports.device import Attempt, AttemptResult
from tests.device_signs import Heard

FLEET = """
[[devices]]
id = "laptop"
[[devices.commands]]
name = "stay"
argv = ["sleep", "1000"]
timeout_s = 0.05
[[devices.commands]]
name = "script"
argv = ["./hello.sh"]
"""


def performed(tmp_path: Path, skill: str) -> AttemptResult:
    async def scenario() -> AttemptResult:
        async with WorkerPool(tmp_path / "ledger") as pool:
            devices = await open_fleet(tmp_path / "fleet.toml", {"local": local_kind(pool)})
            attempt = Attempt(key="k", run_id="r", task_id="t", device_id="laptop", skill=skill)
            return await devices["laptop"].perform(attempt, Heard())

    (tmp_path / "fleet.toml").write_text(FLEET)
    (tmp_path / "hello.sh").write_text("#!/bin/sh\necho hello\n")
    (tmp_path / "hello.sh").chmod(0o755)
    return asyncio.run(scenario())


def test_a_command_is_held_to_its_own_timeout(tmp_path: Path) -> None:
    error = performed(tmp_path, "stay").error
    assert error is not None
    assert (error.code, error.message) == ("timeout", "stay took longer than its timeout_s in the fleet file, 0.05 s")


def test_a_program_with_a_slash_is_relative_to_the_fleet_file(tmp_path: Path) -> None:
    assert performed(tmp_path, "script").result == {"output": "hello", "exit_code": 0}


def test_a_skill_the_device_does_not_have_is_its_error(tmp_path: Path) -> None:
    error = performed(tmp_path, "fly").error
    assert error is not None
    assert (error.code, error.message) == ("no_device", "device laptop has no skill 'fly'; it has stay, script")
