"""Serve an ASGI application over HTTP, so that clients that send nothing cannot keep the others out."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from asterism.errors import InvalidInput

IDLE_S = 15.0
"""Seconds after which a connection is closed that has no request under way, though it may have sent a part of one."""
STALLED_S = 60.0
"""Seconds after which a connection is cut whose client reads nothing of what was written to it."""
SHUTDOWN_S = 3
"""Seconds that responses under way have when the server stops."""
SPARE_FILES = 64
"""Files that the process needs for other things than connections, where there are enough."""
ACCEPTED = 10
"""Connections that are accepted at once: fewer than the spare files, because they are counted a few rounds later."""
WAITING = 1024
"""Connections that the system holds until they are accepted."""


class Certificate(msgspec.Struct, frozen=True):
    """The files of a TLS certificate and its key."""

    certificate: Path
    key: Path | None = None


class _Protocol(H11Protocol):
    """A connection that knows since when it has had no request."""

    idle_since: float = 0.0
    unread: int = 0
    read_at: float = 0.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.idle_since = self.loop.time()
        if len(self.connections) > _most_connections():
            idle = [it for it in self.connections if isinstance(it, _Protocol) and _is_idle(it)]
            min(idle, key=lambda it: it.idle_since, default=self).transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.idle_since = self.loop.time()

    def check(self, now: float) -> None:
        """Close the connection if it was idle for too long. Cut it if its client does not read: closing would wait for that."""
        unread = self.transport.get_write_buffer_size()
        if not unread or unread < self.unread:
            self.read_at = now
        self.unread = unread
        if unread and self.read_at < now - STALLED_S:
            self.transport.abort()
        elif _is_idle(self) and self.idle_since < now - IDLE_S:
            self.transport.close()


def _is_idle(connection: _Protocol) -> bool:
    cycle: Any = connection.cycle  # None before the first request
    is_closed = connection.transport.is_closing()  # it stays among the connections for some rounds
    return not is_closed and (cycle is None or cycle.response_complete)


def _most_connections() -> int:
    """Return the number of connections that leave half of the files, and some, for other things, such as workers."""
    (limit, _) = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(limit // 4, min(limit // 2, limit - 2 * SPARE_FILES))


class Listener(uvicorn.Server):
    """An HTTP server on one socket. It leaves signals to its program; ``should_exit = True`` stops it.

    Raises:
        InvalidInput: the certificate cannot be used.
    """

    def __init__(self, app: ASGIApp, certificate: Certificate | None = None) -> None:
        given = (str(certificate.certificate), str(certificate.key or certificate.certificate)) if certificate else (None, None)
        config = uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=ACCEPTED,
            timeout_keep_alive=round(IDLE_S),
            timeout_graceful_shutdown=SHUTDOWN_S,
            ssl_certfile=given[0],
            ssl_keyfile=given[1],
        )
        try:
            config.load()
        except (OSError, ValueError) as error:
            raise InvalidInput(f"the certificate {given[0]} cannot be used: {error}") from None
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve; the number that asyncio accepts at once is no bound on those that wait."""
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(WAITING)

    async def on_tick(self, counter: int) -> bool:
        """Close the connections that were idle for too long, or whose client does not read, about once in a second."""
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                if isinstance(connection, _Protocol):
                    connection.check(now)
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the program: uvicorn would raise each one again after stopping."""
        yield


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens.

    Raises:
        InvalidInput: it cannot listen there.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        listening = socket.create_server((host, port), family=family, backlog=WAITING)
    except (OSError, OverflowError) as error:
        raise InvalidInput(f"cannot listen on {host} port {port}: {error}; choose another one, or port 0 for any free one") from None
    # For its connections, too. asyncio sets it only for sockets that name their protocol, and without it the body of a
    # response may wait 40 ms for the client to acknowledge the head.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
