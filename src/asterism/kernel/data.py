"""What data is: a JSON value that a journal gives back as it was."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from asterism.errors import InvalidInput

MAX_DEPTH = 100
"""Lists and objects within each other; deeper ones are refused."""
S = TypeVar("S", bound=msgspec.Struct)


def read_back(it: S) -> S:
    """Return an event or effect as a journal gives it back: a number of a float field is a float, whatever was put there.

    Raises:
        InvalidInput: a field has a value that a journal cannot hold, or not of the field's type.
    """
    try:
        found: S = _decode(type(it))(_encode(it))
    except (TypeError, ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise InvalidInput(f"a journal would not give it back: {error}") from None
    return found


@functools.cache
def _decode(kind: type[S]) -> Callable[[bytes], S]:
    return msgspec.json.Decoder(kind).decode


_encode = msgspec.json.Encoder().encode


def check_json(value: Any, where: str) -> None:
    """See that a journal would give a value back as it is.

    Raises:
        InvalidInput: it is not what JSON has, or too deep; names ``where``.
    """
    if value is None:
        return
    if why := _why_not_json(value):
        raise InvalidInput(f"{where}: {why}")
    check_encodable(value, where)


def _why_not_json(value: Any) -> str:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                odd = next((key for key in item if not isinstance(key, str)), None)
                if odd is not None:
                    return f"the name {odd!r} is not text; JSON has no other names"
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
            elif isinstance(item, float) and not math.isfinite(item):
                return f"{item} is not a JSON number"
            elif item is not None and not isinstance(item, str | int | float):
                return f"{item!r} is {type(item).__name__}, which JSON does not have; put it in quotes"
        if not below:
            return ""
        level = below
    return f"more than {MAX_DEPTH} lists and objects within each other"


def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON from its pairs, as a reader of JSON asks for it (``object_pairs_hook``).

    Raises:
        InvalidInput: a name is there twice.
    """
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise InvalidInput(f"{name!r} is there twice in one object; names and ids are unique")
        found[name] = value
    return found


def check_encodable(value: Any, where: str) -> None:
    """See that JSON can be written of a value, whatever it would be read back as.

    Raises:
        InvalidInput: it cannot; names ``where``.
    """
    try:
        msgspec.json.encode(value)
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{where}: half a character (a lone surrogate) in {error.object[:40]!r}") from None
    except (RecursionError, TypeError) as error:
        raise InvalidInput(f"{where}: cannot be written as JSON ({error})") from None
