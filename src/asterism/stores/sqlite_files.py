"""The rows of files in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from asterism.engine.ports.files import ROOT_BYTES, FileRow
from asterism.errors import InvalidInput
from asterism.stores.sqlite_rows import json_of, rows_of
from asterism.stores.writer import Writer, reads, writes

INSERT_FILE = "INSERT OR REPLACE INTO files (root, digest, name, media_type, size, at) VALUES (?, ?, ?, ?, ?, ?)"
_SELECT_ALL = "SELECT root, digest, name, media_type, size, at FROM files ORDER BY at, name"
_SELECT = _SELECT_ALL.replace("ORDER", "WHERE root = ? ORDER", 1)
ROOT_SIZE = "SELECT coalesce(sum(size), 0) FROM (SELECT DISTINCT digest, size FROM files WHERE root = ? AND digest <> ?)"
COPY_FILES = """
INSERT OR REPLACE INTO files (root, digest, name, media_type, size, at)
SELECT ?2, digest, name, media_type, size, at FROM files WHERE root = ?1"""
# A process may have ended between a file and the run that was to read it.
FORGET_FILES = """
DELETE FROM files WHERE root IN (SELECT value FROM json_each(?)) OR (at < ? AND root NOT IN (SELECT run FROM runs))"""


class SqliteFiles:
    """The part of ``SqliteStore`` that holds the rows of files."""

    _writer: Writer

    @writes
    def add_file(self, connection: sqlite3.Connection, row: FileRow) -> None:
        ((size,),) = connection.execute(ROOT_SIZE, (row.root, row.digest))
        if size + row.size > ROOT_BYTES:
            raise InvalidInput(f"file {row.name}: with it, the files of run {row.root} would have more than {ROOT_BYTES:,} bytes")
        connection.execute(INSERT_FILE, msgspec.structs.astuple(row))

    @reads
    def files(self, connection: sqlite3.Connection, root: str | None = None) -> list[FileRow]:
        return rows_of(FileRow, connection.execute(_SELECT_ALL) if root is None else connection.execute(_SELECT, (root,)))

    @writes
    def copy_files(self, connection: sqlite3.Connection, origin: str, root: str) -> None:
        connection.execute(COPY_FILES, (origin, root))

    @writes
    def remove_files(self, connection: sqlite3.Connection, roots: Sequence[str], *, before: float) -> None:
        connection.execute(FORGET_FILES, (json_of(roots), before))
