"""How a loop ends, and how what is outstanding is called off."""

from __future__ import annotations

from asterism.kernel.machine import Turn
from asterism.machines.children import relay
from asterism.machines.control import Cancel, Withdraw
from asterism.machines.orchestration_loop.memory import LoopMemory
from asterism.machines.orchestration_loop.model import State


def call_off(memory: LoopMemory, effect: str, turn: Turn) -> None:
    """Withdraw an outstanding effect, or cancel the child it has started; its outcome will be taken without consequence."""
    turn.perform(relay(effect, Cancel(reason=memory.reason)) if effect in memory.children() else Withdraw(target=effect))
    memory.leaving[effect] = None


def stop(memory: LoopMemory, turn: Turn) -> None:
    """Call off everything that is outstanding."""
    if memory.asking:
        call_off(memory, memory.asking, turn)
        memory.asking = ""
    for activity in memory.active.values():
        for effect in activity.effects():
            call_off(memory, effect, turn)
    memory.active.clear()


def fail(memory: LoopMemory, code: str, reason: str, turn: Turn) -> State:
    """End in FAILED."""
    memory.code, memory.reason = code, reason
    stop(memory, turn)
    return State.FAILED


def past_bound(memory: LoopMemory, turn: Turn) -> tuple[str, str] | None:
    """The bound that it is past, as code and reason, as far as no single move looks after it; None if it is within."""
    options = memory.options
    if turn.at >= memory.started_at + options.wall_limit_s:
        return "wall_limit", f"the run took longer than {options.wall_limit_s:g} s (wall_limit_s)"
    if options.max_tokens is not None and memory.tokens > options.max_tokens:
        return "max_tokens", f"its models took {memory.tokens} tokens, the limit is {options.max_tokens} (max_tokens)"
    return None
