"""A constellation of a Python file, read by a process of its own."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from asterism.constellation.python import goal_process
from asterism.constellation.python.goal_process import read_goal
from asterism.errors import InvalidInput

PLAN = """
import sys
print("noise on stdout")
print("noise on stderr", file=sys.stderr)
from asterism import Constellation, skill

@skill
def work(word: str) -> str:
    "Work."
    return word

{name} = Constellation("{name}")
{name}.task(work, word="{word}")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_file_is_read_as_it_is_now_and_what_it_prints_does_not_matter(folder: Path) -> None:
    for word in ("one", "two"):
        (folder / "plan.py").write_text(PLAN.format(name="nightly", word=word), encoding="utf-8")
        goal = asyncio.run(read_goal("plan.py:nightly"))
        assert goal.plan is not None
        assert (goal.title, goal.plan.tasks[0].inputs, goal.plan.tasks[0].skill) == ("nightly", {"word": word}, "plan.py:work")


@pytest.mark.parametrize(
    ("text", "named", "problem"),
    [
        ("x = 1", "plan.py", "plan.py has no constellation"),
        ("1 / 0", "plan.py", "ZeroDivisionError"),
        (PLAN.format(name="nightly", word="x"), "plan.py:nightli", "there is no nightli; did you mean nightly?"),
        ("import os\nos._exit(7)", "plan.py", "ended with exit code 7"),
        ("import os\nos.write(1, b'not JSON')\nos._exit(0)", "plan.py", "ended with exit code 0"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_reason(folder: Path, text: str, named: str, problem: str) -> None:
    (folder / "plan.py").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput) as refused:
        asyncio.run(read_goal(named))
    assert problem in str(refused.value)


def test_an_import_that_hangs_is_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goal_process, "LIMIT_S", 0.5)
    (folder / "plan.py").write_text("import time\ntime.sleep(1000)", encoding="utf-8")
    with pytest.raises(InvalidInput, match="its import took more than"):
        asyncio.run(read_goal("plan.py"))


def test_the_process_ends_quietly_if_its_reader_was_killed(folder: Path) -> None:
    (folder / "plan.py").write_text(PLAN.format(name="nightly", word="x").replace('print("noise on stderr", file=sys.stderr)', ""))
    argv = [sys.executable, "-B", "-m", goal_process.__name__, "plan.py"]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == b"noise on stdout\n"
        assert process.wait() == 0


def test_the_import_of_a_plan_does_not_see_the_secrets_of_a_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H14: they could end in the plan, and so in the journal."""
    monkeypatch.setenv("ASTERISM_TOKEN", "0123456789abcdef")
    monkeypatch.setenv("HTTPS_PROXY", "http://ada:correct-horse@proxy:3128")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy:3128")
    seen = """{name: os.environ.get(name, "") for name in ("ASTERISM_TOKEN", "HTTPS_PROXY", "HTTP_PROXY")}"""
    text = "import json, os\n" + PLAN.format(name="nightly", word="x").replace('word="x"', f"word=json.dumps({seen})")
    (folder / "plan.py").write_text(text, encoding="utf-8")
    plan = asyncio.run(read_goal("plan.py:nightly")).plan
    assert plan is not None
    assert json.loads(plan.tasks[0].inputs["word"]) == {"ASTERISM_TOKEN": "", "HTTPS_PROXY": "", "HTTP_PROXY": "http://proxy:3128"}
