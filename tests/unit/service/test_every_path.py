"""Every path of the OpenAPI, over real HTTP: without a token, by a viewer, without each permission, with ids of another tenant."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import httpx2
import pytest

from asterism.engine.control.run_control import Verb
from asterism.engine.kernel.permissions import Permission
from asterism.engine.ports.tokens import ROLES
from asterism.service.api import models
from asterism.service.api.schedules import ScheduleCommand
from tests.support.api_server import ASKS, Server
from tests.unit.service.test_conversations import Order
from tests.unit.service.test_resources import play

OPEN = {("post", "/api/login"), ("post", "/api/hooks/{name}"), ("get", "/healthz"), ("get", "/readyz")}
VIEWERS = {("post", "/api/login-links"), ("delete", "/api/session")}
"""What a viewer may send about its own login."""
BODIES: dict[str, dict[str, Any]] = {
    "/api/runs": {"plan": ASKS},
    "/api/plans/check": {"plan": ASKS},
    "/api/runs/{run_id}/commands": {"command": "cancel"},
    "/api/inquiries/{inquiry_id}/answer": {"verb": "approve"},
    "/api/conversations": {"agent": "Order"},
    "/api/conversations/{run_id}/messages": {"text": "Soup"},
    "/api/schedules": {"name": "n", "cron": "0 2 * * *", "request": "tidy up"},
    "/api/schedules/{name}/commands": {"command": "run"},
    "/api/tokens": {"name": "x", "roles": ["admin"]},
}
UNKNOWN = {
    "run_id": "260101-00000000",
    "inquiry_id": "260101-00000000:2.0",
    "name": "unknown",
    "token_id": "000000000000",
    "device_id": "unknown",
    "seq": "1",
    "digest": "sha256:" + "0" * 64,
}
"""An id of nothing, by the name of the parameter."""


async def operations(server: Server) -> list[tuple[str, str]]:
    document = (await (await server.client("viewer")).get("/api/openapi.json")).json()
    return [(method, path) for path, found in document["paths"].items() for method in found]


async def send(http: httpx2.AsyncClient, method: str, path: str, ids: dict[str, str] = UNKNOWN) -> httpx2.Response:
    return await http.request(method.upper(), path.format(**ids), json=BODIES.get(path))


def test_every_path_needs_a_token(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        nobody = await server.client(None)
        for method, path in await operations(server):
            if (method, path) not in OPEN:
                answer = await send(nobody, method, path)
                assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), path

    play(tmp_path, scenario, drives=False)


def test_a_viewer_changes_nothing(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        viewer = await server.client("viewer")
        for method, path in await operations(server):
            if method != "get" and (method, path) not in OPEN | VIEWERS:
                assert (await send(viewer, method, path)).status_code == 403, path

    play(tmp_path, scenario, drives=False, agents={"Order": Order})


VARIANTS: dict[str, list[dict[str, Any]]] = {
    "/api/runs/{run_id}/commands": [
        {"command": "cancel"},
        {"command": "pause"},
        {"command": "unpause"},
        {"command": "raise_limits", "max_tokens": 1},
        {"command": "retry_failed"},
        {"command": "lift_guard", "name": "work", "reason": "seen"},
        {"command": "fork", "at": 1},
        {"command": "edit", "actions": [{"tool": "clear_constellation", "parameters": {}}], "version": 1},
    ],
    "/api/schedules/{name}/commands": [{"command": "pause"}, {"command": "resume"}, {"command": "run"}],
    "/api/inquiries/{inquiry_id}/answer": [
        {"verb": "approve"},
        {"verb": "edit", "value": {}},
        {"verb": "respond", "value": 1},
        {"verb": "reject"},
        {"verb": "cancel"},
    ],
}
"""Bodies of one path that may take different permissions."""
ON_A_PLAN = "/api/inquiries/{inquiry_id}/answer"


def row_of(method: str, path: str, body: dict[str, Any] | None, needed: list[Permission]) -> str:
    """The row of the documented table for a request."""
    said = " ".join(str((body or {}).get(name, "")) for name in ("command", "verb")).strip()
    name = f"`{method.upper()} {re.sub('(run|inquiry|device|token)_id', 'id', path)}`"
    of = f" `{said}`{' of a plan or an edit' if (path, said) == (ON_A_PLAN, 'edit') else ''}" if path in VARIANTS else ""
    return f"| {name}{of} | {', '.join(needed) or 'no token'} |"


def test_the_documented_table_has_the_permissions_that_each_route_and_command_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A6: each request is tried with all permissions but one; what is refused then takes that one."""
    rows: list[str] = []

    async def scenario(server: Server) -> None:
        admin, tried = await server.client("admin"), await server.client("viewer")
        run_id = (await admin.post("/api/runs", json={"plan": ASKS, "options": {"approve_plan": True}})).json()["run_id"]
        asked = await server.waiting(run_id)
        for method, path in await operations(server):
            for body in VARIANTS.get(path, [BODIES.get(path)]) if method == "post" else [None]:
                needed = []
                for permission in Permission:
                    monkeypatch.setitem(ROLES, "viewer", tuple(it for it in Permission if it is not permission))
                    answer = await tried.request(method.upper(), path.format(**UNKNOWN | {"inquiry_id": asked}), json=body)
                    needed += [permission] if answer.status_code == 403 else []
                rows.append(row_of(method, path, body, needed))

    play(tmp_path, scenario)
    page = (Path(__file__).parents[3] / "docs/http-api.md").read_text(encoding="utf-8")
    documented = page.partition("| request | takes |\n|---|---|\n")[2].partition("\n\n")[0].splitlines()
    assert sorted(documented) == sorted(set(rows))


def test_each_command_and_verb_of_the_api_is_tried() -> None:
    """A6: one that is added later has a row as well."""
    commands = [get_args(it.model_fields["command"].annotation)[0] for it in get_args(get_args(models.Command)[0])]
    assert sorted(commands) == sorted(it["command"] for it in VARIANTS["/api/runs/{run_id}/commands"])
    of_schedules = get_args(ScheduleCommand.model_fields["command"].annotation)
    assert of_schedules == tuple(it["command"] for it in VARIANTS["/api/schedules/{name}/commands"])
    assert {it["verb"] for it in VARIANTS[ON_A_PLAN]} == {*get_args(Verb)}


def test_an_id_of_another_tenant_in_any_path_is_answered_as_an_unknown_one(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        ada = await server.client("admin", "north")
        run_id = (await ada.post("/api/runs", json={"plan": ASKS})).json()["run_id"]
        asked = await server.waiting(run_id)
        talk = (await ada.post("/api/conversations", json={"agent": "Order"})).json()["run_id"]
        await ada.post("/api/schedules", json=BODIES["/api/schedules"])
        token = (await ada.post("/api/tokens", json=BODIES["/api/tokens"])).json()["id"]
        theirs = {**UNKNOWN, "run_id": run_id, "inquiry_id": asked, "name": "n", "token_id": token}
        seqs = [(await server.store.run(it)).seq for it in (run_id, talk)]
        bob = await server.client("admin", "south")
        tried = 0
        for method, path in await operations(server):
            names = re.findall(r"\{(\w+)\}", path)
            if not names or "device_id" in names:  # the devices are those of all tenants
                continue
            ids = {**theirs, "run_id": talk} if "/conversations/" in path else theirs
            foreign, unknown = await send(bob, method, path, ids), await send(bob, method, path)
            made_up = unknown.content
            for name in sorted(names, key=lambda it: -len(UNKNOWN[it])):
                made_up = made_up.replace(UNKNOWN[name].encode(), ids[name].encode())
            assert (foreign.status_code, foreign.content) == (404, made_up), (method, path)
            assert foreign.headers.keys() == unknown.headers.keys()
            tried += 1
        assert tried >= 19
        for query in ("/api/inquiries?run={}", "/api/stream?run={}@0", "/api/stream?run={}@0&topic=runs"):
            foreign, unknown = await bob.get(query.format(run_id)), await bob.get(query.format(UNKNOWN["run_id"]))
            assert (foreign.status_code, foreign.content) == (404, unknown.content.replace(UNKNOWN["run_id"].encode(), run_id.encode()))
        assert [(await server.store.run(it)).seq for it in (run_id, talk)] == seqs
        assert await server.store.inbox([run_id, talk]) == []
        assert (await ada.get("/api/schedules/n")).json()["firings"] == []

    play(tmp_path, scenario, agents={"Order": Order})
