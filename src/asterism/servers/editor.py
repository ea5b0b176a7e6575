"""Serving the constellation editor: on standard input and output, or on a port of this machine.

There is no login, so only the loopback interface is served; and because a browser reaches that too, a request that
names another host, or comes from another origin, is refused (DNS rebinding). Everybody who has an account here may call.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from mcp.server import Server
from mcp.server.stdio import stdio_server

from asterism.errors import InvalidInput

PATH = "/mcp"
_LOOPBACK = {"127.0.0.1": ("127.0.0.1", socket.AF_INET), "localhost": ("127.0.0.1", socket.AF_INET), "::1": ("::1", socket.AF_INET6)}


async def serve_stdio(server: Server[Any]) -> None:
    """Serve one client, until it closes our standard input."""
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def listen(address: str) -> tuple[socket.socket, str]:
    """Listen at ``HOST:PORT``, port 0 for any that is free.

    Returns:
        The socket, and the URL of the server that will be there.

    Raises:
        InvalidInput: the address is not one of the loopback interface, or is in use.
    """
    name, _, port = address.rpartition(":")
    host = name.strip("[]") or "127.0.0.1"
    if not port.isascii() or not port.isdigit():
        raise InvalidInput(f"--http {address}: expected HOST:PORT, such as 127.0.0.1:8123")
    if host not in _LOOPBACK:
        raise InvalidInput(f"--http {address}: there is no login, so only this machine is served: {', '.join(_LOOPBACK)}")
    numeric, family = _LOOPBACK[host]
    try:
        listening = socket.create_server((numeric, int(port)), family=family)
    except (OSError, OverflowError) as error:
        raise InvalidInput(f"--http {address}: cannot listen there: {error}") from None
    shown = f"[{host}]" if family is socket.AF_INET6 else host
    return listening, f"http://{shown}:{listening.getsockname()[1]}{PATH}"


class _Uvicorn(uvicorn.Server):
    """Leaves signals to us: it would raise each again when it has stopped, and SIGTERM would then end the process at once."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve_http(server: Server[Any], listening: socket.socket, on_signal: Callable[[], None]) -> None:
    """Serve any number of clients over streamable HTTP, until SIGINT or SIGTERM.

    Connections end first, then sessions, in this order. The SDK waits for ever if all tasks are cancelled at once: a request
    that opens a session shields its wait for a task that was cancelled before its first step.

    Args:
        server: what is served.
        listening: the socket, which is closed.
        on_signal: called at each signal.
    """
    app = server.streamable_http_app(streamable_http_path=PATH, host="127.0.0.1")  # which turns the guard against rebinding on
    serving = _Uvicorn(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, ws="none"))

    def stop() -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # a request that is cut off now is no error
        serving.should_exit = True
        on_signal()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    with listening:
        await serving.serve(sockets=[listening])
