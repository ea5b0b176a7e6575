"""The command that serves a fleet: serve."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from asterism.app.serve import ServeOptions, Server, open_server
from asterism.app.settings import database_path, model_choice
from asterism.cli.exit_codes import FINISHED
from asterism.cli.options import Database
from asterism.cli.output import complain, put
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.conversation.python.agent import StandardAgent
from asterism.conversation.python.plans import check_on_fleet
from asterism.conversation.python.source import agents_of
from asterism.engine.kernel.journal import Entry
from asterism.engine.ports.observer import Observer
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.clock import DAY_S
from asterism.engine.runtime.lookup import find_run
from asterism.errors import InvalidInput, MissingExtra
from asterism.views.words import count


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ApiFlags:
    """The options that are about the HTTP API."""

    host: Annotated[str, Parameter(help="Address to listen on; one that is not of the loopback needs TLS.")] = "127.0.0.1"
    port: Annotated[int | None, Parameter(help="Port, or 0 for any free one [default: 8642, or any free one if it is taken].")] = None
    behind_tls: Annotated[bool, Parameter(negative=(), help="A proxy in front of the server adds TLS.")] = False
    cert: Annotated[Path | None, Parameter(help="TLS certificate (PEM), with its key unless --key names it.")] = None
    key: Annotated[Path | None, Parameter(help="Key of the certificate (PEM).")] = None
    host_name: Annotated[tuple[str, ...], Parameter(help="Name by which clients reach the server; may be repeated.")] = ()
    agents: Annotated[
        tuple[str, ...],
        Parameter(
            help="Flow agents with which clients start conversations: file.py, file.py:Name, a module or an entry point; may be repeated."
        ),
    ] = ()
    open: Annotated[str, Parameter(help="Run or conversation whose page the login link opens: its id, or the beginning of it.")] = ""
    submissions: Annotated[int, Parameter(help="Runs, conversations and files that one token may submit in a minute.")] = 60
    no_api: Annotated[bool, Parameter(negative=(), help="Only drive runs, without the HTTP API.")] = False


class Api:
    """The API of the command serve, with its observer of the driver."""

    def __init__(self, flags: ApiFlags) -> None:
        self._flags = flags
        self.observers: Sequence[Observer] = ()
        if flags.key and not flags.cert:
            raise InvalidInput("--key is the key of a certificate; name that, too, with --cert")
        if flags.open and flags.no_api:
            raise InvalidInput("--open: a server without an API has no pages; leave out --no-api")
        self._agents = named_agents(flags.agents)
        if flags.no_api:
            return
        try:
            from asterism.service.listener import Certificate  # noqa: PLC0415 - a server without an API needs none of it
            from asterism.service.service import HttpOptions, RunNews, check_options, open_api  # noqa: PLC0415 - as above
        except ImportError as error:
            raise MissingExtra("server", "the HTTP API of serve (leave it out with --no-api)") from error
        self._options = HttpOptions(
            host=flags.host,
            port=flags.port,
            behind_tls=flags.behind_tls,
            certificate=Certificate(flags.cert, flags.key) if flags.cert else None,
            host_names=flags.host_name,
            submissions=flags.submissions,
        )
        check_options(self._options)
        self._news = RunNews()
        self._open = open_api
        self.observers = (self._news,)

    @contextlib.asynccontextmanager
    async def serving(self, server: Server, database: Path) -> AsyncIterator[str]:
        """Serve the API while runs are driven; yield the text that says where.

        Raises:
            InvalidInput: the plan of an agent cannot run on the devices, or several runs have the id of the page.
            RunNotFound: none has it.
        """
        if self._flags.no_api:
            yield "no API"
            return
        app = server.app
        for agent in self._agents.values():
            await check_on_fleet(agent, app.fleet, app.here, app.devices)
        page = page_of(await find_run(app.store, self._flags.open)) if self._flags.open else "/"
        async with self._open(app, self._options, database, self._news, model_choice(), agents=self._agents, hooks=server.hooks) as api:
            server.url = server.url or api.url
            yield f"API at {api.url}, with the token in {api.token_file}\nlogin link, for 5 minutes and one login: {api.link(page)}"


def page_of(row: RunRow) -> str:
    """Return the path of the page of a run."""
    return f"/{'conversations' if row.machine == FLOW_AGENT.name else 'runs'}/{row.run_id}"


def named_agents(sources: Sequence[str]) -> dict[str, type[StandardAgent]]:
    """Return the agents of some sources, by the name under which clients start them.

    Raises:
        InvalidInput: a source has no agents, or two agents have one name.
    """
    found: dict[str, type[StandardAgent]] = {}
    for agent in [agent for source in sources for agent in agents_of(source, Path.cwd())]:
        if found.setdefault(agent.__name__, agent) is not agent:
            raise InvalidInput(f"--agents: two agents have the name {agent.__name__}; rename one of them")
    return found


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
    api: ApiFlags = ApiFlags(),
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
