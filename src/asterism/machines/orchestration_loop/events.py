"""What happens to an orchestration loop. Plain data."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from asterism.kernel.machine import EffectResult, Event
from asterism.machines.orchestration_loop.model import Finding, Later, LoopOptions, Step, Strategy, ToolCall, WorkerProfile


class LoopSubmitted(Event, tag="loop_submitted", frozen=True, kw_only=True):
    """A request, for a loop that is defined elsewhere.

    Attributes:
        request: the user's words.
        context: what goes with them (JSON object); every view of the supervisor has it.
        definition: ``module:qualname`` of the loop, or where its file is.
        working_directory: where it was started; what is relative is relative to it.
        fleet_file: where the devices of its children can be opened again; empty for none.
        workers: who there is.
        options: its bounds.
        plan: given when nobody needs to make one.
        has_critique: the answer is criticised before it is given.
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


class StepOnce(Event, tag="step_once", frozen=True, kw_only=True):
    """Go on for one transition, then start nothing new."""

    from_outside: ClassVar[bool] = True


class PlanMade(EffectResult, tag="plan_made", frozen=True, kw_only=True):
    """A plan, or why there is none.

    Attributes:
        steps: what is to be done from here on.
        error: why no plan can be had; empty where one can.
        tokens: what it took.
    """

    steps: tuple[Step, ...] = ()
    error: str = ""
    tokens: int = 0


class WorkerEnded(EffectResult, tag="worker_ended", frozen=True, kw_only=True):
    """A worker has found something, or its result comes later.

    Attributes:
        interrupted: whether it finished is not known.
    """

    finding: Finding = Finding()
    later: Later | None = None
    interrupted: bool = False
    tokens: int = 0


class Reflected(EffectResult, tag="reflected", frozen=True, kw_only=True):
    """What the reflection said.

    Attributes:
        reply: the reply as it came, cut; one word is meant.
        strategy: chosen by name, by a reflection that is code.
        error: why nothing was said.
    """

    reply: str = ""
    strategy: Strategy | None = None
    error: str = ""
    tokens: int = 0


class Synthesized(EffectResult, tag="synthesized", frozen=True, kw_only=True):
    """The answer (JSON), or why there is none."""

    answer: Any = None
    error: str = ""
    tokens: int = 0


class Critiqued(EffectResult, tag="critiqued", frozen=True, kw_only=True):
    """What the critique said: ok, or what is to be better."""

    reply: str = ""
    error: str = ""
    tokens: int = 0


class ModelReplied(EffectResult, tag="model_replied", frozen=True, kw_only=True):
    """A worker's model has replied.

    Attributes:
        text: what it said.
        calls: what it wants called, judged.
        raw: the whole reply as its client gives it, for the next request.
        error: why there is no reply.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    raw: Any = None
    error: str = ""
    tokens: int = 0


class ToolReturned(EffectResult, tag="tool_returned", frozen=True, kw_only=True):
    """A tool call has returned.

    Attributes:
        result: JSON.
        interrupted: whether it was carried out is not known.
    """

    result: Any = None
    interrupted: bool = False
