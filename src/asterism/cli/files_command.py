"""The command on the files of a run: files."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from asterism.app.bootstrap import run_files
from asterism.app.settings import database_path
from asterism.cli.exit_codes import FINISHED
from asterism.cli.options import Database, Json, RunId
from asterism.cli.output import complain, put
from asterism.cli.run_access import reading
from asterism.engine.kernel.data import safe_name
from asterism.engine.ports.files import FileRow, Files
from asterism.engine.runtime.lookup import find_run
from asterism.engine.runtime.private_files import opener
from asterism.errors import InvalidInput
from asterism.views.words import byte_count, plain


def files(
    named: RunId,
    /,
    *,
    save: Annotated[Path | None, Parameter(help="Also write the files to this folder, and make it.")] = None,
    database: Database = None,
    json: Json = False,
) -> int:
    """List the files of a run and of its child runs."""
    return asyncio.run(_files(named, save, database_path(database), as_json=json))


async def _files(named: str, folder: Path | None, database: Path, *, as_json: bool) -> int:
    async with reading(database) as store:
        root = (await find_run(store, named)).root
        held = run_files(store, database)
        rows = await held.rows(root)
        if as_json:
            put(msgspec.json.encode([msgspec.structs.asdict(row) for row in rows]).decode())
        for row in rows if not as_json else ():
            put(f"{plain(row.name)}  {byte_count(row.size)}  {plain(row.media_type)}  {row.digest[:19]}")
        if not rows and not as_json:
            complain(f"run {root} has no files")
        for row in rows if folder else ():
            await _save(held, row, folder or Path())
    if folder and rows and not as_json:
        put(f"saved in {plain(folder, 1000)}")
    return FINISHED


async def _save(held: Files, row: FileRow, folder: Path) -> None:
    """Write a file to a folder under its name, or with its digest before it if there is another one of that name.

    Raises:
        InvalidInput: it cannot be written, or its content cannot be used; what was written is removed.
    """
    path: Path | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - one user waits
        name = safe_name(row.name)
        for choice in (name, f"{row.digest[7:19]}-{name}"):
            try:
                with open(folder / choice, "xb", opener=opener) as file:  # noqa: ASYNC230 - one user waits
                    path = folder / choice
                    async for chunk in held.read(row.root, row.digest):
                        file.write(chunk)
            except FileExistsError:
                continue
            return
    except BaseException as error:  # boundary: cancelled, too; half a file must not stay
        if path:
            path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise InvalidInput(f"--save {folder}: {error.strerror}") from error
        raise
    raise InvalidInput(f"--save {folder}: it has a file {row.name} already; name another folder")
