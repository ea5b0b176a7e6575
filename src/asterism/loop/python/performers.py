"""Performers of the effects of an orchestration loop, which call the functions of its definition.

The definition is looked up at each call.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from asterism.devices.attempts.task_log import check_no_secret, hidden, print_trace
from asterism.devices.skills.source import line_of, trace_of
from asterism.engine.kernel.data import as_json, check_json, error_text, read_back
from asterism.engine.kernel.machine import Effect, EffectResult
from asterism.engine.kernel.phrase import Text, phrase
from asterism.engine.ports.performer import Performer, Report
from asterism.engine.runtime.resources import ResourcePool
from asterism.errors import AsterismError, InvalidInput
from asterism.loop.machine.effects import AskModel, CallTool, Critique, MakePlan, Reflect, RunWorker, Synthesize
from asterism.loop.machine.events import Critiqued, ModelReplied, PlanMade, Reflected, Synthesized, ToolReturned, WorkerEnded
from asterism.loop.machine.model import Finding, Later, Step, Strategy, ToolCall
from asterism.loop.machine.requests import ModelCall, Supervision, ToolUse, WorkerCall
from asterism.loop.python.models import ModelSupervisor, lent_model
from asterism.loop.python.outcome import Metered, Supervising
from asterism.loop.python.tool import gated
from asterism.loop.python.worker import AnyWorker, ModelWorker, Worker

log = logging.getLogger("asterism.loop.python")

MAX_REFLECTION = 500
"""Maximum characters of a recorded reflection; no decision is longer."""
MAX_CRITIQUE = 10_000
"""Maximum characters of a recorded critique."""


class Definition(Protocol):
    """The parts of a loop that its performers need."""

    plan: Supervising
    reflect: Supervising
    synthesize: Supervising
    critique: Supervising | None
    workers: Mapping[str, AnyWorker]


Supervised = PlanMade | Reflected | Synthesized | Critiqued
"""The effect results of the supervisor."""
Finder = Callable[[str, str], Definition]
"""Finds a definition by its name and its run's folder; raises InvalidInput if it is missing."""


def loop_performers(find: Finder, pool: ResourcePool) -> dict[type[Effect], Performer]:
    """Return a performer for each loop effect; ``pool`` owns what they open."""
    return {
        AskModel: _ModelAsker(find, pool),
        CallTool: _ToolCaller(find, pool),
        MakePlan: _Supervisor(find, pool, "plan", PlanMade, lambda value: {"steps": steps_of(value)}),
        RunWorker: _WorkerPerformer(find),
        Reflect: _Supervisor(find, pool, "reflect", Reflected, _reflected),
        Synthesize: _Supervisor(find, pool, "synthesize", Synthesized, lambda value: {"answer": as_json(value, "the answer")}),
        Critique: _Supervisor(find, pool, "critique", Critiqued, lambda value: {"reply": str(value)[:MAX_CRITIQUE]}),
    }


class _Supervisor(msgspec.Struct, eq=False):
    """Calls one function of the supervisor; an exception becomes the error of the result.

    Attributes:
        find: finds the definition.
        pool: holds the connections of models.
        role: the attribute of the function; without a function, the value is "ok".
        kind: the class of the result.
        fields: converts the value to fields of the result; raises InvalidInput for an invalid
            value.
    """

    find: Finder
    pool: ResourcePool
    role: str
    kind: type[Supervised]
    fields: Callable[[Any], dict[str, Any]]

    async def perform(self, effect_id: str, request: Supervision, report: Report) -> EffectResult:
        """Call the function and return its result."""
        try:
            function: Supervising | None = getattr(self.find(request.definition, request.folder), self.role)
            lent = (self.pool,) if isinstance(function, ModelSupervisor) else ()
            returned = await function(request.view, *lent) if function else "ok"
            metered = returned if isinstance(returned, Metered) else Metered(returned)
            return read_back(self.kind(effect_id=effect_id, tokens=metered.tokens, **self.fields(metered.value)))
        except Exception as error:  # boundary: a user's function may raise anything
            return self.kind(effect_id=effect_id, error=_located(error, effect_id))


def _reflected(reply: Any) -> dict[str, Any]:
    if isinstance(reply, Strategy):
        return {"strategy": reply}
    return {"reply": reply.strip()[:MAX_REFLECTION] if isinstance(reply, str) else f"no text but {type(reply).__name__}"[:MAX_REFLECTION]}


class _WorkerPerformer(msgspec.Struct, eq=False):
    """Runs a step on a worker, within its timeout."""

    find: Finder

    async def perform(self, effect_id: str, request: WorkerCall, report: Report) -> EffectResult:
        """Call the worker with its handoff; an exception becomes a failed finding."""
        effect, timed = request.effect, asyncio.timeout(request.effect.timeout_s)
        try:
            worker = _worker_of(self.find, request, Worker)
            async with timed:
                found = await worker.function(msgspec.structs.replace(effect.handoff, key=effect_id))
            ended = _ended(effect_id, effect.worker, found)
            check_no_secret(read_back(ended))
            return read_back(ended)
        except Exception as error:  # boundary: a user's worker may raise anything
            late = _late(timed, error, effect.worker, effect.timeout_s)
            return WorkerEnded(
                effect_id=effect_id, finding=Finding(status="timeout" if late else "failed", reason=late or _located(error, effect_id))
            )


def _late(timed: asyncio.Timeout, error: Exception, who: str, timeout_s: float | None) -> Text:
    """Return the words of a timeout; empty for another error, which may be a TimeoutError, too."""
    is_late = timed.expired() and isinstance(error, TimeoutError)
    return phrase("loop.call_too_long", who=who, limit_s=timeout_s or 0) if is_late else ""


def _ended(effect_id: str, worker: str, found: Any) -> WorkerEnded:
    metered = found if isinstance(found, Metered) else Metered(found)
    value, what = metered.value, f"the result of {worker}"
    if isinstance(value, Later):
        return WorkerEnded(effect_id=effect_id, later=value, tokens=metered.tokens)
    if isinstance(value, Finding):
        finding = msgspec.structs.replace(value, output=as_json(value.output, what))
    else:
        finding = Finding(output=as_json(value, what))
    return WorkerEnded(effect_id=effect_id, finding=finding, tokens=metered.tokens)


class _ModelAsker(msgspec.Struct, eq=False):
    """Asks a worker's model for its next reply."""

    find: Finder
    pool: ResourcePool

    async def perform(self, effect_id: str, request: ModelCall, report: Report) -> EffectResult:
        """Return one reply; a model or server that is unavailable becomes its error."""
        effect, timed = request.effect, asyncio.timeout(request.effect.timeout_s)
        try:
            worker = _worker_of(self.find, request, ModelWorker)
            async with timed:
                tools = await worker.open_tools(self.pool)
                async with lent_model(worker.model, self.pool) as model:
                    from asterism.loop.python.conversation import reply  # noqa: PLC0415 - slow, and needs an extra

                    return read_back(await reply(effect_id, model, worker.instructions, effect.handoff, rounds=request.rounds, tools=tools))
        except Exception as error:  # boundary: a model's client may raise anything
            return ModelReplied(effect_id=effect_id, error=_late(timed, error, "the model", effect.timeout_s) or _located(error, effect_id))


class _ToolCaller(msgspec.Struct, eq=False):
    """Makes a tool call after checking it again: a person may have edited the arguments."""

    find: Finder
    pool: ResourcePool

    async def perform(self, effect_id: str, request: ToolUse, report: Report) -> EffectResult:
        """Make one call; an exception or a timeout becomes a failed result for the model."""
        effect, timed = request.effect, asyncio.timeout(request.timeout_s)
        try:
            worker = _worker_of(self.find, request, ModelWorker)
            tools = await worker.open_tools(self.pool)
            asked = gated(ToolCall(call_id=effect.call_id, tool=effect.tool, arguments=effect.arguments), tools)
            if asked.gate in ("destructive", "external") and not request.trusted:  # the definition has changed since the model's request
                asked = msgspec.structs.replace(asked, denied="this tool now requires approval; call it again")
            if asked.denied:
                return ToolReturned(effect_id=effect_id, result={"status": "denied", "reason": asked.denied, "feedback": ""})
            async with timed:
                returned = await tools[effect.tool].call(effect.arguments, effect_id)
            result = as_json(returned, f"the result of {effect.tool}")
            check_no_secret(result)
        except Exception as error:  # boundary: a tool may raise anything
            late = _late(timed, error, effect.tool, request.timeout_s)
            result = {
                "status": "failed",
                "reason": f"{late}; it is unknown if the call took effect" if late else _located(error, effect_id),
            }
        return ToolReturned(effect_id=effect_id, result=result)


W = TypeVar("W", Worker, ModelWorker)


def _worker_of(find: Finder, request: WorkerCall | ModelCall | ToolUse, kind: type[W]) -> W:
    name, workers = request.effect.worker, find(request.definition, request.folder).workers
    found = workers.get(name)
    if not isinstance(found, kind):
        raise InvalidInput(f"the loop no longer has worker {name!r} of that kind; it has {', '.join(workers)}")
    return found


def steps_of(value: Any) -> tuple[Step, ...]:
    """Convert the result of a planning function to steps.

    Each item is a ``Step`` or its fields; the items of a nested list run in parallel.

    Raises:
        InvalidInput: the value is not a plan. Names the step.
    """
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise InvalidInput(f"a plan is a list of steps, not a {type(value).__name__}")
    steps: list[Step] = []
    for number, item in enumerate(value, 1):
        if isinstance(item, list):
            steps += [msgspec.structs.replace(_step(each, number), group=f"group_{number}") for each in item]
        else:
            steps.append(_step(item, number))
    return tuple(steps)


def _step(item: Any, number: int) -> Step:
    where = f"step {number} of the plan"
    try:
        step = item if isinstance(item, Step) else msgspec.convert(item, Step)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{where}: {error}") from None
    check_json(step.context, f"{where}: its context")
    return step


def _located(error: Exception, effect_id: str) -> str:
    """Return the text and line of an error in user code; the trace is logged as INFO."""
    line = "" if isinstance(error, AsterismError) else line_of(error)
    if line:
        log.info("%s failed\n%s", effect_id, hidden("".join(traceback.format_exception(error))))
        print_trace(trace_of(error))
    return hidden(error_text(error)) + (f" ({line})" if line else "")
