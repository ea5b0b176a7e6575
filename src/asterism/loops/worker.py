"""A worker: what carries out a step. It sees its handoff, and nothing else."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

from asterism.constellation.documents import PlanDocument, parse_plan
from asterism.constellation.profile import AgentProfile, ChildSpec
from asterism.errors import InvalidInput
from asterism.loops.models import ModelName
from asterism.loops.tool import Toolbox, ToolSource
from asterism.machines.constellation_agent.events import Submitted
from asterism.machines.control import as_data
from asterism.machines.orchestration_loop.model import Handoff, WorkerProfile

WorkerFunction = Callable[[Handoff], Awaitable[Any]]
"""Returns JSON, a ``Finding``, or ``Later`` where the result comes from outside. What it raises is a failed finding."""


class Worker:
    """An async function as a worker.

    Args:
        function: carries out a step.
        description: for whoever plans; by default the first paragraph of its docstring.
        idempotent: performing it again under the same key does no harm. Of one that is not, a person is asked after a crash.
        requires_approval: a person must say yes to each of its steps.
        timeout_s: bound on one attempt; None for none.

    Raises:
        InvalidInput: it is no async function of one argument.
    """

    def __init__(
        self,
        function: WorkerFunction,
        *,
        description: str = "",
        idempotent: bool = False,
        requires_approval: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        check_async(function, "a worker")
        self.function = function
        self.description = description or (inspect.getdoc(function) or "").partition("\n\n")[0]
        self.idempotent = idempotent
        self.requires_approval = requires_approval
        self.timeout_s = timeout_s

    def profile(self, name: str) -> WorkerProfile:
        """What the loop's machine knows of it."""
        return WorkerProfile(
            name=name,
            description=self.description,
            idempotent=self.idempotent,
            requires_approval=self.requires_approval,
            timeout_s=self.timeout_s,
        )


class ModelWorker:
    """A model with tools as a worker. Its replies and its tool calls are journaled one by one.

    Args:
        model: ``provider:name``, a ``ModelChoice`` of the planner's, or a model of pydantic-ai.
        instructions: what it is for, and how it is to work.
        tools: Python functions, ``tool(…)``, and ``McpServer``; nothing else can be called.
        description: for whoever plans.
        requires_approval: a person must say yes to each of its steps.
        timeout_s: bound on one reply; None for none.

    Raises:
        InvalidInput: a tool cannot be made of what was given.
    """

    def __init__(
        self,
        model: ModelName,
        instructions: str,
        *,
        tools: Collection[ToolSource] = (),
        description: str = "",
        requires_approval: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        self.model = model
        self.instructions = instructions
        self.toolbox = Toolbox(tools)
        self.description = description or instructions.partition("\n")[0]
        self.requires_approval = requires_approval
        self.timeout_s = timeout_s

    def profile(self, name: str) -> WorkerProfile:
        """What the loop's machine knows of it."""
        return WorkerProfile(
            name=name,
            description=self.description,
            converses=True,
            requires_approval=self.requires_approval,
            timeout_s=self.timeout_s,
        )


class ChildWorker:
    """A run of its own as a worker: of another loop, or of a constellation. Its questions reach the root; cancel, pause and time go down.

    Args:
        spec: how it begins.
        description: for whoever plans.
        idempotent: a fork may begin it anew without asking a person.
        requires_approval: a person must say yes to each of its steps.
        timeout_s: bound on the child; None for what the loop has left.
    """

    def __init__(
        self,
        spec: ChildSpec,
        *,
        description: str = "",
        idempotent: bool = False,
        requires_approval: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        self.spec = spec
        self.description = description
        self.idempotent = idempotent
        self.requires_approval = requires_approval
        self.timeout_s = timeout_s

    def profile(self, name: str) -> WorkerProfile:
        """What the loop's machine knows of it."""
        return WorkerProfile(
            name=name,
            description=self.description,
            idempotent=self.idempotent,
            requires_approval=self.requires_approval,
            timeout_s=self.timeout_s,
            child=self.spec,
        )


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
    submitted = as_data(Submitted(request="", fleet=tuple(fleet), plan=document))
    spec = ChildSpec(machine="constellation agent", first_kind=Submitted.__name__, first=submitted, hands_to="inputs")
    return ChildWorker(spec, description=description, **more)


AnyWorker = Worker | ModelWorker | ChildWorker


def check_async(function: object, what: str) -> None:
    """See that something is an async function, or an object that is called like one.

    Raises:
        InvalidInput: it is not.
    """
    called = function if inspect.isroutine(function) else getattr(function, "__call__", None)  # noqa: B004 - its async-ness is asked
    if not inspect.iscoroutinefunction(called):
        raise InvalidInput(f"{what} is an async function of one argument, not {function!r}")
