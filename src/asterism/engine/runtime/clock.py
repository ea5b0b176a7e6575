"""The only module that reads the clock and generates ids; code below the shell is given both."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import os
import secrets
import time
from pathlib import Path
from typing import Protocol

from asterism.errors import InvalidInput

DAY_S = 86_400.0


class Clock(Protocol):
    """A source of time and fresh ids; a simulation has its own."""

    def now(self) -> float:
        """Return the seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Return the seconds since some moment; they go on evenly if somebody sets the clock."""
        ...

    def new_id(self) -> str:
        """Return a unique id."""
        ...


class SystemClock:
    """The clock of this computer."""

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return the seconds since some moment."""
        return time.monotonic()

    def new_id(self) -> str:
        """Return the date and eight random hexadecimal digits, as in ``261121-9f3c01ab``.

        Such ids sort by day and are easy to type.
        """
        return f"{dt.datetime.now(tz=dt.UTC):%y%m%d}-{secrets.token_hex(4)}"


@functools.cache
def zone_of(name: str) -> dt.tzinfo:
    """Return a time zone by its name.

    Raises:
        InvalidInput: there is no such time zone.
    """
    import zoneinfo  # noqa: PLC0415 - delays the start of every command by 4 ms

    try:
        return zoneinfo.ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        raise InvalidInput(f"there is no time zone {name!r}; write it as Europe/Berlin or UTC") from None


def local_zone() -> str:
    """Return the name of the time zone of this computer; UTC if it has no name."""
    place = str(Path("/etc/localtime").resolve())
    for name in (os.environ.get("TZ", "").lstrip(":"), place.partition("/zoneinfo/")[2], "UTC"):
        with contextlib.suppress(InvalidInput):
            if name:
                zone_of(name)
                return name
    return "UTC"
