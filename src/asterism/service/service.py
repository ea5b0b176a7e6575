"""The API of a process that drives runs: its socket, its token for the local user, its metrics."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import re
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import msgspec
from opentelemetry import metrics
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider

from asterism.constellation.planner.model_choice import ModelChoice
from asterism.conversation.python.agent import StandardAgent
from asterism.devices.dispatch.places import drains_of
from asterism.engine.kernel.journal import Entry
from asterism.engine.ports.events import Hook
from asterism.engine.ports.store import Store
from asterism.engine.ports.tokens import TokenRow
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.private_files import opener
from asterism.errors import InvalidInput
from asterism.service.api.app import guarded
from asterism.service.api.context import LOOPBACK, ApiContext, ApiOptions
from asterism.service.api.feeds import Feeds
from asterism.service.api.limits import SUBMISSIONS
from asterism.service.listener import Certificate, Listener, listening_socket
from asterism.service.tokens import authenticated, login_link, new_token
from asterism.words.planner.planner import OfflinePlanner

PORT = 8642
"""The port by default; any free one if another process has it."""
LOCK_S, LOCK_PAUSE_S = 10.0, 0.05
"""Seconds for which a server waits for another one that makes the token, and between two tries."""
LOCAL = "local"
"""Name of the token in the token file; of a second file, followed by a hash of its place."""
_IS_LOCAL = re.compile(f"{LOCAL}(-[0-9a-f]{{8}})?")
START_S = 0.02

_LOOPBACK_ADDRESSES = ("127.0.0.1", "::1", "localhost")


class HttpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server listens.

    Attributes:
        host: address of this computer to listen on.
        port: port; 0 for any free one, None for ``PORT`` or any free one.
        behind_tls: True if a proxy on this address adds TLS.
        certificate: certificate of the server itself.
        host_names: names by which clients reach it, in addition to those of the loopback.
        submissions: submissions of one token in a minute.
    """

    host: str = "127.0.0.1"
    port: int | None = None
    behind_tls: bool = False
    certificate: Certificate | None = None
    host_names: Sequence[str] = ()
    submissions: int = SUBMISSIONS


class ApiService(msgspec.Struct, frozen=True):
    """An API that is being served.

    Attributes:
        url: where it listens.
        token_file: has a token that only the user of this process can read.
        login: logs a browser in, once, within five minutes.
    """

    url: str
    token_file: Path
    login: str

    def link(self, path: str = "/") -> str:
        """Return the address of a page of the console with the login."""
        return f"{self.url}{path}#login={self.login}"


class RunNews:
    """Observer of a driver that lets the streams of an API read new entries at once."""

    def __init__(self) -> None:
        self.feeds: Feeds | None = None

    def appended(self, run_id: str, entries: Sequence[Entry]) -> None:
        """Read the journal now, if it is watched."""
        if self.feeds:
            self.feeds.appended(run_id, entries)

    def trouble(self, run_id: str, message: str) -> None:
        """Do nothing: problems are in the rows of runs."""


def check_options(options: HttpOptions) -> None:
    """Check the limit, and that tokens are not sent in the clear.

    Raises:
        InvalidInput: the limit is none; or the address is not of the loopback, and there is no TLS, or no name of it for clients.
    """
    if options.submissions < 1:
        raise InvalidInput(f"--submissions must be a number from 1, not {options.submissions}")
    if options.host in _LOOPBACK_ADDRESSES:
        return
    if not options.behind_tls and options.certificate is None:
        raise InvalidInput(
            f"--host {options.host}: tokens would be sent in the clear; give --cert FILE, or --behind-tls if a proxy adds TLS"
        )
    if not options.host_names:
        raise InvalidInput(f"--host {options.host}: name the server as its clients do, with --host-name runs.example.org")


@contextlib.asynccontextmanager
async def open_api(
    client: Client,
    options: HttpOptions,
    database: Path,
    news: RunNews,
    model: ModelChoice | None = None,
    *,
    agents: Mapping[str, type[StandardAgent]] = {},
    hooks: Mapping[str, Hook] = {},
) -> AsyncIterator[ApiService]:
    """Serve the API of a database.

    Args:
        client: client of the database, with the fleet of the runs that are submitted.
        options: where to listen.
        database: path of the database; the token file has its name with ``.token``.
        news: observer of the driver of this process.
        model: plans the requests that are submitted; None for the offline planner.
        agents: flow agents with which clients start conversations, by name.
        hooks: where other systems post events, by name.

    Raises:
        InvalidInput: the options cannot be used, or the address is taken.
    """
    check_options(options)
    measure()
    secure = options.behind_tls or options.certificate is not None
    is_open = True
    context = ApiContext(
        client,
        ApiOptions(hosts=(*LOOPBACK, *options.host_names), secure=secure, fleet=client.fleet_name, submissions=options.submissions),
        planner=OfflinePlanner(),
        model=model,
        agents=agents,
        drains=drains_of(client.fleet, Path(client.fleet_file) if client.fleet_file else None, database),
        hooks=hooks,
        is_ready=lambda: is_open,
    )
    with _listening(options) as listening:
        listener = Listener(guarded(context), options.certificate)
        news.feeds = context.feeds
        async with asyncio.TaskGroup() as group:
            served = group.create_task(listener.serve(sockets=[listening]))
            try:
                while not listener.started and not served.done():  # noqa: ASYNC110 - uvicorn has no event for it
                    await asyncio.sleep(START_S)
                url = _url(options, listening)
                await client.store.announce_server(client.fleet_name, url, fleet_file=client.fleet_file)
                token_file, row = await local_token(client.store, database, client.clock.now(), url)
                yield ApiService(url, token_file, await login_link(client.store, row, client.clock.now()))
            finally:
                is_open = False
                context.feeds.stop()
                listener.should_exit = True


def _listening(options: HttpOptions) -> socket.socket:
    if options.port is not None:
        return listening_socket(options.host, options.port)
    try:
        return listening_socket(options.host, PORT)
    except InvalidInput:
        return listening_socket(options.host, 0)


def _url(options: HttpOptions, listening: socket.socket) -> str:
    scheme = "https" if options.certificate else "http"
    name = options.host_names[0] if options.certificate and options.host_names else options.host
    return f"{scheme}://{f'[{name}]' if ':' in name else name}:{listening.getsockname()[1]}"


def token_path(database: Path) -> Path:
    """Return the file with the token of the local user."""
    return Path(f"{os.path.realpath(database)}.token")


async def local_token(store: Store, database: Path, now: float, url: str = "") -> tuple[Path, TokenRow]:
    """Return the file with a token of the role ``admin``, and its row; the file is written if its token cannot be used.

    Earlier ones are then revoked, unless a server with another ``url`` is live, which may use them in another folder.

    Raises:
        InvalidInput: the file cannot be written.
    """
    path = token_path(database)
    async with _held(path.parent):
        return path, await _usable_token(store, path, now, url)


@contextlib.asynccontextmanager
async def _held(folder: Path) -> AsyncIterator[None]:
    """Lock a folder, so that of servers that start at once the first one makes the token; after ``LOCK_S``, go on without."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            for _ in range(round(LOCK_S / LOCK_PAUSE_S)):
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                await asyncio.sleep(LOCK_PAUSE_S)
        yield


async def _usable_token(store: Store, path: Path, now: float, url: str) -> TokenRow:
    with contextlib.suppress(OSError, UnicodeError):
        if row := await authenticated(store, path.read_text(encoding="ascii").strip(), "token", now):  # noqa: ASYNC240 - before it serves
            return row
    own = f"{LOCAL}-{hashlib.sha256(f'{socket.gethostname()}:{path}'.encode()).hexdigest()[:8]}"
    shared = any(it.serves and it.url not in ("", url) for it in await store.list_processes())
    earlier = [it for it in await store.tokens() if it.usable(now) and _IS_LOCAL.fullmatch(it.name)]
    for row in earlier:
        if row.name == own or not shared:
            await store.revoke_token(row.token_id, now)
    token, row = new_token(own if shared and earlier else LOCAL, ["admin"], now)
    draft = Path(f"{path}.new")
    try:
        with open(draft, "w", encoding="ascii", opener=opener) as file:  # noqa: ASYNC230 - before it serves
            file.write(f"{token}\n")
        draft.replace(path)  # noqa: ASYNC240 - as above
    except OSError as error:
        raise InvalidInput(f"{path}: the token of this user cannot be written: {error.strerror}") from None
    await store.add_token(row)
    return row


def measure() -> None:
    """Let the metrics of this process be read at ``/metrics``, unless the program sends them somewhere already."""
    if type(metrics.get_meter_provider()).__module__.startswith("opentelemetry.metrics"):
        metrics.set_meter_provider(MeterProvider([PrometheusMetricReader()]))
