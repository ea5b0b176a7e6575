"""Port of notices: what people are to hear of, and how far each message to each channel has come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Protocol

import msgspec

NoticeKind = Literal["question", "failed", "stuck", "device_lost", "not_started"]
DeliveryStatus = Literal["waiting", "sending", "sent", "failed", "skipped"]


REMOVED_AT_ONCE = 10_000
"""Notices that one call removes, at most."""
STUCK_TRIES = 3
"""Drives in a row that ended with a problem, after which a run is reported as stuck: fewer may be a passing fault."""


class Channel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A ``[[notify]]`` table of a fleet file: where messages go, and which.

    Attributes:
        name: unique in the file.
        url: a URL of Apprise, as ``ntfys://ntfy.sh/topic`` or ``mailto://…``, or ``https://…`` of a
            signed webhook. It may refer to secrets.
        signing_key: key of the webhook's signature, ``whsec_…``; makes ``url`` a webhook.
        on: the kinds of notices that go there. Empty for a channel that is used only by runs that name it, for all kinds.
    """

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,40}$")]
    url: Annotated[str, msgspec.Meta(min_length=1)]
    signing_key: str = ""
    on: tuple[NoticeKind, ...] = ("question", "failed", "stuck", "device_lost", "not_started")


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that people are to hear of. The store writes it in the transaction of the fact itself.

    Attributes:
        number: ascends with time; 0 before it is stored.
        subject: id of the question or the device, or the name of the schedule; empty otherwise.
        text: why, for what is stuck or lost, or was not started.
        at: seconds since the epoch; of a stuck run, when it is tried next.
    """

    number: int = 0
    kind: NoticeKind
    tenant: str = ""
    run_id: str = msgspec.field(default="", name="run")
    subject: str = ""
    text: str = ""
    at: float


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a notice to a channel.

    Attributes:
        notice: number of the notice.
        channel: name of the channel.
        status: ``sending`` is written before a message is sent.
        tries: times that it was sent.
        next_at: earliest time of the next try, in seconds since the epoch. One that is ``sending``
            then was given up by a process that has ended, and may have arrived.
        error: why the last try failed.
    """

    notice: int
    channel: str
    status: DeliveryStatus = "waiting"
    tries: int = 0
    next_at: float = 0.0
    error: str = ""


class NoticeRows(Protocol):
    """Holds notices and deliveries; a part of every store. Errors as of ``Store``.

    A question that opens, and a root run that fails or is stuck, are noted by ``submit``, ``append``,
    ``release`` and ``acquire_due``.
    """

    async def count_stuck(self) -> int:
        """Return the number of root runs that are due again because their last drive ended with a problem."""
        ...

    async def add_notice(self, notice: Notice) -> None:
        """Note that a device is lost, or that a schedule could not start its run."""
        ...

    async def unrouted_notices(self, *, limit: int = 100) -> list[Notice]:
        """Return the notices for which no channels were chosen yet, oldest first."""
        ...

    async def route_notice(self, number: int, deliveries: Sequence[Delivery]) -> None:
        """Write the deliveries of a notice, which may be none; if another process has done so, do nothing."""
        ...

    async def deliveries(self, *, due_by: float, limit: int = 100) -> list[tuple[Notice, Delivery]]:
        """Return the deliveries that are ``waiting`` or ``sending`` and whose next try is due by a time, oldest first."""
        ...

    async def replace_delivery(self, row: Delivery, *, before: Delivery) -> bool:
        """Replace a delivery; return False if the stored one is not ``before`` any more."""
        ...

    async def remove_notices(self, *, before: float) -> None:
        """Remove the oldest notices from before an epoch second, ``REMOVED_AT_ONCE`` at most, with their deliveries."""
        ...
