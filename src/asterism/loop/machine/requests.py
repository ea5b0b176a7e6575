"""The requests of the loop's effects: to supervising functions, workers, models and tools. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from asterism.engine.kernel.machine import Effect, RequestFactory
from asterism.engine.kernel.run import Run
from asterism.loop.machine.effects import AskModel, CallTool, Critique, MakePlan, Reflect, RunWorker, Synthesize
from asterism.loop.machine.memory import LoopMemory, ModelRound
from asterism.loop.machine.view import LoopView, view_of


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request of a loop.

    Attributes:
        definition, folder: the loop's definition and the folder it is relative to.
    """

    definition: str
    folder: str


class Supervision(_Request, frozen=True, kw_only=True):
    """A call of a supervising function.

    Attributes:
        effect: the effect, whose kind selects the function.
    """

    effect: MakePlan | Reflect | Synthesize | Critique
    view: LoopView


class WorkerCall(_Request, frozen=True, kw_only=True):
    """A call of a worker."""

    effect: RunWorker


class ModelCall(_Request, frozen=True, kw_only=True):
    """A request to a worker's model."""

    effect: AskModel
    rounds: tuple[ModelRound, ...] = ()


class ToolUse(_Request, frozen=True, kw_only=True):
    """A tool call of a worker's model.

    Attributes:
        trusted: True if a person has confirmed this call, or trusts the tool for the rest of the
            run.
    """

    effect: CallTool
    timeout_s: float | None = None
    trusted: bool = False


def _supervision(run: Run[LoopMemory], effect_id: str, effect: MakePlan | Reflect | Synthesize | Critique) -> Supervision:
    memory = run.memory
    return Supervision(definition=memory.definition, folder=memory.working_directory, effect=effect, view=view_of(memory, effect_id))


def _worker_call(run: Run[LoopMemory], effect_id: str, effect: RunWorker) -> WorkerCall:
    return WorkerCall(definition=run.memory.definition, folder=run.memory.working_directory, effect=effect)


def _model_call(run: Run[LoopMemory], effect_id: str, effect: AskModel) -> ModelCall:
    memory = run.memory
    rounds = tuple(memory.active[effect.step_id].rounds)
    return ModelCall(definition=memory.definition, folder=memory.working_directory, effect=effect, rounds=rounds)


def _tool_use(run: Run[LoopMemory], effect_id: str, effect: CallTool) -> ToolUse:
    memory = run.memory
    return ToolUse(
        definition=memory.definition,
        folder=memory.working_directory,
        effect=effect,
        timeout_s=memory.workers[effect.worker].timeout_s,
        trusted=effect.confirmed or f"{effect.worker}:{effect.tool}" in memory.trusted,
    )


REQUESTS: Mapping[type[Effect], RequestFactory] = {
    **dict.fromkeys((MakePlan, Reflect, Synthesize, Critique), RequestFactory(_supervision)),
    RunWorker: RequestFactory(_worker_call),
    AskModel: RequestFactory(_model_call),
    CallTool: RequestFactory(_tool_use),
}
"""The request factories of its effects."""
