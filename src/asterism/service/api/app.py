"""Assemble the API."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.types import ASGIApp

from asterism.service.api import (
    attempts,
    commands,
    conversations,
    events,
    files,
    fleet,
    inquiries,
    journals,
    logins,
    pages,
    problems,
    runs,
    schedules,
    status,
    streams,
    tokens,
)
from asterism.service.api.context import ApiContext
from asterism.service.api.guard import Guard

TITLE = "Asterism"
_RESOURCES = (
    runs,
    journals,
    streams,
    commands,
    inquiries,
    conversations,
    files,
    schedules,
    events,
    fleet,
    attempts,
    status,
    tokens,
    logins,
)


class DocumentedApi(FastAPI):
    """A FastAPI application whose OpenAPI has the schema of problems, which no route returns by type."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        document = super().openapi()
        document["components"]["schemas"]["ProblemDetails"] = problems.ProblemDetails.model_json_schema()
        return document


def api_of(context: ApiContext) -> FastAPI:
    """Return the resources of a server, without the guard in front of them."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            reading = group.create_task(context.feeds.serve())
            yield
            context.feeds.stop()
            reading.cancel()

    app = DocumentedApi(title=TITLE, version="1", openapi_url="/api/openapi.json", docs_url=None, redoc_url=None, lifespan=lifespan)
    app.state.context = context
    problems.install(app)
    api = APIRouter(prefix="/api")
    for resource in _RESOURCES:
        api.include_router(resource.router)
    app.include_router(api)
    app.include_router(status.probes)
    app.include_router(pages.router)
    return app


def guarded(context: ApiContext) -> ASGIApp:
    """Return the whole application of a server."""
    return Guard(api_of(context), context)
