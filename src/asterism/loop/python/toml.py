"""Loops in TOML: models with tools as workers, and models or fixed steps as the supervisor."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from asterism.errors import InvalidInput
from asterism.loop.machine.model import Gate, LoopOptions, Step, Strategy
from asterism.loop.python.server import McpServer
from asterism.loop.python.source import find
from asterism.loop.python.tool import GATES, Scope, Tool, tool, within
from asterism.loop.python.worker import ModelWorker, Worker

T = TypeVar("T", bound=msgspec.Struct)


class WithinTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A scope: these arguments of a tool are paths within a folder."""

    folder: str
    arguments: tuple[str, ...]


class ServerTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An MCP server; see ``McpServer``."""

    command: tuple[str, ...] = ()
    url: str = ""
    headers: dict[str, str] = {}
    allow: tuple[str, ...] = ()
    gates: dict[str, Gate] = {}
    within: dict[str, WithinTable] = {}
    env: dict[str, str] = {}


class FunctionTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A Python function as a tool."""

    function: str
    gate: Gate = ""
    idempotent: bool = False


class WorkerTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A worker: a model with instructions and tools, or an async Python function."""

    function: str = ""
    idempotent: bool = False
    model: str = ""
    instructions: str = ""
    description: str = ""
    requires_approval: bool = False
    timeout_s: Annotated[float, Meta(gt=0)] | None = None
    tools: tuple[str | FunctionTable, ...] = ()
    servers: tuple[ServerTable, ...] = ()


class LoopDocument(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A TOML file of a loop.

    Attributes:
        model: default model.
        plan, reflect, synthesize, critique: models of these functions; ``critique`` has no default.
        steps: a fixed plan, instead of a model that plans.
    """

    workers: dict[str, dict[str, Any]]
    model: str = ""
    plan: str = ""
    reflect: str = ""
    synthesize: str = ""
    critique: str = ""
    steps: tuple[Step, ...] = ()
    options: LoopOptions = LoopOptions()


_TABLES: dict[str, type[msgspec.Struct]] = {
    "options": LoopOptions,
    "steps": Step,
    "tools": FunctionTable,
    "servers": ServerTable,
    "within": WithinTable,
}


def read_parts(path: Path) -> dict[str, Any]:
    """Read the arguments of an ``OrchestrationLoop`` from a file.

    Raises:
        InvalidInput: the file is missing, not TOML, or has an invalid value; one line.
    """
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"{path}: the loop cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # tomllib's errors are ValueErrors
        raise InvalidInput(f"{path}: {error}") from error
    try:
        return _parts(_read(given, LoopDocument), path.absolute().parent)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error


def _read(given: Any, kind: type[T], where: str = "") -> T:
    try:
        return msgspec.convert(given, kind)
    except RecursionError as error:
        raise InvalidInput(f"{where}: {error}") from error
    except msgspec.ValidationError as error:
        text, _, at = str(error).partition(" - at `$")
        place = at.rstrip("`")
        raise InvalidInput(f"{where}{place}: {text}{_allowed(text, place, kind)}".lstrip(".: ")) from error


def _allowed(error: str, place: str, kind: type[msgspec.Struct]) -> str:
    """Return the values or fields that are allowed at a place."""
    table = re.sub(r"\[.*?\]", "", place).rpartition(".")[2]
    if "unknown field" in error:
        return f"; its fields are {', '.join(field.name for field in msgspec.structs.fields(_TABLES.get(table, kind)))}"
    if table in ("gate", "gates"):
        return f"; it is {GATES}"
    return f"; it is one of {', '.join(Strategy)}" if "enum value" in error else ""


def _parts(document: LoopDocument, folder: Path) -> dict[str, Any]:
    if not document.workers:
        raise InvalidInput("no workers; add a [workers.NAME] table")
    planner = document.plan or document.model
    if not (planner or document.steps):
        raise InvalidInput("nothing makes a plan; set model or plan, or list the steps")
    reflects = document.reflect or document.model or None
    if not reflects:
        _check_bounds(document.steps, document.options)
    return {
        "plan": document.steps or planner,
        "workers": {
            name: _worker(name, _read(it, WorkerTable, f"workers.{name}"), document.model, folder) for name, it in document.workers.items()
        },
        "reflect": reflects,
        "synthesize": document.synthesize or document.model or None,
        "critique": document.critique or None,
        "options": document.options,
    }


def _check_bounds(steps: tuple[Step, ...], options: LoopOptions) -> None:
    """Check that the limits allow all steps. Steps that start together share one reflection."""
    groups = [*itertools.groupby(step.group or number for number, step in enumerate(steps))]
    for bound, needed in (("max_steps", len(steps)), ("max_reflections", len(groups))):
        if needed > (given := getattr(options, bound)):
            raise InvalidInput(f"{bound} is {given}, but the {len(steps)} steps need {needed}; set it in [options]")


def _worker(name: str, given: WorkerTable, model: str, folder: Path) -> Worker | ModelWorker:
    if given.function:
        function: Any = find(given.function, folder)
        more: dict[str, Any] = {"requires_approval": given.requires_approval, "timeout_s": given.timeout_s}
        return Worker(function, description=given.description, idempotent=given.idempotent, **more)
    if not (given.model or model):
        raise InvalidInput(f"workers.{name}: no model or function; set one here, or a model at the top of the file")
    if not given.instructions:
        raise InvalidInput(f"workers.{name}: no instructions; set `instructions`")
    tools: list[Tool | McpServer] = [*(_tool(it, folder) for it in given.tools), *(_server(it, folder) for it in given.servers)]
    return ModelWorker(
        given.model or model,
        given.instructions,
        tools=tools,
        description=given.description,
        requires_approval=given.requires_approval,
        timeout_s=given.timeout_s,
    )


def _tool(given: str | FunctionTable, folder: Path) -> Tool:
    given = FunctionTable(function=given) if isinstance(given, str) else given
    function: Any = find(given.function, folder)
    return tool(function, idempotent=given.idempotent, gate=given.gate)


def _server(given: ServerTable, folder: Path) -> McpServer:
    if bool(given.command) == bool(given.url):
        raise InvalidInput("a server needs a command or a url, and not both")
    scopes: dict[str, Scope] = {name: within(str(folder / it.folder), *it.arguments) for name, it in given.within.items()}
    fields = msgspec.structs.asdict(given)
    del fields["within"]
    return McpServer(**fields, scopes=scopes, folder=str(folder))
