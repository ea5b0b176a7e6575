"""What was read: a value, its place in the message, and whether it is certain."""

from __future__ import annotations

import datetime as dt
from typing import Any, Literal

import msgspec

ValueKind = Literal["date", "time", "duration", "number", "money", "shift", "option", "yes_no", "part", "span"]


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One value that was read.

    Attributes:
        kind: kind of the value.
        value: a date, a time, a timedelta, a Decimal, or what the kind has.
        start, end: its first token, and the one after its last.
        sure: False for a guess, which must be confirmed.
        others: other values that the words may mean.
        unit: unit of a duration or currency of money, as written; empty for none.
        why: why the words give no value, for the person; the value is None then.
        role: ``step`` for a change of an earlier value, ``asked`` for a value only if its field was asked for; else empty.
    """

    kind: ValueKind
    value: Any = None
    start: int = 0
    end: int = 0
    sure: bool = True
    others: tuple[Any, ...] = ()
    unit: str = ""
    why: str = ""
    role: str = ""


def iso(value: Any) -> str:
    """Return a value as text for journals."""
    if isinstance(value, dt.timedelta):
        return f"{value.total_seconds():g} s"
    return value.isoformat() if isinstance(value, (dt.date, dt.time, dt.datetime)) else str(value)
