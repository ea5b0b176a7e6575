"""Patterns of a language file: words, alternatives ``a|b``, optional parts ``[a b]``, and slots ``{name}``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from asterism.words.reading.tokens import WordToken, fold

_PART = re.compile(r"\[|\]|\{(\w*)\}|[^\s\[\]{}]+")
MAX_WAYS = 64
"""Ways in which one pattern is matched at one place at most."""
Bindings = dict[str, Any]


class AnyOf(msgspec.Struct, frozen=True):
    """One word of several."""

    any_of: frozenset[str]


class Slot(msgspec.Struct, frozen=True):
    """A value of a kind."""

    name: str


class Maybe(msgspec.Struct, frozen=True):
    """An optional part."""

    parts: tuple[Any, ...]


Pattern = tuple[Any, ...]


class Slots(Protocol):
    """Reads the slots of patterns."""

    tokens: list[WordToken]

    def slot(self, name: str, at: int) -> list[tuple[int, Any]]:
        """Return the ends and values of a slot at a token."""
        ...


def compiled(text: str, slots: frozenset[str]) -> Pattern:
    """Return a pattern.

    Raises:
        ValueError: the text is no pattern; the message says why.
    """
    stack: list[list[Any]] = [[]]
    for found in _PART.finditer(text):
        part = found[0]
        if part == "[":
            stack.append([])
        elif part == "]":
            if len(stack) == 1:
                raise ValueError(f"{text!r} closes a bracket that is not open")
            inner = tuple(stack.pop())
            stack[-1].append(Maybe(inner))
        elif part.startswith("{"):
            if found[1] not in slots:
                raise ValueError(f"{text!r} has a slot {part}; there are {', '.join(sorted(f'{{{name}}}' for name in slots if name))}")
            stack[-1].append(Slot(found[1]))
        else:
            stack[-1].append(AnyOf(frozenset(spellings(part))))
    if len(stack) > 1:
        raise ValueError(f"{text!r} leaves a bracket open")
    if not stack[0]:
        raise ValueError("a pattern is empty")
    return tuple(stack[0])


def spellings(part: str) -> Iterator[str]:
    """Return the spellings of alternatives, without accents and with German ones in two characters."""
    for word in part.split("|"):
        yield fold(word)
        two = re.sub("[äöü]", lambda sign: {"ä": "ae", "ö": "oe", "ü": "ue"}[sign[0]], word.casefold())
        if two != word.casefold():
            yield fold(two)


def matches(pattern: Pattern, reader: Slots, at: int) -> list[tuple[int, Bindings]]:
    """Return the ends of a pattern at a token, with the values of its slots; of each end one way."""
    found: dict[int, Bindings] = {}
    for _, (end, bindings) in zip(range(MAX_WAYS), _ways(pattern, reader, at, {}), strict=False):
        if end > at:
            found.setdefault(end, bindings)
    return list(found.items())


def _ways(pattern: Pattern, reader: Slots, at: int, bound: Bindings) -> Iterator[tuple[int, Bindings]]:
    if not pattern:
        yield at, bound
        return
    first, rest = pattern[0], pattern[1:]
    if isinstance(first, Maybe):
        yield from _ways((*first.parts, *rest), reader, at, bound)
        yield from _ways(rest, reader, at, bound)
    elif isinstance(first, Slot):
        for end, value in reader.slot(first.name, at):
            name = first.name if first.name not in bound else f"{first.name}2"
            yield from _ways(rest, reader, end, {**bound, name: value})
    elif at < len(reader.tokens) and reader.tokens[at].low in first.any_of:
        yield from _ways(rest, reader, at + 1, bound)


def first_words(pattern: Pattern) -> frozenset[str] | None:
    """Return the words that a match of the pattern can begin with; None if it can begin with a slot."""
    found: set[str] = set()
    for part in pattern:
        if isinstance(part, AnyOf):
            return frozenset(found | part.any_of)
        if isinstance(part, Slot):
            return None
        inner = first_words(part.parts)
        if inner is None:
            return None
        found |= inner
    return frozenset(found)
