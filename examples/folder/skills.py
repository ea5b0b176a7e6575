"""What the devices of the folder fleet can do: count, check, archive and verify a folder of the user's.

Nothing is written inside the folder. Symbolic links are never followed: they are counted and archived
as links. Files are read in pieces, so their size does not matter; lists in results are cut to a few names.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import stat
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypedDict

from asterism import SkillContext, skill

CHUNK = 1 << 20
NAMES_TOLD = 20
SUFFIXES = (".tar.gz", ".tgz")
ARCHIVED = frozenset({"file", "folder", "link"})
"""Kinds of things an archive holds; the others are told of, by name."""


class Counted(TypedDict):
    """What a folder holds. ``bytes`` is the sum of the sizes of its files; ``others`` are sockets, pipes and the like."""

    folder: str
    files: int
    folders: int
    links: int
    others: int
    unreadable: int
    bytes: int


class Checked(TypedDict):
    """What is wrong with the files of a folder; ``duplicates`` counts files beyond the first of the same content."""

    folder: str
    files: int
    unreadable: int
    empty: int
    duplicates: int
    problems: list[str]


class Archived(TypedDict):
    """An archive, and the manifest of what the folder held. ``left_out`` counts what could not be read, or is no file."""

    archive: str
    manifest: str
    folder: str
    files: int
    left_out: int
    bytes: int
    problems: list[str]


class Verified(TypedDict):
    """``valid``: the archive holds all that the folder held, byte for byte, and nothing else."""

    valid: bool
    archive: str
    files: int
    problems: list[str]


class Item(TypedDict):
    """Something in a folder, as the manifest has it. ``content`` is a file's hash, a link's target, or why it is unreadable."""

    path: str
    kind: str
    size: int
    content: str


@skill(
    idempotent=True,
    tags=("count", "number", "files", "folder", "directory"),
    examples=("count the files", "count the files in '/home/me/photos'", "how many files are in the folder"),
)
def count_files(folder: str) -> Counted:
    """Count the files in a folder, and in all folders below it.

    Args:
        folder: path of the folder.

    Raises:
        ValueError: there is no such folder, or it cannot be listed.
    """
    root = _folder(folder)
    kinds: Counter[str] = Counter()
    size = 0
    for item in _scan(root):
        kinds[item["kind"]] += 1
        size += item["size"]
    files, folders, links, others, unreadable = (kinds[kind] for kind in ("file", "folder", "link", "other", "unreadable"))
    return Counted(folder=str(root), files=files, folders=folders, links=links, others=others, unreadable=unreadable, bytes=size)


@skill(
    idempotent=True,
    tags=("check", "inspect", "unreadable", "empty", "duplicate", "duplicates", "health"),
    examples=("check the files", "check the folder for duplicates", "find unreadable, empty and duplicate files"),
)
def check_files(context: SkillContext, folder: str) -> Checked:
    """Check the files of a folder: read each of them, and find unreadable, empty and duplicate ones.

    Args:
        context: of this attempt.
        folder: path of the folder.

    Raises:
        ValueError: there is no such folder, or it cannot be listed.
    """
    root = _folder(folder)
    first_of: dict[str, str] = {}
    counts: Counter[str] = Counter()
    problems: list[str] = []
    for item in _hashed(context, root):
        counts[item["kind"]] += 1
        told = _printable(item["path"])
        if item["kind"] == "unreadable":
            problems.append(f"unreadable: {told} ({item['content']})")
        elif item["kind"] == "file" and item["size"] == 0:
            counts["empty"] += 1
            problems.append(f"empty: {told}")
        elif item["kind"] == "file" and (first := first_of.setdefault(item["content"], told)) != told:
            counts["duplicates"] += 1
            problems.append(f"duplicate: {told} is the same as {first}")
    files, unreadable, empty, duplicates = (counts[kind] for kind in ("file", "unreadable", "empty", "duplicates"))
    return Checked(folder=str(root), files=files, unreadable=unreadable, empty=empty, duplicates=duplicates, problems=_few(problems))


@skill(
    idempotent=True,
    tags=("archive", "pack", "compress", "backup", "tar"),
    examples=("archive the folder", "archive '/home/me/photos'", "pack the folder into '/backup/photos.tar.gz'"),
)
def archive(context: SkillContext, folder: str, target: str = "") -> Archived:
    """Archive a folder: pack it into a tar.gz file, with a manifest of its content beside it.

    The same content gives the same bytes. An archive is replaced whole, and only one that was made here.

    Args:
        context: of this attempt.
        folder: path of the folder.
        target: path of the archive (``.tar.gz`` or ``.tgz``), or a folder to put it in; the current folder when left out.

    Raises:
        ValueError: there is no such folder, the target cannot be used, or a file changed while it was read.
    """
    root = _folder(folder)
    path = _target(root, target)
    manifest = _manifest_of(path)
    items = list(_hashed(context, root, share=0.5))
    kept = [item for item in items if item["kind"] in ARCHIVED]
    path.parent.mkdir(parents=True, exist_ok=True)
    # The manifest goes first: an archive without one is taken for somebody else's and never replaced.
    with _whole_file(manifest, context.key) as stream:
        stream.write((json.dumps({"folder": str(root), "items": items}, indent=1) + "\n").encode())
    with _whole_file(path, context.key) as stream:
        _pack(context, root, kept, stream)
    problems = _left_out(items)
    return Archived(
        archive=str(path),
        manifest=str(manifest),
        folder=str(root),
        files=sum(item["kind"] == "file" for item in kept),
        left_out=len(problems),
        bytes=path.stat().st_size,
        problems=_few(problems),
    )


@skill(
    idempotent=True,
    tags=("verify", "validate", "integrity", "compare", "archive"),
    examples=("verify the archive", "verify '/backup/photos.tar.gz'", "compare the archive with its manifest"),
)
def verify(archive: str) -> Verified:
    """Verify an archive: read back all it holds and compare it with the manifest of the folder.

    Args:
        archive: path of the archive; its manifest lies beside it.

    Raises:
        ValueError: there is no such archive, or it has no manifest.
    """
    path = Path(archive).expanduser().absolute()
    manifest = _manifest_of(path)
    for needed in (path, manifest):
        if not needed.is_file():
            raise ValueError(f"there is no {str(needed)!r}; the skill `archive` writes an archive and its manifest")
    items: list[Item] = json.loads(manifest.read_bytes())["items"]
    expected = {item["path"]: item for item in items if item["kind"] in ARCHIVED}
    problems = _left_out(items)
    seen: set[str] = set()
    try:
        for found in _unpacked(path):
            told = _printable(found["path"])
            if found["path"] in seen:
                problems.append(f"twice: {told}")
            elif found["path"] not in expected:
                problems.append(f"unexpected: {told}")
            elif found != expected[found["path"]]:
                problems.append(f"different: {told}")
            seen.add(found["path"])
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        problems.append(f"cannot be read to its end: {error}")
    problems += [f"missing: {_printable(name)}" for name in expected if name not in seen]
    files = sum(expected[name]["kind"] == "file" for name in seen & expected.keys())
    return Verified(valid=not problems, archive=str(path), files=files, problems=_few(problems))


def _folder(folder: str) -> Path:
    if not folder.strip():
        raise ValueError("no folder was named; give the path of a folder, in quotes if it holds spaces")
    try:
        root = Path(folder).expanduser().resolve(strict=True)
        with os.scandir(root):
            return root
    except FileNotFoundError as error:
        raise ValueError(f"there is no folder {folder!r} (looked in {str(Path.cwd())!r})") from error
    except NotADirectoryError as error:
        raise ValueError(f"{folder!r} is a file; give the folder that holds it") from error
    except (OSError, RuntimeError) as error:
        raise ValueError(f"the folder {folder!r} cannot be read: {error}") from error


def _target(root: Path, target: str) -> Path:
    """Where the archive of a folder goes: never inside the folder, never over a file that is not an archive of ours."""
    path = Path(target).expanduser() if target else Path()
    if path.is_dir():
        path /= f"{root.name or 'root'}.tar.gz"
    path = path.resolve()
    if path.is_relative_to(root):
        raise ValueError(f"the archive would lie inside the folder, at {str(path)!r}; give a target outside of {str(root)!r}")
    if not path.name.endswith(SUFFIXES):
        raise ValueError(f"the target {str(path)!r} is neither a folder nor the name of an archive ({' or '.join(SUFFIXES)})")
    if path.exists() and not _manifest_of(path).is_file():
        raise ValueError(f"{str(path)!r} is there already and was not made here; give another target")
    return path


def _manifest_of(archive: Path) -> Path:
    return archive.with_name(f"{archive.name}.manifest.json")


def _scan(root: Path) -> Iterator[Item]:
    """All that lies below a folder, without reading a file, always in the same order; folders that cannot be listed are ``unreadable``."""
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        try:
            with os.scandir(root / prefix) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            yield Item(path=prefix.rstrip("/") or ".", kind="unreadable", size=0, content=error.strerror or str(error))
            continue
        for entry in entries:
            path = prefix + entry.name
            try:
                item = _item(entry, path)
            except OSError as error:
                item = Item(path=path, kind="unreadable", size=0, content=error.strerror or str(error))
            yield item
            if item["kind"] == "folder":
                waiting.append(f"{path}/")


def _item(entry: os.DirEntry[str], path: str) -> Item:
    if entry.is_symlink():
        return Item(path=path, kind="link", size=0, content=os.readlink(entry.path))  # noqa: PTH115 - a Path would tidy it
    if entry.is_dir():
        return Item(path=path, kind="folder", size=0, content="")
    if entry.is_file():
        return Item(path=path, kind="file", size=entry.stat(follow_symlinks=False).st_size, content="")
    return Item(path=path, kind="other", size=0, content="neither a file nor a folder")


def _hashed(context: SkillContext, root: Path, *, share: float = 1.0) -> Iterator[Item]:
    """The same, each file read and hashed; one that cannot be read becomes ``unreadable``. ``share`` is its part of the progress."""
    for item in _reporting(context, "reading", list(_scan(root)), end=share):
        if item["kind"] == "file":
            try:
                with (root / item["path"]).open("rb") as stream:
                    item["content"], item["size"] = _sha256(stream)
            except OSError as error:
                yield Item(path=item["path"], kind="unreadable", size=0, content=error.strerror or str(error))
                continue
        yield item


def _reporting(context: SkillContext, verb: str, items: list[Item], *, start: float = 0.0, end: float = 1.0) -> Iterator[Item]:
    """The items as they are; progress is reported by size, a hundred times at most, however many there are."""
    total = sum(item["size"] for item in items) or 1
    done = 0
    told = -1
    for item in items:
        percent = min(100 * done // total, 100)
        if percent > told:
            context.progress(start + (end - start) * percent / 100, f"{verb} {_printable(item['path'])}")
            told = percent
        done += item["size"]
        yield item


def _left_out(items: list[Item]) -> list[str]:
    return [f"left out: {_printable(item['path'])} ({item['content']})" for item in items if item["kind"] not in ARCHIVED]


def _sha256(stream: IO[bytes]) -> tuple[str, int]:
    """Hash and length of all that a stream still holds."""
    digest = hashlib.sha256()
    size = 0
    while piece := stream.read(CHUNK):
        digest.update(piece)
        size += len(piece)
    return digest.hexdigest(), size


def _pack(context: SkillContext, root: Path, items: list[Item], stream: IO[bytes]) -> None:
    """Write a tar.gz that depends on the folder's content alone: no owners, no time of packing, no order of the disk."""
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=stream, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for item in _reporting(context, "packing", items, start=0.5):
            path = root / item["path"]
            try:
                _add(tar, path, item)
            except OSError as error:
                raise ValueError(f"stopped at {str(path)!r}: {error}; if it changed meanwhile, try again when it is at rest") from error


def _add(tar: tarfile.TarFile, path: Path, item: Item) -> None:
    status = path.lstat()
    member = tarfile.TarInfo(item["path"])
    member.mtime = int(status.st_mtime)
    member.mode = stat.S_IMODE(status.st_mode)
    if item["kind"] == "folder":
        member.type = tarfile.DIRTYPE
        tar.addfile(member)
    elif item["kind"] == "link":
        member.type = tarfile.SYMTYPE
        member.linkname = item["content"]
        tar.addfile(member)
    else:
        member.size = item["size"]
        with path.open("rb") as content:
            tar.addfile(member, content)


def _unpacked(path: Path) -> Iterator[Item]:
    """What an archive really holds, read to its last byte; nothing is written anywhere."""
    with gzip.open(path) as packed:
        with tarfile.open(fileobj=packed, mode="r|") as tar:
            for member in tar:
                if member.isfile() and (content := tar.extractfile(member)):
                    digest, size = _sha256(content)
                    yield Item(path=member.name, kind="file", size=size, content=digest)
                elif member.issym():
                    yield Item(path=member.name, kind="link", size=0, content=member.linkname)
                else:
                    yield Item(path=member.name, kind="folder" if member.isdir() else "other", size=0, content="")
        while packed.read(CHUNK):  # the checksum of the whole comes after its last byte
            pass


@contextmanager
def _whole_file(target: Path, key: str) -> Iterator[IO[bytes]]:
    """A file that gets its name when it is complete; a killed attempt's leftover is overwritten by the next of the same key."""
    part = target.with_name(f".{target.name}.{hashlib.sha256(key.encode()).hexdigest()[:12]}.part")
    try:
        with part.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _printable(name: str) -> str:
    """A file name as text: names may hold bytes that are not UTF-8, and no JSON text can carry those."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _few(lines: list[str]) -> list[str]:
    """The first few, and how many more there are."""
    return lines if len(lines) <= NAMES_TOLD else [*lines[:NAMES_TOLD], f"and {len(lines) - NAMES_TOLD} more"]
