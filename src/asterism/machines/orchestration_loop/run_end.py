"""The end of a loop's run."""

from __future__ import annotations

from asterism.kernel.machine import StepContext
from asterism.machines.common_rows import cancel_effect
from asterism.machines.orchestration_loop.memory import LoopMemory
from asterism.machines.orchestration_loop.model import State


def stop(memory: LoopMemory, context: StepContext) -> None:
    """Cancel everything outstanding."""
    if memory.open_call:
        cancel_effect(memory.open_call, context, memory.reason)
        memory.open_call = ""
    for activity in memory.active.values():
        for effect in activity.effects():
            cancel_effect(effect, context, memory.reason)
    context.touch("task", *memory.active)
    memory.active.clear()


def fail(memory: LoopMemory, code: str, reason: str, context: StepContext) -> State:
    """End the run in FAILED."""
    memory.code, memory.reason = code, reason
    stop(memory, context)
    return State.FAILED


def past_bound(memory: LoopMemory, context: StepContext) -> tuple[str, str] | None:
    """Return code and reason of an exceeded time or token limit; None within the limits."""
    options = memory.options
    if context.at >= memory.started_at + options.wall_limit_s:
        return "wall_limit", f"the run took longer than {options.wall_limit_s:g} s (wall_limit_s)"
    if options.max_tokens is not None and memory.tokens > options.max_tokens:
        return "max_tokens", f"its models took {memory.tokens} tokens, the limit is {options.max_tokens} (max_tokens)"
    return None
