"""An MCP server over HTTP: the transport of the SDK, with a limit for each message.

The SDK follows redirects within the origin of the URL only, so a server cannot send this program to
another address.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from asterism.devices.mcp.process import MAX_MESSAGE_BYTES

KEEPALIVE_S = 2.0
"""Seconds for which an idle connection is used again: many servers close it after five, and a request at that moment fails."""


@contextlib.asynccontextmanager
async def open_http(
    url: str, headers: Mapping[str, str], connect_s: float, read_s: float, ended: Callable[[str], None]
) -> AsyncIterator[Any]:
    """Connect to a URL, and yield the streams of its messages.

    ``ended`` receives why the connection has ended, if an answer is the reason.
    """
    http = httpx2.AsyncClient(
        headers={**headers, "Accept-Encoding": "identity"},  # a compressed answer could be larger than its bytes
        timeout=httpx2.Timeout(connect_s, read=read_s),
        limits=httpx2.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=KEEPALIVE_S),
        event_hooks={"response": [functools.partial(_limit, ended=ended)]},
    )
    async with http, streamable_http_client(url, http_client=http, max_sse_event_size=MAX_MESSAGE_BYTES) as streams:
        yield streams


async def _limit(response: httpx2.Response, ended: Callable[[str], None]) -> None:
    """Limit the body of a response; the SDK limits the events of a stream."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError("the server compressed its answer, which was not asked for", request=response.request)
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        response.stream = _Limited(response, ended)


class _Limited(httpx2.AsyncByteStream):
    def __init__(self, response: httpx2.Response, ended: Callable[[str], None]) -> None:
        self._stream: Any = response.stream
        self._ended = ended
        self._request = response.request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        count = 0
        async for chunk in self._stream:
            count += len(chunk)
            if count > MAX_MESSAGE_BYTES:
                why = f"it sent a message of more than {MAX_MESSAGE_BYTES:,} bytes"
                self._ended(why)
                raise httpx2.ReadError(why, request=self._request)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
