"""The transports of MCP: a server over HTTP, or as a child process with messages over stdio, one per line.

Over HTTP this is the transport of the SDK, with a limit for each message. The SDK follows redirects
within the origin of the URL only, so a server cannot send this program to another address.

For a child process, the transport of the SDK has no limit for the length of a line, and does not give
the process that it starts. This one bounds each message, reports why the connection ended, and leaves
no process of the server's group behind, also if the server ignores SIGTERM. A message that cannot be
read fails the request that it answers, and no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import IO, Any

import anyio
import httpx2
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from asterism.devices.attempts.processes import ProcessGroup, WorkerLedger
from asterism.devices.kinds.remote import KEEPALIVE_S

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""Bytes of one message of a server."""
MAX_SKIPPED_BYTES = 8 * MAX_MESSAGE_BYTES
"""Bytes of a longer message after which the connection ends."""
EXIT_S = 2.0
"""Seconds that a server may take to end after its stdin was closed."""
TERM_S = 1.0
"""Seconds that it may take to end after SIGTERM, before SIGKILL."""
_POLL_S = 0.01
_MAX_SHOWN = 80
_END_BYTES = 1024
"""Bytes at either end of a message in which its own members are looked for."""
_MEMBER = rb'"(\w+)"\s*:\s*("[^"\\]*"|-?\d{1,18}|null)\s*'
_FIRST_MEMBERS = re.compile(rb"\s*\{\s*(?:" + _MEMBER + rb",?\s*)*")
_LAST_MEMBERS = re.compile(rb"(?:,\s*" + _MEMBER + rb")+\}\s*$")

log = logging.getLogger("asterism.devices")

Ended = Callable[[str], None]
"""Receives the reason why the connection has ended, in words."""
_Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
_Outgoing = MemoryObjectSendStream[SessionMessage]


class _Server:
    """The process of a server, and its group."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.group = ProcessGroup.of(process.pid)

    async def end(self) -> None:
        """Close its stdin, wait, and end the group."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if not await _exited(self._process, EXIT_S):
            self.group.kill(signal.SIGTERM)
            await _exited(self._process, TERM_S)
        self.group.kill()
        await _exited(self._process, TERM_S)
        self.close()

    def close(self) -> None:
        """Close its pipes, also if it has output that nobody reads."""
        self._process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - nothing public does it


@contextlib.asynccontextmanager
async def open_process(
    command: Sequence[str], *, env: Mapping[str, str], folder: str, error_output: IO[str], ledger: WorkerLedger | None, ended: Ended
) -> AsyncIterator[tuple[_Incoming, _Outgoing]]:
    """Start a server, which the ledger lists, and yield the streams of its messages; end its process group at the end.

    Raises:
        OSError: the program cannot be started.
        ValueError: the command contains a NUL character.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=error_output,
        env=get_default_environment() | dict(env),
        cwd=folder or None,
        start_new_session=True,
        limit=MAX_MESSAGE_BYTES,
    )
    server = _Server(process)
    incoming_end, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, outgoing_end = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        if ledger:
            ledger.add(server.group)
        async with anyio.create_task_group() as group:
            group.start_soon(_read, process, incoming_end, ended)
            group.start_soon(_write, process, outgoing_end, incoming_end, ended)
            try:
                yield incoming, outgoing
            finally:
                with anyio.CancelScope(shield=True):
                    await server.end()
                group.cancel_scope.cancel()
    finally:
        server.group.kill()
        if ledger:
            ledger.remove(server.group)
        server.close()
        for stream in (incoming_end, incoming, outgoing, outgoing_end):
            stream.close()


async def _read(process: asyncio.subprocess.Process, incoming: MemoryObjectSendStream[SessionMessage | Exception], ended: Ended) -> None:
    """Pass on the messages of a server, until it closes its output."""
    assert process.stdout is not None  # noqa: S101 - it was started with pipes
    with incoming, contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        while True:
            try:
                line = await process.stdout.readuntil(b"\n")
                why = f"it sent invalid JSON-RPC: {line[:_MAX_SHOWN]!r}"
            except asyncio.IncompleteReadError:
                break
            except asyncio.LimitOverrunError:
                why = f"it sent a message of more than {MAX_MESSAGE_BYTES:,} bytes"
                if not (line := await _skip_line(process.stdout)):
                    ended(why)
                    return
            if not line.lstrip().startswith(b"{"):
                log.debug("output of an MCP server that is no message: %r", line[:_MAX_SHOWN])
                continue
            try:
                message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                log.info("a message of an MCP server is ignored: %s", why)
                if (failure := _failure_of(line, why)) is None:
                    continue
                message = failure
            await incoming.send(SessionMessage(message))
        await _exited(process, EXIT_S)
        ended(_how(process.returncode))


async def _skip_line(stream: asyncio.StreamReader) -> bytes:
    """Read on to the end of a line that is too long; return both ends of it, and nothing if it does not end."""
    first, last, size = b"", b"", 0
    while size < MAX_SKIPPED_BYTES:
        try:
            part = await stream.readuntil(b"\n")
        except asyncio.LimitOverrunError as longer:
            part = await stream.readexactly(longer.consumed)
        except asyncio.IncompleteReadError:
            return b""
        first, last, size = first or part[:_END_BYTES], (last + part)[-_END_BYTES:], size + len(part)
        if part.endswith(b"\n"):
            return first + b"\0" + last
    return b""


def _failure_of(line: bytes, why: str) -> mcp_types.JSONRPCError | None:
    """Return the failure of the request that a message answers, as far as its first and last members say which."""
    parts = (_FIRST_MEMBERS.match(line[:_END_BYTES]), _LAST_MEMBERS.search(line[-_END_BYTES:]))
    members = dict(member for part in parts if part for member in re.findall(_MEMBER, part[0]))
    if members.get(b"id", b"null") == b"null" or b"method" in members:
        return None
    error = mcp_types.ErrorData(code=mcp_types.PARSE_ERROR, message=why)
    return mcp_types.JSONRPCError(jsonrpc="2.0", id=json.loads(members[b"id"]), error=error)


async def _write(
    process: asyncio.subprocess.Process,
    outgoing: MemoryObjectReceiveStream[SessionMessage],
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    ended: Ended,
) -> None:
    """Write messages to a server; close the connection if it does not read them."""
    assert process.stdin is not None  # noqa: S101 - it was started with pipes
    try:
        async for sent in outgoing:
            process.stdin.write(sent.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await process.stdin.drain()
    except OSError as error:
        has_exited = await _exited(process, EXIT_S)  # then that is the reason, which the reader of its output may not know yet
        ended(_how(process.returncode) if has_exited else f"it does not take messages: {error.strerror or error}")
        incoming.close()


async def _exited(process: asyncio.subprocess.Process, timeout_s: float) -> bool:
    """Return whether a process ends within a time; by polling, since ``wait`` waits also for its children's pipes."""
    give_up = asyncio.get_running_loop().time() + timeout_s
    while process.returncode is None:
        if asyncio.get_running_loop().time() >= give_up:
            return False
        await asyncio.sleep(_POLL_S)
    return True


def _how(returncode: int | None) -> str:
    if returncode is None:
        return "it closed its output"
    return f"it ended with exit code {returncode}" if returncode >= 0 else f"it was ended by signal {-returncode}"


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
