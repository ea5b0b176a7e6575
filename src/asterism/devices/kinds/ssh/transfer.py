"""Files to and from a host, by SFTP: into the folder of an attempt before it starts, and out of it after its end."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import stat
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from asterism.devices.attempts.attempt_files import AttemptFiles
from asterism.devices.kinds.ssh.connection import Host
from asterism.devices.kinds.ssh.shell import HostError
from asterism.devices.port import AttemptError
from asterism.devices.skills.command import OUTPUT
from asterism.engine.kernel.data import FILE, PATH, is_file, safe_name
from asterism.engine.ports.files import FILE_BYTES
from asterism.engine.runtime.task_group import in_own_task
from asterism.errors import InvalidInput, first_of

if TYPE_CHECKING:
    import asyncssh

MOST_DROPS = 10
"""Lost connections that the transfer of one file survives."""
IN_FOLDER, OUT_FOLDER = "in", "result"
"""Folders of an attempt on the host: of the files that it takes, and of the file that it writes."""

_BLOCK_BYTES = 1 << 18
_BLOCKS = 16
"""Requests that are sent before the first one is answered."""
_AHEAD = 2
"""Chunks of a file that are received before the first one is written."""


def with_paths(arguments: Mapping[str, Any], folder: str, file: str) -> dict[str, Any]:
    """Return the arguments of a program with the paths of their files on the host.

    Args:
        arguments: the arguments.
        folder: path of the folder of the attempt.
        file: name of the file that the program writes; empty if it writes none.
    """
    paths = {name: {**it, PATH: f"{folder}/{_place_of(it)}"} for name, it in arguments.items() if is_file(it)}
    return {**arguments, **paths, **({OUTPUT: f"{folder}/{OUT_FOLDER}/{file}"} if file else {})}


def _place_of(value: Mapping[str, Any]) -> str:
    return f"{IN_FOLDER}/{value[FILE].removeprefix('sha256:')[:32]}/{safe_name(value.get('name'))}"


async def push(host: Host, folder: str, values: Sequence[Mapping[str, Any]], files: AttemptFiles) -> None:
    """Write files into the folder of an attempt. A file that is there already, under its name, is complete, and stays as it is.

    Raises:
        HostError: the host cannot be reached, or does not take them.
        InvalidInput: a file is missing, damaged, or of another run.
    """
    drops, part, what = 0, f"{folder}/part-{secrets.token_hex(8)}", "files"
    while True:  # bounded by the number of lost connections
        try:
            async with host.sftp() as sftp:
                if await sftp.exists(f"{folder}/pid"):  # it has started, and its files are its own
                    return
                for value in values:
                    what = f"file {safe_name(value.get('name'))}"
                    await _push(sftp, f"{folder}/{_place_of(value)}", part, files.read(value))
                return
        except HostError as error:
            drops += 1
            if error.kind == "refused" or drops > MOST_DROPS:
                raise HostError(error.kind, f"{what} cannot be sent: {error}") from error


async def _push(sftp: asyncssh.SFTPClient, target: str, part: str, content: AsyncIterator[bytes]) -> None:
    """Write a file next to its place, and move it there once it is complete."""
    from asyncssh import SFTPAttrs, SFTPError  # noqa: PLC0415 - slow, and an extra

    if await sftp.exists(target):
        return
    await sftp.makedirs(target.rpartition("/")[0], SFTPAttrs(permissions=0o700), exist_ok=True)
    file = await sftp.open(part, "wb", SFTPAttrs(permissions=0o600), block_size=0)
    await in_own_task(_write_all, file, content, min(sftp.limits.max_write_len, _BLOCK_BYTES))
    await file.close()
    try:
        await sftp.rename(part, target)
    except SFTPError:
        if not await sftp.exists(target):  # another process was faster
            raise


async def _write_all(file: asyncssh.SFTPClientFile, content: AsyncIterator[bytes], block: int) -> None:
    offset, room = 0, asyncio.Semaphore(_BLOCKS)
    async with contextlib.aclosing(content) as chunks, _together() as group:  # type: ignore[type-var]
        async for chunk in chunks:
            for start in range(0, len(chunk), block):
                await room.acquire()
                group.create_task(_write(file, chunk[start : start + block], offset + start, room))
            offset += len(chunk)


async def _write(file: asyncssh.SFTPClientFile, block: bytes, offset: int, room: asyncio.Semaphore) -> None:
    try:
        await file.write(block, offset)
    finally:
        room.release()


async def pulled(host: Host, path: str, name: str) -> AsyncIterator[bytes]:
    """Yield the content of a file on the host; after a lost connection, it goes on where it was.

    Raises:
        HostError: the host cannot be reached, or does not give it.
        AttemptError: ``bad_result`` if there is none, it is a link or no file, is too large, or changes meanwhile.
    """
    offset, drops = 0, 0
    seen: tuple[int, float] | None = None
    while True:  # bounded by the number of lost connections
        try:
            async with host.sftp() as sftp:
                facts = await _facts_of(sftp, path, name)
                if seen not in {None, facts}:
                    raise AttemptError("bad_result", f"file {name}: it was changed on the host while it was read")
                seen, size = facts, facts[0]
                file = await _opened(sftp, path, name)
                block = min(sftp.limits.max_read_len, _BLOCK_BYTES)
                while chunk := await in_own_task(_chunk, file, offset, size + 1 - offset, block):
                    offset += len(chunk)
                    if offset > size:
                        break
                    yield chunk
                if offset != size:
                    how = "more" if offset > size else "less"
                    raise AttemptError("bad_result", f"file {name}: the host has sent {how} than its {size:,} bytes")
                return
        except HostError as error:
            drops += 1
            if error.kind == "refused" or drops > MOST_DROPS:
                raise


async def _facts_of(sftp: asyncssh.SFTPClient, path: str, name: str) -> tuple[int, float]:
    """Return the size and the time of change of a file. Raises AttemptError if it cannot be a result."""
    from asyncssh import SFTPNoSuchFile, SFTPNoSuchPath  # noqa: PLC0415 - slow, and an extra

    try:
        folder, attributes = await sftp.lstat(path.rpartition("/")[0]), await sftp.lstat(path)
    except (SFTPNoSuchFile, SFTPNoSuchPath):
        raise AttemptError("bad_result", f"the program ended without an error, and has not written the file {name} to {{output}}") from None
    if not stat.S_ISDIR(folder.permissions or 0) or not stat.S_ISREG(attributes.permissions or 0):
        raise AttemptError("bad_result", f"file {name}: what the program has left at {{output}} is a link or no file")
    if attributes.size is None or attributes.size > FILE_BYTES:
        raise AttemptError("bad_result", f"file {name}: it has more than {FILE_BYTES:,} bytes")
    return attributes.size, float(attributes.mtime or 0)


async def _opened(sftp: asyncssh.SFTPClient, path: str, name: str) -> asyncssh.SFTPClientFile:
    from asyncssh import SFTPPermissionDenied  # noqa: PLC0415 - slow, and an extra

    try:
        return await sftp.open(path, "rb", block_size=0)
    except SFTPPermissionDenied:
        raise AttemptError("bad_result", f"file {name}: the user of the host may not read it") from None


async def _chunk(file: asyncssh.SFTPClientFile, offset: int, limit: int, block: int) -> bytes:
    """Return what is at an offset, up to a limit or the end of the file; empty at its end."""
    ends = [(at, min(block, limit - at)) for at in range(0, min(limit, block * _BLOCKS), block)]
    async with _together() as group:
        parts = [group.create_task(_block(file, offset + at, size)) for at, size in ends]
    found = bytearray()
    for part, (_, size) in zip(parts, ends, strict=True):
        found += part.result()
        if len(part.result()) < size:
            break
    return bytes(found)


async def _block(file: asyncssh.SFTPClientFile, offset: int, size: int) -> bytes:
    """Return so many bytes at an offset, fewer at the end of the file: a server may answer with less than it was asked for."""
    found = b""
    while len(found) < size and (more := cast("bytes", await file.read(size - len(found), offset + len(found)))):
        found += more
    return found[:size]


@contextlib.asynccontextmanager
async def _together() -> AsyncIterator[asyncio.TaskGroup]:
    """Yield a group of requests; raises the first of their errors."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except ExceptionGroup as several:
        raise first_of(several) from None


async def stored(host: Host, path: str, name: str, files: AttemptFiles | None) -> dict[str, Any]:
    """Store a file of the host; return the value that names it. Raises HostError and AttemptError as ``pulled``."""
    if files is None:
        raise AttemptError("bad_result", "the result is a file, and this program has no store for files")
    parts: asyncio.Queue[bytes] = asyncio.Queue(_AHEAD)

    async def read() -> None:
        async with contextlib.aclosing(pulled(host, path, name)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                await parts.put(chunk)
        await parts.put(b"")

    async def received() -> AsyncIterator[bytes]:
        while chunk := await parts.get():
            yield chunk

    try:
        async with _together() as group:
            group.create_task(read())  # the host sends while the file is written here
            return await files.put(name, received())
    except InvalidInput as error:
        raise AttemptError("bad_result", str(error)) from error
