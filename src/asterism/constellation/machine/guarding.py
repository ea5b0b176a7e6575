"""The guards of tasks: what edits may write, and what an attempt needs before it begins."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import msgspec

from asterism.constellation.machine.events import RunOptions
from asterism.constellation.machine.memory import ConstellationMemory
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.edits import Applied, EditRefused
from asterism.constellation.model.fan_out import item_id
from asterism.constellation.model.nesting import affected, nested_plan, reached
from asterism.constellation.model.specs import task_of
from asterism.constellation.model.task import TaskStar
from asterism.devices.model.references import SECRET, references, secrets_in
from asterism.engine.control.guarding import note_run_edited
from asterism.engine.kernel.guards import DeviceGuards, GuardedWork, Guards, Permit, permit, with_approval, with_device, with_report
from asterism.engine.kernel.machine import StepContext
from asterism.engine.kernel.permissions import Permission
from asterism.engine.kernel.phrase import phrase
from asterism.engine.kernel.profile import HERE, AgentProfile, Fleet
from asterism.errors import Refused

GUARDED = 7
"""Rules from which on guards are asked, and an approval is bound to the whole request."""
INTERRUPTED = "interrupted"
"""``TaskStar.approved`` of a task that may have finished; no approval has this text."""
VOID = "void"
"""``TaskStar.approved`` of an approved task that an edit has affected, or a fork has copied; no approval has this text."""


def with_fleet(guards: Guards, fleet: Fleet) -> Guards:
    """Return the guards of a run with those of its fleet."""
    for device, profile in fleet.items():
        if profile.guards != DeviceGuards() or device in guards.devices:
            guards = with_device(guards, device, profile.guards, is_new=True)
        guards = with_skills(guards, profile)
    return guards


def with_skills(guards: Guards, profile: AgentProfile) -> Guards:
    """Return the guards after a device has reported its skills; those of ``here`` are functions of the plan."""
    is_here = profile.device_id == HERE
    return guards if is_here else with_report(guards, profile.device_id, [skill.name for skill in profile.skills])


def with_options(guards: Guards, options: RunOptions) -> Guards:
    """Return the guards of a run with those of its options. Where edits are approved, a plan below is a change, too."""
    return msgspec.structs.replace(
        guards,
        approve_plan=options.approve_plan or guards.approve_plan or guards.approve_edits,
        approve_edits=options.approve_edits or guards.approve_edits,
    )


def approval_of_repeated(guards: Guards) -> str:
    """Return ``TaskStar.approved`` of a task that is to run again, or elsewhere: it is asked about if the yes was to its plan or run."""
    return VOID if guards.approve_plan or guards.approve_edits or guards.is_approved else ""


def note_unused_approval(task: TaskStar, context: StepContext) -> None:
    """Note that a task ends before the repetition begins that was approved: a retry asks again about what may have finished."""
    if context.rules >= GUARDED and task.editable and task.attempts and task.approved not in ("", VOID):
        task.approved = INTERRUPTED


def approval_elsewhere(guards: Guards, task: TaskStar) -> str:
    """Return ``TaskStar.approved`` of a task that moves to another device: secrets, variables and a folder were meant for the first."""
    return VOID if task.env or task.folder or secrets_in(task.inputs) else approval_of_repeated(guards)


def is_remote(context: StepContext) -> bool:
    """Return True if the event was sent over the network: what it writes is foreign."""
    return context.rules >= GUARDED and Permission.LOCAL not in context.permissions


def permit_task(guards: Guards, task: TaskStar, arguments: dict[str, Any]) -> Permit:
    """Return what the guards say about an attempt of a task with these arguments."""
    return permit(
        guards,
        GuardedWork(
            device=task.device,
            skill=task.resolved_skill,
            arguments=arguments,
            secrets=secrets_in([task.inputs, task.env]) if task.is_foreign else (),
            env=task.env,
            folder=task.folder,
            is_foreign=task.is_foreign,
            concerned_by=task.concerned_by,
            approval=task.requires_approval,
        ),
    )


def marks_foreign(task: TaskStar, *, is_written: bool) -> bool:
    """Return True if a foreign edit makes a task foreign: it wrote the task, or its values would stand next to secrets of it."""
    return is_written or bool(secrets_in([task.inputs, task.env, task.constellation]))


def check_written(guards: Guards, task: TaskStar, *, is_foreign: bool) -> None:
    """Check a written task as far as its arguments are known.

    Raises:
        EditRefused: ``guarded``.
    """
    if not guards.devices and not (is_foreign or task.is_foreign):
        return
    known = {name: value for name, value in task.inputs.items() if all(source == SECRET for source, _ in references(value))}
    written = msgspec.structs.replace(task, is_foreign=task.is_foreign or is_foreign)
    if why := permit_task(guards, written, known).refusal:
        raise EditRefused("guarded", task.task_id, why)


def note_written(
    memory: ConstellationMemory,
    constellation: TaskConstellation,
    written: Collection[str],
    *,
    is_foreign: bool,
    concerned_by: tuple[str, ...] | None = None,
    also: Iterable[str] = (),
) -> None:
    """Mark tasks that were written now, and add the approvals that they ask for to the plan's part of the guards.

    Such a guard concerns what is written later: a task is concerned by those that stood before, or by
    these. ``also`` are other tasks whose requests the edit may change: they are marked as those that it
    wrote, but only those with secrets as foreign.
    """
    before, tasks, own = memory.guards.of_plan if concerned_by is None else concerned_by, constellation.tasks, frozenset(written)
    ids = dict.fromkeys((*written, *also))
    items = [item_id(it, index) for it in ids if (counts := tasks[it].items) for index in range(counts.total)]
    for task in [tasks[task_id] for task_id in (*ids, *items)]:
        task.is_foreign = task.is_foreign or (is_foreign and marks_foreign(task, is_written=task.task_id in own))
        task.concerned_by = before
        if task.approved not in ("", INTERRUPTED) and not task.settled:
            task.approved = VOID
    memory.guards = _with_asked(memory.guards, [tasks[task_id] for task_id in written], memory.fleet)


def note_edited(memory: ConstellationMemory, edited: TaskStar, *, is_foreign: bool) -> None:
    """Mark a task whose arguments an answer edits, and the others whose requests that may change, as after an edit of the plan.

    Raises:
        Refused: such a task may not have the secrets that it uses any more; nothing has changed.
    """
    for task in [memory.constellation.tasks[task_id] for task_id in _behind(memory, edited)]:
        if not task.settled:
            try:
                check_written(memory.guards, task, is_foreign=is_foreign and marks_foreign(task, is_written=False))
            except EditRefused as refused:
                raise Refused(phrase("plan_refused", what=refused.refusal.subject, why=refused.refusal.why)) from None
    note_edited_below(memory, edited, is_foreign=is_foreign)


def note_edited_below(memory: ConstellationMemory, edited: TaskStar, *, is_foreign: bool) -> None:
    """Mark them after an edit that cannot be refused any more, in a task's child run: an attempt without its secrets fails.

    An approval of the task itself holds; what its child run starts is another matter.
    """
    edited.concerned_by = memory.guards.of_plan
    note_written(memory, memory.constellation, (), is_foreign=is_foreign, also=_behind(memory, edited))
    note_run_edited(memory, is_foreign=is_foreign)


def _behind(memory: ConstellationMemory, edited: TaskStar) -> list[str]:
    own = edited.item_of or edited.task_id
    return [task_id for task_id in reached(memory.constellation, [own]) if task_id != own]


def _skill_of(task: TaskStar, fleet: Fleet) -> str:
    """Return the skill of a task; in a nested plan the resolved one is written, and in a draft its name may be the skill's."""
    is_named = task.device in fleet and fleet[task.device].skill(task.name) is not None
    return task.resolved_skill or task.skill or (task.name if is_named else "")


def _with_asked(guards: Guards, tasks: Iterable[TaskStar], fleet: Fleet) -> Guards:
    """Return guards with the approvals that tasks ask for."""
    guarded = [task for task, is_guarded in _performed(tasks) if is_guarded]
    skills = {_skill_of(task, fleet) for task in guarded}
    devices = {task.device for task in guarded if task.device in fleet and fleet[task.device].natural_language}
    return with_approval(guards, sorted(filter(None, skills)), sorted(devices)) if skills or devices else guards


def _performed(tasks: Iterable[TaskStar]) -> Iterator[tuple[TaskStar, bool]]:
    """Yield the tasks that devices perform, those of a nested plan in place of its task, and whether each asks for an approval."""
    todo = [(task, task.requires_approval) for task in tasks]
    while todo:  # bounded by the nesting of plans
        task, is_guarded = todo.pop()
        if task.constellation is not None:
            todo += [(task_of(spec), spec.requires_approval or is_guarded) for spec in nested_plan(task).tasks]
        else:
            yield task, is_guarded


def check_draft(before: TaskConstellation, edited: TaskConstellation, applied: Applied, fleet: Fleet | None) -> None:
    """Check a client's edit of a draft: what its plan guards stays guarded, and what it writes has only what a foreign task may have.

    Raises:
        EditRefused: ``guarded``.
    """
    if fleet is None and any(is_guarded for _, is_guarded in _performed(before.tasks.values())):
        raise EditRefused("guarded", "requires_approval", phrase("draft_without_fleet"))
    fleet = fleet or {}
    guards = with_fleet(Guards(), fleet)
    asked, left = (_with_asked(guards, it.tasks.values(), fleet) for it in (before, edited))
    for name in (*asked.plan_skills, *asked.plan_devices):
        if name not in (*left.plan_skills, *left.plan_devices):
            raise EditRefused("guarded", name, phrase("draft_guards", name=name))
    for task, is_guarded in _performed([edited.tasks[task_id] for task_id in applied.tasks]):
        skill = _skill_of(task, fleet)
        if not is_guarded and asked.is_of_plan(task.device, skill):
            raise EditRefused("guarded", task.task_id, phrase("draft_guards", name=skill or task.device))
        check_written(guards, task, is_foreign=True)
    for task in [edited.tasks[task_id] for task_id in affected(applied, edited)]:
        check_written(guards, task, is_foreign=marks_foreign(task, is_written=False))
