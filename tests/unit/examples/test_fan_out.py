"""The fan-out of examples: twenty files, one of them broken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.end_to_end import command

ROOT = Path(__file__).parents[3]
PIPELINE = ROOT / "examples" / "fan_out" / "pipeline.py"
PAGE = (PIPELINE.parent / "README.md").read_text(encoding="utf-8")


def do(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ASTERISM_DATABASE": "runs.db"}
    return subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False)


def asterism(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return command.run(arguments, env={**os.environ, "ASTERISM_DATABASE": "runs.db"}, cwd=folder, timeout=60)


def test_the_sound_files_are_published_and_the_broken_one_is_named(tmp_path: Path) -> None:
    done = do(tmp_path, PIPELINE, "work")
    assert done.stdout == "{'total': 366, 'files': 19, 'broken': ['work/7.json']}\n", done.stderr
    assert (tmp_path / "work" / "total.txt").read_text(encoding="utf-8") == "366\n"


def test_the_command_of_the_page_prints_the_lines_shown(tmp_path: Path) -> None:
    done = asterism(tmp_path, "run", f"{PIPELINE}:pipeline", "--set", "folder=work")
    assert done.returncode == 0, done.stderr
    assert "3 tasks: 3 completed; transform: 19 of 20 items, 1 failed" in done.stdout
    assert 'publish  completed: total=366 files=19 broken=["work/7.json"]' in PAGE
    assert 'publish  completed: total=366 files=19 broken=["work/7.json"]' in done.stdout
    run = done.stdout.split()[1]
    assert "attempt 2" in asterism(tmp_path, "why", run, "transform[7]").stdout
    refused = asterism(tmp_path, "retry", run, "transform[7]")
    why = "asterism: publish has used the result of transform; to repeat both, fork the run at an entry before publish started"
    assert refused.returncode == 1
    assert refused.stderr == f"{why} (asterism log, asterism fork --at ENTRY --no-drive), and retry transform[7] in the fork\n"


def test_the_program_is_as_short_as_the_page_says() -> None:
    _, program = PIPELINE.read_text(encoding="utf-8").split('"""\n', 1)
    assert sum(bool(line) for line in program.splitlines()) == 29
    assert "29 lines" in PAGE
