"""Skills that open what they are given."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from asterism import File, skill


@dataclasses.dataclass
class Source:
    """A class with a path in it."""

    path: Path | None = None


@skill
def read(path: Path) -> str:
    """Return the content of a file."""
    return path.read_text()


@skill
def read_all(paths: list[Path] | None = None, sources: dict[str, Source] | None = None) -> str:
    """Return the content of files."""
    return "".join(it.read_text() for it in [*(paths or []), *(it.path for it in (sources or {}).values() if it.path)])


@skill
def read_file(file: File) -> str:
    """Return the content of a file."""
    return file.path.read_text()


@skill
def echo(text: str) -> str:
    """Return a text."""
    return text
