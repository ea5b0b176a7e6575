"""Tasks that wait for a time or an event: the wait is an effect that nobody performs; a timer of the run ends it, or the event."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from asterism.constellation.machine.memory import ConstellationMemory
from asterism.constellation.machine.stopping import cancel_attempt, drop_effect
from asterism.constellation.machine.task_coupling import TaskSchedule, move_task
from asterism.constellation.machine.task_lifecycle import Completed, Failed, Released, Started
from asterism.constellation.model.task import TaskStar
from asterism.devices.model.attempt import TaskError
from asterism.engine.control.waits import EventTaken, WaitFor
from asterism.engine.kernel.machine import Event, StepContext
from asterism.engine.kernel.phrase import phrase


def begin_wait(memory: ConstellationMemory, schedule: TaskSchedule, task: TaskStar, wait: WaitFor, context: StepContext) -> None:
    """Let a task wait; its ``timeout_s`` and its deadline bound the wait."""
    limits = [context.at + task.timeout_s] if task.timeout_s is not None else []
    limits += [memory.started_at + task.deadline_s] if task.deadline_s is not None else []
    if limits:
        wait = msgspec.structs.replace(wait, expires_at=min(limits))
    effect_id = context.schedule(wait)
    memory.waits[effect_id] = wait
    for at in filter(None, (wait.until, wait.expires_at)):
        memory.wake_up_at(at)
    move_task(schedule, task, Started(effect_id=effect_id), context)


def end_by_event(memory: ConstellationMemory, schedule: TaskSchedule, event: EventTaken) -> tuple[TaskStar, Event]:
    """Close the wait that an event has come for; return its task, and the event that settles it."""
    wait = memory.waits.pop(event.effect_id)
    return schedule.constellation.tasks[wait.about], Completed(result=event.data)


def end_waits(memory: ConstellationMemory, schedule: TaskSchedule, context: StepContext) -> Iterator[tuple[TaskStar, Event]]:
    """Close the waits that are over, and yield the task of each with the event that settles it."""
    for effect_id, wait in tuple(memory.waits.items()):
        task = schedule.constellation.tasks[wait.about]
        is_over, is_late = 0 < wait.until <= context.at, 0 < wait.expires_at <= context.at
        if effect_id not in memory.waits or not (is_over or is_late):
            continue  # of an item, after another one has failed
        cancel_attempt(memory, effect_id, context)
        if is_over and not (is_late and wait.expires_at < wait.until):
            yield task, Completed()
        elif task.deadline_s is not None and memory.started_at + task.deadline_s <= context.at:
            yield task, Failed(error=TaskError(code="deadline", why=phrase("waited_past_deadline", limit_s=task.deadline_s)))
        else:
            yield task, Failed(error=TaskError(code="timeout", why=phrase("waited_too_long", limit_s=task.timeout_s or 0.0)))


def wait_again(memory: ConstellationMemory, schedule: TaskSchedule, context: StepContext) -> None:
    """Begin the waits of a fork again: those for a duration from its start."""
    for effect_id, wait in tuple(memory.waits.items()):
        drop_effect(memory, effect_id, context)
        move_task(schedule, schedule.constellation.tasks[wait.about], Released(), context)
