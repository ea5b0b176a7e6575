"""Events over HTTP: who may send them, and which runs they continue."""

from __future__ import annotations

from pathlib import Path

from tests.support.api_server import Server
from tests.unit.service.test_resources import play

WAITS = {"tasks": [{"task_id": "w", "wait": {"event": "paid", "match": "event.n == 7"}}]}


def test_an_event_continues_the_run_that_waits_for_it_and_is_the_same_one_under_its_id(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        ada, bank = await server.client("operator", name="ada"), await server.client("sender", name="bank")
        run_id = (await ada.post("/api/runs", json={"plan": WAITS})).json()["run_id"]
        sent = {"name": "paid", "id": "p1", "data": {"n": 7}}
        first = await bank.post("/api/events", json=sent)
        assert (first.status_code, first.json()["id"]) == (201, "p1")
        await server.ended(run_id)
        assert (await bank.post("/api/events", json=sent)).status_code == 201
        assert (await bank.post("/api/events", json={**sent, "data": {"n": 8}})).status_code == 422
        (listed,) = (await ada.get("/api/events")).json()["events"]
        assert (listed["id"], listed["data"], listed["actor"], listed["taken"]) == ("p1", {"n": 7}, "bank@sender", 1)
        assert (await ada.get("/api/events?dead=true")).json() == {"events": []}

    play(tmp_path, scenario)


def test_only_the_permission_event_sends_and_it_allows_nothing_else(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        ada, bank = await server.client("operator", name="ada"), await server.client("sender", name="bank")
        refused = await ada.post("/api/events", json={"name": "paid"})
        assert (refused.status_code, "permission event" in refused.text) == (403, True)
        assert (await bank.get("/api/events")).status_code == 403
        assert (await bank.get("/api/runs")).status_code == 403
        for wrong in ({"name": "a b"}, {"name": "paid", "keep_s": 1e9}, {"name": "paid", "id": "\n"}):
            assert (await bank.post("/api/events", json=wrong)).status_code == 422

    play(tmp_path, scenario)
