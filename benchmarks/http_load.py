"""A client that costs little, so that it measures the server: requests over open connections, and streams that are counted."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Self

import msgspec

EVENT = b"event: delta\n"
"""A line of each server-sent event that counts."""


class Connection:
    """A connection that is used for one request after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> Self:
        """Connect to a server of this computer."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def call(self, method: str, path: str, *, token: str = "", body: object = None) -> Any:
        """Send a request, and return the JSON of its answer. Raises RuntimeError if it was refused."""
        head = await self._send(method, path, token, b"" if body is None else msgspec.json.encode(body))
        length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        data = await self._reader.readexactly(length)
        if not head.startswith(b"HTTP/1.1 2"):
            raise RuntimeError(f"{method} {path}: {head[:15]!r} {data[:500]!r}")
        return msgspec.json.decode(data)

    async def events(self, path: str, *, token: str = "") -> AsyncIterator[int]:
        """Open a stream; yield 0 when it has begun, and then the number of events that have arrived since the last time."""
        head = await self._send("GET", path, token, b"")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"GET {path}: {head[:100]!r}")
        yield 0
        rest = b""
        while chunk := await self._reader.read(1 << 20):
            data = rest + chunk
            yield data.count(EVENT)
            rest = data[1 - len(EVENT) :]

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _send(self, method: str, path: str, token: str, body: bytes) -> bytes:
        """Send a request, and return the head of its answer."""
        lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}", "Content-Type: application/json"]
        if token:
            lines.append(f"Authorization: Bearer {token}")
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        return await self._reader.readuntil(b"\r\n\r\n")


@contextlib.asynccontextmanager
async def connected(port: int) -> AsyncIterator[Connection]:
    """Open a connection for the block."""
    connection = await Connection.open(port)
    try:
        yield connection
    finally:
        await connection.close()


async def seconds(port: int, clients: int, count: int, call: Callable[[Connection, int], Awaitable[object]]) -> float:
    """Return the seconds of so many calls by so many clients, each with a connection; a call has its number."""
    numbers = itertools.count()

    async def work(connection: Connection) -> None:
        while (number := next(numbers)) < count:
            await call(connection, number)

    async with contextlib.AsyncExitStack() as stack:
        connections = [await stack.enter_async_context(connected(port)) for _ in range(clients)]
        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for connection in connections:
                group.create_task(work(connection))
        return time.perf_counter() - started


class Watchers:
    """Clients that follow streams.

    Attributes:
        received: the events of all of them.
        last_at: when the last of them arrived, by ``time.perf_counter``.
    """

    def __init__(self) -> None:
        self.received = 0
        self.last_at = 0.0
        self._begun = 0
        self._changed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def watching(self, port: int, streams: Sequence[tuple[str, str]]) -> AsyncIterator[None]:
        """Follow streams, each a path and a token; all have begun when this yields."""
        async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            connections = [await stack.enter_async_context(connected(port)) for _ in streams]
            following = [group.create_task(self._follow(it, *stream)) for it, stream in zip(connections, streams, strict=True)]
            while self._begun < len(streams):
                await self._next()
            yield
            for task in following:
                task.cancel()

    async def until(self, events: int) -> None:
        """Return when so many events have arrived."""
        while self.received < events:
            await self._next()

    async def _follow(self, connection: Connection, path: str, token: str) -> None:
        events = connection.events(path, token=token)
        await anext(events)
        self._begun += 1
        self._changed.set()
        async for found in events:
            self.received += found
            self.last_at = time.perf_counter()
            self._changed.set()

    async def _next(self) -> None:
        self._changed.clear()
        await self._changed.wait()
