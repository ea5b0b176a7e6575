"""What is to be said to people or models, as a code with data: a journal holds no sentence of this program.

A move makes a phrase, and ``str`` of it gives the words. The words are declared by the views, one table a form. So another
wording concerns runs that are under way, too, and no replay compares it. A text that a person, a device, a model or a tool has
written stays a text.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

Wording = str | Callable[..., str]
"""A format string, or a function that returns the words: of the data, by name."""
WORDINGS: dict[str, Wording] = {}


class Phrase(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A sentence, or a part of one, before it is worded.

    Attributes:
        code: what is said; unique among all forms.
        data: what it is said about, by name.
    """

    code: str
    data: dict[str, bool | int | float | str | Phrase | list[str | Phrase]] = {}

    def __str__(self) -> str:
        """Return the words; of a code that no table has, or with data that do not fit its words, the code and the data."""
        wording = WORDINGS.get(self.code)
        try:
            if wording is not None:
                return wording(**self.data) if callable(wording) else _FORMATTER.vformat(wording, (), self.data)
        except (TypeError, ValueError, LookupError, AttributeError):
            pass  # the data come from a file of somebody else
        return " ".join([self.code, *(f"{name}={value}" for name, value in self.data.items())])


def joined(values: Sequence[Any], most: int | None = None) -> str:
    """Return values in words; of many, the first ``most`` and how many more there are."""
    named = values[:most]
    left = len(values) - len(named)
    return ", ".join(map(str, named)) + (f" and {left} more" if left else "")


class _Formatter(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        """Return a value in words; of a list its items.

        ``{ids:10}`` names at most ten, and how many more there are; ``{ids:or none}`` is ``none`` for an empty list.
        ``{why:+: }`` puts a colon before a text, unless it is empty.
        """
        words = joined(value) if isinstance(value, list) else value
        if format_spec.startswith("+"):
            return f"{format_spec[1:]}{words}" if words else ""
        if not isinstance(value, list):
            return format(str(value) if isinstance(value, Phrase) else value, format_spec)
        if format_spec.startswith("or "):
            return words or format_spec[3:]
        return joined(value, int(format_spec) if format_spec else None)


_FORMATTER = _Formatter()
Text = str | Phrase
"""A text as somebody has written it, or a phrase of this program."""


def phrase(code: str, /, **data: bool | float | Text | Sequence[Text]) -> Phrase:
    """Return the phrase of a code."""
    plain: dict[str, Any] = {name: [*value] if isinstance(value, list | tuple) else value for name, value in data.items()}
    return Phrase(code, plain)


def declare(wordings: Mapping[str, Wording]) -> None:
    """Take the table with the words of a form's phrases.

    Raises:
        ValueError: a code has other words already.
    """
    if twice := [code for code, wording in wordings.items() if WORDINGS.get(code, wording) != wording]:
        raise ValueError(f"phrases with two wordings: {', '.join(twice)}")
    WORDINGS.update(wordings)


def words_of(text: Any) -> str:
    """Return a text in words that may be a phrase as plain data."""
    return str(msgspec.convert(text, Text))
