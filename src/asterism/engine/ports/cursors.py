"""Cursors of the lists that a store returns page by page."""

from __future__ import annotations

import math

from asterism.engine.ports.store import InquiryRow, RunRow
from asterism.errors import InvalidInput


def run_cursor(row: RunRow) -> str:
    """Return the place of a row in the result of ``Store.find_runs``."""
    return f"{row.created_at!r} {row.run_id}"


def read_run_cursor(cursor: str) -> tuple[float, str]:
    """Return the creation time and the id in a cursor; of an empty one, those before all rows.

    Raises:
        InvalidInput: it is no cursor.
    """
    return _read(cursor, "runs") if cursor else (math.inf, "")


def inquiry_cursor(row: InquiryRow) -> str:
    """Return the place of a row in the result of ``Store.find_inquiries``."""
    return f"{row.asked_at!r} {row.inquiry_id}"


def read_inquiry_cursor(cursor: str) -> tuple[float, str]:
    """Return the time and the id of the question in a cursor; of an empty one, those before all rows.

    Raises:
        InvalidInput: it is no cursor.
    """
    return _read(cursor, "questions") if cursor else (-math.inf, "")


def _read(cursor: str, rows: str) -> tuple[float, str]:
    at, _, row_id = cursor.partition(" ")
    try:
        return float(at), row_id
    except ValueError:
        raise InvalidInput(f"{cursor[:100]!r} is no place in a list of {rows}; use one that a list has returned") from None
