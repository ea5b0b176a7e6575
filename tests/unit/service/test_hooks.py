"""Hooks over HTTP: who may post, what becomes of it, and what counts as the same event."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
import json
import secrets
from pathlib import Path
from typing import Any

import httpx2
import pytest
from standardwebhooks import Webhook

from asterism.engine.ports.events import Hook
from asterism.errors import InvalidInput
from asterism.service.api.guard import BODY_BYTES
from asterism.service.hooks import with_keys
from tests.support.api_server import Server
from tests.unit.service.test_resources import play

KEY = f"whsec_{base64.b64encode(secrets.token_bytes(24)).decode()}"
TOKEN = secrets.token_urlsafe(32)
HOOKS = {
    "shop": Hook(name="shop", signed="standard", key=KEY),
    "hub": Hook(name="hub", signed="github", key=TOKEN),
    "alerts": Hook(name="alerts", signed="bearer", key=TOKEN),
}


def shop(body: str, *, late_s: float = 0.0, key: str = KEY, message: str = "m1") -> dict[str, str]:
    at = dt.datetime.now(tz=dt.UTC) - dt.timedelta(seconds=late_s)
    signature = Webhook(key).sign(message, at, body)
    return {"webhook-id": message, "webhook-timestamp": str(int(at.timestamp())), "webhook-signature": f"v1,other {signature}"}


def hub(body: str, delivery: str = "d1") -> dict[str, str]:
    signature = hmac.new(TOKEN.encode(), body.encode(), hashlib.sha256).hexdigest()
    return {"x-hub-signature-256": f"sha256={signature}", "x-github-delivery": delivery}


async def sent(nobody: httpx2.AsyncClient, name: str, body: str, headers: dict[str, str]) -> tuple[int, str]:
    answer = await nobody.post(f"/api/hooks/{name}", content=body, headers=headers)
    return answer.status_code, answer.json().get("id", "")


def test_a_signed_request_continues_the_run_that_waits_for_it(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        ada, nobody = await server.client("operator"), await server.client(None)
        plan = {"tasks": [{"task_id": name, "wait": {"event": name, "match": "event.n == 7"}} for name in HOOKS]}
        run_id = (await ada.post("/api/runs", json={"plan": plan})).json()["run_id"]
        body = json.dumps({"n": 7})
        assert await sent(nobody, "shop", body, shop(body)) == (201, "shop:m1")
        assert await sent(nobody, "hub", body, hub(body)) == (201, "hub:d1")
        status, event = await sent(nobody, "alerts", body, {"authorization": f"Bearer {TOKEN}"})
        assert (status, await server.ended(run_id)) == (201, "finished")
        actors = {it["id"]: it["actor"] for it in (await ada.get("/api/events")).json()["events"]}
        assert actors == {"shop:m1": "hook shop", "hub:d1": "hook hub", event: "hook alerts"}

    play(tmp_path, scenario, hooks=HOOKS)


def test_a_request_that_is_not_signed_with_the_key_or_too_old_is_no_event(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        nobody, body = await server.client(None), "{}"
        other = f"whsec_{base64.b64encode(bytes(24)).decode()}"
        wrong: list[tuple[str, dict[str, str]]] = [
            ("shop", {}),
            ("shop", shop("[]")),
            ("shop", shop(body, key=other)),
            ("shop", shop(body, late_s=301)),
            ("shop", shop(body, late_s=-310)),
            ("shop", {**shop(body), "webhook-id": "m2"}),
            ("shop", {**shop(body), "webhook-timestamp": "9" * 30}),
            ("shop", {"authorization": f"Bearer {KEY}"}),
            ("hub", {}),
            ("hub", hub("[]")),
            ("alerts", {}),
            ("alerts", {"authorization": f"Bearer {TOKEN[:-1]}"}),
        ]
        for name, headers in wrong:
            assert (await sent(nobody, name, body, headers))[0] == 401, (name, headers)
        assert (await sent(nobody, "nothing", body, {}))[0] == 404
        assert (await sent(nobody, "alerts", "no JSON", {"authorization": f"Bearer {TOKEN}"}))[0] == 422
        assert (await sent(nobody, "hub", "x" * (BODY_BYTES + 1), hub(body)))[0] == 413
        assert await server.store.events() == []

    play(tmp_path, scenario, drives=False, hooks=HOOKS)


def alert(status: str = "firing", *prints: str, **more: Any) -> str:
    alerts = [{"fingerprint": it, "annotations": more} for it in prints or ("a", "b")]
    return json.dumps({"receiver": "asterism", "groupKey": "{}:{disk}", "status": status, "alerts": alerts})


def test_what_a_sender_sends_again_is_the_same_event(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        nobody = await server.client(None)
        assert await sent(nobody, "shop", "1", shop("1")) == await sent(nobody, "shop", "2", shop("2"))
        assert await sent(nobody, "hub", "{}", hub("{}")) == await sent(nobody, "hub", "{}", hub("{}"))
        bodies = (alert(), alert("firing", "b", "a"), alert(value=2), alert("resolved"), alert("firing", "a"), "{}", "{}")
        ids = [(await sent(nobody, "alerts", body, {"authorization": f"Bearer {TOKEN}"}))[1] for body in bodies]
        assert [ids.index(it) for it in ids] == [0, 0, 0, 3, 4, 5, 6]

    play(tmp_path, scenario, drives=False, hooks=HOOKS)


def test_a_key_that_is_missing_or_weak_is_refused() -> None:
    values = {"WEAK": "whsec_c2hvcnQ=", "TEXT": "x" * 40}
    assert with_keys([Hook(name="h", signed="github", key="${secret.TEXT}")], values.__getitem__)["h"].key == "x" * 40
    for signed, key in (("standard", "${secret.WEAK}"), ("standard", "whsec_!"), ("bearer", "short")):
        with pytest.raises(InvalidInput, match="hook h: key is too weak or none"):
            with_keys([Hook(name="h", signed=signed, key=key)], values.__getitem__)  # type: ignore[arg-type]
