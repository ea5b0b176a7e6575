"""Contract of files, tested on each kind of storage. A new one joins by its contents in ``CONTENTS``."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from asterism.errors import InvalidInput
from asterism.stores import file_contents, sqlite_files, stored_files
from asterism.stores.file_contents import Contents, FolderContents, FsspecContents
from asterism.stores.memory import MemoryStore
from asterism.stores.sqlite import SqliteStore
from asterism.stores.stored_files import StoredFiles

CONTENTS: dict[str, Callable[[Path], Contents]] = {
    "folder": lambda folder: FolderContents(folder / "contents"),
    "fsspec file": lambda folder: FsspecContents(f"file://{folder}/contents"),
    "fsspec memory": lambda _: FsspecContents(f"memory://{secrets.token_hex(8)}"),
}
Scenario = Callable[[StoredFiles, Contents], Awaitable[None]]
Play = Callable[[Scenario], None]


@pytest.fixture(params=[(kind, store) for kind in CONTENTS for store in ("memory", "sqlite")], ids=" in ".join)
def play(request: pytest.FixtureRequest, tmp_path: Path) -> Play:
    kind, name = request.param
    if kind != "folder":
        pytest.importorskip("fsspec")

    async def whole(scenario: Scenario) -> None:
        store = MemoryStore() if name == "memory" else SqliteStore.open(tmp_path / "runs.db", create=True)
        try:
            contents = CONTENTS[kind](tmp_path)
            await scenario(StoredFiles(store, contents, time.time), contents)
        finally:
            await store.close()

    return lambda scenario: asyncio.run(whole(scenario))


async def parts(*data: bytes) -> AsyncIterator[bytes]:
    for part in data:
        yield part


async def content(files: StoredFiles, root: str, digest: str) -> bytes:
    return b"".join([part async for part in files.read(root, digest)])


def test_a_file_is_read_by_the_digest_that_put_returns(play: Play) -> None:
    async def scenario(files: StoredFiles, _: Contents) -> None:
        value = await files.put("r1", "report.pdf", parts(b"one", b"two"))
        digest = "sha256:" + hashlib.sha256(b"onetwo").hexdigest()
        assert value == {"$file": digest, "name": "report.pdf", "media_type": "application/pdf", "size": 6}
        assert await content(files, "r1", digest) == b"onetwo"
        assert await files.put("r1", "report.pdf", parts(b"onetwo")) == value
        assert [(row.name, row.size) for row in await files.rows("r1")] == [("report.pdf", 6)]
        empty = await files.put("r1", "none", parts(), media_type="text/plain")
        assert (empty["size"], empty["media_type"]) == (0, "text/plain")
        assert await content(files, "r1", empty["$file"]) == b""

    play(scenario)


def test_a_root_reads_no_file_of_another_one(play: Play) -> None:
    async def scenario(files: StoredFiles, _: Contents) -> None:
        value = await files.put("r1", "a", parts(b"mine"))
        for digest in (value["$file"], "sha256:../../etc/passwd", "lock", ""):
            with pytest.raises(InvalidInput, match="has no such file"):
                await content(files, "r2", digest)

    play(scenario)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\users\\x.txt", "x.txt"),
        ("..", "file"),
        ("", "file"),
        (".bashrc", "bashrc"),
        ("-rf", "rf"),
        ("a\0b\n\x1b[31m.txt", "ab[31m.txt"),
        ("größe.txt", "größe.txt"),
        ("x" * 300 + ".pdf", "x" * 179 + ".pdf"),
    ],
)
def test_a_name_is_never_a_path(play: Play, given: str, stored: str) -> None:
    async def scenario(files: StoredFiles, _: Contents) -> None:
        assert (await files.put("r1", given, parts(b"x")))["name"] == stored

    play(scenario)


def test_a_file_or_a_root_that_is_too_large_is_refused_and_leaves_nothing(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(files: StoredFiles, contents: Contents) -> None:
        monkeypatch.setattr(file_contents, "FILE_BYTES", 10)
        monkeypatch.setattr(sqlite_files, "ROOT_BYTES", 15)
        with pytest.raises(InvalidInput, match="file big: it has more than 10 bytes"):
            await files.put("r1", "big", parts(b"123456", b"123456"))
        assert list(contents.ages()) == []
        await files.put("r1", "one", parts(b"1234567890"))
        await files.put("r1", "again", parts(b"1234567890"))
        with pytest.raises(InvalidInput, match="the files of run r1 would have more than 15 bytes"):
            await files.put("r1", "two", parts(b"another 10"))
        await files.put("r2", "two", parts(b"another 10"))

    play(scenario)


def test_a_content_that_has_changed_or_is_gone_is_an_error(play: Play) -> None:
    async def scenario(files: StoredFiles, contents: Contents) -> None:
        digest = (await files.put("r1", "a", parts(b"mine")))["$file"]
        draft = contents.begin()
        draft.write(b"yours")
        draft.close()
        contents.finish(draft, digest.removeprefix("sha256:"))
        with pytest.raises(InvalidInput, match="has changed; restore it"):
            await content(files, "r1", digest)
        contents.remove(digest.removeprefix("sha256:"))
        with pytest.raises(InvalidInput, match="its content is not in"):
            await content(files, "r1", digest)

    play(scenario)


def test_a_content_goes_an_hour_after_the_last_root_that_had_it(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(files: StoredFiles, contents: Contents) -> None:
        value = await files.put("r1", "a", parts(b"shared"))
        await files.put("r2", "b", parts(b"shared"))
        await files.forget(["r1"])
        assert await files.rows("r1") == []
        monkeypatch.setattr(stored_files, "UNUSED_S", -60.0)
        await files.forget(["r1"])
        assert await content(files, "r2", value["$file"]) == b"shared"
        monkeypatch.setattr(stored_files, "UNUSED_S", 3600.0)
        await files.forget(["r2"])
        assert len(list(contents.ages())) == 1
        monkeypatch.setattr(stored_files, "UNUSED_S", -60.0)
        await files.forget([])
        assert list(contents.ages()) == []

    play(scenario)


def test_only_their_user_may_read_the_contents_in_a_folder(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = StoredFiles(MemoryStore(), FolderContents(tmp_path / "contents"), time.time)
        await files.put("r1", "a", parts(b"x"))
        assert all(it.stat().st_mode & 0o077 == 0 for it in [tmp_path / "contents", *(tmp_path / "contents").iterdir()])

    asyncio.run(scenario())


def test_a_file_whose_sender_is_cancelled_at_its_beginning_leaves_nothing_open(tmp_path: Path) -> None:
    began, go_on = threading.Event(), threading.Event()
    drafts: list[Any] = []

    class Slow(FolderContents):
        def begin(self) -> Any:
            began.set()
            assert go_on.wait(10)
            drafts.append(super().begin())
            return drafts[0]

    async def scenario() -> None:
        files = StoredFiles(MemoryStore(), Slow(tmp_path / "contents"), time.time)
        async with asyncio.TaskGroup() as group:
            putting = group.create_task(files.put("r1", "a.txt", parts(b"one")))
            await asyncio.to_thread(began.wait, 10)
            putting.cancel()
            await asyncio.sleep(0)
            go_on.set()
        assert putting.cancelled()

    asyncio.run(scenario())
    (draft,) = drafts
    assert draft.closed
    assert not Path(draft.name).exists()
