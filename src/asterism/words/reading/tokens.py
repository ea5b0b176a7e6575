"""Tokens of a message, each with its position."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

import msgspec

MAX_READ = 1000
"""Characters of a message that are read for values; a longer message is only taken as a text."""
TokenKind = Literal["word", "number", "clock", "date", "mark"]

_TOKEN = re.compile(
    r"""
      (?P<date>\d{4}-\d{1,2}-\d{1,2}(?!\d)|\d{4}/\d{1,2}/\d{1,2}(?!\d)
        |\d{1,2}([./])\d{1,2}\2(?:\d{4}|\d{2})(?!\d)|\d{1,2}-\d{1,2}-\d{4}(?!\d)
        |\d{1,2}\.\s?\d{1,2}\.(?!\d)|(?<![\d/])\d{1,2}/\d{1,2}(?![\d/]))
    | (?P<clock>\d{1,2}:\d{2}(?::\d{2})?(?!\d)|\d{1,2}h\d{2}(?!\d))
    | (?P<number>\d(?:[\d.,]{0,398}\d)?)
    | (?P<word>[ap]\.\s?m\b\.?|[^\W\d_]+(?:['’][^\W\d_]+)*\.?(?<!\.)|[€$£¥%])
    | (?P<mark>\n|[^\s\w]|_)
    """,
    re.VERBOSE | re.IGNORECASE,
)


class WordToken(msgspec.Struct, frozen=True):
    """One token.

    Attributes:
        kind: its kind; a ``date`` and a ``clock`` have only digits and separators.
        text: the text as written.
        low: the text in lower case and without accents.
        start, end: its position in the message.
        glued: True if no space is before it.
    """

    kind: TokenKind
    text: str
    low: str
    start: int
    end: int
    glued: bool = False


def fold(text: str) -> str:
    """Return a text in lower case, without accents, and with plain apostrophes."""
    plain = unicodedata.normalize("NFKD", text.replace("’", "'").casefold())
    return "".join(sign for sign in plain if not unicodedata.combining(sign))


def tokens(text: str) -> list[WordToken]:
    """Return the tokens of a message; of a long one, those of its first ``MAX_READ`` characters."""
    found: list[WordToken] = []
    end = 0
    for match in _TOKEN.finditer(text[:MAX_READ].replace("\u2212", "-").replace("\u2013", "-").replace("\u2014", "-")):
        kind: TokenKind = match.lastgroup  # type: ignore[assignment]  # the groups are named after the kinds
        low = fold(match[0])
        if low[:1] in ("a", "p") and low.replace(".", "").replace(" ", "") in ("am", "pm"):
            low = low.replace(".", "").replace(" ", "")
        found.append(WordToken(kind, match[0], low, match.start(), match.end(), match.start() == end and end > 0))
        end = match.end()
    return found
