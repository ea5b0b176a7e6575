"""The SQLite file of a store: create it, recognize it, migrate it, and explain its errors.

A new database is made in a folder next to its path, and linked into place when it is complete. So a
full disk leaves nothing behind, and of two processes that make it at once, one finds the other's
file. The process that makes it holds a lock on the folder; the next one removes the folders of
processes that were killed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import glob
import os
import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from asterism.engine.runtime.private_files import make_folder, opener
from asterism.errors import StoreUnavailable

APPLICATION_ID = 0x41737465
"""``Aste``, in the header of every asterism database."""

BUSY_TIMEOUT_S = 60.0
"""Seconds to wait for another process that is writing."""

CHECKPOINT_TIMEOUT_S = 0.2
"""Seconds for which a checkpoint waits for others that read or write; appends wait as long."""

DRAFT_TRIES = 5
"""Attempts to lock a new folder before another process removes it as abandoned."""

FIRST_READABLE = 20
"""The first schema whose journals this program reads: they have phrases and no sentences."""

_IN_MEMORY = Path(":memory:")
MIGRATIONS = Path(__file__).with_name("migrations")

_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space and try again",
    sqlite3.SQLITE_READONLY: "it is read-only; make the file and its folder writable, or name another database",
    sqlite3.SQLITE_PERM: "it is read-only; make the file and its folder writable, or name another database",
    sqlite3.SQLITE_BUSY: f"another process has locked it for {BUSY_TIMEOUT_S:.0f} s; try again when that process is done",
    sqlite3.SQLITE_NOTADB: "it is not a SQLite database; name another file",
    sqlite3.SQLITE_CORRUPT: "it is damaged; restore it from a backup, or name another file",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; make the file and its folder readable and writable",
    sqlite3.SQLITE_IOERR: "reading or writing the disk failed; check the disk and its free space, then try again",
}

_SAME_AS = {
    errno.ENOSPC: sqlite3.SQLITE_FULL,
    errno.EDQUOT: sqlite3.SQLITE_FULL,
    errno.EROFS: sqlite3.SQLITE_READONLY,
    errno.EACCES: sqlite3.SQLITE_CANTOPEN,
}
"""SQLite's code for an error that the operating system reported directly."""


def open_database(path: Path, *, create: bool) -> sqlite3.Connection:
    """Open the database at ``path``, at the newest schema; any thread may use it, one at a time.

    Args:
        path: the file, symbolic links already resolved.
        create: make the file and its folders if there is none.

    Raises:
        StoreUnavailable: there is none, it is another program's, its schema is newer, or it cannot
            be written.
    """
    log = Path(f"{path}-wal")
    try:
        if create:
            _remove_abandoned(path)
        is_left = log.exists()  # looked for first: who makes a database has no log before there is one
        if path.exists() and not path.is_file():
            what = "a folder" if path.is_dir() else "not a regular file"
            raise StoreUnavailable(f"database {path}: it is {what}; name a file")
        if not path.exists():
            if not create:
                raise StoreUnavailable(f"database {path}: there is none; start a run to make it, or name another file")
            if is_left:  # SQLite would apply that log, which belongs to the removed file, to the new one
                raise StoreUnavailable(
                    f"database {path}: it was removed, and its log {log.name} was not; remove that too, or bring it back"
                )
            _make(path)
        if not os.access(path, os.W_OK):
            raise StoreUnavailable(f"database {path}: {_ADVICE[sqlite3.SQLITE_READONLY]}")
        with contextlib.ExitStack() as on_failure:
            connection = _connect(path)
            on_failure.callback(connection.close)
            recognise(connection, path, create=create)
            _prepare(connection, path)
            on_failure.pop_all()
    except (sqlite3.Error, OSError) as error:
        raise unavailable(path, error) from error
    return connection


def open_in_memory() -> sqlite3.Connection:
    """Make a database in memory, at the newest schema; any thread may use it, one at a time."""
    connection = _connect(_IN_MEMORY)
    _empty_database().backup(connection)
    return connection


@functools.cache
def _empty_database() -> sqlite3.Connection:
    """Return a database without rows, to be copied: that takes a twentieth of the time of all migrations."""
    connection = _connect(_IN_MEMORY)
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    _migrate(connection, _IN_MEMORY)
    return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """Open a further connection to a database that is open; it cannot write, and never makes the file.

    Raises:
        StoreUnavailable: the database cannot be read.
    """
    try:
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw", timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False, uri=True
        )
        connection.execute("PRAGMA query_only = ON")
    except sqlite3.Error as error:
        raise unavailable(path, error) from error
    return connection


def empty_log(path: Path) -> None:
    """Write the log of an open database into its file, and cut both to what they need.

    Nothing is cut while another connection reads an older state; a later checkpoint does it then.

    Raises:
        StoreUnavailable: the disk failed.
    """
    with contextlib.closing(open_reader(path)) as connection:
        try:
            connection.execute(f"PRAGMA busy_timeout = {CHECKPOINT_TIMEOUT_S * 1000:.0f}")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            raise unavailable(path, error) from error


def unavailable(path: Path, error: Exception) -> StoreUnavailable:
    """Return a database error in words that a user can act on."""
    code = _SAME_AS.get(error.errno or 0) if isinstance(error, OSError) else getattr(error, "sqlite_errorcode", None)
    if code is None:
        reason = getattr(error, "strerror", None) or str(error)
        return StoreUnavailable(f"database {path}: {reason}; check the file and its folder")
    if code == sqlite3.SQLITE_IOERR_SHMSIZE:  # no room for the log's index
        code = sqlite3.SQLITE_FULL
    # The low byte of an extended code is its kind.
    advice = _ADVICE.get(code & 0xFF, "SQLite could not continue; try again")
    return StoreUnavailable(f"database {path}: {advice} ({getattr(error, 'strerror', None) or error})")


def newest_version() -> int:
    """Return the schema version that this program writes."""
    return _migrations()[-1][0]


def _migrations() -> list[tuple[int, Path]]:
    return sorted((int(script.name.split("_", 1)[0]), script) for script in MIGRATIONS.glob("*.sql"))


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)


def _make(path: Path) -> None:
    make_folder(path.parent)
    folder, lock = _draft_folder(path)
    draft = folder / path.name
    try:
        os.close(opener(str(draft), os.O_CREAT | os.O_WRONLY))  # SQLite gives its log and index the same mode
        with contextlib.closing(_connect(draft)) as connection:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # before the first table: pruning reclaims space
            _prepare(connection, draft)
            # Closing would checkpoint too, but hide a failure: the log with the rest would be gone.
            (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                raise StoreUnavailable(f"database {path}: {_ADVICE[sqlite3.SQLITE_BUSY]}")
        # A link, unlike a rename, never replaces a file that another process has made meanwhile.
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    except sqlite3.Error as error:
        raise unavailable(path, error) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _draft_folder(path: Path) -> tuple[Path, int]:
    """Make a folder next to ``path`` and lock it; return it, and the descriptor of the lock."""
    for _ in range(DRAFT_TRIES):
        folder = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
        folder.mkdir(mode=0o700)
        with contextlib.suppress(FileNotFoundError):  # another process removed it before it was locked
            lock = _lock(folder, fcntl.LOCK_EX)
            if folder.exists():
                return folder, lock
            os.close(lock)
    raise StoreUnavailable(f"database {path}: other processes keep removing what it is made from; try again")


def _remove_abandoned(path: Path) -> None:
    """Remove the draft folders of processes that were killed."""
    for folder in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 8}.new"):
        with contextlib.suppress(OSError):  # its process holds the lock, or it belongs to another user
            lock = _lock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _lock(folder: Path, how: int) -> int:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, how)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def recognise(connection: sqlite3.Connection, path: Path, *, create: bool) -> None:
    """Reject a database that is not asterism's, before anything is written."""
    application = _number(connection, "PRAGMA application_id")
    version = _number(connection, "PRAGMA user_version")
    if application != APPLICATION_ID:
        if application or version or _number(connection, "SELECT count(*) FROM sqlite_master"):
            raise StoreUnavailable(f"database {path}: it belongs to another program; name another file")
        if not create:
            raise StoreUnavailable(f"database {path}: it is empty; start a run to fill it, or name another file")
    elif version > newest_version():
        raise StoreUnavailable(
            f"database {path}: it has schema version {version}, and this program supports versions up to {newest_version()};"
            " upgrade Asterism"
        )


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Set the connection up, and apply all missing migrations or, with an error, none."""
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreUnavailable(f"database {path}: this file system does not allow SQLite's write-ahead log; name a file on a local disk")
    connection.execute("PRAGMA synchronous = FULL")
    if _number(connection, "PRAGMA user_version") < newest_version():
        _migrate(connection, path)


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    # Read again: another process may have migrated it meanwhile.
    version = _number(connection, "PRAGMA user_version")
    if 0 < version < FIRST_READABLE:
        raise StoreUnavailable(
            f"database {path}: an earlier development version wrote it, and this version cannot read it;"
            " finish its runs with the program that made them, or name another database"
        )
    for number, script in _migrations():
        if number > version:
            for statement in _statements(script.read_text(encoding="utf-8")):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
    if version == 0:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("COMMIT")


def _statements(script: str) -> Iterator[str]:
    # executescript would commit the open transaction first.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _number(connection: sqlite3.Connection, query: str) -> int:
    (number,) = connection.execute(query).fetchone()
    return int(number)
