"""Port of schedules: the rows that say what starts when, and what each due time came to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec

from asterism.engine.kernel.permissions import LOWEST, Permissions

Overlap = Literal["skip", "allow"]
Missed = Literal["once", "skip"]
FiringStatus = Literal["due", "started", "skipped", "failed"]

MAX_SCHEDULES = 10_000
"""Schedules of one store."""
MAX_FIRINGS = 1000
"""Firings of a schedule in a store: the newest ones, and the last one that started a run."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule.

    Attributes:
        name: unique among the schedules of its tenant.
        cron: five fields, an alias such as ``@daily``, or one time, such as ``2026-12-01T08:00``.
        zone: name of the time zone of the fields, as "Europe/Berlin".
        what: a request in words, the path of a plan file, a constellation as ``file.py:name``, or a goal as JSON.
        params: values of the plan's parameters, as texts, by name.
        options: options of its runs, as ``RunOptions`` are written in JSON.
        overlap: what happens at a due time while the last run has not ended.
        missed: what happens to due times at which no server ran: one run for all of them, or none.
        next_at: the next due time, in seconds since the epoch.
        created_at: seconds since the epoch.
        actor: who added it.
        permissions: those of who added it, which its runs have.
    """

    tenant: str = ""
    name: str
    cron: str
    zone: str
    what: str
    params: dict[str, str] = {}
    options: dict[str, Any] = {}
    overlap: Overlap = "skip"
    missed: Missed = "once"
    paused: bool = False
    next_at: float
    created_at: float
    actor: str = ""
    permissions: Permissions = LOWEST


class Firing(msgspec.Struct, frozen=True, kw_only=True):
    """What one due time of a schedule came to.

    Attributes:
        schedule: name of the schedule.
        due_at: the due time, in seconds since the epoch; for a run that a person started, when they did.
        run_id: id of the run; empty if none was started.
        status: ``due`` until the run is submitted.
        reason: why it was skipped or has failed.
        actor: who commanded the run; empty at a due time.
    """

    tenant: str = ""
    schedule: str
    due_at: float
    run_id: str = msgspec.field(default="", name="run")
    status: FiringStatus = "due"
    reason: str = ""
    actor: str = ""


class LastFiring(Firing, frozen=True, kw_only=True):
    """What the last due time of a schedule came to.

    Attributes:
        outcome: outcome of its run; empty if it has none, or has not ended.
    """

    outcome: str = ""


class ScheduleReader(Protocol):
    """Reads schedules, those of a store or of a server."""

    async def schedules(self, tenant: str | None = None, *, name: str | None = None, due_by: float | None = None) -> list[Schedule]:
        """Return the schedules of a tenant, or of all, by name.

        Args:
            tenant: only those of this tenant.
            name: only those of this name.
            due_by: only those that are not paused and whose next due time is at most this.
        """
        ...

    async def firings(
        self, tenant: str | None = None, schedule: str | None = None, *, status: FiringStatus | None = None, limit: int = 100
    ) -> list[Firing]:
        """Return firings of a tenant and a schedule, or of all, with the newest due time first."""
        ...

    async def last_firings(self, tenant: str | None = None) -> list[LastFiring]:
        """Return the newest settled firing of each schedule of a tenant, or of all."""
        ...


class ScheduleRows(ScheduleReader, Protocol):
    """Holds schedules and their firings; a part of every store. Errors as of ``Store``."""

    async def add_schedule(self, row: Schedule) -> None:
        """Add a schedule. Raises InvalidInput if its tenant has one of this name."""
        ...

    async def replace_schedule(self, row: Schedule, *, before: Schedule, firings: Sequence[Firing] = ()) -> bool:
        """Replace a schedule and add firings, all or nothing.

        Returns:
            False if the stored schedule is not ``before`` any more; then nothing was written.
        """
        ...

    async def remove_schedule(self, tenant: str, name: str) -> bool:
        """Remove a schedule with its firings; its runs stay. Return False if there is none."""
        ...

    async def settle_firing(self, firing: Firing) -> None:
        """Write the status and the reason of a firing that is due; one that is settled stays as it is."""
        ...
