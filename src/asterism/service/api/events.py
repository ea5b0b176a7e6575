"""Events: send one to the runs that wait for it, and list them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from asterism.engine.ports.events import KEEP_S, Deliver, EventRow
from asterism.engine.runtime.events import send_event
from asterism.service.api.context import Context
from asterism.service.api.identity import EventSender, Reader, actor_of
from asterism.service.api.models import Given
from asterism.service.api.problems import documented

router = APIRouter(tags=["events"])


class GivenEvent(Given):
    """An event to send."""

    name: str = Field(min_length=1, max_length=100, description="What has happened, as invoice.paid.")
    id: str = Field(default="", max_length=200, description="The same id is the same event; by default a new one.")
    data: Any = None
    keep_s: float = Field(default=KEEP_S, gt=0, description="Seconds for which a wait may still get it.")
    deliver: Deliver = "all"


class EventModel(BaseModel):
    """An event."""

    id: str
    name: str
    data: Any
    deliver: Deliver
    at: float
    expires_at: float
    actor: str
    taken: int = Field(description="Number of waits that have got it.")


class EventList(BaseModel):
    """Events, the newest first."""

    events: list[EventModel]


@router.post("/events", status_code=201, responses=documented(409, 413, 422))
async def post_event(given: GivenEvent, context: Context, sender: EventSender) -> EventModel:
    """Send an event to the runs that wait for it, and to those that will in time."""
    client = context.client
    event = await send_event(
        context.store,
        context.clock,
        client.forms,
        given.name,
        given.data,
        event_id=given.id,
        keep_s=given.keep_s,
        deliver=given.deliver,
        actor=actor_of(sender),
        tenant=sender.tenant,
    )
    return _model(event)


@router.get("/events", responses=documented(422))
async def list_events(
    context: Context,
    sender: Reader,
    dead: Annotated[bool, Query(description="Only those whose time has ended without a wait.")] = False,  # noqa: FBT002 - by its name
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> EventList:
    """Return the events, the newest first."""
    dead_by = context.clock.now() if dead else None
    return EventList(events=[_model(row) for row in await context.store.events(sender.tenant, dead_by=dead_by, limit=limit)])


def _model(row: EventRow) -> EventModel:
    fields = msgspec.structs.asdict(row)
    return EventModel.model_validate({**fields, "id": row.event_id, "data": msgspec.json.decode(row.data)})
