"""A kind of device that an installed package brings: found by its entry point, and used like a built-in one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.hot_folder import begun, installed, instrument

PLAN = {"tasks": [{"task_id": "scan", "device": "scanner", "skill": "slow"}]}


class Bench:
    """A folder with a fleet file, a database and a site with the package."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.jobs = folder / "jobs"
        own = {"ASTERISM_DATABASE": str(folder / "runs.db"), "PYTHONPATH": str(installed(folder / "site")), "COLUMNS": "200"}
        self._environment = {**os.environ, **own}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command."""
        command = [sys.executable, "-m", "asterism.cli", *arguments]
        return subprocess.Popen(
            command, cwd=self.folder, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def do(self, *arguments: str, code: int = 0) -> str:
        """Do a command to its end; return what it prints."""
        with self.start(*arguments) as process:
            text, _ = process.communicate(timeout=60)
        assert process.returncode == code, text
        return text


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_device_of_an_installed_kind_is_added_checked_and_described(bench: Bench) -> None:
    add = ("fleet", "add", "device", "scanner", "hot_folder", "path=jobs")
    refused = bench.do(*add, "program=scan", code=2)
    assert "unknown key 'program'; allowed: " in refused
    assert "devices[0] (scanner).programs: empty" in bench.do(*add, "programs=[]", "description=x", code=2)
    assert f"there is no folder {bench.jobs}" in bench.do(*add, 'programs=["slow"]', code=2)
    bench.jobs.mkdir()
    assert "1 skill" in bench.do(*add, 'programs=["slow"]')
    assert "scanner" in bench.do("fleet", "check", "fleet.toml")
    known = json.loads(bench.do("schema", "fleet", "--device-kind", "hot_folder"))
    assert known["$defs"]["HotFolderEntry"]["properties"]["path"]["description"] == "The folder, relative to the fleet file."
    unknown = json.loads(bench.do("schema", "fleet"))
    assert "HotFolderEntry" not in unknown["$defs"]
    assert "hot_folder" in unknown["$defs"]["device"]["properties"]["kind"]["enum"]


def test_a_run_on_an_installed_kind_that_is_killed_is_resumed_and_its_job_done_once(bench: Bench) -> None:
    (bench.folder / "plan.json").write_text(json.dumps(PLAN), encoding="utf-8")
    bench.jobs.mkdir()
    bench.do("fleet", "add", "device", "scanner", "hot_folder", "path=jobs", 'programs=["slow"]')
    with instrument(bench.jobs):
        with bench.start("run", "plan.json", "--fleet", "fleet.toml") as owner:
            give_up = time.monotonic() + 60
            while not begun(bench.jobs) and time.monotonic() < give_up:
                time.sleep(0.02)
            owner.kill()
        assert "finished" in bench.do("resume")
    assert len(begun(bench.jobs)) == 1
