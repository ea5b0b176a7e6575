"""The options of the command serve that are about its HTTP API."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from asterism.app.serve import Server
from asterism.app.settings import model_choice
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.conversation.python.agent import StandardAgent
from asterism.conversation.python.plans import check_on_fleet
from asterism.conversation.python.source import agents_of
from asterism.engine.ports.observer import Observer
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.lookup import find_run
from asterism.errors import InvalidInput, MissingExtra


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ApiFlags:
    """The options."""

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
        async with self._open(app, self._options, database, self._news, model_choice(), agents=self._agents) as api:
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
