"""Steps whose worker is a model with tools: each reply and tool call is journaled."""

from __future__ import annotations

from asterism.kernel.machine import StepContext
from asterism.machines.orchestration_loop.effects import AskModel, CallTool
from asterism.machines.orchestration_loop.events import ModelReplied, ToolReturned
from asterism.machines.orchestration_loop.inquiries import ask_about_call, denied
from asterism.machines.orchestration_loop.memory import Activity, Call, LoopMemory, ModelRound
from asterism.machines.orchestration_loop.model import Finding

_WHY = {"destructive": "it may destroy something", "external": "it reaches outside", "first_time": "it is its first call in this run"}


def begin_round(memory: LoopMemory, activity: Activity, context: StepContext) -> None:
    """Ask the model for its next reply."""
    if len(activity.rounds) >= memory.options.max_rounds:
        activity.settle(Finding(status="failed", reason=f"no answer after {len(activity.rounds)} replies (max_rounds)"))
        return
    profile = memory.workers[activity.worker]
    activity.effect_id = context.schedule(
        AskModel(
            step_id=activity.step.step_id,
            worker=activity.worker,
            handoff=memory.handoff(activity),
            round=len(activity.rounds) + 1,
            timeout_s=profile.timeout_s,
        )
    )


def take_reply(memory: LoopMemory, activity: Activity, event: ModelReplied) -> None:
    """Accept the model's reply: its answer, or its tool calls."""
    activity.effect_id = ""
    if event.error:
        activity.settle(Finding(status="failed", reason=event.error))
        return
    activity.rounds.append(ModelRound(text=event.text, raw=event.raw, calls=[Call(asked=asked) for asked in event.calls]))
    if not event.calls:
        activity.settle(Finding(output=event.text))


def make_calls(memory: LoopMemory, activity: Activity, context: StepContext) -> bool:
    """Make allowed calls, refuse denied ones, and ask a person about the rest.

    Return True if anything changed.
    """
    pending = [call for call in activity.calls if not (call.done or call.effect_id or call.question.inquiry_id)]
    for call in pending:
        asked = call.asked
        if asked.denied:
            call.done, call.result = True, denied(asked.denied)
        elif (why := _gate(memory, activity, call)) and not call.confirmed:
            prompt = f"Let {activity.worker} call {asked.tool}? ({why})"
            ask_about_call(memory, call, "confirmation", prompt, context)
        else:
            memory.used[activity.tool(call)] = None
            call.effect_id = context.schedule(
                CallTool(
                    step_id=activity.step.step_id,
                    worker=activity.worker,
                    call_id=asked.call_id,
                    tool=asked.tool,
                    arguments=asked.arguments,
                    idempotent=asked.idempotent,
                    confirmed=call.confirmed,
                )
            )
    return bool(pending)


def _gate(memory: LoopMemory, activity: Activity, call: Call) -> str:
    gate, tool = call.asked.gate, activity.tool(call)
    if not gate or tool in memory.trusted or (gate == "first_time" and tool in memory.used):
        return ""
    return _WHY[gate]


def take_return(memory: LoopMemory, activity: Activity, event: ToolReturned, context: StepContext) -> None:
    """Accept the result of a call, or ask a person about an interrupted one."""
    call = next(call for call in activity.calls if call.effect_id == event.effect_id)
    call.effect_id = ""
    if event.interrupted:
        prompt = f"{activity.worker} was interrupted while it called {call.asked.tool}, which may have been carried out. Call it again?"
        ask_about_call(memory, call, "interruption", prompt, context)
    else:
        call.done, call.result = True, event.result
