"""Workers, which carry out steps, and the tools of those with a model."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from asterism.constellation.machine.definition import ConstellationDefinition
from asterism.constellation.model.documents import PlanDocument, parse_plan
from asterism.engine.kernel.profile import AgentProfile, ChildSpec
from asterism.engine.runtime.resources import ResourcePool
from asterism.errors import InvalidInput
from asterism.loop.machine.model import Handoff, WorkerProfile
from asterism.loop.python.models import ModelName
from asterism.loop.python.server import McpServer
from asterism.loop.python.tool import Tool, tool

WorkerFunction = Callable[[Handoff], Awaitable[Any]]
"""Returns JSON, a ``Finding``, or ``Later`` for an external result. Errors are failed findings."""
ToolSource = Tool | McpServer | Callable[..., Any]
"""A source of tools; a function stands for the tool that ``tool`` makes of it."""


@dataclass(kw_only=True, eq=False)
class AnyWorker:
    """The settings that all workers share.

    Attributes:
        description: description for the planner.
        requires_approval: a person must approve each of its steps.
        timeout_s: seconds allowed for one attempt, for one reply or tool call of a model (a
            function that is not async continues in its thread), or for all of a child; None for no
            limit.
    """

    description: str = ""
    requires_approval: bool = False
    timeout_s: float | None = None

    def profile(self, name: str) -> WorkerProfile:
        """Return the settings that the loop's machine needs."""
        return WorkerProfile(name=name, description=self.description, requires_approval=self.requires_approval, timeout_s=self.timeout_s)


@dataclass(eq=False)
class Worker(AnyWorker):
    """An async function as a worker.

    Attributes:
        function: carries out a step.
        description: description for the planner; by default the first paragraph of the docstring.
        idempotent: repeating it with the same key is harmless; otherwise a person is asked after a
            crash.

    Raises:
        InvalidInput: the function is not async.
    """

    function: WorkerFunction
    idempotent: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        check_async(self.function, "a worker")
        self.description = self.description or (inspect.getdoc(self.function) or "").partition("\n\n")[0]

    def profile(self, name: str) -> WorkerProfile:
        """Return the settings that the loop's machine needs."""
        return msgspec.structs.replace(super().profile(name), idempotent=self.idempotent)


@dataclass(eq=False)
class ModelWorker(AnyWorker):
    """A model with tools as a worker. The journal records each reply and each tool call.

    Attributes:
        model: ``provider:name``, a ``ModelChoice``, or a model of pydantic-ai.
        instructions: the system prompt.
        tools: Python functions, ``tool(…)``, and ``McpServer``; the model can call nothing else.
        description: description for the planner; by default the first line of the instructions.

    Raises:
        InvalidInput: a tool is invalid.
    """

    model: ModelName
    instructions: str
    tools: Collection[ToolSource] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        self._sources = [it if isinstance(it, Tool | McpServer) else tool(it) for it in self.tools]
        self.description = self.description or self.instructions.partition("\n")[0]

    async def open_tools(self, pool: ResourcePool) -> dict[str, Tool]:
        """Return the tools by name.

        Raises:
            InvalidInput: a server is unavailable, or two tools have one name.
        """
        found: dict[str, Tool] = {}
        for source in self._sources:
            for each in [source] if isinstance(source, Tool) else await source.tools(pool):
                if each.name in found:
                    raise InvalidInput(f"two tools of one worker have the name {each.name}")
                found[each.name] = each
        return found

    def profile(self, name: str) -> WorkerProfile:
        """Return the settings that the loop's machine needs."""
        return msgspec.structs.replace(super().profile(name), converses=True)


@dataclass(eq=False)
class ChildWorker(AnyWorker):
    """A child run as a worker: another loop, or a constellation.

    Its questions go up to the root; cancel, pause and time limits come down.

    Attributes:
        spec: the child to start.
        idempotent: a fork may start it again without asking a person.
    """

    spec: ChildSpec
    idempotent: bool = field(default=False, kw_only=True)

    def profile(self, name: str) -> WorkerProfile:
        """Return the settings that the loop's machine needs."""
        return msgspec.structs.replace(super().profile(name), idempotent=self.idempotent, child=self.spec)


def constellation(
    plan: PlanDocument | Mapping[str, Any], fleet: Iterable[AgentProfile], *, description: str = "", **more: Any
) -> ChildWorker:
    """Return a constellation as a worker. The runtime that drives the loop must have its devices.

    The outputs that a step uses are its inputs.

    Args:
        plan: the tasks and dependencies.
        fleet: profiles of the devices.
        description: description for the planner.
        more: other fields of ``ChildWorker``.

    Raises:
        InvalidInput: the plan is invalid.
    """
    document = plan if isinstance(plan, PlanDocument) else parse_plan(plan)
    return ChildWorker(ConstellationDefinition(fleet=tuple(fleet), plan=document).as_child(), description=description, **more)


def check_async(function: object, what: str) -> None:
    """Check that a function, or an object that can be called, is async.

    Raises:
        InvalidInput: it is not async.
    """
    called = function if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004 - the method itself is inspected
    if not inspect.iscoroutinefunction(called):
        named = f"{function.__name__}, which is not async" if inspect.isroutine(function) else f"a {type(function).__name__}"
        raise InvalidInput(f"{what} must be an async function of one argument, not {named}")
