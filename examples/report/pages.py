"""The steps of the report."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

from asterism import skill


class Count(TypedDict):
    """The lines of one file."""

    file: str
    lines: int


@skill(idempotent=True)
def count(folder: str, most: int) -> list[Count]:
    """Count the lines of the Python files of a folder, the longest files first."""
    files = [Count(file=path.name, lines=len(path.read_text(encoding="utf-8").splitlines())) for path in sorted(Path(folder).glob("*.py"))]
    return sorted(files, key=lambda it: -it["lines"])[:most]


@skill(idempotent=True)
def publish(counts: list[Count], file: str) -> str:
    """Write a table of the counts."""
    Path(file).write_text("".join(f"{it['lines']:6} {it['file']}\n" for it in counts), encoding="utf-8")
    return file
