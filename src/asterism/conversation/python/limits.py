"""The limits of a field in words, in the language of a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from asterism.conversation.python.parsing import options_of
from asterism.words.reading.spoken import value_words
from asterism.words.reading.words import Words

_NUMBERS = ("ge", "le", "gt", "lt", "min_length", "max_length")


def limits_in_words(kind: Any, bounds: Mapping[str, Any], words: Words) -> str:
    """Return the bounds of a field, its options, or yes or no; empty if there are none."""
    said = bounds_in_words(bounds, words)
    return said or (kind_in_words(kind, words) if options_of(kind) or kind is bool else "")


def refusal_in_words(kind: Any, bounds: Mapping[str, Any], value: Any, words: Words) -> str:
    """Return why a value is none of a field; a number is shown."""
    if isinstance(value, str) and kind in (int, float):
        return words.text("is_number")
    said = bounds_in_words(bounds, words)
    if said and kind in (int, float, Decimal) and isinstance(value, (int, float, Decimal)):
        return words.text("not_value", limits=said, value=value_words(value, words))
    return said or kind_in_words(kind, words)


def bounds_in_words(bounds: Mapping[str, Any], words: Words) -> str:
    """Return bounds in words; empty if there are none."""
    low, high = bounds.get("ge"), bounds.get("le")
    if low is not None and high is not None:
        return words.text("between", low=low, high=high)
    said = [words.text(f"bound_{name}", bound=bound) for name, bound in bounds.items() if name in _NUMBERS]
    return words.text("must_be", limits=f" {words.text('and_word')} ".join(said)) if said else ""


def kind_in_words(kind: Any, words: Words) -> str:
    """Return what a value of a type is."""
    if options := options_of(kind):
        return words.text("is_option", options=", ".join(options))
    key = {int: "whole_number", float: "is_number", bool: "none_yes_no"}.get(kind, "is_kind")
    return words.text(key, kind=getattr(kind, "__name__", kind))
