"""A scripted model: an HTTP server on loopback with the wire formats of OpenAI and Anthropic.

The client library, its timeouts, its retries and its parsing are real; only the model is simulated::

    from asterism.testing.model_wire import Say
    from asterism.testing.scripted_model import Fault, ScriptedModel

    script = [Fault(status=429, headers={"retry-after": "1"}), Say(text="four"), {"status": "FINISH"}]
    async with ScriptedModel(script) as model:
        client = openai.AsyncOpenAI(base_url=model.openai_url, api_key="any")
        ...
    assert [request.model for request in model.requests] == ["gpt-4o", "gpt-4o", "gpt-4o"]

Not here: the wire formats (``model_wire``). Providers with another format are not covered.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import math
from collections.abc import Awaitable, Callable, Iterable
from http.client import responses
from types import TracebackType
from typing import Any, Self

import msgspec

from asterism.testing.model_wire import ModelRequest, Say, WireName, error_reply, streamed_reply, whole_reply

PATHS: dict[str, WireName] = {"/v1/chat/completions": "chat", "/v1/responses": "responses", "/v1/messages": "messages"}
KEY = "sk-simulated-and-told-to-nobody"
"""API key of every request in a world. A model may quote it; it must never be stored."""
MAX_BODY = 64 * 2**20
"""Maximum bytes of one request."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP error or invalid body in place of a reply.

    Attributes:
        status: HTTP status; 200 with an invalid body is a fault, too.
        headers: additional headers, such as ``{"retry-after": "7"}``.
        message: error message, sent in the provider's format.
        body: bytes to send in place of the provider's format; may be empty.
        after_s: seconds until the response.
    """

    status: int = 500
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    message: str = "simulated"
    body: bytes | None = None
    after_s: float = 0.0


HANG = Say(after_s=math.inf)
"""A reply that never comes."""
DROP = Say(drop_at=0.0)
"""A connection that is closed without a reply."""

ModelAnswer = str | dict[str, Any] | Say | Fault
"""Text; a dict, sent as a call of the forced tool or else as JSON text; or a complete reply or fault."""
Answering = Callable[[ModelRequest], ModelAnswer | Awaitable[ModelAnswer]]


class HttpReply(msgspec.Struct, frozen=True):
    """An HTTP response: after ``after_s`` its ``parts`` in order, up to the fraction ``drop_at`` of their bytes."""

    status: int
    parts: list[bytes]
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    streams: bool = False
    after_s: float = 0.0
    drop_at: float | None = None

    @property
    def head(self) -> dict[str, str]:
        """Return all headers, the content type included."""
        return {"content-type": "text/event-stream" if self.streams else "application/json", **self.headers}


class ScriptedModel:
    """The server; use it as an async context manager.

    An error of the script ends the context, in an exception group like that of every task. A request past the end of
    the script gets status 400, which no client retries.

    Args:
        script: answers in the order of the requests, or a function of the request, which may be async.

    Attributes:
        requests: received requests, in order.
    """

    def __init__(self, script: Iterable[ModelAnswer] | Answering = ()) -> None:
        self._script: Answering = script if callable(script) else _in_order(script)
        self.requests: list[ModelRequest] = []
        self._group = asyncio.TaskGroup()
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server
        self._address = ""

    @property
    def openai_url(self) -> str:
        """Return the base URL for clients of OpenAI's formats."""
        return f"{self._address}/v1"

    @property
    def anthropic_url(self) -> str:
        """Return the base URL for clients of Anthropic's format."""
        return self._address

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._address = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        await self._group.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await self._group.__aexit__(None, None, None)  # an error of the body is raised unchanged, not in a group

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = self._group.create_task(self._serve(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until either side closes it."""
        try:
            while (received := await _read(reader)) is not None:
                path, body = received
                if not await self._respond(path, body, reader, writer):
                    return
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            return  # the client has gone, or does not speak HTTP
        finally:
            writer.close()

    async def _respond(self, path: str, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Respond to one request; return False to close the connection."""
        reply = await self.reply(path, body)
        return await _wait(reply.after_s, reader) and await _send(writer, reply)

    async def reply(self, path: str, body: bytes) -> HttpReply:
        """Return the response to one request, independent of the transport."""
        wire = PATHS.get(path.partition("?")[0])
        if wire is None:
            return HttpReply(404, [error_reply("chat", 404, f"unknown path {path}; known: {', '.join(PATHS)}")])
        try:
            document = json.loads(body)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            return HttpReply(400, [error_reply(wire, 400, "the body is not a JSON object")])
        request = ModelRequest(number=len(self.requests) + 1, wire=wire, body=document)
        self.requests.append(request)
        returned = self._script(request)
        answer = await returned if inspect.isawaitable(returned) else returned
        said = answer if isinstance(answer, Say | Fault) else _as_say(answer, request)
        if isinstance(said, Fault):
            content = error_reply(wire, said.status, said.message) if said.body is None else said.body
            return HttpReply(said.status, [content], headers=said.headers, after_s=said.after_s)
        parts = streamed_reply(request, said) if request.streams else [whole_reply(request, said)]
        return HttpReply(200, parts, streams=request.streams, after_s=said.after_s, drop_at=said.drop_at)


def _in_order(answers: Iterable[ModelAnswer]) -> Answering:
    left = iter(answers)
    return lambda request: next(left, Fault(status=400, message=f"the script has no answer to request {request.number}"))


def _as_say(answer: str | dict[str, Any], request: ModelRequest) -> Say:
    if isinstance(answer, str):
        return Say(text=answer)
    if request.forced_tool:
        return Say(calls=((request.forced_tool, answer),))
    return Say(text=json.dumps(answer, ensure_ascii=False))


async def _read(reader: asyncio.StreamReader) -> tuple[str, bytes] | None:
    """Return the path and body of the next request; None for an invalid request."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    length = next((value.strip() for name, _, value in (line.partition(":") for line in lines) if name.lower() == "content-length"), "0")
    words = first.split(" ")
    if len(words) != 3 or not length.isdecimal() or int(length) > MAX_BODY:  # noqa: PLR2004 - method, path and version
        return None
    return words[1], await reader.readexactly(int(length))


async def _wait(after_s: float, reader: asyncio.StreamReader) -> bool:
    """Wait for the delay of the reply; return False if the client closes the connection meanwhile."""
    if not after_s:
        return True
    try:
        async with asyncio.timeout(None if after_s == math.inf else after_s):
            await reader.read(1)  # a waiting client sends nothing: this is the end of the connection, or an early request
    except TimeoutError:
        return True
    return False


async def _send(writer: asyncio.StreamWriter, reply: HttpReply) -> bool:
    """Send a response; return False if the connection is to be closed within it."""
    parts, size = reply.parts, sum(map(len, reply.parts))
    framing = {"content-length": str(size)}
    if reply.streams:
        parts = [f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in parts] + [b"0\r\n\r\n"]
        framing, size = {"transfer-encoding": "chunked"}, sum(map(len, parts))
    left = size if reply.drop_at is None else int(size * reply.drop_at)
    if reply.drop_at == 0:
        return False
    writer.write(_head(reply.status, {**reply.head, **framing}))
    for part in parts:
        writer.write(part[:left])
        await writer.drain()
        left -= len(part)
        if left < 0:
            return False
    return True


def _head(status: int, headers: dict[str, str]) -> bytes:
    return "\r\n".join(
        [f"HTTP/1.1 {status} {responses.get(status, '')}", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    ).encode("latin-1")
