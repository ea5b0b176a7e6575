"""An MCP server over HTTP: the transport of the SDK, with a limit for each message.

The SDK follows redirects within the origin of the URL only, so a server cannot send this program to
another address.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from asterism.devices.kinds.mcp.process import MAX_MESSAGE_BYTES

KEEPALIVE_S = 2.0
"""Seconds for which an idle connection is used again: many servers close it after five, and a request at that moment fails."""


@contextlib.asynccontextmanager
async def open_http(url: str, headers: Mapping[str, str], connect_s: float, read_s: float) -> AsyncIterator[Any]:
    """Connect to a URL, and yield the streams of its messages."""
    http = httpx2.AsyncClient(
        headers={**headers, "Accept-Encoding": "identity"},  # a compressed answer could be larger than its bytes
        timeout=httpx2.Timeout(connect_s, read=read_s),
        limits=httpx2.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=KEEPALIVE_S),
        event_hooks={"response": [_limit]},
    )
    async with http, streamable_http_client(url, http_client=http, max_sse_event_size=MAX_MESSAGE_BYTES) as streams:
        yield streams


async def _limit(response: httpx2.Response) -> None:
    """Limit the body of a response; the SDK limits the events of a stream."""
    is_compressed = response.headers.get("content-encoding", "identity") != "identity"
    if is_compressed or not response.headers.get("content-type", "").startswith("text/event-stream"):
        response.stream = _Limited(response.stream, is_compressed=is_compressed)


class _Limited(httpx2.AsyncByteStream):
    """The body of a response. Of its errors the SDK makes the failure of one request; any other one ends the connection."""

    def __init__(self, stream: Any, *, is_compressed: bool) -> None:
        self._stream = stream
        self._is_compressed = is_compressed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._is_compressed:
            raise httpx2.StreamError("the server compressed its answer, which was not asked for")
        count = 0
        async for chunk in self._stream:
            count += len(chunk)
            if count > MAX_MESSAGE_BYTES:
                raise httpx2.StreamError(f"it sent a message of more than {MAX_MESSAGE_BYTES:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
