"""Finding what was named: the database, a run or a question by the beginning of its id, the person who asks."""

from __future__ import annotations

import contextlib
import getpass
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

from asterism.bootstrap import MACHINES, open_store
from asterism.cli.stories.story import Happening, Story
from asterism.cli.stories.telling import story_for
from asterism.errors import InvalidInput, RunNotFound
from asterism.kernel.journal import Record, check_whole
from asterism.kernel.machine import Machine
from asterism.kernel.packing import packer
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.runtime import registration
from asterism.runtime.ports.store import InboxRow, InquiryRow, RunRow, Store
from asterism.settings import database_path

MAX_RUNS = 100_000
"""Runs that are looked through for the beginning of an id."""


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


async def find_run(store: Store, named: str) -> RunRow:
    """The run of that id, or the only one whose id, or its second half, begins so.

    Raises:
        RunNotFound: none.
        InvalidInput: more than one.
    """
    with contextlib.suppress(RunNotFound):
        return await store.run(named)
    found = [row for row in await store.runs(limit=MAX_RUNS) if _begins(row.run, named)]
    if not found:
        raise RunNotFound(named)
    named_ones = [row for row in found if not row.parent] or found  # a child's id begins with its root's
    if len(named_ones) > 1:
        raise InvalidInput(f"{named!r} could be {_some(row.run for row in named_ones)}; write more of it")
    return named_ones[0]


async def find_inquiry(store: Store, named: str) -> InquiryRow:
    """The question of that id, the only open one whose id begins so, or the only open one of a run named so.

    Raises:
        InvalidInput: none, or more than one.
    """
    rows = await store.inquiries(open_only=False)
    exact = [row for row in rows if row.inquiry == named]
    begun = [row for row in rows if _begins(row.inquiry, named)]
    found = exact or [row for row in begun if not row.answer] or begun
    if not found:
        raise InvalidInput(f"there is no question {named!r}; `asterism inbox` lists the open ones")
    if len(found) > 1:
        if all(row.answer for row in found):
            raise InvalidInput(
                f"{named!r} asks nothing any more: its {len(found)} questions are answered; `asterism inbox` lists the open ones"
            )
        roots = {(await store.run(row.run)).root for row in found}
        all_of_them = f", or answer all of {roots.pop()} with --all" if len(roots) == 1 else ""
        raise InvalidInput(f"{named!r} could be {_some(row.inquiry for row in found)}; write more of it{all_of_them}")
    return found[0]


async def find_inquiries(store: Store, named: str, verb: str) -> list[InquiryRow]:
    """The open questions of a run and of those below it that take an answer.

    Raises:
        RunNotFound: no run is named so.
        InvalidInput: it asks nothing that does.
    """
    run = (await find_run(store, named)).run
    asked = [row for row in await store.inquiries(root=run) or await store.inquiries(run=run) if verb in row.verbs]
    if not asked:
        raise InvalidInput(f"run {run} asks nothing that takes {verb}; `asterism inbox` lists the open questions")
    return asked


async def read_story(store: Store, row: RunRow) -> tuple[Story, list[Record], list[Happening]]:
    """The whole story of a run, as far as its journal goes."""
    machine = machine_of(row)
    story = story_for(machine, row.run)
    records = await store.records(row.run)
    check_whole(row.run, row.seq, records[-1].seq if records else 0)
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
    return f"asterism resume {root.run}" if root.machine in MACHINES else own


def check_sendable(row: RunRow) -> None:
    """See that a run would understand what this program sends.

    Raises:
        RunNewer: a newer program has written to it.
    """
    if row.machine in MACHINES:  # what a program's own machine understands, that program says
        machine_of(row)


async def answers_to(store: Store, asked: Iterable[InquiryRow]) -> dict[str, InboxRow]:
    """The answers that are written and not taken yet, by the id of their question."""
    letters = await store.inbox([row.run for row in asked])
    return {str(letter.key).partition("#")[0]: letter for letter in letters}  # a key that was changed by hand may be no text


def check_planned(row: RunRow) -> None:
    """See that a run is of a constellation.

    Raises:
        InvalidInput: it is of another machine.
    """
    if row.machine != CONSTELLATION_AGENT.name:
        raise InvalidInput(f"run {row.run} is of machine {row.machine!r}; this is for constellations")


def _begins(identity: str, named: str) -> bool:
    return bool(named) and (identity.startswith(named) or identity.partition("-")[2].startswith(named))


def _some(identities: Iterable[str]) -> str:
    listed = list(identities)
    return ", ".join(listed[:5]) + (f" and {len(listed) - 5} more" if len(listed) > 5 else "")  # noqa: PLR2004 - enough to see the pattern
