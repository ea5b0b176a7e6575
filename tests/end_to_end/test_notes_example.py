"""The notes example: a scripted model over HTTP, and the MCP filesystem server that comes from npm; only where npm has it at hand."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from examples.notes.loop import SERVER

ROOT = Path(__file__).parents[2]
NOTES = ROOT / "examples" / "notes"
SUMMARY = """# Summary

- The harbour opens at six. Boats longer than twelve metres wait for high water.
- High water comes twice a day, each time about fifty minutes later than the day before.
"""


def is_at_hand() -> bool:
    if shutil.which("npx") is None:
        return False
    argv = ["npx", "--offline", *SERVER[1:-1], str(NOTES)]
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False).returncode == 0


class Desk:
    """A folder with a copy of the notes, and a database."""

    def __init__(self, folder: Path) -> None:
        self.notes = folder / "notes"
        shutil.copytree(NOTES / "notes", self.notes)
        self.environment = {**os.environ, "NOTES_FOLDER": str(self.notes), "ASTERISM_DATABASE": str(folder / "runs.db")}

    def say(self, *arguments: str, code: int) -> str:
        argv = [sys.executable, "-m", "examples.notes", *arguments]
        done = subprocess.run(argv, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=110, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def asked(self) -> str:
        (question,) = json.loads(self.say("inbox", "--json", code=0))
        assert question["subject"]["tool"] == "write_file"
        assert question["subject"]["arguments"] == {"path": str(self.notes / "summary.md"), "content": SUMMARY}
        assert not (self.notes / "summary.md").exists()
        return str(question["inquiry"])


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    if not is_at_hand():
        pytest.skip(f"npx does not have {SERVER[2]} at hand; `npx {' '.join(SERVER[1:])}` fetches it")
    return Desk(tmp_path)


@pytest.mark.slow
def test_the_loop_writes_its_summary_when_it_was_confirmed(desk: Desk) -> None:
    desk.say("loop", "run", "examples/notes/loop.py:loop", "Keep it short.", code=3)
    assert "COMPLETE: finished" in desk.say("answer", desk.asked(), "approve", code=0)
    assert (desk.notes / "summary.md").read_text(encoding="utf-8") == SUMMARY
    (run,) = json.loads(desk.say("runs", "--json", code=0))
    shown = json.loads(desk.say("show", run["run"], "--json", code=0))
    assert shown["answer"] == {"summary": str(desk.notes / "summary.md"), "checked": "There are 32 words in it."}
    assert [(it["step_id"], it["worker"]) for it in shown["findings"]] == [("read", "reader"), ("write", "writer"), ("check", "checker")]
    # Seven replies of workers and three of the reflection, each of the script's 120 tokens.
    assert (shown["reflections"], shown["tokens"]) == (3, 1200)


@pytest.mark.slow
def test_the_same_loop_is_a_device_of_a_constellation(desk: Desk) -> None:
    desk.say("run", "examples/notes/plan.json", "--fleet", "examples/notes/fleet.toml", code=3)
    assert "FINISH: finished" in desk.say("answer", desk.asked(), "approve", code=0)
    assert (desk.notes / "summary.md").read_text(encoding="utf-8") == SUMMARY


@pytest.mark.slow
def test_a_no_is_told_to_the_writer_and_nothing_is_written(desk: Desk) -> None:
    desk.say("loop", "run", "examples/notes/loop.py:loop", "Keep it short.", code=3)
    ended = desk.say("answer", desk.asked(), "reject", "--reason", "not now", code=1)
    assert "the model says I was not allowed to write it." in ended
    assert "FAILED: failed" in ended
    assert not (desk.notes / "summary.md").exists()
