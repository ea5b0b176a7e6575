"""Times as people here read them, and error messages for a terminal."""

from __future__ import annotations

import datetime as dt

from asterism.views.words import printable


def message(text: object) -> str:
    """An error message for a terminal: nothing in it is obeyed, and each line but the first is indented, as no message begins."""
    first, *more = str(text).split("\n")
    return "\n".join([printable(first), *(printable(line if line.startswith("  ") else f"  {line}") for line in more)])


def moment(at: float) -> str:
    """A point in time, here: date and time of day."""
    return _local(at, "%Y-%m-%d %H:%M:%S")


def time_of_day(at: float) -> str:
    """The time of day, here."""
    return _local(at, "%H:%M:%S")


def _local(at: float, form: str) -> str:
    try:
        return f"{dt.datetime.fromtimestamp(at, tz=dt.UTC).astimezone():{form}}"
    except (OverflowError, ValueError, OSError):  # one row that was changed, or a limit of many ages, must not hide the others
        return f"no time of this calendar ({at:g} s)"
