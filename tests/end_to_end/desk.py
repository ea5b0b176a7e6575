"""A desk with the command line on it: real processes, a database of its own, a fleet of two devices."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.end_to_end import command

HERE = Path(__file__).parent
TIMEOUT_S = 60

FLEET = """
[[devices]]
id = "desk"
aliases = ["my desk"]
concurrency = 2
skills = ["{skills}:measure", "{skills}:wait", "{skills}:rude", "{skills}:fail"]

[[devices]]
id = "server"
skills = ["{skills}:deploy", "{skills}:measure"]
"""


class Desk:
    """One user's desk.

    Attributes:
        folder: everything is in it.
        database, fleet, log: the journals, the fleet file, what the skills wrote down.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / "state" / "runs.db"
        self.fleet = folder / "fleet.toml"
        self.fleet.write_text(FLEET.format(skills=HERE / "cli_skills.py"), encoding="utf-8")
        self.log = folder / "performed.txt"
        self.log.touch()
        self.gate = folder / "gate"
        for side in ("reached", "open"):
            os.mkfifo(f"{self.gate}.{side}")

    def environment(self, *, gated: bool = False) -> dict[str, str]:
        """The environment of a command; with ``gated``, ``wait`` waits."""
        own = {"ASTERISM_DATABASE": str(self.database), "CLI_LOG": str(self.log), "CLI_GATE": str(self.gate) if gated else ""}
        return {**os.environ, **own, "COLUMNS": "200", "TERM": "xterm-256color"}

    def argv(self, *arguments: str | Path) -> list[str]:
        """A command line, with ``--fleet`` where the command takes one."""
        return [sys.executable, "-m", "asterism.cli", *map(str, arguments)]

    def start(self, *arguments: str | Path, gated: bool = False) -> subprocess.Popen[str]:
        """A command in the background."""
        return subprocess.Popen(
            self.argv(*arguments), env=self.environment(gated=gated), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def do(self, *arguments: str | Path, code: int | None = 0, **more: Any) -> subprocess.CompletedProcess[str]:
        """A command to its end; its exit code is checked unless it is None."""
        done = command.run([str(argument) for argument in arguments], env=self.environment(), timeout=TIMEOUT_S, **more)
        assert code is None or done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def plan(self, *tasks: dict[str, Any], dependencies: list[dict[str, str]] | None = None, name: str = "plan.json") -> Path:
        """A plan file."""
        path = self.folder / name
        path.write_text(json.dumps({"tasks": tasks, "dependencies": dependencies or []}), encoding="utf-8")
        return path

    def runs(self) -> list[dict[str, Any]]:
        """The runs of the database, newest first."""
        found: list[dict[str, Any]] = json.loads(self.do("runs", "--json").stdout)
        return found

    def performed(self) -> list[str]:
        """Ids of the tasks whose skill was performed, in order."""
        return [line.split()[0] for line in self.log.read_text(encoding="utf-8").splitlines()]

    def reach(self) -> int:
        """Block until a skill is at the gate; the id of its process."""
        with Path(f"{self.gate}.reached").open(encoding="utf-8") as reached:
            return int(reached.readline())

    def open_gate(self) -> None:
        """Let the skill at the gate go on."""
        Path(f"{self.gate}.open").write_text("go\n", encoding="utf-8")
