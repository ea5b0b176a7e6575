"""The events of an orchestration loop, as plain data."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from asterism.engine.kernel.guards import Guards
from asterism.engine.kernel.machine import EffectResult, Event, Needs, StartRequest
from asterism.engine.kernel.phrase import Text
from asterism.loop.machine.model import Finding, Later, LoopOptions, Step, Strategy, ToolCall, WorkerProfile


class LoopSubmitted(Event, tag="loop_submitted", frozen=True, kw_only=True):
    """A request to a loop: the first event of a run.

    Attributes:
        context: JSON object that belongs to the request and is in every view of the supervising
            functions.
        definition: ``module:qualname`` of the loop, or the path of its file.
        working_directory: folder where the run was started; base of relative paths.
        fleet_file: file from which the devices of its children are opened again; empty for none.
        plan: the plan, if none needs to be made.
        has_critique: True if the answer is criticised before the run completes.
        guards: its guards.
    """

    request: str
    context: dict[str, Any] = msgspec.field(default_factory=dict)
    definition: str = ""
    working_directory: str = ""
    fleet_file: str = ""
    workers: tuple[WorkerProfile, ...]
    options: LoopOptions = LoopOptions()
    plan: tuple[Step, ...] = ()
    has_critique: bool = False
    guards: Guards = Guards()

    def needs(self) -> Needs:
        """Return the devices of its children."""
        return Needs(fleet_file=self.fleet_file)


class StepOnce(Event, tag="step_once", frozen=True, kw_only=True):
    """Make one transition, then pause."""

    from_outside: ClassVar[bool] = True


class PlanMade(EffectResult, tag="plan_made", frozen=True, kw_only=True):
    """A plan, or the reason why there is none.

    Attributes:
        steps: the steps that replace those that have not started.
        error: reason why there is no plan; empty if there is one.
    """

    steps: tuple[Step, ...] = ()
    error: Text = ""
    tokens: int = 0


class WorkerEnded(EffectResult, tag="worker_ended", frozen=True, kw_only=True):
    """A worker has a finding, or its result comes later.

    Attributes:
        interrupted: True if the worker may have finished or not.
    """

    finding: Finding = Finding()
    later: Later | None = None
    interrupted: bool = False
    tokens: int = 0


class Reflected(EffectResult, tag="reflected", frozen=True, kw_only=True):
    """The reply of the reflection.

    Attributes:
        reply: the reply, cut; it should be one word.
        strategy: strategy that a reflection in code has chosen.
        error: reason why there is no reply.
    """

    reply: str = ""
    strategy: Strategy | None = None
    error: Text = ""
    tokens: int = 0


class Synthesized(EffectResult, tag="synthesized", frozen=True, kw_only=True):
    """The answer, as JSON, or the reason why there is none."""

    answer: Any = None
    error: Text = ""
    tokens: int = 0


class Critiqued(EffectResult, tag="critiqued", frozen=True, kw_only=True):
    """The reply of the critique: ``ok``, or the improvements that the draft needs."""

    reply: str = ""
    error: Text = ""
    tokens: int = 0


class ModelReplied(EffectResult, tag="model_replied", frozen=True, kw_only=True):
    """The reply of a worker's model.

    Attributes:
        calls: requested tool calls, checked.
        raw: the whole reply as its client returns it, for the next request.
        error: reason why there is no reply.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    raw: Any = None
    error: Text = ""
    tokens: int = 0


class ToolReturned(EffectResult, tag="tool_returned", frozen=True, kw_only=True):
    """The result of a tool call.

    Attributes:
        result: JSON.
        interrupted: True if it is unknown whether the call was made.
        reason: what interrupted it.
    """

    result: Any = None
    interrupted: bool = False
    reason: Text = ""


# -- start by another run --------------------------------------------------------------------------


class LoopDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Everything of a loop that is known before its request and inputs.

    Attributes:
        definition, working_directory, workers, options, plan, has_critique: as in
            ``LoopSubmitted``.
    """

    definition: str = ""
    working_directory: str = ""
    workers: tuple[WorkerProfile, ...] = ()
    options: LoopOptions = LoopOptions()
    plan: tuple[Step, ...] = ()
    has_critique: bool = False

    def submitted(self, request: str, context: dict[str, Any], *, fleet_file: str = "") -> LoopSubmitted:
        """Return the event that begins a run of this loop."""
        return LoopSubmitted(request=request, context=context, fleet_file=fleet_file, **msgspec.structs.asdict(self))


def first_event(start: StartRequest) -> LoopSubmitted:
    """Return the event that begins the run.

    Raises:
        InvalidInput: the definition of the request is not a ``LoopDefinition``.
    """
    defined = start.defined_as(LoopDefinition)
    limit_s = start.limit_s(defined.options.wall_limit_s, default_s=LoopOptions().wall_limit_s)
    options = msgspec.structs.replace(defined.options, wall_limit_s=limit_s)
    first = msgspec.structs.replace(defined, options=options).submitted(start.request, start.inputs, fleet_file=start.fleet_file)
    return msgspec.structs.replace(first, guards=start.guards)
