"""The one place that reads the clock and draws ids. Everything below the shell is given both."""

from __future__ import annotations

import datetime as dt
import secrets
import time
from typing import Protocol


class Clock(Protocol):
    """Where time and fresh ids come from; a simulation brings its own."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def new_id(self) -> str:
        """An id that nothing else has."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def new_id(self) -> str:
        """Date and eight random hexadecimal digits, such as ``261121-9f3c01ab``: sorts by day, easy to type."""
        return f"{dt.datetime.now(tz=dt.UTC):%y%m%d}-{secrets.token_hex(4)}"
