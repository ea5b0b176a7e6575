"""Times as people write them, in seconds since the epoch and back. It reads no clock."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from asterism.errors import InvalidInput


def time_of(value: Any, where: str) -> float:
    """Return a time in seconds since the epoch.

    Raises:
        InvalidInput: it is no time with an offset.
    """
    try:
        at = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        at = None
    if at is None or at.tzinfo is None:
        raise InvalidInput(f"{where}: {str(value)[:80]!r} is no time with an offset, such as 2026-12-01T08:00:00+01:00")
    return at.timestamp()


def in_utc(at: float) -> str:
    """Return an epoch second in words."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
