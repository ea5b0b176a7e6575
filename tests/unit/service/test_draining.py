"""Set a device to drain over real HTTP."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec

from asterism.devices.port import Attempt
from tests.support.api_server import DEVICE, Server, plan
from tests.unit.service.test_resources import play

SHARED = msgspec.structs.replace(DEVICE, fleet="shop")


def test_a_draining_device_gets_no_new_tasks_and_ends_those_under_way(tmp_path: Path) -> None:
    goes_on = asyncio.Event()

    async def work(attempt: Attempt) -> str:
        await goes_on.wait()
        return attempt.task_id

    async def scenario(server: Server) -> None:
        admin, viewer = await server.client("admin", name="ada"), await server.client("viewer")
        first = (await admin.post("/api/runs", json={"plan": plan("a", "b")})).json()["run_id"]
        while (await admin.get(f"/api/runs/{first}/view")).json()["rows"].get("task:a", {}).get("status") != "RUNNING":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        async with viewer.stream("GET", "/api/stream?topic=devices") as answer:
            lines = answer.aiter_lines()
            async for line in lines:  # at first, every list is to be read
                if line.startswith("data:"):
                    break
            done = await admin.post("/api/devices/d/drain")
            assert (done.json()["draining"], done.json()["draining_by"]) == (True, "ada@admin"), done.text
            async for line in lines:
                if line.startswith("data:"):
                    assert json.loads(line.removeprefix("data:")) == {"topic": "devices", "ids": ["d"]}
                    break
        goes_on.set()
        while (rows := (await admin.get(f"/api/runs/{first}/view")).json()["rows"])["task:a"]["status"] != "COMPLETED":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        second = (await admin.post("/api/runs", json={"plan": plan("c")})).json()["run_id"]
        (device,) = (await viewer.get("/api/devices")).json()["devices"]
        assert (device["draining"], rows["task:b"]["status"] != "COMPLETED") == (True, True)
        assert (await server.store.run(second)).status != "ended"
        assert (await admin.post("/api/devices/d/undrain")).json()["draining"] is False
        assert [await server.ended(it) for it in (first, second)] == ["finished", "finished"]
        assert (await viewer.post("/api/devices/d/drain")).status_code == 403
        assert (await admin.post("/api/devices/unknown/drain")).status_code == 404

    play(tmp_path, scenario, work=work, fleet=(SHARED,))


def test_h3_an_administrator_of_a_tenant_changes_no_device_that_all_tenants_share(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        admin, north = await server.client("admin"), await server.client("admin", "north")
        assert (await north.post("/api/devices/d/drain")).status_code == 403
        assert (await admin.post("/api/devices/d/drain")).status_code == 200
        assert (await north.post("/api/devices/d/undrain")).status_code == 403
        (device,) = (await north.get("/api/devices")).json()["devices"]
        assert device["draining"]

    play(tmp_path, scenario, drives=False, fleet=(SHARED,))


def test_a_device_without_a_queue_of_its_own_cannot_drain(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        admin = await server.client("admin")
        assert (await admin.post("/api/devices/d/drain")).status_code == 409

    play(tmp_path, scenario, drives=False)
