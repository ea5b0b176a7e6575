"""Attacks on the API over real HTTP, each refused."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

import asterism
from asterism.constellation.model.documents import parse_plan
from asterism.engine.runtime import clock
from asterism.service import http_connection, listener
from asterism.service.api import guard, limits
from asterism.service.api.context import ApiOptions
from asterism.service.remote_app import open_remote
from tests.support.api_server import ASKS, Server, approval_of, plan
from tests.unit.service.test_resources import play

PLACES = [
    ("GET", "/api/runs/{run}"),
    ("GET", "/api/runs/{run}/view"),
    ("GET", "/api/runs/{run}/deltas"),
    ("GET", "/api/runs/{run}/stream"),
    ("GET", "/api/runs/{run}/entries/1"),
    ("GET", "/api/runs/{run}/files"),
    ("GET", "/api/runs/{run}/files/sha256:" + "0" * 64),
    ("GET", "/api/runs/{run}/logs"),
    ("POST", "/api/runs/{run}/commands"),
    ("GET", "/api/stream?run={run}@0"),
    ("GET", "/api/inquiries?run={run}"),
    ("GET", "/api/inquiries/{asked}"),
    ("POST", "/api/inquiries/{asked}/answer"),
]
BODIES: dict[str, dict[str, Any]] = {"commands": {"command": "cancel"}, "answer": {"verb": "approve"}}


async def send(http: httpx2.AsyncClient, method: str, path: str) -> httpx2.Response:
    body = BODIES.get(path.rpartition("/")[2])
    return await http.request(method, path, json=body)


async def raw(server: Server, *parts: bytes, wait_s: float = 5.0) -> bytes:
    """What the server answers to these bytes, until it closes the connection or the time is over."""
    reader, writer = await asyncio.open_connection(*server.url.removeprefix("http://").split(":"))
    answer = b""
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        async with asyncio.timeout(wait_s):
            while got := await reader.read(65536):
                answer += got
    except (TimeoutError, ConnectionError):
        pass
    finally:
        writer.close()
    return answer


def test_an_id_of_another_tenant_is_answered_as_one_that_does_not_exist(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        ada = await server.client("admin", "north")
        theirs = (await ada.post("/api/runs", json={"plan": ASKS})).json()["run_id"]
        asked = await server.waiting(theirs)
        seq = (await server.store.run(theirs)).seq
        for tenant in ("south", ""):
            bob = await server.client("admin", tenant)
            for method, path in PLACES:
                foreign = await send(bob, method, path.format(run=theirs, asked=asked))
                unknown = await send(bob, method, path.format(run="260101-00000000", asked="260101-00000000:2.0"))
                made_up = unknown.content.replace(b"260101-00000000:2.0", asked.encode()).replace(b"260101-00000000", theirs.encode())
                assert (foreign.status_code, foreign.content) == (404, made_up), path
                assert {name for name, _ in foreign.headers.items()} == {name for name, _ in unknown.headers.items()}
            assert (await bob.get("/api/runs", params={"q": theirs, "children": True})).json()["runs"] == []
            assert (await bob.get("/api/inquiries")).json()["inquiries"] == []
        assert (await server.store.run(theirs)).seq == seq
        assert (await server.store.inbox([theirs])) == []
        assert (await send(ada, "GET", f"/api/runs/{theirs}")).status_code == 200

    play(tmp_path, scenario)


def test_without_a_token_that_can_be_used_nothing_is_answered(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        nobody = await server.client(None)
        expired = await server.token(lasts_s=0.05)
        revoked = await server.token(name="gone")
        await server.store.revoke_token(revoked.split("_")[1], server.runtime.clock.now())
        await asyncio.sleep(0.06)
        good = await server.token("viewer")
        presented = [
            "",
            "Bearer",
            "Bearer x",
            f"Bearer {expired}",
            f"Bearer {revoked}",
            f"Basic {good}",
            f"Bearer {good}x",
            f"Bearer {good[:-1]}",
        ]
        for path in ("/api/runs", "/api/stream?run=x", "/api/openapi.json", "/other", "/metrics", "/api/unknown", "/..%2f..%2fetc/passwd"):
            for header in presented:
                answer = await nobody.get(path, headers={"Authorization": header} if header else {})
                assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), (path, header)
        assert (await nobody.get("/api/runs", headers={"Cookie": f"asterism_session={good}"})).status_code == 401
        assert (await nobody.get("/api/runs", headers={"Authorization": f"Bearer {good}"})).status_code == 200

    play(tmp_path, scenario)


def test_half_of_a_surrogate_pair_is_refused_wherever_any_json_is_taken(tmp_path: Path) -> None:
    half = '{"x": "\\ud800", "\\udfff": 1}'

    async def scenario(server: Server) -> None:
        http = await server.client()
        run_id = (await http.post("/api/runs", json={"plan": ASKS})).json()["run_id"]
        asked = await server.waiting(run_id)
        for path, body in (
            ("runs", f'{{"request": "work", "options": {half}}}'),
            ("runs", f'{{"request": "work", "options": {{"notify": [{half}]}}}}'),
            ("runs", f'{{"plan": {half}}}'),
            ("runs", f'{{"plan": {json.dumps(ASKS)}, "params": {half}}}'),
            ("plans/check", f'{{"plan": {half}}}'),
            ("schedules", f'{{"name": "s", "cron": "@daily", "request": "work", "options": {half}}}'),
            ("conversations", f'{{"agent": "Booking", "values": {half}}}'),
            (f"runs/{run_id}/commands", f'{{"command": "edit", "actions": [{half}]}}'),
            (f"inquiries/{asked}/answer", f'{{"verb": "approve", "value": {half}}}'),
        ):
            answer = await http.post(f"/api/{path}", content=body, headers={"Content-Type": "application/json"})
            assert (answer.status_code, "no valid Unicode" in answer.json()["detail"]) == (422, True), (path, answer.text)

    play(tmp_path, scenario)


def test_a_role_may_do_no_more_than_it_says(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        roles = {role: await server.client(role) for role in ("viewer", "operator", "approver")}
        run_id = (await roles["operator"].post("/api/runs", json={"plan": ASKS})).json()["run_id"]
        asked = await server.waiting(run_id)
        refused = [
            ("viewer", "/api/runs", {"plan": ASKS}),
            ("viewer", "/api/plans/check", {"plan": ASKS}),
            ("viewer", f"/api/runs/{run_id}/commands", {"command": "cancel"}),
            ("viewer", f"/api/inquiries/{asked}/answer", {"verb": "approve"}),
            ("operator", f"/api/inquiries/{asked}/answer", {"verb": "approve"}),
        ]
        for role, path, body in refused:
            assert (await roles[role].post(path, json=body)).status_code == 403, (role, path)
        approver = roles["approver"]
        assert (await approver.post(f"/api/inquiries/{asked}/answer", json=await approval_of(approver, asked))).status_code == 200

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:80"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": "localhost"}, 200),
        ({"Host": "LOCALHOST:8000"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1.evil.example"}, 403),
        ({"Origin": "http://localhost:1234"}, 403),
        ({"Origin": "http://localhost:1234", "Host": "localhost:1234"}, 200),
        ({"Origin": "http://127.0.0.1:1234", "Host": "localhost:1234"}, 403),
        ({"Origin": "https://localhost:1234", "Host": "localhost:1234"}, 403),
    ],
)
def test_a_foreign_host_or_origin_is_refused(tmp_path: Path, headers: dict[str, str], status: int) -> None:
    async def scenario(server: Server) -> None:
        answer = await (await server.client("viewer")).get("/api/runs", headers=headers)
        assert answer.status_code == status
        assert answer.headers["content-security-policy"] == "default-src 'self'; frame-ancestors 'none'"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in answer.headers
        assert "server" not in answer.headers

    play(tmp_path, scenario, drives=False)


def test_h2_a_page_on_another_port_of_the_host_cannot_use_the_session_of_a_browser(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        admin, browser = await server.client("admin"), await server.client(None)
        link = (await admin.post("/api/login-links")).json()["link"]
        assert (await browser.post("/api/login", json={"link": link}, headers={"Origin": server.url})).status_code == 200
        assert (await browser.get("/api/session")).status_code == 200
        host = server.url.rpartition(":")[0]
        for origin in (f"{host}:1", host, "null", server.url.replace("http", "https")):
            for method, path in (
                ("POST", "/api/devices/d/drain"),
                ("DELETE", "/api/session"),
                ("POST", "/api/login-links"),
                ("GET", "/api/runs"),
            ):
                assert (await browser.request(method, path, headers={"Origin": origin})).status_code == 403, (origin, path)
        assert (await browser.post("/api/devices/d/drain")).status_code == 403  # no Origin
        assert (await browser.post("/api/login-links", headers={"Origin": server.url})).status_code == 201

    play(tmp_path, scenario, drives=False)


def test_h2_the_cookie_has_the_port_in_its_name_so_that_two_servers_on_a_host_log_nobody_out(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        admin = await server.client("admin")
        links = [(await admin.post("/api/login-links")).json()["link"] for _ in range(2)]
        names = []
        for link, host in zip(links, ("localhost:1", "localhost"), strict=True):
            answer = await (await server.client(None)).post("/api/login", json={"link": link}, headers={"Host": host})
            names.append(answer.headers["set-cookie"].partition("=")[0])
        assert names == ["asterism_session_1", "asterism_session"]

    play(tmp_path, scenario, drives=False)


def test_large_and_slow_bodies_are_cut_off_before_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(server: Server) -> None:
        http, token = await server.client("operator"), await server.token("operator")
        login = b"POST /api/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + token.encode() + b"\r\n"
        announced = await raw(server, login + b"Content-Length: 104857600\r\n\r\n", b"x" * 65536)
        assert announced.startswith(b"HTTP/1.1 413 ")
        chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        chunked = await raw(server, login + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 20)
        assert b"413" in chunked[:20] or chunked == b""  # the answer, or the connection cut while it was sent
        with monkeypatch.context() as patched:  # only here: a loaded machine takes longer for a large body
            patched.setattr(guard, "BODY_S", 0.3)
            slow = await raw(server, login + b"Content-Length: 100\r\n\r\n{", wait_s=30)
        assert slow.startswith(b"HTTP/1.1 408 ")
        big = {"plan": plan({"task_id": "a", "description": "x" * (2 << 20)})}
        assert (await http.post("/api/plans/check", json=big)).status_code == 200
        assert (await http.post("/api/runs/x/commands", json={"command": "cancel", "reason": "x" * (2 << 20)})).status_code == 413
        nobody = await raw(server, b"POST /api/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\n", b"x" * 1000)
        assert nobody.startswith(b"HTTP/1.1 401 ")

    play(tmp_path, scenario)


def test_connections_that_send_nothing_keep_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_most_connections", lambda: 50)

    async def scenario(server: Server) -> None:
        opened = []
        try:
            for number in range(200):
                opened.append(await asyncio.open_connection(*server.url.removeprefix("http://").split(":")))
                if number % 2:
                    opened[-1][1].write(b"GET /api/runs HTTP/1.1\r\nHost: loc")  # and never the rest
            http = await server.client("viewer")
            for _ in range(5):
                assert (await http.get("/api/runs")).status_code == 200
        finally:
            for _, writer in opened:
                writer.close()

    play(tmp_path, scenario, drives=False)


def test_an_idle_connection_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "IDLE_S", 0.2)

    async def scenario(server: Server) -> None:
        started = time.monotonic()
        assert await raw(server, b"GET /healthz HTTP/1.1\r\nHost: loc", wait_s=10) == b""
        assert time.monotonic() - started < 10

    play(tmp_path, scenario, drives=False)


def test_d1_the_client_waits_as_long_as_a_limit_asks_and_then_submits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MINUTE_S", 0.5)

    async def scenario(server: Server) -> None:
        async with open_remote(server.url, await server.token("operator")) as app:
            runs = [await app.start(parse_plan(plan("a"))) for _ in range(2)]
            assert len({it.run_id for it in runs}) == 2

    play(tmp_path, scenario, options=ApiOptions(submissions=1))


def test_d1_a_limit_that_lasts_is_an_error_of_its_own_with_the_seconds_to_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connection, "TRIES", 2)
    monkeypatch.setattr(http_connection, "LONGEST_RETRY_AFTER_S", 0.01)

    async def scenario(server: Server) -> None:
        async with open_remote(server.url, await server.token("operator")) as app:
            await app.start(parse_plan(plan("a")))
            with pytest.raises(asterism.LimitReached, match="more than 1 submissions in a minute") as limit:
                await app.start(parse_plan(plan("a")))
            assert 1 < limit.value.retry_after_s <= 60
            assert not isinstance(limit.value, asterism.InvalidInput)

    play(tmp_path, scenario, options=ApiOptions(submissions=1))


def test_more_logins_submissions_or_streams_than_allowed_are_refused(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        nobody, ada, bob = await server.client(None), await server.client("operator"), await server.client("operator")
        statuses = [(await nobody.post("/api/login", json={"link": f"x{number}"})).status_code for number in range(6)]
        assert statuses == [401] * 5 + [429]
        sent = [await ada.post("/api/runs", json={}) for _ in range(61)]
        assert [it.status_code for it in sent] == [422] * 60 + [429]
        assert int(sent[-1].headers["retry-after"]) <= 60
        run_id = (await bob.post("/api/runs", json={"plan": ASKS})).json()["run_id"]
        async with asyncio.TaskGroup() as group:
            opened = asyncio.Semaphore(0)
            close = asyncio.Event()

            async def hold() -> None:
                async with bob.stream("GET", f"/api/runs/{run_id}/stream") as answer:
                    assert answer.status_code == 200
                    opened.release()
                    await close.wait()

            for _ in range(20):
                group.create_task(hold())
            for _ in range(20):
                await opened.acquire()
            assert (await bob.get(f"/api/runs/{run_id}/stream")).status_code == 429
            close.set()
        async with asyncio.timeout(30):
            while server.context.limits._streams:  # noqa: ASYNC110 - the server notices in its own time
                await asyncio.sleep(0.01)

    play(tmp_path, scenario)


def test_a_path_cannot_leave_its_place_nor_a_line_enter_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "asterism.access")

    async def scenario(server: Server) -> None:
        http = await server.client("viewer", name="ada")
        for path in (
            "/api/runs/..%2f..%2f..%2fetc%2fpasswd",
            "/api/runs/x/files/..%2f..%2fetc%2fpasswd",
            "/api/runs/x/files/sha256:..%2f..%2fpasswd",
            "/api/runs/%0d%0aSet-Cookie:%20a=b",
            "/api/runs/x%0aINFO%20forged",
        ):
            answer = await http.get(path)
            assert answer.status_code in (404, 422), path
            assert "set-cookie" not in answer.headers
        token = await server.token("operator")
        bearer = f"Authorization: Bearer {token}\r\nConnection: close\r\n".encode()
        assert b"400" in (await raw(server, b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\nX-A: a\rb: c\r\n\r\n"))[:20]
        assert b"400" in (await raw(server, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"))[:20]
        key = await raw(server, b"POST /api/runs HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: a\x07b\r\n" + bearer + b"\r\n")
        assert key[9:12] in (b"400", b"422")

    play(tmp_path, scenario, drives=False)
    lines = [json.loads(record.getMessage()) for record in caplog.records if record.name == "asterism.access"]
    assert all("\n" not in record.getMessage() for record in caplog.records)
    assert [it["path"] for it in lines if "forged" in it["path"]] == ["/api/runs/x\nINFO forged"]
    assert {it["token"] for it in lines} >= {"ada"}


def revoke_while_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: Callable[[], None]) -> None:
    """Revoke the token of a viewer who follows a run, after ``before``, and wait for the end of the stream."""
    monkeypatch.setattr("asterism.service.api.streams.COMMENT_S", 0.1)

    async def scenario(server: Server) -> None:
        http = await server.client("operator")
        run_id = (await http.post("/api/runs", json={"plan": ASKS})).json()["run_id"]
        token = await server.token("viewer")
        async with http.stream("GET", f"/api/runs/{run_id}/stream", headers={"Authorization": f"Bearer {token}"}) as answer:
            assert answer.status_code == 200
            chunks = answer.aiter_bytes()
            while b"data:" not in await anext(chunks):
                pass
            before()
            await server.store.revoke_token(token.split("_")[1], server.runtime.clock.now())
            async with asyncio.timeout(10):
                async for _ in chunks:
                    pass

    play(tmp_path, scenario)


def test_a_revoked_token_ends_its_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    revoke_while_followed(tmp_path, monkeypatch, lambda: None)


def step_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the clock of the computer back by an hour."""
    monkeypatch.setattr(clock, "time", SimpleNamespace(time=lambda: time.time() - 3600, monotonic=time.monotonic))


def test_a_revoked_token_ends_its_streams_also_after_the_clock_was_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D2."""
    revoke_while_followed(tmp_path, monkeypatch, lambda: step_back(monkeypatch))


def test_a_limit_lasts_a_minute_also_after_the_clock_was_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D2."""

    async def scenario(server: Server) -> None:
        http = await server.client("operator")
        for _ in range(60):
            assert (await http.post("/api/runs", json={"plan": ASKS})).status_code == 201
        step_back(monkeypatch)
        refused = await http.post("/api/runs", json={"plan": ASKS})
        assert refused.status_code == 429
        assert 0 < int(refused.headers["Retry-After"]) <= 60

    play(tmp_path, scenario, drives=False)


def test_what_somebody_wrote_stays_text(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http = await server.client("operator")
        made = await http.post("/api/runs", json={"plan": ASKS, "title": "<script>alert(1)</script>\n\x1b[31m"})
        assert made.headers["content-type"] == "application/json"
        assert "\n" not in made.json()["title"]

    play(tmp_path, scenario, drives=False)
