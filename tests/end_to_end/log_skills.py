"""Skills that print, for the tests of logs and secrets."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from asterism import SkillContext, skill


@skill
def flood(token: str, megabytes: int) -> str:
    """Print very much, with the token in pieces, and raise."""
    line = b"x" * 99 + b"\n"
    print("first line")
    for number in range(megabytes):
        os.write(1, line * 5000)
        os.write(1, line * 5000)
        if number % 10 == 0:
            middle = len(token) // 2
            os.write(1, token[:middle].encode())
            time.sleep(0.01)
            os.write(1, token[middle:].encode() + b"\n")
    print("last line", file=sys.stderr)
    _give_up(token)
    return ""


def _give_up(token: str) -> None:
    raise ValueError(f"no luck with {token}")


@skill
def reveal(token: str, context: SkillContext) -> dict[str, Any]:
    """Put the token everywhere."""
    context.progress(0.5, f"using {token}")
    print("printed", token, {"repr": token})
    subprocess.run(["sh", "-c", 'echo "child $HIDDEN" >&2'], check=True, env={**os.environ, "HIDDEN": token})
    return {"there": [f"it is {token}"]}


@skill
def measure(token: str) -> int:
    """Return the length of the token."""
    print("variable", os.environ.get("VARIABLE", ""))
    return len(token)


@skill
def talk(text: str) -> str:
    """Print a text and return it."""
    print(text)
    return text


@skill
def print_and_wait(there: str) -> str:
    """Print, say so, and never end."""
    print("before the kill", flush=True)
    os.write(1, b"half a line")
    Path(there).write_text(str(os.getpid()))
    time.sleep(600)
    return ""
