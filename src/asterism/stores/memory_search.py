"""Search the runs and questions of the store in memory."""

from __future__ import annotations

import collections
import math
import re
from collections.abc import Container, Iterable

from asterism.engine.ports.store import InquiryRow, RunQuery, RunRow, WorkKind, WorkSummary, begins_with
from asterism.stores.memory_notices import NoticeMemory


def kind_of_work(row: RunRow, living: Container[str], now: float) -> WorkKind:
    """Return the kind of an unfinished root run."""
    if row.owner:
        return "driven" if row.owner in living else "due"
    if row.problem:
        return "stuck"
    if row.due_at is not None and row.due_at <= now:
        return "due"
    if row.status in ("waiting", "paused"):
        return row.status
    return "idle" if row.due_at is None else "later"


def work_of(rows: Iterable[RunRow], notices: NoticeMemory, living: Container[str], now: float, limit: int) -> WorkSummary:
    """Return the summary of the work in these rows."""
    roots = sorted((it for it in rows if it.root == it.run_id and it.status != "ended"), key=lambda it: (it.updated_at, it.run_id))
    ids: dict[WorkKind, list[str]] = {}
    for row in roots:
        ids.setdefault(kind_of_work(row, living, now), []).append(row.run_id)
    unsent = [it for it in notices.deliveries.values() if it.status in ("waiting", "sending")]
    return WorkSummary(
        counts={kind: len(found) for kind, found in ids.items()},
        driven_by=collections.Counter(it.owner for it in roots if it.owner in living),
        oldest={kind: found[:limit] for kind, found in ids.items()},
        unrouted=len(notices.unrouted),
        unsent=len(unsent),
        failed=sum(it.status == "failed" for it in notices.deliveries.values()),
        error=next((f"{it.channel}: {it.error}" for it in unsent if it.error), ""),
    )


def matches(row: RunRow, query: RunQuery) -> bool:
    """Return True if a search returns a run; only A to Z have another case, as in SQLite."""
    text = _lower(query.text)
    return (
        (not query.roots_only or row.root == row.run_id)
        and query.status in (None, row.status)
        and not (query.open_only and row.status == "ended")
        and query.outcome in ("", row.outcome)
        and query.machine in ("", row.machine)
        and query.actor in ("", row.actor)
        and query.tenant in (None, row.tenant)
        and (query.created_from or 0.0) <= row.created_at < (math.inf if query.created_before is None else query.created_before)
        and (text in _lower(row.title) or begins_with(_lower(row.run_id), text))
    )


def place_of(asked: InquiryRow) -> tuple[float, str]:
    """Return what orders the pages of questions."""
    return asked.asked_at, asked.inquiry_id


def _lower(text: str) -> str:
    return re.sub("[A-Z]+", lambda it: it[0].lower(), text)
