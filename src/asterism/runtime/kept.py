"""What user code has made, on its way into a journal: it may have put anything anywhere, and a journal must give it back."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from asterism.errors import AsterismError, InvalidInput
from asterism.kernel.machine import Event

MAX_TOLD = 10_000
"""Characters of an error that are kept."""

E = TypeVar("E", bound=Event)


def kept(event: E) -> E:
    """The event, when a journal gives it back.

    Raises:
        InvalidInput: a journal would not.
    """
    try:
        msgspec.convert(msgspec.json.decode(msgspec.json.encode(event)), type(event))
    except (TypeError, ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise InvalidInput(f"a journal would not give it back: {error}") from None
    return event


def told(error: BaseException) -> str:
    """An error in words, as text that can be stored: ours as it is, any other with its type."""
    try:
        words = str(error)
    except Exception:  # boundary: it is a user's, and cannot say what it is
        words = ""
    if not isinstance(error, AsterismError):
        words = f"{type(error).__name__}: {words}" if words else type(error).__name__
    return words[:MAX_TOLD].encode(errors="backslashreplace").decode()  # a name of a file may be no Unicode
