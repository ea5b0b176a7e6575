"""The runs of a server, read with the operations of a store that the reading commands use."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import cast

import msgspec

from asterism.engine.kernel.journal import Record
from asterism.engine.ports.events import EventRow
from asterism.engine.ports.schedules import MAX_FIRINGS, Firing, LastFiring, Schedule
from asterism.engine.ports.store import InboxRow, InquiryRow, ProcessRow, RunRow, RunStatus, Store, begins_with
from asterism.errors import InvalidInput
from asterism.service.remote_app import RemoteApp, open_remote, run_row
from asterism.service.remote_schedule import last_firing_row

PAGE = 500
"""Entries of one request."""
MAX_EVENTS = 1000
"""Events of one request."""


class RemoteStore:
    """The runs of a server. It has the operations of ``Store`` that show and follow runs, list events, and list and remove schedules."""

    def __init__(self, app: RemoteApp) -> None:
        self._app = app

    async def run(self, run_id: str, *, tenant: str | None = None) -> RunRow:  # noqa: ARG002 - the token says which tenant
        """See ``Store``."""
        return await self._app.describe(run_id)

    async def runs(
        self,
        *,
        limit: int = 100,
        status: RunStatus | None = None,
        root: str | None = None,
        roots_only: bool = False,
        begins: str = "",
    ) -> list[RunRow]:
        """See ``Store``."""
        if root is not None:
            found = await self._app.connection.get(f"/api/runs/{root}")
            return [run_row(it) for it in found["tree"]]
        found = await self._app.runs(limit=limit, status=status, roots_only=roots_only, text=begins)
        return [row for row in found if begins_with(row.run_id, begins)]

    async def records(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
        """See ``Store``."""
        found: list[Record] = []
        while limit is None or len(found) < limit:
            page = PAGE if limit is None else min(PAGE, limit - len(found))
            query = {"after": found[-1].seq if found else after, "limit": page}
            found_page = await self._app.connection.get(f"/api/runs/{run_id}/entries", query)
            records = [Record(**{**it, "body": msgspec.json.encode(it["body"]).decode()}) for it in found_page["entries"]]
            found += records
            if len(records) < page:
                break
        return found

    async def inquiries(
        self,
        *,
        run_id: str | None = None,
        root: str | None = None,
        tenant: str | None = None,  # noqa: ARG002 - the token says which tenant
        open_only: bool = True,  # noqa: ARG002 - a server lists only these
    ) -> list[InquiryRow]:
        """Return the open inquiries; see ``Store``."""
        found = await self._app.inquiries(root=root or run_id)
        return [it for it in found if run_id in (None, it.run_id)]

    async def schedules(self, tenant: str | None = None, *, name: str | None = None) -> list[Schedule]:  # noqa: ARG002 - as above
        """See ``Store``."""
        return [it for it in await self._app.schedules() if name in (None, it.name)]

    async def firings(self, tenant: str | None, schedule: str, *, limit: int = 100) -> list[Firing]:  # noqa: ARG002 - as above
        """See ``Store``."""
        return await self._app.schedule_of(schedule).history(min(limit, MAX_FIRINGS))

    async def last_firings(self, tenant: str | None = None) -> list[LastFiring]:  # noqa: ARG002 - as above
        """See ``Store``."""
        listed = (await self._app.connection.get("/api/schedules"))["schedules"]
        return [last for it in listed if (last := last_firing_row(it))]

    async def remove_schedule(self, tenant: str, name: str) -> bool:  # noqa: ARG002 - as above
        """See ``Store``."""
        await self._app.schedule_of(name).remove()
        return True

    async def events(self, tenant: str | None = None, *, dead_by: float | None = None, limit: int = 100) -> list[EventRow]:  # noqa: ARG002 - as above
        """See ``Store``; with ``dead_by``, those that are dead now."""
        query = {"dead": str(dead_by is not None).lower(), "limit": min(limit, MAX_EVENTS)}
        listed = (await self._app.connection.get("/api/events", query))["events"]
        return [msgspec.convert({**it, "data": msgspec.json.encode(it["data"]).decode()}, EventRow) for it in listed]

    async def inbox(self, runs: Sequence[str]) -> list[InboxRow]:  # noqa: ARG002 - what others have sent is not shown
        """Return nothing: the server takes at once what is sent."""
        return []

    async def list_processes(self) -> list[ProcessRow]:
        """Return the server."""
        return [ProcessRow(description="the server", serves=True)]


@contextlib.asynccontextmanager
async def open_remote_store(url: str, token: str) -> AsyncIterator[tuple[RemoteApp, Store]]:
    """Open the runs of a server, to change and to read them. Raises InvalidInput if the URL or the token cannot be used."""
    if not url.startswith(("http://", "https://")):
        raise InvalidInput(f"{url}: not the URL of a server; it begins with http:// or https://")
    async with open_remote(url, token) as app:
        yield app, cast(Store, RemoteStore(app))
