"""Run one constellation on six kinds of device: python -m examples.remote [--answer].

The two questions are asked at the terminal. With --answer, or without a terminal, the answers below are given.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from examples.remote.servers import Servers

PLAN = Path(__file__).with_name("plan.json")
ANSWERS = {"title": '"Tides"', "author": '{"author": "Ada"}'}
"""The answers to the questions, by a word of the question."""
MAX_ANSWERS = 10


def main(*arguments: str) -> int:
    """Start the servers, and run the plan; returns the exit code of the last command."""
    is_asked = sys.stdin.isatty() and "--answer" not in arguments
    with tempfile.TemporaryDirectory(prefix="asterism-remote-") as folder, Servers(Path(folder)) as servers:
        asterism = [sys.executable, "-m", "asterism.cli"]
        silent = None if is_asked else subprocess.DEVNULL
        run = [*asterism, "run", str(PLAN), "--fleet", str(servers.folder / "fleet.toml")]
        code = subprocess.run(run, env=servers.environment, stdin=silent, check=False).returncode
        for _ in range(0 if is_asked else MAX_ANSWERS):
            inbox = subprocess.run([*asterism, "inbox", "--json"], env=servers.environment, capture_output=True, check=True)
            if not (asked := json.loads(inbox.stdout)):
                break
            value = next(value for word, value in ANSWERS.items() if word in asked[0]["prompt"])
            print(f"\n$ asterism answer {asked[0]['inquiry']} respond --value '{value}'", flush=True)
            answer = [*asterism, "answer", asked[0]["inquiry"], "respond", "--value", value]
            code = subprocess.run(answer, env=servers.environment, stdin=silent, check=False).returncode
        for file in sorted(servers.folder.glob("*.txt")):
            print(f"\n{file.read_text(encoding='utf-8')}", end="")
        return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
