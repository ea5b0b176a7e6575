"""How SQLite looks for the rows of one run: by an index, and not in all rows."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from asterism.stores.database import open_database
from asterism.stores.memory import MemoryDatabase, MemoryStore


class Explained(sqlite3.Connection):
    """A connection that notes the plan of each query."""

    plan: str = ""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        if sql.lstrip().startswith("SELECT"):
            self.plan = "; ".join(row[3] for row in super().execute(f"EXPLAIN QUERY PLAN {sql}", parameters))
        return super().execute(sql, parameters)


def explained(folder: Path) -> tuple[Explained, MemoryStore]:
    """Return a store over a database in this folder, with its connection."""
    path = folder / "runs.db"
    open_database(path, create=True).close()
    connection = sqlite3.connect(path, factory=Explained, isolation_level=None)
    return connection, MemoryStore(MemoryDatabase(connection, path))


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
def test_open_questions_are_read_by_an_index(tmp_path: Path, named: dict[str, Any], index: str) -> None:
    connection, store = explained(tmp_path)
    assert asyncio.run(store.inquiries(**named)) == []
    assert connection.plan.startswith(f"SEARCH inquiries USING INDEX {index}")


@pytest.mark.parametrize(
    ("root", "tenant", "index"),
    [
        (None, None, "inquiries_by_time ((asked_at,inquiry)>(?,?))"),
        (None, "t", "inquiries_of_a_tenant (tenant=? AND (asked_at,inquiry)>(?,?))"),
        ("r", "t", "inquiries_of_a_run (run=?)"),
    ],
)
def test_a_page_of_open_questions_is_read_by_an_index(tmp_path: Path, root: str | None, tenant: str | None, index: str) -> None:
    connection, store = explained(tmp_path)
    assert asyncio.run(store.find_inquiries(root=root, tenant=tenant)) == []
    assert connection.plan.startswith(f"SEARCH inquiries USING INDEX {index}")
    assert ("TEMP B-TREE FOR ORDER BY" in connection.plan) == (root is not None)


def test_runs_are_read_by_an_index(tmp_path: Path) -> None:
    """B5."""
    connection, store = explained(tmp_path)
    assert asyncio.run(store.runs(limit=1000, root="r")) == []
    assert connection.plan.startswith("SEARCH runs USING INDEX runs_of_a_tree (root=?)")
    assert asyncio.run(store.runs(limit=100, roots_only=True)) == []
    assert connection.plan == "SCAN runs USING INDEX runs_newest"
    assert asyncio.run(store.runs(limit=100, open_only=True, roots_only=True)) == []
    assert connection.plan == "SCAN runs USING INDEX runs_open"
    assert asyncio.run(store.runs(limit=100, begins="r", roots_only=True)) == []
    assert "SCAN runs" not in connection.plan
    assert connection.plan.startswith("SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)")


def test_the_files_of_a_tree_are_read_by_an_index(tmp_path: Path) -> None:
    connection, store = explained(tmp_path)
    assert asyncio.run(store.files("r")) == []
    assert connection.plan.startswith("SEARCH files USING PRIMARY KEY (root=?)")
