"""RESULTS.md: its head is the timings', and below it each benchmark in virtual time writes a section of its own."""

from __future__ import annotations

from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")


def write_head(text: str) -> None:
    """Write what stands above the sections, and keep them."""
    _, *sections = _parts()
    _write([text, *sections])


def write_section(title: str, text: str) -> None:
    """Write one section anew, where it was or last, and keep the rest."""
    section = f"{title}\n\n{text.strip()}\n"
    head, *sections = _parts()
    if not any(is_of(title, there) for there in sections):
        sections.append(section)
    _write([head, *(section if is_of(title, there) else there for there in sections)])


def is_of(title: str, section: str) -> bool:
    """Whether a section has that title."""
    return section.partition("\n")[0] == title


def _parts() -> list[str]:
    return RESULTS.read_text(encoding="utf-8").split("\n## ")


def _write(parts: list[str]) -> None:
    RESULTS.write_text("\n## ".join(f"{part.strip()}\n" for part in parts), encoding="utf-8")
