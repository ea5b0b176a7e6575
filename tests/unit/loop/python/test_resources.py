"""A shared resource is closed at the end, even if its opening never finished."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from asterism.engine.runtime.resources import open_resources
from asterism.errors import InvalidInput
from asterism.loop.python import McpServer
from asterism.loop.python import server as server_module


class Door:
    """Wait forever instead of opening."""

    def __init__(self) -> None:
        self.tried = asyncio.Event()
        self.left = False

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        self.tried.set()
        try:
            await asyncio.Event().wait()
            yield
        finally:
            self.left = True


def test_a_resource_that_never_opens_does_not_block_the_close() -> None:
    async def scene() -> bool:
        door = Door()
        async with asyncio.timeout(30):
            async with open_resources() as keeper:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0):
                        await keeper.get("door", door.opened)
                await door.tried.wait()
        return door.left

    assert asyncio.run(scene())


def test_a_caller_gets_an_error_when_a_resource_closes_before_it_opens() -> None:
    async def scene() -> None:
        door = Door()
        async with asyncio.timeout(30), open_resources() as keeper:
            waiting = asyncio.ensure_future(keeper.get("door", door.opened))
            await door.tried.wait()
            keeper.forget("door")
            with pytest.raises(ConnectionError, match="closed before it was open"):
                await waiting

    asyncio.run(scene())


@pytest.mark.slow
def test_an_unresponsive_server_is_killed_soon_after_its_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "CONNECT_S", 3.0)
    program = (
        "import os, pathlib, signal, time; signal.signal(15, signal.SIG_IGN); pathlib.Path('pid').write_text(str(os.getpid())); "
        "time.sleep(1000)"
    )
    server = McpServer(command=(sys.executable, "-c", program), allow=("x",), folder=str(tmp_path))

    async def scene() -> None:
        async with asyncio.timeout(20), open_resources() as keeper:
            with pytest.raises(InvalidInput, match="cannot be used: TimeoutError"):
                await server.tools(keeper)

    asyncio.run(scene())
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text(encoding="utf-8")), 0)
