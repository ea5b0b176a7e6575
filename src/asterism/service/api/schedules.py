"""Schedules: add, list, pause, resume, run now, remove; their next due times and their history.

A schedule that is added here has its plan or its request in its row: it names no file of this computer.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, Field

from asterism.constellation.python.goal import params_of, rehearse
from asterism.constellation.python.scheduled import at_due_time, check_goal, is_guarded, title_of, written
from asterism.engine.kernel.data import files_in
from asterism.engine.ports.schedules import MAX_FIRINGS, MAX_SCHEDULES, Firing, FiringStatus, Missed, Overlap, Schedule
from asterism.engine.ports.tokens import TokenRow
from asterism.errors import InvalidInput, Refused
from asterism.service.api.context import ApiContext, Context
from asterism.service.api.identity import Commander, Reader, Submitter, actor_of
from asterism.service.api.models import FromRow, Given, GivenGoal, GivenObject
from asterism.service.api.problems import Problem, documented
from asterism.service.api.runs import IdempotencyKey, goal_from, options_from, run_id_from
from asterism.service.schedules.cron import in_words, next_after, next_times
from asterism.service.schedules.firing import check_schedule, resumed, started, why_not_changed

router = APIRouter(tags=["schedules"])

Name = Annotated[str, Path(max_length=100)]


class FiringModel(FromRow):
    """What one due time has led to."""

    due_at: float
    run_id: str
    status: FiringStatus
    reason: str


class LastFiringModel(FiringModel):
    """What the last due time has led to."""

    outcome: str = Field(description="Outcome of its run; empty if it has none, or has not ended.")


class ScheduleModel(BaseModel):
    """A schedule."""

    name: str
    cron: str
    words: str = Field(description="The cron expression in English.")
    zone: str
    what: str = Field(description="The request in words, or the name of the plan or its file.")
    overlap: Overlap
    missed: Missed
    paused: bool
    next_at: float = Field(description="The next due time.")
    created_at: float
    actor: str


class ListedSchedule(ScheduleModel):
    """A schedule of a list."""

    last: LastFiringModel | None = Field(description="Null before its first due time.")


class ScheduleList(BaseModel):
    """The schedules of a tenant, by name."""

    schedules: list[ListedSchedule]


class ScheduleDetails(BaseModel):
    """A schedule with its next due times and its history, newest first."""

    schedule: ScheduleModel
    next: list[float]
    firings: list[FiringModel]


class GivenSchedule(GivenGoal):
    """A schedule to add: a plan, or a request in words."""

    name: str = Field(min_length=1, max_length=40)
    cron: str = Field(min_length=1, max_length=200, description="Five fields, an alias as @daily, or one time, as 2026-12-01T08:00.")
    zone: str = Field(default="UTC", max_length=100, description="As Europe/Berlin.")
    options: GivenObject = Field(default={}, description="Options and limits of its runs.")
    overlap: Overlap = "skip"
    missed: Missed = "once"


class ScheduleCommand(Given):
    """A command to a schedule."""

    command: Literal["pause", "resume", "run"]


class ScheduleChanged(BaseModel):
    """The schedule after a command."""

    schedule: ScheduleModel
    run_id: str = Field(description="The run that starts now; empty without one.")


@router.get("/schedules", responses=documented())
async def list_schedules(context: Context, sender: Reader) -> ScheduleList:
    """Return the schedules, by name."""
    last = {it.schedule: it for it in await context.store.last_firings(sender.tenant)}
    found = [{**dict(schedule_model(it)), "last": last.get(it.name)} for it in await context.store.schedules(sender.tenant)]
    return ScheduleList.model_validate({"schedules": found})


@router.post(
    "/schedules",
    status_code=201,
    responses={200: {"model": ScheduleModel, "description": "There is the same schedule already."}, **documented(413, 422)},
)
async def add_schedule(given: GivenSchedule, context: Context, sender: Submitter, response: Response) -> ScheduleModel:
    """Add a schedule; the server starts its runs."""
    if any(files_in([given.plan, given.params])):
        raise InvalidInput("a schedule that is added over HTTP has no files; let its plan fetch them")
    goal = goal_from(given)
    params_of(goal)
    at_due_time(goal, given.zone, context.clock.now())
    if goal.plan is not None and context.planner is not None:
        try:
            await rehearse(goal, context.client.fleet, context.planner)
        except Refused as refused:
            raise InvalidInput(str(refused)) from None
    now = context.clock.now()
    schedule = Schedule(
        tenant=sender.tenant,
        name=given.name,
        cron=given.cron,
        zone=given.zone,
        what=written(goal),
        options=msgspec.to_builtins(options_from(given.options)),
        overlap=given.overlap,
        missed=given.missed,
        next_at=0.0,
        created_at=now,
        actor=actor_of(sender),
        permissions=sender.permissions,
    )
    check_schedule(schedule)
    schedule = msgspec.structs.replace(schedule, next_at=next_after(given.cron, given.zone, now) or 0.0)
    if len(await context.store.schedules()) >= MAX_SCHEDULES:
        raise InvalidInput(f"there are {MAX_SCHEDULES} schedules already; remove some")
    try:
        await context.store.add_schedule(schedule)
    except InvalidInput:
        there = await _found(context, sender, given.name)
        same = {"next_at": there.next_at, "created_at": there.created_at, "paused": there.paused}
        if there != msgspec.structs.replace(schedule, **same):
            raise
        response.status_code = 200
        return schedule_model(there)
    return schedule_model(schedule)


@router.get("/schedules/{name}", responses=documented(404, 422))
async def read_schedule(
    name: Name,
    context: Context,
    sender: Reader,
    count: Annotated[int, Query(ge=0, le=1000, description="Due times to come.")] = 5,
    limit: Annotated[int, Query(ge=0, le=MAX_FIRINGS, description="Past due times.")] = 20,
) -> ScheduleDetails:
    """Return a schedule, its next due times in any case, and what the last ones have led to."""
    schedule = await _found(context, sender, name)
    firings = await context.store.firings(schedule.tenant, schedule.name, limit=limit)
    return ScheduleDetails.model_validate({"schedule": schedule_model(schedule), "next": next_times(schedule, count), "firings": firings})


@router.post("/schedules/{name}/commands", responses=documented(404, 409, 413, 422))
async def command_schedule(
    name: Name, given: ScheduleCommand, context: Context, sender: Commander, idempotency_key: IdempotencyKey = None
) -> ScheduleChanged:
    """Pause a schedule, resume it, or start a run of it now. Its next due time stays."""
    schedule, firings, now = await _found(context, sender, name), list[Firing](), context.clock.now()
    changed = schedule
    if given.command != "run":
        await _check_may_change(schedule, sender)
    if given.command == "pause":
        changed = msgspec.structs.replace(schedule, paused=True)
    elif given.command == "resume" and schedule.paused:
        changed = resumed(schedule, now)
    elif given.command == "run":
        firing = started(schedule, now, actor_of(sender))
        if idempotency_key:
            digest = hashlib.sha256(run_id_from(sender, f"schedule {name}", idempotency_key).encode()).hexdigest()
            firing = msgspec.structs.replace(firing, run_id=f"{schedule.name}-{digest[:16]}")
        firings = [firing]
        past = await context.store.firings(schedule.tenant, schedule.name, limit=MAX_FIRINGS)
        if any(it.run_id == firing.run_id for it in past):
            return ScheduleChanged(schedule=schedule_model(schedule), run_id=firing.run_id)
        await check_goal(schedule, now)
    if not await context.store.replace_schedule(changed, before=schedule, firings=firings):
        raise Problem(409, f"schedule {schedule.name} was changed at the same time; try again")
    return ScheduleChanged(schedule=schedule_model(changed), run_id=firings[0].run_id if firings else "")


@router.delete("/schedules/{name}", status_code=204, responses=documented(404, 422))
async def remove_schedule(name: Name, context: Context, sender: Commander) -> None:
    """Remove a schedule with its history; its runs stay."""
    schedule = await _found(context, sender, name)
    await _check_may_change(schedule, sender)
    await context.store.remove_schedule(schedule.tenant, schedule.name)


async def _check_may_change(schedule: Schedule, sender: TokenRow) -> None:
    guarded = await is_guarded(schedule)
    if why := why_not_changed(schedule, actor=actor_of(sender), permissions=sender.permissions, is_guarded=guarded):
        raise Problem(403, why)


async def _found(context: ApiContext, sender: TokenRow, name: str) -> Schedule:
    found = await context.store.schedules(sender.tenant, name=name)
    if not found:
        raise Problem(404, f"there is no schedule {name!r}")
    return found[0]


def schedule_model(schedule: Schedule) -> ScheduleModel:
    """Return a schedule as JSON."""
    return ScheduleModel.model_validate(
        {**msgspec.structs.asdict(schedule), "what": title_of(schedule), "words": in_words(schedule.cron, schedule.zone)}
    )
