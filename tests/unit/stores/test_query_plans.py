"""How SQLite looks for the rows of one run: by an index, and not in all rows."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from asterism.stores.database import open_database
from asterism.stores.sqlite_files import list_files
from asterism.stores.sqlite_inquiries import find_inquiries, page_of_inquiries
from asterism.stores.sqlite_search import list_runs


class Explained(sqlite3.Connection):
    """A connection that notes the plan of each query."""

    plan: str = ""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        self.plan = "; ".join(row[3] for row in super().execute(f"EXPLAIN QUERY PLAN {sql}", parameters))
        return super().execute(sql, parameters)


@pytest.mark.parametrize(
    ("named", "index"),
    [
        ({"run_id": "r"}, "inquiries_of_a_run (run=?)"),
        ({"run_id": "r", "tenant": "t"}, "inquiries_of_a_run (run=?)"),
        ({"root": "r"}, "inquiries_of_a_run (run=?)"),
        ({}, "inquiries_open (answer=?)"),
        ({"tenant": "t"}, "inquiries_open (answer=?)"),
    ],
)
def test_open_questions_are_read_by_an_index(tmp_path: Path, named: dict[str, str], index: str) -> None:
    open_database(tmp_path / "runs.db", create=True).close()
    connection = sqlite3.connect(tmp_path / "runs.db", factory=Explained)
    try:
        asked: dict[str, Any] = {"run_id": None, "root": None, "tenant": None, **named}
        assert find_inquiries(connection, **asked, open_only=True) == []
        assert connection.plan.startswith(f"SEARCH inquiries USING INDEX {index}")
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("root", "tenant", "index"),
    [
        (None, None, "inquiries_by_time ((asked_at,inquiry)>(?,?))"),
        (None, "t", "inquiries_of_a_tenant (tenant=? AND (asked_at,inquiry)>(?,?))"),
        ("r", "t", "inquiries_of_a_run (run=?)"),
    ],
)
def test_a_page_of_open_questions_is_read_by_an_index(tmp_path: Path, root: str | None, tenant: str | None, index: str) -> None:
    open_database(tmp_path / "runs.db", create=True).close()
    connection = sqlite3.connect(tmp_path / "runs.db", factory=Explained)
    try:
        assert page_of_inquiries(connection, root=root, tenant=tenant, after="", limit=100) == []
        assert connection.plan.startswith(f"SEARCH inquiries USING INDEX {index}")
        assert ("TEMP B-TREE FOR ORDER BY" in connection.plan) == (root is not None)
    finally:
        connection.close()


def test_runs_are_read_by_an_index(tmp_path: Path) -> None:
    """B5."""
    open_database(tmp_path / "runs.db", create=True).close()
    connection = sqlite3.connect(tmp_path / "runs.db", factory=Explained)
    try:
        how: dict[str, Any] = {"status": None, "root": None, "roots_only": False, "open_only": False, "begins": ""}
        assert list_runs(connection, 1000, **how | {"root": "r"}) == []
        assert connection.plan.startswith("SEARCH runs USING INDEX runs_of_a_tree (root=?)")
        assert list_runs(connection, 100, **how | {"roots_only": True}) == []
        assert connection.plan == "SCAN runs USING INDEX runs_newest"
        assert list_runs(connection, 100, **how | {"open_only": True, "roots_only": True}) == []
        assert connection.plan == "SCAN runs USING INDEX runs_open"
        assert list_runs(connection, 100, **how | {"begins": "r", "roots_only": True}) == []
        assert "SCAN runs" not in connection.plan
        assert connection.plan.startswith("SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)")
    finally:
        connection.close()


def test_the_files_of_a_tree_are_read_by_an_index(tmp_path: Path) -> None:
    open_database(tmp_path / "runs.db", create=True).close()
    connection = sqlite3.connect(tmp_path / "runs.db", factory=Explained)
    try:
        assert list_files(connection, "r") == []
        assert connection.plan.startswith("SEARCH files USING PRIMARY KEY (root=?)")
    finally:
        connection.close()
