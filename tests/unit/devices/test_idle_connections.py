"""Connections to agents and MCP servers that have been idle are not used again: their servers close them at any moment."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import httpx2
import pytest

from asterism.devices.kinds.a2a import http as a2a_http
from asterism.devices.kinds.addresses import Addresses
from asterism.devices.kinds.mcp import transport as mcp_http
from asterism.devices.kinds.remote import KEEPALIVE_S


@contextlib.asynccontextmanager
async def counting(connections: list[int]) -> AsyncIterator[str]:
    """A server that answers any number of requests over each connection, and counts the connections."""
    ended: list[asyncio.Event] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(0)
        ended.append(end := asyncio.Event())
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"\r\n\r\n"):
                connections[-1] += 1
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()
        await writer.wait_closed()
        end.set()

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for end in ended:
            await end.wait()


@pytest.mark.parametrize(("keepalive_s", "requests"), [(60.0, [2]), (0.0, [1, 1])])
def test_an_agent_is_asked_over_a_connection_only_while_it_is_young(
    monkeypatch: pytest.MonkeyPatch, keepalive_s: float, requests: list[int]
) -> None:
    monkeypatch.setattr(a2a_http, "KEEPALIVE_S", keepalive_s)
    connections: list[int] = []

    async def scenario() -> None:
        async with (
            counting(connections) as url,
            a2a_http.http_client(url, Addresses(frozenset({"127.0.0.1"})), {}, a2a_http.tls_of(None, None, None)) as http,
        ):
            for _ in range(2):
                await http.get(url)

    asyncio.run(scenario())
    assert connections == requests


def test_an_mcp_server_is_asked_over_a_connection_only_while_it_is_young(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[httpx2.Limits] = []
    client = httpx2.AsyncClient

    def opened(**options: object) -> httpx2.AsyncClient:
        given.append(options["limits"])  # type: ignore[arg-type]
        return client(**options)  # type: ignore[arg-type]

    monkeypatch.setattr(httpx2, "AsyncClient", opened)

    async def scenario() -> None:
        async with mcp_http.open_http("http://127.0.0.1:1", {}, 1, 1):
            pass

    asyncio.run(scenario())
    assert [it.keepalive_expiry for it in given] == [KEEPALIVE_S]
