"""Check of the view rows of a run: those folded from the deltas of its entries against those built from its memory."""

from __future__ import annotations

from typing import Any

import msgspec

from asterism.engine.kernel.journal import Entry
from asterism.engine.runtime.form import Form
from asterism.views import fold, is_story
from asterism.views.delta import Rows
from asterism.views.view import unread_view

VIEWS_CHECKED_EVERY = 25
"""View rows are checked in one of this many worlds."""
MANY, STRIDE = 200, 50
"""Runs with more than ``MANY`` rows are compared once in ``STRIDE`` entries."""


class ViewChecker:
    """Compares the view rows of one run.

    Args:
        form: form of the run.
        run_id: id of the run.
    """

    def __init__(self, form: Form, run_id: str) -> None:
        self._view = unread_view(form, run_id)
        self._rows: Rows = {}

    def check(self, entry: Entry) -> str:
        """Read the next entry; return the first difference between the rows, or an empty text."""
        fold(self._view.read([entry]), self._rows)
        if len(self._rows) > MANY and entry.seq % STRIDE:
            return ""
        theirs = type(self._view).at(self._view.run).rows
        ours = {row_id: row for row_id, row in self._rows.items() if not is_story(row_id)}
        if found := sorted(row_id for row_id in ours.keys() | theirs.keys() if not _same(ours.get(row_id), theirs.get(row_id))):
            return f"after entry {entry.seq} {found[0]} is {ours.get(found[0])} by its deltas, but {theirs.get(found[0])} by its memory"
        return ""


def _same(ours: dict[str, Any] | None, theirs: dict[str, Any] | None) -> bool:
    return ours == theirs and msgspec.json.encode(ours, order="sorted") == msgspec.json.encode(theirs, order="sorted")
