"""Connections to MCP servers: programs over stdio, and URLs over HTTP. Loops and devices share them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from asterism.devices.attempts.processes import WorkerLedger
from asterism.devices.fleet.fleet_file import DeviceEntry
from asterism.devices.kinds.remote import http_headers
from asterism.errors import InvalidInput, MissingExtra

MAX_TOOLS = 500
"""Maximum tools of one server."""
CONNECT_S = 30.0
"""Seconds allowed to connect to a server and list its tools."""
READ_S = 300.0
"""Seconds of silence allowed from a server over HTTP, as in the SDK."""

MODE = "auto"
"""The newest protocol that both sides speak; ``legacy`` for those before 2026-07-28."""

Seconds = Annotated[float, Meta(gt=0, le=86_400)]

logging.getLogger("mcp").addHandler(logging.NullHandler())  # the SDK's messages go only to a configured log


class ServerAddress(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach an MCP server.

    Attributes:
        command: program and arguments of a server over stdio.
        url: URL of a server over HTTP.
        headers: headers of each request. ``$NAME`` in a value is an environment variable, read on
            connection; ``$$`` is a dollar.
        env: environment variables of the program, in addition to the few that are safe to inherit.
        folder: working folder of the program; empty for the current one.
    """

    command: tuple[str, ...] = ()
    url: str = ""
    headers: dict[str, str] = {}
    env: dict[str, str] = {}
    folder: str = ""

    @property
    def key(self) -> tuple[Any, ...]:
        """Key of the connection that equal addresses share."""
        return ("mcp", self.command, self.url, *(tuple(sorted(it.items())) for it in (self.headers, self.env)), self.folder)

    @property
    def shown(self) -> str:
        """Return the program, or the URL without what may be secret in it."""
        if not self.url:
            return self.command[0]
        parts = urlsplit(self.url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


class McpEntry(DeviceEntry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of kind ``mcp``.

    Attributes:
        command: program and arguments of a server over stdio.
        url: URL of a server over HTTP.
        headers: headers of each request; ``$NAME`` in a value is an environment variable.
        env: environment variables of the program, in the same form.
        folder: working folder of the program, relative to the fleet file; empty for its folder.
        allow: names of the tools that become skills; empty for all.
        trust_hints: take a tool that declares itself read-only or idempotent for repeatable.
        held_s: seconds that a call which the server holds open waits for a person's answer.
        silent_s: seconds of silence after which a server is lost, while it has a call.
    """

    tools_are_foreign: ClassVar[bool] = True

    command: tuple[str, ...] = ()
    url: str = ""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    env: dict[str, str] = msgspec.field(default_factory=dict)
    folder: str = ""
    allow: tuple[str, ...] = ()
    trust_hints: bool = False
    held_s: Seconds = 600.0
    silent_s: Seconds = 300.0

    def check(self, folder: Path) -> None:
        """Check the table. Raises InvalidInput that begins with the key."""
        if bool(self.command) == bool(self.url):
            raise InvalidInput('command: write either a command, like ["my-server", "--stdio"], or a url')
        if self.url and not self.url.startswith(("http://", "https://")):
            raise InvalidInput(f"url: {self.url!r} is not the URL of an MCP server; it begins with https:// or http://")
        if odd := [name for name in ("env", "folder") if self.url and getattr(self, name)]:
            raise InvalidInput(f"{odd[0]}: only for a server that is a command")
        if self.headers and not self.url:
            raise InvalidInput("headers: only for a server with a url")
        if self.folder and not (folder / self.folder).is_dir():
            raise InvalidInput(f"folder: there is no folder {folder / self.folder}; make it")


class ConnectionEnding:
    """Notes why a connection has ended.

    Attributes:
        reason: the reason, in words; empty while it has not ended.
        wake: is set when it ends.
    """

    def __init__(self) -> None:
        self.reason = ""
        self.wake = asyncio.Event()

    def __call__(self, reason: str) -> None:
        """Note a reason; the first one counts."""
        self.reason = self.reason or reason
        self.wake.set()


@contextlib.asynccontextmanager
async def open_client(
    address: ServerAddress,
    *,
    log: logging.Logger,
    needs: tuple[str, str],
    ending: ConnectionEnding | None = None,
    ledger: WorkerLedger | None = None,
    read_s: float = READ_S,
    **callbacks: Any,
) -> AsyncIterator[Any]:
    """Connect to a server, and yield the client of the SDK.

    Args:
        address: the server.
        log: log that receives the other output of a program, at level INFO.
        needs: extra that has the SDK, and the feature that needs it.
        ending: receives the reason why the connection has ended, as far as it is known.
        ledger: lists the process group of a program.
        read_s: seconds of silence allowed over HTTP.
        callbacks: further arguments of the client.

    Raises:
        InvalidInput: a header is invalid, or names a variable that is not set.
        MissingExtra: the SDK is not installed.
        Exception: the server cannot be reached, or does not speak the protocol; also as a group.
    """
    try:
        from mcp import Client  # noqa: PLC0415 - slow, and an extra

        from asterism.devices.kinds.mcp.transport import open_http, open_process  # noqa: PLC0415 - as above
    except ImportError:
        raise MissingExtra(*needs) from None
    ending = ending or ConnectionEnding()
    if address.url:
        http = open_http(address.url, http_headers(address.headers), CONNECT_S, read_s)
        async with Client(http, mode=MODE, **callbacks) as client:
            yield client
        return
    with Path(os.devnull).open("w") as nowhere:  # noqa: ASYNC230 - does not block
        # The server's other output goes to the log, and not to the screen of a run.
        error_output = (sys.__stderr__ if log.isEnabledFor(logging.INFO) else None) or nowhere
        process = open_process(
            address.command,
            env=address.env,
            folder=address.folder,
            error_output=error_output,
            ledger=ledger,
            ended=ending,
        )
        async with Client(process, mode=MODE, **callbacks) as client:
            yield client


async def listed_tools(client: Any) -> list[Any]:
    """Return the tools of a server, ``MAX_TOOLS`` at most.

    The SDK would check results against the output schemas without a bound, so it gets empty ones.
    """
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(MAX_TOOLS):
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        for tool in page.tools:
            if tool.output_schema is not None:
                theirs, tool.output_schema = tool.output_schema, dict(tool.output_schema)
                theirs.clear()
        found += page.tools
        cursor = page.next_cursor
        if not cursor or len(found) >= MAX_TOOLS:
            break
    return found[:MAX_TOOLS]
