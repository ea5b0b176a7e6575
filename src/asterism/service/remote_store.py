"""The runs of a server, read with the operations of a store that the reading commands use, and the rows in its JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from asterism.engine.kernel.journal import Record
from asterism.engine.ports.events import EventRow
from asterism.engine.ports.logs import ALL_OUTPUT, LogChunk, LogQuery
from asterism.engine.ports.schedules import MAX_FIRINGS, Firing, FiringStatus, LastFiring, Schedule
from asterism.engine.ports.store import InboxRow, InquiryRow, RunRow, RunStatus, begins_with
from asterism.service.http_connection import HttpConnection

Row = TypeVar("Row", bound=msgspec.Struct)

PAGE = 500
"""Entries of one request."""
MAX_EVENTS = 1000
"""Events of one request."""


class RemoteStore:
    """The runs of a server, as a ``RunReader``; the token says of which tenant."""

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection

    async def run(self, run_id: str, *, tenant: str | None = None) -> RunRow:  # noqa: ARG002 - the token says which tenant
        """See ``RunReader``."""
        return run_row((await self._connection.get(f"/api/runs/{run_id}"))["run"])

    async def runs(
        self,
        *,
        limit: int = 100,
        status: RunStatus | None = None,
        root: str | None = None,
        roots_only: bool = False,
        open_only: bool = False,
        begins: str = "",
    ) -> list[RunRow]:
        """See ``RunReader``."""
        if root is not None:
            found = [run_row(it) for it in (await self._connection.get(f"/api/runs/{root}"))["tree"]]
        else:
            found = await self.find_runs(limit=limit, status=status, roots_only=roots_only, text=begins)
        return [row for row in found if begins_with(row.run_id, begins) and not (open_only and row.status == "ended")]

    async def find_runs(self, *, limit: int, status: RunStatus | None, roots_only: bool, text: str) -> list[RunRow]:
        """Return runs, newest first; with ``text`` those with it in their title, or at the beginning of their id."""
        query = {"children": not roots_only, "q": text} | ({"status": status} if status else {})
        return [run_row(it) for it in await self._connection.pages("/api/runs", "runs", query, limit)]

    async def records(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[Record]:
        """See ``RunReader``."""
        found: list[Record] = []
        while limit is None or len(found) < limit:
            page = PAGE if limit is None else min(PAGE, limit - len(found))
            query = {"after": found[-1].seq if found else after, "limit": page}
            found_page = await self._connection.get(f"/api/runs/{run_id}/entries", query)
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
        events: bool = False,  # noqa: ARG002 - as above
    ) -> list[InquiryRow]:
        """Return the open questions; see ``RunReader``."""
        found = await self._connection.pages("/api/inquiries", "inquiries", {"run": root or run_id or ""})
        return [inquiry_row(it) for it in found if run_id in (None, it["run_id"])]

    async def events(self, tenant: str | None = None, *, dead_by: float | None = None, limit: int = 100) -> list[EventRow]:  # noqa: ARG002 - as above
        """See ``EventRows``; with ``dead_by``, those that are dead now."""
        query = {"dead": str(dead_by is not None).lower(), "limit": min(limit, MAX_EVENTS)}
        listed = (await self._connection.get("/api/events", query))["events"]
        return [msgspec.convert({**it, "data": msgspec.json.encode(it["data"]).decode()}, EventRow) for it in listed]

    async def inbox(self, runs: Sequence[str]) -> list[InboxRow]:  # noqa: ARG002 - what others have sent is not shown
        """Return nothing: the server takes at once what is sent."""
        return []

    async def logs(self, runs: Sequence[str], query: LogQuery = ALL_OUTPUT, *, after: int = 0, limit: int = 256) -> list[LogChunk]:
        """Return the chunks of the first of these runs and of the runs below it; see ``LogRows``."""
        asked = {"after": after, "limit": limit, "task": query.task, "attempt": query.number, "tail": query.tail_bytes}
        found = await self._connection.get(f"/api/runs/{min(runs, key=len)}/logs", asked)  # the id of a run begins those below it
        return [row_of(LogChunk, it | {"key": it["effect"], "data": it["text"].encode()}) for it in found["chunks"]]

    async def schedules(
        self,
        tenant: str | None = None,  # noqa: ARG002 - the token says which tenant
        *,
        name: str | None = None,
        due_by: float | None = None,  # noqa: ARG002 - as above
    ) -> list[Schedule]:
        """See ``ScheduleReader``."""
        listed = (await self._connection.get("/api/schedules"))["schedules"]
        return [row_of(Schedule, it) for it in listed if name in (None, it["name"])]

    async def firings(
        self,
        tenant: str | None = None,  # noqa: ARG002 - the token says which tenant
        schedule: str | None = None,
        *,
        status: FiringStatus | None = None,
        limit: int = 100,
    ) -> list[Firing]:
        """See ``ScheduleReader``."""
        found = await self._connection.get(f"/api/schedules/{schedule}", {"count": 0, "limit": min(limit, MAX_FIRINGS)})
        return [Firing(schedule=schedule or "", **it) for it in found["firings"] if status in (None, it["status"])]

    async def last_firings(self, tenant: str | None = None) -> list[LastFiring]:  # noqa: ARG002 - the token says which tenant
        """See ``ScheduleReader``."""
        listed = (await self._connection.get("/api/schedules"))["schedules"]
        return [LastFiring(schedule=it["name"], **it["last"]) for it in listed if it["last"]]


def row_of(kind: type[Row], data: Mapping[str, Any], **more: Any) -> Row:
    """Return a row from the fields of its JSON, and those that have another form there."""
    return kind(**({name: data[name] for name in kind.__struct_fields__ if name in data} | more))


def run_row(data: Mapping[str, Any]) -> RunRow:
    """Return the row of a run from its JSON."""
    return row_of(RunRow, data, owner="a process of the server's database" if data["driven"] else "")


def inquiry_row(data: Mapping[str, Any]) -> InquiryRow:
    """Return a question from its JSON."""
    subject, schema = (msgspec.json.encode(it).decode() if it is not None else "" for it in (data["subject"], data["form"]))
    return row_of(InquiryRow, data, subject=subject, schema=schema, question=data["prompt"], verbs=tuple(data["verbs"]))
