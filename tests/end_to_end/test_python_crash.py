"""A program of thirty lines, killed at every entry of its journal and resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

PROGRAM = """
import asyncio
from pathlib import Path

import asterism
from asterism import Constellation, SkillContext, skill


def note(context: SkillContext) -> None:
    with open("effects.txt", "a") as file:
        file.write(f"{context.task_id} {context.key}\\n")


@skill(idempotent=True)
def download(url: str, context: SkillContext) -> list[str]:
    note(context)
    return [f"{url}/{number}" for number in range(3)]


@skill(idempotent=True)
def publish(first: str, context: SkillContext) -> str:
    note(context)
    return first


@skill(idempotent=True)
def fail(context: SkillContext) -> None:
    note(context)
    raise ValueError("no paper")


nightly = Constellation("nightly", params={"url": str})
files = nightly.task(download, url=nightly.params.url)
parts = [nightly.task(publish, first=files[number]) for number in range(3)]
nightly.task(publish, task_id="end", first=parts[2], when="first != ''")
nightly.task(fail, after=files)
nightly.on_failure(publish, task_id="alert", first="${run.error}")
nightly.finally_(publish, task_id="clean", first=files[0])

if __name__ == "__main__":
    print(asterism.run(nightly, url="http://x").results["end"])
"""
KILLED = """
import asyncio, os, signal, sys
import asterism
from nightly import nightly

class Killer:
    def appended(self, run_id, entries):
        if any(entry.seq == int(sys.argv[1]) for entry in entries):
            os.kill(os.getpid(), signal.SIGKILL)
    def trouble(self, run_id, message):
        print(message)

async def main():
    async with asterism.open(observers=[Killer()]) as app:
        await app.run(nightly, url="http://x")

asyncio.run(main())
"""


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ASTERISM_DATABASE": "runs.db"}
    return subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False)


def written(folder: Path) -> Path:
    folder.mkdir()
    (folder / "nightly.py").write_text(PROGRAM, encoding="utf-8")
    (folder / "killed.py").write_text(KILLED, encoding="utf-8")
    return folder


def effects(folder: Path) -> Counter[str]:
    """Return the number of keys by task: an effect that is repeated under its key counts once."""
    lines = (folder / "effects.txt").read_text(encoding="utf-8").splitlines()
    return Counter(line.split()[0] for line in set(lines))


ONCE = Counter({"download": 1, "publish": 1, "publish_2": 1, "publish_3": 1, "fail": 1, "end": 1, "alert": 1, "clean": 1})


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_effect_of_a_program_that_is_killed_at_any_entry_is_made_once(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole")
    done = python(whole, "nightly.py")
    assert (done.stdout, effects(whole)) == ("http://x/2\n", ONCE), done.stderr
    for entry in range(1, 100):  # bounded: no run has more entries
        folder = written(tmp_path / str(entry))
        killed = python(folder, "killed.py", str(entry))
        if killed.returncode == 0:
            break
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        resumed = python(folder, "-m", "asterism.cli", "resume")
        assert "no runs to resume" in resumed.stdout or "FAIL: failed" in resumed.stdout, (entry, resumed.stdout, resumed.stderr)
        assert effects(folder) == ONCE, entry
    assert entry > 10
