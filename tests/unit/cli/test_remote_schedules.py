"""The commands for schedules, on a server over real HTTP."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from asterism.cli import main
from tests.support.api_server import Server, plan
from tests.unit.service.test_resources import play
from tests.unit.service.test_schedules import start_due


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASTERISM_DATABASE", str(tmp_path / "none.db"))
    (tmp_path / "nightly.json").write_text(json.dumps(plan("a", params={"n": {"type": "int"}})), encoding="utf-8")
    return tmp_path


async def command(server: Server, monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setenv("ASTERISM_SERVER", server.url)
    monkeypatch.setenv("ASTERISM_TOKEN", await server.token("operator"))
    return await asyncio.to_thread(main, ["schedule", *words])


def test_a_schedule_of_a_server_is_added_changed_run_and_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def scenario(server: Server) -> None:
        async def said(*words: str) -> str:
            assert await command(server, monkeypatch, *words) == 0, capsys.readouterr().err
            return capsys.readouterr().out

        assert "no schedules yet" in await said("list")
        added = await said("add", "0 2 * * *", "nightly.json", "--name", "nightly", "--set", "n=3", "--zone", "Europe/Berlin")
        assert added.startswith("schedule nightly: 0 2 * * * (Europe/Berlin); the first run starts ")
        (folder / "nightly.json").unlink()  # the server has the plan
        assert await said("pause", "nightly") == "schedule nightly is paused\n"
        assert "paused" in await said("list")
        assert await said("resume", "nightly") == "schedule nightly is active\n"
        assert [it["name"] for it in json.loads(await said("list", "--json"))] == ["nightly"]
        assert len(json.loads(await said("next", "nightly", "--count", "3", "--json"))) == 3
        assert "02:00 CE" in await said("next", "nightly")
        assert "has not been due yet" in await said("history", "nightly")
        run_id = (await said("run", "nightly")).split()[1]
        assert f"run {run_id}, due" in await said("history", "nightly", "--limit", "5000")
        await start_due(server)
        assert await server.ended(run_id) == "finished"
        first = json.loads((await server.store.records(run_id, limit=1))[0].body)["event"]
        assert first["params"] == {"n": 3}
        assert f"run {run_id}: finished" in await said("history", "nightly")
        assert f"run {run_id}" in await said("list")
        assert await said("remove", "nightly") == "schedule nightly is removed\n"
        assert "no schedules yet" in await said("list")
        assert not (folder / "none.db").exists()

    play(folder, scenario)


def test_mistakes_about_a_schedule_of_a_server_are_reported_in_a_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def scenario(server: Server) -> None:
        added = ("add", "0 2 * * *", "nightly.json", "--name", "nightly", "--set", "n=3")
        assert await command(server, monkeypatch, *added) == 0
        capsys.readouterr()
        for words, problem in (
            (("pause", "nigthly"), "did you mean nightly?"),
            (("run", "../x"), "there is no schedule"),
            ((*added, "--fleet", "fleet.toml"), "--fleet does not work with a server"),
            (("add", "99 * * * *", "nightly.json", "--set", "n=3"), "99 * * * *"),
            (("add", "0 2 * * *", "nightly.json"), "the plan needs n"),
            (("list", "--server", server.url, "--database", "runs.db"), "exclude each other"),
            (("list", "--server", "localhost"), "not the URL of a server"),
        ):
            assert await command(server, monkeypatch, *words) == 2
            told = capsys.readouterr().err
            assert (problem in told, len(told.splitlines())) == (True, 1), told

    play(folder, scenario, drives=False)
