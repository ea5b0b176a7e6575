"""Output of code that runs in this process: what an attempt prints also goes to its log."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

from asterism.devices.attempts.task_log import CURRENT
from asterism.engine.ports.logs import Stream


class _Printed:
    """A text stream that also writes to the log of the attempt whose code prints."""

    def __init__(self, under: Any, stream: Stream) -> None:
        self.under = under
        self._stream = stream

    def write(self, text: str) -> int:
        written: int = self.under.write(text)
        if (current := CURRENT.get()) is not None:
            current.print(self._stream, text)
        return written

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.under, name)


@contextlib.contextmanager
def printed_to_logs() -> Iterator[None]:
    """Pass what attempts in this process print to their logs, too."""
    mine: list[tuple[str, _Printed]] = []
    for name, stream in (("stdout", "stdout"), ("stderr", "stderr")):
        under = getattr(sys, name)
        if under is not None and not isinstance(under, _Printed):
            mine.append((name, _Printed(under, stream)))  # type: ignore[arg-type]
            setattr(sys, name, mine[-1][1])
    try:
        yield
    finally:
        for name, printed in mine:
            if getattr(sys, name) is printed:  # else a program has replaced it meanwhile
                setattr(sys, name, printed.under)
