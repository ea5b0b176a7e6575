"""What commands begin with: the database, the story of a run, the person who asks."""

from __future__ import annotations

import contextlib
import getpass
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from asterism.bootstrap import MACHINES, connect, open_store
from asterism.cli.stories.story import HistoryLine, Story
from asterism.cli.stories.telling import story_for
from asterism.kernel.journal import Record, check_whole
from asterism.kernel.machine import Machine
from asterism.kernel.packing import packer
from asterism.runtime import registration
from asterism.runtime.client import Client
from asterism.runtime.ports.store import InboxRow, InquiryRow, RunRow, Store
from asterism.settings import database_path


def actor() -> str:
    """The name of the person at the keyboard, for the journal."""
    with contextlib.suppress(KeyError, OSError):  # a container may run as a user without a name
        return getpass.getuser()
    return "somebody"


@contextlib.asynccontextmanager
async def reading(database: Path | None) -> AsyncIterator[Store]:
    """The store as it is; StoreUnavailable where there is none yet."""
    async with open_store(database_path(database), create=False) as store:
        yield store


def connected(database: Path | None) -> AbstractAsyncContextManager[Client]:
    """A client of the database that there is; StoreUnavailable where there is none yet."""
    return connect(database, create=False)


async def read_story(store: Store, row: RunRow) -> tuple[Story, list[Record], list[HistoryLine]]:
    """The whole story of a run, as far as its journal goes."""
    machine = machine_of(row)
    story = story_for(machine, row.run_id)
    records = await store.records(row.run_id)
    check_whole(row.run_id, row.seq, records[-1].seq if records else 0)
    return story, records, story.read(map(packer(machine).unpack, records))


def machine_of(row: RunRow) -> Machine[Any]:
    """The machine of a run.

    Raises:
        UnknownMachine: the commands do not know it; it is a program's own.
        RunNewer: a newer program has written to the run, so that its journal cannot be read here.
    """
    return registration.machine_of(row, MACHINES)


def how_to_go_on(root: RunRow) -> str:
    """Return what goes on with a run that nobody drives: a command, or its own program."""
    own = f"the program that registers its machine {root.machine!r}"
    return f"asterism resume {root.run_id}" if root.machine in MACHINES else own


def check_sendable(row: RunRow) -> None:
    """See that a run would understand what this program sends.

    Raises:
        RunNewer: a newer program has written to it.
    """
    if row.machine in MACHINES:  # what a program's own machine understands, that program says
        machine_of(row)


async def answers_to(store: Store, asked: Iterable[InquiryRow]) -> dict[str, InboxRow]:
    """The answers that are written and not taken yet, by the id of their question."""
    letters = await store.inbox([row.run_id for row in asked])
    return {str(letter.key).partition("#")[0]: letter for letter in letters}  # a key that was changed by hand may be no text
