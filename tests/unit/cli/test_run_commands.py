"""What a command that begins or goes on with a run opens, and how often it plans."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import asterism
from asterism.cli import main
from asterism.devices.workers import pool
from asterism.engine.runtime import driver
from asterism.stores.sqlite import SqliteStore
from asterism.words.planner.planner import plan_offline

SKILL = '''
from asterism import skill

@skill(idempotent=True)
def count_words(text: str) -> dict[str, int]:
    """Count the words of a text."""
    return {"words": len(text.split())}
'''
FLEET = '[[devices]]\nid = "desk"\nskills = ["skills.py:count_words"]\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASTERISM_DATABASE", str(tmp_path / "runs.db"))
    (tmp_path / "skills.py").write_text(SKILL, encoding="utf-8")
    (tmp_path / "fleet.toml").write_text(FLEET, encoding="utf-8")
    return tmp_path


def counted(function: Callable[..., Any], calls: list[Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **more: Any) -> Any:
        calls.append(arguments)
        return function(*arguments, **more)

    return call


def test_a_request_is_planned_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr("asterism.words.planner.planner.plan_offline", counted(plan_offline, calls))
    assert main(["run", "count the words of 'a b'", "--fleet", "fleet.toml"]) == 0
    assert len(calls) == 1
    run = asyncio.run(newest(folder / "runs.db"))
    assert main(["follow", run, "count the words of 'c'"]) == 0
    assert len(calls) == 2


async def newest(database: Path) -> str:
    async with asterism.connect(database) as client:
        return (await client.runs(limit=1))[0].run_id


@pytest.mark.parametrize(
    "command",
    ["pause {run}", "answer {run} approve --no-drive", "fork {run} --at 1 --no-drive", "export {run}", "inbox", "runs", "show {run}"],
)
def test_a_command_that_only_writes_or_reads_opens_no_devices_and_no_driver(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = '{"tasks": [{"task_id": "a", "name": "count_words", "device": "desk", "inputs": {"text": "a"}, "requires_approval": true}]}'
    (folder / "plan.json").write_text(plan, encoding="utf-8")
    assert main(["run", "plan.json", "--fleet", "fleet.toml"]) == 3
    run = asyncio.run(newest(folder / "runs.db"))
    opened = opens(monkeypatch)
    assert main(command.format(run=run).split()) == 0
    assert opened == []


def opens(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that grows with each driver and each pool of device workers."""
    opened: list[Any] = []
    for home, name in ((driver, "Driver"), (pool, "WorkerPool")):
        monkeypatch.setattr(home, name, counted(getattr(home, name), opened))
    return opened


def test_a_command_that_drives_a_run_opens_one_driver_and_its_devices(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = opens(monkeypatch)
    assert main(["run", "count the words of 'a b'", "--fleet", "fleet.toml"]) == 0
    assert len(opened) == 2


PLAN_THAT_ASKS = {
    "tasks": [{"task_id": "a", "name": "count_words", "device": "desk", "inputs": {"text": "a"}, "requires_approval": True}],
    "on_failure": [{"task_id": "alert", "name": "count_words", "device": "desk", "inputs": {"text": "${run.error}"}}],
}


def asks(folder: Path, *options: str) -> str:
    (folder / "plan.json").write_text(json.dumps(PLAN_THAT_ASKS), encoding="utf-8")
    assert main(["run", "plan.json", "--fleet", "fleet.toml", *options]) == 3
    return asyncio.run(newest(folder / "runs.db"))


async def status(database: Path, run: str) -> str:
    async with asterism.connect(database) as client:
        row = await client.describe(run)
        return row.outcome or row.status


def test_resume_without_an_id_never_unpauses(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = asks(folder)
    assert main(["pause", run]) == 0
    assert main(["answer", run, "approve", "--no-drive"]) == 0
    capsys.readouterr()
    assert main(["resume"]) == 0  # the pause is still in the inbox
    assert capsys.readouterr().out == f"run {run} is paused; resume with: asterism resume {run}\n"
    assert main(["answer", run, "approve"]) == 1
    assert main(["resume", "--json"]) == 0
    assert asyncio.run(status(folder / "runs.db", run)) == "waiting"
    assert main(["resume", run]) == 0
    assert asyncio.run(status(folder / "runs.db", run)) == "finished"


def test_resume_without_an_id_takes_a_run_whose_question_has_expired(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, other = asks(folder, "--inquiry-timeout-s", "3600"), asks(folder)
    monkeypatch.setattr("asterism.engine.runtime.clock.SystemClock.now", lambda _self: time.time() + 3601)
    assert main(["resume"]) == 1
    shown = capsys.readouterr().out
    assert "nobody answered in time" in shown
    assert "alert" in shown, "its handlers have run"
    assert [asyncio.run(status(folder / "runs.db", it)) for it in (run, other)] == ["failed", "waiting"]


def test_the_retry_of_a_child_run_says_that_its_parent_does_not_get_the_result(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "skills.py").write_text(f"{SKILL}    raise ValueError(text)\n".replace("    return", "    # return"), encoding="utf-8")
    inner = {"tasks": [{"task_id": "count", "device": "desk", "skill": "count_words", "inputs": {"text": "a b"}}]}
    (folder / "plan.json").write_text(json.dumps({"tasks": [{"task_id": "outer", "constellation": inner}]}), encoding="utf-8")
    assert main(["run", "plan.json", "--fleet", "fleet.toml"]) == 1
    (folder / "skills.py").write_text(SKILL, encoding="utf-8")

    async def ids() -> tuple[str, str]:
        async with asterism.connect(folder / "runs.db") as client:
            (child,) = [row for row in await client.runs() if row.parent]
            return child.run_id, child.parent

    child, parent = asyncio.run(ids())
    capsys.readouterr()
    assert main(["retry", child]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.endswith(f"  retries {child}")
    assert second == f"run {parent}, which started {child}, does not get the new result"


def test_a_request_is_refused_where_servers_of_several_fleets_could_run_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def serving() -> int:
        one, other = (SqliteStore.open(folder / "runs.db", create=True) for _ in range(2))
        try:
            await one.announce_server("a", fleet_file="/srv/a.toml")
            await other.announce_server("b", fleet_file="/srv/b.toml")
            return await asyncio.to_thread(main, ["run", "count the words of 'a b'"])
        finally:
            await one.close()
            await other.close()

    assert asyncio.run(serving()) == 2
    problem = "servers of this database have 2 fleets; choose one with --fleet: /srv/a.toml, /srv/b.toml"
    assert capsys.readouterr().err == f"asterism: {problem}\n"
