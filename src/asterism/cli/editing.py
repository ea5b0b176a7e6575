"""The command mcp edit: the constellation editor onto a live run or a plan file, for any MCP client.

A run that nobody drives is driven here as soon as it is edited, as with every other command; it is let go when only people can
move it on, and stops with this process, to be taken up again by `asterism resume`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from asterism.bootstrap import open_worker, read_fleet
from asterism.cli.codes import FINISHED, INTERRUPTED
from asterism.cli.finding import actor, connected
from asterism.cli.options import Database
from asterism.cli.output import complain, put
from asterism.errors import AsterismError, InvalidInput, MissingExtra, Refused, RunOwned
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.planner.draft import Draft
from asterism.planner.live_run import LiveRun
from asterism.planner.plan_file import PlanFile, plan_path
from asterism.runtime.client import Client
from asterism.runtime.lookup import find_run
from asterism.runtime.ports.store import RunRow
from asterism.settings import database_path

Serve = Callable[[Draft], Awaitable[None]]

STOP_S = 5.0
"""Bound on stopping, from the signal on. What is not stopped then is ended as by a crash, which loses nothing."""


def edit(
    named: Annotated[str, Parameter(name="RUN_OR_PLANFILE", help="A run that has not ended; or a .json, .yaml or .yml plan file.")],
    /,
    *,
    http: Annotated[
        str | None, Parameter(name="--http", help="HOST:PORT of this machine to serve over HTTP [default: standard input and output].")
    ] = None,
    fleet: Annotated[
        Path | None,
        Parameter(name=["--fleet", "-f"], help="Fleet file [default: that of the run; for a plan file, devices are not checked]."),
    ] = None,
    database: Database = None,
) -> int:
    """Let an MCP client watch and edit a run that is under way, or a plan file."""
    serve = _serving(http)
    path = plan_path(named)
    try:
        asyncio.run(_edit_file(path, fleet, serve) if path else _edit_run(named, fleet, database, serve))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None  # a signal to stop is one, SIGTERM too
    return FINISHED


def _serving(http: str | None) -> Serve:
    """How a draft is served.

    Raises:
        MissingExtra: what it takes is not installed.
        InvalidInput: nothing can be served at that address, or there are no standard streams to serve on.
    """
    try:
        from asterism.planner.editor import editor_server, listen, serve_http, serve_stdio  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("asterism"):
            raise
        raise MissingExtra("server", "asterism mcp edit") from error

    if http is None and (sys.stdin is None or sys.stdout is None):
        raise InvalidInput("standard input or output is closed, and MCP is spoken there; serve it with --http 127.0.0.1:8123")
    listening = listen(http) if http is not None else None

    async def serve(draft: Draft) -> None:
        server = editor_server(draft)
        if listening is None:
            for number in (signal.SIGINT, signal.SIGTERM):  # nothing else gets the SDK away from a standard input that is open
                signal.signal(number, lambda *_: os._exit(INTERRUPTED))
            if sys.stdin.isatty():
                complain("this speaks MCP on standard input and output: let an MCP client start it, or serve it with --http 127.0.0.1:8123")
            await serve_stdio(server)
            return
        put(listening[1])
        await serve_http(server, listening[0], _bound_the_stop)
        raise asyncio.CancelledError  # it stops at a signal alone; a run that is driven here stops, too

    return serve


def _bound_the_stop() -> None:
    """End the process when ``STOP_S`` have passed, whatever it waits for then."""

    def end() -> None:
        complain("interrupted")
        os._exit(INTERRUPTED)

    timer = threading.Timer(STOP_S, end)
    timer.daemon = True
    timer.start()


async def _edit_file(path: Path, fleet_file: Path | None, serve: Serve) -> None:
    fleet = None if fleet_file is None else await read_fleet(fleet_file)
    await serve(PlanFile(path, fleet))


async def _edit_run(named: str, fleet_file: Path | None, database: Path | None, serve: Serve) -> None:
    path = database_path(database)
    async with connected(database) as client:
        row = await find_run(client.store, named)
        if row.machine != CONSTELLATION_AGENT.name:
            raise InvalidInput(
                f"run {row.run_id} is of machine {row.machine!r}; only a {CONSTELLATION_AGENT.name} has a constellation to edit"
            )
        if row.status == "ended":
            raise Refused(f"run {row.run_id} has ended already ({row.outcome}); fork it to go on from an earlier point")
        async with _Standby(client, row, path, fleet_file).ready() as standby:
            await serve(LiveRun(client, CONSTELLATION_AGENT, row.run_id, actor=f"{actor()} by mcp", rouse=standby.rouse))
            standby.tell_that_it_goes_on()


class _Standby:
    """Drives a run here when nobody else does."""

    def __init__(self, client: Client, row: RunRow, database: Path, fleet_file: Path | None) -> None:
        self._client = client
        self._row = row
        self._database = database
        self._fleet_file = fleet_file
        self._driving = False
        self._failure: AsterismError | None = None
        self._group: asyncio.TaskGroup

    @contextlib.asynccontextmanager
    async def ready(self) -> AsyncIterator[_Standby]:
        """Ready to drive; leaving waits until the run is let go of."""
        async with asyncio.TaskGroup() as self._group:
            yield self

    async def rouse(self) -> None:
        """See to it that somebody drives the run.

        Raises:
            AsterismError: the last time, it could not be driven here.
        """
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        row = await self._client.describe(self._row.root)  # the root drives its whole tree
        if not (self._driving or row.owner or row.status == "ended"):
            self._driving = True
            self._group.create_task(self._drive(row))

    def tell_that_it_goes_on(self) -> None:
        """Say why this process does not end yet, if it does not."""
        if self._driving:
            complain(f"the client has gone; run {self._row.root} is driven here until it ends or waits; Ctrl-C stops it")

    async def _drive(self, row: RunRow) -> None:
        try:
            async with open_worker(self._client, row, self._database, fleet_file=self._fleet_file) as runtime:
                await runtime.drive(row.run_id)
        except RunOwned:
            pass  # somebody else has taken it up at the same moment
        except AsterismError as error:
            self._failure = error
            complain(str(error))
        finally:
            self._driving = False
