"""Values that survive JSON: a journal gives them back as they were.

``read_back`` and ``round_trip`` are for what Asterism's own code has made, ``as_json`` for what user code has made, which may be
anything; ``check_json`` sees that a value is JSON already.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from asterism.errors import AsterismError, InvalidInput

MAX_DEPTH = 100
"""Lists and objects within each other; deeper ones are refused."""
MAX_BYTES = 1024 * 1024
"""Of one value that user code has made; what is larger belongs into a file."""
MAX_ERROR_CHARS = 10_000
"""Of the text of an error that is stored."""
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


def round_trip(value: Any) -> Any:
    """Return a value as a journal gives it back: structs as objects, tuples as lists, and nothing shared with it."""
    return msgspec.json.decode(_encode(value))


def as_json(value: Any, what: str, *, bounded: bool = True) -> Any:
    """Return what user code has made as JSON gives it back.

    Args:
        value: anything; a pydantic model is dumped.
        what: whose it is, for the error.
        bounded: it is no deeper than ``MAX_DEPTH`` and no larger than ``MAX_BYTES``.

    Raises:
        InvalidInput: it is not JSON, as NaN, which msgspec would write as null; or it is beyond the bounds.
    """
    text = json_bytes(value, what)
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise InvalidInput(f"{what} is not JSON: {error}") from None
    if bounded and len(text) > MAX_BYTES:
        raise InvalidInput(f"{what} has {len(text):,} bytes, the limit is {MAX_BYTES:,}; write it to a file and return its path")
    if bounded:
        check_json(found, what)
    return found


def json_bytes(value: Any, what: str, enc_hook: Callable[[Any], Any] | None = None) -> bytes:
    """Return a value as JSON text, with nothing in it that is read as something else.

    Args:
        value: anything.
        what: whose it is, for the error.
        enc_hook: makes JSON of what msgspec does not know; by default of pydantic models only.

    Raises:
        InvalidInput: it is not JSON.
    """
    try:
        builtins = msgspec.to_builtins(value, str_keys=True, enc_hook=enc_hook or _dumped)
        return json.dumps(builtins, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError, OverflowError, NotImplementedError) as error:
        raise InvalidInput(f"{what} is not JSON: {error}") from None


def _dumped(value: Any) -> Any:
    if hasattr(value, "model_dump"):  # a pydantic model
        return value.model_dump(mode="json")
    raise NotImplementedError(f"a {type(value).__name__}")


def check_json(value: Any, where: str, depth: int = MAX_DEPTH) -> None:
    """See that a journal would give a value back as it is.

    Args:
        value: anything.
        where: what it is, for the error.
        depth: lists and objects within each other, at most.

    Raises:
        InvalidInput: it is not what JSON has, or too deep; names ``where``.
    """
    if value is None:
        return
    if why := _why_not_json(value, depth):
        raise InvalidInput(f"{where}: {why}")
    check_encodable(value, where)


def _why_not_json(value: Any, depth: int) -> str:
    level: list[Any] = [value]
    for _ in range(depth + 1):
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
    return f"more than {depth} lists and objects within each other"


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


def error_text(error: BaseException) -> str:
    """Return an error as text that can be stored: one of ours as it is, any other with its type."""
    try:
        text = str(error)
    except Exception:  # boundary: user code has made it, and it may fail to say what it is
        text = ""
    if not isinstance(error, AsterismError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text[:MAX_ERROR_CHARS].encode(errors="backslashreplace").decode()  # a name of a file may be no Unicode
