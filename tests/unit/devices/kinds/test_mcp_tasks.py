"""Calls of MCP servers that become tasks: over stdio, where another process of the server goes on, and over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from asterism.devices.dispatch import remote
from asterism.devices.kinds.mcp import device as mcp_device
from asterism.devices.kinds.mcp import server as mcp_server
from asterism.devices.kinds.mcp import tasks as mcp_tasks
from asterism.devices.kinds.mcp.device import McpDevice
from asterism.devices.port import AttemptResult, DeviceReply
from tests.support.device_signs import Heard
from tests.support.mcp_devices import TASKS, HeardNotices, attempt, calls, open_mcp, served
from tests.support.mcp_task_server import tasks

pytest.importorskip("mcp")

Opened = Callable[[], contextlib.AbstractAsyncContextManager[McpDevice]]
ADA = DeviceReply(verb="respond", value={"name": "Ada"})


@pytest.fixture(params=["stdio", "http"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    """Open devices of a server whose calls become tasks, as one process after the other does."""
    if request.param == "stdio":
        yield lambda: open_mcp(tmp_path, command=(sys.executable, str(TASKS), str(tmp_path)))
        return
    with served(tmp_path, script=TASKS) as (url, _):
        yield lambda: open_mcp(tmp_path, url=url)


@pytest.fixture
def over_http(tmp_path: Path) -> Iterator[Opened]:
    """Open devices where the transport does not matter."""
    with served(tmp_path, script=TASKS) as (url, _):
        yield lambda: open_mcp(tmp_path, url=url)


def refused(end: AttemptResult) -> tuple[str, str]:
    assert end.error is not None, end
    return end.error.code, end.error.message


@contextlib.asynccontextmanager
async def under_way(device: McpDevice, skill: str, heard: Heard) -> AsyncIterator[asyncio.Task[AttemptResult]]:
    """Perform an attempt until its handle was reported."""
    performing = asyncio.create_task(device.perform(attempt(skill), heard))
    while not heard.handles:  # noqa: ASYNC110 - the server is another process
        await asyncio.sleep(0.01)
    yield performing
    performing.cancel()
    await asyncio.wait([performing])


def test_a_call_that_becomes_a_task_is_followed_to_its_result(opened: Opened, tmp_path: Path) -> None:
    async def scene() -> None:
        async with opened() as device:
            heard = Heard()
            assert await device.perform(attempt("slow"), heard) == AttemptResult(result={"slow": True})
            (task,) = tasks(tmp_path)
            assert heard.handles == [task["id"]]
            assert heard.signs[0] == "begun"
            assert heard.reports == [(None, "under way [31m")]
            assert calls(tmp_path) == ["slow r:1.0"]

    asyncio.run(scene())


def test_the_next_process_follows_the_same_task(opened: Opened, tmp_path: Path) -> None:
    async def scene() -> None:
        heard = Heard()
        async with opened() as device, under_way(device, "held", heard):
            pass
        assert not tasks(tmp_path)[0]["is_cancelled"], "detaching is not stopping"
        (tmp_path / "release").touch()
        async with opened() as device:
            again = attempt("held", again=True, handle=heard.handles[0])
            assert await device.perform(again, Heard()) == AttemptResult(result={"text": "done"})
        assert calls(tmp_path) == ["held r:1.0"]

    asyncio.run(scene())


def test_a_stop_cancels_the_task_and_may_be_repeated(opened: Opened, tmp_path: Path) -> None:
    async def scene() -> None:
        heard = Heard()
        async with opened() as device, under_way(device, "wait", heard):
            pass
        async with opened() as device:
            for _ in range(2):
                assert await device.stop(attempt("wait", again=True, handle=heard.handles[0])) == ""
            assert await device.stop(attempt("wait", again=True, handle="no-such-task")) == ""
            end = await device.perform(attempt("wait", again=True, handle=heard.handles[0]), Heard())
            assert refused(end) == ("cancelled", "its task was cancelled at the server: as was asked")

    asyncio.run(scene())


@pytest.mark.parametrize("restarts", [False, True])
def test_a_question_of_a_task_ends_a_leg_and_its_reply_is_sent(opened: Opened, tmp_path: Path, *, restarts: bool) -> None:
    async def scene() -> None:
        async with contextlib.AsyncExitStack() as stack:
            device = await stack.enter_async_context(opened())
            asked = (await device.perform(attempt("ask"), Heard())).question
            assert asked is not None
            assert asked.prompt == "Who, 0?"
            if restarts:
                await stack.aclose()
                device = await stack.enter_async_context(opened())
            for again in (False, True):  # a crash after the reply was sent sends it again
                leg = attempt("ask", leg=2, state=asked.state, reply=ADA, again=again)
                end = await device.perform(leg, Heard())
                assert end.result["text"] == "{'name-0': {'action': 'accept', 'content': {'name': 'Ada'}}}"
        assert calls(tmp_path) == ["ask r:1.0"]

    asyncio.run(scene())


def test_a_task_that_asks_for_ever_is_cancelled(over_http: Opened, tmp_path: Path) -> None:
    async def scene() -> None:
        async with over_http() as device:
            end, leg, prompts = await device.perform(attempt("ask_for_ever"), Heard()), 1, []
            while end.question is not None:
                leg += 1
                prompts.append(end.question.prompt)
                end = await device.perform(attempt("ask_for_ever", leg=leg, state=end.question.state, reply=ADA), Heard())
            assert refused(end) == ("raised", "the server has asked 20 questions")
            assert prompts == [f"Who, {number}?" for number in range(19)], "a request that was answered is not asked again"
            assert tasks(tmp_path)[0]["is_cancelled"]

    asyncio.run(scene())


def test_a_task_that_does_not_complete_is_an_error(over_http: Opened) -> None:
    async def scene() -> None:
        async with over_http() as device:
            for number, (skill, code, why) in enumerate(
                [
                    ("fail", "raised", "no such luck"),
                    ("forget", "interrupted", "the server does not know its task"),
                    ("foreign", "bad_result", "the server has answered with another task"),
                ]
            ):
                found = refused(await device.perform(attempt(skill, f"r:{number}.0"), Heard()))
                assert (found[0], why in found[1]) == (code, True)

    asyncio.run(scene())


def test_a_client_of_an_older_protocol_gets_no_task(over_http: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_server, "MODE", "legacy")

    async def scene() -> None:
        async with over_http() as device:
            heard = Heard()
            await device.perform(attempt("answer"), heard)
            assert heard.handles == []

    asyncio.run(scene())


def test_a_task_outlives_its_server_and_its_device_is_not_lost_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_device, "BEAT_S", 0.2)

    async def scene() -> None:
        notices, heard = HeardNotices(), Heard()
        with served(tmp_path, script=TASKS) as (url, process):
            port = int(url.partition("127.0.0.1:")[2].partition("/")[0])
            async with open_mcp(tmp_path, url=url) as device, under_way(device, "held", heard) as performing:
                watching = asyncio.create_task(remote.watch(device, notices))
                while not notices.profiles:  # noqa: ASYNC110 - the server is another process
                    await asyncio.sleep(0.01)
                process.kill()
                process.join()
                await asyncio.sleep(2)
                with served(tmp_path, port, TASKS):
                    (tmp_path / "release").touch()
                    assert (await performing).result == {"text": "done"}
                    watching.cancel()
                    await asyncio.wait([watching])
        assert notices.losses == []
        assert calls(tmp_path) == ["held r:1.0"]

    asyncio.run(scene())


def test_a_task_whose_server_stays_away_is_lost_and_named_by_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_tasks, "GRACE_S", 0.5)

    async def scene() -> None:
        heard = Heard()
        with served(tmp_path, script=TASKS) as (url, process):
            async with open_mcp(tmp_path, url=url) as device, under_way(device, "held", heard) as performing:
                process.kill()
                process.join()
                assert refused(await performing)[0] == "device_lost"
                left = await device.stop(attempt("held", again=True, handle=heard.handles[0]))
                assert left.startswith(f"task {heard.handles[0]} of {url} (")

    asyncio.run(scene())


def test_the_time_between_two_looks_is_bounded() -> None:
    found: list[Any] = [mcp_tasks.poll_interval_s(asked) for asked in (None, 0, -5, 2500, 1e12, float("nan"))]
    assert found[:5] == [1.0, 0.1, 0.1, 2.5, 60.0]
    assert 0.1 <= found[5] <= 60.0
