"""Port of work: how many unfinished runs a database has, and of what kind."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

WorkKind = Literal["driven", "due", "stuck", "waiting", "paused", "later", "idle"]
"""``driven`` by a process; ``due`` now; ``stuck``, tried again after a delay; ``waiting`` for a person; ``paused``; due ``later``;
``idle``: due only when something is sent to it."""


class WorkSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The unfinished root runs of a database, and its messages to people.

    Attributes:
        counts: number of runs of each kind that has any.
        driven_by: number of driven runs of each process, in the words of ``list_processes``.
        oldest: ids of the runs of each kind whose last entries are the oldest.
        unrouted: notices for which no server has chosen channels.
        unsent: messages that wait to be sent, or sent again.
        failed: messages that no server tries to send any more.
        error: why one of the unsent messages could not be sent, after its channel.
    """

    counts: dict[WorkKind, int] = {}
    driven_by: dict[str, int] = {}
    oldest: dict[WorkKind, list[str]] = {}
    unrouted: int = 0
    unsent: int = 0
    failed: int = 0
    error: str = ""


class WorkRows(Protocol):
    """Summarizes the work; a part of every store. Errors as of ``Store``."""

    async def summarize_work(self, *, now: float, limit: int = 3) -> WorkSummary:
        """Return the work of all tenants at an epoch second, with ``limit`` ids of each kind at most."""
        ...
