"""Port of the files of runs: their contents, by digest, and the rows that say which run has them."""

from __future__ import annotations

import mimetypes
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

import msgspec

FILE_BYTES = 1 << 30
"""Bytes of one file."""
ROOT_BYTES = 10 << 30
"""Bytes of the files of one root and the runs below it."""


def media_type_of(name: str) -> str:
    """Return the media type of a file by its name."""
    return mimetypes.guess_type(name)[0] or "application/octet-stream"


class FileRow(msgspec.Struct, frozen=True, kw_only=True):
    """The row of a file.

    Attributes:
        root: the run at the top of the tree that may read it.
        digest: ``sha256:<hex>``.
        name: a base name, never a path.
        at: seconds since the epoch.
    """

    root: str
    digest: str
    name: str
    media_type: str = ""
    size: int
    at: float


class FileRows(Protocol):
    """Holds the rows of files; a part of every store."""

    async def add_file(self, row: FileRow) -> None:
        """Add a row, or replace the one of the same root, digest and name.

        Raises:
            InvalidInput: the files of the root would have more than ``ROOT_BYTES``.
        """
        ...

    async def files(self, root: str | None = None) -> list[FileRow]:
        """Return the rows of a root, or of all, oldest first."""
        ...

    async def copy_files(self, origin: str, root: str) -> None:
        """Let another root read the files of a root."""
        ...

    async def remove_files(self, roots: Sequence[str], *, before: float) -> None:
        """Remove the rows of these roots, and those from before an epoch second whose root does not exist."""
        ...


class Files(Protocol):
    """Holds the files of runs. A run reads only files of its own root."""

    async def put(self, root: str, name: str, chunks: AsyncIterator[bytes], *, media_type: str = "") -> dict[str, Any]:
        """Store a file and return the value that names it.

        Raises:
            InvalidInput: it has more than ``FILE_BYTES``, or the files of the root more than ``ROOT_BYTES``.
            StoreUnavailable: it cannot be written.
        """
        ...

    def read(self, root: str, digest: str) -> AsyncIterator[bytes]:
        """Yield the content of a file.

        Use it only when the iterator has ended: the content is checked by its digest as it is read.

        Raises:
            InvalidInput: the root has no such file, or its content was lost or has changed.
            StoreUnavailable: it cannot be read.
        """
        ...

    async def rows(self, root: str) -> list[FileRow]:
        """Return the rows of a root, oldest first."""
        ...

    async def forget(self, roots: Sequence[str]) -> None:
        """Remove the files of these roots, and each content that no root has and that is older than an hour."""
        ...
