"""Decide what a schedule does at a time. Pure: no clock, no store."""

from __future__ import annotations

import datetime as dt
import hashlib
import re

import msgspec

from asterism.engine.kernel.permissions import Permission, Permissions
from asterism.engine.ports.schedules import Firing, Schedule
from asterism.errors import InvalidInput
from asterism.service.schedules.cron import check_cron, last_until, next_after

LATE_S = 60.0
"""Seconds after which a due time counts as missed."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,39}")


def check_schedule(schedule: Schedule) -> None:
    """Check a new schedule: its name, its expression and its time zone.

    Raises:
        InvalidInput: one of them is invalid.
        MissingExtra: the library for cron expressions is not installed.
    """
    if not _NAME.fullmatch(schedule.name):
        raise InvalidInput(f"{schedule.name[:100]!r} cannot be the name of a schedule; use 1 to 40 of A-Z, a-z, 0-9, _ and -")
    check_cron(schedule.cron, schedule.zone, schedule.created_at)


def why_not_changed(schedule: Schedule, *, actor: str, permissions: Permissions, is_guarded: bool) -> str:
    """Return why a sender may not change, replace or remove a schedule; empty if it may.

    One whose plan or options ask for approvals (``is_guarded``) takes who added it, or an admin.
    """
    if not is_guarded or actor == schedule.actor or Permission.ADMIN in permissions:
        return ""
    return f"schedule {schedule.name} asks for approvals: only {schedule.actor}, who added it, or an admin may change or remove it"


def fired(schedule: Schedule, now: float, *, unfinished: str = "") -> tuple[Schedule, list[Firing]]:
    """Return a schedule after the due times up to now, and what they came to.

    However many due times have passed, at most one run starts: for the last of them. Where that
    one was missed, too, ``schedule.missed`` decides.

    Args:
        schedule: the schedule; it is not paused.
        now: seconds since the epoch.
        unfinished: id of its last run if that has not ended; empty otherwise.
    """
    if schedule.next_at > now:
        return schedule, []
    due_at = max(schedule.next_at, last_until(schedule.cron, schedule.zone, now) or 0.0)
    following = next_after(schedule.cron, schedule.zone, max(now, due_at))
    firings = []
    if due_at > schedule.next_at:
        firings.append(_skipped(schedule, schedule.next_at, f"missed: no server ran until {_utc(now)}"))
    if now - due_at > LATE_S and schedule.missed == "skip":
        firings.append(_skipped(schedule, due_at, f"missed: no server ran until {_utc(now)}"))
    elif unfinished and schedule.overlap == "skip":
        firings.append(_skipped(schedule, due_at, f"run {unfinished} had not ended"))
    else:
        firings.append(started(schedule, due_at))
    if following is None:  # the expression has a last date
        return msgspec.structs.replace(schedule, paused=True), firings
    return msgspec.structs.replace(schedule, next_at=following), firings


def resumed(schedule: Schedule, now: float) -> Schedule:
    """Return a schedule that is not paused and goes on with its next due time; those of the pause are not made up for."""
    following = next_after(schedule.cron, schedule.zone, now)
    if following is None:
        raise InvalidInput(f"schedule {schedule.name}: no date matches {schedule.cron!r} any more")
    return msgspec.structs.replace(schedule, paused=False, next_at=following)


def not_beyond(schedule: Schedule, now: float) -> Schedule:
    """Return a schedule whose next due time is the first one from now, where it is a later one.

    It is later after the clock went back: while it was ahead, the schedule was set to a time that is too late. A due
    time that comes a second time has the same run, which is not started again.
    """
    following = next_after(schedule.cron, schedule.zone, now)
    return schedule if following is None or following >= schedule.next_at else msgspec.structs.replace(schedule, next_at=following)


def started(schedule: Schedule, due_at: float, actor: str = "") -> Firing:
    """Return the firing that starts a run for a due time, or for a command. The same due time always has the same run."""
    digest = hashlib.sha256(f"{schedule.tenant}\n{schedule.name}\n{schedule.created_at}\n{due_at}".encode()).hexdigest()
    run_id = f"{schedule.name}-{_utc(due_at, '%Y%m%dT%H%M')}-{digest[:8]}"
    return Firing(tenant=schedule.tenant, schedule=schedule.name, due_at=due_at, run_id=run_id, actor=actor)


def failed(schedule: Schedule, due_at: float, reason: str) -> Firing:
    """Return the firing for a due time at which no run could be started."""
    return Firing(tenant=schedule.tenant, schedule=schedule.name, due_at=due_at, status="failed", reason=reason)


def _skipped(schedule: Schedule, due_at: float, reason: str) -> Firing:
    return Firing(tenant=schedule.tenant, schedule=schedule.name, due_at=due_at, status="skipped", reason=reason)


def _utc(at: float, form: str = "%Y-%m-%d %H:%M UTC") -> str:
    return dt.datetime.fromtimestamp(at, tz=dt.UTC).strftime(form)
