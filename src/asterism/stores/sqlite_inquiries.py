"""Read the questions of the store in SQLite."""

# ruff: noqa: S608 - a query is made of our own names; values are parameters

from __future__ import annotations

import sqlite3

from asterism.engine.ports.store import InquiryRow, read_inquiry_cursor
from asterism.stores.sqlite_rows import MAX_INTEGER, columns_of, inquiry_rows, where_of

_OF_A_RUN = "run = :run"
_OF_A_TREE = "run IN (SELECT run FROM runs WHERE root = :root)"
_OF_A_TENANT = "tenant = :tenant"


def find_inquiries(
    connection: sqlite3.Connection, *, run_id: str | None, root: str | None, tenant: str | None, open_only: bool
) -> list[InquiryRow]:
    """Perform ``Store.inquiries``."""
    where = _conditions(run_id=run_id, root=root, tenant=tenant, open_only=open_only)
    query = f"SELECT {columns_of(InquiryRow)} FROM inquiries WHERE {where} ORDER BY rowid"
    return inquiry_rows(connection.execute(query, {"run": run_id, "root": root, "tenant": tenant}))


def page_of_inquiries(connection: sqlite3.Connection, *, root: str | None, tenant: str | None, after: str, limit: int) -> list[InquiryRow]:
    """Perform ``Store.find_inquiries``."""
    at, inquiry_id = read_inquiry_cursor(after)
    where = _conditions(root=root, tenant=tenant, open_only=True) + " AND (asked_at, inquiry) > (:at, :after)"
    index = "inquiries_by_time" if tenant is None else "inquiries_of_a_tenant"
    by = "" if root is not None else f"INDEXED BY {index}"  # SQLite would else sort all open questions
    query = f"SELECT {columns_of(InquiryRow)} FROM inquiries {by} WHERE {where} ORDER BY asked_at, inquiry LIMIT :limit"
    values = {"root": root, "tenant": tenant, "at": at, "after": inquiry_id, "limit": min(limit, MAX_INTEGER)}
    return inquiry_rows(connection.execute(query, values))


def _conditions(*, run_id: str | None = None, root: str | None, tenant: str | None, open_only: bool) -> str:
    few = run_id is not None or root is not None
    conditions = {
        _OF_A_RUN: run_id is not None,
        _OF_A_TREE: root is not None,
        _OF_A_TENANT: tenant is not None,
        "+answer = ''" if few else "answer = ''": open_only,  # the index of all open questions is for all of them
    }
    return where_of(conditions)
