"""The command mcp edit: serve the constellation editor for a live run or a plan file to MCP clients.

A run that no process drives is driven here as soon as it is edited, until it ends or waits for a person. When this
process ends, the run stops; `asterism resume` resumes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from asterism.app.bootstrap import open_driver_for, read_fleet
from asterism.app.settings import database_path
from asterism.cli.exit_codes import FINISHED, INTERRUPTED
from asterism.cli.options import Database
from asterism.cli.output import complain, put
from asterism.cli.run_access import actor, connected
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.planner.draft import Draft
from asterism.constellation.planner.live_run import LiveRun
from asterism.constellation.planner.plan_file import PlanFile, plan_path
from asterism.engine.kernel.permissions import Permission
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.client import NETWORKED, Client
from asterism.engine.runtime.lookup import find_run
from asterism.errors import AsterismError, InvalidInput, MissingExtra, Refused, RunOwned

Serve = Callable[[Draft], Awaitable[None]]

STOP_S = 5.0
"""Seconds from a signal to the end of the process, which then exits as in a crash; nothing is lost."""
_LOOPBACK = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "::1": "::1"}
_EDITOR = (Permission.VIEW, Permission.EDIT)
"""Permissions of an MCP client, which is mostly a model: it edits, and neither answers nor lifts a guard."""


def edit(
    named: Annotated[str, Parameter(name="RUN_OR_PLANFILE", help="An unfinished run, or a plan file (.json, .yaml, .yml).")],
    /,
    *,
    http: Annotated[
        str | None, Parameter(name="--http", help="Serve over HTTP on HOST:PORT of this computer [default: standard input and output].")
    ] = None,
    fleet: Annotated[
        Path | None,
        Parameter(name=["--fleet", "-f"], help="Fleet file [default: the one of the run; for a plan file, devices are not checked]."),
    ] = None,
    database: Database = None,
) -> int:
    """Serve an unfinished run, or a plan file, to MCP clients for editing."""
    serve = _serving(http)
    path = plan_path(named)
    try:
        asyncio.run(_edit_file(path, fleet, serve) if path else _edit_run(named, fleet, database, serve))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None  # any stop signal, SIGTERM too, is reported as an interrupt
    return FINISHED


def _serving(http: str | None) -> Serve:
    """Return the function that serves a draft.

    Raises:
        MissingExtra: the extra ``server`` is not installed.
        InvalidInput: the address cannot be used, or there are no standard streams to serve on.
    """
    try:
        from asterism.constellation.planner.editor import editor_app, editor_server, serve_stdio  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("asterism"):
            raise
        raise MissingExtra("server", "asterism mcp edit") from error

    if http is None and (sys.stdin is None or sys.stdout is None):
        raise InvalidInput("standard input or output is closed, so MCP cannot use it; serve over HTTP with --http 127.0.0.1:8123")
    listening, url = _listen(http) if http is not None else (None, "")

    async def serve(draft: Draft) -> None:
        server = editor_server(draft)
        if listening is None:
            for number in (signal.SIGINT, signal.SIGTERM):  # nothing else stops the SDK from reading an open standard input
                signal.signal(number, lambda *_: os._exit(INTERRUPTED))
            if sys.stdin.isatty():
                complain("this command speaks MCP on standard input and output: start it from an MCP client, or add --http 127.0.0.1:8123")
            await serve_stdio(server)
            return
        put(url)
        NETWORKED.set(True)
        await _serve_http(editor_app(server), listening)
        raise asyncio.CancelledError  # only a signal ends it; a run that is driven here stops, too

    return serve


def _listen(address: str) -> tuple[socket.socket, str]:
    """Return a socket that listens at ``HOST:PORT``, where port 0 is any free one, and the URL of the editor there.

    Raises:
        InvalidInput: the address is not a loopback address, or is in use.
    """
    from asterism.constellation.planner.editor import PATH  # noqa: PLC0415 - as in _serving
    from asterism.service.listener import listening_socket  # noqa: PLC0415 - as in _serving

    name, _, port = address.rpartition(":")
    host = name.strip("[]") or "127.0.0.1"
    if not port.isascii() or not port.isdigit():
        raise InvalidInput(f"--http {address}: expected HOST:PORT, such as 127.0.0.1:8123")
    if host not in _LOOPBACK:
        raise InvalidInput(f"--http {address}: there is no login, so the host must be local: {', '.join(_LOOPBACK)}")
    listening = listening_socket(_LOOPBACK[host], int(port))
    shown = f"[{host}]" if ":" in host else host
    return listening, f"http://{shown}:{listening.getsockname()[1]}{PATH}"


async def _serve_http(app: Any, listening: socket.socket) -> None:
    """Serve an ASGI application until SIGINT or SIGTERM; the socket is closed at the end.

    Connections end first, then sessions. The SDK hangs if all tasks are cancelled at once: a request
    that opens a session waits, shielded, for a task that never started.
    """
    from asterism.service.listener import Listener  # noqa: PLC0415 - as in _serving

    listener = Listener(app)

    def stop() -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # a request that ends now is no error
        listener.should_exit = True
        _bound_the_stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    with listening:
        await listener.serve(sockets=[listening])


def _bound_the_stop() -> None:
    """End the process after ``STOP_S`` seconds, whatever it is waiting for."""

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
                f"run {row.run_id} belongs to machine {row.machine!r}; only a {CONSTELLATION_AGENT.name} has a constellation to edit"
            )
        if row.status == "ended":
            raise Refused(f"run {row.run_id} has already ended ({row.outcome}); fork it to continue from an earlier entry")
        async with _FallbackDriver(client, row, path, fleet_file).ready() as fallback:
            editing = client.acting_with(_EDITOR)
            await serve(LiveRun(editing, CONSTELLATION_AGENT, row.run_id, actor=f"{actor()} by mcp", rouse=fallback.ensure_driven))
            fallback.warn_if_driving()


class _FallbackDriver:
    """Driver of a run for the time that no other process drives it."""

    def __init__(self, client: Client, row: RunRow, database: Path, fleet_file: Path | None) -> None:
        self._client = client
        self._row = row
        self._database = database
        self._fleet_file = fleet_file
        self._driving = False
        self._failure: AsterismError | None = None
        self._group: asyncio.TaskGroup

    @contextlib.asynccontextmanager
    async def ready(self) -> AsyncIterator[_FallbackDriver]:
        """Drive within this block; leaving it waits until the driving has stopped."""
        async with asyncio.TaskGroup() as self._group:
            yield self

    async def ensure_driven(self) -> None:
        """Drive the run if no process does.

        Raises:
            AsterismError: the previous attempt to drive the run failed.
        """
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        row = await self._client.describe(self._row.root)  # the root drives its whole tree
        if not (self._driving or row.owner or row.status == "ended"):
            self._driving = True
            self._group.create_task(self._drive(row))

    def warn_if_driving(self) -> None:
        """Warn that this process still drives the run, if it does."""
        if self._driving:
            complain(
                f"the client has disconnected; run {self._row.root} is driven here until it ends or waits for a person; Ctrl-C stops it"
            )

    async def _drive(self, row: RunRow) -> None:
        try:
            async with open_driver_for(self._client, row, self._database, fleet_file=self._fleet_file) as runtime:
                await runtime.drive(row.run_id)
        except RunOwned:
            pass  # another process has started to drive it at the same moment
        except AsterismError as error:
            self._failure = error
            complain(str(error))
        finally:
            self._driving = False
