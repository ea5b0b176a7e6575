"""The command that copies a database while it is used: backup."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from asterism.app.settings import database_path, files_url
from asterism.cli.exit_codes import FINISHED
from asterism.cli.options import Database
from asterism.cli.output import complain, put
from asterism.stores.backup import back_up
from asterism.views.words import count, plain

MEGABYTE = 1_000_000


def backup(
    file: Annotated[Path, Parameter(name="FILE", help="Database file to write; it must not exist.")], /, *, database: Database = None
) -> int:
    """Copy the database, with the files of its runs, while processes use it."""
    path, elsewhere = database_path(database), files_url()
    done = back_up(path, file, with_files=not elsewhere)
    files = f", and {count(done.files, 'file')} in {plain(file.name)}.files" if done.files else ""
    put(f"{plain(path, 1000)}: {done.bytes / MEGABYTE:.1f} MB in {plain(file, 1000)}{files}")
    if elsewhere:
        put("the files of its runs are in another storage, and not in this copy")
    if done.lost:
        complain(f"{count(done.lost, 'file')} of its runs cannot be copied: the contents are not beside the database")
    return FINISHED
