"""The secrets that Asterism reads for itself, and what skills and commands get of them (H14)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from asterism.app.bootstrap import open_devices
from asterism.app.serve import ServeOptions, open_server
from asterism.constellation.python.own_secrets import own_secrets
from asterism.devices.port import Attempt, AttemptResult
from tests.support.device_signs import Heard

KEY, PASSWORD = "sk-0123456789abcdef", "correct-horse"
SKILLS = """
import os
from asterism import skill

NAMES = ("ASTERISM_TOKEN", "OPENAI_API_KEY", "HTTPS_PROXY", "HTTP_PROXY")

@skill
def reveal() -> dict:
    for name in NAMES:
        print(name, os.environ.get(name))
    return {name: os.environ.get(name) for name in NAMES}

@skill
def fail() -> None:
    raise ValueError(os.environ["OPENAI_API_KEY"])
"""
FLEET = """
[[devices]]
id = "bare"
skills = ["skills.py:reveal", "skills.py:fail"]
[[devices.commands]]
name = "env"
argv = ["env"]
[[devices]]
id = "listed"
skills = ["skills.py:reveal"]
inherit = ["OPENAI_API_KEY"]
"""


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASTERISM_TOKEN", KEY + "-token")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("HTTPS_PROXY", f"http://ada:{PASSWORD}@proxy:3128")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy:3128")


def performed(folder: Path, device: str, skill: str, *, serves: bool) -> tuple[AttemptResult, str]:
    """Return the end of an attempt, and what it printed."""
    (folder / "skills.py").write_text(SKILLS, encoding="utf-8")
    (folder / "fleet.toml").write_text(FLEET, encoding="utf-8")
    signs = Heard()

    async def scenario() -> AttemptResult:
        attempt = Attempt(key="r:1.0", run_id="r", task_id="t", device_id=device, skill=skill)
        if serves:
            async with open_server(folder / "runs.db", folder / "fleet.toml", ServeOptions()) as server:
                return await server._devices[device].perform(attempt, signs)
        async with open_devices(folder / "fleet.toml", folder / "runs.db") as (_, devices):
            return await devices[device].perform(attempt, signs)

    return asyncio.run(scenario()), "\n".join(signs.messages())


def test_skills_and_commands_of_a_server_do_not_inherit_its_secrets(tmp_path: Path) -> None:
    end, _ = performed(tmp_path, "bare", "reveal", serves=True)
    assert end.result == {"ASTERISM_TOKEN": None, "OPENAI_API_KEY": None, "HTTPS_PROXY": None, "HTTP_PROXY": "http://proxy:3128"}
    end, _ = performed(tmp_path, "bare", "env", serves=True)
    assert "ASTERISM_TOKEN" not in end.result["output"]
    assert "PATH=" in end.result["output"]


def test_a_device_lists_the_secrets_that_its_processes_inherit_and_they_are_masked(tmp_path: Path) -> None:
    end, printed = performed(tmp_path, "listed", "reveal", serves=True)
    assert end.result == {"ASTERISM_TOKEN": None, "OPENAI_API_KEY": "[secret]", "HTTPS_PROXY": None, "HTTP_PROXY": "http://proxy:3128"}
    assert "OPENAI_API_KEY [secret]" in printed


@pytest.mark.parametrize("skill", ["reveal", "env", "fail"])
def test_a_local_command_passes_on_what_its_user_has_set_and_masks_it(tmp_path: Path, skill: str) -> None:
    end, printed = performed(tmp_path, "bare", skill, serves=False)
    text = json.dumps(end.result) + str(end.error) + printed
    assert "[secret]" in text
    assert KEY not in text
    assert PASSWORD not in text
    if skill == "reveal":
        assert end.result["HTTPS_PROXY"] == "http://ada:[secret]@proxy:3128"


@pytest.mark.parametrize(
    ("environment", "secrets"),
    [
        ({"GEMINI_API_KEY": KEY, "OTHER": KEY}, {"GEMINI_API_KEY": KEY}),
        ({"OLLAMA_API_KEY": "any"}, {}),
        ({"ASTERISM_FILES": f"sftp://ada:{PASSWORD}@host/files"}, {"ASTERISM_FILES": PASSWORD}),
        ({"ASTERISM_SERVER": "http://[bad"}, {}),
    ],
)
def test_the_secrets_of_asterism_are_those_of_a_closed_list(environment: dict[str, str], secrets: dict[str, Any]) -> None:
    assert own_secrets(environment) == secrets
