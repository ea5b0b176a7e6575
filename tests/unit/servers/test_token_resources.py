"""Tokens over real HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.api_server import Server
from tests.unit.servers.test_resources import play


def test_an_administrator_creates_lists_and_revokes_tokens(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http, nobody = await server.client("admin"), await server.client(None)
        made = await http.post("/api/tokens", json={"name": "ci", "role": "operator", "days": 30})
        assert made.status_code == 201, made.text
        found: dict[str, Any] = made.json()
        headers = {"Authorization": f"Bearer {found.pop('token')}"}
        assert (await nobody.get("/api/session", headers=headers)).json()["role"] == "operator"
        assert found in (listed := (await http.get("/api/tokens")).json()["tokens"])
        assert all("hash" not in it for it in listed)
        assert (await http.post("/api/tokens", json={"name": "ci", "role": "viewer"})).status_code == 422
        assert (await http.post("/api/tokens", json={"name": "../x", "role": "viewer"})).status_code == 422
        for _ in range(2):
            assert (await http.delete(f"/api/tokens/{found['id']}")).status_code == 204
        assert (await nobody.get("/api/session", headers=headers)).status_code == 401
        assert (await http.delete("/api/tokens/unknown")).status_code == 404

    play(tmp_path, scenario, drives=False)


def test_only_an_administrator_manages_tokens_and_only_those_of_its_tenant(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        approver, north, south = (
            await server.client("approver"),
            await server.client("admin", "north", name="n"),
            await server.client("admin", "south", name="s"),
        )
        for method, path in (("GET", "/api/tokens"), ("POST", "/api/tokens"), ("DELETE", "/api/tokens/x")):
            assert (await approver.request(method, path, json={"name": "x", "role": "admin"})).status_code == 403
        theirs = (await north.post("/api/tokens", json={"name": "ci", "role": "viewer"})).json()
        assert theirs["tenant"] == "north"
        assert [it["name"] for it in (await south.get("/api/tokens")).json()["tokens"]] == ["s"]
        foreign, unknown = await south.delete(f"/api/tokens/{theirs['id']}"), await south.delete("/api/tokens/000000000000")
        assert (foreign.status_code, foreign.content) == (404, unknown.content.replace(b"000000000000", theirs["id"].encode()))
        assert (await south.post("/api/tokens", json={"name": "x", "role": "admin", "tenant": "north"})).status_code == 403
        assert (await south.post("/api/tokens", json={"name": "x", "role": "admin", "tenant": ""})).status_code == 403
        assert (await south.post("/api/tokens", json={"name": "ci", "role": "viewer"})).status_code == 201  # the name says nothing
        whole = await server.client("admin")
        assert {it["tenant"] for it in (await whole.get("/api/tokens")).json()["tokens"]} >= {"north", "south", ""}
        assert (await whole.delete(f"/api/tokens/{theirs['id']}")).status_code == 204

    play(tmp_path, scenario, drives=False)


def test_a_browser_cannot_create_tokens(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        admin, browser = await server.client("admin"), await server.client(None)
        link = (await admin.post("/api/login-links")).json()["link"]
        logged_in = await browser.post("/api/login", json={"link": link})
        cookie = {"Cookie": logged_in.headers["set-cookie"].partition(";")[0], "Origin": server.url}
        assert (await browser.get("/api/tokens", headers=cookie)).status_code == 200
        assert (await browser.post("/api/tokens", json={"name": "x", "role": "admin"}, headers=cookie)).status_code == 403

    play(tmp_path, scenario, drives=False)
