"""The files of one attempt: those that its arguments name, and those that its result names.

An attempt with a file has a folder of its own, beside the database. Its device finds the files of
the arguments there, and its skill may write there. The folder is removed when the attempt ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Self

import msgspec

from asterism.devices.attempts.processes import start_mark
from asterism.devices.attempts.worker_protocol import ProducedFile
from asterism.devices.port import Attempt
from asterism.engine.kernel.data import FILE, PATH, files_in, is_file, safe_name
from asterism.engine.kernel.machine import Effect, run_id_of
from asterism.engine.ports.files import Files, media_type_of
from asterism.engine.ports.performer import Performer, WithinContext
from asterism.engine.ports.store import Store
from asterism.engine.runtime.private_files import make_folder, opener
from asterism.errors import InvalidInput

CHUNK_BYTES = 1 << 20
MAX_TEXT_BYTES = 256 * 1024
"""Bytes of a file that is read as text: a model or a journal has to take it."""


class AttemptFiles:
    """The files of one attempt.

    Args:
        files: the files of all runs.
        root: returns the root of the attempt's run.
        folder: the folder of the attempt; made when the first file needs it.
        is_networked: returns True if a part of what its tree works on came over the network.
    """

    def __init__(
        self, files: Files, root: Callable[[], Awaitable[str]], folder: Path, is_networked: Callable[[], Awaitable[bool]] | None = None
    ) -> None:
        self._files = files
        self._root = root
        self._is_networked = is_networked
        self.folder = folder

    @classmethod
    def of(cls, effect_id: str, files: Files, store: Store, folder: Path) -> Self:
        """Return the files of an effect of a run in a store."""

        async def root() -> str:
            return (await store.run(run_id_of(effect_id))).root

        async def networked() -> bool:
            row = await store.run(run_id_of(effect_id))
            return (row if row.root == row.run_id else await store.run(row.root)).via == "network"

        return cls(files, root, folder, networked)

    async def is_networked(self) -> bool:
        """Return True if a text may come from another computer."""
        return self._is_networked is not None and await self._is_networked()

    async def with_paths(self, attempt: Attempt) -> Attempt:
        """Return an attempt whose files are in its folder: each argument that names one has its ``path``. A text may be none.

        Raises:
            InvalidInput: a file is missing, damaged, or of another run.
            StoreUnavailable: a file cannot be read.
        """
        named = {(it[FILE], safe_name(it.get("name"))) for it in files_in(attempt.arguments)}
        paths = {key: str(await self._written(*key)) for key in sorted(named)}
        arguments = _with_paths(attempt.arguments, paths) if paths else attempt.arguments
        return msgspec.structs.replace(attempt, arguments=arguments, networked=bool(arguments) and await self.is_networked())

    async def read(self, value: Mapping[str, Any]) -> AsyncIterator[bytes]:
        """Yield the content of a file, checked at its end; the errors are those of ``with_paths``."""
        async for chunk in self._files.read(await self._root(), str(value.get(FILE))):
            yield chunk

    async def put(self, name: str, chunks: AsyncIterator[bytes], media_type: str = "") -> dict[str, Any]:
        """Store a file that the attempt has produced; return the value for its result.

        Raises:
            InvalidInput: it is too large.
            StoreUnavailable: it cannot be written.
        """
        return await self._files.put(await self._root(), name, chunks, media_type=media_type)

    async def put_produced(self, produced: ProducedFile) -> None:
        """Store a file that a skill has left at a path. Raises InvalidInput if it is gone, has changed or is too large."""
        value = await self.put(produced.name, chunks_of_path(Path(produced.path)), produced.media_type)
        if value[FILE] != produced.digest:
            raise InvalidInput(f"file {produced.name}: it was changed after the skill returned it")

    async def _written(self, digest: str, name: str) -> Path:
        folder = self.folder / "in" / digest.removeprefix("sha256:")[:32]
        await asyncio.to_thread(make_folder, folder)
        path = folder / name
        with await asyncio.to_thread(lambda: open(path, "wb", opener=opener)) as file:
            async for chunk in self.read({FILE: digest}):
                await asyncio.to_thread(file.write, chunk)
        return path


CURRENT: ContextVar[AttemptFiles | None] = ContextVar("asterism_attempt_files", default=None)
"""The files of the attempt that is being performed."""


async def with_paths(attempt: Attempt) -> Attempt:
    """Return an attempt whose files are in its folder. Raises as ``AttemptFiles.with_paths``."""
    current = CURRENT.get()
    return await current.with_paths(attempt) if current else attempt


async def is_networked() -> bool:
    """Return True if a text that the current effect works with may come from another computer."""
    current = CURRENT.get()
    return current is not None and await current.is_networked()


async def content_of(value: Mapping[str, Any], limit_bytes: int) -> bytes | None:
    """Return the content of a file of the attempt that is being performed; None if it is larger than the limit.

    Raises:
        InvalidInput: the file is missing, damaged, or of another run; or there is no store for files.
        StoreUnavailable: it cannot be read.
    """
    if (files := CURRENT.get()) is None:
        raise InvalidInput(f"file {safe_name(value.get('name'))}: this program has no store for files")
    content = bytearray()
    async with contextlib.aclosing(files.read(value)) as chunks:  # type: ignore[type-var]
        async for chunk in chunks:
            content += chunk
            if len(content) > limit_bytes:
                return None
    return bytes(content)


async def read_text(file: dict[str, Any]) -> str:
    """Return the content of a text file, which a value with the key "$file" names.

    Raises:
        InvalidInput: the value names no file of this run, or the file is too large or no text in UTF-8.
    """
    if not is_file(file):
        raise InvalidInput('the value names no file: a file has the key "$file" with its digest')
    if CURRENT.get() is None:
        raise InvalidInput("no file can be read here: a worker, a tool or a handler of a run can")
    name = safe_name(file.get("name"))
    if (content := await content_of(file, MAX_TEXT_BYTES)) is None:
        raise InvalidInput(f"file {name}: only {MAX_TEXT_BYTES:,} bytes are read as text, and it has more")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"file {name}: it is no text in UTF-8") from None


async def chunks_of(content: bytes) -> AsyncIterator[bytes]:
    """Yield a content that is there already, in one piece."""
    yield content


async def put_all(produced: Sequence[ProducedFile]) -> None:
    """Store the files that a skill has left at their paths.

    Raises:
        InvalidInput: one is gone, has changed or is too large; or there is no store for files.
        StoreUnavailable: one cannot be written.
    """
    current = CURRENT.get()
    if current is None:
        raise InvalidInput("the result names a file, and this program has no store for files")
    for each in produced:
        await current.put_produced(each)


async def chunks_of_path(path: Path) -> AsyncIterator[bytes]:
    """Yield the content of a local file. Raises InvalidInput if it cannot be read."""
    try:
        with await asyncio.to_thread(path.open, "rb") as file:
            while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES):  # bounded by the size that a store accepts
                yield chunk
    except OSError as error:
        raise InvalidInput(f"file {path.name}: {error.strerror}") from error


def local_file(path: Path) -> dict[str, Any]:
    """Return the value that names a local file, which is read for its digest. Raises InvalidInput if it cannot be read."""
    try:
        if not path.is_file():
            raise InvalidInput(f"{path}: there is no such file")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}") from error
    name = safe_name(path.name)
    return {FILE: f"sha256:{digest}", "name": name, "media_type": media_type_of(name), "size": size}


def _with_paths(value: Any, paths: Mapping[tuple[str, str], str]) -> Any:
    if isinstance(value, dict):
        if is_file(value):
            return {**value, PATH: paths[value[FILE], safe_name(value.get("name"))]}
        return {name: _with_paths(it, paths) for name, it in value.items()}
    return [_with_paths(it, paths) for it in value] if isinstance(value, list) else value


def work_folder(database: Path) -> Path:
    """Return the folder with the folders of this process's attempts; those of processes that have ended are removed."""
    there = Path(f"{os.path.realpath(database)}.work")
    for folder in there.iterdir() if there.is_dir() else ():
        pid, _, mark = folder.name.partition("-")
        if pid.isdecimal() and _mark(int(pid)) != mark:
            shutil.rmtree(folder, ignore_errors=True)
    return there / f"{os.getpid()}-{_mark(os.getpid())}"


def _mark(pid: int) -> str:
    return hashlib.sha256((start_mark(pid) or "").encode()).hexdigest()[:16]


def reading_files(performers: Mapping[type[Effect], Performer], files: Files, store: Store) -> dict[type[Effect], Performer]:
    """Return performers whose code can read the files of its run."""

    @contextlib.asynccontextmanager
    async def opened(effect_id: str, _: Any) -> AsyncIterator[None]:
        token = CURRENT.set(AttemptFiles.of(effect_id, files, store, Path()))
        try:
            yield
        finally:
            CURRENT.reset(token)

    return {kind: WithinContext(performer, opened) for kind, performer in performers.items()}
