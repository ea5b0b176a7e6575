"""Local devices, without their pool."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from asterism.devices.port import Attempt, AttemptResult
from asterism.errors import InvalidInput
from tests.support.device_signs import Heard
from tests.support.fleets import open_fleet

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
        async with open_fleet(tmp_path / "fleet.toml") as devices:
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


# -- variables and folders ---------------------------------------------------------------------------

SAY = """
import os
from asterism import skill
AT_IMPORT = os.environ.get("MODE")

@skill
def say() -> list[str | None]:
    return [os.getcwd(), os.environ.get("MODE"), os.environ.get("SHADE"), AT_IMPORT]
"""
TWO = """
[[devices]]
id = "plain"
skills = ["say.py:say"]
[[devices]]
id = "set"
skills = ["say.py:say"]
env = {MODE = "device", SHADE = "device"}
folder = "data"
[[devices.commands]]
name = "sh"
argv = ["sh", "-c", "echo $PWD $MODE $SHADE"]
"""


def said(tmp_path: Path, *attempts: dict[str, Any]) -> list[AttemptResult]:
    """What attempts on these two devices return, one after the other, in the same workers."""

    async def scenario() -> list[AttemptResult]:
        async with open_fleet(tmp_path / "fleet.toml") as devices:
            every = [
                Attempt(**{"key": "k", "run_id": "r", "task_id": "t", "skill": "say", "folder": str(tmp_path), **it}) for it in attempts
            ]
            return [await devices[it.device_id].perform(it, Heard()) for it in every]

    (tmp_path / "fleet.toml").write_text(TWO)
    (tmp_path / "say.py").write_text(SAY)
    (tmp_path / "data" / "in").mkdir(parents=True, exist_ok=True)
    return asyncio.run(scenario())


def test_variables_of_a_task_go_over_those_of_its_device_and_these_over_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODE", "process")
    monkeypatch.delenv("SHADE", raising=False)
    ends = said(
        tmp_path,
        {"device_id": "plain"},
        {"device_id": "plain", "env": {"MODE": "task", "SHADE": "task"}},
        {"device_id": "plain"},
        {"device_id": "set"},
        {"device_id": "set", "env": {"SHADE": "task"}},
        {"device_id": "set", "skill": "sh", "env": {"MODE": "task"}},
    )
    data = f"{tmp_path}/data"
    assert [it.result for it in ends] == [
        [str(tmp_path), "process", None, "process"],
        [str(tmp_path), "task", "task", "process"],
        [str(tmp_path), "process", None, "process"],
        [data, "device", "device", "device"],
        [data, "device", "task", "device"],
        {"output": f"{data} task device", "exit_code": 0},
    ]


def test_a_folder_of_a_task_counts_from_that_of_its_device(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    ends = said(
        tmp_path,
        {"device_id": "plain", "task_folder": "sub"},
        {"device_id": "set", "task_folder": "in"},
        {"device_id": "set", "task_folder": "/"},
        {"device_id": "set", "task_folder": "../sub"},
        {"device_id": "set", "task_folder": "none"},
    )
    assert [it.result[0] for it in ends[:4]] == [f"{tmp_path}/sub", f"{tmp_path}/data/in", "/", f"{tmp_path}/sub"]
    assert ends[4].error is not None
    assert ends[4].error.message == f"its working folder {tmp_path}/data/none: No such file or directory"


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ('env = {"A B" = "c"}', "env: 'A B' cannot be the name of a variable; use letters, digits and _"),
        ('folder = "none"', "folder: there is no folder {folder}/none; make it"),
        ('env = {PATH = "/none"}\ncommands = [{name = "x", argv = ["ls"]}]', "commands[0].argv[0]: there is no program 'ls'"),
    ],
)
def test_a_device_whose_variables_or_folder_cannot_be_is_refused(tmp_path: Path, key: str, told: str) -> None:
    (tmp_path / "fleet.toml").write_text(f'[[devices]]\nid = "d"\n{key}\n')

    async def opened() -> None:
        async with open_fleet(tmp_path / "fleet.toml"):
            pass

    with pytest.raises(InvalidInput, match=re.escape(f"devices[0] (d).{told.format(folder=tmp_path)}")):
        asyncio.run(opened())
