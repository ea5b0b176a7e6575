"""Files to and from A2A agents, and the addresses that an agent's links may have."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asterism.devices.kinds.a2a import content as a2a_files
from asterism.devices.port import AttemptResult
from asterism.engine.kernel.backoff import Backoff
from tests.support.a2a_process import AgentProcess
from tests.support.attempt_files import TestFiles
from tests.support.device_signs import Heard
from tests.unit.devices.kinds.test_a2a import attempt, opened
from tests.unit.devices.kinds.test_a2a_attacks import Write, response, serving


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    process = AgentProcess(tmp_path_factory.mktemp("agent"))
    yield process
    process.kill()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(a2a_files, "RETRIES", Backoff(0.01, 60.0))
    monkeypatch.setattr(a2a_files, "TRIES", 3)


async def performed(folder: Path, agent: AgentProcess, words: str, more: str = "", **fields: Any) -> tuple[AttemptResult, Heard]:
    heard = Heard()
    async with opened(folder, agent.url, more) as device:
        return await device.perform(attempt(words, **fields), heard), heard


def message(end: AttemptResult, code: str = "bad_result") -> str:
    assert end.error is not None, end
    assert end.error.code == code
    return end.error.message


def test_a_profile_says_how_large_a_file_may_be(tmp_path: Path, agent: AgentProcess) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, agent.url) as device:
            assert device.profile.file_bytes == 1 << 20

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("name", "sizes", "expected"),
    [
        ("a.txt", [(1 << 20) + 1], "file a.txt: device d takes files of 1,048,576 bytes at most"),
        ("a.txt", [1 << 20] * 5, "and 4,194,304 in all"),
        ("a.png", [3], "file a.png: device d takes no image/png; its card names text/plain"),
    ],
)
def test_a_file_that_the_agent_cannot_be_handed_is_refused_before_its_task(
    tmp_path: Path, agent: AgentProcess, name: str, sizes: list[int], expected: str
) -> None:
    async def scenario() -> None:
        files = TestFiles(tmp_path)
        values = [{**await files.put(name, bytes([n]) * size), "size": 1} for n, size in enumerate(sizes)]
        with files.current():
            end, heard = await performed(tmp_path, agent, "copy", key="refused", arguments={"sources": values})
        assert expected in message(end, "bad_arguments")
        assert heard.signs == []
        assert agent.starts("refused") == 0

    asyncio.run(scenario())


def test_the_largest_file_travels_both_ways_and_its_name_is_no_path(tmp_path: Path, agent: AgentProcess) -> None:
    async def scenario() -> None:
        files = TestFiles(tmp_path)
        value = await files.put("a.txt", b"x" * (1 << 20))
        with files.current():
            end, _ = await performed(tmp_path, agent, "copy", arguments={"source": value})
        assert end.error is None, end
        assert end.result == {**value, "name": "copy.txt"}

    asyncio.run(scenario())


def test_files_and_texts_of_an_artifact_are_a_list(tmp_path: Path, agent: AgentProcess) -> None:
    async def scenario() -> None:
        files = TestFiles(tmp_path)
        with files.current():
            end, _ = await performed(tmp_path, agent, f"link {agent.url}/seen", 'headers = {x-key = "mine"}\n')
            assert end.error is None, end
            text, value = end.result
            assert (text, value["name"], value["media_type"]) == ("see", "seen", "text/plain")
            assert b'"x-key":"mine"' in await files.content(value)  # a named host receives the credentials
            several, _ = await performed(tmp_path, agent, "files_of 5 0 2000000")
            assert [it["size"] for it in several.result] == [5, 0, 2_000_000]
            end, _ = await performed(tmp_path, agent, "files_of 9000000 9000000")
            assert message(end)

    asyncio.run(scenario())


def test_without_a_store_for_files_a_file_is_an_error(tmp_path: Path, agent: AgentProcess) -> None:
    async def scenario() -> None:
        end, _ = await performed(tmp_path, agent, "files_of 5")
        assert "no store for files" in message(end)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://localhost:{port}/secret", "localhost has the address"),
        ("http://169.254.169.254/latest/meta-data", "169.254.169.254, which is private"),
        ("{redirecting}", "localhost has the address"),
        ("file:///etc/passwd", "is no link"),
        ("nonsense", "is no link"),
        ("{agent}/missing", "404"),
    ],
)
def test_a_link_to_an_address_that_nobody_named_is_not_followed(tmp_path: Path, agent: AgentProcess, url: str, expected: str) -> None:
    asked: list[str] = []

    async def scenario() -> None:
        async def answer(path: str, headers: dict[str, str], body: bytes, write: Write) -> None:
            asked.append(path)
            await write(response(b"", status="302 Found", more=f"Location: http://localhost:{port}/secret\r\n"))

        files = TestFiles(tmp_path)
        async with serving(answer) as foreign:
            port = foreign.rpartition(":")[2]
            link = url.format(port=port, agent=agent.url, redirecting=f"http://127.0.0.1:{port}/go")
            with files.current():
                end, _ = await performed(tmp_path, agent, f"link {link}")
        assert expected in message(end)
        assert "/secret" not in asked
        assert await files.store.rows("r") == []

    asyncio.run(scenario())


def test_a_link_is_tried_again_and_its_content_is_bounded(tmp_path: Path, agent: AgentProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(a2a_files, "FILE_BYTES", 100_000)
    asked: list[str] = []

    async def answer(path: str, headers: dict[str, str], body: bytes, write: Write) -> None:
        asked.append(path)
        if path == "/endless":
            await write(b"HTTP/1.1 200 OK\r\n\r\n")
            for _ in range(1000):
                await write(b"x" * 10_000)
        elif path == "/short" or asked.count(path) < 3:
            await write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhel")
        else:
            await write(response(b"hello"))

    async def scenario() -> None:
        files = TestFiles(tmp_path)
        async with serving(answer) as foreign:
            with files.current():
                end, _ = await performed(tmp_path, agent, f"link {foreign}/late", "allow_private = true\n")
                assert await files.content(end.result[1]) == b"hello"
                end, _ = await performed(tmp_path, agent, f"link {foreign}/short", "allow_private = true\n")
                assert "file short" in message(end)
                end, _ = await performed(tmp_path, agent, f"link {foreign}/endless", "allow_private = true\n")
                assert "more than 100,000 bytes" in message(end)
        assert (asked.count("/short"), asked.count("/endless")) == (3, 1)

    asyncio.run(scenario())
