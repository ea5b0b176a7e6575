"""Requests to a server's API: repeated where a connection was cut, and errors as the ones of Asterism."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any

import httpx2
import msgspec

from asterism.engine.kernel.backoff import Backoff
from asterism.errors import AsterismError, InvalidInput, LimitReached, Refused, RunNotFound, StoreUnavailable

TIMEOUT_S = 30.0
"""Seconds for one response, and for the silence of a stream, which sends a comment every 10 s."""
TRIES = 8
"""Times that a request is sent whose response was cut off, or that the server had no time for."""
RETRIES = Backoff(0.1, 5.0, jitter=0.3)
"""Seconds before a request is sent again, doubled each time."""
LONGEST_RETRY_AFTER_S = 60.0
"""The most seconds that a server may ask a client to wait; it waits no longer, and is then refused again."""
PAGE = 1000
"""Rows of one page."""
_BUSY = (429, 502, 503, 504)


class ServerEvent(msgspec.Struct, frozen=True):
    """A server-sent event."""

    event_id: str
    kind: str
    data: Any


class HttpConnection:
    """A connection to one server.

    Args:
        http: client with the URL of the server and the token.
    """

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    async def get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON of a resource. Raises the errors of ``post``."""
        return await self._asked("GET", path, params=params)

    async def post(self, path: str, body: Any, *, key: str) -> Any:
        """Send JSON and return the JSON of the response.

        Args:
            path: path of the resource.
            body: value to send.
            key: idempotency key, so that a request can be sent again.

        Raises:
            RunNotFound, InvalidInput, Refused: as the server says.
            LimitReached: a limit of the server was reached, also after the waits that it asked for.
            StoreUnavailable: the server cannot be reached, or its database cannot be used.
        """
        headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
        return await self._asked("POST", path, content=msgspec.json.encode(body), headers=headers)

    async def pages(self, path: str, listed: str, params: Mapping[str, Any], limit: int = sys.maxsize) -> list[dict[str, Any]]:
        """Return what a resource lists in its pages, at most ``limit``. Raises the errors of ``post``."""
        found: list[dict[str, Any]] = []
        after: str | None = ""
        while after is not None and len(found) < limit:
            page = await self.get(path, {**params, "limit": min(PAGE, limit - len(found)), "after": after})
            found += page[listed]
            after = page["next"]
        return found

    async def upload(self, path: str, name: str, chunks: Callable[[], AsyncIterator[bytes]]) -> Any:
        """Send a file and return the JSON of the response. Raises the errors of ``post``.

        Args:
            path: path of the resource.
            name: name of the file.
            chunks: returns its content from the beginning, once for each time that it is sent.
        """
        return await self._asked("POST", path, content_of=chunks, params={"name": name})

    async def delete(self, path: str) -> None:
        """Delete a resource. Raises the errors of ``post``."""
        await self._asked("DELETE", path)

    async def _asked(self, method: str, path: str, *, content_of: Callable[[], AsyncIterator[bytes]] | None = None, **more: Any) -> Any:
        problem: AsterismError = StoreUnavailable("no request was sent")
        for tried in range(TRIES):
            if tried:
                await asyncio.sleep(wait_s(tried, problem))
            try:
                content: dict[str, Any] = {"content": content_of()} if content_of else {}
                response = await self._http.request(method, path, **more, **content)
                body = await response.aread()
            except httpx2.TransportError as error:
                problem = self._unreachable(error)
                continue
            if response.status_code not in _BUSY:
                return _value_of(response.status_code, body)
            problem = _error_of(response.status_code, body, response.headers)
        raise problem

    async def events(self, path: str, params: Mapping[str, Any]) -> AsyncGenerator[ServerEvent | None, None]:
        """Yield the events of a stream, over any number of connections; None when one has begun.

        Each connection continues after the last event. The generator ends when the server ends the stream for good.

        Raises:
            StoreUnavailable: the server could not be reached several times in a row.
        """
        last, failed = "", 0
        while True:  # bounded by the failures in a row
            headers, has_begun = {"Last-Event-ID": last} if last else {}, False
            try:
                async with self._http.stream("GET", path, params=params, headers=headers) as response:
                    await _check_begun(response)
                    has_begun = True
                    yield None
                    async for event in _events_of(response):
                        failed = 0
                        last = event.event_id or last
                        yield event
                        if event.kind == "problem":
                            return
                failed += 1  # the server ended it, because it stops
                problem: AsterismError = StoreUnavailable("the server ends each stream at once")
            except _Busy as busy:
                failed, problem = failed + 1, busy.problem
            except httpx2.TransportError as error:
                failed, problem = 1 if has_begun else failed + 1, self._unreachable(error)
            if failed > TRIES:
                raise problem
            await asyncio.sleep(wait_s(failed, problem))

    def _unreachable(self, error: httpx2.TransportError) -> StoreUnavailable:
        return StoreUnavailable(f"the server {self._http.base_url} cannot be reached: {str(error) or type(error).__name__}; is it running?")


async def _check_begun(response: httpx2.Response) -> None:
    if response.status_code != 200:  # noqa: PLR2004 - the only success of a stream
        error = _error_of(response.status_code, await response.aread(), response.headers)
        raise _Busy(error) if response.status_code in _BUSY else error


class _Busy(Exception):
    def __init__(self, problem: AsterismError) -> None:
        super().__init__(str(problem))
        self.problem = problem


def wait_s(tried: int, problem: AsterismError | None = None) -> float:
    """Return the seconds before a request is sent again, a little different for each client; at a limit, those that the server names."""
    asked_s = min(problem.retry_after_s, LONGEST_RETRY_AFTER_S) if isinstance(problem, LimitReached) else 0.0
    return asked_s + RETRIES.wait_s(tried, random.random())  # noqa: S311 - chance that protects nothing


async def _events_of(response: httpx2.Response) -> AsyncIterator[ServerEvent]:
    async for event in httpx2.EventSource(response, max_event_size=None):
        yield ServerEvent(event.id or "", event.event, msgspec.json.decode(event.data))


def _value_of(status: int, body: bytes) -> Any:
    if status >= 400:  # noqa: PLR2004 - from here on, errors
        raise _error_of(status, body)
    return msgspec.json.decode(body) if body else None


def _error_of(status: int, body: bytes, headers: Mapping[str, str] = {}) -> AsterismError:
    """Return a problem as the error that an embedded program would get."""
    try:
        detail = str(msgspec.json.decode(body)["detail"])
    except (msgspec.DecodeError, UnicodeError, KeyError, TypeError):
        detail = body[:200].decode(errors="replace")
    match status:
        case 404:
            return _NotFound(detail)
        case 409 | 410:
            return Refused(detail)
        case 400 | 401 | 403 | 413 | 421 | 422:
            return InvalidInput(detail)
        case 429:
            after = headers.get("retry-after", "")
            return LimitReached(detail, float(after) if after.isdecimal() else 0.0)
        case _:
            return StoreUnavailable(f"the server answers {status}: {detail}")


class _NotFound(RunNotFound):
    """There is no such thing, in the words of the server."""

    def __init__(self, detail: str) -> None:
        AsterismError.__init__(self, detail)
