"""The command serve: how it stops at a signal, and the page that ``--open`` names."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any, cast

import pytest

from asterism.app.serve import Server
from asterism.cli.serve_command import _until_stopped, page_of
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.engine.ports.store import RunRow


class Waiting:
    """A server that waits for work with a time limit, again and again."""

    def __init__(self) -> None:
        self.task: asyncio.Task[Any] | None = None
        self.hurried = 0

    async def serve(self) -> None:
        self.task = asyncio.current_task()
        while True:
            try:
                async with asyncio.timeout(0.001):
                    await asyncio.Event().wait()
            except TimeoutError:
                continue

    def hurry(self) -> None:
        self.hurried += 1


def test_a_signal_at_the_moment_when_a_time_limit_expires_stops_the_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> Waiting:
        handlers: dict[signal.Signals, Callable[[signal.Signals], None]] = {}
        monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", lambda number, stop, _: handlers.update({number: stop}))
        server = Waiting()
        stopping = asyncio.ensure_future(_until_stopped(cast(Server, server)))
        while server.task is None or not server.task.cancelling():  # noqa: ASYNC110 - nothing else shows that moment
            await asyncio.sleep(0)  # the limit has expired, and the task has not run since
        handlers[signal.SIGTERM](signal.SIGTERM)
        await stopping
        assert server.hurried == 0
        handlers[signal.SIGINT](signal.SIGINT)
        return server

    assert asyncio.run(main()).hurried == 1
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[2].partition(":")[0] for line in said] == [" SIGTERM", " SIGINT again"]


@pytest.mark.parametrize(("machine", "page"), [(CONSTELLATION_AGENT.name, "/runs/r1"), (FLOW_AGENT.name, "/conversations/r1")])
def test_a_conversation_has_a_page_of_its_own(machine: str, page: str) -> None:
    assert page_of(RunRow(run_id="r1", machine=machine, title="t", state="START")) == page
