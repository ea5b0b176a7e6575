"""Opening: each thing that can be in the way is one clear error, and nothing was written."""

from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from asterism.errors import StoreUnavailable
from asterism.stores import database, sqlite_search
from asterism.stores.database import newest_version, open_database


def made(path: Path) -> Path:
    open_database(path, create=True).close()
    return path


def test_a_new_database_is_ours_at_the_newest_version_durable_and_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folders" / "runs.db"
    with closing(open_database(path, create=True)) as connection:
        answers = [
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version", "journal_mode", "synchronous")
        ]
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert answers == [database.APPLICATION_ID, newest_version(), "wal", 2]
    scheduled, noted = {"schedules", "firings", "events"}, {"notices", "deliveries", "sqlite_sequence"}
    assert tables == {"runs", "entries", "inquiries", "inbox", "snapshots", "logs", "files", "tokens"} | scheduled | noted
    assert [it.name for it in path.parent.iterdir()] == ["runs.db"]


def test_migrations_are_numbered_from_one_without_gaps() -> None:
    assert [number for number, _ in database._migrations()] == list(range(1, newest_version() + 1))


def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    path = made(tmp_path / "runs.db")
    before = path.read_bytes()
    open_database(path, create=False).close()
    assert path.read_bytes() == before


def test_an_empty_file_is_filled_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    path.touch()
    with pytest.raises(StoreUnavailable, match="it is empty"):
        open_database(path, create=False)
    assert path.read_bytes() == b""
    open_database(path, create=True).close()
    open_database(path, create=False).close()


def test_a_database_that_is_not_there_is_not_made_for_a_reader(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"runs\.db: there is none; start a run"):
        open_database(tmp_path / "folder" / "runs.db", create=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"name = 'digits'\n", b"\x00" * 8192, b"SQLite format 4" * 300])
def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "fleet.toml"
    path.write_bytes(content)
    with pytest.raises(StoreUnavailable, match=r"fleet\.toml: it is not a SQLite database; name another file"):
        open_database(path, create=True)
    assert path.read_bytes() == content
    assert [it.name for it in tmp_path.iterdir()] == ["fleet.toml"]


@pytest.mark.parametrize("statement", ["CREATE TABLE t (a)", "PRAGMA application_id = 7", "PRAGMA user_version = 1"])
def test_a_database_of_another_program_is_left_as_it_is(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as theirs:
        theirs.execute(statement)
    before = path.read_bytes()
    with pytest.raises(StoreUnavailable, match="it belongs to another program"):
        open_database(path, create=True)
    assert path.read_bytes() == before


def test_a_newer_schema_is_rejected_with_both_versions_named(tmp_path: Path) -> None:
    path = made(tmp_path / "runs.db")
    with closing(sqlite3.connect(path)) as later:
        later.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    with pytest.raises(StoreUnavailable, match=f"schema version 99, .* up to {newest_version()}; upgrade Asterism"):
        open_database(path, create=True)
    assert path.read_bytes() == before


def test_a_folder_and_a_device_are_not_databases(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="it is a folder; name a file"):
        open_database(tmp_path, create=True)
    with pytest.raises(StoreUnavailable, match="it is not a regular file; name a file"):
        open_database(Path(os.devnull), create=True)


def test_a_file_where_a_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match=r"runs\.db: (Not a directory|File exists); check"):
        open_database(tmp_path / "file" / "runs.db", create=True)


def test_a_damaged_database_is_reported_as_damaged(tmp_path: Path) -> None:
    path = made(tmp_path / "runs.db")
    content = bytearray(path.read_bytes())
    content[100:4096] = b"\xff" * 3996
    path.write_bytes(content)
    with pytest.raises(StoreUnavailable, match="it is damaged; restore it"):
        open_database(path, create=True)


def test_a_database_that_stays_locked_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    path = tmp_path / "runs.db"
    path.touch()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreUnavailable, match="another process has locked it"):
            open_database(path, create=True)


def test_a_reader_opens_while_another_process_writes(tmp_path: Path) -> None:
    path = made(tmp_path / "runs.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        open_database(path, create=False).close()


def add_migration(folder: Path, script: str) -> int:
    """Write a folder of migrations: those that were applied, which are not looked at any more, and one that is new; its number."""
    for number, _ in database._migrations():
        (folder / f"{number:04}_applied.sql").write_text("CREATE TABLE runs (again);\n")
    (folder / f"{newest_version() + 1:04}_new.sql").write_text(script)
    return newest_version() + 1


def test_a_failed_migration_leaves_the_version_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path / "runs.db")
    add_migration(tmp_path, "CREATE TABLE more (a);\n-- and; then\nCREATE TABLE runs (a);\n")
    with monkeypatch.context() as patch:
        patch.setattr(database, "MIGRATIONS", tmp_path)
        with pytest.raises(StoreUnavailable, match="table runs already exists"):
            open_database(path, create=True)
    with closing(open_database(path, create=False)) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'more'").fetchone() == (0,)


def test_an_older_database_gets_the_migrations_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path / "runs.db")
    number = add_migration(tmp_path, "CREATE TABLE more (a);\n")
    monkeypatch.setattr(database, "MIGRATIONS", tmp_path)
    with closing(open_database(path, create=False)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (number,)
        assert connection.execute("SELECT count(*) FROM more").fetchone() == (0,)


OLD_RUN = "INSERT INTO runs VALUES (?1, 'm', 't', 'START', 'waiting', '', '', '', '', '', 1, 1, '', 0.0, 0.0, ?1)"


def before_versions(path: Path, *, runs: int) -> Path:
    """A database as the first three migrations made it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for name in ("0001_first.sql", "0002_root.sql", "0003_snapshots.sql"):
            connection.executescript((database.MIGRATIONS / name).read_text())
        for number in range(runs):
            connection.execute(OLD_RUN, (f"r{number}",))
        connection.execute(f"PRAGMA application_id = {database.APPLICATION_ID}")
        connection.execute("PRAGMA user_version = 3")
        connection.execute("PRAGMA journal_mode = WAL")
    return path


def test_a_database_of_an_earlier_format_is_rejected_and_not_changed(tmp_path: Path) -> None:
    path = before_versions(tmp_path / "runs.db", runs=2)
    before = path.read_bytes()
    with pytest.raises(StoreUnavailable, match="an earlier development version wrote it"):
        open_database(path, create=True)
    with pytest.raises(StoreUnavailable) as raised:
        open_database(path, create=False)
    assert str(raised.value) == (
        f"database {path}: an earlier development version wrote it, and this version cannot read it;"
        " finish its runs with the program that made them, or name another database"
    )
    assert path.read_bytes() == before
    assert [it.name for it in tmp_path.iterdir()] == ["runs.db"]


def test_the_log_of_a_removed_database_is_not_applied_to_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    (tmp_path / "a.db-wal").write_bytes(b"of another file")
    with pytest.raises(StoreUnavailable, match=r"it was removed, and its log a\.db-wal was not; remove that too, or bring it back"):
        open_database(path, create=True)
    assert [it.name for it in tmp_path.iterdir()] == ["a.db-wal"]


def test_many_who_make_it_at_once_all_find_one_database(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    errors: list[BaseException] = []

    def make() -> None:
        try:
            open_database(path, create=True).close()
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert [it.name for it in tmp_path.iterdir()] == ["runs.db"]


MAKER = """
import sys
from pathlib import Path
from asterism.stores import database, sqlite_search

def stop(connection, path):
    database_prepare(connection, path)
    print("at it", flush=True)
    sys.stdin.readline()

database_prepare, database._prepare = database._prepare, stop
database.open_database(Path(sys.argv[1]), create=True)
"""


@contextmanager
def making(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that stops in the middle of making a database, and is killed in the end."""
    with subprocess.Popen([sys.executable, "-c", MAKER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as maker:
        assert maker.stdout is not None
        assert maker.stdout.readline() == "at it\n"
        try:
            yield maker
        finally:
            maker.kill()


def test_the_draft_of_a_killed_process_is_removed_by_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with making(path):
        pass
    (draft,) = tmp_path.iterdir()
    assert draft.name.startswith(".runs.db.")
    made(path)
    assert list(tmp_path.iterdir()) == [path]


def test_the_draft_of_a_process_that_was_killed_after_the_link_is_removed_too(tmp_path: Path) -> None:
    path = made(tmp_path / "runs.db")
    draft = tmp_path / ".runs.db.0123abcd.new"
    draft.mkdir()
    os.link(path, draft / "runs.db")
    made(path)
    assert list(tmp_path.iterdir()) == [path]


def test_a_maker_that_is_at_it_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with making(path) as maker:
        made(path)
        assert len(list(tmp_path.iterdir())) == 2
        maker.communicate("go on\n")
        assert maker.returncode == 0
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_that_has_the_name_of_a_draft_holds_nothing_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".runs.db.0123abcd.new")
    made(tmp_path / "runs.db")


def test_a_draft_that_is_removed_before_it_is_locked_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, lock = tmp_path / "runs.db", database._lock
    removed: list[Path] = []

    def late(folder: Path, how: int) -> int:
        if len(removed) < 2:
            removed.append(folder)
            folder.rmdir()
        return lock(folder, how)

    monkeypatch.setattr(database, "_lock", late)
    made(path)
    assert list(tmp_path.iterdir()) == [path]


def test_no_database_is_left_behind_when_writing_fails(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (36_864, hard))
    try:
        with pytest.raises(StoreUnavailable, match="reading or writing the disk failed"):
            open_database(tmp_path / "runs.db", create=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_before_the_log_is_copied_leaves_no_database_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    prepare = database._prepare

    def then_fill(connection: sqlite3.Connection, path: Path) -> None:
        prepare(connection, path)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))

    monkeypatch.setattr(database, "_prepare", then_fill)
    try:
        with pytest.raises(StoreUnavailable, match="reading or writing the disk failed"):
            open_database(tmp_path / "runs.db", create=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[None]:
    """A file system of that size; skips where a test may not mount one."""
    folder.mkdir(exist_ok=True)
    with suppress(FileNotFoundError):
        mount = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], capture_output=True, check=False)
        if not mount.returncode:
            try:
                yield
            finally:
                subprocess.run(["umount", "--lazy", str(folder)], check=True)
            return
    pytest.skip("mounting a small file system is not allowed here")


@pytest.mark.parametrize("room", ["16k", "64k", "100k", "112k", "128k", "144k", "160k"])
def test_a_full_disk_is_reported_and_no_database_is_left_behind(tmp_path: Path, room: str) -> None:
    small = tmp_path / "small"
    with mounted(small, room):
        with pytest.raises(StoreUnavailable, match="the disk is full; free some space"):
            open_database(small / "runs.db", create=True)
        assert list(small.iterdir()) == []


def test_a_read_only_folder_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    with read_only(folder) as lock:
        path = made(folder / "runs.db")
        lock()
        with pytest.raises(StoreUnavailable, match="writable"):
            open_database(path, create=True)
        with pytest.raises(StoreUnavailable, match=r"new\.db: (it cannot be opened|it is read-only)"):
            open_database(folder / "new.db", create=True)
        assert [it.name for it in folder.iterdir()] == ["runs.db"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write any file")
def test_a_read_only_file_is_reported(tmp_path: Path) -> None:
    path = made(tmp_path / "runs.db")
    path.chmod(0o444)
    with pytest.raises(StoreUnavailable, match="it is read-only; make the file and its folder writable"):
        open_database(path, create=True)


@contextmanager
def read_only(folder: Path) -> Iterator[Callable[[], object]]:
    """A folder and a call that makes it read-only; permissions do not hold root back, a mount does."""
    if os.geteuid() != 0:
        folder.mkdir()
        yield lambda: folder.chmod(0o555)
        folder.chmod(0o755)
        return
    with mounted(folder, "1m"):
        yield lambda: subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)


def test_a_search_reads_only_the_index_of_all_runs_until_its_page_is_full(tmp_path: Path) -> None:
    values = dict.fromkeys(("at", "after", "from", "roots_only", "open_only", "tenant", "status", "machine", "text", "limit"))
    with closing(open_database(tmp_path / "runs.db", create=True)) as connection:
        plan = [step for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {sqlite_search._FIND_RUNS}", values)]
    assert "SEARCH runs USING COVERING INDEX runs_listed (created_at>? AND (created_at,run)<(?,?))" in plan
    assert not any(step.startswith("SCAN") for step in plan)
