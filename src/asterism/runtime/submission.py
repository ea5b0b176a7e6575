"""Writing a new run: its row, its first entries and the questions open in them, in one go."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from asterism.errors import InvalidInput, Refused
from asterism.kernel.data import json_bytes, read_back
from asterism.kernel.journal import Entry, version_of
from asterism.kernel.machine import Event, Machine, kind_of
from asterism.kernel.packing import packer
from asterism.kernel.run import Run
from asterism.runtime.inquiries import opened_inquiries
from asterism.runtime.ports.store import RunRow, Store
from asterism.runtime.run_status import status_of

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_BELOW = re.compile(r"\.[0-9]{1,18}\.[0-9]{1,18}")


def check_id(run_id: str, parent: str = "") -> None:
    """Check that a run may have this id: it is printed, typed at a command line, and a part of the ids of its effects and children.

    Args:
        run_id: the id.
        parent: the id of the run that starts it; empty for none. The id then follows from that of the effect (``child_of``).

    Raises:
        InvalidInput: it may not.
    """
    if not parent and not _ID.fullmatch(run_id):
        raise InvalidInput(
            f"{run_id[:100]!r} cannot be the id of a run; use 1 to 100 of A-Z, a-z, 0-9, _, - and ., and no - or . at the start"
        )
    if parent and not (run_id.startswith(parent) and _BELOW.fullmatch(run_id, len(parent))):
        raise InvalidInput(f"{run_id[:100]!r} cannot be the id of a run that {parent[:100]!r} has started")


async def submit_first(store: Store, machine: Machine[Any], row: RunRow, first: Event) -> tuple[Run[Any], list[Entry]]:
    """Write a run that begins with an event, by the row's actor and at the row's time of creation.

    Returns:
        It, and its entries.

    Raises:
        EditRefused, Refused: the machine does not take the event; nothing is written.
        InvalidInput: there is a run of that id, or it is none that a run may have, or a journal would not give the event back.
    """
    live = Run(machine, row.run_id)
    entry = live.take(_read_back(machine, first), at=row.created_at, actor=row.actor)
    if entry is None:
        raise Refused(f"{machine.name} has nothing to do with {kind_of(first)}")
    await submit_whole(store, row, live, [entry])
    return live, [entry]


def _read_back(machine: Machine[Any], first: Event) -> Event:
    # Its fields are as the user's code has filled them: a limit that is no number, a context that is not JSON.
    try:
        json_bytes(first, "it")
        return read_back(first)
    except InvalidInput as error:
        raise InvalidInput(f"what this {machine.name} is to begin with cannot be used: {error}") from None


async def submit_whole(store: Store, row: RunRow, live: Run[Any], entries: Sequence[Entry]) -> None:
    """Write a run with a whole journal; its row says what the journal says.

    Raises:
        InvalidInput: there is a run of that id, or it is none that a run may have.
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
