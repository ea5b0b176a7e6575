"""Serving the constellation editor: on standard input and output, or on a port of this machine.

There is no login, so only the loopback interface is served; and because a browser reaches that too, a request that
names another host, or comes from another origin, is refused (DNS rebinding). Everybody who has an account here may call.
"""

from __future__ import annotations

import socket
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


async def serve_http(server: Server[Any], listening: socket.socket) -> None:
    """Serve any number of clients over streamable HTTP, until a signal comes."""
    app = server.streamable_http_app(streamable_http_path=PATH, host="127.0.0.1")  # which turns the guard against rebinding on
    with listening:
        await uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2, ws="none")).serve(sockets=[listening])
