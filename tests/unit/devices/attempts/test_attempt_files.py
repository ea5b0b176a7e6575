"""Files of attempts on local devices."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from asterism.constellation.machine.events import AttemptEnded
from asterism.constellation.python.performers import FilePerformer
from asterism.devices.attempts import attempt_files
from asterism.devices.attempts.attempt_files import AttemptFiles, work_folder
from asterism.devices.kinds.here import HereDevice
from asterism.devices.model.attempt import TaskError
from asterism.devices.port import Attempt, AttemptResult, Device
from asterism.devices.workers.pool import WorkerPool
from asterism.engine.kernel.profile import AgentProfile
from asterism.errors import InvalidInput
from asterism.stores.file_contents import FolderContents
from asterism.stores.memory import MemoryStore
from asterism.stores.stored_files import StoredFiles
from tests.support.device_signs import Heard
from tests.support.fleets import open_fleet

SKILLS = """
from pathlib import Path
import asterism
from asterism import File, SkillContext, skill

@skill
def upper(source: File, context: SkillContext) -> File:
    assert (source.name, source.media_type) == ("a.txt", "text/plain")
    target = context.folder / "b.txt"
    target.write_text(source.path.read_text().upper())
    return File(target, name="../out/b.txt")

@skill
def length(source: Path) -> int:
    assert source.is_absolute()
    source.write_text("changed")
    return 3 + source.name.count(".")

@skill
def split(sources: list[File]) -> dict[str, list[File]]:
    Path("x.bin").write_bytes(b"x")
    return {"parts": [*sources, File("x.bin")]}

@skill
def lost() -> File:
    return File("nowhere.txt")
"""
FLEET = """
[[devices]]
id = "laptop"
folder = "data"
skills = ["files.py:upper", "files.py:length", "files.py:split", "files.py:lost"]
[[devices.commands]]
name = "copy"
argv = ["cp", "{source}", "{output}"]
files = ["source"]
output = "file"
file = "copy.txt"
[[devices.commands]]
name = "forget"
argv = ["true", "{output}"]
output = "file"
file = "copy.txt"
"""
Perform = Callable[[str, dict[str, Any]], Awaitable[AttemptResult]]


async def parts(*data: bytes) -> AsyncIterator[bytes]:
    for part in data:
        yield part


def play(tmp_path: Path, scenario: Callable[[StoredFiles, Perform], Awaitable[None]]) -> None:
    async def root() -> str:
        return "r"

    async def whole() -> None:
        (tmp_path / "data").mkdir()
        (tmp_path / "files.py").write_text(SKILLS)
        (tmp_path / "fleet.toml").write_text(FLEET)
        files = StoredFiles(MemoryStore(), FolderContents(tmp_path / "contents"), time.time)
        async with WorkerPool(tmp_path / "ledger") as pool, open_fleet(tmp_path / "fleet.toml", pool=pool) as devices:
            device = devices["laptop"]

            async def perform(skill: str, arguments: dict[str, Any]) -> AttemptResult:
                attempt_files.CURRENT.set(AttemptFiles(files, root, tmp_path / "work" / skill))
                attempt = Attempt(key="k", run_id="r", task_id="t", device_id="laptop", skill=skill, arguments=arguments)
                chosen: Device = HereDevice(lambda: pool) if ":" in skill else device
                return await chosen.perform(attempt, Heard())

            await scenario(files, perform)

    asyncio.run(whole())


async def content(files: StoredFiles, value: dict[str, Any]) -> bytes:
    return b"".join([part async for part in files.read("r", value["$file"])])


def test_a_skill_takes_a_file_and_returns_another(tmp_path: Path) -> None:
    async def scenario(files: StoredFiles, perform: Perform) -> None:
        value = await files.put("r", "a.txt", parts(b"hello"))
        end = await perform("upper", {"source": value})
        assert end.error is None
        assert (end.result["name"], end.result["media_type"], end.result["size"]) == ("b.txt", "text/plain", 5)
        assert await content(files, end.result) == b"HELLO"
        end = await perform("length", {"source": value})
        assert (end.result, end.error) == (4, None)
        assert await content(files, value) == b"hello"  # the skill has changed its own copy
        end = await perform("split", {"sources": [value, {**value, "name": "c.txt"}]})
        assert [it["name"] for it in end.result["parts"]] == ["a.txt", "c.txt", "x.bin"]
        end = await perform("lost", {})
        assert end.error is not None
        assert end.error.message == "the result names the file nowhere.txt, and there is none"

    play(tmp_path, scenario)


def test_a_command_takes_a_file_and_writes_another(tmp_path: Path) -> None:
    async def scenario(files: StoredFiles, perform: Perform) -> None:
        value = await files.put("r", "$(touch x); a", parts(b"hello"))
        end = await perform("copy", {"source": value})
        assert end.error is None
        assert (end.result["name"], await content(files, end.result)) == ("copy.txt", b"hello")
        end = await perform("forget", {})
        assert end.error is not None
        assert end.error.message == "true ended without an error, and has not written the file copy.txt to {output}"

    play(tmp_path, scenario)


def test_a_name_in_an_argument_never_leaves_the_folder_of_the_attempt(tmp_path: Path) -> None:
    async def scenario(files: StoredFiles, perform: Perform) -> None:
        value = await files.put("r", "a.txt", parts(b"hello"))
        for name in ("../../../../evil.txt", "/tmp/evil.txt", "..", 7, None):  # noqa: S108 - it must not be written
            end = await perform("copy", {"source": {**value, "name": name, "path": "/etc/passwd"}})
            assert end.error is None
            assert await content(files, end.result) == b"hello"

    play(tmp_path, scenario)
    written = [it for it in tmp_path.rglob("*") if it.is_file() and "evil" in it.name]
    assert written
    assert all(it.is_relative_to(tmp_path / "work" / "copy" / "in") for it in written)


def test_a_file_that_the_run_does_not_have_is_refused_before_the_skill_starts(tmp_path: Path) -> None:
    async def scenario(files: StoredFiles, perform: Perform) -> None:
        value = await files.put("other", "a.txt", parts(b"hello"))
        end = await perform("copy", {"source": value})
        assert end.error is not None
        assert end.error.code == "bad_arguments"
        assert "run r has no such file" in end.error.message
        end = await perform("copy", {"source": {"$file": "sha256:../../etc/passwd", "path": "/etc/passwd"}})
        assert end.error is not None
        assert end.error.code == "bad_arguments"

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        (('file = "copy.txt"\n[[', 'file = "../copy.txt"\n[['), r"commands\[0\].file: '../copy.txt' is no plain file name"),
        (('"{source}", "{output}"', '"{source}"'), r"commands\[0\].output: a program that writes a file has"),
        (('files = ["source"]', 'files = ["sauce"]'), r"commands\[0\].files: argv has no placeholder 'sauce'"),
    ],
)
def test_a_table_with_invalid_files_is_refused(tmp_path: Path, changed: tuple[str, str], problem: str) -> None:
    async def scenario() -> None:
        with pytest.raises(InvalidInput, match=problem):
            async with open_fleet(tmp_path / "fleet.toml"):
                pass

    (tmp_path / "data").mkdir()
    (tmp_path / "files.py").write_text(SKILLS)
    (tmp_path / "fleet.toml").write_text(FLEET.replace(*changed, 1))
    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("most", "problem"),
    [(0, "device d takes no files, and an argument names the file a.txt"), (4, "device d takes files of 4 bytes at most, and a.txt has 5")],
)
def test_what_a_device_cannot_be_handed_is_refused_before_it_hears_of_the_attempt(tmp_path: Path, most: int, problem: str) -> None:
    class Forbidden(Device):
        async def perform(self, *_: Any) -> Any:
            raise AssertionError("the attempt has begun")

    async def scenario() -> None:
        device, store = Forbidden(AgentProfile(device_id="d", file_bytes=most)), MemoryStore()
        files = StoredFiles(store, FolderContents(tmp_path / "contents"), time.time)
        value = {**await files.put("r", "a.txt", parts(b"hello")), "name": "../a.txt"}
        performer = FilePerformer(device, files, store, {"d": device}, tmp_path / "work")
        for arguments in ({"source": value}, {"sources": [{"deep": value}]}):
            attempt = Attempt(key="k", run_id="r", task_id="t", device_id="d", skill="s", arguments=arguments)
            end = await performer.perform("r:1.0", attempt, lambda _: None)
            assert isinstance(end, AttemptEnded)
            assert end.error == TaskError(code="bad_arguments", message=problem)

    asyncio.run(scenario())


def test_the_folders_of_processes_that_have_ended_are_removed(tmp_path: Path) -> None:
    mine = work_folder(tmp_path / "runs.db")
    (mine / "attempt").mkdir(parents=True)
    (mine.parent / "1-0123456789abcdef" / "attempt").mkdir(parents=True)
    assert work_folder(tmp_path / "runs.db") == mine
    assert list(mine.parent.iterdir()) == [mine]
