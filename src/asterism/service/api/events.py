"""Events: send one to the runs that wait for it, and list them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from asterism.engine.ports.events import KEEP_S, Deliver
from asterism.engine.runtime.events import send_event
from asterism.errors import InvalidInput
from asterism.service.api.context import Context
from asterism.service.api.identity import EventSender, Reader, actor_of
from asterism.service.api.models import FromRow, Given, JsonText
from asterism.service.api.problems import Problem, documented
from asterism.service.hooks import event_id, is_genuine

router = APIRouter(tags=["events"])


class GivenEvent(Given):
    """An event to send."""

    name: str = Field(min_length=1, max_length=100, description="What has happened, as invoice.paid.")
    id: str = Field(default="", max_length=200, description="The same id is the same event; by default a new one.")
    data: Any = None
    keep_s: float = Field(default=KEEP_S, gt=0, description="Seconds for which a wait may still get it.")
    deliver: Deliver = "all"


class EventModel(FromRow):
    """An event."""

    id: str = Field(validation_alias="event_id")
    name: str
    data: JsonText
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
    return EventModel.model_validate(event)


@router.post("/hooks/{name}", status_code=201, responses=documented(401, 404, 413, 422))
async def post_hook(name: str, context: Context, request: Request) -> EventModel:
    """Send an event that another system posts, as the hook of this name in the fleet file verifies it."""
    hook = context.hooks.get(name)
    if hook is None:
        raise Problem(404, f"there is no hook {name[:40]!r}; add a [[hooks]] table to the fleet file of the server")
    body = await request.body()  # the guard bounds it
    if not is_genuine(hook, request.headers, body, context.clock.now()):
        raise Problem(401, f"this is not signed with the key of the hook {name}, or too long ago")
    try:
        data = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"the body is not JSON: {error}") from None
    event = await send_event(
        context.store,
        context.clock,
        context.client.forms,
        hook.name,
        data,
        event_id=event_id(hook, request.headers, data),
        actor=f"hook {hook.name}",
        tenant=hook.tenant,
        is_signed=True,
    )
    return EventModel.model_validate(event)


@router.get("/events", responses=documented(422))
async def list_events(
    context: Context,
    sender: Reader,
    dead: Annotated[bool, Query(description="Only those whose time has ended without a wait.")] = False,  # noqa: FBT002 - by its name
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> EventList:
    """Return the events, the newest first."""
    dead_by = context.clock.now() if dead else None
    return EventList.model_validate({"events": await context.store.events(sender.tenant, dead_by=dead_by, limit=limit)})
