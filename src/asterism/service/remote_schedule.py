"""A schedule of a server."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from asterism.engine.ports.schedules import Firing, LastFiring, Schedule
from asterism.service.http_connection import HttpConnection

Row = TypeVar("Row", bound=msgspec.Struct)


class RemoteSchedule:
    """One schedule of a server. Its methods raise RunNotFound if there is none of this name."""

    def __init__(self, connection: HttpConnection, name: str) -> None:
        self.name = name
        self._connection = connection
        self._path = f"/api/schedules/{name}"

    async def describe(self) -> Schedule:
        """Return its row."""
        return schedule_row((await self._connection.get(self._path, {"count": 0, "limit": 0}))["schedule"])

    async def next_times(self, count: int = 5) -> list[float]:
        """Return its next due times, in seconds since the epoch."""
        times: list[float] = (await self._connection.get(self._path, {"count": count, "limit": 0}))["next"]
        return times

    async def history(self, limit: int = 20) -> list[Firing]:
        """Return what its past due times have led to, newest first."""
        found = await self._connection.get(self._path, {"count": 0, "limit": limit})
        return [Firing(schedule=self.name, **it) for it in found["firings"]]

    async def pause(self) -> None:
        """Pause it; a run that has started goes on."""
        await self._command("pause")

    async def resume(self) -> None:
        """Resume it; the due times of the pause are left out."""
        await self._command("resume")

    async def run(self) -> str:
        """Start a run now, whatever it overlaps, and return its id. The next due time stays."""
        return await self._command("run")

    async def remove(self) -> None:
        """Remove it with its history; its runs stay."""
        await self._connection.delete(self._path)

    async def _command(self, command: str) -> str:
        done = await self._connection.post(f"{self._path}/commands", {"command": command}, key=secrets.token_hex(16))
        run_id: str = done["run_id"]
        return run_id


def row_of(kind: type[Row], data: Mapping[str, Any], **more: Any) -> Row:
    """Return a row from the fields of its JSON, and those that have another form there."""
    return kind(**({name: data[name] for name in kind.__struct_fields__ if name in data} | more))


def schedule_row(data: Mapping[str, Any]) -> Schedule:
    """Return a schedule from its JSON."""
    return row_of(Schedule, data)


def last_firing_row(data: Mapping[str, Any]) -> LastFiring | None:
    """Return what the last due time of a listed schedule has led to; None before the first."""
    return LastFiring(schedule=data["name"], **data["last"]) if data["last"] else None
