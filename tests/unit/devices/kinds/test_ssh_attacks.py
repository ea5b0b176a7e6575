"""SSH hosts that attack: before the login, at the login, and in the answer to a script. Over real connections."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncssh
import pytest

from asterism.devices.kinds.ssh import connection, shell
from asterism.devices.port import Attempt, AttemptResult
from tests.support.device_signs import Heard
from tests.support.fleets import open_fleet

TABLE = """
[[devices]]
id = "d"
kind = "ssh"
host = "127.0.0.1:{port}"
known_hosts = "known_hosts"
keys = ["id"]

[[devices.commands]]
name = "work"
argv = ["work"]
output = "json"
"""
Feed = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def attempted(folder: Path, port: int) -> tuple[AttemptResult, list[str]]:
    """Return the end of an attempt at the host on a port, and its signs."""
    (folder / "fleet.toml").write_text(TABLE.format(port=port))
    async with asyncio.timeout(60), open_fleet(folder / "fleet.toml") as devices:
        device = devices["d"]
        heard = Heard()
        end = await device.perform(Attempt(key="r:1.0", run_id="r", task_id="t", device_id="d", skill="work"), heard)
        return end, heard.signs


def new_keys(folder: Path) -> tuple[asyncssh.SSHKey, str]:
    """Write the key of a client; return the key of a host, and the file of clients that it admits."""
    client = asyncssh.generate_private_key("ssh-ed25519")
    client.write_private_key(folder / "id")
    (folder / "admitted").write_bytes(client.export_public_key())
    return asyncssh.generate_private_key("ssh-ed25519"), str(folder / "admitted")


def trust(folder: Path, port: int, key: asyncssh.SSHKey) -> None:
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {key.export_public_key().decode()}")


async def endless(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for _ in range(1600):
        writer.write(b"x" * 65536)
        await writer.drain()


async def many_lines(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for _ in range(1600):
        writer.write(b"a banner\r\n" * 6000)
        await writer.drain()


async def dripping(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for _ in range(10_000):
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def junk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"SSH-2.0-x\r\n" + b"\xff" * 100_000)
    await writer.drain()


async def http(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await writer.drain()


@pytest.mark.parametrize("feed", [endless, many_lines, dripping, junk, http])
def test_what_is_no_ssh_server_is_a_lost_host_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, feed: Feed) -> None:
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT_S", 3.0)
    new_keys(tmp_path)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError):
                await feed(reader, writer)
        finally:  # also if the test has ended
            writer.transport.abort()

    async def scenario() -> tuple[AttemptResult, list[str]]:
        async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
            return await attempted(tmp_path, server.sockets[0].getsockname()[1])

    end, signs = asyncio.run(scenario())
    assert end.error is not None
    assert (end.error.code, "cannot be reached: " in end.error.message, "\n" in end.error.message) == ("device_lost", True, False)
    assert signs == []


def test_a_host_that_asks_for_a_password_for_ever_gets_none(tmp_path: Path) -> None:
    host_key, _ = new_keys(tmp_path)
    asked: list[str] = []

    class Asking(asyncssh.SSHServer):
        def public_key_auth_supported(self) -> bool:
            return False

        def password_auth_supported(self) -> bool:
            return True

        def kbdint_auth_supported(self) -> bool:
            return True

        def get_kbdint_challenge(self, username: str, lang: str, submethods: str) -> tuple[str, str, str, list[tuple[str, bool]]]:
            asked.append(username)
            return "Passcode", "Enter the passcode.", "", [("Passcode:", False)]

        def validate_kbdint_response(self, username: str, responses: object) -> tuple[str, str, str, list[tuple[str, bool]]]:
            raise AssertionError(f"a response was sent: {responses!r}")

        def validate_password(self, username: str, password: str) -> bool:
            raise AssertionError("a password was sent")

    async def scenario() -> tuple[AttemptResult, list[str]]:
        server = await asyncssh.listen("127.0.0.1", 0, server_host_keys=[host_key], server_factory=Asking)
        trust(tmp_path, server.get_port(), host_key)
        try:
            return await attempted(tmp_path, server.get_port())
        finally:
            server.close()

    end, signs = asyncio.run(scenario())
    assert end.error is not None
    assert (end.error.code, " refuses the login: " in end.error.message) == ("no_device", True)
    assert signs == []
    assert len(asked) <= 1


BEGUN = "printf '\\nasterism: begin\\n"


@pytest.mark.parametrize(
    ("answer", "code", "why"),
    [
        (f"{BEGUN}asterism: started\\nasterism: state 0\\n{{oops'", "bad_result", "is not JSON"),
        (f"{BEGUN}asterism: started\\nasterism: state 0\\n'; head -c 100000000 /dev/zero", "bad_result", "larger than 1048576 bytes"),
        (f"{BEGUN}asterism: state 0\\n\\377\\376'", "bad_result", ""),
        (f"{BEGUN}asterism: state \\033[2Jdone\\n'", "no_device", "answered without the state"),
        (f"{BEGUN}asterism: started\\nasterism: state done\\n'", "device_lost", "answered without the state"),
        (f"{BEGUN}asterism: state 99999999999999999999\\n1'", "no_device", "answered without the state"),
        (f"{BEGUN}asterism: state '; head -c 60000 /dev/zero | tr '\\0' 9; echo", "no_device", "answered without the state"),
        (f"{BEGUN}asterism: state \\302\\262\\n1'", "no_device", "answered without the state"),
        ("echo hello", "no_device", "answered without the state"),
        ("exit 7", "device_lost", "has ended its /bin/sh: exit status 7"),
    ],
)
def test_an_answer_that_a_script_of_ours_never_gives_ends_the_attempt(tmp_path: Path, answer: str, code: str, why: str) -> None:
    end = asyncio.run(answered(tmp_path, answer))
    assert end.error is not None
    assert (end.error.code, why in end.error.message, "\x1b" in end.error.message) == (code, True, False)


@pytest.mark.parametrize(
    ("login", "why"),
    [
        ("yes", "prints more than 1,048,576 bytes before it starts /bin/sh"),
        ("yes >&2", "prints more than 1,048,576 bytes before it starts /bin/sh"),
        ("cat", "has not started /bin/sh within 0.5 s"),
        ("echo hello; exit 0", "answered without the state"),
        ("echo hello; exit 7", "does not run /bin/sh: exit status 7"),
    ],
)
def test_a_login_that_never_reaches_a_shell_ends_the_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, login: str, why: str) -> None:
    monkeypatch.setattr(shell, "LOGIN_S", 0.5 if login == "cat" else 30.0)
    end = asyncio.run(answered(tmp_path, login, is_login=True))
    assert end.error is not None
    assert (end.error.code, why in end.error.message) == ("no_device", True)


async def answered(folder: Path, answer: str, *, is_login: bool = False) -> AttemptResult:
    """Return the end of an attempt at a host that runs this program in place of our script, or of the login."""
    host_key, admitted = new_keys(folder)
    serving: list[asyncio.Task[None] | None] = []

    async def serve(process: asyncssh.SSHServerProcess[bytes]) -> None:
        serving.append(asyncio.current_task())
        if not is_login:
            token = re.search(rb"token=(\w+)", await process.stdin.readuntil(b"done\n}\n"))
            assert token
            for stream in (process.stdout, process.stderr):
                stream.write(b"\x1e" + token[1] + b"\n")
            await process.stdin.readuntil(b"}\n")
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec("/bin/sh", "-c", answer, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
        try:
            with contextlib.suppress(asyncssh.Error, OSError):
                async with asyncio.TaskGroup() as group:
                    group.create_task(copied(child.stdout, process.stdout))
                    group.create_task(copied(child.stderr, process.stderr))
                process.exit(await child.wait())
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child._transport.close()  # type: ignore[attr-defined]
            await child.wait()

    async def copied(source: asyncio.StreamReader | None, sink: asyncssh.SSHWriter[bytes]) -> None:
        assert source
        while chunk := await source.read(65536):
            sink.write(chunk)
            await sink.drain()

    server = await asyncssh.listen(
        "127.0.0.1", 0, server_host_keys=[host_key], authorized_client_keys=admitted, process_factory=serve, encoding=None
    )
    trust(folder, server.get_port(), host_key)
    try:
        return (await attempted(folder, server.get_port()))[0]
    finally:
        server.close()
        await asyncio.wait(filter(None, serving), timeout=1)  # what waits for input for ever is cancelled with the loop
