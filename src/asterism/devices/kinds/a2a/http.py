"""The HTTP client that a device of the kind ``a2a`` gives to the SDK.

It sends the credentials of the fleet file to the hosts that the file names and to no other, refuses
private addresses of other hosts, and bounds each answer.
"""

from __future__ import annotations

import functools
import ssl
import urllib.request
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import httpx

from asterism.devices.kinds.addresses import Addresses, pinned
from asterism.devices.kinds.remote import KEEPALIVE_S

MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""Bytes of one answer, or of one event of a stream. A result has 1 MiB at most; a listing has whole histories."""
FETCH_LIMIT = "asterism.limit"
"""Extension of a request: another limit for its answer, in bytes."""
CONNECT_S = 10.0
SILENCE_S = 60.0
"""Seconds without a byte after which a connection counts as lost."""


class RefusedAnswer(Exception):
    """An answer, or one event of a stream, has too many bytes, or an unknown size because it is compressed."""


class AgentTransport(httpx.AsyncBaseTransport):
    """Sends requests to named hosts with the credentials, and to other hosts without."""

    def __init__(self, url: str, addresses: Addresses, headers: Mapping[str, str], tls: ssl.SSLContext) -> None:
        self._addresses = addresses
        self._headers = dict(headers)
        self._is_encrypted = url.startswith("https:")
        proxy = _proxy(url)
        limits = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=KEEPALIVE_S)
        self._named = httpx.AsyncHTTPTransport(verify=tls, proxy=proxy, limits=limits)
        # A pool knows a connection by the address, which these requests have (``pinned``).
        self._foreign = httpx.AsyncHTTPTransport(verify=_public_tls(), limits=httpx.Limits(max_keepalive_connections=0))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["Accept-Encoding"] = "identity"  # a few compressed bytes could become any number
        if not self._addresses.names(request.url.host):
            try:
                sent = await pinned(request, self._addresses)
            except OSError as error:
                raise httpx.ConnectError(f"{request.url.host} has no address: {error.strerror or error}") from error
            response = await self._foreign.handle_async_request(sent)
        else:
            # A copy: a redirect repeats the headers of the request that it answers.
            headers = request.headers.copy()
            if request.url.scheme == "https" or not self._is_encrypted:
                headers.update(self._headers)
            response = await self._named.handle_async_request(
                httpx.Request(request.method, request.url, headers=headers, stream=request.stream, extensions=request.extensions)
            )
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()
            raise RefusedAnswer("an answer is compressed, which was not asked for")
        if isinstance(response.stream, httpx.AsyncByteStream):
            is_events = "text/event-stream" in response.headers.get("content-type", "")
            response.stream = _BoundedStream(response.stream, request.extensions.get(FETCH_LIMIT, MAX_ANSWER_BYTES), is_events=is_events)
        return response

    async def aclose(self) -> None:
        await self._named.aclose()
        await self._foreign.aclose()


class _BoundedStream(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream, limit: int, *, is_events: bool) -> None:
        self._stream = stream
        self._limit = limit
        self._is_events = is_events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, tail = 0, b""
        async for chunk in self._stream:
            if self._is_events:
                end = (tail + chunk).replace(b"\r\n", b"\n").rpartition(b"\n\n")
                size, tail = (len(end[2]) if end[1] else size + len(chunk)), chunk[-3:]
            else:
                size += len(chunk)
            if size > self._limit:
                raise RefusedAnswer(f"an answer has more than {self._limit:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def http_client(url: str, addresses: Addresses, headers: Mapping[str, str], tls: ssl.SSLContext) -> httpx.AsyncClient:
    """Return a client for one agent."""
    transport = AgentTransport(url, addresses, headers, tls)
    return httpx.AsyncClient(transport=transport, timeout=httpx.Timeout(CONNECT_S, read=SILENCE_S))


def tls_of(authority: Path | None, certificate: Path | None, key: Path | None) -> ssl.SSLContext:
    """Return the TLS settings: a certificate authority, and the certificate and key of this client.

    Raises:
        OSError: a file cannot be used.
    """
    if not authority and not certificate:
        return _public_tls()
    context = ssl.create_default_context(cafile=authority) if authority else httpx.create_ssl_context()
    if certificate:
        context.load_cert_chain(certificate, key)
    return context


@functools.cache
def _public_tls() -> ssl.SSLContext:
    """Return the settings without files, shared by all devices: they are large and slow to make."""
    return httpx.create_ssl_context()


def _proxy(url: str) -> str | None:
    """Return the proxy that the environment names for a URL."""
    parsed, proxies = httpx.URL(url), urllib.request.getproxies()
    if urllib.request.proxy_bypass(parsed.host):
        return None
    return proxies.get(parsed.scheme) or proxies.get("all")
