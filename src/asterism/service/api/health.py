"""Health, readiness and metrics."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import BaseModel

from asterism.service.api.context import Context
from asterism.service.api.identity import Reader
from asterism.service.api.problems import Problem, documented
from asterism.service.telemetry.metrics import instruments

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """The server answers."""

    status: str


@router.get("/healthz", responses=documented())
async def is_alive() -> Health:
    """Return 200 while the process answers."""
    return Health(status="ok")


@router.get("/readyz", responses=documented())
async def is_ready(context: Context) -> Health:
    """Return 200 while the server takes runs and its database can be read."""
    if not context.is_ready():
        raise Problem(503, "the server starts or stops")
    await context.store.token("")  # StoreUnavailable is a 503, too
    return Health(status="ok")


@router.get(
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
