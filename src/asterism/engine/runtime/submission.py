"""Write a new run: its row, its first entries and its open inquiries, in one transaction."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from asterism.engine.kernel.data import json_bytes
from asterism.engine.kernel.journal import Entry, version_of
from asterism.engine.kernel.machine import Event, Machine, kind_of
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.permissions import LOWEST, Permissions
from asterism.engine.kernel.run import Run
from asterism.engine.ports.store import RunRow, Store
from asterism.engine.runtime.run_status import opened_inquiries, status_of
from asterism.errors import InvalidInput, Refused

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_BELOW = re.compile(r"\.[0-9]{1,18}\.[0-9]{1,18}")


def check_id(run_id: str, parent: str = "") -> None:
    """Check the id of a run: it is printed, typed, and part of the ids of effects and children.

    Args:
        run_id: the id.
        parent: the id of the run that starts it; empty for a root. A child's id follows from its
            effect (``child_run_id``).

    Raises:
        InvalidInput: a run may not have this id.
    """
    if not parent and not _ID.fullmatch(run_id):
        raise InvalidInput(
            f"{run_id[:100]!r} cannot be the id of a run; use 1 to 100 of A-Z, a-z, 0-9, _, - and ., and do not start with - or ."
        )
    if parent and not (run_id.startswith(parent) and _BELOW.fullmatch(run_id, len(parent))):
        raise InvalidInput(f"{run_id[:100]!r} cannot be the id of a child of run {parent[:100]!r}")


async def submit_first(
    store: Store, machine: Machine[Any], row: RunRow, first: Event, permissions: Permissions = LOWEST
) -> tuple[Run[Any], list[Entry]]:
    """Write a run that begins with an event, with the actor and the creation time of its row, and the submitter's permissions.

    Returns:
        The run and its entries.

    Raises:
        EditRefused, Refused: the machine refuses the event; nothing is written.
        InvalidInput: the id is invalid or taken, or the event would not survive the journal.
    """
    live = Run(machine, row.run_id)
    entry = live.take(_as_journaled(machine, first), at=row.created_at, actor=row.actor, permissions=permissions)
    if entry is None:
        raise Refused(f"a {machine.name} cannot start with {kind_of(first)}: it ignores this event")
    await submit_whole(store, row, live, [entry])
    return live, [entry]


def _as_journaled(machine: Machine[Any], first: Event) -> Event:
    # User code has filled the fields: a limit may be no number, a context no JSON.
    try:
        return msgspec.json.decode(json_bytes(first, "its first event"), type=type(first))
    except (InvalidInput, ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise InvalidInput(f"cannot start this {machine.name}: {error}") from None


async def submit_whole(store: Store, row: RunRow, live: Run[Any], entries: Sequence[Entry]) -> None:
    """Write a run with a whole journal; the journal determines the row's state, status and outcome.

    Raises:
        InvalidInput: the id is invalid or taken.
    """
    check_id(row.run_id, row.parent)
    first, *more = [packer(live.machine).pack(entry) for entry in entries]
    asked = [inquiry for entry in entries for inquiry in opened_inquiries(entry)]
    fresh = msgspec.structs.replace(
        row,
        state=str(live.state),
        status=status_of(live),
        outcome=live.memory.outcome() if live.ended else "",
        seq=live.seq,
        epoch=0,
        owner="",
        version=version_of(live.machine),
    )
    opened = [inquiry for inquiry in asked if inquiry.inquiry_id in live.outstanding]
    await store.submit(fresh, first, *more, opened=opened)
