"""Deltas: the changes that each journal entry makes to the rows of its run, and the fold that applies them.

A row is a flat JSON object. Its id begins with its kind: ``run``, ``task:build``, ``ask:…``. There are two sorts:

- *State rows* show the current state of the run. A view makes them from the run's memory, so they are available at any
  entry without the entries before it.
- *Story rows* (``STORY``) are append-only and belong to a range of the journal: messages, planner requests, attempts, stops.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from asterism.engine.kernel.phrase import Phrase

Weight = Literal["event", "progress", "detail"]
"""Importance of a line: an event of the run, a progress report, or an internal detail."""
Rows = dict[str, dict[str, Any]]
"""Rows by id."""

STORY = ("message", "planning", "step", "attempt", "stop")
"""Kinds of story rows; all other kinds are state rows."""
LONG = 1000
"""Characters of text, or of JSON, up to which a row holds a value in full."""
_BEGINNING = 200


class LogLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the log.

    Attributes:
        text: the event in words, without the name of the part.
        part: id of the part it is about (a task, a step, a field); empty for the run.
        weight: importance of the line.
    """

    text: str
    part: str = ""
    weight: Weight = "event"


class Delta(msgspec.Struct, frozen=True, omit_defaults=True):
    """The changes that one entry makes, and its log lines.

    Attributes:
        seq, at, actor: number, time and actor of the entry.
        kind: kind of its event.
        state: state of the run after the entry.
        text, part, weight: the first log line.
        more: the other log lines, in order.
        put: fields to set, by row id; a field that no longer applies is None.
        drop: ids of removed rows.
    """

    seq: int
    at: float
    kind: str
    actor: str
    state: str
    text: str = ""
    part: str = ""
    weight: Weight = "event"
    more: tuple[LogLine, ...] = ()
    put: Rows = {}
    drop: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[LogLine, ...]:
        """Return all log lines, in order."""
        return (LogLine(self.text, self.part, self.weight), *self.more)


def fold(deltas: Iterable[Delta], rows: Rows | None = None) -> Rows:
    """Apply deltas in order.

    Args:
        deltas: deltas of consecutive entries.
        rows: rows before the first delta, changed in place; None if it is the first entry of the run.

    Returns:
        The rows after the last one.
    """
    rows = {} if rows is None else rows
    for delta in deltas:
        for row_id in delta.drop:
            rows.pop(row_id, None)
        for row_id, fields in delta.put.items():
            rows[row_id] = rows.get(row_id, {}) | fields
    return rows


def is_story(row_id: str) -> bool:
    """Return True for the id of a story row."""
    return row_id.partition(":")[0] in STORY


def brief(value: Any, seq: int = 0) -> Any:
    """Return a JSON value for a row: in full, or for a long one its beginning, its length and its entry.

    Args:
        value: text, phrase or any other JSON value.
        seq: number of the entry with the full value; 0 if unknown.

    Returns:
        The value, or ``{"$long": characters, "beginning": text, "seq": seq}``.
    """
    value = str(value) if isinstance(value, Phrase) else value
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if len(text) <= LONG:
        return value
    return {"$long": len(text), "beginning": text[:_BEGINNING], **({"seq": seq} if seq else {})}
