"""How the effects of an orchestration loop are carried out: by the functions of its definition, which is looked for when one is called."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from asterism.devices.source import line_of
from asterism.errors import AsterismError, InvalidInput
from asterism.kernel.data import as_json, check_json, error_text, read_back
from asterism.kernel.machine import Effect, EffectResult
from asterism.loops.models import opened
from asterism.loops.outcome import Metered, Supervising
from asterism.loops.resources import ResourcePool
from asterism.loops.tool import gated
from asterism.loops.worker import AnyWorker, ModelWorker, Worker
from asterism.machines.orchestration_loop.effects import AskModel, CallTool, Critique, MakePlan, Reflect, RunWorker, Synthesize
from asterism.machines.orchestration_loop.events import Critiqued, ModelReplied, PlanMade, Reflected, Synthesized, ToolReturned, WorkerEnded
from asterism.machines.orchestration_loop.model import Finding, Later, Step, Strategy, ToolCall
from asterism.machines.orchestration_loop.requests import ModelCall, Supervision, ToolUse, WorkerCall
from asterism.runtime.ports.performer import Performer, Report

log = logging.getLogger("asterism.loops")

MAX_SAID = 500
"""Characters of a reflection that are kept; no word is longer."""
MAX_CRITIQUE = 10_000
"""Characters of a critique that are kept."""


class Definition(Protocol):
    """What is needed of a loop to carry its effects out."""

    plan: Supervising
    reflect: Supervising
    synthesize: Supervising
    critique: Supervising | None
    workers: Mapping[str, AnyWorker]


Supervised = PlanMade | Reflected | Synthesized | Critiqued
"""The outcomes of what the supervisor is asked."""
Finder = Callable[[str, str], Definition]
"""Finds a definition by its name and the folder of its run; raises InvalidInput where there is none."""


def loop_performers(find: Finder, keeper: ResourcePool) -> dict[type[Effect], Performer]:
    """Performers of every effect of the orchestration loop; what they open is the keeper's."""
    return {
        AskModel: _ModelAsker(find, keeper),
        CallTool: _ToolCaller(find, keeper),
        MakePlan: _Supervisor(find, "plan", PlanMade, lambda said: {"steps": steps_of(said)}),
        RunWorker: _WorkerPerformer(find),
        Reflect: _Supervisor(find, "reflect", Reflected, _reflected),
        Synthesize: _Supervisor(find, "synthesize", Synthesized, lambda said: {"answer": as_json(said, "the answer")}),
        Critique: _Supervisor(find, "critique", Critiqued, lambda said: {"reply": str(said)[:MAX_CRITIQUE]}),
    }


class _Supervisor:
    """Calls one function of the supervisor; what it raises is the error of its outcome.

    Args:
        find: finds the definition.
        role: the definition's name for the function; where it has none, it says "ok".
        kind: the outcome.
        fields: what it says, as fields of the outcome; raises InvalidInput where it cannot be that.
    """

    def __init__(self, find: Finder, role: str, kind: type[Supervised], fields: Callable[[Any], dict[str, Any]]) -> None:
        self._find = find
        self._role = role
        self._kind = kind
        self._fields = fields

    async def perform(self, effect_id: str, request: Supervision, report: Report) -> EffectResult:
        """Call it, and give its outcome."""
        try:
            function: Supervising | None = getattr(self._find(request.definition, request.folder), self._role)
            said = await function(request.view) if function else "ok"
            metered = said if isinstance(said, Metered) else Metered(said)
            return read_back(self._kind(effect_id=effect_id, tokens=metered.tokens, **self._fields(metered.value)))
        except Exception as error:  # boundary: a user's function may raise anything
            return self._kind(effect_id=effect_id, error=_located(error, effect_id))


def _reflected(said: Any) -> dict[str, Any]:
    if isinstance(said, Strategy):
        return {"strategy": said}
    return {"reply": said.strip()[:MAX_SAID] if isinstance(said, str) else f"no text but {type(said).__name__}"[:MAX_SAID]}


class _WorkerPerformer:
    """Has a worker carry out a step, within its time."""

    def __init__(self, find: Finder) -> None:
        self._find = find

    async def perform(self, effect_id: str, request: WorkerCall, report: Report) -> EffectResult:
        """Call it with its handoff; what it raises is a failed finding."""
        effect, timed = request.effect, asyncio.timeout(request.effect.timeout_s)
        try:
            worker = worker_of(self._find(request.definition, request.folder), effect.worker, Worker)
            async with timed:
                found = await worker.function(msgspec.structs.replace(effect.handoff, key=effect_id))
            return read_back(_ended(effect_id, effect.worker, found))
        except Exception as error:  # boundary: a user's worker may raise anything
            late = _late(timed, error, effect.worker, effect.timeout_s)
            return WorkerEnded(
                effect_id=effect_id, finding=Finding(status="timeout" if late else "failed", reason=late or _located(error, effect_id))
            )


def _late(timed: asyncio.Timeout, error: Exception, who: str, timeout_s: float | None) -> str:
    """That somebody took too long, where that is the matter; else empty: an error of their own may be a TimeoutError, too."""
    return f"{who} took longer than {timeout_s:g} s" if timed.expired() and isinstance(error, TimeoutError) else ""


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


class _ModelAsker:
    """Asks a worker's model for its next reply."""

    def __init__(self, find: Finder, keeper: ResourcePool) -> None:
        self._find = find
        self._keeper = keeper

    async def perform(self, effect_id: str, request: ModelCall, report: Report) -> EffectResult:
        """One reply; a model that cannot be had, or a server that cannot be reached, is its error."""
        effect, timed = request.effect, asyncio.timeout(request.effect.timeout_s)
        try:
            worker = worker_of(self._find(request.definition, request.folder), effect.worker, ModelWorker)
            async with timed:
                tools = await worker.toolbox.tools(self._keeper)
                async with opened(worker.model) as model:
                    from asterism.loops.conversation import reply  # noqa: PLC0415 - takes a second, and needs an extra

                    return read_back(await reply(effect_id, model, worker.instructions, effect.handoff, rounds=request.rounds, tools=tools))
        except Exception as error:  # boundary: a model's client may raise anything
            return ModelReplied(effect_id=effect_id, error=_late(timed, error, "the model", effect.timeout_s) or _located(error, effect_id))


class _ToolCaller:
    """Makes a tool call, once more within the list and the scopes of its worker: a person may have edited its arguments."""

    def __init__(self, find: Finder, keeper: ResourcePool) -> None:
        self._find = find
        self._keeper = keeper

    async def perform(self, effect_id: str, request: ToolUse, report: Report) -> EffectResult:
        """One call; what it raises is told to the model, and so is that it took too long."""
        effect, timed = request.effect, asyncio.timeout(request.timeout_s)
        try:
            worker = worker_of(self._find(request.definition, request.folder), effect.worker, ModelWorker)
            tools = await worker.toolbox.tools(self._keeper)
            asked = gated(ToolCall(call_id=effect.call_id, tool=effect.tool, arguments=effect.arguments), tools)
            if (
                asked.gate in ("destructive", "external") and not request.trusted
            ):  # since the model has asked for it, its definition has changed
                asked = msgspec.structs.replace(asked, denied="a person must say yes to it by now; ask for it again")
            if asked.denied:
                return ToolReturned(effect_id=effect_id, result={"status": "denied", "reason": asked.denied, "feedback": ""})
            async with timed:
                returned = await tools[effect.tool].call(effect.arguments, effect_id)
            result = as_json(returned, f"the result of {effect.tool}")
        except Exception as error:  # boundary: a tool may raise anything
            late = _late(timed, error, effect.tool, request.timeout_s)
            result = {
                "status": "failed",
                "reason": f"{late}; whether it was carried out is not known" if late else _located(error, effect_id),
            }
        return ToolReturned(effect_id=effect_id, result=result)


W = TypeVar("W", Worker, ModelWorker)


def worker_of(definition: Definition, name: str, kind: type[W]) -> W:
    """The worker of that name and kind.

    Raises:
        InvalidInput: the definition has none.
    """
    found = definition.workers.get(name)
    if not isinstance(found, kind):
        raise InvalidInput(f"the loop has no worker {name!r} of that kind any more; it has {', '.join(definition.workers)}")
    return found


def steps_of(value: Any) -> tuple[Step, ...]:
    """What a planning function returned, as steps: each a ``Step`` or its fields; a list among them runs in parallel.

    Raises:
        InvalidInput: it is no plan; says which step is the matter.
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
    """Return what user code has raised as text with its line; the trace is an INFO line of the log."""
    line = "" if isinstance(error, AsterismError) else line_of(error)
    if line:
        log.info("%s failed\n%s", effect_id, "".join(traceback.format_exception(error)))
    return error_text(error) + (f" ({line})" if line else "")
