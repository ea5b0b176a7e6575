"""Requests to the planner: one at a time, within the limits, and again after a refused answer."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from asterism.constellation.machine.events import AskPlanner, RaiseLimits, WeavingMode
from asterism.constellation.machine.memory import (
    Awaiting,
    AwaitingPlanner,
    ConstellationMemory,
    Deferred,
    NotPlanning,
    PlanRequest,
)
from asterism.engine.kernel.machine import StepContext
from asterism.engine.kernel.phrase import Phrase, Text, phrase
from asterism.errors import Refused


def ask_planner(memory: ConstellationMemory, context: StepContext, request: PlanRequest | None = None) -> None:
    """Ask the planner for a constellation, or for edits if there is one.

    Without budget left, the request is deferred and the run pauses itself. By default it is the
    deferred one, or one about the tasks that have ended.
    """
    deferred = memory.planning if isinstance(memory.planning, Deferred) else None
    request = request or memory.open_request
    request = msgspec.structs.replace(request, batch=tuple(dict.fromkeys([*request.batch, *memory.batch])))
    counted = deferred is not None and deferred.counted
    memory.batch.clear()
    memory.unseen.clear()
    if why := over_limit(memory):
        defer(memory, request, why, counted=counted)
        return
    memory.asks += not counted
    effect = context.schedule(
        AskPlanner(
            mode=WeavingMode.EDITING if memory.schedule else WeavingMode.CREATION,
            request=memory.request,
            base_version=memory.constellation.version,
            batch=request.batch,
            feedback=request.feedback,
            number=memory.asks,
            rejections=request.rejections,
        )
    )
    memory.planning = AwaitingPlanner(request=request, effect_id=effect, asked_at=context.seq)


def defer(memory: ConstellationMemory, request: PlanRequest, why: Text, *, counted: bool) -> None:
    """Keep a request until its limit is raised, and pause the run."""
    memory.planning = Deferred(request=request, counted=counted)
    memory.paused, memory.limit = True, why


def raise_limits(memory: ConstellationMemory, event: RaiseLimits, context: StepContext) -> StrEnum:
    """Raise the limits of planning, and unpause a run that had paused itself for them.

    Raises:
        Refused: planning has already used as much as the new limit.
    """
    before, given = memory.options, msgspec.structs.asdict(event)
    memory.options = msgspec.structs.replace(before, **{name: limit for name, limit in given.items() if limit is not None})
    if why := over_limit(memory):
        memory.options = before
        raise Refused(phrase("limit_too_low", why=why))
    if memory.limit:
        memory.paused, memory.limit = False, ""
    return context.state


def over_limit(memory: ConstellationMemory) -> Phrase | None:
    """Return the reason why the planner may not be asked any more; None while it may."""
    left, used, options = memory.budget_left(), memory.used, memory.options
    if left is None or (left.tokens > 0 and left.cost_usd > 0):
        return None
    if options.max_tokens is not None and left.tokens <= 0:
        return phrase("tokens_used", used=used.tokens, most=options.max_tokens)
    return phrase("money_spent", spent=used.cost_usd, most=options.max_cost_usd or 0.0)


def may_ask_again(memory: ConstellationMemory) -> bool:
    """Return True if the limits allow another request about the same batch."""
    if isinstance(memory.planning, NotPlanning):
        return False
    return memory.planning.request.reasks < memory.options.max_reasks and memory.asks < memory.options.max_asks


def ask_again(memory: ConstellationMemory, context: StepContext, feedback: Phrase, *, rejection: Phrase | None = None) -> None:
    """Ask again about the same batch, with the reason why the last answer failed as feedback."""
    last = memory.open_request
    rejections = (*last.rejections, rejection) if rejection else last.rejections
    ask_planner(memory, context, msgspec.structs.replace(last, reasks=last.reasks + 1, feedback=feedback, rejections=rejections))


def what_moved(memory: ConstellationMemory) -> list[Text]:
    """Return which tasks have moved since the planner was asked."""
    moved = memory.planning.moved if isinstance(memory.planning, Awaiting) else {}
    tasks = memory.constellation.tasks
    return [phrase("task_is", task=task_id, status=tasks[task_id].status) for task_id in moved if task_id in tasks]
