"""Conversations with flow agents over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, StandardAgent
from asterism.conversation.python.secret_fields import process_secret_store
from asterism.errors import InvalidInput, RunNotFound
from asterism.service.remote_app import RemoteApp, open_remote
from tests.support.api_server import Server
from tests.unit.service.test_resources import play

PIN = "4711-0815"


class Order(StandardAgent):
    """Takes an order."""

    requires_approval = True
    description = "order lunch"
    dish: str = InputField("What would you like?")
    pin: str = InputField("Your PIN?", secret=True)

    async def on_running(self, msg: Message) -> AgentResult:
        assert self.pin == PIN
        return self.make_result(AgentStatus.COMPLETED, f"{self.dish} is on the way.", data={"dish": self.dish})


def talking(folder: Path, scenario: Callable[[Server], Awaitable[None]]) -> None:
    play(folder, scenario, agents={"Order": Order})


async def started(http: httpx2.AsyncClient, **more: Any) -> dict[str, Any]:
    made = await http.post("/api/conversations", json={"agent": "Order", **more})
    assert made.status_code == 201, made.text
    found: dict[str, Any] = made.json()
    return found


async def said(http: httpx2.AsyncClient, run_id: str, text: str, key: str = "", **more: Any) -> dict[str, Any]:
    headers = {"Idempotency-Key": key} if key else {}
    answer = await http.post(f"/api/conversations/{run_id}/messages", json={"text": text, **more}, headers=headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_conversation_goes_from_its_first_message_to_its_end_and_a_secret_is_nowhere(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http = await server.client("operator,approver", name="ada")
        begun = await started(http)
        assert (begun["status"], begun["text"], begun["waits"]) == ("WAITING_FOR_INPUT", "What would you like?", True)
        run_id = begun["run_id"]
        asked = await said(http, run_id, "Soup")
        assert (asked["verdict"], asked["text"], asked["fields"]) == ("accepted", "Your PIN?", {"dish": "Soup"})
        shown = await said(http, run_id, PIN)
        assert (shown["status"], shown["fields"]["pin"]) == ("WAITING_FOR_APPROVAL", "•••")
        unseen = await said(http, run_id, "yes")
        assert (unseen["verdict"], unseen["status"]) == ("unclear", "WAITING_FOR_APPROVAL")
        done = await said(http, run_id, "yes", inquiry_id=shown["inquiry_id"], digest=shown["question"]["digest"])
        assert (done["status"], done["text"], done["data"]) == ("COMPLETED", "Soup is on the way.", {"dish": "Soup"})
        read = (await http.get(f"/api/conversations/{run_id}")).json()
        assert [it["by"] for it in read["messages"]][:2] == ["agent", "ada@approver"]
        assert (await http.post(f"/api/conversations/{run_id}/messages", json={"text": "more"})).status_code == 409
        journal = (await http.get(f"/api/runs/{run_id}/entries", params={"limit": 1000})).text
        assert "Soup" in journal
        for text in (journal, str(read), (await http.get(f"/api/runs/{run_id}/view")).text):
            assert PIN not in text

    talking(tmp_path, scenario)
    for file in tmp_path.rglob("runs.db*"):
        assert not file.is_file() or PIN.encode() not in file.read_bytes()


def test_a_yes_in_words_names_the_digest_of_the_question_that_was_shown(tmp_path: Path) -> None:
    """A6, A8: as an answer and as a message."""

    async def scenario(server: Server) -> None:
        http = await server.client("operator,approver")
        begun = await started(http, values={"pin": PIN}, text="")
        shown = await said(http, begun["run_id"], "Soup")
        assert shown["question"]["subject"]["fields"] == {"dish": "Soup"}
        asked, messages = shown["inquiry_id"], f"/api/conversations/{begun['run_id']}/messages"
        for path, body in (
            (f"/api/inquiries/{asked}/answer", {"verb": "respond", "value": "yes"}),
            (messages, {"text": "yes", "inquiry_id": asked}),
        ):
            unnamed = await http.post(path, json=body)
            assert (unnamed.status_code, "names the digest" in unnamed.text) == (422, True)
            other = await http.post(path, json={**body, "digest": "0" * 64})
            assert (other.status_code, "about another request" in other.text) == (409, True)
        for text in ("yes", "cancel"):
            unseen = await said(http, begun["run_id"], text, digest=shown["question"]["digest"])
            assert (unseen["verdict"], unseen["inquiry_id"]) == ("unclear", asked)
        done = await http.post(
            f"/api/inquiries/{asked}/answer", json={"verb": "respond", "value": "yes", "digest": shown["question"]["digest"]}
        )
        assert done.json()["verdict"] == "accepted"

    talking(tmp_path, scenario)


def test_the_client_of_a_server_answers_the_question_that_it_has_shown(tmp_path: Path) -> None:
    """A6, A8: and no other one that has come in its place."""

    async def scenario(server: Server) -> None:
        async with open_remote(server.url, await server.token("operator,approver")) as app:
            talk = app.conversation("Order")
            await talk.say("", {"pin": PIN})
            await talk.say("Soup")
            other = app.conversation(run_id=talk.run_id)
            await other.settle()
            assert (await other.say("change the dish to Salad")).fields["dish"] == "Salad"
            assert (await talk.say("yes")).status is AgentStatus.WAITING_FOR_APPROVAL
            assert (await talk.say("yes")).data == {"dish": "Salad"}

    talking(tmp_path, scenario)


def test_the_same_message_with_the_same_key_is_taken_once(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http = await server.client("operator,approver")
        body = {"agent": "Order", "text": "", "values": {"pin": PIN}}
        first = await http.post("/api/conversations", json=body, headers={"Idempotency-Key": "a"})
        again = await http.post("/api/conversations", json=body, headers={"Idempotency-Key": "a"})
        other = await http.post("/api/conversations", json={**body, "text": "x"}, headers={"Idempotency-Key": "a"})
        assert (first.status_code, again.status_code, other.status_code) == (201, 200, 422)
        run_id = first.json()["run_id"]
        assert again.json()["run_id"] == run_id
        async with asyncio.TaskGroup() as group:
            sent = [group.create_task(said(http, run_id, "Soup", "one")) for _ in range(4)]
        assert {it.result()["status"] for it in sent} == {"WAITING_FOR_APPROVAL"}
        assert (await said(http, run_id, "Soup", "one"))["verdict"] == "accepted"
        read = (await http.get(f"/api/conversations/{run_id}")).json()
        assert [it["text"] for it in read["messages"]].count("Soup") == 1
        assert not [it for it in process_secret_store()._said.values() if it[0] == run_id]

    talking(tmp_path, scenario)


def test_the_client_of_a_server_has_the_methods_of_a_conversation(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        async with open_remote(server.url, await server.token("operator,approver")) as app:
            talk = app.conversation("Order")
            assert (await talk.say("")).raw_message == "What would you like?"
            await talk.say("Soup")
            paused = await talk.pause()
            assert paused.status is AgentStatus.PAUSED
            assert (await talk.resume()).raw_message == "Your PIN?"
            await talk.say(PIN)
            same = app.conversation(run_id=talk.run_id)
            assert (await same.settle()).fields == {"dish": "Soup", "pin": "•••"}
            assert (await same.say("yes")).data == {"dish": "Soup"}
            assert [it.text for it in await same.history()][-1] == "Soup is on the way."
            other = app.conversation("Order")
            await other.say("")
            assert (await other.cancel()).status is AgentStatus.CANCELLED
            await _refused(app)

    async def _refused(app: RemoteApp) -> None:
        assert repr(app.run_of("260101-00000000")) == "RemoteRun('260101-00000000')"
        with pytest.raises(InvalidInput, match="did you mean Order"):
            await app.conversation("Ordr").say("")
        with pytest.raises(RunNotFound):
            await app.conversation(run_id="260101-00000000").result()

    talking(tmp_path, scenario)


def test_the_conversations_of_a_token_are_listed_and_those_of_others_are_not(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        ada, bob, other = await server.client(name="ada"), await server.client(name="bob"), await server.client(name="ada", tenant="t")
        runs = [(await started(ada))["run_id"] for _ in range(3)]
        await ada.post(f"/api/runs/{runs[1]}/commands", json={"command": "cancel"})
        await server.ended(runs[1])
        await ada.post("/api/runs", json={"request": "work"})

        async def listed(http: httpx2.AsyncClient, **query: Any) -> list[str]:
            return [it["run_id"] for it in (await http.get("/api/conversations", params=query)).json()["runs"]]

        assert await listed(ada) == runs[::-1]
        assert await listed(ada, open=True) == [runs[2], runs[0]]
        assert await listed(bob) == await listed(other) == []
        page = (await ada.get("/api/conversations", params={"open": True, "limit": 1})).json()
        assert await listed(ada, open=True, after=page["next"]) == [runs[0]]

    talking(tmp_path, scenario)


def test_agents_are_listed_and_only_those_of_the_server_can_be_started(tmp_path: Path) -> None:
    async def scenario(server: Server) -> None:
        http, viewer, operator = await server.client("admin"), await server.client("viewer"), await server.client("operator")
        (agent,) = (await viewer.get("/api/agents")).json()["agents"]
        assert (agent["name"], agent["fields"]["properties"]["pin"]["writeOnly"]) == ("Order", True)
        for name in ("os:system", "tests.unit.service.test_conversations:Order", f"{__file__}:Order"):
            assert (await http.post("/api/conversations", json={"agent": name})).status_code == 422
        for language in ("/etc/passwd", "x.toml", "xx"):
            assert (await http.post("/api/conversations", json={"agent": "Order", "language": language})).status_code == 422
        assert (await viewer.post("/api/conversations", json={"agent": "Order"})).status_code == 403
        run_id = (await started(operator))["run_id"]
        assert (await operator.post(f"/api/conversations/{run_id}/messages", json={"text": "Soup"})).status_code == 403

    talking(tmp_path, scenario)
