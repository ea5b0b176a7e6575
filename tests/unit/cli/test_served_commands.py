"""The commands on runs: on a server over real HTTP they print what they print on its database."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from asterism.cli import main
from asterism.cli.run_access import check_sendable
from asterism.cli.run_commands import unfinished_run
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.engine.ports.logs import LogChunk
from asterism.engine.ports.store import RunRow
from asterism.errors import RunNewer
from asterism.views.words import plain
from tests.support.api_server import ASKS, Server, failing, plan
from tests.unit.service.test_resources import play

Command = Callable[..., Awaitable[tuple[int, str]]]


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[[Server], Command]:
    """Return what carries out a command on a server, and with ``here`` on its database; the result is its code and its output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASTERISM_DATABASE", str(tmp_path / "runs.db"))
    tokens: dict[str, str] = {}

    def on(server: Server) -> Command:
        async def carried_out(*words: str, here: bool = False) -> tuple[int, str]:
            tokens["admin"] = tokens.get("admin") or await server.token("admin")
            monkeypatch.setenv("ASTERISM_TOKEN", tokens["admin"])
            monkeypatch.setenv("ASTERISM_SERVER", "" if here else server.url)
            capfd.readouterr()
            code = await asyncio.to_thread(main, list(words))
            shown = capfd.readouterr()
            return code, re.sub(r"\d+(\.\d+)? (ms|s) ago", "a moment ago", shown.out + shown.err)

        return carried_out

    return on


async def submitted(server: Server, document: dict[str, Any]) -> str:
    """Submit a plan, and return the id of its run."""
    http = await server.client()
    run_id: str = (await http.post("/api/runs", json={"plan": document})).json()["run_id"]
    return run_id


def test_d3_what_is_read_from_a_server_is_what_is_read_from_its_database(tmp_path: Path, commands: Callable[[Server], Command]) -> None:
    async def scenario(server: Server) -> None:
        command = commands(server)
        failed = await submitted(server, plan("a", "b"))
        assert await server.ended(failed) == "failed"
        waits = await submitted(server, ASKS)
        await server.waiting(waits)
        data = b"working\n"
        await server.store.add_logs([LogChunk(run_id=failed, key=f"{failed}:a", task="a", stream="stdout", at=1.0, data=data)])
        for words, part in (
            (("inbox",), "deploy"),
            (("inbox", "--json"), '"risk"'),
            (("log", failed), "it broke"),
            (("log", failed[:9], "--after", "2", "--json"), '"seq"'),
            (("why", failed, "a"), "it broke"),
            (("why", failed, "b", "--json"), '"standing"'),
            (("why", failed, "c"), "never had a"),
            (("logs", failed), "working"),
            (("logs", failed, "a", "--json"), '"working'),
            (("logs", failed, "b"), "has printed nothing"),
            (("log", "unknown"), "there is no run"),
            (("runs",), failed),
            (("show", failed), "it broke"),
        ):
            of_server, of_database = await command(*words), await command(*words, here=True)
            assert of_server == of_database, words
            assert part in of_server[1], words

    play(tmp_path, scenario, work=failing)


def test_d3_a_run_of_a_server_is_paused_unpaused_forked_retried_and_cancelled(
    tmp_path: Path, commands: Callable[[Server], Command]
) -> None:
    async def scenario(server: Server) -> None:
        command = commands(server)
        run_id = await submitted(server, ASKS)
        await server.waiting(run_id)
        code, said = await command("pause", run_id, "--reason", "lunch")
        assert (code, said.split(";")[-1]) == (0, f" resume with: asterism unpause {run_id}\n")
        assert "is already paused" in (await command("pause", run_id))[1]
        assert await command("unpause", run_id) == (0, f"run {run_id} continues\n")
        code, said = await command("lift", run_id, "deploy", "--reason", "tested")
        assert (code, said.startswith("asterism: run")) == (2, True), said
        code, said = await command("fork", run_id, "--at", "2", "--no-drive")
        forked = said.split()[1]
        assert (code, said.strip()) == (0, f"run {forked}  forked from {run_id} at entry 2")
        await server.waiting(forked)
        assert (await command("answer", forked, "approve"))[1].endswith("approve, delivered to the server\n")
        assert await server.ended(forked) == "failed"
        code, said = await command("retry", forked, "--no-drive")
        assert (code, said.strip().split("  ")[1]) == (0, f"retries {forked}")
        assert await command("cancel", run_id) == (0, f"run {run_id} is being cancelled by the server\n")
        assert await server.ended(run_id) == "cancelled"
        for words in (("pause", run_id), ("unpause", run_id), ("cancel", run_id)):
            code, said = await command(*words)
            assert (code, f"run {run_id} has already ended (cancelled)" in said) == (1, True), said
        for refused in (("fork", run_id, "--at", "1", "--fleet", "x.toml"), ("retry", run_id, "--here"), ("unpause", run_id, "--json")):
            code, said = await command(*refused)
            assert (code, "does not work with a server" in plain(said)) == (2, True), said

    play(tmp_path, scenario, work=failing)


class NewerServer:
    """The runs of a server whose version is newer than that of the commands."""

    def __init__(self) -> None:
        self.store: Any = self

    async def run(self, run_id: str) -> RunRow:
        """Return a run that only the server understands."""
        return RunRow(run_id=run_id, machine=CONSTELLATION_AGENT.name, title="", state="EXECUTING", version=10_000)


def test_a_run_of_a_server_that_is_newer_than_the_command_is_commanded_all_the_same() -> None:
    newer: Any = NewerServer()
    assert asyncio.run(unfinished_run(newer, "a")).run_id == "a"
    with pytest.raises(RunNewer):
        check_sendable(asyncio.run(newer.run("a")))
