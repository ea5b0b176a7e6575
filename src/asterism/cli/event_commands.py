"""Commands on events: event send, event list."""

from __future__ import annotations

import asyncio
import json as json_text
import secrets
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from asterism.app.bootstrap import FORMS
from asterism.app.settings import server_url
from asterism.cli.exit_codes import FINISHED
from asterism.cli.options import Database, Json, ServerUrl
from asterism.cli.output import local_time, put
from asterism.cli.run_access import actor, connected, remote_runs, runs_of
from asterism.engine.ports.events import KEEP_S, Deliver, EventRow
from asterism.engine.runtime.clock import SystemClock
from asterism.engine.runtime.events import send_event
from asterism.errors import InvalidInput
from asterism.views.text.styled_line import MOMENT
from asterism.views.words import count, plain


def send(
    name: Annotated[str, Parameter(name="NAME", help="What has happened, as invoice.paid.")],
    /,
    *,
    data: Annotated[str, Parameter(help="Its data, as JSON.")] = "null",
    id: Annotated[str, Parameter(help="The same id is the same event [default: a new one].")] = "",  # noqa: A002 - the option
    keep_s: Annotated[float, Parameter(help="Seconds for which a task may still get it.")] = KEEP_S,
    one: Annotated[bool, Parameter(negative=(), help="Let only the oldest wait get it.")] = False,
    server: ServerUrl = None,
    database: Database = None,
) -> int:
    """Send an event to the runs that wait for it, and to those that will in time. A server, or `resume`, continues them."""
    try:
        value = json_text.loads(data)
    except ValueError as error:
        raise InvalidInput(f"--data is not JSON: {error}") from None
    return asyncio.run(_send(name, value, event_id=id, keep_s=keep_s, one=one, server=server, database=database))


async def _send(name: str, data: Any, *, event_id: str, keep_s: float, one: bool, server: str | None, database: Path | None) -> int:
    deliver: Deliver = "one" if one else "all"
    key = secrets.token_hex(16)
    if url := server_url(server, database):
        async with remote_runs(url) as app:
            body = {"name": name, "data": data, "id": event_id or key, "keep_s": keep_s, "deliver": deliver}
            sent = await app.connection.post("/api/events", body, key=key)
        put(f"event {plain(sent['id'])}: {_taken(sent['taken'])}")
        return FINISHED
    async with connected(database) as client:
        store, clock = client.store, client.clock
        row = await send_event(store, clock, FORMS, name, data, event_id=event_id, keep_s=keep_s, deliver=deliver, actor=actor())
    put(f"event {plain(row.event_id)}: {_taken(row.taken)}")
    return FINISHED


def list_events(
    *,
    dead: Annotated[bool, Parameter(negative=(), help="Only those whose time has ended without a wait.")] = False,
    limit: Annotated[int, Parameter(help="Maximum number of events.")] = 20,
    server: ServerUrl = None,
    database: Database = None,
    json: Json = False,
) -> int:
    """List the events that tasks may still get, or that none has got, newest first."""
    if limit < 1:
        raise InvalidInput(f"--limit must be at least 1, not {limit}")
    return asyncio.run(_list(database, server, dead=dead, limit=limit, as_json=json))


async def _list(database: Path | None, server: str | None, *, dead: bool, limit: int, as_json: bool) -> int:
    async with runs_of(database, server) as runs:
        rows = await runs.store.events(dead_by=SystemClock().now() if dead else None, limit=limit)
    if as_json:
        put(json_text.dumps([{**msgspec.to_builtins(it), "data": json_text.loads(it.data)} for it in rows], indent=2))
        return FINISHED
    for it in rows:
        put(f"{local_time(it.at, MOMENT)}  {plain(it.name)}  {plain(it.event_id)}  {_words(it)}")
    if not rows:
        put("no events")
    return FINISHED


def _words(row: EventRow) -> str:
    is_dead = not row.taken and row.expires_at <= SystemClock().now()
    return "no task has got it" if is_dead else _taken(row.taken)


def _taken(number: int) -> str:
    return f"{count(number, 'task')} got it" if number else "no task waits for it yet"
