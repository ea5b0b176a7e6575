"""Skills for the tests of the console. ``hold`` is under way until a file with its name exists in the folder."""

from __future__ import annotations

import time
from pathlib import Path

from asterism import skill


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
