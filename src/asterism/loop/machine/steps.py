"""Beginning and ending steps: taken from the plan, handed to workers, ended with a finding."""

from __future__ import annotations

from asterism.engine.control.children import ChildEnded, child_start_of
from asterism.engine.control.guarding import permit_work, start_child
from asterism.engine.kernel.guards import Permit
from asterism.engine.kernel.machine import StepContext
from asterism.engine.kernel.phrase import Text, phrase
from asterism.loop.machine.effects import AskModel, CallTool, RunWorker
from asterism.loop.machine.events import ModelReplied, ToolReturned, WorkerEnded
from asterism.loop.machine.inquiries import approved, ask_about, note_edited
from asterism.loop.machine.memory import Activity, Call, Denial, LoopMemory, ModelRound
from asterism.loop.machine.model import Finding, State, Step

MAX_TITLE = 200
"""Characters of a child run's title."""
USER = "user"
"""Worker of a step that is a question to the user."""


def begin_steps(memory: LoopMemory, context: StepContext) -> State | None:
    """Begin the next steps: those to retry, a question to the user, or the next group of the plan.

    Returns:
        FAILED past the limit of steps; else None.
    """
    if memory.question:
        step = Step(step_id=f"question_{len(memory.findings) + 1}", worker=USER, intent="")
        memory.active[step.step_id] = Activity(step=step, worker=USER, question=memory.question)
        memory.question = None
    elif memory.again:
        memory.active = {activity.step.step_id: activity for activity in memory.again}
        memory.again = []
    else:
        begun = _next_group(memory)
        memory.position += len(begun)
        memory.active = {step.step_id: Activity(step=step, worker=step.worker) for step in begun}
    context.touch("task", *memory.active)
    memory.steps += len(memory.active)
    if memory.steps > memory.options.max_steps:
        return memory.fail(phrase("loop.max_steps", most=memory.options.max_steps), context)
    return None


def _next_group(memory: LoopMemory) -> list[Step]:
    group: list[Step] = []
    for step in memory.plan[memory.position :]:
        if group and (not step.group or step.group != group[0].group):
            break
        group.append(step)
    return group


def start_ready(memory: LoopMemory, context: StepContext) -> bool:
    """Start effects for active steps within the limit of parallel work.

    Return True if anything changed.
    """
    at_once = sum(activity.under_way for activity in memory.active.values())
    changed = False
    for activity in memory.active.values():
        if activity.settled or activity.effect_id or activity.inquiry_id:
            continue
        if not activity.under_way and at_once >= memory.options.max_parallel:
            continue
        context.touch("task", activity.step.step_id)
        was_under_way = activity.under_way
        changed = _start(memory, activity, context) or changed
        at_once += activity.under_way and not was_under_way
    return changed


def _start(memory: LoopMemory, activity: Activity, context: StepContext) -> bool:
    if activity.question is not None:
        ask_about(memory, activity, "question", activity.question, context)
        return True
    profile = memory.workers[activity.worker]
    handoff = memory.handoff(activity)
    own = profile.requires_approval or activity.step.requires_approval
    concerned_by = memory.concerned_by.get(activity.step.step_id, ())
    permitted = permit_work(memory, activity.worker, activity.worker, handoff.context, approval=own, concerned_by=concerned_by)
    if permitted.refusal:
        activity.settle(Finding(status="denied", reason=permitted.refusal))
        return True
    asks = (permitted.approval or activity.approved) and not activity.rounds
    if asks and activity.approved != approved(memory, activity, context):
        prompt = phrase("loop.do_step", worker=activity.worker, step=activity.step.step_id, intent=activity.step.intent)
        ask_about(memory, activity, "approval", prompt, context)
        return True
    if profile.converses:
        changed = make_calls(memory, activity, context)
        if all(call.done for call in activity.calls):
            begin_round(memory, activity, context)
            changed = True
        return changed
    if profile.child is not None:
        handed = {**handoff.context, **handoff.artifacts}
        left_s = memory.started_at + memory.options.wall_limit_s - context.at
        if profile.timeout_s is not None:
            left_s = min(left_s, profile.timeout_s)
        title = handoff.intent[:MAX_TITLE]
        child = child_start_of(profile.child, handoff.intent, handed, left_s=left_s, title=title)
        started_by = (activity.worker, activity.worker)
        activity.effect_id = start_child(
            memory, child, context, concerned_by=concerned_by, is_approved=bool(activity.approved), started_by=started_by
        )
        return True
    activity.effect_id = context.schedule(
        RunWorker(
            step_id=activity.step.step_id,
            worker=activity.worker,
            handoff=handoff,
            attempt=activity.attempt,
            idempotent=profile.idempotent,
            timeout_s=profile.timeout_s,
        )
    )
    return True


def state_now(memory: LoopMemory) -> State:
    """Return the state that the active steps imply."""
    unsettled = [activity for activity in memory.active.values() if not activity.settled]
    if not unsettled:
        return State.OBSERVING
    waits = [activity.effect_id in memory.blocked_children or any(activity.questions()) for activity in unsettled]
    if not all(waits) or any(memory.is_busy(activity) for activity in unsettled):
        return memory.home
    kinds = {memory.inquiries[inquiry].kind for activity in unsettled for inquiry in activity.questions()}
    return State.CONFIRMING if "confirmation" in kinds else State.WAITING


def handle_result(memory: LoopMemory, event: WorkerEnded | ModelReplied | ToolReturned | ChildEnded, context: StepContext) -> None:
    """Handle the result of an effect of a step."""
    activity = next(activity for activity in memory.active.values() if event.effect_id in activity.effects())
    context.touch("task", activity.step.step_id)
    match event:
        case WorkerEnded():
            _take_end(memory, activity, event, context)
        case ModelReplied():
            take_reply(memory, activity, event)
        case ToolReturned():
            take_return(memory, activity, event, context)
        case ChildEnded():
            if event.edited:
                note_edited(memory, activity.step.step_id, is_foreign=event.edited == "foreign")
            _take_child_end(activity, event)


def _take_end(memory: LoopMemory, activity: Activity, event: WorkerEnded, context: StepContext) -> None:
    activity.effect_id = ""
    if event.later is not None:
        prompt: Text = event.later.prompt or phrase("loop.await_result", key=event.later.key)
        ask_about(memory, activity, "later", prompt, context, awaits=event.later.key)
    elif event.interrupted:
        step = activity.step
        prompt = phrase("loop.repeat_step", worker=activity.worker, step=step.step_id, intent=step.intent)
        ask_about(memory, activity, "interruption", prompt, context)
    else:
        activity.settle(event.finding)


def _take_child_end(activity: Activity, event: ChildEnded) -> None:
    """Handle the end of a child run: its answer is the step's output."""
    activity.effect_id = ""
    if event.outcome == "finished":
        result = event.result
        activity.settle(Finding(output=result["answer"] if isinstance(result, dict) and "answer" in result else result))
    else:
        late = event.code == "wall_limit"
        activity.settle(Finding(status="timeout" if late else "failed", reason=event.reason or event.outcome))


def observe(memory: LoopMemory, context: StepContext) -> None:
    """Record the findings of the active steps, with failures and stalls."""
    seen = [finding.output for finding in memory.findings]
    found = [activity.finding for activity in memory.active.values() if activity.finding is not None]
    context.touch("task", *memory.active)
    memory.active.clear()
    memory.findings += found
    memory.latest = len(found)
    for finding in found:
        if finding.failed:
            memory.failures[finding.step_id] = memory.failures.get(finding.step_id, 0) + 1
    # A user's answer always counts as new, even in the same words; otherwise the user would be
    # asked again and again.
    nothing: tuple[object, ...] = (None, "", [], {})
    is_new = any(it.status == "ok" and it.output not in nothing and (it.worker == USER or it.output not in seen) for it in found)
    memory.stalled = 0 if is_new else memory.stalled + 1


# -- steps of a model with tools: each reply and tool call is journaled ----------------------------


def begin_round(memory: LoopMemory, activity: Activity, context: StepContext) -> None:
    """Ask the model for its next reply."""
    if len(activity.rounds) >= memory.options.max_rounds:
        activity.settle(Finding(status="failed", reason=phrase("loop.max_rounds", replies=len(activity.rounds))))
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
    pending = [call for call in activity.calls if not (call.done or call.effect_id or call.inquiry_id)]
    for call in pending:
        asked = call.asked
        permitted = permit_work(memory, activity.worker, asked.tool, asked.arguments, approval=False)
        if asked.denied or permitted.refusal:
            call.done, call.denial = True, Denial(reason=asked.denied or permitted.refusal)
        elif (gate := _gate(memory, activity, call, permitted)) and not call.confirmed:
            prompt = phrase("loop.make_call", worker=activity.worker, tool=asked.tool, why=gate)
            ask_about(memory, activity, "confirmation", prompt, context, call=call)
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


def _gate(memory: LoopMemory, activity: Activity, call: Call, permitted: Permit) -> str:
    """Return why a person must approve a call; empty if nobody must."""
    gate, tool = call.asked.gate, activity.tool(call)
    if permitted.approval:
        return "guarded"
    if not gate or tool in memory.trusted or (gate == "first_time" and tool in memory.used):
        return ""
    return gate


def take_return(memory: LoopMemory, activity: Activity, event: ToolReturned, context: StepContext) -> None:
    """Accept the result of a call, or ask a person about an interrupted one."""
    call = next(call for call in activity.calls if call.effect_id == event.effect_id)
    call.effect_id = ""
    if event.interrupted:
        prompt = phrase("loop.repeat_call", worker=activity.worker, tool=call.asked.tool)
        ask_about(memory, activity, "interruption", prompt, context, call=call)
    else:
        call.done, call.result = True, event.result
