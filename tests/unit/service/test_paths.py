"""What came over the network names no file of the server's computer (H1)."""

from __future__ import annotations

import asyncio
import itertools
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asterism.constellation.model.documents import parse_plan
from asterism.constellation.model.edits import EditRefused
from asterism.constellation.python.scheduled import submit_scheduled
from asterism.devices.attempts import attempt_files
from asterism.devices.attempts.attempt_files import AttemptFiles
from asterism.engine.kernel.permissions import Permission
from asterism.engine.ports.tokens import ROLES, Role, TokenRow
from asterism.loop.python.tool import tool
from asterism.service.schedules.firing import started
from asterism.stores.file_contents import FolderContents
from asterism.stores.memory import MemoryStore
from asterism.stores.stored_files import StoredFiles
from tests.support.api_server import Server, approval_of
from tests.unit.service import path_skills
from tests.unit.service.test_files import uploaded
from tests.unit.service.test_resources import play

SKILLS = Path(__file__).parent / "path_skills.py"
FLEET = f"""
[[devices]]
id = "desk"
skills = ["{SKILLS}:read", "{SKILLS}:read_all", "{SKILLS}:read_file", "{SKILLS}:echo"]
"""


def reads(skill: str, **inputs: Any) -> dict[str, Any]:
    return {"tasks": [{"task_id": "a", "name": "a", "device": "desk", "skill": skill, "inputs": inputs}]}


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    (tmp_path / "fleet.toml").write_text(FLEET, encoding="utf-8")
    (tmp_path / "private.txt").write_text("private", encoding="utf-8")
    return tmp_path / "fleet.toml"


def test_h1_a_text_over_http_becomes_no_path_also_within_lists_and_classes(tmp_path: Path, fleet: Path) -> None:
    private = str(tmp_path / "private.txt")
    forged = {"$file": "sha256:" + "0" * 64, "name": "x", "media_type": "", "size": 1, "path": private}

    async def scenario(server: Server) -> None:
        http = await server.client("operator")
        params = {**reads("read", path="${params.p}"), "params": {"p": "str"}}
        nested = {"tasks": [{"task_id": "n", "name": "n", "constellation": reads("read", path=private)}]}
        chain = reads("echo", text=private)
        chain["tasks"].append({"task_id": "b", "name": "b", "device": "desk", "skill": "read", "inputs": {"path": "${a}"}})
        chain["dependencies"] = [{"from": "a", "to": "b"}]
        for body in (
            {"plan": reads("read", path=private)},
            {"plan": params, "params": {"p": private}},
            {"plan": nested},
            {"plan": chain},
            {"plan": reads("read_all", paths=[private])},
            {"plan": reads("read_all", sources={"x": {"path": private}})},
            {"request": f"read the path {private}"},
            {"plan": reads("read_file", file=private)},
            {"plan": reads("read_file", file=forged)},
        ):
            answer = await http.post("/api/runs", json=body)
            if answer.status_code == 201:
                run_id = answer.json()["run_id"]
                assert await server.ended(run_id) == "failed", body
                assert "'private'" not in str(
                    [it.body for row in await server.store.runs() for it in await server.store.records(row.run_id)]
                )
        text = await http.post("/api/runs", json={"plan": reads("echo", text=private)})
        assert await server.ended(text.json()["run_id"]) == "finished"
        value = await uploaded(http, b"uploaded")
        for plan in (reads("read", path=value), reads("read_all", paths=[value]), reads("read_file", file=value)):
            made = await http.post("/api/runs", json={"plan": plan})
            assert await server.ended(made.json()["run_id"]) == "finished", made.text

    play(tmp_path, scenario, fleet_file=fleet)


def test_h1_the_runs_of_a_schedule_that_was_added_over_http_read_no_file(tmp_path: Path, fleet: Path) -> None:
    async def scenario(server: Server) -> None:
        http = await server.client("operator")
        given = {"name": "s", "cron": "@daily", "plan": reads("read", path=str(tmp_path / "private.txt"))}
        assert (await http.post("/api/schedules", json=given)).status_code == 201
        [schedule] = await server.store.schedules()
        firing = started(schedule, server.runtime.clock.now())
        await submit_scheduled(server.runtime, schedule, firing)
        assert await server.ended(firing.run_id) == "failed"

    play(tmp_path, scenario, fleet_file=fleet)


def test_the_runs_of_a_schedule_that_was_added_over_http_set_no_variables_of_their_own(tmp_path: Path) -> None:
    """A3: a schedule makes its sender no local user."""

    async def scenario(server: Server) -> None:
        http = await server.client("operator")
        plan = {"tasks": [{"task_id": "a", "device": "d", "skill": "work", "env": {"LD_PRELOAD": "x.so"}}]}
        assert (await http.post("/api/runs", json={"plan": plan})).status_code == 409
        assert (await http.post("/api/schedules", json={"name": "n", "cron": "@daily", "plan": plan})).status_code == 201
        [schedule] = await server.store.schedules()
        with pytest.raises(EditRefused, match="LD_PRELOAD"):
            await submit_scheduled(server.runtime, schedule, started(schedule, server.runtime.clock.now()))

    play(tmp_path, scenario)


@pytest.mark.parametrize("roles", [*itertools.chain.from_iterable(itertools.combinations(ROLES, n) for n in range(1, 5))])
def test_no_token_has_the_permission_of_the_local_user(roles: tuple[Role, ...]) -> None:
    assert Permission.LOCAL not in TokenRow(token_id="t", hash="", name="n", roles=roles, created_at=0.0).permissions  # noqa: S106 - an id


def test_h1_an_edit_or_an_answer_over_http_takes_paths_from_a_local_run(tmp_path: Path, fleet: Path) -> None:
    private = str(tmp_path / "private.txt")
    asks = reads("read", path=private)
    asks["tasks"][0]["requires_approval"] = True

    async def scenario(server: Server) -> None:
        http = await server.client("operator,approver")
        plain = await server.runtime.start(parse_plan(reads("read", path=private)))
        assert await server.ended(plain.run_id) == "finished"
        untouched = (await server.runtime.start(parse_plan(asks))).run_id
        asked = await server.waiting(untouched)
        approved = await http.post(f"/api/inquiries/{asked}/answer", json=await approval_of(http, asked))
        assert (approved.status_code, await server.ended(untouched)) == (200, "finished")
        edited = (await server.runtime.start(parse_plan(asks))).run_id
        asked = await server.waiting(edited)
        value = await approval_of(http, asked, "edit", value={"path": private})
        assert (await http.post(f"/api/inquiries/{asked}/answer", json=value)).status_code == 200
        assert await server.ended(edited) == "failed"
        changed = (await server.runtime.start(parse_plan(asks))).run_id
        asked = await server.waiting(changed)
        add = {"tool": "add_task", "parameters": reads("read", path=private)["tasks"][0] | {"task_id": "b", "name": "b"}}
        answer = await http.post(f"/api/runs/{changed}/commands", json={"command": "edit", "actions": [add]})
        assert answer.status_code == 200, answer.text
        await http.post(f"/api/inquiries/{asked}/answer", json=await approval_of(http, asked))
        also = await server.waiting(changed)  # the plan guards the skill of the new task, too
        await http.post(f"/api/inquiries/{also}/answer", json=await approval_of(http, also))
        assert await server.ended(changed) == "failed"
        copied = (await http.post(f"/api/runs/{changed}/commands", json={"command": "retry_failed"})).json()["run_id"]
        for _ in ("a", "b"):  # a retry that a person commands asks again
            asked = await server.waiting(copied)
            await http.post(f"/api/inquiries/{asked}/answer", json=await approval_of(http, asked))
        assert await server.ended(copied) == "failed"

    play(tmp_path, scenario, fleet_file=fleet)


def test_h1_an_edit_over_http_adds_no_function_of_the_server(tmp_path: Path, fleet: Path) -> None:
    source = f"{SKILLS}:echo"
    plan = {"tasks": [{"task_id": "a", "name": "a", "device": "here", "skill": source, "inputs": {"text": "x"}, "requires_approval": True}]}

    async def scenario(server: Server) -> None:
        http = await server.client("operator")
        run_id = (await server.runtime.start(parse_plan(plan))).run_id
        await server.waiting(run_id)
        for skill in ("os:getcwd", f"{SKILLS}:read"):
            task = {"task_id": "b", "name": "b", "device": "here", "skill": skill, "inputs": {}}
            add = {"tool": "add_task", "parameters": task}
            answer = await http.post(f"/api/runs/{run_id}/commands", json={"command": "edit", "actions": [add]})
            assert (answer.status_code, "has no skill" in answer.text) == (409, True), answer.text

    play(tmp_path, scenario, fleet_file=fleet)


def test_h1_a_tool_of_a_loop_takes_no_path_from_another_computer(tmp_path: Path) -> None:
    files = StoredFiles(MemoryStore(), FolderContents(tmp_path / "contents"), time.time)

    async def root() -> str:
        return "r"

    async def networked() -> bool:
        return True

    async def scenario() -> None:
        (tmp_path / "private.txt").write_text("private", encoding="utf-8")
        private = str(tmp_path / "private.txt")
        assert await tool(path_skills.read).call({"path": private}, "k") == "private"
        token = attempt_files.CURRENT.set(AttemptFiles(files, root, tmp_path, networked))
        try:
            for path in (private, {"$file": "sha256:" + "0" * 64, "path": private}):
                with pytest.raises(msgspec.ValidationError):
                    await tool(path_skills.read).call({"path": path}, "k")
            assert await tool(path_skills.echo).call({"text": private}, "k") == private
        finally:
            attempt_files.CURRENT.reset(token)

    asyncio.run(scenario())
