"""The commands for events, on a server over real HTTP."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from asterism.cli import main
from tests.support.api_server import Server
from tests.unit.service.test_resources import play


def test_an_event_is_sent_to_a_server_and_listed_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ASTERISM_DATABASE", str(tmp_path / "none.db"))

    async def scenario(server: Server) -> None:
        monkeypatch.setenv("ASTERISM_TOKEN", await server.token("operator,sender"))

        async def said(*words: str) -> str:
            assert await asyncio.to_thread(main, ["event", *words]) == 0, capsys.readouterr().err
            return capsys.readouterr().out

        assert await said("list", "--server", server.url) == "no events\n"
        monkeypatch.setenv("ASTERISM_SERVER", server.url)
        assert await said("send", "paid", "--id", "p1", "--data", '{"n": 7}') == "event p1: no task waits for it yet\n"
        (listed,) = json.loads(await said("list", "--json"))
        assert (listed["id"], listed["name"], listed["data"], listed["taken"]) == ("p1", "paid", {"n": 7}, 0)
        assert "paid  p1  no task waits for it yet" in await said("list", "--limit", "5000")
        assert await said("list", "--dead") == "no events\n"
        assert not (tmp_path / "none.db").exists()

    play(tmp_path, scenario, drives=False)
