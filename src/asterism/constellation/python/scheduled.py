"""Submit the run of a firing: the plan or request of its schedule, as its file is now.

A schedule that was added over the network has the plan or the request itself, as a JSON object, and no file.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import msgspec

from asterism.constellation.machine.events import RunOptions
from asterism.constellation.model.documents import as_file, parse_plan
from asterism.constellation.planner.model_choice import ModelChoice
from asterism.constellation.python.goal import Goal, goal_of, is_python, params_of, with_texts
from asterism.constellation.python.goal_process import read_goal
from asterism.constellation.python.rounds import Round, submit
from asterism.engine.kernel.guards import Guards
from asterism.engine.kernel.permissions import Permission
from asterism.engine.ports.schedules import Firing, Schedule
from asterism.engine.runtime.client import NETWORKED, Client
from asterism.engine.runtime.clock import zone_of
from asterism.errors import InvalidInput

_DUE = re.compile(r"\$\{due\.([^}]*)\}")


class WrittenGoal(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, tag="goal", tag_field="asterism"):
    """A goal within the row of a schedule.

    Attributes:
        request: request in words, or the name of the plan.
        plan: the plan, as in a plan file; None for a request in words.
    """

    title: str
    request: str
    plan: dict[str, Any] | None = None
    params: dict[str, Any] = {}


def written(goal: Goal) -> str:
    """Return a goal as text for the row of a schedule."""
    plan = as_file(goal.plan) if goal.plan is not None else None
    return msgspec.json.encode(WrittenGoal(title=goal.title, request=goal.request, plan=plan, params=goal.params)).decode()


def _read(what: str) -> WrittenGoal | None:
    """Return the goal in the row of a schedule; None if the row names a file, or is a request in words."""
    try:
        return msgspec.json.decode(what, type=WrittenGoal)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def title_of(schedule: Schedule) -> str:
    """Return what a schedule runs: a request in words, or the name of a plan or of its file."""
    goal = _read(schedule.what)
    return goal.request if goal else schedule.what


def at_due_time(goal: Goal, zone: str, due_at: float) -> Goal:
    """Return a goal with the due time in place of ``${due.date}``, ``${due.month}`` and ``${due.time}``.

    They may be in the texts among the parameters, and in a request in words. A run that makes up for a missed time has
    the time at which it was due.

    Args:
        goal: the goal of a schedule.
        zone: time zone of the schedule.
        due_at: seconds since the epoch.

    Raises:
        InvalidInput: there is no such name, or no such zone.
    """
    at = dt.datetime.fromtimestamp(due_at, tz=zone_of(zone))
    forms = {"date": at.date().isoformat(), "month": f"{at:%Y-%m}", "time": at.isoformat(timespec="seconds")}

    def form_of(found: re.Match[str]) -> str:
        if found[1] not in forms:
            raise InvalidInput(f"{found[0]}: there is no such part of a due time; there are {', '.join(f'${{due.{it}}}' for it in forms)}")
        return forms[found[1]]

    params = {name: _DUE.sub(form_of, value) if isinstance(value, str) else value for name, value in goal.params.items()}
    if goal.plan is not None:
        return msgspec.structs.replace(goal, params=params)
    return msgspec.structs.replace(goal, title=_DUE.sub(form_of, goal.title), request=_DUE.sub(form_of, goal.request))


async def submit_scheduled(client: Client, schedule: Schedule, firing: Firing, *, model: ModelChoice | None = None) -> None:
    """Submit the run of a firing; who added its schedule, or commanded it, counts as its submitter.

    Args:
        client: client with the fleet.
        schedule: the schedule.
        firing: names the run.
        model: model that plans a request in words; by default the planner of the driver.

    Raises:
        InvalidInput: the plan cannot be read, a value does not fit it, or the run exists.
        EditRefused: the plan cannot run on this fleet.
    """
    goal = await _goal_at(schedule, firing.due_at)
    options = msgspec.convert(schedule.options, RunOptions)
    actor, client = f"schedule {schedule.name}", client.acting_with(schedule.permissions)
    after = Round(guards=Guards(submitters=tuple(it for it in (schedule.actor, firing.actor) if it)))
    token = NETWORKED.set(Permission.LOCAL not in schedule.permissions)
    try:
        await submit(client, goal, options=options, model=model, after=after, actor=actor, run_id=firing.run_id, tenant=schedule.tenant)
    finally:
        NETWORKED.reset(token)


async def check_goal(schedule: Schedule, at: float) -> None:
    """Check that the plan or request of a schedule can be used at an epoch second. Raises InvalidInput."""
    params_of(await _goal_at(schedule, at))


async def is_guarded(schedule: Schedule) -> bool:
    """Return True if the plan or the options of a schedule ask for an approval, or its plan cannot be read now."""
    options = msgspec.convert(schedule.options, RunOptions)
    try:
        plan = (await _goal_of(schedule.what)).plan
    except InvalidInput:
        return True
    return options.approve_plan or options.approve_edits or (plan is not None and any(spec.requires_approval for spec in plan.all_tasks()))


async def _goal_at(schedule: Schedule, due_at: float) -> Goal:
    return at_due_time(with_texts(await _goal_of(schedule.what), schedule.params), schedule.zone, due_at)


async def _goal_of(what: str) -> Goal:
    if it := _read(what):
        return Goal(it.title, it.request, parse_plan(it.plan) if it.plan is not None else None, it.params)
    return await read_goal(what) if is_python(what) else goal_of(what)
