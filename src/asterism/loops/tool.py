"""Tools of a model-driven worker: Python functions, and what MCP servers offer; what may be called, within what, after which question."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import string
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from asterism.devices.skill import contract_of, is_skill, skill
from asterism.errors import InvalidInput, MissingExtra
from asterism.loops.keeper import Keeper
from asterism.machines.orchestration_loop.model import Gate, ToolCall
from asterism.runtime.kept import told

MAX_TOOLS = 500
"""Tools that one server may offer."""
CONNECT_S = 30.0
"""Bound on connecting to a server and on listing its tools."""
READ_S = 300.0
"""Bound on the silence of a server over HTTP, as the SDK has it."""

log = logging.getLogger("asterism.loops")

Scope = Callable[[Mapping[str, Any]], str | None]
"""Says why these arguments are out of bounds; empty or None where they are not."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool, whatever is behind it.

    Attributes:
        name, description, parameters: for the model; the last a JSON Schema of an object.
        call: makes a call, given the arguments and the idempotency key; returns JSON.
        idempotent: making a call again under the same key does no harm.
        gate: why a person is asked first.
        scopes: what its arguments must keep within.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    call: Callable[[dict[str, Any], str], Awaitable[Any]]
    idempotent: bool = False
    gate: Gate = ""
    scopes: tuple[Scope, ...] = ()


def tool(function: Callable[..., Any], /, *, idempotent: bool = False, gate: Gate = "", scope: Scope | None = None) -> Tool:
    """A typed Python function as a tool; name, parameters and description come from it, as those of a skill do.

    Raises:
        InvalidInput: it is no function, or a type hint has no JSON form.
    """
    contract = contract_of(function if is_skill(function) else skill(function))

    async def call(arguments: dict[str, Any], key: str) -> Any:  # noqa: ARG001 - a function that needs the key is a worker
        values = contract.values(arguments)
        if inspect.iscoroutinefunction(function):
            return await function(**values)
        return await asyncio.to_thread(function, **values)

    described = contract.skill
    return Tool(
        name=described.name,
        description=described.description,
        parameters=described.parameters,
        call=call,
        idempotent=idempotent or described.idempotent,
        gate=gate,
        scopes=_scoped(scope, described.name, described.parameters) if scope else (),
    )


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
    """

    command: tuple[str, ...] = ()
    url: str = ""
    headers: dict[str, str] = {}
    allow: tuple[str, ...] = ()
    gates: dict[str, Gate] = {}
    scopes: dict[str, Scope] = {}
    env: dict[str, str] = {}
    folder: str = ""

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes two of them one connection."""
        return ("mcp", self.command, self.url, *(tuple(sorted(it.items())) for it in (self.headers, self.env)), self.folder)

    async def tools(self, keeper: Keeper) -> list[Tool]:
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
            why = _first(error)
            hint = "" if self.url or isinstance(why, OSError) else "; what it says itself is in the log (ASTERISM_LOG=info)"
            raise InvalidInput(
                f"the MCP server {self.command[0] if self.command else self.url} cannot be used: {told(why)}{hint}"
            ) from error
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

    def _tool(self, found: Any, keeper: Keeper) -> Tool:
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
            scopes=_scoped(scope, found.name, found.input_schema, self.folder) if scope else (),
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


def _first(error: BaseException) -> BaseException:
    """What was the matter, out of the groups that a client wraps it in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


ToolSource = Tool | McpServer | Callable[..., Any]
"""What tools come from: a function may stand for the tool that it makes."""


class Toolbox:
    """The tools of one worker. What is not in it cannot be called, whatever a model wants."""

    def __init__(self, sources: Collection[ToolSource]) -> None:
        self._sources: Sequence[Tool | McpServer] = [it if isinstance(it, Tool | McpServer) else tool(it) for it in sources]

    async def tools(self, keeper: Keeper) -> dict[str, Tool]:
        """By name.

        Raises:
            InvalidInput: a server cannot be used, or two tools have one name.
        """
        found: dict[str, Tool] = {}
        for source in self._sources:
            for each in [source] if isinstance(source, Tool) else await source.tools(keeper):
                if each.name in found:
                    raise InvalidInput(f"two tools of one worker are named {each.name}")
                found[each.name] = each
        return found


def judged(asked: ToolCall, tools: Mapping[str, Tool]) -> ToolCall:
    """A call with what the tools say of it: whether it may be made, and whether a person is asked first."""
    known = tools.get(asked.tool)
    if known is None:
        return msgspec.structs.replace(asked, denied=f"there is no tool {asked.tool!r} for you; there are {', '.join(tools) or 'none'}")
    denied, parameters = out_of_scope(known, asked.arguments), known.parameters if known.gate else {}
    return msgspec.structs.replace(asked, denied=denied, gate=known.gate, idempotent=known.idempotent, parameters=parameters)


def out_of_scope(known: Tool, arguments: Mapping[str, Any]) -> str:
    """Why these arguments may not be used; a scope that cannot be asked says no."""
    for scope in known.scopes:
        try:
            why = scope(arguments)
        except Exception as error:  # boundary: a user's predicate may raise anything, and then nothing is allowed
            return f"its scope could not be checked: {type(error).__name__}: {error}"
        if why:
            return why
    return ""


class Within(msgspec.Struct, frozen=True):
    """A scope: the arguments of these names are paths within a folder. What is not a path in plain words is not within it.

    Attributes:
        base: what a path that is not absolute is relative to for whoever opens it; empty for where this process runs.
    """

    folder: str
    names: tuple[str, ...]
    base: str = ""

    def __call__(self, arguments: Mapping[str, Any]) -> str | None:
        """Why these arguments are out of bounds, if they are."""
        for name in self.names:
            value = arguments.get(name)
            for path in value if isinstance(value, list) else [value]:
                if path is not None and not (isinstance(path, str) and _is_within(path, self.folder, self.base)):
                    return f"{name} {path!r} is not within {self.folder}"
        return None


def within(folder: str, *names: str) -> Scope:
    """A scope: the arguments of these names are paths within a folder, links followed.

    A relative path is relative to where the tool runs: this process, or the folder of its server.

    Args:
        folder: where they must be.
        names: of the arguments; each that is given is checked, and so is each item of one that is a list.

    Raises:
        InvalidInput: no argument is named.
    """
    if not names:
        raise InvalidInput(f"within {folder}: name the arguments that are paths; else nothing is checked")
    return Within(folder, names)


def _scoped(scope: Scope, name: str, parameters: Mapping[str, Any], base: str = "") -> tuple[Scope]:
    """The scope of a tool that takes these parameters, and runs in ``base``."""
    if not isinstance(scope, Within):
        return (scope,)
    known = parameters.get("properties", {})
    if not any(it in known for it in scope.names):
        raise InvalidInput(f"the scope of {name} is about {', '.join(scope.names)}, and {name} takes {', '.join(known) or 'nothing'}")
    return (msgspec.structs.replace(scope, base=base),)


def _is_within(path: str, folder: str, base: str) -> bool:
    if path.startswith("~"):  # a server may take it for somebody's home
        return False
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        return (Path(base) / path).resolve().is_relative_to(Path(folder).resolve())
    return False
