"""Find runs and questions by the beginning of an id, and the runs that nobody drives."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec

from asterism.engine.control.run_control import Pause, Unpause
from asterism.engine.kernel.journal import JournalMismatch
from asterism.engine.kernel.machine import kind_of
from asterism.engine.ports.store import InquiryRow, RunReader, RunRow, begins_with
from asterism.engine.runtime.client import Client
from asterism.errors import InvalidInput, RunNotFound

MAX_RUNS = 100_000
"""Runs of one tree."""
MAX_MATCHES = 1000
"""Runs with one beginning that are named to choose from."""
_PAUSES = frozenset({kind_of(Pause), kind_of(Unpause)})


async def find_run(store: RunReader, named: str) -> RunRow:
    """Return the run with this id, or the only one whose id begins with it.

    The part of an id after its first ``-`` counts as a beginning, too.

    Raises:
        RunNotFound: no run matches.
        InvalidInput: more than one run matches.
    """
    with contextlib.suppress(RunNotFound):
        return await store.run(named)
    # A child's id begins with its root's.
    found = await _begun(store, named, roots_only=True) or await _begun(store, named, roots_only=False)
    if not found:
        raise RunNotFound(named)
    if len(found) > 1:
        raise InvalidInput(f"{named!r} matches {_some(row.run_id for row in found)}; give more of the id")
    return found[0]


async def _begun(store: RunReader, named: str, *, roots_only: bool) -> list[RunRow]:
    return await store.runs(begins=named, roots_only=roots_only, limit=MAX_MATCHES) if named else []


async def find_inquiry(store: RunReader, named: str) -> InquiryRow:
    """Return the question with this id, or the only one whose id begins with it.

    An open question comes before an answered one. A question's id begins with that of its run. A
    beginning that several runs have names no question, even if only one of them asks: an answer must
    not reach a question that nobody has looked at. So a beginning ends within the id of the run: R:7.1
    is not R:7.10.

    Raises:
        InvalidInput: no question matches, or more than one, or more than one run.
    """
    with contextlib.suppress(RunNotFound):
        await find_run(store, named)
    runs = await _begun(store, named.partition(":")[0], roots_only=False)
    rows = [row for run in runs for row in await store.inquiries(run_id=run.run_id, open_only=False)]
    exact = [row for row in rows if row.inquiry_id == named]
    begun = [row for row in rows if begins_with(row.inquiry_id, named) and (":" not in named or row.inquiry_id.endswith(named))]
    found = exact or [row for row in begun if not row.answer] or begun
    if not found:
        raise InvalidInput(f"there is no question {named!r}; `asterism inbox` lists the open ones")
    if len(found) > 1:
        if all(row.answer for row in found):
            raise InvalidInput(f"{named!r} asks nothing now: its {len(found)} questions are answered; `asterism inbox` lists the open ones")
        roots = {(await store.run(row.run_id)).root for row in found}
        all_of_them = f", or answer all of {roots.pop()} with --all" if len(roots) == 1 else ""
        raise InvalidInput(f"{named!r} matches {_some(row.inquiry_id for row in found)}; give more of the id{all_of_them}")
    return found[0]


async def find_inquiries(store: RunReader, named: str, verb: str) -> list[InquiryRow]:
    """Return the open questions of a run, and of the runs below it, that accept a kind of answer.

    Raises:
        RunNotFound: no run matches.
        InvalidInput: no open question accepts this answer.
    """
    run = (await find_run(store, named)).run_id
    asked = [row for row in await store.inquiries(root=run) or await store.inquiries(run_id=run) if verb in row.verbs]
    if not asked:
        raise InvalidInput(f"run {run} asks nothing that accepts {verb}; `asterism inbox` lists the open questions")
    return asked


async def unfinished_runs(client: Client, root: RunRow, machine: str) -> AsyncIterator[tuple[str, Any]]:
    """Yield the id and the memory of each run of a machine in a tree of runs that has not ended.

    Raises:
        InvalidInput: a journal does not replay. Names the run, and the entry at which to fork it.
    """
    for row in await client.store.runs(root=root.run_id, limit=MAX_RUNS):
        if row.machine == machine and row.status != "ended":
            try:
                memory = (await client.load(row.run_id)).memory
            except JournalMismatch as error:
                raise InvalidInput(
                    f"{error}; continue from the entry before with: asterism fork {row.run_id} --at {error.seq - 1}"
                ) from error
            yield row.run_id, memory


class UnownedRuns(msgspec.Struct, frozen=True, kw_only=True):
    """The root runs that have not ended and that nobody drives, oldest first.

    Attributes:
        active: runs that can be driven now: also those that wait for people, if an answer is in the
            inbox, a question has expired, or the time has come for which it waited.
        waiting: runs that wait only for people, or for a time to come.
        paused: runs that are paused, or whose inbox has a pause.
        unknown: for each root that cannot be driven, one run of its tree whose machine this
            program lacks.
    """

    active: list[RunRow]
    waiting: list[RunRow]
    paused: list[RunRow]
    unknown: list[RunRow]


async def unowned_runs(client: Client) -> UnownedRuns:
    """Return the root runs that nobody drives."""
    unfinished = {row.run_id: row for row in reversed(await client.store.runs(limit=sys.maxsize, open_only=True))}
    left = [row for row in unfinished.values() if not row.parent and not row.owner]
    unknown = {row.root: row for row in unfinished.values() if row.machine not in client.forms}
    mine = [row for row in left if row.run_id not in unknown]
    inbox = await client.store.inbox(list(unfinished))
    expired = [asked.run_id for asked in await client.inquiries() if 0 < asked.expires_at <= client.clock.now()]
    due = [row.run_id for row in mine if row.due_at is not None and row.due_at <= client.clock.now()]
    goes_on = {unfinished[run].root for run in (*(sent.run_id for sent in inbox), *expired, *due) if run in unfinished}
    last_said = {sent.run_id: sent.kind for sent in inbox if sent.kind in _PAUSES}
    paused = {row.run_id for row in mine if last_said.get(row.run_id, kind_of(Pause) if row.status == "paused" else "") == kind_of(Pause)}
    waiting = {row.run_id for row in mine if row.status == "waiting"} - goes_on - paused
    return UnownedRuns(
        active=[row for row in mine if row.run_id not in waiting | paused],
        waiting=[row for row in mine if row.run_id in waiting],
        paused=[row for row in mine if row.run_id in paused],
        unknown=[unknown[row.run_id] for row in left if row.run_id in unknown],
    )


def _some(identities: Iterable[str]) -> str:
    listed = list(identities)
    return ", ".join(listed[:5]) + (f" and {len(listed) - 5} more" if len(listed) > 5 else "")  # noqa: PLR2004 - enough to see the pattern
