"""RESULTS.md: the timings of this computer, and below them what virtual time gives, each written without the other."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")
MARK = "\n## What waiting for a model costs\n"
"""Where the second part begins."""


def write_timings(text: str) -> None:
    """Write the first part, and keep the second."""
    _, mark, rest = _read()
    RESULTS.write_text(text + mark + rest, encoding="utf-8")


def write_waiting(text: str) -> None:
    """Write the second part, and keep the first."""
    timings, _, _ = _read()
    RESULTS.write_text(timings + MARK + text, encoding="utf-8")


def _read() -> tuple[str, str, str]:
    return RESULTS.read_text(encoding="utf-8").partition(MARK)
