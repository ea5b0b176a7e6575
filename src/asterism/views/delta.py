"""Deltas: what each entry of a journal changes in the rows that show its run, and the fold that applies them.

A row is a flat JSON object. Its id begins with its kind: ``run``, ``task:build``, ``ask:…``. There are two sorts:

- *State rows* show how the run stands. A view makes them from the run's memory, so that they are there at any entry without the
  entries before it.
- *Story rows* (``STORY``) are only added to, and belong to a range of the journal: what was said, asked of a planner, attempted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import msgspec

Weight = Literal["event", "progress", "detail"]
"""How much a line matters: a step of the run, a sign of life, or machinery at work."""
Rows = dict[str, dict[str, Any]]
"""Rows by id."""

STORY = ("message", "planning", "step", "attempt")
"""Kinds of story rows; all other kinds are state rows."""
LONG = 1000
"""Characters of text, or of JSON, that a row has in full."""
_BEGINNING = 200


class LogLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that an entry says.

    Attributes:
        text: in words, without the name of the part.
        part: id of the part it is about (a task, a step, a field); empty for the run.
        weight: how much it matters.
    """

    text: str
    part: str = ""
    weight: Weight = "event"


class Delta(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one entry changes, and what it says.

    Attributes:
        seq, at, actor: of the entry.
        kind: of its event.
        state: of the run after it.
        text, part, weight: the first line of what it says.
        more: the other lines, in order.
        put: fields to set, by row id; a field that no longer applies is None.
        drop: ids of rows that are gone.
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
        """All that it says, in order."""
        return (LogLine(self.text, self.part, self.weight), *self.more)


def fold(deltas: Iterable[Delta], rows: Rows | None = None) -> Rows:
    """Apply deltas in order.

    Args:
        deltas: of consecutive entries.
        rows: as they are before the first; changed in place. None where the first entry is the run's first.

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
    """Return whether an id is that of a story row."""
    return row_id.partition(":")[0] in STORY


def brief(value: Any, seq: int = 0) -> Any:
    """Return a JSON value as a row has it: in full, or where it is long its beginning, its length and its entry.

    Args:
        value: text or any other JSON value.
        seq: of the entry that has it in full; 0 where that is not known.

    Returns:
        The value, or ``{"$long": characters, "beginning": text, "seq": seq}``.
    """
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if len(text) <= LONG:
        return value
    return {"$long": len(text), "beginning": text[:_BEGINNING], **({"seq": seq} if seq else {})}
