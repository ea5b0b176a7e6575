"""Skills that take and return files."""

from __future__ import annotations

import os
import time
from pathlib import Path

from asterism import File, SkillContext, skill


@skill
def make(text: str, context: SkillContext) -> File:
    """Write a text to a file."""
    target = context.folder / "made.txt"
    target.write_text(text)
    return File(target)


@skill(idempotent=True)
def count(source: Path) -> int:
    """Count the bytes of a file."""
    if mark := os.environ.get("WAIT"):
        Path(mark).touch()
        time.sleep(60)
    return source.stat().st_size
