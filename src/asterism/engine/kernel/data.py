"""Values that survive a round trip through JSON, as a journal makes it.

``read_back`` and ``round_trip`` are for values from Asterism's own code; ``as_json`` is for values
from user code, which may be anything; ``check_json`` checks a value that should be JSON already.

A file travels through a run as a value that names it: ``{"$file": "sha256:<hex>", "name": …, "media_type": …, "size": …}``.
Its content is stored by its digest, outside the journal.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from asterism.errors import AsterismError, InvalidInput

MAX_DEPTH = 100
"""Nesting depth of lists and objects; deeper values are refused."""
MAX_BYTES = 1024 * 1024
"""Size of a value from user code; larger data belongs in a file."""
MAX_ERROR_CHARS = 10_000
"""Length of an error text that is stored."""
S = TypeVar("S", bound=msgspec.Struct)
FILE = "$file"
"""Key with the digest of the file."""
PATH = "path"
"""Key that a device adds to an argument: where the skill finds the file."""
FILE_SCHEMA: dict[str, Any] = {"type": "object", "format": "file"}
"""JSON Schema of a file."""
NAME_BYTES = 200
"""Bytes of a file's name."""

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def read_back(it: S) -> S:
    """Return an event or effect as it is read from a journal.

    A number in a float field becomes a float.

    Raises:
        InvalidInput: a journal cannot hold the value of a field, or the value does not have the
            field's type.
    """
    try:
        found: S = _decode(type(it))(_encode(it))
    except (TypeError, ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise InvalidInput(f"a journal cannot hold it: {error}") from None
    return found


@functools.cache
def _decode(kind: type[S]) -> Callable[[bytes], S]:
    return msgspec.json.Decoder(kind).decode


_encode = msgspec.json.Encoder().encode


def round_trip(value: Any) -> Any:
    """Return a value after a round trip through JSON.

    Structs become objects and tuples become lists; nothing is shared with the value.
    """
    return msgspec.json.decode(_encode(value))


def as_json(value: Any, what: str, *, bounded: bool = True) -> Any:
    """Return a value from user code after a round trip through JSON.

    Args:
        value: anything; a pydantic model is dumped.
        what: name of the value, for the error.
        bounded: limit the value to ``MAX_DEPTH`` and ``MAX_BYTES``.

    Raises:
        InvalidInput: the value is not JSON, or exceeds the bounds. NaN is refused, too; msgspec
            would write it as null.
    """
    text = json_bytes(value, what)
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise InvalidInput(f"{what} is not JSON: {error}") from None
    if bounded:
        check_size(text, what)
        check_json(found, what)
    return found


def check_size(text: bytes, what: str) -> None:
    """Check that a value from user code, as JSON text, has at most ``MAX_BYTES``.

    Raises:
        InvalidInput: it has more.
    """
    if len(text) > MAX_BYTES:
        raise InvalidInput(f"{what} has {len(text):,} bytes, and the limit is {MAX_BYTES:,}; write it to a file and return its path")


def json_bytes(value: Any, what: str, enc_hook: Callable[[Any], Any] | None = None) -> bytes:
    """Return a value as JSON text that reads back as the same value.

    Args:
        value: anything.
        what: name of the value, for the error.
        enc_hook: converts objects that msgspec does not know; by default pydantic models only.

    Raises:
        InvalidInput: the value is not JSON.
    """
    try:
        builtins = msgspec.to_builtins(value, str_keys=True, enc_hook=enc_hook or _dumped)
        return json.dumps(builtins, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError, OverflowError, NotImplementedError) as error:
        raise InvalidInput(f"{what} is not JSON: {error}") from None


def _dumped(value: Any) -> Any:
    if hasattr(value, "model_dump"):  # a pydantic model
        return value.model_dump(mode="json")
    raise NotImplementedError(f"it contains an object of type {type(value).__name__}")


def check_json(value: Any, where: str, depth: int = MAX_DEPTH) -> None:
    """Check that a journal returns a value unchanged; ``depth`` bounds nested lists and objects.

    Raises:
        InvalidInput: the value is not JSON, or too deep; names ``where``.
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
    """Return a JSON object from its pairs (an ``object_pairs_hook``).

    Raises:
        InvalidInput: a name occurs twice.
    """
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise InvalidInput(f"duplicate name {name!r} in an object; names and ids are unique")
        found[name] = value
    return found


def check_encodable(value: Any, where: str) -> None:
    """Check that a value can be written as JSON, even if it would not read back the same.

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
    """Return the text of an error for a journal.

    An error that is not Asterism's is prefixed with its type.
    """
    try:
        text = str(error)
    except Exception:  # boundary: the error is of user code, and its __str__ may fail
        text = ""
    if not isinstance(error, AsterismError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    # A file name in it may not be valid Unicode
    return text[:MAX_ERROR_CHARS].encode(errors="backslashreplace").decode()


def texts_of(value: Any) -> Iterator[str]:
    """Yield every text of a JSON value."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)


def one_line(text: str, limit: int) -> str:
    """Return a text of another program as one line without control characters, cut at a limit."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text[: 4 * limit]).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def is_digest(value: object) -> bool:
    """Return True for the digest of a file."""
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


_EVENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:-]{0,99}")


def check_event_name(name: str, where: str) -> None:
    """Check the name of an event. Raises InvalidInput."""
    if not _EVENT_NAME.fullmatch(name):
        raise InvalidInput(f"{where}: {name[:100]!r} is no name of an event; use 1 to 100 of A-Z, a-z, 0-9, _, -, ., / and :")


def is_file(value: object) -> bool:
    """Return True for a value that names a file."""
    return isinstance(value, dict) and is_digest(value.get(FILE))


def path_of(value: object) -> str | None:
    """Return where a device has put the file that an argument names; None if the value is no such argument."""
    path = value.get(PATH) if isinstance(value, dict) and is_file(value) else None
    return path if isinstance(path, str) else None


def files_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the values within a JSON value that name files."""
    stack = [value]
    while stack:
        it = stack.pop()
        if is_file(it):
            yield it
        elif isinstance(it, dict):
            stack += it.values()
        elif isinstance(it, list):
            stack += it


def safe_name(name: object) -> str:
    """Return the last part of a name, as the name of a file that is neither hidden nor a path.

    Control characters are removed, and a long name is cut before its suffix.
    """
    text = name if isinstance(name, str) else ""
    text = "".join(it for it in re.split(r"[/\\]", text)[-1] if it.isprintable()).strip().lstrip(".~-").strip()
    stem, dot, suffix = text.rpartition(".")
    if len(text.encode()) > NAME_BYTES:
        short = suffix.encode()[:20].decode(errors="ignore") if dot else ""
        head = (stem if dot else text).encode()[: NAME_BYTES - 21].decode(errors="ignore")
        text = f"{head}.{short}" if short else head
    return text or "file"
