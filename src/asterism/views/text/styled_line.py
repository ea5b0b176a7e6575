"""A line of text in parts, each with a style, for a terminal, a page or a plain file."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Self

TimeFormat = Callable[[float, str], str]
"""Return a time, in seconds since the epoch, in a format of ``strftime`` and in the reader's time zone."""
DAYTIME = "%H:%M:%S"
MOMENT = "%Y-%m-%d %H:%M:%S"


class StyledLine:
    """A line of text. ``str(line)`` is the text without styles.

    A style is one that ``rich`` knows, such as ``bold red``; empty for none.

    Attributes:
        parts: texts with their styles, in order.
        style: style of the whole line, below that of its parts.
        fixed: True if a terminal cuts the line at its edge; False if it wraps it.
    """

    __slots__ = ("fixed", "parts", "style")

    def __init__(self, text: str = "", style: str = "", *, fixed: bool = False) -> None:
        self.parts: list[tuple[str, str]] = [(text, "")] if text else []
        self.style = style
        self.fixed = fixed

    def __str__(self) -> str:
        return "".join(text for text, _ in self.parts)

    def append(self, text: str, style: str = "") -> Self:
        """Append a text; return the line."""
        if text:
            self.parts.append((text, style))
        return self

    def append_line(self, line: StyledLine) -> Self:
        """Append the parts of another line, with its style; return this line."""
        self.parts += [(text, f"{line.style} {style}".strip()) for text, style in line.parts]
        return self

    def rstrip(self) -> Self:
        """Remove spaces at the end; return the line."""
        while self.parts:
            text, style = self.parts.pop()
            if stripped := text.rstrip():
                self.parts.append((stripped, style))
                break
        return self


def cell_width(text: str) -> int:
    """Return the width of a text in cells of a terminal."""
    if text.isascii():
        return len(text)
    return sum(_char_width(char) for char in text)


def _char_width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Mc", "Me", "Cf") or "\u1160" <= char <= "\u11ff":  # vowels and ends of Hangul syllables
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
