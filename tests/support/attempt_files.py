"""The files of an attempt, for tests of devices that are called without a run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from asterism.devices.attempts import attempt_files
from asterism.devices.attempts.attempt_files import AttemptFiles
from asterism.stores.file_contents import FolderContents
from asterism.stores.memory import MemoryStore
from asterism.stores.stored_files import StoredFiles

ROOT = "r"


async def parts(*data: bytes) -> AsyncIterator[bytes]:
    for part in data:
        yield part


class TestFiles:
    """The files of one root."""

    __test__ = False

    def __init__(self, folder: Path) -> None:
        self.store = StoredFiles(MemoryStore(), FolderContents(folder / "contents"), time.time)
        self.folder = folder

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """Make them the files of the attempts that are performed in the block."""

        async def root() -> str:
            return ROOT

        token = attempt_files.CURRENT.set(AttemptFiles(self.store, root, self.folder / "work"))
        try:
            yield
        finally:
            attempt_files.CURRENT.reset(token)

    async def put(self, name: str, *data: bytes, root: str = ROOT) -> dict[str, Any]:
        """Store a file; return the value that names it."""
        return await self.store.put(root, name, parts(*data))

    async def content(self, value: dict[str, Any]) -> bytes:
        """Return the content of a file."""
        return b"".join([part async for part in self.store.read(ROOT, value["$file"])])
