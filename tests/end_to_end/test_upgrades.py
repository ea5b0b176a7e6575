"""An upgrade with real processes: one is killed, the next version finishes its runs, and the first version refuses them from then on."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asterism.app.bootstrap import FORMS
from asterism.engine.kernel.journal import version_of
from asterism.engine.kernel.packing import packer
from asterism.engine.runtime.form import Form
from asterism.errors import version_text
from asterism.stores.sqlite import SqliteStore
from tests.support.program_versions import NAMES, by_rules, next_version

ROOT = Path(__file__).parents[2]
RUNS = sorted(f"{how}-{number}" for how in ("asks", "works") for number in range(len(NAMES)))


def owner(database: Path, version: int, what: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "tests.end_to_end.upgrade_owner", str(database), str(version), what]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)


async def found_in(database: Path) -> dict[str, tuple[str, str, Any]]:
    """Of each run: its status, its version for people, and whether its effects are as the next version asks for them, by rules.

    Rules are counted from those of this version, which are 1.
    """
    store = SqliteStore.open(database, create=False)
    try:
        found: dict[str, tuple[str, str, Any]] = {}
        for row in await store.runs():
            machine = FORMS[row.machine].machine
            entries = map(packer(machine).unpack, await store.records(row.run_id))
            seen = {rules - machine.rules + 1: set(corrected) for rules, corrected in by_rules(entries).items()}
            found[row.run_id] = (row.status, version_text(row.version), seen)
    finally:
        await store.close()
    return found


def version(run: str, forms: Mapping[str, Form]) -> str:
    """The version of a run of these forms, for people."""
    return version_text(version_of(forms[NAMES[int(run.partition("-")[2])]].machine))


def test_runs_in_flight_outlive_an_upgrade_and_refuse_the_program_before_it(tmp_path: Path) -> None:
    database = tmp_path / "runs.db"
    old, new = ({run: version(run, forms) for run in RUNS} for forms in (FORMS, next_version()))
    first = owner(database, 1, "new")
    assert (first.returncode, first.stdout, first.stderr) == (-signal.SIGKILL, "", "")
    left = asyncio.run(found_in(database))
    assert left == {run: ("waiting" if run.startswith("asks") else "active", old[run], {1: {False}}) for run in RUNS}

    second = owner(database, 2, "on")
    assert (second.stdout.splitlines(), second.stderr) == ([f"{run} finished" for run in RUNS], "")
    assert asyncio.run(found_in(database)) == {run: ("ended", new[run], {1: {False}, 2: {True}}) for run in RUNS}

    third = owner(database, 1, "on")
    said = (
        "was written with run version {}, and this program supports run versions up to {};"
        " upgrade Asterism, or the program that defines the run's machine"
    )
    assert third.stdout.splitlines() == [f"RunNewer: run {run} {said.format(new[run], old[run])}" for run in RUNS]
