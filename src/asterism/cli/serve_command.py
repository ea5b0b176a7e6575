"""The command that serves a fleet: serve."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from asterism.app.serve import ServeOptions, Server, open_server
from asterism.app.settings import database_path
from asterism.cli.api_options import Api, ApiFlags
from asterism.cli.exit_codes import FINISHED
from asterism.cli.options import Database
from asterism.cli.output import complain, put
from asterism.engine.kernel.journal import Entry
from asterism.engine.runtime.clock import DAY_S
from asterism.errors import InvalidInput
from asterism.views.words import count

MAX_CONCURRENCY = 10_000


class _Warnings:
    """Observer that prints the problems of runs."""

    def appended(self, run_id: str, entries: Sequence[Entry]) -> None:
        """Print nothing: the journals have it."""

    def trouble(self, run_id: str, message: str) -> None:
        """Print a problem."""
        complain(message if not run_id or run_id in message else f"run {run_id}: {message}")


def serve(
    *,
    fleet: Annotated[Path | None, Parameter(name=["--fleet", "-f"], help="Fleet file with the devices of the runs.")] = None,
    concurrency: Annotated[int, Parameter(help="Root runs that are driven at once.")] = 100,
    grace: Annotated[float, Parameter(help="Seconds for work that must not be repeated, when the server stops.")] = 10.0,
    retain_days: Annotated[
        float | None, Parameter(help="Delete runs, with their files, this many days after their end [default: never].")
    ] = None,
    public_url: Annotated[str, Parameter(help="Address of this server for links in notifications [default: that of its API].")] = "",
    database: Database = None,
    api: ApiFlags = ApiFlags(),  # noqa: B008 - immutable
) -> int:
    """Drive every run of the database that is due, until SIGTERM or Ctrl-C.

    Runs that were interrupted continue, runs that other commands submit are driven, schedules start
    theirs, and deadlines pass although nobody looks. Stopping loses nothing: the next server, or asterism resume, continues.
    """
    if not 1 <= concurrency <= MAX_CONCURRENCY:
        raise InvalidInput(f"--concurrency must be from 1 to {MAX_CONCURRENCY}, not {concurrency}")
    if not 0 <= grace < float("inf"):
        raise InvalidInput(f"--grace must be a number of seconds from 0, not {grace:g}")
    if retain_days is not None and not 0 < retain_days < float("inf"):
        raise InvalidInput(f"--retain-days must be a number of days above 0, not {retain_days:g}")
    retain_s = None if retain_days is None else retain_days * DAY_S
    options = ServeOptions(concurrency=concurrency, grace_s=grace, url=public_url, retain_s=retain_s)
    return asyncio.run(_serve(database_path(database), fleet, options, Api(api)))


async def _serve(database: Path, fleet: Path | None, options: ServeOptions, api: Api) -> int:
    async with (
        open_server(database, fleet, options, observers=[_Warnings(), *api.observers]) as server,
        api.serving(server, database) as listens,
    ):
        app = server.app
        devices = f"{fleet} ({count(len(app.fleet), 'device')})" if fleet else "no fleet: loops, conversations and functions"
        await _until_stopped(server, f"serving {devices}; runs in {database}; stop with Ctrl-C or SIGTERM\n{listens}")
    put("stopped; the runs continue with the next server, or with: asterism resume")
    return FINISHED


async def _until_stopped(server: Server, text: str = "") -> None:
    """Drive runs until a signal comes; print a text as soon as one would be handled."""
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        driving = group.create_task(server.serve())

        came: list[signal.Signals] = []  # not driving.cancelling(): a timeout that expires in the task counts there, too

        def stop(number: signal.Signals) -> None:
            came.append(number)
            if len(came) > 1:
                server.hurry()
                complain(f"{number.name} again: stopping without waiting for work that must not be repeated")
            else:
                driving.cancel()
                complain(f"{number.name}: stopping; runs are released at their next transition")

        # They stay until the loop is closed: a signal while the server closes must not cut that off.
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop, number)
        if text:
            put(text)
        await asyncio.wait([driving])
