"""The rows of files of the store in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from asterism.engine.ports.files import FileRow
from asterism.engine.ports.store import RunRow
from asterism.stores.sqlite_files import check_size


class _Files(Protocol):
    files: dict[tuple[str, str, str], FileRow]

    @property
    def runs(self) -> Mapping[str, RunRow]: ...


class _Store(Protocol):
    @property
    def memory(self) -> _Files: ...

    async def _begin(self, write: str = "") -> None: ...


class MemoryFiles:
    """The operations on files of a store in memory."""

    async def add_file(self: _Store, row: FileRow) -> None:
        await self._begin("file")
        check_size(row, sum({it.digest: it.size for it in _rows(self.memory, row.root) if it.digest != row.digest}.values()))
        self.memory.files[row.root, row.digest, row.name] = row

    async def files(self: _Store, root: str | None = None) -> list[FileRow]:
        await self._begin()
        return sorted(_rows(self.memory, root), key=lambda row: (row.at, row.name))

    async def copy_files(self: _Store, origin: str, root: str) -> None:
        await self._begin("file")
        for row in _rows(self.memory, origin):
            self.memory.files[root, row.digest, row.name] = msgspec.structs.replace(row, root=root)

    async def remove_files(self: _Store, roots: Sequence[str], *, before: float) -> None:
        await self._begin("file")
        runs = self.memory.runs
        rows = {key: it for key, it in self.memory.files.items() if it.root in runs or it.at >= before}
        self.memory.files = {key: it for key, it in rows.items() if it.root not in roots}


def _rows(memory: _Files, root: str | None) -> list[FileRow]:
    return [row for row in memory.files.values() if root in (None, row.root)]
