"""Programs of thirty lines, killed at every entry of their journals and resumed."""

from __future__ import annotations

import os
import re
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
APPROVED = """run = await app.start(nightly, url="http://x")
        if (await run.result()).outcome == "waiting":
            await run.answer("approve")
        await run.result()"""


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ASTERISM_DATABASE": "runs.db"}
    return subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False)


def written(folder: Path, program: str = PROGRAM, killed: str = KILLED) -> Path:
    folder.mkdir()
    (folder / "nightly.py").write_text(program, encoding="utf-8")
    (folder / "killed.py").write_text(killed, encoding="utf-8")
    return folder


def effects(folder: Path) -> Counter[str]:
    """Return the number of keys by task: an effect that is repeated under its key counts once."""
    lines = (folder / "effects.txt").read_text(encoding="utf-8").splitlines()
    return Counter(line.split()[0] for line in {" ".join(line.split()[:2]) for line in lines})


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
        assert "nothing to resume" in resumed.stdout or "FAIL: failed" in resumed.stdout, (entry, resumed.stdout, resumed.stderr)
        assert effects(folder) == ONCE, entry
    assert entry > 10


PAGE = Path(__file__).parents[2] / "docs" / "constellations-in-python.md"
FAN_OUT_ONCE = Counter({**{f"transform[{number}]": 1 for number in range(3)}, "publish": 1, "clean": 1})


def fan_out_of_the_page() -> str:
    """Return the program of the page, with three items instead of twenty."""
    blocks: list[str] = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (program,) = [block for block in blocks if "each(files)" in block]
    assert sum(bool(line) for line in program.splitlines()) <= 30
    return program.replace("log.txt", "effects.txt").replace("range(20)", "range(3)").replace(">= 18", ">= 3")


def finished(folder: Path) -> str:
    """Approve what the run of a folder asks for, drive it to its end, and return the output."""
    resumed = python(folder, "-m", "asterism.cli", "resume").stdout
    listed = python(folder, "-m", "asterism.cli", "runs").stdout
    return resumed + (python(folder, "-m", "asterism.cli", "answer", listed.split()[0], "approve").stdout if "waiting" in listed else "")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_item_of_the_program_of_the_page_has_one_effect_wherever_it_is_killed(tmp_path: Path) -> None:
    program = fan_out_of_the_page()
    killed = KILLED.replace('await app.run(nightly, url="http://x")', APPROVED)
    whole = written(tmp_path / "whole", program)
    assert python(whole, "nightly.py").stdout.split()[1:] == ["waiting", "None"]
    assert "FINISH: finished" in finished(whole)
    assert effects(whole) == FAN_OUT_ONCE
    for entry in range(1, 100):  # bounded: no run has more entries
        folder = written(tmp_path / str(entry), program, killed)
        ended = python(folder, "killed.py", str(entry))
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL, ended.stderr
        said = finished(folder)
        assert "FINISH: finished" in said or "nothing to resume" in said, (entry, said)
        assert effects(folder) == FAN_OUT_ONCE, entry
    assert entry > 15
