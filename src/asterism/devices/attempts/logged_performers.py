"""Performers whose effects have a log: those whose code may print, also in this process."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

from asterism.devices.attempts.secrets import known_secrets
from asterism.devices.attempts.task_log import CURRENT, AttemptLog, AttemptLogWriter
from asterism.engine.kernel.machine import Effect, run_id_of
from asterism.engine.ports.logs import LogChunk, LogStore, Stream
from asterism.engine.ports.performer import Performer, WithinContext

Performers = Mapping[type[Effect], Performer]


@contextlib.asynccontextmanager
async def open_logs(
    store: LogStore, now: Callable[[], float], own_secrets: Callable[[], Mapping[str, str]] = dict
) -> AsyncIterator[Callable[[Performers], Performers]]:
    """Open the logs of a runtime; yield a function that gives performers a log for each effect whose code may print.

    ``own_secrets`` returns those of this program, which are masked, too.
    """
    async with AttemptLogWriter(store, now, lambda: {**own_secrets(), **known_secrets()}) as writer:

        def logged(performers: Performers) -> Performers:
            return {
                kind: WithinContext(performer, functools.partial(log_of, writer, kind.logged_as)) if kind.logged_as else performer
                for kind, performer in performers.items()
            }

        with printed_to_logs():
            yield logged


@contextlib.asynccontextmanager
async def log_of(writer: AttemptLogWriter, name_of: Callable[[Any], tuple[str, int]], effect_id: str, request: Any) -> AsyncIterator[None]:
    """Open the log of an effect; its output is in the store when it is closed."""
    task, number = name_of(request)
    chunk = LogChunk(run_id=run_id_of(effect_id), key=effect_id, task=task, number=number, stream="stdout", at=0.0, data=b"")
    attempt_log = AttemptLog(writer, chunk)
    token = CURRENT.set(attempt_log)
    try:
        yield
    finally:
        CURRENT.reset(token)
        await attempt_log.close()


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
