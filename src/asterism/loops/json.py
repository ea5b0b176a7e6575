"""What user code and models say, as JSON: what goes into a journal must come out of it as it was."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from asterism.constellation.documents import check_json
from asterism.errors import InvalidInput

MAX_BYTES = 1024 * 1024
"""Of one value; what is larger belongs into a file."""


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


def _dumped(value: Any) -> Any:
    if hasattr(value, "model_dump"):  # a pydantic model
        return value.model_dump(mode="json")
    raise NotImplementedError(f"a {type(value).__name__}")
