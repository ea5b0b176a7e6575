"""How the planner is asked: once at a time, within its limits, and again when its answer cannot be taken."""

from __future__ import annotations

import msgspec

from asterism.constellation.edits import Refusal
from asterism.errors import Refused
from asterism.kernel.machine import Turn
from asterism.machines.constellation_agent.events import AskPlanner, RaiseLimits, WeavingMode
from asterism.machines.constellation_agent.memory import NAMED, AgentMemory, Asking


def ask_planner(memory: AgentMemory, turn: Turn, asking: Asking) -> None:
    """Put a question to the planner: for a constellation where there is none, else for edits.

    Where planning has used what it may, the question waits and the run pauses itself.
    """
    asking.batch = tuple(dict.fromkeys([*asking.batch, *memory.batch]))
    memory.asking = asking
    memory.batch.clear()
    memory.unseen.clear()
    if why := over_limit(memory):
        memory.paused, memory.limit = True, why
        return
    memory.asks += not asking.put_at  # what was put off, and is put again, is the same question
    asking.put_at = turn.seq
    asking.effect = turn.perform(
        AskPlanner(
            mode=WeavingMode.EDITING if memory.board else WeavingMode.CREATION,
            request=memory.request,
            version=memory.constellation.version,
            batch=asking.batch,
            told=asking.told,
            refusal=asking.refusal,
            number=memory.asks,
            rejections=asking.rejections,
        )
    )


def put_off(memory: AgentMemory, why: str) -> None:
    """The planner would have gone past a limit: its question waits for a higher one."""
    if memory.asking:
        memory.asking.effect = ""
    memory.paused, memory.limit = True, why


def raise_limits(memory: AgentMemory, event: RaiseLimits) -> None:
    """Let planning use more; a run that has paused itself for its limit goes on.

    Raises:
        Refused: it has used as much already.
    """
    before, given = memory.options, msgspec.structs.asdict(event)
    memory.options = msgspec.structs.replace(before, **{name: limit for name, limit in given.items() if limit is not None})
    if why := over_limit(memory):
        memory.options = before
        raise Refused(f"{why}: that is no more than was used")
    if memory.limit:
        memory.paused, memory.limit = False, ""


def over_limit(memory: AgentMemory) -> str:
    """Why the planner may not be asked any more; empty while it may."""
    left, used, options = memory.budget_left(), memory.used, memory.options
    if left is None or (left.tokens > 0 and left.cost_usd > 0):
        return ""
    if options.max_tokens is not None and left.tokens <= 0:
        return f"planning has used {used.tokens} tokens, and may use {options.max_tokens}"
    return f"planning has cost {used.cost_usd:.4f} dollars, and may cost {options.max_cost_usd:.4f}"


def may_ask_again(memory: AgentMemory) -> bool:
    """Whether the bounds leave room for another question about the same batch."""
    asking = memory.asking
    return asking is not None and asking.reasks < memory.options.max_reasks and memory.asks < memory.options.max_asks


def ask_again(memory: AgentMemory, turn: Turn, told: str, refusal: Refusal | None = None, *, rejection: str = "") -> None:
    """Tell the planner why its answer could not be taken, and ask once more about the same batch."""
    last = memory.asking or Asking()
    rejections = (*last.rejections, rejection) if rejection else last.rejections
    again = Asking(batch=last.batch, reasks=last.reasks + 1, told=told, refusal=refusal, reason=last.reason, rejections=rejections)
    ask_planner(memory, turn, again)


def what_moved(memory: AgentMemory) -> str:
    """What has become of tasks since the planner was asked, in words; empty where nothing has."""
    moved = memory.asking.moved if memory.asking else {}
    tasks = memory.constellation.tasks
    there = [f"{task_id} is {tasks[task_id].status}" for task_id in moved if task_id in tasks]
    more = f" and {len(there) - NAMED} more" if len(there) > NAMED else ""
    return f" Since you were asked: {', '.join(there[:NAMED])}{more}." if there else ""
