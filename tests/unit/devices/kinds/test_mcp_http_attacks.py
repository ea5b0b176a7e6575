"""MCP servers over HTTP that attack in the answer to a call: over real connections, with any bytes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from asterism.constellation.machine.events import AttemptEnded
from asterism.constellation.python.performers import AttemptPerformer
from asterism.devices.dispatch.dispatcher import Dispatcher
from tests.support.device_signs import Heard
from tests.support.mcp_devices import attempt, open_mcp

pytest.importorskip("mcp")

Write = Callable[[bytes], Awaitable[None]]
Attack = Callable[[int, Write], Awaitable[None]]
INFO = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "raw", "version": "1"}}
ANSWERS = {"initialize": INFO, "tools/list": {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]}, "ping": {}}
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
MESSAGE = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"


@contextlib.asynccontextmanager
async def serving(attack: Attack) -> AsyncIterator[tuple[str, list[str]]]:
    """Serve the tool ``act``, whose call is answered by ``attack``; yield the URL, and the paths that were asked for."""
    asked: list[str] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def write(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                asked.append(head.split()[1])
                length = int(head.partition("content-length: ")[2].partition("\r\n")[0] or 0)
                call = json.loads(await reader.readexactly(length) or b"{}")
                if call.get("method") == "tools/call":
                    await attack(call["id"], write)
                elif call.get("method") in ANSWERS:
                    await write(message({"jsonrpc": "2.0", "id": call["id"], "result": ANSWERS[call["method"]]}))
                else:
                    await write(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        finally:  # also if the test has ended
            writer.close()

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp", asked


def message(body: dict[str, Any] | bytes) -> bytes:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return MESSAGE.format(len(text)).replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n").encode() + text


def result(number: int, structured: bytes = b"{}", text: bytes = b"ours") -> bytes:
    content = b'"content": [{"type": "text", "text": "%s"}], "structuredContent": %s' % (text, structured)
    return b'{"jsonrpc": "2.0", "id": %d, "result": {%s}}' % (number, content)


async def ended(tmp_path: Path, attack: Attack) -> AttemptEnded:
    """Return the end of an attempt, as its run gets it."""
    async with serving(attack) as (url, asked), open_mcp(tmp_path, url=url) as device:
        async with Dispatcher({"d": device}, lambda: 0.0) as dispatcher:
            end = await AttemptPerformer(dispatcher).perform("r:1.0", attempt("act"), lambda _: None)
        assert isinstance(end, AttemptEnded)
        assert set(asked) == {"/mcp"}
        return end


@pytest.mark.parametrize(
    ("body", "code", "why"),
    [
        (b"{oops", "raised", "Failed to parse JSON response"),
        (b"\xff\xfe", "raised", "Failed to parse JSON response"),
        (result(1, b"[" * 100_000), "raised", "Failed to parse JSON response"),
        (result(1, b"9" * 5000), "raised", "Failed to parse JSON response"),
        (result(1, text=rb"\ud800"), "raised", "Failed to parse JSON response"),
        (result(1, b'{"n": ' + b"[" * 150 + b"]" * 150 + b"}"), "bad_result", "more than 100 lists and objects"),
        (result(1, b'{"n": NaN}'), "bad_result", "nan is not a JSON number"),
        (result(1, b'{"n": -1e999}'), "bad_result", "inf is not a JSON number"),
    ],
)
def test_an_answer_that_is_no_message_or_no_json_is_one_line(tmp_path: Path, body: bytes, code: str, why: str) -> None:
    async def attack(number: int, write: Write) -> None:
        await write(message(body.replace(b'"id": 1', b'"id": %d' % number)))

    end = asyncio.run(ended(tmp_path, attack))
    assert end.error is not None
    assert (end.error.code, why in end.error.message, "\n" in end.error.message) == (code, True, False)


def test_an_event_that_is_no_message_ends_the_call(tmp_path: Path) -> None:
    async def attack(_number: int, write: Write) -> None:
        await write(EVENTS + b": a comment\n\ndata: {oops\n\n")

    end = asyncio.run(ended(tmp_path, attack))
    assert end.error is not None
    assert (end.error.code, "Failed to parse SSE message" in end.error.message) == ("raised", True)


def test_only_the_first_answer_of_a_call_counts(tmp_path: Path) -> None:
    async def attack(number: int, write: Write) -> None:
        await write(EVENTS + b"".join(b"data: %s\n\n" % result(number, text=text) for text in (b"first", b"second", b"first")))

    assert asyncio.run(ended(tmp_path, attack)).result == {"text": "first", "structured": {}}


@pytest.mark.parametrize(
    ("head", "code", "why"),
    [
        (MESSAGE.format(104_857_600).encode(), "raised", "it sent a message of more than 8,388,608 bytes"),
        (EVENTS + b"data: ", "raised", "exceeded the 8388608 byte limit"),
        (b"HTTP/1.1 200 OK\r\nX-Long: ", "device_lost", " lost: "),
    ],
    ids=["message", "event", "header"],
)
def test_100_mb_in_one_line_are_not_read_to_their_end(tmp_path: Path, head: bytes, code: str, why: str) -> None:
    sent = 0

    async def attack(_number: int, write: Write) -> None:
        nonlocal sent
        await write(head)
        for _ in range(100):
            await write(b"x" * (1 << 20))
            sent += 1

    end = asyncio.run(ended(tmp_path, attack))
    assert end.error is not None
    assert (end.error.code, why in end.error.message) == (code, True)
    assert sent < 60


TOO_LONG = MESSAGE.format(9 << 20).encode() + b"x" * (9 << 20)
COMPRESSED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize(("bad", "why"), [(TOO_LONG, "more than 8,388,608 bytes"), (COMPRESSED, "the server compressed its answer")])
def test_an_answer_that_cannot_be_read_fails_only_its_call(tmp_path: Path, bad: bytes, why: str) -> None:
    """G3: each other call in flight was cancelled, and ended as one that may have finished."""
    has_come, has_failed = asyncio.Event(), asyncio.Event()

    async def attack(number: int, write: Write) -> None:
        if not has_come.is_set():
            has_come.set()
            await has_failed.wait()
            await write(message(result(number)))
        else:
            await write(bad)

    async def scene() -> None:
        async with serving(attack) as (url, _), open_mcp(tmp_path, url=url) as device, asyncio.TaskGroup() as group:
            first = group.create_task(device.perform(attempt("act", "r:1.0"), Heard()))
            await has_come.wait()
            error = (await device.perform(attempt("act", "r:2.0"), Heard())).error
            assert error is not None
            assert (error.code, why in error.message) == ("raised", True)
            has_failed.set()
            assert (await first).result["text"] == "ours"

    asyncio.run(scene())


@pytest.mark.parametrize("target", ["http://localhost:{port}/mcp", "http://169.254.169.254/latest", "http://127.0.0.1:1/mcp"])
@pytest.mark.parametrize("status", ["301 Moved", "307 Temporary Redirect"])
def test_a_call_is_not_redirected_to_another_address(tmp_path: Path, status: str, target: str) -> None:
    async def private(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        raise AssertionError("the redirect was followed")

    async def scene() -> None:
        async with await asyncio.start_server(private, "127.0.0.1", 0) as other:
            location = target.format(port=other.sockets[0].getsockname()[1])

            async def attack(_number: int, write: Write) -> None:
                await write(f"HTTP/1.1 {status}\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode())

            end = await ended(tmp_path, attack)
        assert end.error is not None
        assert (end.error.code, f"Redirect to {location} not followed" in end.error.message) == ("raised", True)

    asyncio.run(scene())


def test_an_address_in_a_refusal_is_not_asked_for_credentials(tmp_path: Path) -> None:
    async def attack(_number: int, write: Write) -> None:
        metadata = 'Bearer resource_metadata="http://127.0.0.1:1/secret"'
        await write(f"HTTP/1.1 401 No\r\nWWW-Authenticate: {metadata}\r\nContent-Length: 0\r\n\r\n".encode())

    end = asyncio.run(ended(tmp_path, attack))
    assert end.error is not None
    assert end.error.code == "raised"


def test_a_server_that_asks_for_a_model_or_for_folders_gets_an_error_and_the_call_goes_on(tmp_path: Path) -> None:
    async def attack(number: int, write: Write) -> None:
        sampling: dict[str, Any] = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}}
        requests = [{"jsonrpc": "2.0", "id": 900 + index, **it} for index, it in enumerate((sampling, {"method": "roots/list"}))]
        await write(EVENTS + b"".join(b"data: %s\n\n" % json.dumps(it).encode() for it in requests))
        await write(b"data: %s\n\n" % result(number))

    assert asyncio.run(ended(tmp_path, attack)).result == {"text": "ours", "structured": {}}


def test_the_next_call_after_an_attack_is_answered(tmp_path: Path) -> None:
    count = 0

    async def attack(number: int, write: Write) -> None:
        nonlocal count
        count += 1
        await write(MESSAGE.format(104_857_600).encode() + b"x" * (9 << 20) if count == 1 else message(result(number)))

    async def scene() -> None:
        async with serving(attack) as (url, _), open_mcp(tmp_path, url=url) as device:
            assert (await device.perform(attempt("act"), Heard())).error is not None
            assert (await device.perform(attempt("act", "r:2.0"), Heard())).result == {"text": "ours", "structured": {}}

    asyncio.run(scene())
