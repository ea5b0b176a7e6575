"""The logs of attempts on their way to the store: everything that they print, in batches apart from the appends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import TracebackType
from typing import Self

import msgspec

from asterism.devices.attempts.secrets import Masker, check_result, masked
from asterism.engine.ports.logs import LogChunk, LogStore, Stream
from asterism.errors import StoreUnavailable

log = logging.getLogger("asterism.logs")

BATCH_BYTES = 1 << 18
"""Bytes of one transaction; few, so that an append does not wait long for it."""
FULL_BYTES = 1 << 20
"""Bytes that wait for the store, from which on pipes are not read."""
MOST_BYTES = 8 << 20
"""Bytes that wait for the store, from which on output of this process is left out: it cannot wait."""
CHUNK_BYTES = 1 << 16
DELAY_S = 0.02
"""Seconds in which output is collected into one transaction."""

CURRENT: ContextVar[AttemptLog | None] = ContextVar("asterism_attempt_log", default=None)
"""The log of the attempt that this code belongs to."""


def print_trace(trace: str) -> None:
    """Write a traceback to the log of the attempt that this code belongs to, if it has one."""
    if (attempt_log := CURRENT.get()) is not None:
        attempt_log.print("stderr", trace)


def note_secrets(values: Mapping[str, str]) -> None:
    """Mask these values, by name, in the log of the attempt that this code belongs to, if it has one."""
    if (attempt_log := CURRENT.get()) is not None:
        attempt_log.values = {**attempt_log.values, **values}


def hidden(text: str) -> str:
    """Return a text with the secrets masked that are known to the attempt."""
    attempt_log = CURRENT.get()
    return masked(text, attempt_log.values.values()) if attempt_log else text


def check_no_secret(result: object) -> None:
    """Check that a result contains no secret that is known to the attempt.

    Raises:
        InvalidInput: it contains one; names it.
    """
    attempt_log = CURRENT.get()
    check_result(msgspec.json.encode(result), attempt_log.values if attempt_log else {})


class AttemptLogWriter:
    """Writes the logs of all attempts of a runtime to its store, one batch at a time.

    Use it as ``async with AttemptLogWriter(…)``; leaving the block writes what is left. Any thread may
    print; everything else happens in the loop.

    Args:
        store: the store.
        now: returns seconds since the epoch.
        secrets: returns the values to mask in what this process prints, by name.
    """

    def __init__(self, store: LogStore, now: Callable[[], float], secrets: Callable[[], Mapping[str, str]] = dict) -> None:
        self._store = store
        self.now = now
        self.secrets = secrets
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._pending: deque[LogChunk] = deque()
        self._bytes = 0
        self._skipped: dict[tuple[str, str], int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._group = asyncio.TaskGroup()
        self._is_open = False
        self._flushing: asyncio.Task[None] | None = None
        self._when_ready: list[Callable[[], None]] = []

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        self._is_open = True
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.flush()
        self._is_open = False  # a thread may outlive its runtime
        if self._timer is not None:
            self._timer.cancel()
        await self._group.__aexit__(None, None, None)  # without the error, which a group would wrap

    @property
    def is_full(self) -> bool:
        """Return True if a reader of a pipe should wait."""
        return self._bytes >= FULL_BYTES

    def when_ready(self, callback: Callable[[], None]) -> None:
        """Call back, in the loop, when it is no longer full."""
        self._when_ready.append(callback)

    def add(self, chunk: LogChunk) -> None:
        """Take output from any thread; beyond ``MOST_BYTES`` leave it out, and count it."""
        place = chunk.key, chunk.stream
        with self._lock:
            if self._bytes + len(chunk.data) > MOST_BYTES:
                self._skipped[place] = self._skipped.get(place, 0) + len(chunk.data)
                return
            last = self._pending[-1] if self._pending else None
            if last and (last.key, last.stream) == place and len(last.data) + len(chunk.data) <= CHUNK_BYTES and place not in self._skipped:
                self._pending[-1] = msgspec.structs.replace(last, data=last.data + chunk.data)
            else:
                self._pending.append(msgspec.structs.replace(chunk, skipped=self._skipped.pop(place, 0)))
            self._bytes += len(chunk.data)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._soon)

    async def flush(self) -> None:
        """Write everything that was printed so far."""
        while self._pending or self._flushing:  # bounded by what is printed meanwhile, which waits for it
            await asyncio.shield(self._start())

    def _soon(self) -> None:
        if self._is_open and self._timer is None and self._flushing is None:
            self._timer = self._loop.call_later(0 if self.is_full else DELAY_S, self._start)

    def _start(self) -> asyncio.Task[None]:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._flushing is None:
            self._flushing = self._group.create_task(self._flush())
        return self._flushing

    async def _flush(self) -> None:
        try:
            while batch := self._batch():
                try:
                    await self._store.add_logs(batch)
                except StoreUnavailable as error:  # the journal, which needs the same store, decides about the run
                    log.warning("output of %s is lost: %s", batch[0].key, error)
                    with self._lock:
                        for it in batch:
                            self._skipped[it.key, it.stream] = self._skipped.get((it.key, it.stream), 0) + it.skipped + len(it.data)
                if not self.is_full:
                    waiting, self._when_ready = self._when_ready, []
                    for callback in waiting:
                        callback()
        finally:
            self._flushing = None

    def _batch(self) -> list[LogChunk]:
        batch: list[LogChunk] = []
        size = 0
        with self._lock:
            while self._pending and (not batch or size + len(self._pending[0].data) <= BATCH_BYTES):
                batch.append(self._pending.popleft())
                size += len(batch[-1].data)
            self._bytes -= size
        return batch


class AttemptLog:
    """The log of one attempt.

    Args:
        chunk: the fields of its chunks.
    """

    def __init__(self, writer: AttemptLogWriter, chunk: LogChunk) -> None:
        self.writer = writer
        self._chunk = chunk
        self._lock = threading.Lock()
        self._maskers: dict[Stream, Masker] = {}
        self._has_output = False
        self.values: Mapping[str, str] = writer.secrets()
        """Values to mask in what it prints in this process, by name."""

    def write(self, stream: Stream, data: bytes) -> None:
        """Take output in which secrets are masked already."""
        if data:
            self._has_output = True
            self.writer.add(msgspec.structs.replace(self._chunk, stream=stream, at=self.writer.now(), data=data))

    def print(self, stream: Stream, text: str) -> None:
        """Take output of code in this process, from any thread, and mask secrets."""
        self.feed(stream, text.encode(errors="backslashreplace"))

    def feed(self, stream: Stream, data: bytes) -> None:
        """Take output in pieces, from any thread, and mask secrets."""
        with self._lock:
            masker = self._maskers.setdefault(stream, Masker(self.values.values()))
            self.write(stream, masker.feed(data))

    async def close(self) -> None:
        """Write what is left; the output is durable when this returns."""
        with self._lock:
            for stream, masker in self._maskers.items():
                self.write(stream, masker.feed(b"", last=True))
        if self._has_output:
            await self.writer.flush()
