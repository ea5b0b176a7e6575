"""Splitting of texts.

``tokens`` splits a request into words, values (quoted text, paths, numbers), operators and marks,
each with its position. ``name_parts`` splits a name into words; ``plain`` normalizes a message.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Literal

import msgspec

Kind = Literal["word", "quoted", "path", "number", "odd", "operator", "mark"]

# Repeats are bounded, so that reading a hostile request stays linear.
_TOKEN = re.compile(
    r"""
      (?P<quoted>"[^"\n]{0,1000}"|“[^”\n]{0,1000}”|`[^`\n]{0,1000}`|(?<![^\W_])'[^'\n]{0,1000}'(?!\w))
    | (?P<path>
          \w{1,20}://[^\s,;'"]{1,1000}
        | (?:~|\.{1,2})?/[^\s,;'"()]{0,1000}
        | (?<!\S)\.{1,2}(?=\s)
        | [A-Za-z]:\\[^\s,;'"]{0,1000}
        | \w[\w.~-]{0,255}(?:/[\w.~*-]{1,255}){1,50}/?
        | (?<!\S)\*{1,2}[./][\w./*-]{1,255}
        | [^\W\d][\w-]{0,255}(?:\.[A-Za-z][A-Za-z0-9]{0,7}){1,5}(?![\w.]*\w)
      )
    | (?P<operator>->|→|=>|>=|<=|==|!=|≥|≤|≠|=|>|<)
    | (?P<number>(?:(?<![\w)])[-+])?(?:\d{1,3}(?:,\d{3})+|\d{1,30})(?:\.\d{1,30})?(?:[eE][-+]?\d{1,2})?\s?%?(?![\w]|\.\d|:\d\d(?!\d)))
    | (?P<odd>\d[\w.:-]{0,255}(?<=[\w]))
    | (?P<word>[^\W\d][\w]{0,255}(?:['’-]\w{1,255}){0,10})
    | (?P<mark>\n|\S)
    """,
    re.VERBOSE,
)
_PART = re.compile(r"[^\W_]+")
_LIST_MARKER = re.compile(r"^[ \t]*(?:\d{1,3}[.)]|[-*•])[ \t]+", re.MULTILINE)


class Token(msgspec.Struct, frozen=True):
    """One token.

    Attributes:
        kind: its kind; an ``odd`` token starts with a digit but is no number (``10s``, ``1.2.3``).
        text: its text as written, without quotes.
        start, end: its position in the request.
    """

    kind: Kind
    text: str
    start: int
    end: int

    @property
    def low(self) -> str:
        """Return the text in lower case, with a plain apostrophe; empty for a value."""
        return "" if self.is_value else self.text.lower().replace("’", "'")

    @property
    def is_value(self) -> bool:
        """Return True for a token that must become a parameter or part of a condition."""
        return self.kind in {"quoted", "path", "number", "odd"}

    def number(self) -> Decimal:
        """Return the number; a percentage becomes a fraction."""
        digits = self.text.replace(",", "").strip()
        if digits.endswith("%"):
            return Decimal(digits[:-1].strip()) / 100
        return Decimal(digits)


def tokens(request: str) -> list[Token]:
    """Return all tokens of a request, in order, without list markers (``1.``, ``-``)."""
    text = _LIST_MARKER.sub(lambda found: " " * len(found.group()), request)
    found: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.search(text, position)
        if match is None:
            break
        kind: Kind = match.lastgroup  # type: ignore[assignment]  # the groups are named after the kinds
        start, end = match.span()
        if kind == "path":  # without the full stop of the sentence
            end = start + (len(match.group().rstrip(".,:;!?")) or len(match.group()))
        word = text[start:end]
        found.append(Token(kind, word[1:-1] if kind == "quoted" else word, start, end))
        position = end
    return found


def name_parts(text: str) -> tuple[str, ...]:
    """Return the lower-case words of a name.

    "gpu_server", "GPU server" and "gpu-server" have the same words.
    """
    return tuple(word.lower() for word in _PART.findall(text))


def plain(text: str) -> str:
    """Return the text in lower case, with single spaces, and without marks around it."""
    return re.sub(r"\s+", " ", text.replace("’", "'").lower()).strip(' \t\n.,;:!?"')
