"""The shell of a host that runs one script after the other, with a process of the library that only the test moves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from asterism.devices.kinds.ssh import shell as ssh_shell
from asterism.devices.kinds.ssh.shell import Shell


class Process:
    """A process on a host, as the library has it; ``written`` is what arrived there."""

    def __init__(self) -> None:
        self.stdin = self
        self.stdout, self.stderr = asyncio.StreamReader(), asyncio.StreamReader()
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def is_closing(self) -> bool:
        return False

    def print(self, data: bytes) -> None:
        self.stdout.feed_data(data)
        self.stderr.feed_data(data)


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_script_that_has_begun_is_nudged_again_because_its_shell_may_have_dropped_the_first_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssh_shell, "QUICK_S", 0.0)

    async def scenario() -> None:
        process: Any = Process()
        shell = Shell("host", process, (OSError,))
        async with asyncio.timeout(5), asyncio.TaskGroup() as group:
            running = group.create_task(shell.run("script", lambda _: True, lambda _: True))
            await settled()
            end = b"\x1e" + shell._token.encode() + b"\n"
            process.print(end)
            await settled()
            del process.written[: process.written.index(b"script")]
            assert process.written == [b"script", b"\n"]
            for word in (b"begun\n", b"goes on\n"):
                process.print(word)
                await settled()
            assert process.written == [b"script", b"\n", b"\n"]
            process.print(end)
        assert running.result()

    asyncio.run(scenario())
