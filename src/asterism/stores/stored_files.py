"""The files of runs: rows in a store, contents beside its database or in another storage."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from asterism.engine.kernel.data import FILE, is_digest, safe_name
from asterism.engine.ports.files import FileRow, FileRows, media_type_of
from asterism.errors import InvalidInput
from asterism.stores.file_contents import Contents, FolderContents, FsspecContents, chunks_of, sweep, written

ABANDONED_S = 86_400.0
"""Seconds after which a file of a run that does not exist is removed: it was never submitted."""
UNUSED_S = 3600.0
"""Seconds after which a content that no run has may be removed."""

_PREFIX = "sha256:"


class StoredFiles:
    """``Files`` with their rows in a store.

    Args:
        rows: the store.
        contents: holds the contents.
        now: returns seconds since the epoch.
    """

    def __init__(self, rows: FileRows, contents: Contents, now: Callable[[], float]) -> None:
        self._rows = rows
        self._contents = contents
        self._now = now

    async def put(self, root: str, name: str, chunks: AsyncIterator[bytes], *, media_type: str = "") -> dict[str, Any]:
        name = safe_name(name)
        media_type = (media_type or media_type_of(name))[:200]
        with contextlib.ExitStack() as stack:
            await asyncio.to_thread(lambda: stack.enter_context(self._contents.held(alone=False)))
            digest, size = await written(self._contents, name, chunks)
            row = FileRow(root=root, digest=_PREFIX + digest, name=name, media_type=media_type, size=size, at=self._now())
            await self._rows.add_file(row)
        return {FILE: row.digest, "name": name, "media_type": media_type, "size": size}

    async def read(self, root: str, digest: str) -> AsyncIterator[bytes]:
        if not is_digest(digest) or all(row.digest != digest for row in await self._rows.files(root)):
            raise InvalidInput(f"file {digest}: run {root} has no such file; it reads its own files, and those given when it was submitted")
        async with contextlib.aclosing(chunks_of(self._contents, digest.removeprefix(_PREFIX))) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                yield chunk

    async def rows(self, root: str) -> list[FileRow]:
        return await self._rows.files(root)

    async def forget(self, roots: Sequence[str]) -> None:
        now = self._now()
        await self._rows.remove_files(roots, before=now - ABANDONED_S)
        loop = asyncio.get_running_loop()

        def used() -> set[str]:
            rows = asyncio.run_coroutine_threadsafe(self._rows.files(), loop).result()
            return {row.digest.removeprefix(_PREFIX) for row in rows}

        await asyncio.to_thread(sweep, self._contents, used, now - UNUSED_S)


def contents_of(url: str, database: Path) -> Contents:
    """Return where the contents of files are: at a URL, or with an empty one in a folder beside the database."""
    return FsspecContents(url) if url else FolderContents(Path(f"{database.resolve()}.files"))
