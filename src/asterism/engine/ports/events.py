"""Port of events: what has happened outside, for the runs that wait for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Protocol

import msgspec

Deliver = Literal["all", "one"]
"""Which of the waits that an event matches get it: each of them, or the oldest one."""

KEEP_S = 86_400.0
"""Seconds for which an event waits for runs, unless its sender says otherwise."""
MAX_KEEP_S = 30 * 86_400.0
"""The most of them."""
DEAD_S = 30 * 86_400.0
"""Seconds for which an event that no run has taken stays in the list."""
MAX_EVENTS = 100_000
"""Events of one store."""
PAIRS = 100
"""Waits and events that are compared in one transaction, so that appends do not wait long."""


class Hook(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A ``[[hooks]]`` table of a fleet file: where another system posts events.

    Attributes:
        name: unique in the file; the end of its path, and the name of its events.
        signed: how a request is verified: by a signature of Standard Webhooks or of GitHub, or by a bearer secret.
        key: the key or the secret, which may refer to secrets.
        tenant: its runs get the events.
    """

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,40}$")]
    signed: Literal["standard", "github", "bearer"]
    key: Annotated[str, msgspec.Meta(min_length=1)]
    tenant: str = ""


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """An event.

    Attributes:
        event_id: given by its sender; unique among the events of its tenant.
        name: what has happened, such as ``invoice.paid``.
        data: JSON text.
        at: when it was received, in seconds since the epoch.
        expires_at: until when waits get it.
        taken: number of waits that have got it.
    """

    tenant: str = ""
    event_id: str = msgspec.field(name="id")
    name: str
    data: str
    deliver: Deliver = "all"
    at: float
    expires_at: float
    actor: str = ""
    taken: int = 0


class OpenWait(msgspec.Struct, frozen=True, kw_only=True):
    """A wait for an event: the row of an open inquiry (``InquiryRow.event``).

    Attributes:
        machine: that of the run.
        subject: JSON text of what the event must match.
    """

    inquiry_id: str = msgspec.field(name="inquiry")
    run_id: str = msgspec.field(name="run")
    machine: str
    subject: str


Matcher = Callable[[dict[str, Any], Any], bool]
"""Says whether the subject of a wait matches the data of an event."""
Given = Callable[[OpenWait, EventRow], tuple[str, str]]
"""Returns kind and body of the event that the run of a wait gets."""


class EventRows(Protocol):
    """Holds events; a part of every store. Errors as of ``Store``."""

    async def add_event(self, row: EventRow) -> EventRow:
        """Add an event; return the one of this tenant that has the id already, if there is one.

        Raises:
            Refused: there are too many.
        """
        ...

    async def events(self, tenant: str | None = None, *, dead_by: float | None = None, limit: int = 100) -> list[EventRow]:
        """Return the events of a tenant, or of all, the newest first; with ``dead_by`` those whose time had ended then without a wait."""
        ...

    async def match_events(self, matchers: Mapping[str, Matcher], given: Given, *, now: float) -> bool:
        """Compare open waits with the events that they have not been compared with, and send each wait the oldest that matches.

        Each pair is compared once, by the order of the events and then of the waits, in one transaction with what is sent: so of
        two processes neither sends what the other has. A wait gets events that came after the root of its run was submitted.

        Args:
            matchers: compare, by machine; they must not fail. Other machines' runs get no event.
            given: makes what is sent.
            now: seconds since the epoch.

        Returns:
            True if there may be more to compare.
        """
        ...
