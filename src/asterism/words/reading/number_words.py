"""Numbers in words: up to twenty from the language file, larger ones by the package ``text2num``, an extra."""

from __future__ import annotations

import functools

from asterism.words.reading.tokens import fold
from asterism.words.reading.words import Words

SUPPORTED = ("de", "en", "es", "fr", "it", "nl", "pt")
"""Codes of the languages of text2num."""
MAX = 1_000_000_000


def number_in_words(said: tuple[str, ...], words: Words) -> int | None:
    """Return the number that words give; None for none, or for one that needs the extra."""
    if len(said) == 1:
        low = fold(said[0])
        if low in words.numbers:
            return words.numbers[low]
        if low in words.typos:
            return words.typos[low]
    return by_library(" ".join(said), words.code)


@functools.lru_cache(maxsize=4096)
def by_library(said: str, code: str) -> int | None:
    """Return the number that text2num reads; None for none, or without the package."""
    if code not in SUPPORTED:
        return None
    try:
        from text_to_num import text2num  # noqa: PLC0415 - an extra
    except ImportError:
        return None
    try:
        found = text2num(said, code)
    except ValueError:
        return None
    return int(found) if 0 <= found <= MAX else None


@functools.cache
def has_library() -> bool:
    """Return True if the extra is installed."""
    try:
        import text_to_num  # noqa: F401, PLC0415 - an extra
    except ImportError:
        return False
    return True
