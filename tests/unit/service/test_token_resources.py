"""Tokens over real HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.api_server import Server
from tests.unit.service.test_resources import play


def test_an_administrator_creates_lists_and_revokes_tokens(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http, nobody = await server.client("admin"), await server.client(None)
        made = await http.post("/api/tokens", json={"name": "ci", "roles": ["operator"], "days": 30})
        assert made.status_code == 201, made.text
        found: dict[str, Any] = made.json()
        headers = {"Authorization": f"Bearer {found.pop('token')}"}
        assert (await nobody.get("/api/session", headers=headers)).json()["roles"] == ["operator"]
        assert found in (listed := (await http.get("/api/tokens")).json()["tokens"])
        assert all("hash" not in it for it in listed)
        assert (await http.post("/api/tokens", json={"name": "ci", "roles": ["viewer"]})).status_code == 422
        assert (await http.post("/api/tokens", json={"name": "../x", "roles": ["viewer"]})).status_code == 422
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
            assert (await approver.request(method, path, json={"name": "x", "roles": ["admin"]})).status_code == 403
        theirs = (await north.post("/api/tokens", json={"name": "ci", "roles": ["viewer"]})).json()
        assert theirs["tenant"] == "north"
        assert [it["name"] for it in (await south.get("/api/tokens")).json()["tokens"]] == ["s"]
        foreign, unknown = await south.delete(f"/api/tokens/{theirs['id']}"), await south.delete("/api/tokens/000000000000")
        assert (foreign.status_code, foreign.content) == (404, unknown.content.replace(b"000000000000", theirs["id"].encode()))
        assert (await south.post("/api/tokens", json={"name": "x", "roles": ["admin"], "tenant": "north"})).status_code == 403
        assert (await south.post("/api/tokens", json={"name": "x", "roles": ["admin"], "tenant": ""})).status_code == 403
        assert (await south.post("/api/tokens", json={"name": "ci", "roles": ["viewer"]})).status_code == 201  # the name says nothing
        whole = await server.client("admin")
        assert {it["tenant"] for it in (await whole.get("/api/tokens")).json()["tokens"]} >= {"north", "south", ""}
        assert (await whole.delete(f"/api/tokens/{theirs['id']}")).status_code == 204

    play(tmp_path, scenario, drives=False)


async def logged_in(server: Server, link: str) -> dict[str, str]:
    answer = await (await server.client(None)).post("/api/login", json={"link": link})
    assert answer.status_code == 200, answer.text
    return {"Cookie": answer.headers["set-cookie"].partition(";")[0], "Origin": server.url}


def test_a_browser_creates_tokens_that_expire_within_90_days(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        admin, browser = await server.client("admin"), await server.client(None)
        cookie = await logged_in(server, (await admin.post("/api/login-links")).json()["link"])
        assert (await browser.get("/api/tokens", headers=cookie)).status_code == 200
        for days in ({}, {"days": 91}):
            refused = await browser.post("/api/tokens", json={"name": "x", "roles": ["admin"], **days}, headers=cookie)
            assert (refused.status_code, "90 days" in refused.json()["detail"]) == (403, True)
        made = await browser.post("/api/tokens", json={"name": "x", "roles": ["admin"], "days": 90}, headers=cookie)
        assert made.status_code == 201
        assert made.json()["expires_at"] == made.json()["created_at"] + 90 * 86_400

    play(tmp_path, scenario, drives=False)


def test_a_browser_makes_a_login_link_that_ends_with_its_token(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        admin, viewer, browser = await server.client("admin"), await server.client("viewer", name="vera"), await server.client(None)
        first = await logged_in(server, (await viewer.post("/api/login-links")).json()["link"])
        link = await browser.post("/api/login-links", headers=first)
        assert link.status_code == 201, link.text
        second = await logged_in(server, link.json()["link"])
        assert (await browser.get("/api/session", headers=second)).json()["name"] == "vera"
        assert (await browser.delete("/api/session", headers=first)).status_code == 204
        assert (await browser.get("/api/session", headers=second)).status_code == 200
        (theirs,) = [it["id"] for it in (await admin.get("/api/tokens")).json()["tokens"] if it["name"] == "vera"]
        await admin.delete(f"/api/tokens/{theirs}")
        assert (await browser.get("/api/session", headers=second)).status_code == 401

    play(tmp_path, scenario, drives=False)
