"""A tool of a model-driven worker: what a model may call, within which scopes, and after which question."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, get_args

import msgspec

from asterism.devices.skill import contract_of, is_skill, skill
from asterism.errors import InvalidInput
from asterism.loops.scope import Scope, scoped
from asterism.machines.orchestration_loop.model import Gate, ToolCall

GATES = f"one of {', '.join(filter(None, get_args(Gate)))}, or empty"
"""What a gate may be, in words."""


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


def check_gate(name: str, gate: object) -> None:
    """See that the gate of a tool is one, before a model asks for a call.

    Raises:
        InvalidInput: it is none; says what there are.
    """
    if gate not in get_args(Gate):
        raise InvalidInput(f"the gate of {name}: it is {GATES}, not {gate!r}")


def tool(function: Callable[..., Any], /, *, idempotent: bool = False, gate: Gate = "", scope: Scope | None = None) -> Tool:
    """A typed Python function as a tool; name, parameters and description come from it, as those of a skill do.

    Raises:
        InvalidInput: it is no function, a type hint has no JSON form, or the gate is none.
    """
    contract = contract_of(function if is_skill(function) else skill(function))

    async def call(arguments: dict[str, Any], key: str) -> Any:  # noqa: ARG001 - a function that needs the key is a worker
        values = contract.values(arguments)
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
