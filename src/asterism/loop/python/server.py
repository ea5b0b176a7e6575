"""MCP servers whose tools a model may call: only those that are allowed by name."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec

from asterism.devices.attempts.secrets import check_result, hidden, secret
from asterism.devices.attempts.task_log import note_secrets
from asterism.devices.kinds.mcp.server import CONNECT_S, ServerAddress, listed_tools, open_client
from asterism.devices.kinds.remote import with_secret_values
from asterism.devices.model.references import secrets_of
from asterism.engine.kernel.data import error_text
from asterism.engine.runtime.resources import ResourcePool
from asterism.errors import InvalidInput, MissingExtra, first_of
from asterism.loop.machine.model import Gate
from asterism.loop.python.tool import Scope, Tool, check_gate, scoped

log = logging.getLogger("asterism.loop.python")


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """An MCP server whose tools a model may call.

    Attributes:
        command: program and arguments of a server over stdio.
        url: URL of a server over HTTP.
        headers: headers of each request. ``$NAME`` in a value is an environment variable and
            ``${secret.NAME}`` a secret, read on connection; ``$$`` is a dollar.
        allow: names of the tools that the model may call; no others are offered.
        gates: reason to ask a person before a call, by tool name; ``""`` to never ask. By default a
            tool counts as destructive unless it declares itself read-only or not destructive.
        scopes: limits on the arguments, by tool name.
        env: environment variables of the program, in addition to the few that are safe to inherit; in
            the form of ``headers``.
        folder: working folder of the program; empty for the current one.

    Raises:
        InvalidInput: a gate is unknown, or the command is a text.
    """

    command: Sequence[str] = ()
    url: str = ""
    headers: dict[str, str] = {}
    allow: Sequence[str] = ()
    gates: dict[str, Gate] = {}
    scopes: dict[str, Scope] = {}
    env: dict[str, str] = {}
    folder: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.command, str):
            raise InvalidInput(f"the command of an MCP server is a list, program and arguments, not {self.command!r}")
        for name in ("command", "allow"):
            msgspec.structs.force_setattr(self, name, tuple(getattr(self, name)))
        for name, gate in self.gates.items():
            check_gate(name, gate)

    @property
    def _address(self) -> ServerAddress:
        return ServerAddress(command=tuple(self.command), url=self.url, headers=self.headers, env=self.env, folder=self.folder)

    @property
    def key(self) -> tuple[Any, ...]:
        """Key of the connection that equal servers share."""
        return self._address.key

    async def tools(self, pool: ResourcePool) -> list[Tool]:
        """Return the allowed tools.

        Raises:
            InvalidInput: the server is unavailable or lacks an allowed tool, or a gate or scope
                names a tool that is not allowed.
        """
        if odd := [name for name in (*self.scopes, *self.gates) if name not in self.allow]:
            raise InvalidInput(f"a scope or gate is for {', '.join(odd)}, which is not allowed; allowed: {', '.join(self.allow) or 'none'}")
        try:
            async with asyncio.timeout(CONNECT_S):
                client = await pool.get(self.key, self._client)
                listed = await listed_tools(client)
        except MissingExtra:
            raise
        except Exception as error:  # boundary: a server may raise anything
            pool.forget(self.key)
            why = first_of(error)
            hint = (
                ""
                if self.url or isinstance(why, OSError)
                else "; its own output is in the log asterism.loop.python, at level INFO (in a command: ASTERISM_LOG=info)"
            )
            reason = hidden(error_text(why).partition("\n")[0], self._secrets())  # further lines describe how the answer was parsed
            raise InvalidInput(f"the MCP server {self.command[0] if self.command else self.url} cannot be used: {reason}{hint}") from error
        there = {found.name: found for found in listed}
        if missing := [name for name in self.allow if name not in there]:
            raise InvalidInput(f"the MCP server has no tool {', '.join(missing)}; it has {', '.join(there)}")
        return [self._tool(there[name], pool) for name in self.allow]

    def _secrets(self) -> dict[str, str]:
        """Return the secrets in the headers and variables, by name; a missing one is an error of the connection."""
        found: dict[str, str] = {}
        for name in (name for value in (*self.headers.values(), *self.env.values()) for name in secrets_of(value)):
            with contextlib.suppress(InvalidInput, MissingExtra):
                found[name] = secret(name)
        return found

    def _client(self) -> AbstractAsyncContextManager[Any]:
        address = self._address
        own = msgspec.structs.replace(address, headers=with_secret_values(address.headers), env=with_secret_values(address.env))
        return open_client(own, log=log, needs=("llm", "a worker with tools of an MCP server"))

    def _tool(self, found: Any, pool: ResourcePool) -> Tool:
        async def call(arguments: dict[str, Any], key: str) -> Any:
            from asterism.devices.kinds.mcp.results import content_refusal  # noqa: PLC0415 - an extra, which the pool has loaded

            secrets = self._secrets()
            note_secrets(secrets)
            client = await pool.get(self.key, self._client)
            try:
                returned = await client.call_tool(found.name, arguments, meta={"asterism.key": key})
            except Exception:  # boundary: the connection may be gone; the next call opens another
                pool.forget(self.key)
                raise
            text = "\n".join(part.text for part in returned.content if part.type == "text")
            if returned.is_error:
                return {"status": "failed", "reason": hidden(text, secrets)}
            if found.output_schema is not None and (wrong := content_refusal(found.name, found.output_schema, returned)):
                raise RuntimeError(hidden(wrong, secrets))
            result = returned.structured_content if returned.structured_content is not None else text
            check_result(msgspec.json.encode(result), secrets)
            return result

        hints = found.annotations
        is_read_only = bool(hints and hints.read_only_hint)
        scope = self.scopes.get(found.name)
        is_harmless = is_read_only or bool(hints and hints.destructive_hint is False)
        return Tool(
            name=found.name,
            description=found.description or "",
            parameters=found.input_schema,
            call=call,
            idempotent=is_read_only or bool(hints and hints.idempotent_hint),
            gate=self.gates.get(found.name, "" if is_harmless else "destructive"),
            scopes=scoped(scope, found.name, found.input_schema, self.folder) if scope else (),
        )
