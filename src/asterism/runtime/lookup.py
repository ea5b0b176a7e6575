"""Looking up what a person named by the beginning of an id, and the runs that nobody drives."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import msgspec

from asterism.errors import InvalidInput, RunNotFound
from asterism.runtime.client import Client
from asterism.runtime.ports.store import InquiryRow, RunRow, Store

MAX_RUNS = 100_000
"""Runs that are looked through."""


async def find_run(store: Store, named: str) -> RunRow:
    """Return the run of that id, or the only one whose id, or its second half, begins so.

    Raises:
        RunNotFound: none.
        InvalidInput: more than one.
    """
    with contextlib.suppress(RunNotFound):
        return await store.run(named)
    found = [row for row in await store.runs(limit=MAX_RUNS) if _begins(row.run_id, named)]
    if not found:
        raise RunNotFound(named)
    named_ones = [row for row in found if not row.parent] or found  # a child's id begins with its root's
    if len(named_ones) > 1:
        raise InvalidInput(f"{named!r} could be {_some(row.run_id for row in named_ones)}; write more of it")
    return named_ones[0]


async def find_inquiry(store: Store, named: str) -> InquiryRow:
    """Return the question of that id, the only open one whose id begins so, or the only open one of a run named so.

    Raises:
        InvalidInput: none, or more than one.
    """
    rows = await store.inquiries(open_only=False)
    exact = [row for row in rows if row.inquiry_id == named]
    begun = [row for row in rows if _begins(row.inquiry_id, named)]
    found = exact or [row for row in begun if not row.answer] or begun
    if not found:
        raise InvalidInput(f"there is no question {named!r}; `asterism inbox` lists the open ones")
    if len(found) > 1:
        if all(row.answer for row in found):
            raise InvalidInput(
                f"{named!r} asks nothing any more: its {len(found)} questions are answered; `asterism inbox` lists the open ones"
            )
        roots = {(await store.run(row.run_id)).root for row in found}
        all_of_them = f", or answer all of {roots.pop()} with --all" if len(roots) == 1 else ""
        raise InvalidInput(f"{named!r} could be {_some(row.inquiry_id for row in found)}; write more of it{all_of_them}")
    return found[0]


async def find_inquiries(store: Store, named: str, verb: str) -> list[InquiryRow]:
    """Return the open questions of a run and of those below it that take an answer.

    Raises:
        RunNotFound: no run is named so.
        InvalidInput: it asks nothing that does.
    """
    run = (await find_run(store, named)).run_id
    asked = [row for row in await store.inquiries(root=run) or await store.inquiries(run_id=run) if verb in row.verbs]
    if not asked:
        raise InvalidInput(f"run {run} asks nothing that takes {verb}; `asterism inbox` lists the open questions")
    return asked


class UnownedRuns(msgspec.Struct, frozen=True, kw_only=True):
    """The roots that have not ended and that nobody drives, oldest first.

    Attributes:
        active: those that can be driven on.
        waiting: those that only people can move on.
        paused: those that somebody has paused.
        unknown: runs of a machine that is not known here; one for each root that cannot be driven here because of it.
    """

    active: list[RunRow]
    waiting: list[RunRow]
    paused: list[RunRow]
    unknown: list[RunRow]


async def unowned_runs(client: Client) -> UnownedRuns:
    """Return the runs that nobody drives."""
    unfinished = {row.run_id: row for row in reversed(await client.store.runs(limit=MAX_RUNS)) if row.status != "ended"}
    left = [row for row in unfinished.values() if not row.parent and not row.owner]
    unknown = {row.root: row for row in unfinished.values() if row.machine not in client.machines}
    mine = [row for row in left if row.run_id not in unknown]
    answered = {unfinished[sent.run_id].root for sent in await client.store.inbox(list(unfinished))}
    waiting = [row for row in mine if row.status == "waiting" and row.run_id not in answered]
    return UnownedRuns(
        active=[row for row in mine if row.status == "active" or (row.status == "waiting" and row.run_id in answered)],
        waiting=waiting,
        paused=[row for row in mine if row.status == "paused"],
        unknown=[unknown[row.run_id] for row in left if row.run_id in unknown],
    )


def _begins(identity: str, named: str) -> bool:
    return bool(named) and (identity.startswith(named) or identity.partition("-")[2].startswith(named))


def _some(identities: Iterable[str]) -> str:
    listed = list(identities)
    return ", ".join(listed[:5]) + (f" and {len(listed) - 5} more" if len(listed) > 5 else "")  # noqa: PLR2004 - enough to see the pattern
