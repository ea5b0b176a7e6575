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

from asterism.devices.mcp_process import MAX_MESSAGE_BYTES


@contextlib.asynccontextmanager
async def open_http(url: str, headers: Mapping[str, str], connect_s: float, read_s: float) -> AsyncIterator[Any]:
    """Connect to a URL, and yield the streams of its messages."""
    http = httpx2.AsyncClient(
        headers={**headers, "Accept-Encoding": "identity"},  # a compressed answer could be larger than its bytes
        timeout=httpx2.Timeout(connect_s, read=read_s),
        event_hooks={"response": [_limit]},
    )
    async with http, streamable_http_client(url, http_client=http, max_sse_event_size=MAX_MESSAGE_BYTES) as streams:
        yield streams


async def _limit(response: httpx2.Response) -> None:
    """Limit the body of a response; the SDK limits the events of a stream."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError("the server compressed its answer, which was not asked for", request=response.request)
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        response.stream = _Limited(response)


class _Limited(httpx2.AsyncByteStream):
    def __init__(self, response: httpx2.Response) -> None:
        self._stream: Any = response.stream
        self._request = response.request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        count = 0
        async for chunk in self._stream:
            count += len(chunk)
            if count > MAX_MESSAGE_BYTES:
                raise httpx2.ReadError(f"the server sent a message of more than {MAX_MESSAGE_BYTES:,} bytes", request=self._request)
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
