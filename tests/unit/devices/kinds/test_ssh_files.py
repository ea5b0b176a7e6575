"""Files to and from a host, by SFTP. Starts are counted on the host."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncssh
import msgspec
import pytest

from asterism.devices.kinds.ssh import transfer
from asterism.devices.kinds.ssh.device import SshDevice
from asterism.devices.kinds.ssh.script import folder_of
from asterism.devices.port import Attempt, AttemptResult
from tests.support.attempt_files import TestFiles
from tests.support.device_signs import Heard
from tests.support.fleets import open_fleet
from tests.support.ssh_server import SftpServer, SshServer

START = "echo start >>~/starts; "
COMMANDS = {
    "copy": f"""argv = ["sh", "-c", '{START}cat "$1" >"$2"', "sh", "{{source}}", "{{output}}"]""",
    "show": f"""argv = ["sh", "-c", '{START}printf %s "$1"; echo; cat "$1"', "sh", "{{source}}"]""",
    "make": f"""argv = ["sh", "-c", '{START}eval "$1"', "sh", "{{script}}", "{{output}}"]""",
}
KEYS = {"copy": 'files = ["source"]', "show": 'files = ["source"]', "make": ""}
LARGE = os.urandom(1 << 20) * 9
"""More than a chunk."""

Scenario = Callable[[SshServer, SshDevice, TestFiles], Awaitable[None]]


def table() -> str:
    returned = 'output = "file"\nfile = "copy.bin"\n'
    return "".join(
        f'[[devices.commands]]\nname = "{name}"\n{argv}\n{KEYS[name]}\n{returned if "output" in argv else ""}'
        for name, argv in COMMANDS.items()
    )


def play(tmp_path: Path, scenario: Scenario, sftp: type[SftpServer] | None = SftpServer) -> None:
    async def whole() -> None:
        files = TestFiles(tmp_path)
        server = SshServer(tmp_path / "host")
        server.sftp = sftp
        async with asyncio.timeout(60), contextlib.AsyncExitStack() as stack:
            await server.start()
            stack.push_async_callback(server.stop)
            fleet = server.home.parent / "fleet.toml"
            fleet.write_text(server.table() + table())
            device = (await stack.enter_async_context(open_fleet(fleet)))["d"]
            assert isinstance(device, SshDevice)
            with files.current():
                await scenario(server, device, files)

    asyncio.run(whole())


def attempt(skill: str, key: str = "r:1.0", *, again: bool = False, **arguments: Any) -> Attempt:
    return Attempt(key=key, run_id="r", task_id="t", device_id="d", skill=skill, arguments=arguments, again=again)


def message(end: AttemptResult, code: str) -> str:
    assert end.error is not None, end
    assert end.error.code == code
    return end.error.message


def folder(server: SshServer, key: str = "r:1.0") -> Path:
    return server.home / ".asterism" / folder_of(key)


@pytest.mark.parametrize("content", [b"", b"hello\n", LARGE])
def test_a_program_takes_a_file_and_returns_another(tmp_path: Path, content: bytes) -> None:
    async def scenario(server: SshServer, device: SshDevice, files: TestFiles) -> None:
        assert device.profile.file_bytes is None
        value = await files.put("a.txt", content)
        end = await device.perform(attempt("copy", source=value), Heard())
        assert end.error is None, end
        assert {**end.result, "name": "a.txt", "media_type": "text/plain"} == value
        assert end.result["name"] == "copy.bin"
        assert await files.content(end.result) == content
        assert folder(server).stat().st_mode & 0o777 == 0o700
        assert (folder(server) / "in").stat().st_mode & 0o777 == 0o700

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    "name", ["$(touch ~/pwned); '\"`\n\\.txt", "../../../evil", "/etc/evil", "..", "-rf", ".profile", 7, None, "é" * 300]
)
def test_the_name_of_a_file_stays_in_the_folder_of_the_attempt_and_is_never_a_command(tmp_path: Path, name: Any) -> None:
    async def scenario(server: SshServer, device: SshDevice, files: TestFiles) -> None:
        value = {**await files.put("a.txt", b"hello"), "name": name, "path": "/etc/passwd"}
        end = await device.perform(attempt("show", source=value), Heard())
        assert end.error is None, end
        path, _, content = end.result["output"].rpartition("\n")
        assert content == "hello"
        assert Path(path).parent.parent == folder(server) / "in"
        assert not (server.home / "pwned").exists()

    play(tmp_path, scenario)


@pytest.mark.parametrize("cut_after", [0, 1 << 18, 5 << 20])
@pytest.mark.parametrize("cuts", ["push", "pull"])
def test_a_connection_that_is_cut_in_the_middle_of_a_file_costs_nothing(tmp_path: Path, cuts: str, cut_after: int) -> None:
    async def scenario(server: SshServer, device: SshDevice, files: TestFiles) -> None:
        value = await files.put("a.txt", LARGE)
        server.transfer_cut = cut_after + (len(LARGE) if cuts == "pull" else 0)
        end = await device.perform(attempt("copy", source=value), Heard())
        assert end.error is None, end
        assert end.result["$file"] == value["$file"]
        assert server.cuts == 1
        assert server.starts == ["start"]

    play(tmp_path, scenario)


class Silent(SftpServer):
    """The files of a host that stops answering once a file is read or written."""

    silent = asyncio.Event()

    async def read(self, file_obj: io.FileIO, offset: int, size: int) -> bytes:  # type: ignore[override]
        return await self._stop(file_obj)

    async def write(self, file_obj: io.FileIO, offset: int, data: bytes) -> int:  # type: ignore[override]
        return len(await self._stop(file_obj))

    async def close(self, file_obj: io.FileIO) -> None:  # type: ignore[override]
        await self._stop(file_obj)

    async def _stop(self, file_obj: io.FileIO) -> bytes:
        file_obj.close()
        self.silent.set()
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]


@pytest.mark.parametrize("cuts", [False, True])
@pytest.mark.parametrize("skill", ["copy", "make"])
def test_a_cancelled_transfer_waits_for_no_answer_and_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skill: str, *, cuts: bool
) -> None:
    monkeypatch.setattr(Silent, "silent", asyncio.Event())

    async def scenario(server: SshServer, device: SshDevice, files: TestFiles) -> None:
        given = {"source": await files.put("a.txt", b"hello")} if skill == "copy" else {"script": 'echo hello >"$2"'}
        performing = asyncio.create_task(device.perform(attempt(skill, **given), Heard()))
        await Silent.silent.wait()
        if cuts:
            server.cut()
        performing.cancel()
        await asyncio.wait([performing], timeout=10)
        assert performing.cancelled()
        assert server.starts == ["start"] * (skill == "make")

    play(tmp_path, scenario, Silent)


def test_a_host_that_drops_every_connection_is_lost_and_has_started_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "MOST_DROPS", 2)

    class Cutting(SftpServer):
        def write(self, file_obj: object, offset: int, data: bytes) -> int:
            self._server.cut()
            return len(data)

    async def scenario(server: SshServer, device: SshDevice, files: TestFiles) -> None:
        value = await files.put("a.txt", b"hello")
        assert "was lost" in message(await device.perform(attempt("copy", source=value), Heard()), "device_lost")
        assert (server.cuts, server.starts) == (3, [])

    play(tmp_path, scenario, Cutting)


def test_a_result_that_cannot_be_received_now_is_received_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "MOST_DROPS", 2)

    class Cutting(SftpServer):
        def read(self, file_obj: object, offset: int, size: int) -> bytes:
            if self._server.cuts < 3:
                self._server.cut()
            return super().read(file_obj, offset, size)

    async def scenario(server: SshServer, device: SshDevice, files: TestFiles) -> None:
        given, heard = attempt("copy", source=await files.put("a.txt", b"hello")), Heard()
        assert "was lost" in message(await device.perform(given, heard), "device_lost")
        assert [row.name for row in await files.store.rows("r")] == ["a.txt"]
        end = await device.perform(msgspec.structs.replace(given, again=True, handle=heard.handles[0]), Heard())
        assert await files.content(end.result) == b"hello"
        assert server.starts == ["start"]

    play(tmp_path, scenario, Cutting)


def test_an_attempt_that_was_left_is_found_with_its_file_and_the_program_keeps_its_own_copy(tmp_path: Path) -> None:
    async def scenario(server: SshServer, device: SshDevice, files: TestFiles) -> None:
        value = await files.put("a.txt", b"hello")
        for again in (False, True):
            end = await device.perform(attempt("copy", again=again, source=value), Heard())
            assert end.error is None
            assert await files.content(end.result) == b"hello"
            next(folder(server).glob("in/*/*")).write_bytes(b"changed by the program")
        assert server.starts == ["start"]
        assert not list(folder(server).glob("part-*"))

    play(tmp_path, scenario)


def test_a_file_that_the_run_does_not_have_is_refused_before_the_program_starts(tmp_path: Path) -> None:
    async def scenario(server: SshServer, device: SshDevice, files: TestFiles) -> None:
        heard = Heard()
        foreign = await files.put("a.txt", b"hello", root="other")
        assert "run r has no such file" in message(await device.perform(attempt("copy", source=foreign), heard), "bad_arguments")
        own = await files.put("b.txt", b"good")
        next((tmp_path / "contents").glob(own["$file"].removeprefix("sha256:"))).write_bytes(b"evil")
        assert "has changed" in message(await device.perform(attempt("copy", "r:2.0", source=own), heard), "bad_arguments")
        assert heard.signs == []
        assert server.starts == []

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (":", "has not written the file copy.bin"),
        ('ln -s /etc/passwd "$2"', "is a link or no file"),
        ('mkdir "$2"', "is a link or no file"),
        ('mkfifo "$2"', "is a link or no file"),
        ('cd "${2%/*}/.." && echo x >copy.bin && rmdir result && ln -s . result', "is a link or no file"),
        ('truncate -s 2G "$2"', "it has more than 1,073,741,824 bytes"),
    ],
)
def test_what_is_no_plain_file_of_the_attempt_is_no_result(tmp_path: Path, script: str, expected: str) -> None:
    async def scenario(server: SshServer, device: SshDevice, files: TestFiles) -> None:
        end = await device.perform(attempt("make", script=f'set -- x "$2"; {script}'), Heard())
        assert expected in message(end, "bad_result")
        assert await files.store.rows("r") == []

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    ("claimed", "expected"), [(3, "more than its 3 bytes"), (9, "less than its 9 bytes"), (1 << 40, "more than 1,073,741,824")]
)
def test_a_host_that_lies_about_the_size_is_an_error(tmp_path: Path, claimed: int, expected: str) -> None:
    class Lying(SftpServer):
        def lstat(self, path: bytes) -> asyncssh.SFTPAttrs:
            found = asyncssh.SFTPAttrs.from_local(os.lstat(path))
            found.size = claimed if found.type == 1 else found.size
            return found

    async def scenario(server: SshServer, device: SshDevice, files: TestFiles) -> None:
        end = await device.perform(attempt("copy", source=await files.put("a.txt", b"hello")), Heard())
        assert expected in message(end, "bad_result")

    play(tmp_path, scenario, Lying)


def test_a_result_that_may_not_be_read_is_an_error(tmp_path: Path) -> None:
    class Private(SftpServer):
        def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> object:
            if path.endswith(b"copy.bin"):
                raise asyncssh.SFTPPermissionDenied("not yours")
            return super().open(path, pflags, attrs)

    async def scenario(server: SshServer, device: SshDevice, files: TestFiles) -> None:
        end = await device.perform(attempt("copy", source=await files.put("a.txt", b"hello")), Heard())
        assert "file copy.bin: the user of the host may not read it" in message(end, "bad_result")

    play(tmp_path, scenario, Private)


def test_a_host_that_sends_for_ever_is_cut_off(tmp_path: Path) -> None:
    class Endless(SftpServer):
        def read(self, file_obj: object, offset: int, size: int) -> bytes:
            return b"x" * (size + 100)

    async def scenario(server: SshServer, device: SshDevice, files: TestFiles) -> None:
        end = await device.perform(attempt("copy", source=await files.put("a.txt", b"hello")), Heard())
        assert "more than its 5 bytes" in message(end, "bad_result")

    play(tmp_path, scenario, Endless)


def test_a_host_without_sftp_is_one_line_and_has_started_nothing(tmp_path: Path) -> None:
    async def scenario(server: SshServer, device: SshDevice, files: TestFiles) -> None:
        end = await device.perform(attempt("copy", source=await files.put("a.txt", b"hello")), Heard())
        assert "files cannot be sent: 127.0.0.1:" in (text := message(end, "no_device"))
        assert "has no SFTP" in text
        assert server.starts == []

    play(tmp_path, scenario, None)


@pytest.mark.parametrize("error", [asyncssh.SFTPFailure("disk full"), asyncssh.SFTPPermissionDenied("not yours")])
def test_a_file_that_the_host_does_not_take_is_named_and_nothing_has_started(tmp_path: Path, error: Exception) -> None:
    class Full(SftpServer):
        def write(self, file_obj: object, offset: int, data: bytes) -> int:
            raise error

    async def scenario(server: SshServer, device: SshDevice, files: TestFiles) -> None:
        end = await device.perform(attempt("copy", source=await files.put("a.txt", LARGE)), Heard())
        assert "file a.txt cannot be sent" in message(end, "no_device")
        assert server.starts == []

    play(tmp_path, scenario, Full)


def test_files_of_attempts_that_never_started_go_when_they_are_old_and_a_file_called_pid_is_no_attempt(tmp_path: Path) -> None:
    async def scenario(server: SshServer, device: SshDevice, files: TestFiles) -> None:
        unstarted = server.home / ".asterism" / folder_of("old")
        (unstarted / "in" / "0").mkdir(parents=True)
        (unstarted / "in" / "0" / "a.txt").touch()
        recent = server.home / ".asterism" / folder_of("recent") / "in"
        recent.mkdir(parents=True)
        end = await device.perform(attempt("copy", source=await files.put("pid", b"hello")), Heard())
        assert end.error is None
        for path in (unstarted / "in" / "0" / "a.txt", unstarted / "in" / "0", unstarted / "in", unstarted, *folder(server).glob("in/*/*")):
            os.utime(path, (0, 0))

        class Notices:
            def lost(self, why: str) -> None: ...
            def found(self, profile: object = None) -> None: ...

        async with asyncio.TaskGroup() as group:
            watching = group.create_task(device.watch(Notices()))
            while unstarted.exists():  # noqa: ASYNC110 - the host removes it
                await asyncio.sleep(0.05)
            watching.cancel()
        assert recent.exists()
        assert list(folder(server).glob("in/*/*"))

    play(tmp_path, scenario)
