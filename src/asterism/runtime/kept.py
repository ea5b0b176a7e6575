"""What user code has made, on its way into a journal: it may have put anything anywhere, and a journal must give it back."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from asterism.errors import AsterismError, InvalidInput
from asterism.kernel.data import check_json

MAX_BYTES = 1024 * 1024
"""Of one value; what is larger belongs into a file."""
MAX_TOLD = 10_000
"""Characters of an error that are kept."""


def as_json(value: Any, what: str) -> Any:
    """The value as JSON gives it back.

    Raises:
        InvalidInput: it is not JSON, nested too deep, or too large; ``what`` says whose it is.
    """
    try:
        text = json.dumps(msgspec.to_builtins(value, str_keys=True, enc_hook=_dumped), ensure_ascii=False, allow_nan=False)
        size, found = len(text.encode()), json.loads(text)
    except (TypeError, ValueError, RecursionError, NotImplementedError) as error:
        raise InvalidInput(f"{what} is not JSON: {error}") from None
    if size > MAX_BYTES:
        raise InvalidInput(f"{what} has {size:,} bytes, the limit is {MAX_BYTES:,}; write it to a file and return its path")
    check_json(found, what)
    return found


def told(error: BaseException) -> str:
    """An error in words, as text that can be stored: ours as it is, any other with its type."""
    try:
        words = str(error)
    except Exception:  # boundary: it is a user's, and cannot say what it is
        words = ""
    if not isinstance(error, AsterismError):
        words = f"{type(error).__name__}: {words}" if words else type(error).__name__
    return words[:MAX_TOLD].encode(errors="backslashreplace").decode()  # a name of a file may be no Unicode


def _dumped(value: Any) -> Any:
    if hasattr(value, "model_dump"):  # a pydantic model
        return value.model_dump(mode="json")
    raise NotImplementedError(f"a {type(value).__name__}")
