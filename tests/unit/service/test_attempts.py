"""What devices did, over real HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asterism.devices.model.attempt import TaskError
from asterism.devices.port import Attempt
from asterism.service.api import attempt_history
from tests.support.api_server import ASKS, DEVICE, Server, plan
from tests.unit.service.test_resources import play

OTHER = msgspec.structs.replace(DEVICE, device_id="e")


async def read(http: Any, **query: object) -> dict[str, Any]:
    answer = await http.get("/api/attempts", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_the_attempts_of_a_device_are_listed_with_their_runs_the_last_first(tmp_path: Path) -> None:
    async def work(attempt: Attempt) -> object:
        return TaskError(code="raised", message="it broke") if attempt.task_id == "b" else attempt.task_id

    async def scenario(server: Server) -> None:
        http = await server.client("operator")
        tasks = plan("a", {"task_id": "b", "device": "e"})
        run_id = (await http.post("/api/runs", json={"plan": tasks, "title": "Two devices"})).json()["run_id"]
        await server.ended(run_id)
        found = await read(http)
        assert found["whole"] is True
        shown = [(it["device"], it["task"], it["name"], it["status"], it["error"], it["run_id"], it["title"]) for it in found["attempts"]]
        assert shown == [
            ("e", "b", "b", "failed", "raised", run_id, "Two devices"),
            ("d", "a", "a", "succeeded", "", run_id, "Two devices"),
        ]
        second = found["attempts"][0]
        assert second["began_at"] <= second["ended_at"] == second["seen_at"]
        assert [it["task"] for it in (await read(http, device="d"))["attempts"]] == ["a"]
        assert [it["task"] for it in (await read(http, limit=1))["attempts"]] == ["b"]
        assert (await read(http, limit=1))["whole"] is False

    play(tmp_path, scenario, work=work, fleet=(DEVICE, OTHER))


def test_a_period_has_what_was_under_way_in_it(tmp_path: Path) -> None:
    goes_on = asyncio.Event()

    async def work(attempt: Attempt) -> str:
        await goes_on.wait()
        return attempt.task_id

    async def scenario(server: Server) -> None:
        http = await server.client("operator")
        run_id = (await http.post("/api/runs", json={"plan": plan("a")})).json()["run_id"]
        while not (found := await read(http))["attempts"]:  # noqa: ASYNC110 - the driver begins it
            await asyncio.sleep(0.01)
        (running,) = found["attempts"]
        assert (running["status"], running["ended_at"]) == ("running", None)
        began = running["began_at"]
        assert [it["task"] for it in (await read(http, begin=began + 1e6, end=began + 2e6))["attempts"]] == ["a"]  # it may still run then
        goes_on.set()
        await server.ended(run_id)
        (ended,) = (await read(http))["attempts"]
        assert ended["status"] == "succeeded"
        assert (await read(http, begin=ended["ended_at"] + 1))["attempts"] == []
        assert (await read(http, begin=0, end=began))["attempts"] == []
        assert len((await read(http, begin=0, end=began + 1))["attempts"]) == 1

    play(tmp_path, scenario, work=work)


def test_an_attempt_that_waited_for_a_place_began_when_the_device_began_it(tmp_path: Path) -> None:
    goes_on = asyncio.Event()

    async def work(attempt: Attempt) -> str:
        await goes_on.wait()
        return attempt.task_id

    async def scenario(server: Server) -> None:
        http = await server.client("operator")
        run_id = (await http.post("/api/runs", json={"plan": plan("a", "b") | {"dependencies": []}})).json()["run_id"]
        while len((found := await read(http))["attempts"]) < 2:  # noqa: ASYNC110 - the driver begins them
            await asyncio.sleep(0.01)
        (queued,) = (it for it in found["attempts"] if it["status"] == "queued")
        goes_on.set()
        await server.ended(run_id)
        (begun,) = (it for it in (await read(http))["attempts"] if it["task"] == queued["task"])
        assert queued["began_at"] < begun["began_at"] <= begun["ended_at"]

    play(tmp_path, scenario, work=work, fleet=(msgspec.structs.replace(DEVICE, concurrency=1),))


def test_a_fork_has_only_the_attempts_of_its_own(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http = await server.client("operator")
        run_id = (await http.post("/api/runs", json={"plan": plan("a", "b")})).json()["run_id"]
        await server.ended(run_id)
        seq = next(
            it["seq"]
            for it in (await http.get(f"/api/runs/{run_id}/entries?limit=1000")).json()["entries"]
            if it["kind"] == "attempt_ended"
        )
        fork = (await http.post(f"/api/runs/{run_id}/commands", json={"command": "fork", "at": seq})).json()["run_id"]
        await server.ended(fork)
        shown = [(it["run_id"], it["task"]) for it in (await read(http))["attempts"]]
        assert shown == [(fork, "b"), (run_id, "b"), (run_id, "a")]

    play(tmp_path, scenario)


def test_attempts_are_those_of_the_tenant(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        north, south = await server.client("operator", "north"), await server.client("viewer", "south")
        run_id = (await north.post("/api/runs", json={"plan": plan("a")})).json()["run_id"]
        await server.ended(run_id)
        assert len((await read(north))["attempts"]) == 1
        assert (await read(south))["attempts"] == []
        assert (await south.get("/api/attempts?begin=nan")).status_code == 422

    play(tmp_path, scenario)


def test_more_runs_than_are_read_are_said_to_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_history, "MAX_RUNS", 2)

    async def scenario(server: Server) -> None:
        http = await server.client("operator")
        ids = [(await http.post("/api/runs", json={"plan": plan("a")})).json()["run_id"] for _ in range(3)]
        for run_id in ids:
            await server.ended(run_id)
        found = await read(http)
        assert ({it["run_id"] for it in found["attempts"]}, found["whole"]) == ({*ids[1:]}, False)

    play(tmp_path, scenario)


def test_a_long_journal_is_read_in_several_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_history, "MAX_ENTRIES", 1)
    monkeypatch.setattr(attempt_history, "PAGE", 3)

    async def scenario(server: Server) -> None:
        http = await server.client("operator")
        run_id = (await http.post("/api/runs", json={"plan": plan("a", "b", "c")})).json()["run_id"]
        await server.ended(run_id)
        looks = [(await read(http)) for _ in range(20)]
        assert looks[0]["whole"] is False
        assert ([it["task"] for it in looks[-1]["attempts"]], looks[-1]["whole"]) == (["c", "b", "a"], True)

    play(tmp_path, scenario)


def test_a_run_that_waits_for_approval_has_no_attempt(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http = await server.client("operator")
        run_id = (await http.post("/api/runs", json={"plan": ASKS})).json()["run_id"]
        await server.waiting(run_id)
        assert (await read(http))["attempts"] == []

    play(tmp_path, scenario)
