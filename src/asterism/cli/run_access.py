"""Access to the database, to a run and its machine, and to the name of the user."""

from __future__ import annotations

import contextlib
import gc
import getpass
import os
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from asterism.app.bootstrap import FORMS, connect, open_store
from asterism.app.settings import database_path, server_token, server_url
from asterism.engine.ports.store import RunReader, RunRow, Store
from asterism.engine.runtime import form
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.form import Form
from asterism.errors import InvalidInput, MissingExtra, StoreUnavailable
from asterism.views.text.history import HistoryLine, RunHistory
from asterism.views.text.show import read_tree

if TYPE_CHECKING:
    from asterism.service.remote_app import RemoteApp


def actor() -> str:
    """Return the name of the user, for the journal."""
    with contextlib.suppress(KeyError, OSError):  # in a container, the user may have no name
        return getpass.getuser()
    return "unknown"


def reading(database: Path | None) -> AbstractAsyncContextManager[Store]:
    """Open the store of a database; entering it raises StoreUnavailable where there is none."""
    return open_store(database_path(database), create=False)


def runs_of(database: Path | None, server: str | None) -> AbstractAsyncContextManager[Client | RemoteApp]:
    """Return the runs of a database, a ``Client``, or those of a server; the arguments are as in ``server_url``.

    Entering it raises StoreUnavailable where there is no database.
    """
    return remote_runs(url) if (url := server_url(server, database)) else connected(database)


def remote_runs(url: str) -> AbstractAsyncContextManager[RemoteApp]:
    """Return the runs of a server.

    Raises:
        MissingExtra: the HTTP client is not installed.
        InvalidInput: there is no token, or the URL is none.
    """
    try:
        from asterism.service.remote_app import open_remote  # noqa: PLC0415 - only --server needs an HTTP client
    except ImportError as error:
        raise MissingExtra("client", "--server") from error
    if not url.startswith(("http://", "https://")):
        raise InvalidInput(f"{url}: not the URL of a server; it begins with http:// or https://")
    return open_remote(url, server_token())


def connected(database: Path | None) -> AbstractAsyncContextManager[Client]:
    """Return a client of an existing database; entering it raises StoreUnavailable where there is none."""
    return connect(database, create=False)


async def read_run(store: RunReader, row: RunRow) -> tuple[RunHistory, list[HistoryLine]]:
    """Read the whole journal of a run; return its history and its log lines."""
    records = await store.records(row.run_id)
    with garbage_collection_off():
        tree = read_tree(row.run_id, [(row, records)], form_of)
    return tree.history, tree.lines


def refuse_with_server(**given: object) -> None:
    """Refuse options that are about this computer, or about the driving of a run.

    Raises:
        InvalidInput: one of them is given.
    """
    if found := [name for name, value in given.items() if value]:
        raise InvalidInput(f"--{found[0].replace('_', '-')} does not work with a server, which drives its runs by its own settings")


@contextlib.contextmanager
def garbage_collection_off() -> Iterator[None]:
    """Turn the garbage collector off: a journal is plain data without cycles, and a third of the time to read one is its scans."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def form_of(row: RunRow) -> Form:
    """Return the form of a run.

    Raises:
        UnknownMachine: the machine is registered by a program, and unknown to the commands.
        RunNewer: a newer version of Asterism has written to the run, so its journal cannot be read here.
    """
    return form.form_of(row, FORMS)


def resume_hint(root: RunRow) -> str:
    """Return how to resume a run that no process drives: a command, or the name of the machine whose program must drive it."""
    own = f"the program that registers its machine {root.machine!r}"
    return f"asterism resume {root.run_id}" if root.machine in FORMS else own


def check_sendable(row: RunRow) -> None:
    """Check that a run understands the events of this version.

    Raises:
        RunNewer: a newer version of Asterism has written to the run.
    """
    if row.machine in FORMS:  # other machines are checked by the program that registers them
        form_of(row)


async def check_database(database: Path) -> None:
    """Check that a database can be used, without writing anything.

    Raises:
        StoreUnavailable: it is not an asterism database, or cannot be written.
    """
    if database.exists() and (not database.is_file() or database.stat().st_size):  # noqa: ASYNC240 - one look, before anything runs
        async with open_store(database, create=False):
            return
    there = next(folder for folder in database.absolute().parents if folder.exists())  # noqa: ASYNC240 - as above
    if not os.access(there, os.W_OK):
        raise StoreUnavailable(f"database {database}: the folder {there} is read-only; make it writable, or name another database")
