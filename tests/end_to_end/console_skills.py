"""Skills for the tests of the console. ``hold`` is under way until a file with its name exists in the folder."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from asterism import File, SkillContext, skill


@skill(idempotent=True)
def prepare(number: int = 1) -> dict[str, int]:
    """Prepare."""
    print(f"prepared {number}")
    return {"number": number}


@skill(idempotent=True)
def hold(name: str = "released") -> str:
    """Wait for a file."""
    print(f"waiting for {name}", flush=True)
    while not Path(name).exists():
        time.sleep(0.05)
    return name


@skill
def deploy(version: str = "1", dry: bool = False, copies: int = 1) -> str:  # noqa: FBT001, FBT002 - fields of a form
    """Deploy a version."""
    print(f"deploying {version}")
    return f"{version} {'dry ' if dry else ''}x{copies}"


@skill
def fail(unless: str = "mended") -> str:
    """Fail unless a file exists."""
    if not Path(unless).exists():
        raise ValueError(f"{unless} does not exist")
    return unless


@skill(idempotent=True)
def shout(name: str = "released", lines: int = 0) -> None:
    """Print on both streams, wait for a file, and fail."""
    print("\x1b[31m<b>bold</b>\x1b[0m \u202etxt.exe\x07", flush=True)
    print("careful", file=sys.stderr, flush=True)
    hold(name)
    for number in range(lines):
        print(f"line {number:08}")
    raise ValueError("<i>out of paper</i>")


@skill(idempotent=True)
def write(context: SkillContext, name: str = "report.html") -> dict[str, File]:
    """Return two files."""
    for number, text in enumerate(("<script>alert(1)</script>" * 100, "total\n1\n")):
        (context.folder / str(number)).write_text(text, encoding="utf-8")
    return {"report": File(context.folder / "0", name), "table": File(context.folder / "1", "table.csv")}
