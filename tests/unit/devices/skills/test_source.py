"""User code and its neighbours: they are found by it, and stand in for nothing that is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LUNCH = """
from asterism.conversation.python import InputField, StandardAgent
from helper_of_lunch import WORD

class Lunch(StandardAgent):
    people: int = InputField(WORD, pattern=r"for (\\d+)")
"""
LATE = ("regex", "httpx2", "mcp", "pydantic_ai", "readline")
"""Packages that are imported after user code, where they are needed."""


def in_a_process(folder: Path, code: str) -> str:
    """What a program prints whose ``sys.path`` has neither the folder nor the current one."""
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an agent, its helper, and files that are called as packages are."""
    (tmp_path / "lunch.py").write_text(LUNCH, encoding="utf-8")
    (tmp_path / "helper_of_lunch.py").write_text('WORD = "For how many?"\n', encoding="utf-8")
    for name in LATE:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a file of the user stood in for a package')\n", encoding="utf-8")
    return tmp_path


def test_a_file_beside_user_code_does_not_stand_in_for_a_package_that_is_imported_later(folder: Path) -> None:
    code = f"""
from pathlib import Path
from asterism.conversation.python.source import agent_of
print(agent_of("lunch.py", Path({str(folder)!r})).people.search("for 3")[1])
import {", ".join(LATE)}
"""
    assert in_a_process(folder, code) == "3"


@pytest.mark.parametrize("name", ["regex", "json", "asterism"])
def test_a_file_that_is_called_as_a_package_is_imported_under_another_name(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text(
        "from asterism.conversation.python import StandardAgent\nclass Own(StandardAgent): ...\n", encoding="utf-8"
    )
    code = f"""
from pathlib import Path
from asterism.conversation.python.source import agent_of
print(agent_of("{name}.py", Path({str(tmp_path)!r})).__module__)
import {name}
print({name}.__file__)
"""
    own, installed = in_a_process(tmp_path, code).splitlines()
    assert own == str(tmp_path / f"{name}.py")
    assert not installed.startswith(str(tmp_path))


def test_a_file_has_its_plain_name_and_the_folder_that_came_last_is_searched_first(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / f"tools_{number}.py").write_text("from asterism import skill\n@skill\ndef do(): ...\n", encoding="utf-8")
        (tmp_path / str(number) / "near_both.py").write_text(f"NUMBER = {number}\n", encoding="utf-8")
    code = f"""
from pathlib import Path
from asterism.devices.skills.source import load
print([load(f"tools_{{number}}.py:do", Path({str(tmp_path)!r}, str(number))).__module__ for number in (1, 2)])
import near_both
print(near_both.NUMBER)
"""
    assert in_a_process(tmp_path, code) == "['tools_1', 'tools_2']\n2"
