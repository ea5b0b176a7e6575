"""Rows of the database in SQLite as values of their types."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from asterism.engine.kernel.journal import Record
from asterism.engine.ports.store import InboxRow
from asterism.errors import StoreUnavailable

Row = TypeVar("Row", bound=msgspec.Struct)

_ENCODED = frozenset({"options", "params", "permissions", "question", "verbs"})
"""The columns with texts in JSON."""
MAX_INTEGER = 2**63 - 1
"""The largest integer in SQLite; no row has a greater number."""


def columns_of(kind: type[msgspec.Struct]) -> str:
    """Return the names of the columns of a type, as a list in SQL."""
    return ", ".join(kind.__struct_encode_fields__)


def marks_of(kind: type[msgspec.Struct]) -> str:
    """Return a mark for each column of a type, as a list in SQL."""
    return ", ".join("?" for _ in kind.__struct_encode_fields__)


def where_of(conditions: Mapping[str, bool]) -> str:
    """Return the used ones of the conditions in SQL, joined; one that holds for every row if none is used.

    A query with all of them, made optional by parameters, would use no index of them, and read all rows.
    """
    return " AND ".join(text for text, is_used in conditions.items() if is_used) or "1"


def values_of(row: msgspec.Struct) -> tuple[Any, ...]:
    """Return the columns of a row."""
    return tuple(json_of(value) if name in _ENCODED else value for name, value in msgspec.structs.asdict(row).items())


def rows_of(of: type[Row], cursor: sqlite3.Cursor) -> list[Row]:
    """Return all rows of a query."""
    return [row_of(of, fields) for fields in fields_of(cursor)]


def row_of(of: type[Row], fields: dict[str, Any]) -> Row:
    """Convert a row to its type; users can edit the file, and SQLite allows any value."""
    try:
        return msgspec.convert(fields, of)
    except msgspec.ValidationError as error:
        problem, name = str(error).replace("`", ""), next(iter(fields))
        place = f", entry {fields['seq']!r:.60}" if of is Record else ""
        raise StoreUnavailable(
            f"the database has a damaged row of {name} {str(fields[name])[:60]!r}{place}: {problem}; restore the file from a backup"
        ) from None


def inbox_rows(cursor: sqlite3.Cursor) -> list[InboxRow]:
    """Convert rows of the inbox; an invalid one becomes an empty event, which its run refuses."""
    found = []
    for fields in fields_of(cursor):
        try:
            found.append(msgspec.convert(fields, InboxRow))
        except msgspec.ValidationError:
            found.append(InboxRow(run_id=fields["run"], key=fields["key"], actor="", kind="", body="", at=0.0, verdict=fields["verdict"]))
    return found


def fields_of(cursor: sqlite3.Cursor) -> list[dict[str, Any]]:
    """Return the rows of a query by the names of their columns, with what ``values_of`` has encoded."""
    names = [column[0] for column in cursor.description]
    rows = [dict(zip(names, row, strict=True)) for row in cursor]
    for name in _ENCODED.intersection(names):
        for row in rows:
            row[name] = _of_json(row[name])
    return rows


def json_of(value: Any) -> str:
    """Return a value as the text in JSON of a column."""
    return msgspec.json.encode(value).decode()


def _of_json(text: Any) -> Any:
    """Return the value of a text in JSON; of an invalid one the text, which ``row_of`` then refuses."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, TypeError, UnicodeError, RecursionError):
        return text
