"""The contents of files, by digest: in a local folder, or in any storage that fsspec knows."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

from asterism.engine.ports.files import FILE_BYTES
from asterism.engine.runtime.private_files import make_folder, opener, sync
from asterism.errors import InvalidInput, MissingExtra, StoreUnavailable

CHUNK_BYTES = 1 << 20
T = TypeVar("T")


class Contents(Protocol):
    """Holds contents by the hexadecimal part of their digest. Its methods block."""

    place: str

    def begin(self) -> Any:
        """Open a draft for writing, as a binary file with a ``name``."""
        ...

    def finish(self, draft: Any, digest: str) -> None:
        """Give a closed draft its place."""
        ...

    def drop(self, draft: Any) -> None:
        """Remove a draft."""
        ...

    def open(self, digest: str) -> Any:
        """Open a content for reading. Raises FileNotFoundError."""
        ...

    def ages(self) -> Iterator[tuple[str, float]]:
        """Yield each name, of contents and drafts, with the epoch second when it was written."""
        ...

    def remove(self, name: str) -> None:
        """Remove a content."""
        ...

    def held(self, *, alone: bool) -> contextlib.AbstractContextManager[None]:
        """Keep contents from being removed, or with ``alone`` keep others from adding any."""
        ...


class FolderContents:
    """Contents in a local folder, which only its user may read."""

    def __init__(self, folder: Path) -> None:
        self.place = str(folder)
        self._folder = folder

    def begin(self) -> Any:
        make_folder(self._folder)
        return open(self._path(f"new-{secrets.token_hex(16)}"), "xb", opener=opener)

    def finish(self, draft: Any, digest: str) -> None:
        os.replace(draft.name, self._path(digest))  # noqa: PTH105 - both are texts
        sync(self._folder)

    def drop(self, draft: Any) -> None:
        Path(draft.name).unlink(missing_ok=True)

    def open(self, digest: str) -> Any:
        return self._path(digest).open("rb")

    def ages(self) -> Iterator[tuple[str, float]]:
        for entry in os.scandir(self._folder) if self._folder.is_dir() else ():
            if entry.name != "lock":
                yield entry.name, entry.stat().st_mtime

    def remove(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    @contextlib.contextmanager
    def held(self, *, alone: bool) -> Iterator[None]:
        make_folder(self._folder)
        with open(self._path("lock"), "wb", opener=opener) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
            yield

    def _path(self, name: str) -> Path:
        return self._folder / name


class FsspecContents:
    """Contents in a storage that fsspec knows, by its URL.

    Raises:
        MissingExtra: fsspec is not installed.
        InvalidInput: it knows no storage of that URL.
    """

    def __init__(self, url: str) -> None:
        try:
            import fsspec  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise MissingExtra("files", f"files in {url.partition('://')[0]}://") from error
        try:
            self._system, self._folder = fsspec.core.url_to_fs(url)
        except (ValueError, ImportError) as error:
            raise InvalidInput(f"files in {url.partition('://')[0]}://: {error}") from error
        self.place = url.partition("://")[0] + "://"

    def begin(self) -> Any:
        self._system.makedirs(self._folder, exist_ok=True)
        path = self._path(f"new-{secrets.token_hex(16)}")
        draft = self._system.open(path, "wb")
        draft.asterism_path = path
        return draft

    def finish(self, draft: Any, digest: str) -> None:
        self._system.mv(draft.asterism_path, self._path(digest))

    def drop(self, draft: Any) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._system.rm_file(draft.asterism_path)

    def open(self, digest: str) -> Any:
        return self._system.open(self._path(digest), "rb")

    def ages(self) -> Iterator[tuple[str, float]]:
        if not self._system.exists(self._folder):
            return
        for path in self._system.ls(self._folder, detail=False):
            yield str(path).rpartition("/")[2], self._system.modified(path).timestamp()

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._system.rm_file(self._path(name))

    @contextlib.contextmanager
    def held(self, *, alone: bool) -> Iterator[None]:  # noqa: ARG002 - such a storage has no locks; the hour has to do
        yield

    def _path(self, name: str) -> str:
        return f"{self._folder.rstrip('/')}/{name}"


async def written(contents: Contents, name: str, chunks: AsyncIterator[bytes]) -> tuple[str, int]:
    """Write a content; return the hexadecimal digest and the size.

    Raises:
        InvalidInput: it has more than ``FILE_BYTES``.
        StoreUnavailable: it cannot be written.
    """
    digest, size = hashlib.sha256(), 0
    drafts: list[Any] = []
    try:
        await blocking(contents, lambda: drafts.append(contents.begin()))
        (draft,) = drafts
        try:
            async for chunk in chunks:
                size += len(chunk)
                if size > FILE_BYTES:
                    raise InvalidInput(f"file {name}: it has more than {FILE_BYTES:,} bytes")

                def add(part: bytes = chunk) -> None:
                    digest.update(part)
                    draft.write(part)

                await blocking(contents, add)
        finally:
            await blocking(contents, lambda: _closed(draft))
        await blocking(contents, lambda: contents.finish(draft, digest.hexdigest()))
    except BaseException:  # boundary: cancelled, too; the draft must not stay
        for draft in drafts:
            draft.close()
            contents.drop(draft)
        raise
    return digest.hexdigest(), size


def _closed(draft: Any) -> None:
    draft.flush()
    with contextlib.suppress(OSError, AttributeError, ValueError):  # a remote storage has no descriptor
        os.fsync(draft.fileno())
    draft.close()


async def chunks_of(contents: Contents, digest: str) -> AsyncIterator[bytes]:
    """Yield a content; at its end, check it.

    Raises:
        InvalidInput: it is missing or damaged.
        StoreUnavailable: it cannot be read.
    """
    try:
        file = await blocking(contents, lambda: contents.open(digest))
    except FileNotFoundError:
        raise InvalidInput(f"file sha256:{digest}: its content is not in {contents.place}") from None
    found = hashlib.sha256()

    def part() -> bytes:
        data: bytes = file.read(CHUNK_BYTES)
        found.update(data)
        return data

    try:
        while chunk := await blocking(contents, part):  # bounded by the size of the file
            yield chunk
    finally:
        file.close()
    if found.hexdigest() != digest:
        raise InvalidInput(f"file sha256:{digest}: its content in {contents.place} has changed; restore it from a backup")


def sweep(contents: Contents, used: Callable[[], set[str]], before: float) -> None:
    """Remove what was written before an epoch second and is not among the hexadecimal digests in use. Blocks."""
    with contents.held(alone=True):
        names = used()
        for name, at in list(contents.ages()):
            if at < before and name not in names:
                contents.remove(name)


async def blocking(contents: Contents, work: Callable[[], T]) -> T:
    """Do blocking work in a thread. Raises StoreUnavailable for an OSError, but FileNotFoundError as it is.

    A caller that is cancelled waits for the end of the work: what it opens must not be lost.
    """
    working = asyncio.get_running_loop().run_in_executor(None, work)
    cancelled: asyncio.CancelledError | None = None
    while not working.done():
        try:
            await asyncio.wait([working])
        except asyncio.CancelledError as error:
            cancelled = error
    try:
        result = working.result()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreUnavailable(f"files in {contents.place}: {error.strerror or error}") from error
    if cancelled:
        raise cancelled
    return result
