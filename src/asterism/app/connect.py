"""Connect to runs that other processes drive: those of a database, or those of a server."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from asterism.app import bootstrap
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.form import Form
from asterism.errors import InvalidInput, MissingExtra

if TYPE_CHECKING:
    from asterism.devices.fleet.python_fleet import Fleet
    from asterism.service.remote_app import RemoteApp


@overload
def connect(
    database: Path | str | None = None,
    *,
    fleet: Path | str | Fleet | None = None,
    machines: Sequence[Form] = (),
    create: bool = True,
) -> AbstractAsyncContextManager[Client]: ...


@overload
def connect(database: str, *, token: str) -> AbstractAsyncContextManager[RemoteApp]: ...


def connect(  # noqa: D417 - the options have their names in the overload
    database: Path | str | None = None, *, token: str | None = None, **options: Any
) -> AbstractAsyncContextManager[Any]:
    """Open a client, to submit, command and read runs; another process drives them.

    With the URL of a server and a token, the client has the methods of the app that ``asterism.open()`` yields, so a program
    moves from one to the other by a line.

    Args:
        database: file with the journals; by default that of the commands. Or the URL of a server, with a token.
        fleet: the devices of submitted constellations, as a fleet file or a ``Fleet``; the devices
            are described, and not held open.
        machines: the program's own machines, in addition to the built-in ones.
        create: make the database if it does not exist.
        token: token for the server.

    Raises:
        InvalidInput: the fleet file or the URL cannot be used, another machine has the name of a registered one,
            or a module that is being imported calls this.
        MissingExtra: the HTTP client is not installed.
        StoreUnavailable: the database cannot be used, or it does not exist and ``create`` is False.
    """
    is_url = isinstance(database, str) and database.startswith(("http://", "https://"))
    if not is_url:
        if token is not None:
            raise InvalidInput(f"a token is for the URL of a server, not for {database!r}")
        return bootstrap.connect(database, **options)
    if token is None or options:
        raise InvalidInput("a server needs a token, and nothing else: asterism.connect(url, token=…)")
    try:
        from asterism.service.remote_app import open_remote  # noqa: PLC0415 - a client of a database needs no HTTP
    except ImportError as error:
        raise MissingExtra("client", "a client of a server") from error
    return open_remote(str(database), token)
