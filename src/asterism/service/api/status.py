"""The state of the database and of its servers; health, readiness and metrics for monitoring."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel, Field

from asterism.engine.ports.store import WorkKind
from asterism.engine.runtime.database_status import read_status
from asterism.service.api.context import Context
from asterism.service.api.identity import Reader, is_of_server
from asterism.service.api.models import FromRow, RunModel
from asterism.service.api.problems import Problem, documented
from asterism.service.telemetry.metrics import instruments

router = APIRouter(tags=["health"])
probes = APIRouter(tags=["health"])
"""The routes for monitoring, outside of ``/api``."""


class ProcessModel(FromRow):
    """A process that serves a fleet or drives runs."""

    description: str
    serves: bool
    fleet: str
    fleet_file: str
    url: str
    since: float = Field(description="When it began to serve; 0 if it does not serve.")
    version: str


class WorkModel(FromRow):
    """The unfinished root runs in numbers, and the messages to people."""

    counts: dict[WorkKind, int]
    driven_by: dict[str, int] = Field(description="Driven runs by the description of a process.")
    oldest: dict[WorkKind, list[str]] = Field(description="Runs whose last entries are the oldest.")
    unrouted: int = Field(description="Notices for which no server has chosen channels.")
    unsent: int
    failed: int
    error: str


class DueScheduleModel(FromRow):
    """A schedule and its next due time."""

    tenant: str
    name: str
    next_at: float
    problem: str = Field(description="Why its last run could not be started; empty if it was.")


class StatusModel(FromRow):
    """The state of the database and of its servers."""

    at: float
    processes: list[ProcessModel]
    work: WorkModel
    runs: dict[WorkKind, list[RunModel]]
    schedules: list[DueScheduleModel]


@router.get("/status", responses=documented())
async def status(context: Context, sender: Reader) -> StatusModel:
    """Return which servers there are, and what is driven, due, stuck or waiting, to a token without a tenant.

    The numbers are of all tenants. Runs and schedules are named only to an administrator, and to others if they have no tenant.
    """
    if sender.tenant:
        raise Problem(403, "the status counts the runs of all tenants; use a token without a tenant")
    return StatusModel.model_validate(await read_status(context.store, context.clock.now(), tenant=None if is_of_server(sender) else ""))


class Health(BaseModel):
    """The server answers."""

    status: str


@probes.get("/healthz", responses=documented())
async def is_alive() -> Health:
    """Return 200 while the process answers."""
    return Health(status="ok")


@probes.get("/readyz", responses=documented())
async def is_ready(context: Context) -> Health:
    """Return 200 while the server takes runs and its database can be read."""
    if not context.is_ready():
        raise Problem(503, "the server starts or stops")
    await context.store.token("")  # StoreUnavailable is a 503, too
    return Health(status="ok")


@probes.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Prometheus metrics."}, **documented()},
)
async def metrics(sender: Reader, context: Context) -> Response:
    """Return the metrics of this process for Prometheus, to a token without a tenant; and the number of stuck runs."""
    if sender.tenant:
        raise Problem(403, "metrics count the runs of all tenants; use a token without a tenant")
    instruments(None).stuck.set(await context.store.count_stuck())
    from prometheus_client import CONTENT_TYPE_LATEST, generate_latest  # noqa: PLC0415 - only this route needs it

    return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)
