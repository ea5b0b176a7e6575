"""MCP servers whose tools a model may call: those that are allowed by name, and no other."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import string
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from asterism.errors import InvalidInput, MissingExtra, first_of
from asterism.kernel.data import error_text
from asterism.loops.resources import ResourcePool
from asterism.loops.scope import Scope, scoped
from asterism.loops.tool import Tool, check_gate
from asterism.machines.orchestration_loop.model import Gate

MAX_TOOLS = 500
"""Tools that one server may offer."""
CONNECT_S = 30.0
"""Bound on connecting to a server and on listing its tools."""
READ_S = 300.0
"""Bound on the silence of a server over HTTP, as the SDK has it."""

log = logging.getLogger("asterism.loops")
logging.getLogger("mcp").addHandler(logging.NullHandler())  # what the SDK says of a server is for whoever wants a log, too


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server whose tools may be called.

    Attributes:
        command: program and arguments of one that is spoken to over stdio.
        url: of one that is spoken to over HTTP.
        headers: of each request to it; ``$NAME`` in a value is a variable of the environment when it is connected to, ``$$`` a dollar.
        allow: names of the tools that may be called. No other is offered to the model, and none if this is empty.
        gates: why a person is asked before a tool is called, by its name; ``""`` for not at all. By default every tool that does not
            declare itself read-only, or not destructive, counts as destructive.
        scopes: what the arguments of a tool must keep within, by its name.
        env: variables of the program, besides the few that are safe to pass on.
        folder: where it runs; empty for here.

    Raises:
        InvalidInput: a gate is none.
    """

    command: tuple[str, ...] = ()
    url: str = ""
    headers: dict[str, str] = {}
    allow: tuple[str, ...] = ()
    gates: dict[str, Gate] = {}
    scopes: dict[str, Scope] = {}
    env: dict[str, str] = {}
    folder: str = ""

    def __post_init__(self) -> None:
        for name, gate in self.gates.items():
            check_gate(name, gate)

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes two of them one connection."""
        return ("mcp", self.command, self.url, *(tuple(sorted(it.items())) for it in (self.headers, self.env)), self.folder)

    async def tools(self, keeper: ResourcePool) -> list[Tool]:
        """Its tools that may be called.

        Raises:
            InvalidInput: it cannot be reached, has no tool of an allowed name, or a gate or scope is for no allowed tool.
        """
        if odd := [name for name in (*self.scopes, *self.gates) if name not in self.allow]:
            raise InvalidInput(f"a scope or gate is for {', '.join(odd)}, which is not allowed; allowed: {', '.join(self.allow) or 'none'}")
        try:
            async with asyncio.timeout(CONNECT_S):
                client = await keeper.get(self.key, self._client)
                listed = await _listed(client)
        except MissingExtra:
            raise
        except Exception as error:  # boundary: a server may be anything
            keeper.forget(self.key)
            why = first_of(error)
            hint = "" if self.url or isinstance(why, OSError) else "; what it says itself is in the log (ASTERISM_LOG=info)"
            said = error_text(why).partition("\n")[0]  # the rest is how its answer was read
            raise InvalidInput(f"the MCP server {self.command[0] if self.command else self.url} cannot be used: {said}{hint}") from error
        there = {found.name: found for found in listed}
        if missing := [name for name in self.allow if name not in there]:
            raise InvalidInput(f"the MCP server has no tool {', '.join(missing)}; it has {', '.join(there)}")
        return [self._tool(there[name], keeper) for name in self.allow]

    @contextlib.asynccontextmanager
    async def _client(self) -> AsyncIterator[Any]:
        try:
            import httpx2  # noqa: PLC0415 - as below
            from mcp import Client  # noqa: PLC0415 - takes a second, and is an extra
            from mcp.client.stdio import StdioServerParameters, stdio_client  # noqa: PLC0415 - as above
            from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415 - as above
        except ImportError:
            raise MissingExtra("llm", "a worker with tools of an MCP server") from None
        if self.url:
            http = httpx2.AsyncClient(headers=self._headers(), timeout=httpx2.Timeout(CONNECT_S, read=READ_S))
            async with http, Client(streamable_http_client(self.url, http_client=http)) as client:
                yield client
            return
        program, *arguments = self.command
        server = StdioServerParameters(command=program, args=arguments, env=self.env or None, cwd=self.folder or None)
        with Path(os.devnull).open("w") as nowhere:  # noqa: ASYNC230 - it blocks nobody
            # What it says beside the protocol is for whoever wants a log, and not for the screen of a run.
            beside = (sys.__stderr__ if log.isEnabledFor(logging.INFO) else None) or nowhere
            async with Client(stdio_client(server, beside)) as client:
                yield client

    def _headers(self) -> dict[str, str]:
        try:
            headers = {name: string.Template(value).substitute(os.environ).strip() for name, value in self.headers.items()}
        except KeyError as missing:
            raise InvalidInput(f"its headers need the variable {missing.args[0]}, which is not set") from None
        except ValueError as error:
            raise InvalidInput(f"its headers: {error}; a variable is $NAME, a dollar $$") from None
        for name, value in headers.items():
            if not (value.isascii() and value.isprintable()):  # what is sent would be refused, and told, with its value
                raise InvalidInput(f"its header {name} has a character that no header may have")
        return headers

    def _tool(self, found: Any, keeper: ResourcePool) -> Tool:
        async def call(arguments: dict[str, Any], key: str) -> Any:
            client = await keeper.get(self.key, self._client)
            try:
                returned = await client.call_tool(found.name, arguments, meta={"asterism.key": key})
            except Exception:  # boundary: the connection may be gone; the next call opens another
                keeper.forget(self.key)
                raise
            text = "\n".join(part.text for part in returned.content if part.type == "text")
            if returned.is_error:
                return {"status": "failed", "reason": text}
            return returned.structured_content if returned.structured_content is not None else text

        hints = found.annotations
        is_read_only = bool(hints and hints.read_only_hint)
        scope = self.scopes.get(found.name)
        is_gentle = is_read_only or bool(hints and hints.destructive_hint is False)
        return Tool(
            name=found.name,
            description=found.description or "",
            parameters=found.input_schema,
            call=call,
            idempotent=is_read_only or bool(hints and hints.idempotent_hint),
            gate=self.gates.get(found.name, "" if is_gentle else "destructive"),
            scopes=scoped(scope, found.name, found.input_schema, self.folder) if scope else (),
        )


async def _listed(client: Any) -> list[Any]:
    found: list[Any] = []
    cursor: str | None = None
    while len(found) < MAX_TOOLS:
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return found
