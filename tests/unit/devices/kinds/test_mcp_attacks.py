"""MCP servers that break the protocol, hang, do not end, or send too much."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from asterism.devices.attempts.processes import group_lives, reap_orphans
from asterism.devices.dispatch import remote
from asterism.devices.kinds.mcp import device as mcp_device
from asterism.devices.kinds.mcp.device import McpDevice
from asterism.devices.kinds.mcp.results import MAX_ERROR_CHARS, refusal_of
from asterism.devices.kinds.mcp.tools import MAX_DESCRIPTION_CHARS
from asterism.devices.kinds.mcp.transport import open_process
from asterism.devices.port import AttemptResult, DeviceReply
from asterism.engine.kernel.backoff import Backoff
from asterism.engine.kernel.data import one_line
from tests.support.device_signs import Heard
from tests.support.mcp_devices import RAW, HeardNotices, attempt, open_mcp

mcp_types = pytest.importorskip("mcp_types")
SessionMessage = pytest.importorskip("mcp.shared.message").SessionMessage


def raw(behavior: str, *more: str) -> tuple[str, ...]:
    return (sys.executable, str(RAW), behavior, *more)


async def acted(device: McpDevice, key: str = "r:1.0") -> tuple[str, str]:
    end = await device.perform(attempt("act", key), Heard())
    return (end.error.code, end.error.message) if end.error else ("", end.result["text"])


def test_a_server_that_exits_as_a_message_is_sent_has_ended_by_its_exit_code() -> None:
    async def scene() -> list[str]:
        reasons: list[str] = []
        streams = open_process(
            (sys.executable, "-c", "import os, time; os.close(0); time.sleep(0.1); os._exit(3)"),
            env={},
            folder="",
            error_output=sys.stderr,
            ledger=None,
            ended=reasons.append,
        )
        async with streams as (incoming, outgoing):

            async def beat() -> None:
                while True:
                    await outgoing.send(SessionMessage(mcp_types.JSONRPCNotification(jsonrpc="2.0", method="notifications/beat")))

            beating = asyncio.create_task(beat())
            async for _ in incoming:
                raise AssertionError("it sends no message")
            beating.cancel()
        return reasons

    assert set(asyncio.run(scene())) == {"it ended with exit code 3"}


@pytest.mark.parametrize(
    ("behavior", "code", "why"),
    [
        ("invalid", "raised", "it sent invalid JSON-RPC: b'{"),
        ("endless", "crashed", "it sent a message of more than 8,388,608 bytes"),
        ("closed", "crashed", "it closed its output"),
        ("shapeless", "bad_result", "ValidationError"),
        ("wrong", "bad_result", "invalid structured content returned by tool act: n: integer, not str"),
        ("noise", "", "done"),
        ("foreign", "", "done"),
    ],
)
def test_a_broken_answer_ends_the_attempt_and_not_the_device(tmp_path: Path, behavior: str, code: str, why: str) -> None:
    async def scene() -> None:
        async with open_mcp(tmp_path, command=raw(behavior)) as device:
            for number in range(2):
                ended = await acted(device, f"r:{number}.0")
                assert (ended[0], why in ended[1]) == (code, True), ended

    asyncio.run(scene())


@pytest.mark.parametrize("order", ["jsonrpc id result", "result jsonrpc id", "id result jsonrpc"])
def test_a_message_that_cannot_be_read_fails_only_the_call_that_it_answers(tmp_path: Path, order: str) -> None:
    """G3: every other call in flight ended as ``crashed``."""

    async def scene() -> None:
        async with open_mcp(tmp_path, command=raw("large", *order.split())) as device:
            ends = await asyncio.gather(*(acted(device, f"r:{number}.0") for number in range(3)))
            assert ends == [("", "done"), ("", "done"), ("raised", "it sent a message of more than 8,388,608 bytes")]

    asyncio.run(scene())


def test_a_server_that_requires_a_visit_first_is_called_again_after_it(tmp_path: Path) -> None:
    async def scene() -> None:
        async with open_mcp(tmp_path, command=raw("visit")) as device:
            asked = (await device.perform(attempt("act"), Heard())).question
            assert asked is not None
            assert asked.prompt == "Sign in. Open this link and approve when it is done: https://example.org/sign-in"
            reply = DeviceReply(verb="approve")
            end = await device.perform(attempt("act", leg=2, state=asked.state, reply=reply), Heard())
            assert end.result == {"text": "done"}

    asyncio.run(scene())


def test_a_silent_server_is_lost_and_its_call_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_device, "BEAT_S", 0.1)

    async def scene() -> None:
        async with open_mcp(tmp_path, command=raw("silent"), silent_s=0.5) as device, asyncio.TaskGroup() as group:
            heard = Heard()
            performing = group.create_task(device.perform(attempt("act"), heard))
            while not heard.signs:  # noqa: ASYNC110 - a server that is lost before gets no call
                await asyncio.sleep(0)
            watching = group.create_task(remote.watch(device, HeardNotices()))
            error = (await performing).error
            assert error is not None
            assert (error.code, "it has given no sign of life for 0.5 s" in error.message) == ("crashed", True)
            watching.cancel()

    asyncio.run(scene())


def test_tools_that_change_for_ever_are_listed_at_growing_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_device, "RELISTS", Backoff(500.0, 1000.0))  # the first change is taken at once, and the second one waits

    async def scene() -> None:
        notices = HeardNotices()
        async with open_mcp(tmp_path, command=raw("fickle")) as device, asyncio.TaskGroup() as group:
            watching = group.create_task(remote.watch(device, notices))
            while len(notices.profiles) < 2:  # noqa: ASYNC110 - the server is another process
                await asyncio.sleep(0.01)
            for number in range(20):
                assert await acted(device, f"r:{number}.0") == ("", "done")
            watching.cancel()
        assert [skill.description for profile in notices.profiles if profile for skill in profile.skills] == ["list 1", "list 2"]
        assert notices.losses == []

    asyncio.run(scene())


def test_a_server_that_does_not_list_its_changed_tools_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        notices = HeardNotices()
        async with open_mcp(tmp_path, command=raw("secretive")) as device, asyncio.TaskGroup() as group:
            monkeypatch.setattr(mcp_device, "CONNECT_S", 2.0)
            watching = group.create_task(remote.watch(device, notices))
            while not notices.profiles:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
            assert await acted(device) == ("", "done")
            while len(notices.profiles) < 2:  # noqa: ASYNC110 - another server has been started
                await asyncio.sleep(0.01)
            watching.cancel()

    asyncio.run(scene())


def test_a_server_that_ignores_everything_is_ended_with_us(tmp_path: Path) -> None:
    async def scene() -> int:
        async with open_mcp(tmp_path, command=raw("deaf")):
            (file,) = (tmp_path / "ledger.workers").iterdir()
            return int(file.read_text(encoding="ascii").split()[0])

    leader = asyncio.run(scene())
    with pytest.raises(ProcessLookupError):
        os.kill(leader, 0)


OWNER = """
import asyncio, sys
from pathlib import Path
from tests.support.mcp_devices import RAW, open_mcp

async def main():
    async with open_mcp(Path(sys.argv[1]), command=(sys.executable, str(RAW), "deaf")):
        print("open", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def test_the_next_owner_ends_the_server_of_a_killed_process(tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], cwd=RAW.parents[2], stdout=subprocess.PIPE)
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"open\n"
    finally:
        owner.kill()
        owner.communicate()
    (file,) = (tmp_path / "ledger.workers").iterdir()
    leader = int(file.read_text(encoding="ascii").split()[0])
    os.kill(leader, 0)  # it ignores the end of its input
    assert reap_orphans(tmp_path / "ledger.workers") == 1
    assert not group_lives(leader)


def test_a_pattern_that_takes_for_ever_blocks_nothing(tmp_path: Path) -> None:
    async def scene() -> AttemptResult:
        async with open_mcp(tmp_path, command=raw("pattern")) as device:
            return await device.perform(attempt("act", arguments={"n": "a" * 40 + "!"}), Heard())

    assert asyncio.run(scene()).result == {"n": "a" * 40 + "!"}


def test_a_result_with_a_slow_schema_blocks_nothing(tmp_path: Path) -> None:
    async def scene() -> AttemptResult:
        async with open_mcp(tmp_path, command=raw("doubling")) as device:
            return await device.perform(attempt("act"), Heard())

    assert asyncio.run(scene()).result == {"n": "a" * 40 + "!"}


def test_the_schema_of_a_server_is_refused_in_words_of_bounded_length() -> None:
    choices = {"enum": [f"{number:0400}" for number in range(20)]}
    assert len(refusal_of({"n": 1}, {"properties": {"n": choices}})) <= MAX_ERROR_CHARS
    assert refusal_of([{"n": "x"}], {"items": {"properties": {"n": {"type": "integer"}}}}) == "[0].n: integer, not str"
    assert refusal_of("today", {"type": "string", "format": "date"}) == ""
    assert (refusal_of(1.0, {"type": "integer"}), refusal_of(1.5, {"type": ["integer", "string"]})) == (
        "",
        "integer or string, not float",
    )
    assert refusal_of(1.0, {"type": "number"}) == ""


def test_text_of_a_server_is_one_bounded_line() -> None:
    assert one_line("a\nb\x1b[31m\tc", 100) == "a b [31m c"
    assert len(one_line("x" * 10_000_000, MAX_DESCRIPTION_CHARS)) == MAX_DESCRIPTION_CHARS


# -- over HTTP -------------------------------------------------------------------------------------

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def reason_over_http(tmp_path: Path, head: str, body: bytes = b"", times: int = 1, **fields: Any) -> str:
    """Return why a device over HTTP cannot be used, of a server that gives every request this answer."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {head}\r\nConnection: close\r\n\r\n".encode())
        try:
            for _ in range(times):
                writer.write(body)
                await writer.drain()
        except OSError:
            pass  # the client has read enough
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as http:
        url = f"http://127.0.0.1:{http.sockets[0].getsockname()[1]}/mcp"
        async with open_mcp(tmp_path, url=url, **fields) as device:
            assert device.profile.skills == ()
            end = await device.perform(attempt("act"), Heard())
            assert end == AttemptResult(error=end.error)
            return device.profile.description


def test_a_redirect_to_another_host_is_not_followed(tmp_path: Path) -> None:
    async def scene() -> None:
        asked: list[bytes] = []

        async def inner(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked.append(await reader.read(100))
            writer.close()

        async with await asyncio.start_server(inner, "127.0.0.1", 0) as private:
            location = f"http://127.0.0.1:{private.sockets[0].getsockname()[1]}/secret"
            why = await reason_over_http(tmp_path, f"307 Temporary Redirect\r\nLocation: {location}\r\nContent-Length: 0")
        assert "not followed" in why
        assert asked == []

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("head", "body", "times"),
    [
        ("200 OK\r\nContent-Type: application/json\r\nContent-Length: 104857600", b"x" * 65536, 1600),
        ("200 OK\r\nContent-Type: text/event-stream", b"x" * 65536, 1600),
        ("200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 5", b"hello", 1),
        ("200 OK\r\nContent-Type: application/json\r\nContent-Length: 5", b"hello", 1),
        ("500 Oops\r\nContent-Length: 0", b"", 1),
    ],
)
def test_an_answer_that_is_too_long_or_no_message_makes_the_device_unreachable(tmp_path: Path, head: str, body: bytes, times: int) -> None:
    why = asyncio.run(reason_over_http(tmp_path, head, body, times))
    assert why.startswith("(cannot be reached: the MCP server http://127.0.0.1:")
    assert len(why) < 500
