"""Schedules over real HTTP."""

from __future__ import annotations

import datetime as dt
import functools
import json
import zoneinfo
from pathlib import Path

import msgspec
import pytest

from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan
from asterism.constellation.python.scheduled import submit_scheduled
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.permissions import ALL, permissions_of
from asterism.engine.ports.tokens import ROLES
from asterism.errors import InvalidInput, RunNotFound
from asterism.service.remote_app import open_remote
from asterism.service.schedules.firing import started
from asterism.service.schedules.scheduler import Scheduler
from tests.support.api_server import Server, plan
from tests.unit.service.test_resources import play

NIGHTLY = {"name": "nightly", "cron": "0 2 * * *", "zone": "Europe/Berlin"}


async def start_due(server: Server) -> None:
    app = server.runtime
    await Scheduler(app.store, app.clock, functools.partial(submit_scheduled, app)).start_due()


def test_a_schedule_is_added_read_commanded_and_removed(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http = await server.client("operator", name="ada")
        sized = plan("a", params={"n": {"type": "int"}})
        made = await http.post("/api/schedules", json={**NIGHTLY, "plan": sized, "params": {"n": 3}})
        assert (made.status_code, made.json()["actor"]) == (201, "ada@operator"), made.text
        assert (await http.post("/api/schedules", json={**NIGHTLY, "plan": sized, "params": {"n": 3}})).status_code == 200
        assert (await http.post("/api/schedules", json={**NIGHTLY, "plan": sized, "params": {"n": 4}})).status_code == 422
        assert [it["last"] for it in (await http.get("/api/schedules")).json()["schedules"]] == [None]
        read = (await http.get("/api/schedules/nightly", params={"count": 2})).json()
        assert (read["schedule"]["paused"], len(read["next"]), read["firings"]) == (False, 2, [])
        for command, paused in (("pause", True), ("pause", True), ("resume", False)):
            done = await http.post("/api/schedules/nightly/commands", json={"command": command})
            assert done.json()["schedule"]["paused"] is paused
        ran = [
            (await http.post("/api/schedules/nightly/commands", json={"command": "run"}, headers={"Idempotency-Key": key})).json()["run_id"]
            for key in ("one", "one", "two")
        ]
        assert (ran[0] == ran[1], ran[0] == ran[2]) == (True, False)
        await start_due(server)
        for run_id in ran:
            assert await server.ended(run_id) == "finished"
        (listed,) = (await http.get("/api/schedules")).json()["schedules"]
        assert (listed["name"], listed["last"]["status"], listed["last"]["outcome"]) == ("nightly", "started", "finished")
        assert listed["last"]["run_id"] in ran
        firings = (await http.get("/api/schedules/nightly")).json()["firings"]
        assert {(it["run_id"], it["status"]) for it in firings} == {(ran[0], "started"), (ran[2], "started")}
        other = (await http.post("/api/runs", json={"plan": plan("a")})).json()["run_id"]
        for actor, runs in (("schedule nightly", {ran[0], ran[2]}), ("ada@operator", {other}), ("schedule", set())):
            found = (await http.get("/api/runs", params={"actor": actor})).json()["runs"]
            assert {it["run_id"] for it in found} == runs
        first = json.loads((await server.store.records(ran[0], limit=1))[0].body)["event"]
        assert first["params"] == {"n": 3}
        assert (await http.delete("/api/schedules/nightly")).status_code == 204
        assert (await http.get("/api/schedules")).json() == {"schedules": []}
        assert (await http.delete("/api/schedules/nightly")).status_code == 404

    play(tmp_path, scenario)


def test_a_run_knows_when_it_was_due(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http = await server.client("operator")
        dated = {**NIGHTLY, "plan": plan("a", params={"day": {"type": "str"}})}
        assert (await http.post("/api/schedules", json={**dated, "params": {"day": "${due.day}"}})).status_code == 422
        assert (await http.post("/api/schedules", json={**dated, "params": {"day": "${due.date}"}})).status_code == 201
        run_id = (await http.post("/api/schedules/nightly/commands", json={"command": "run"})).json()["run_id"]
        await start_due(server)
        (firing,) = (await http.get("/api/schedules/nightly")).json()["firings"]
        due = dt.datetime.fromtimestamp(firing["due_at"], tz=zoneinfo.ZoneInfo("Europe/Berlin"))
        first = json.loads((await server.store.records(run_id, limit=1))[0].body)["event"]
        assert first["params"] == {"day": due.date().isoformat()}

    play(tmp_path, scenario)


def test_a_request_in_words_is_no_file_of_the_server(tmp_path: Path) -> None:
    named = tmp_path / "plan.json"
    named.write_text(json.dumps(plan("a")), encoding="utf-8")

    async def scenario(server: Server) -> None:
        http = await server.client("operator")
        for request in (str(named), "os:system", f"{__file__}:NIGHTLY"):
            assert (await http.post("/api/schedules", json={**NIGHTLY, "request": request})).status_code == 201
            run_id = (await http.post("/api/schedules/nightly/commands", json={"command": "run"})).json()["run_id"]
            await start_due(server)
            first = json.loads((await server.store.records(run_id, limit=1))[0].body)["event"]
            assert (first["request"], first.get("plan")) == (request, None)
            assert (await http.get("/api/schedules/nightly")).json()["schedule"]["what"] == request
            await http.delete("/api/schedules/nightly")
        refused = [
            {**NIGHTLY, "plan": plan({"task_id": "a", "device": "here", "skill": "os:system"})},
            {**NIGHTLY, "plan": plan({"task_id": "a", "skill": "unknown"})},
            {**NIGHTLY, "plan": plan("a", params={"n": {"type": "int"}})},
            {**NIGHTLY, "request": "x", "cron": "99 * * * *"},
            {**NIGHTLY, "request": "x", "zone": "../../etc/passwd"},
            {**NIGHTLY, "request": "x", "name": "../x"},
            {**NIGHTLY},
        ]
        for body in refused:
            assert (await http.post("/api/schedules", json=body)).status_code == 422, body
        viewer = await server.client("viewer")
        assert (await viewer.post("/api/schedules", json={**NIGHTLY, "request": "x"})).status_code == 403
        assert (await viewer.delete("/api/schedules/nightly")).status_code == 403

    play(tmp_path, scenario)


def test_a_schedule_with_guards_is_changed_and_removed_by_who_added_it_or_by_an_admin(tmp_path: Path) -> None:
    """A2: whoever may command could else pause or remove what asks for approval, and add it again without."""
    asking = plan({"task_id": "a", "requires_approval": True})
    nested = plan({"task_id": "n", "device": "", "skill": "", "constellation": asking})
    bodies: list[dict[str, object]] = [{"plan": asking}, {"plan": nested}, {"request": "tidy up", "options": {"approve_plan": True}}]

    async def scenario(server: Server) -> None:
        ada, bob, eve = [await server.client("admin" if name == "eve" else "operator", name=name) for name in ("ada", "bob", "eve")]
        for number, body in enumerate(bodies):
            path, added = f"/api/schedules/s{number}", NIGHTLY | {"name": f"s{number}"} | body
            assert (made := await ada.post("/api/schedules", json=added)).status_code == 201, made.text
            for command in ("pause", "resume"):
                refused = await bob.post(f"{path}/commands", json={"command": command})
                assert (refused.status_code, "only ada@operator, who added it, or an admin" in refused.text) == (403, True)
            assert (await bob.delete(path)).status_code == 403
            assert (await bob.post("/api/schedules", json={**added, "overlap": "allow"})).status_code == 422
            assert (await ada.post(f"{path}/commands", json={"command": "pause"})).status_code == 200
            assert (await (eve if number else ada).delete(path)).status_code == 204
        await ada.post("/api/schedules", json={**NIGHTLY, "request": "x"})
        assert (await bob.delete("/api/schedules/nightly")).status_code == 204

    play(tmp_path, scenario)


def test_the_runs_of_a_schedule_have_the_permissions_of_who_added_it(tmp_path: Path) -> None:
    """A3: text of a client in words that the local user has scheduled, or the reverse, changes nothing of that."""

    async def scenario(server: Server) -> None:
        http = await server.client("operator")
        await http.post("/api/schedules", json={**NIGHTLY, "request": "tidy"})
        (of_client,) = await server.store.schedules()
        local = msgspec.structs.replace(of_client, name="local", actor="ada", permissions=ALL)
        await server.store.add_schedule(local)
        for name, permissions, via in (("nightly", ROLES["operator"], "network"), ("local", ALL, "")):
            run_id = (await http.post(f"/api/schedules/{name}/commands", json={"command": "run"})).json()["run_id"]
            await start_due(server)
            entry = packer(CONSTELLATION_AGENT).unpack((await server.store.records(run_id, limit=1))[0])
            assert (entry.permissions, (await server.store.run(run_id)).via) == (permissions_of(permissions), via)

    play(tmp_path, scenario)


def test_who_adds_a_schedule_and_who_commands_its_run_have_submitted_it(tmp_path: Path) -> None:
    """A6, "an approval or an edit is refused if its sender has submitted the run": a schedule is no way around that."""

    async def scenario(server: Server) -> None:
        ada, bob = [await server.client("operator", name=name) for name in ("ada", "bob")]
        assert (await ada.post("/api/schedules", json={**NIGHTLY, "plan": plan("a")})).status_code == 201
        ran = (await bob.post("/api/schedules/nightly/commands", json={"command": "run"})).json()["run_id"]
        await start_due(server)
        (schedule,) = await server.store.schedules()
        due = started(schedule, 0.0)
        await submit_scheduled(server.runtime, schedule, due)
        for run_id, submitters in ((ran, ("ada@operator", "bob@operator")), (due.run_id, ("ada@operator",))):
            memory = (await server.runtime.load(run_id)).memory
            assert (memory.guards.submitter, memory.guards.submitters) == ("schedule nightly", submitters)

    play(tmp_path, scenario)


def test_a_tenant_sees_only_its_schedules(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        ada, bob = await server.client("admin", "north"), await server.client("admin", "south")
        await ada.post("/api/schedules", json={**NIGHTLY, "plan": plan("a")})
        assert (await bob.get("/api/schedules")).json() == {"schedules": []}
        assert (await bob.get("/api/schedules/nightly")).status_code == 404
        assert (await bob.post("/api/schedules/nightly/commands", json={"command": "run"})).status_code == 404
        assert (await bob.delete("/api/schedules/nightly")).status_code == 404
        assert (await bob.post("/api/schedules", json={**NIGHTLY, "request": "x"})).status_code == 201
        run_id = (await ada.post("/api/schedules/nightly/commands", json={"command": "run"})).json()["run_id"]
        await start_due(server)
        assert (await server.store.run(run_id)).tenant == "north"

    play(tmp_path, scenario)


def test_the_client_of_a_server_has_schedules(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        async with open_remote(server.url, await server.token("operator")) as app:
            nightly = await app.add_schedule("nightly", "0 2 * * *", parse_plan(plan("a", name="tidy")), zone="Europe/Berlin")
            assert [(it.name, it.what) for it in await app.schedules()] == [("nightly", "tidy")]
            await nightly.pause()
            assert (await nightly.describe()).paused
            await nightly.resume()
            assert len(await nightly.next_times(3)) == 3
            run_id = await nightly.run()
            await start_due(server)
            assert (await app.run_of(run_id).result()).outcome == "finished"
            assert [(it.run_id, it.status) for it in await nightly.history()] == [(run_id, "started")]
            await nightly.remove()
            with pytest.raises(RunNotFound, match="there is no schedule 'nightly'"):
                await nightly.describe()
            with pytest.raises(InvalidInput, match="cron expression"):
                await app.add_schedule("x", "never", "tidy up")

    play(tmp_path, scenario)
