"""Copy a database, with the files of its runs, while processes write to it."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sqlite3
from pathlib import Path

import msgspec

from asterism.engine.runtime.private_files import make_folder, opener, sync
from asterism.errors import InvalidInput, StoreUnavailable, how_to_write_there
from asterism.stores.database import open_reader, recognise, unavailable
from asterism.stores.stored_files import contents_of

_SELECT_DIGESTS = "SELECT DISTINCT substr(digest, length('sha256:') + 1) FROM files"
_HAS_FILES = "SELECT 1 FROM sqlite_master WHERE name = 'files'"


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """A copy that was made.

    Attributes:
        bytes: size of the database.
        files: contents of files that are beside it.
        lost: contents that were not beside the original either.
    """

    bytes: int
    files: int = 0
    lost: int = 0


def back_up(database: Path, target: Path, *, with_files: bool) -> Backup:
    """Copy a database as it is at one moment; ``target`` is there when the copy is complete, and not before. Blocks.

    Args:
        database: path of the database, at any schema up to that of this program; it is not migrated.
        target: path of the copy, which must not exist.
        with_files: copy the contents of files as well, from the folder beside the database to one beside the copy.

    Raises:
        InvalidInput: ``target`` exists.
        StoreUnavailable: there is no such database, or the copy cannot be written.
    """
    if os.path.lexists(target):
        raise InvalidInput(f"{target}: it exists; choose another name, or remove it first")
    if not database.is_file():
        raise StoreUnavailable(f"database {database}: there is none")
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.new")
    try:
        make_folder(target.parent)
        _copy(database, draft)
        files, lost = _copy_files(database, draft, target) if with_files else (0, 0)
        _put_in_place(draft, target)
        return Backup(bytes=target.stat().st_size, files=files, lost=lost)
    except FileExistsError:
        raise InvalidInput(f"{target}: another process has just made it") from None
    except OSError as error:
        raise StoreUnavailable(f"backup {target}: {error.strerror}; {how_to_write_there(error)}") from error
    finally:
        for end in ("", "-journal", "-wal", "-shm"):
            Path(f"{draft}{end}").unlink(missing_ok=True)


def _put_in_place(draft: Path, target: Path) -> None:
    try:
        os.link(draft, target)  # unlike a rename, it never replaces a file
    except FileExistsError:
        raise
    except OSError:  # a file system without links, as on a stick
        draft.rename(target)
    sync(target.parent)


def _copy(database: Path, draft: Path) -> None:
    os.close(opener(str(draft), os.O_CREAT | os.O_WRONLY | os.O_EXCL))
    with contextlib.closing(open_reader(database)) as source:
        try:
            recognise(source, database, create=False)
        except sqlite3.Error as error:
            raise unavailable(database, error) from error
        try:
            with contextlib.closing(sqlite3.connect(draft, isolation_level=None)) as copy:
                source.backup(copy)  # in one step: one moment of the database, while others write
                copy.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            raise unavailable(draft, error) from error
    sync(draft)


def _copy_files(database: Path, draft: Path, target: Path) -> tuple[int, int]:
    """Copy the contents that the rows of a copy name; return how many, and how many are lost."""
    source, folder = Path(f"{database.resolve()}.files"), Path(f"{target.absolute()}.files")
    with contextlib.closing(sqlite3.connect(draft)) as copy:
        digests = [digest for (digest,) in copy.execute(_SELECT_DIGESTS)] if copy.execute(_HAS_FILES).fetchone() else []
    if not digests:
        return 0, 0
    make_folder(folder)
    copied = 0
    with contents_of("", database).held(alone=False):  # none is removed meanwhile
        for digest in digests:
            part = folder / f"new-{secrets.token_hex(16)}"
            with contextlib.suppress(FileNotFoundError), (source / digest).open("rb") as content, open(part, "xb", opener=opener) as there:
                shutil.copyfileobj(content, there)
                there.flush()
                os.fsync(there.fileno())
                part.replace(folder / digest)
                copied += 1
    sync(folder)
    return copied, len(digests) - copied
