"""Files of a submission over real HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from asterism.constellation.model.documents import parse_plan
from asterism.errors import InvalidInput
from asterism.service.remote_app import open_remote
from tests.support.api_server import Server, plan
from tests.unit.service.test_attacks import raw
from tests.unit.service.test_resources import play

READS = plan("a", params={"report": {"type": "file"}})


async def uploaded(http: httpx2.AsyncClient, content: bytes, name: str = "report.txt") -> dict[str, Any]:
    made = await http.post("/api/files", params={"name": name}, content=content)
    assert made.status_code == 201, made.text
    value: dict[str, Any] = made.json()
    return value


def test_a_file_is_uploaded_and_named_in_a_submission(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http = await server.client("operator")
        value = await uploaded(http, b"ten rows" * 200_000)
        assert (value["name"], value["media_type"], value["size"]) == ("report.txt", "text/plain", 1_600_000)
        body = {"plan": READS, "params": {"report": value}}
        made = [await http.post("/api/runs", json=body, headers={"Idempotency-Key": "one"}) for _ in range(2)]
        assert [it.status_code for it in made] == [201, 200], made[0].text
        run_id = made[0].json()["run_id"]
        assert (await http.get(f"/api/runs/{run_id}/files/{value['$file']}")).content == b"ten rows" * 200_000
        assert (await http.post("/api/runs", json=body)).status_code == 201
        assert await server.ended(run_id) == "finished"

    play(tmp_path, scenario)


def test_only_a_file_that_the_tenant_has_uploaded_can_be_named(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        ada, bob = await server.client("operator", "north"), await server.client("operator", "south")
        value = await uploaded(ada, b"theirs")
        nested = plan({"task_id": "a", "arguments": {"x": [value]}})
        for body in (
            {"plan": READS, "params": {"report": value}},
            {"plan": nested},
        ):
            assert (await bob.post("/api/runs", json=body)).status_code == 422
        for wrong in ({**value, "size": 1}, {**value, "name": "../x"}, {**value, "$file": "sha256:" + "0" * 64}, {"x": 1}, "/etc/passwd"):
            assert (await ada.post("/api/runs", json={"plan": READS, "params": {"report": wrong}})).status_code == 422, wrong
        times = {"name": "n", "cron": "@daily"}
        assert (await ada.post("/api/schedules", json={**times, "plan": READS, "params": {"report": value}})).status_code == 422
        assert (await uploaded(ada, b"x", "../../etc/passwd"))["name"] == "passwd"
        viewer = await server.client("viewer", "north")
        assert (await viewer.post("/api/files", params={"name": "x"}, content=b"x")).status_code == 403
        assert (await bob.get("/api/runs")).json()["runs"] == []

    play(tmp_path, scenario, drives=False)


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        token = await server.token("operator")
        head = f"POST /api/files?name=x HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n".encode()
        announced = await raw(server, head + b"Content-Length: 2000000000\r\n\r\n", b"x" * 65536)
        assert announced.startswith(b"HTTP/1.1 413 ")
        await raw(server, head + b"Content-Length: 100000\r\n\r\n", b"x" * 1000, wait_s=0.2)  # cut off
        assert (await (await server.client("operator")).get("/api/runs")).status_code == 200

    play(tmp_path, scenario, drives=False)


def test_the_client_of_a_server_uploads_the_files_of_a_goal(tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    report.write_bytes(b"ten rows")

    async def scenario(server: Server) -> None:
        async with open_remote(server.url, await server.token("operator")) as app:
            handle = await app.start(parse_plan(READS), report=report)
            assert (await handle.result()).outcome == "finished"
            (row,) = await server.store.files(handle.run_id)
            assert (row.name, row.size) == ("report.txt", 8)
            with pytest.raises(InvalidInput, match="has no files"):
                await app.add_schedule("n", "@daily", parse_plan(READS), params={"report": report})

    play(tmp_path, scenario)
