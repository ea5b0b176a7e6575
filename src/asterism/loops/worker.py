"""A worker: what carries out a step, and the tools it may call. It sees its handoff, and nothing else."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from asterism.constellation.documents import PlanDocument, parse_plan
from asterism.constellation.profile import AgentProfile, ChildSpec
from asterism.errors import InvalidInput
from asterism.loops.models import ModelName
from asterism.loops.resources import ResourcePool
from asterism.loops.server import McpServer
from asterism.loops.tool import Tool, tool
from asterism.machines.children import event_data
from asterism.machines.constellation_agent.definition import ConstellationDefinition
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.machines.orchestration_loop.model import Handoff, WorkerProfile

WorkerFunction = Callable[[Handoff], Awaitable[Any]]
"""Returns JSON, a ``Finding``, or ``Later`` where the result comes from outside. What it raises is a failed finding."""
ToolSource = Tool | McpServer | Callable[..., Any]
"""What tools come from: a function may stand for the tool that it makes."""


@dataclass(kw_only=True, eq=False)
class AnyWorker:
    """What a loop is told of a worker, whatever it is.

    Attributes:
        description: for whoever plans.
        requires_approval: a person must say yes to each of its steps.
        timeout_s: bound on one attempt, on one reply or tool call of a model (a function that is not async goes on in its
            thread), or on the whole of a child; None for none.
    """

    description: str = ""
    requires_approval: bool = False
    timeout_s: float | None = None

    def profile(self, name: str) -> WorkerProfile:
        """What the loop's machine knows of it."""
        return WorkerProfile(name=name, description=self.description, requires_approval=self.requires_approval, timeout_s=self.timeout_s)


@dataclass(eq=False)
class Worker(AnyWorker):
    """An async function as a worker.

    Attributes:
        function: carries out a step.
        description: by default the first paragraph of the function's docstring.
        idempotent: performing it again under the same key does no harm. Of one that is not, a person is asked after a crash.

    Raises:
        InvalidInput: it is no async function of one argument.
    """

    function: WorkerFunction
    idempotent: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        check_async(self.function, "a worker")
        self.description = self.description or (inspect.getdoc(self.function) or "").partition("\n\n")[0]

    def profile(self, name: str) -> WorkerProfile:
        """What the loop's machine knows of it."""
        return msgspec.structs.replace(super().profile(name), idempotent=self.idempotent)


class Toolbox:
    """The tools of one worker. What is not in it cannot be called, whatever a model wants."""

    def __init__(self, sources: Collection[ToolSource]) -> None:
        self._sources: Sequence[Tool | McpServer] = [it if isinstance(it, Tool | McpServer) else tool(it) for it in sources]

    async def tools(self, keeper: ResourcePool) -> dict[str, Tool]:
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


@dataclass(eq=False)
class ModelWorker(AnyWorker):
    """A model with tools as a worker. Its replies and its tool calls are journaled one by one.

    Attributes:
        model: ``provider:name``, a ``ModelChoice`` of the planner's, or a model of pydantic-ai.
        instructions: what it is for, and how it is to work.
        tools: Python functions, ``tool(…)``, and ``McpServer``; nothing else can be called.
        description: by default the first line of the instructions.

    Raises:
        InvalidInput: a tool cannot be made of what was given.
    """

    model: ModelName
    instructions: str
    tools: Collection[ToolSource] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        self.toolbox = Toolbox(self.tools)
        self.description = self.description or self.instructions.partition("\n")[0]

    def profile(self, name: str) -> WorkerProfile:
        """What the loop's machine knows of it."""
        return msgspec.structs.replace(super().profile(name), converses=True)


@dataclass(eq=False)
class ChildWorker(AnyWorker):
    """A run of its own as a worker: of another loop, or of a constellation. Its questions reach the root; cancel, pause and time go down.

    Attributes:
        spec: what is started.
        idempotent: a fork may begin it anew without asking a person.
    """

    spec: ChildSpec
    idempotent: bool = field(default=False, kw_only=True)

    def profile(self, name: str) -> WorkerProfile:
        """What the loop's machine knows of it."""
        return msgspec.structs.replace(super().profile(name), idempotent=self.idempotent, child=self.spec)


def constellation(
    plan: PlanDocument | Mapping[str, Any], fleet: Iterable[AgentProfile], *, description: str = "", **more: Any
) -> ChildWorker:
    """A constellation as a worker; the runtime that drives the loop must have its devices. What the step uses is its inputs.

    Args:
        plan: its tasks and dependencies.
        fleet: profiles of its devices.
        description: for whoever plans.
        more: as ``ChildWorker`` takes it.

    Raises:
        InvalidInput: it is no plan.
    """
    document = plan if isinstance(plan, PlanDocument) else parse_plan(plan)
    definition = event_data(ConstellationDefinition(fleet=tuple(fleet), plan=document))
    return ChildWorker(ChildSpec(machine=CONSTELLATION_AGENT.name, definition=definition), description=description, **more)


def check_async(function: object, what: str) -> None:
    """See that something is an async function, or an object that is called like one.

    Raises:
        InvalidInput: it is not.
    """
    called = function if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004 - its async-ness is asked
    if not inspect.iscoroutinefunction(called):
        named = f"{function.__name__}, which is not async" if inspect.isroutine(function) else f"a {type(function).__name__}"
        raise InvalidInput(f"{what} is an async function of one argument, not {named}")
