"""Access to the database, to a run and its machine, and to the name of the user."""

from __future__ import annotations

import contextlib
import gc
import getpass
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from asterism.bootstrap import MACHINES, connect, open_store
from asterism.cli.rendering.registry import renderer_for
from asterism.cli.rendering.renderer import HistoryLine, RunRenderer
from asterism.constellations.plans import plan_of, plan_text, rebase_plan
from asterism.constellations.resumption import check_constellation, first_event_of
from asterism.kernel.journal import Record, check_whole
from asterism.kernel.machine import Machine
from asterism.kernel.packing import packer
from asterism.machines.constellation_agent.events import ConstellationSubmitted
from asterism.runtime import registration
from asterism.runtime.client import Client
from asterism.runtime.lookup import find_run
from asterism.runtime.ports.store import InboxRow, InquiryRow, RunRow, Store
from asterism.settings import database_path


def actor() -> str:
    """Return the name of the user, for the journal."""
    with contextlib.suppress(KeyError, OSError):  # in a container, the user may have no name
        return getpass.getuser()
    return "unknown"


@contextlib.asynccontextmanager
async def reading(database: Path | None) -> AsyncIterator[Store]:
    """Open the store for reading; raises StoreUnavailable where there is none."""
    async with open_store(database_path(database), create=False) as store:
        yield store


def connected(database: Path | None) -> AbstractAsyncContextManager[Client]:
    """Return a client of an existing database; entering it raises StoreUnavailable where there is none."""
    return connect(database, create=False)


async def read_run(store: Store, row: RunRow) -> tuple[RunRenderer, list[Record], list[HistoryLine]]:
    """Read the whole journal of a run; return its renderer, its records and their log lines."""
    machine = machine_of(row)
    renderer = renderer_for(machine, row.run_id)
    records = await store.records(row.run_id)
    check_whole(row.run_id, row.seq, records[-1].seq if records else 0)
    with _garbage_collection_off():
        return renderer, records, renderer.read(map(packer(machine).unpack, records))


@contextlib.contextmanager
def _garbage_collection_off() -> Iterator[None]:
    """Turn the garbage collector off: a journal is plain data without cycles, and a third of the time to read one is its scans."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def machine_of(row: RunRow) -> Machine[Any]:
    """Return the machine of a run.

    Raises:
        UnknownMachine: the machine is registered by a program, and unknown to the commands.
        RunNewer: a newer version of Asterism has written to the run, so its journal cannot be read here.
    """
    return registration.machine_of(row, MACHINES)


def resume_hint(root: RunRow) -> str:
    """Return what resumes a run that no process drives: a command, or the program that owns its machine."""
    own = f"the program that registers its machine {root.machine!r}"
    return f"asterism resume {root.run_id}" if root.machine in MACHINES else own


def check_sendable(row: RunRow) -> None:
    """Check that a run understands the events of this version.

    Raises:
        RunNewer: a newer version of Asterism has written to the run.
    """
    if row.machine in MACHINES:  # other machines are checked by the program that registers them
        machine_of(row)


async def pending_answers(store: Store, asked: Iterable[InquiryRow]) -> dict[str, InboxRow]:
    """Return the answers that are written but not yet delivered to their runs, by inquiry id."""
    inbox = await store.inbox([row.run_id for row in asked])
    return {str(row.key).partition("#")[0]: row for row in inbox}  # a key that was edited by hand may not be text


async def plan_of_run(named: str, database: Path | None) -> str:
    """Return the plan of a run, as the text of a plan file in the current folder.

    Raises:
        InvalidInput: the run is not a constellation's, or has no plan yet.
    """
    async with connected(database) as client:
        row = await find_run(client.store, named)
        check_constellation(row)
        memory, first = (await client.load(row.run_id)).memory, await first_event_of(client, row)
    params = first.plan.params if isinstance(first, ConstellationSubmitted) and first.plan else {}
    plan, here = plan_of(memory.constellation, row.title, params), Path.cwd()
    return plan_text(rebase_plan(plan, Path(memory.working_directory or here), here)).rstrip()
