"""Text that comes from another program or computer."""

from __future__ import annotations


def one_line(text: str, limit: int) -> str:
    """Return a text of another program as one line without control characters, cut at a limit."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text[: 4 * limit]).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
