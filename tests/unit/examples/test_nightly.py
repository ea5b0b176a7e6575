"""The nightly backup of examples, and the program of the page on constellations in Python."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

from tests.end_to_end import command

ROOT = Path(__file__).parents[3]
BACKUP = ROOT / "examples" / "nightly" / "backup.py"
PAGE = (ROOT / "docs" / "constellations-in-python.md").read_text(encoding="utf-8")


def do(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ASTERISM_DATABASE": "runs.db"}
    return subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False)


def asterism(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return command.run(arguments, env={**os.environ, "ASTERISM_DATABASE": "runs.db"}, cwd=folder, timeout=60)


def test_a_backup_is_copied_and_verified_and_a_failure_is_reported(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("create table orders (id integer)")
    shop.close()
    (tmp_path / "offsite").mkdir()
    done = do(tmp_path, BACKUP, "shop.db", "offsite")
    assert (done.returncode, (tmp_path / "offsite" / "shop.db.sql.gz").is_file()) == (0, True), done.stderr
    assert not (tmp_path / "alerts.txt").exists()

    assert asterism(tmp_path, "run", f"{BACKUP}:nightly", "--set", "file=shop.db", "--set", "offsite=none").returncode == 1
    assert (tmp_path / "alerts.txt").read_text(encoding="utf-8").startswith("the backup failed: copy")


def test_the_program_of_the_page_prints_the_output_shown(tmp_path: Path) -> None:
    program, *_ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    shown, *_ = re.findall(r"    \$ python nightly\.py\n    (.*)\n", PAGE)
    (tmp_path / "nightly.py").write_text(program, encoding="utf-8")
    done = do(tmp_path, "nightly.py")
    assert done.stdout == f"{shown}\n", done.stderr
    assert asterism(tmp_path, "run", "nightly.py:nightly", "--set", "url=x").returncode == 0


def test_the_program_of_the_readme_waits_for_a_person_as_shown(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (program,) = [block for block in re.findall(r"```python\n(.*?)```", readme, re.DOTALL) if "asterism.run(nightly" in block]
    (shown,) = re.findall(r"    \$ python nightly\.py\n    (.*)\n", readme)
    (tmp_path / "nightly.py").write_text(program, encoding="utf-8")
    assert do(tmp_path, "nightly.py").stdout.split()[1:] == shown.split()[1:]
    (run,) = [line.split()[0] for line in asterism(tmp_path, "runs").stdout.splitlines() if line[:2].isdigit()]
    assert "FINISH: finished" in asterism(tmp_path, "answer", run, "approve").stdout
