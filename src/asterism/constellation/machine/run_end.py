"""The end of a constellation agent's run: when no work is left, by giving up, or not yet.

A plan's handlers run between the decision and the end: ``on_failure`` tasks if the run has failed, then
``finally`` tasks. The state stays CONTINUE meanwhile, and ``memory.life`` is ``Concluding``, with the decision.
"""

from __future__ import annotations

from asterism.constellation.machine.events import ConstellationAgentStatus
from asterism.constellation.machine.memory import NAMED, Awaiting, Concluding, ConstellationMemory, NotPlanning, PlanningState
from asterism.constellation.machine.retry import FAILED
from asterism.constellation.machine.stopping import cancel_attempt
from asterism.constellation.machine.task_coupling import TaskSchedule, move_task
from asterism.constellation.machine.task_lifecycle import Skipped
from asterism.constellation.machine.tasks import advance, stop_all
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.documents import HANDLERS
from asterism.constellation.model.edits import Applied
from asterism.constellation.model.task import Role, TaskStar, TaskStatus
from asterism.devices.model.attempt import TaskError, text_of
from asterism.engine.kernel.machine import StepContext
from asterism.engine.kernel.phrase import Phrase, Text, phrase

FAILURES_NAMED = 6
"""Rules from which on the reason of a failed run names a failed task before a cancelled one."""
FAILURES_REFUSED = 7
"""Rules from which on a planner finishes no run over a failure, and what it adds after one handles it only by doing the same work."""
RESTARTS_EXCUSE_NOTHING = 7
"""Rules from which on a restart does not drop the failures of the constellation that it drops."""


def is_done(memory: ConstellationMemory, schedule: TaskSchedule) -> bool:
    """Return True if no task is running or startable, and no decision or question is open."""
    return not (schedule.running or schedule.startable or memory.batch or memory.questions or schedule.unsatisfiable) and isinstance(
        memory.planning, NotPlanning
    )


def finish(memory: ConstellationMemory, context: StepContext) -> ConstellationAgentStatus:
    """End the run as finished, after its handlers."""
    return _conclude(memory, "finished", "", context)


def end(memory: ConstellationMemory, schedule: TaskSchedule, context: StepContext) -> ConstellationAgentStatus:
    """End a run that has no work left.

    Return FINISH, or FAIL with the first unhandled failed task as the reason, or else the first cancelled one.
    """
    unhandled = _unhandled(memory, schedule.constellation)
    if not unhandled:
        return finish(memory, context)
    if context.rules >= FAILURES_NAMED:
        unhandled.sort(key=lambda task: task.status is not TaskStatus.FAILED)
    first = unhandled[0]
    name, why = first.name or first.resolved_skill, text_of(first.error)
    reason = phrase("task_ended", task=first.task_id, name=name, status=first.status, why=why, left=len(unhandled) - 1)
    return give_up(memory, "task_failed", reason, context)


def _unhandled(memory: ConstellationMemory, constellation: TaskConstellation) -> list[TaskStar]:
    """Return the failures that no task handles; those that a restart has dropped need a task that does the same work."""
    completed = [task for task in constellation.tasks.values() if task.role == "task" and task.status is TaskStatus.COMPLETED]
    dropped = [failed for failed in memory.dropped if not any(_performs_again(task, failed) for task in completed)]
    return dropped + [task for task in constellation.in_order() if _is_unhandled(constellation, task)]


def note_dropped(memory: ConstellationMemory, constellation: TaskConstellation, context: StepContext) -> None:
    """Note the failures of a constellation that a restart is about to drop."""
    if context.rules >= RESTARTS_EXCUSE_NOTHING and not memory.options.accept_failed:
        memory.dropped = tuple(_unhandled(memory, constellation))


def _is_unhandled(constellation: TaskConstellation, task: TaskStar) -> bool:
    """Return True for a failed or cancelled task, unless a task that handles it completed.

    A task with ``join: any`` that completed handles the failures of all its predecessors: it needed one of them. The
    ``on_failure`` tasks handle nothing: a run whose failure they have reported has still failed.
    """
    if task.role != "task" or task.status not in FAILED:
        return False
    lines = constellation.lines_out(task.task_id)
    completed = [(line, target) for line in lines if (target := constellation.tasks[line.target]).status is TaskStatus.COMPLETED]
    return not any(
        not line.excuses_nothing and (target.join == "any" or (line.verdict is not None and line.verdict.satisfied))
        for line, target in completed
    )


def note_late_handlers(memory: ConstellationMemory, constellation: TaskConstellation, applied: Applied) -> None:
    """Mark dependencies on failed tasks that the planner has written, or whose target it has written, for other work."""
    for line_id in {*applied.lines, *(line.line_id for task_id in applied.tasks for line in constellation.lines_in(task_id))}:
        line = constellation.lines[line_id]
        source, target = constellation.tasks[line.source], constellation.tasks[line.target]
        is_late = source.status in FAILED and not memory.options.accept_failed
        line.excuses_nothing = is_late and not _performs_again(target, source)


def _performs_again(task: TaskStar, failed: TaskStar) -> bool:
    if task.constellation is not None or failed.constellation is not None:
        return False
    same = task.resolved_skill == failed.resolved_skill and task.wait == failed.wait
    return same and (bool(task.resolved_skill) or task.device == failed.device)


def why_not_finished(memory: ConstellationMemory, schedule: TaskSchedule, decided: PlanningState, context: StepContext) -> Phrase | None:
    """Return the reason why the planner's FINISH is refused, and what to do; None if it is accepted."""
    tasks = schedule.constellation.in_order()
    waiting = [task.task_id for task in tasks if not task.settled and task.role == "task"]
    if schedule.running:
        by_id = schedule.constellation.tasks
        return phrase("still_running", tasks=[task_id for task_id in schedule.running if not by_id[task_id].item_of])
    if memory.batch or (isinstance(decided, Awaiting) and decided.ended_since):
        return phrase("ended_since")
    if waiting:
        return phrase("unstarted", tasks=waiting[:NAMED])
    if context.rules < FAILURES_REFUSED or memory.options.accept_failed:
        return None
    unhandled = _unhandled(memory, schedule.constellation)
    if not unhandled:
        return None
    failed = [phrase("task_with_status", task=task.task_id, status=task.status) for task in unhandled]
    return phrase("unhandled", failed=failed, is_there=any(task in tasks for task in unhandled))


def give_up(memory: ConstellationMemory, code: str, reason: Text, context: StepContext) -> ConstellationAgentStatus:
    """End in FAIL, after the handlers: cancel the tasks that have not ended and everything outstanding.

    While handlers run already, end at once with what was decided.
    """
    if concluding := memory.concluding:
        stop_all(memory, concluding.schedule, reason, context)
        return _close(memory, concluding.code, concluding.reason, context)
    if isinstance(memory.planning, Awaiting):
        cancel_attempt(memory, memory.planning.effect_id, context)
    memory.planning = NotPlanning()
    if memory.schedule:
        stop_all(memory, memory.schedule, reason, context, ("task",))
    memory.batch.clear()
    memory.unseen.clear()
    return _conclude(memory, code, reason, context)


# -- handlers --------------------------------------------------------------------------------------


def _conclude(memory: ConstellationMemory, code: str, reason: Text, context: StepContext) -> ConstellationAgentStatus:
    """End the run, or stay in CONTINUE for its handlers, which also run if it was paused when it was given up."""
    if memory.schedule is None or not _handlers_left(memory, code):
        return _close(memory, code, reason, context)
    memory.life = Concluding(schedule=memory.schedule, code=code, reason=reason)
    memory.paused, memory.limit = False, ""
    return ConstellationAgentStatus.CONTINUE


def has_handlers(memory: ConstellationMemory) -> bool:
    """Return True if the plan has handlers that have not run."""
    return any(task.role != "task" and not task.settled for task in memory.constellation.tasks.values())


def _handlers_left(memory: ConstellationMemory, code: str) -> list[Role]:
    """Return the roles whose handlers are yet to run at an end with this code, in their order."""
    left = {task.role for task in memory.constellation.tasks.values() if not task.settled}
    failed = code not in ("finished", "cancelled")
    return [role for role in HANDLERS if role in left and (role == "finally" or failed)]


def run_handlers(
    memory: ConstellationMemory, concluding: Concluding, context: StepContext, *, changed: bool
) -> ConstellationAgentStatus | None:
    """Run the handlers of a run whose end is decided, role by role, and end it after them; return None if nothing has changed."""
    changed = _set_clock(memory, concluding, context) or changed
    _stop_late(memory, concluding, context)
    for _ in range(len(HANDLERS) + 1):  # each iteration but the last begins the handlers of the next role
        changed = advance(memory, concluding.schedule, context) or changed
        if not is_done(memory, concluding.schedule) or context.outstanding or context.effects:
            break  # something of the run, or of the present handlers, is under way
        left = _handlers_left(memory, concluding.code)
        if not left:
            return _close(memory, concluding.code, concluding.reason, context)
        concluding.role, concluding.asking_since = left[0], 0.0
        concluding.until = context.at + memory.options.finally_limit_s
        memory.wake_up_at(concluding.until)
        concluding.schedule.turn_to(concluding.role, context)
        changed = True
    _set_clock(memory, concluding, context)  # a handler may have asked a person just now
    return ConstellationAgentStatus.CONTINUE if changed or context.effects else None


def _set_clock(memory: ConstellationMemory, concluding: Concluding, context: StepContext) -> bool:
    """Stop the clock of the handlers while one of them waits for a person or a time; return True if anything changed."""
    is_asking = bool(memory.questions or memory.blocked_children or memory.waits)
    if is_asking == bool(concluding.asking_since):
        return False
    if is_asking:
        concluding.asking_since = context.at
    else:
        concluding.until += context.at - concluding.asking_since
        concluding.asking_since = 0.0
        memory.wake_up_at(concluding.until)
    return True


def _stop_late(memory: ConstellationMemory, concluding: Concluding, context: StepContext) -> None:
    """Cancel the handlers of the current role once their time is over."""
    if concluding.until and concluding.until <= context.at and not concluding.asking_since:
        why = phrase("handlers_too_long", role=concluding.role, limit_s=memory.options.finally_limit_s)
        stop_all(memory, concluding.schedule, why, context, (concluding.role,))


def _close(memory: ConstellationMemory, code: str, reason: Text, context: StepContext) -> ConstellationAgentStatus:
    if memory.schedule:
        for task in memory.constellation.in_order():
            if task.role != "task" and not task.settled:
                error = TaskError(code="unsatisfied", why=phrase("run_did_not_fail"))
                move_task(memory.schedule, task, Skipped(error=error), context)
    memory.code, memory.why = code, reason
    return ConstellationAgentStatus.FINISH if code == "finished" else ConstellationAgentStatus.FAIL
