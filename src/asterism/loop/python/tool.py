"""Tools that a model may call, with their scopes and gates."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from asterism.devices.attempts.attempt_files import is_networked
from asterism.devices.skills.skill import contract_of, is_skill, skill
from asterism.errors import InvalidInput
from asterism.loop.machine.model import Gate, ToolCall

Scope = Callable[[Mapping[str, Any]], str | None]
"""Function that returns why arguments are out of bounds; empty or None if they are within."""
GATES = f"one of {', '.join(filter(None, get_args(Gate)))}, or empty"
"""Allowed gates, in words."""


class Within(msgspec.Struct, frozen=True):
    """A scope: the named arguments must be plain paths within a folder.

    Attributes:
        base: folder of relative paths, as the tool resolves them; empty for the process's own.
    """

    folder: str
    names: tuple[str, ...]
    base: str = ""

    def __call__(self, arguments: Mapping[str, Any]) -> str | None:
        """Return why these arguments are out of bounds; None if they are within."""
        for name in self.names:
            value = arguments.get(name)
            for path in value if isinstance(value, list) else [value]:
                if path is not None and not (isinstance(path, str) and _is_within(path, self.folder, self.base)):
                    return f"{name} {path!r} is not within {self.folder}"
        return None


def within(folder: str, *names: str) -> Scope:
    """Return a scope that requires the named arguments to be paths within a folder, links followed.

    A relative path is relative to the working folder of the tool: this process, or its server.

    Args:
        folder: the folder that must contain them.
        names: names of the arguments; each item of a list is checked.

    Raises:
        InvalidInput: no argument is named.
    """
    if not names:
        raise InvalidInput(f"within {folder}: name the arguments that hold paths; without names nothing is checked")
    return Within(folder, names)


def scoped(scope: Scope, name: str, parameters: Mapping[str, Any], base: str = "") -> tuple[Scope]:
    """Return the scope of a tool with these parameters that runs in ``base``.

    Raises:
        InvalidInput: the tool has none of the scope's arguments.
    """
    if not isinstance(scope, Within):
        return (scope,)
    known = parameters.get("properties", {})
    if not any(it in known for it in scope.names):
        raise InvalidInput(f"the scope of {name} names {', '.join(scope.names)}, but {name} takes {', '.join(known) or 'nothing'}")
    return (msgspec.structs.replace(scope, base=base),)


def _is_within(path: str, folder: str, base: str) -> bool:
    if path.startswith("~"):  # a server may expand it to a home folder
        return False
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        return (Path(base) / path).resolve().is_relative_to(Path(folder).resolve())
    return False


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool, of a Python function or a server.

    Attributes:
        name, description, parameters: shown to the model; ``parameters`` is a JSON Schema of an
            object.
        call: makes a call with the arguments and the idempotency key; returns JSON.
        idempotent: repeating a call with the same key is harmless.
        gate: reason to ask a person before a call; empty for none.
        scopes: limits on the arguments.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    call: Callable[[dict[str, Any], str], Awaitable[Any]]
    idempotent: bool = False
    gate: Gate = ""
    scopes: tuple[Scope, ...] = ()


def check_gate(name: str, gate: object) -> None:
    """Check the gate of a tool when it is defined.

    Raises:
        InvalidInput: the gate is unknown. Names the allowed ones.
    """
    if gate not in get_args(Gate):
        raise InvalidInput(f"the gate of {name} must be {GATES}, not {gate!r}")


def tool(function: Callable[..., Any], /, *, idempotent: bool = False, gate: Gate = "", scope: Scope | None = None) -> Tool:
    """Return a typed Python function as a tool, described as a skill would be.

    Raises:
        InvalidInput: it is not a function, a type hint has no JSON form, or the gate is unknown.
    """
    contract = contract_of(function if is_skill(function) else skill(function))

    async def call(arguments: dict[str, Any], key: str) -> Any:  # noqa: ARG001 - write a worker to use the key
        values = contract.values(arguments, "none" if await is_networked() else "texts")
        if inspect.iscoroutinefunction(function):
            return await function(**values)
        return await asyncio.to_thread(function, **values)

    described = contract.skill
    check_gate(described.name, gate)
    return Tool(
        name=described.name,
        description=described.description,
        parameters=described.parameters,
        call=call,
        idempotent=idempotent or described.idempotent,
        gate=gate,
        scopes=scoped(scope, described.name, described.parameters) if scope else (),
    )


def gated(asked: ToolCall, tools: Mapping[str, Tool]) -> ToolCall:
    """Return a call with its tool's gate and retry safety, denied if the tool does not allow it."""
    known = tools.get(asked.tool)
    if known is None:
        return msgspec.structs.replace(asked, denied=f"there is no tool {asked.tool!r}; there are {', '.join(tools) or 'none'}")
    denied, parameters = out_of_scope(known, asked.arguments), known.parameters if known.gate else {}
    return msgspec.structs.replace(asked, denied=denied, gate=known.gate, idempotent=known.idempotent, parameters=parameters)


def out_of_scope(known: Tool, arguments: Mapping[str, Any]) -> str:
    """Return why these arguments are out of scope; a scope that raises denies the call."""
    for scope in known.scopes:
        try:
            why = scope(arguments)
        except Exception as error:  # boundary: a user's predicate may raise anything; the call is denied
            return f"its scope could not be checked: {type(error).__name__}: {error}"
        if why:
            return why
    return ""
