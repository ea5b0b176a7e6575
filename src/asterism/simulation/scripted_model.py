"""A model by a script: an HTTP server on loopback that speaks the wire formats of OpenAI and Anthropic.

So the client library, its timeouts, its retries and its parsing are the real ones, and only the model is not::

    from asterism.simulation.model_wire import Say
    from asterism.simulation.scripted_model import Fault, ScriptedModel

    script = [Fault(status=429, headers={"retry-after": "1"}), Say(text="four"), {"status": "FINISH"}]
    async with ScriptedModel(script) as model:
        client = openai.AsyncOpenAI(base_url=model.openai_url, api_key="any")
        ...
    assert [request.model for request in model.requests] == ["gpt-4o", "gpt-4o", "gpt-4o"]

Not here: what a reply looks like on the wire (``model_wire``). Providers with another wire are not covered.
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

from asterism.simulation.model_wire import ModelRequest, Say, WireName, error_reply, streamed_reply, whole_reply

PATHS: dict[str, WireName] = {"/v1/chat/completions": "chat", "/v1/responses": "responses", "/v1/messages": "messages"}
KEY = "sk-simulated-and-told-to-nobody"
"""What a world sends with each request; a model may quote it, and nothing may keep it."""
MAX_BODY = 64 * 2**20
"""Bytes of one request."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """What comes back instead of a reply.

    Attributes:
        status: of HTTP; 200 with a body that is rubbish is a fault, too.
        headers: beside the usual ones, such as ``{"retry-after": "7"}``.
        message: the error in words, in the provider's form.
        body: sent as it is, instead of the error in the provider's form; may be empty.
        after_s: how long that takes.
    """

    status: int = 500
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    message: str = "simulated"
    body: bytes | None = None
    after_s: float = 0.0


HANG = Say(after_s=math.inf)
"""It never answers."""
DROP = Say(drop_at=0.0)
"""It hangs up instead of answering."""

ModelAnswer = str | dict[str, Any] | Say | Fault
"""Text; or a structured answer, which is given as a call of the tool that must be called, or else as JSON text; or in full."""
Answering = Callable[[ModelRequest], ModelAnswer | Awaitable[ModelAnswer]]


class HttpReply(msgspec.Struct, frozen=True):
    """What is sent back to a request: ``parts`` one after the other, after ``after_s``; dropped within them where ``drop_at`` says so."""

    status: int
    parts: list[bytes]
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    streams: bool = False
    after_s: float = 0.0
    drop_at: float | None = None

    @property
    def head(self) -> dict[str, str]:
        """Its headers."""
        return {"content-type": "text/event-stream" if self.streams else "application/json", **self.headers}


class ScriptedModel:
    """The server; enter it as a context.

    A script that raises ends the context with its error (in an exception group, as every task's). A request past the end of
    a script is answered with status 400, which no client tries again.

    Args:
        script: answers in the order of the requests, or a function of the request, which may be a coroutine function.

    Attributes:
        requests: what it was asked, in order.
    """

    def __init__(self, script: Iterable[ModelAnswer] | Answering = ()) -> None:
        self._script: Answering = script if callable(script) else _in_order(script)
        self.requests: list[ModelRequest] = []
        self._group = asyncio.TaskGroup()
        self._talks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server
        self._address = ""

    @property
    def openai_url(self) -> str:
        """The base URL for clients of OpenAI's formats."""
        return f"{self._address}/v1"

    @property
    def anthropic_url(self) -> str:
        """The base URL for clients of Anthropic's format."""
        return self._address

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._address = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        await self._group.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.close()
        for talk in self._talks:
            talk.cancel()
        await self._group.__aexit__(None, None, None)  # an error of the body leaves as it is, not in a group

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = self._group.create_task(self._talk(reader, writer))
        self._talks.add(talk)
        talk.add_done_callback(self._talks.discard)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: request after request, until either side hangs up."""
        try:
            while (asked := await _read(reader)) is not None:
                path, body = asked
                if not await self._respond(path, body, reader, writer):
                    return
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            return  # the client has gone, or is none
        finally:
            writer.close()

    async def _respond(self, path: str, body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False when the connection is to be dropped."""
        reply = await self.reply(path, body)
        return await _thought(reply.after_s, reader) and await _send(writer, reply)

    async def reply(self, path: str, body: bytes) -> HttpReply:
        """What is sent back to one request, whatever carries it."""
        wire = PATHS.get(path.partition("?")[0])
        if wire is None:
            return HttpReply(404, [error_reply("chat", 404, f"there is no {path}; there are {', '.join(PATHS)}")])
        try:
            document = json.loads(body)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            return HttpReply(400, [error_reply(wire, 400, "the body is no JSON object")])
        request = ModelRequest(number=len(self.requests) + 1, wire=wire, body=document)
        self.requests.append(request)
        given = self._script(request)
        answer = await given if inspect.isawaitable(given) else given
        said = answer if isinstance(answer, Say | Fault) else _spoken(answer, request)
        if isinstance(said, Fault):
            told = error_reply(wire, said.status, said.message) if said.body is None else said.body
            return HttpReply(said.status, [told], headers=said.headers, after_s=said.after_s)
        parts = streamed_reply(request, said) if request.streams else [whole_reply(request, said)]
        return HttpReply(200, parts, streams=request.streams, after_s=said.after_s, drop_at=said.drop_at)


def _in_order(answers: Iterable[ModelAnswer]) -> Answering:
    left = iter(answers)
    return lambda request: next(left, Fault(status=400, message=f"the script is over; this is request {request.number}"))


def _spoken(answer: str | dict[str, Any], request: ModelRequest) -> Say:
    if isinstance(answer, str):
        return Say(text=answer)
    if request.forced_tool:
        return Say(calls=((request.forced_tool, answer),))
    return Say(text=json.dumps(answer, ensure_ascii=False))


async def _read(reader: asyncio.StreamReader) -> tuple[str, bytes] | None:
    """The path and body of the next request; None when there is none, or it cannot be read."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    length = next((value.strip() for name, _, value in (line.partition(":") for line in lines) if name.lower() == "content-length"), "0")
    words = first.split(" ")
    if len(words) != 3 or not length.isdecimal() or int(length) > MAX_BODY:  # noqa: PLR2004 - method, path and version
        return None
    return words[1], await reader.readexactly(int(length))


async def _thought(after_s: float, reader: asyncio.StreamReader) -> bool:
    """Take a while; False if the client hangs up meanwhile."""
    if not after_s:
        return True
    try:
        async with asyncio.timeout(None if after_s == math.inf else after_s):
            await reader.read(1)  # a client that waits says nothing: this is its end, or a request sent too early
    except TimeoutError:
        return True
    return False


async def _send(writer: asyncio.StreamWriter, reply: HttpReply) -> bool:
    """A reply, whole or in parts; False if the connection is to be dropped within it."""
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
