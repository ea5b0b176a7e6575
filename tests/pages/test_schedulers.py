"""The commands of the pages on cron and systemd run in their order on a fresh host: in an empty home, without a database (C2)."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages.blocks import ROOT, blocks_of

CRON, OPERATE = ROOT / "docs/guides/cron.md", ROOT / "docs/guides/operate.md"


class Host:
    """A fresh host below a folder: the project of the pages in ``/srv/report``, and nothing else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "srv/report"
        self.project.mkdir(parents=True)
        (folder / "srv/data").mkdir()
        (self.project / "report.py").write_text(self.block(CRON, "report.py"), encoding="utf-8")
        self.environment = {"HOME": str(folder), "PATH": os.environ["PATH"], "LOGNAME": "alice"}

    def here(self, text: str) -> str:
        """Return a text of a page with the paths of this host."""
        text = text.replace("/srv/venv/bin", str(Path(sys.executable).parent))
        return re.sub(r"(?<![\w/])/(?=srv/|var/lib/)", f"{self.folder}/", text)

    def block(self, page: Path, names: str) -> str:
        """Return the block of a page that is saved as this name, or begins with or has this text."""
        blocks = blocks_of(page.read_text(encoding="utf-8"))
        return self.here(next(it.text for it in blocks if it.saved_as == names or names in it.text))

    def variables(self, lines: str) -> None:
        """Set the variables that a crontab or a unit sets."""
        self.environment |= dict(re.findall(r"^(?:Environment=)?(ASTERISM_\w+)=(.+)$", lines, re.MULTILINE))

    def do(self, command: str, cwd: Path | None = None) -> tuple[int, str]:
        done = subprocess.run(["sh", "-c", command], cwd=cwd, env=self.environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.mark.parametrize("order", [1, -1], ids=["as listed", "the reboot first"])
def test_the_lines_of_the_crontab_print_nothing_on_a_fresh_host(host: Host, order: int) -> None:
    crontab = host.block(CRON, "@reboot")
    host.variables(crontab)
    commands = re.findall(r"^(?:@reboot|0 2 \* \* \*) +(.+)$", crontab, re.MULTILINE)
    assert len(commands) == 2
    assert [host.do(command) for command in commands[::order]] == [(0, ""), (0, "")]  # cron sends what is printed by email
    assert "FINISH: finished" in (host.project / "report.log").read_text(encoding="utf-8")


def test_the_commands_of_the_service_of_a_timer_succeed_on_a_fresh_host(host: Host) -> None:
    unit = host.block(CRON, "[Service]")
    host.variables(unit)
    before, start = re.findall(r"^(?:ExecStartPre|ExecStart)=(.+)$", unit, re.MULTILINE)
    database = host.environment["ASTERISM_DATABASE"]
    assert host.do(before, cwd=host.project) == (0, f"nothing to resume: there is no database {database}\n")
    code, printed = host.do(start, cwd=host.project)
    assert code == 0, printed
    assert host.do(before, cwd=host.project) == (0, "nothing to resume\n")


def test_the_server_of_the_unit_starts_on_a_fresh_host_and_ends_with_0_on_sigterm(host: Host) -> None:
    unit = host.block(OPERATE, "asterism-server.service")
    host.variables(unit)
    (host.project / "fleet.toml").write_text('[[devices]]\nid = "desk"\nskills = ["report.py:count"]\n', encoding="utf-8")
    (start,) = re.findall(r"^ExecStart=(.+)$", unit, re.MULTILINE)
    command = [*shlex.split(start), "--no-api"]  # without its port, which other tests may use
    with subprocess.Popen(command, cwd=host.project, env=host.environment, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert "serving" in server.stdout.readline()
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)
    assert server.returncode == 0
