"""The state of a database and of its servers at one moment, for people and for monitoring."""

from __future__ import annotations

import contextlib

import msgspec

from asterism.engine.ports.store import ProcessRow, RunRow, Store, WorkKind, WorkSummary
from asterism.errors import RunNotFound

LISTED_SCHEDULES = 3
"""Schedules of a status."""


class DueSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule and its next due time.

    Attributes:
        next_at: seconds since the epoch.
        problem: why its last run could not be started; empty if it was.
    """

    tenant: str
    name: str
    next_at: float
    problem: str = ""


class DatabaseStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a database.

    Attributes:
        at: when it was read, in seconds since the epoch.
        processes: the servers, and the other processes that drive runs.
        work: the unfinished runs of all tenants in numbers, and the messages to people.
        runs: the runs of each kind whose last entries are the oldest.
        schedules: the next schedules that start runs, the earliest first; those with a problem precede the others.
    """

    at: float
    processes: list[ProcessRow]
    work: WorkSummary
    runs: dict[WorkKind, list[RunRow]]
    schedules: list[DueSchedule]


async def read_status(store: Store, now: float, *, tenant: str | None = None) -> DatabaseStatus:
    """Return the state of a database at an epoch second; the runs and schedules that it names are those of a tenant, None for all."""
    work = await store.summarize_work(now=now)
    runs: dict[WorkKind, list[RunRow]] = {}
    for kind, ids in work.oldest.items():
        for run_id in ids:
            with contextlib.suppress(RunNotFound):  # deleted meanwhile, or of another tenant
                runs.setdefault(kind, []).append(await store.run(run_id, tenant=tenant))
    oldest = {kind: [row.run_id for row in rows] for kind, rows in runs.items()}
    problems = {(it.tenant, it.schedule): it.reason for it in await store.last_firings(tenant) if it.status == "failed"}
    active = [
        DueSchedule(tenant=it.tenant, name=it.name, next_at=it.next_at, problem=problems.get((it.tenant, it.name), ""))
        for it in await store.schedules(tenant)
        if not it.paused
    ]
    return DatabaseStatus(
        at=now,
        processes=[it for it in await store.list_processes() if it.serves or it.description in work.driven_by],
        work=msgspec.structs.replace(work, oldest=oldest),
        runs=runs,
        schedules=sorted(active, key=lambda it: (not it.problem, it.next_at))[:LISTED_SCHEDULES],
    )
