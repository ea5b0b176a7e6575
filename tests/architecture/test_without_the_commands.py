"""A program can do everything that the commands do, without importing them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8").split("## Constellations\n", 1)[1].split("\n## ", 1)[0]
CLIENT = """
import asyncio
import asterism
from asterism.constellation import python as constellations

async def main():
    async with asterism.connect("runs.db", fleet="fleet.toml") as client:
        run = await constellations.submit(client, "count the words of 'a b c'")
        async with asterism.open("runs.db", fleet="fleet.toml") as worker:
            driven = worker.driver.start(run)
            print((await client.wait(run, timeout_s=60.0)).outcome)
            await driven
        after = await constellations.follow(client, run, "plan.json")
        print((await client.describe(after)).status, len((await client.load(after)).memory.previous_rounds))

asyncio.run(main())
"""
LOADED = "\nimport sys\nprint(*sorted(name for name in sys.modules if name.startswith(('asterism.cli', 'cyclopts', 'rich'))))\n"


def block(beginning: str, language: str) -> str:
    (found,) = (text for text in re.findall(rf"```{language}\n(.*?)```", SECTION, re.DOTALL) if text.startswith(beginning))
    return str(found)


FILES = {"skills.py": ("from typing", "python"), "fleet.toml": ("[[devices]]", "toml"), "plan.json": ("{", "json")}


def printed(program: str, folder: Path) -> list[str]:
    """Return the lines that a program prints in a folder with the README's files; the last one lists loaded modules of the CLI."""
    (folder / "program.py").write_text(program + LOADED, encoding="utf-8")
    for name, (beginning, language) in FILES.items():
        (folder / name).write_text(block(beginning, language), encoding="utf-8")
    own = {**os.environ, "XDG_STATE_HOME": str(folder)}  # the default database of this computer may be newer
    done = subprocess.run([sys.executable, "program.py"], cwd=folder, env=own, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split("\n")[:-1]


def test_the_program_of_the_readme_runs_functions_until_a_person_must_approve(tmp_path: Path) -> None:
    program = block("import asterism", "python")
    assert len(program.splitlines()) <= 30
    waiting, loaded = printed(program, tmp_path)
    assert (waiting.split(maxsplit=1)[1], loaded) == ("waiting Run publish on this computer?", "")


def test_a_client_submits_waits_and_follows_while_a_worker_drives(tmp_path: Path) -> None:
    assert printed(CLIENT, tmp_path) == ["finished", "active 1", ""]
