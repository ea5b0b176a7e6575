"""What a user's function returns, as JSON: what goes into a journal must come out of it as it was."""

from __future__ import annotations

from typing import Any

import msgspec

from asterism.errors import InvalidInput

MAX_BYTES = 1024 * 1024
"""Of one value; what is larger belongs into a file."""


def as_json(value: Any, what: str) -> Any:
    """The value as JSON gives it back.

    Raises:
        InvalidInput: it is not JSON, or too large; ``what`` says whose it is.
    """
    try:
        text = msgspec.json.encode(value, enc_hook=_dumped)
    except (TypeError, ValueError, RecursionError, NotImplementedError) as error:
        raise InvalidInput(f"{what} is not JSON: {error}") from None
    if len(text) > MAX_BYTES:
        raise InvalidInput(f"{what} has {len(text):,} bytes, the limit is {MAX_BYTES:,}; write it to a file and return its path")
    return msgspec.json.decode(text)


def _dumped(value: Any) -> Any:
    if hasattr(value, "model_dump"):  # a pydantic model
        return value.model_dump(mode="json")
    raise NotImplementedError(f"a {type(value).__name__}")
