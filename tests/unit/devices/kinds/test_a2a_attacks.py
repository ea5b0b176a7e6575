"""Agents that attack: answers that are invalid, endless or another's, and addresses of other hosts."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from a2a.types import AgentCard
from a2a.utils.signing import create_agent_card_signer
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from google.protobuf.json_format import MessageToDict, ParseDict

import asterism
from asterism.devices.kinds.a2a import device as a2a_device
from asterism.devices.kinds.a2a.content import message_id
from asterism.devices.kinds.a2a.device import A2aDevice
from asterism.devices.port import Attempt, AttemptResult, DeviceReply
from tests.support.device_signs import Heard
from tests.support.fleets import open_fleet

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
Write = Callable[[bytes], Awaitable[None]]
Answer = Callable[[str, dict[str, str], bytes, Write], Awaitable[None]]


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(a2a_device, "SETTLE_S", 0.0)
    monkeypatch.setattr(a2a_device, "MAX_FAULTS", 1)


@contextlib.asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[str]:
    """Serve whatever bytes ``answer`` writes, one request per connection."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = head.split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))

            async def write(data: bytes) -> None:
                writer.write(data)
                await writer.drain()

            await answer(lines[0].split()[1], headers, body, write)
        writer.close()

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def response(body: object, *, status: str = "200 OK", more: str = "") -> bytes:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n{more}\r\n".encode() + text


def card(url: str, *, streaming: bool = False) -> dict[str, Any]:
    return {
        "name": "hostile",
        "description": "an agent",
        "version": "1",
        "capabilities": {"streaming": streaming},
        "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    }


@contextlib.asynccontextmanager
async def opened(folder: Path, url: str, more: str = "") -> AsyncIterator[A2aDevice]:
    (folder / "fleet.toml").write_text(f'[[devices]]\nid = "d"\nkind = "a2a"\nurl = "{url}"\n{more}')
    async with asyncio.timeout(60), open_fleet(folder / "fleet.toml") as devices:
        device = devices["d"]
        assert isinstance(device, A2aDevice)
        yield device


ATTEMPT = Attempt(key="r:1.0", run_id="r", task_id="t", device_id="d", skill="", description="work")


async def performed(folder: Path, reply: Callable[[dict[str, Any]], Any] | None = None, *, raw: Answer | None = None) -> AttemptResult:
    """Return the end of an attempt at an agent that answers each call with ``reply``, or with the bytes of ``raw``."""

    async def answer(path: str, headers: dict[str, str], body: bytes, write: Write) -> None:
        if path.startswith("/.well-known"):
            await write(response(card(f"http://{headers['host']}/", streaming=raw is not None)))
        elif raw is not None:
            await raw(path, headers, body, write)
        elif reply is not None:
            call = json.loads(body)
            await write(response({"jsonrpc": "2.0", "id": call["id"], "result": reply(call)}))

    async with serving(answer) as url, opened(folder, url) as device:
        return await device.perform(ATTEMPT, Heard())


def refused(end: AttemptResult) -> tuple[str, str]:
    assert end.error is not None
    assert "\n" not in end.error.message
    assert len(end.error.message) <= 600
    return end.error.code, end.error.message


@pytest.mark.parametrize("body", [b"{", b"[]", b'"text"', b"", b"null", b'{"result": 3}', b'{"error": 3}', b"[" * 100_000, b"\xff\xfe"])
def test_an_invalid_answer_to_a_message_interrupts_the_attempt(tmp_path: Path, body: bytes) -> None:
    async def raw(path: str, headers: dict[str, str], sent: bytes, write: Write) -> None:
        await write(response(body))

    assert refused(asyncio.run(performed(tmp_path, raw=raw)))[0] == "interrupted"


def task_event(parts: bytes, state: str = "COMPLETED") -> bytes:
    status = b'{"state": "TASK_STATE_%s", "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [%s]}}' % (state.encode(), parts)
    return b'data: {"jsonrpc": "2.0", "id": "1", "result": {"task": {"id": "mine", "contextId": "c", "status": %s}}}\n\n' % status


@pytest.mark.parametrize("value", [b"NaN", b"-1e999"])
def test_a_number_that_json_does_not_have_is_a_bad_result(tmp_path: Path, value: bytes) -> None:
    part = b'{"data": {"n": %s}}' % value

    async def raw(path: str, headers: dict[str, str], sent: bytes, write: Write) -> None:
        await write(EVENTS + task_event(part, "WORKING") + task_event(part))

    code, message = refused(asyncio.run(performed(tmp_path, raw=raw)))
    assert (code, "is not JSON" in message) == ("bad_result", True)


def test_an_answered_question_that_is_replayed_for_ever_is_asked_again_at_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(a2a_device, "LAST_POLL_S", 0.05)
    stamp = "2026-01-01T00:00:00Z"
    asking = {"id": "mine", "contextId": "c", "status": {"state": "TASK_STATE_INPUT_REQUIRED", "timestamp": stamp}}
    methods: list[str] = []

    async def answer(path: str, headers: dict[str, str], body: bytes, write: Write) -> None:
        if path.startswith("/.well-known"):
            await write(response(card(f"http://{headers['host']}/")))
            return
        call = json.loads(body)
        methods.append(call["method"])
        await write(response({"jsonrpc": "2.0", "id": call["id"], "result": {"task": asking} if methods[-1] == "SendMessage" else asking}))

    async def scenario() -> None:
        async with serving(answer) as url, opened(tmp_path, url) as device:
            first = await device.perform(ATTEMPT, Heard())
            assert first.question is not None
            reply = DeviceReply(verb="respond", value="42")
            leg = msgspec.structs.replace(ATTEMPT, leg=2, reply=reply, state=first.question.state)
            assert (await device.perform(leg, Heard())).question == first.question

    asyncio.run(scenario())
    assert methods.count("SendMessage") == 2
    assert methods.count("GetTask") == 1 + a2a_device.MAX_STALE  # the first one before the reply


def test_an_answer_about_another_task_is_not_taken(tmp_path: Path) -> None:
    def reply(call: dict[str, Any]) -> Any:
        if call["method"] == "SendMessage":
            return {"task": {"id": "mine", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}
        return {"id": "another", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}

    assert refused(asyncio.run(performed(tmp_path, reply)))[0] == "bad_result"


def test_updates_of_other_tasks_in_a_stream_are_ignored(tmp_path: Path) -> None:
    def event(task_id: str, state: str, text: str) -> bytes:
        status = {"state": f"TASK_STATE_{state}", "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": text}]}}
        result = {"task": {"id": task_id, "contextId": "c", "status": status}}
        return b"data: " + json.dumps({"jsonrpc": "2.0", "id": "1", "result": result}).encode() + b"\n\n"

    async def raw(path: str, headers: dict[str, str], sent: bytes, write: Write) -> None:
        await write(EVENTS)
        await write(event("mine", "WORKING", "") + event("another", "COMPLETED", "theirs") + event("mine", "COMPLETED", "ours"))

    assert asyncio.run(performed(tmp_path, raw=raw)) == AttemptResult(result="ours")


@pytest.mark.parametrize(
    "head", [b"Content-Type: application/json\r\nContent-Length: 104857600\r\n\r\n", b"Content-Type: text/event-stream\r\n\r\ndata: "]
)
def test_an_answer_of_100_mb_is_not_read_to_its_end(tmp_path: Path, head: bytes) -> None:
    sent = 0

    async def raw(path: str, headers: dict[str, str], body: bytes, write: Write) -> None:
        nonlocal sent
        await write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + head)
        for _ in range(100):
            await write(b"x" * (1 << 20))
            sent += 1

    code, message = refused(asyncio.run(performed(tmp_path, raw=raw)))
    assert code == "bad_result"
    assert "16,777,216" in message
    assert sent < 60


def test_a_compressed_answer_is_not_unpacked(tmp_path: Path) -> None:
    asked: list[str] = []

    async def raw(path: str, headers: dict[str, str], body: bytes, write: Write) -> None:
        asked.append(headers["accept-encoding"])
        await write(response(gzip.compress(b"x" * (1 << 20)), more="Content-Encoding: gzip\r\n"))

    code, message = refused(asyncio.run(performed(tmp_path, raw=raw)))
    assert code == "bad_result"
    assert "compressed" in message
    assert asked == ["identity"]


def test_an_agent_that_always_lists_another_page_ends_in_an_error(tmp_path: Path) -> None:
    async def answer(path: str, headers: dict[str, str], body: bytes, write: Write) -> None:
        if path.startswith("/.well-known"):
            await write(response(card(f"http://{headers['host']}/")))
            return
        call = json.loads(body)
        assert call["method"] == "ListTasks"
        await write(response({"jsonrpc": "2.0", "id": call["id"], "result": {"tasks": [], "nextPageToken": "again"}}))

    async def scenario() -> None:
        async with serving(answer) as url, opened(tmp_path, url) as device:
            again = Attempt(key="r:1.0", run_id="r", task_id="t", device_id="d", skill="", description="work", again=True)
            assert refused(await device.perform(again, Heard()))[0] == "interrupted"

    asyncio.run(scenario())


def test_a_card_that_names_a_private_address_gets_no_request(tmp_path: Path) -> None:
    async def scenario(agent_url: str, more: str) -> AttemptResult:
        async def answer(path: str, headers: dict[str, str], body: bytes, write: Write) -> None:
            await write(response(card(agent_url)))

        async with serving(answer) as url, opened(tmp_path, url, more) as device:
            return await device.perform(ATTEMPT, Heard())

    for agent_url in ("http://169.254.169.254/latest", "http://[::ffff:10.0.0.1]/", "http://localhost:1/"):
        code, message = refused(asyncio.run(scenario(agent_url, "")))
        assert code == "raised"
        assert "which is private; name the host in the fleet file, or set allow_private" in message
    for more in ('hosts = ["localhost"]', "allow_private = true"):
        assert refused(asyncio.run(scenario("http://localhost:1/", more)))[0] == "device_lost"


def test_a_card_may_not_be_redirected_to_a_private_address(tmp_path: Path) -> None:
    asked: list[str] = []

    async def private(path: str, headers: dict[str, str], body: bytes, write: Write) -> None:
        asked.append(path)

    async def scenario() -> None:
        async with serving(private) as inner:

            async def answer(path: str, headers: dict[str, str], body: bytes, write: Write) -> None:
                target = inner.replace("127.0.0.1", "localhost")
                await write(response({}, status="302 Found", more=f"Location: {target}/secret\r\n"))

            async with serving(answer) as url, opened(tmp_path, url) as device:
                assert "which is private" in await device.reach()

    asyncio.run(scenario())
    assert asked == []


def test_a_message_is_never_redirected(tmp_path: Path) -> None:
    async def raw(path: str, headers: dict[str, str], body: bytes, write: Write) -> None:
        await write(response({}, status="307 Temporary Redirect", more="Location: http://localhost:1/\r\n"))

    code, message = refused(asyncio.run(performed(tmp_path, raw=raw)))
    assert code == "raised"
    assert "307" in message


def test_credentials_go_to_named_hosts_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_TOKEN", "s3cret")
    monkeypatch.setenv("AGENT_KEY", "k3y")
    heads: dict[str, dict[str, str]] = {}

    async def other(path: str, headers: dict[str, str], body: bytes, write: Write) -> None:
        heads["other"] = headers
        await write(response(card("http://localhost:1/")))

    async def scenario() -> None:
        async with serving(other) as other_url:

            async def answer(path: str, headers: dict[str, str], body: bytes, write: Write) -> None:
                heads["named"] = headers
                await write(response({}, status="302 Found", more=f"Location: {other_url.replace('127.0.0.1', 'localhost')}/\r\n"))

            more = 'bearer = "$AGENT_TOKEN"\nheaders = {X-API-Key = "$AGENT_KEY"}\nallow_private = true'
            async with serving(answer) as url, opened(tmp_path, url, more) as device:
                assert await device.reach() == ""

    asyncio.run(scenario())
    assert heads["named"]["authorization"] == "Bearer s3cret"
    assert heads["named"]["x-api-key"] == "k3y"
    assert not {"authorization", "x-api-key"} & set(heads["other"])


def test_a_missing_variable_is_named_and_its_device_waits(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, "http://127.0.0.1:1", 'bearer = "$NO_SUCH_TOKEN"') as device:
            code, message = refused(await device.perform(ATTEMPT, Heard()))
            assert code == "device_lost"
            assert "environment variable NO_SUCH_TOKEN" in message

    asyncio.run(scenario())


def test_a_card_must_have_the_signature_of_a_configured_key(tmp_path: Path) -> None:
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    (tmp_path / "agent.pem").write_bytes(keys[0].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))

    def signed(key: ec.EllipticCurvePrivateKey | None) -> dict[str, Any]:
        found = ParseDict(card("http://127.0.0.1:1/"), AgentCard())
        if key:
            pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            found = create_agent_card_signer(pem, {"kid": "k", "alg": "ES256", "jku": None, "typ": "JOSE"})(found)
        return dict(MessageToDict(found))

    async def scenario(sent: dict[str, Any]) -> str:
        async def answer(path: str, headers: dict[str, str], body: bytes, write: Write) -> None:
            await write(response(sent))

        async with serving(answer) as url, opened(tmp_path, url, 'card_key = "agent.pem"') as device:
            return await device.reach()

    assert asyncio.run(scenario(signed(keys[0]))) == ""
    for sent in (signed(None), signed(keys[1]), {**signed(keys[0]), "description": "changed"}):
        assert "its card has no valid signature of agent.pem" in asyncio.run(scenario(sent))


def test_the_id_of_a_message_differs_by_leg_and_not_by_process() -> None:
    assert message_id("r:1.0") == "2fe610ac-21ec-5db8-8c3b-d4e77bf8fe06"
    assert message_id("r:1.0") != message_id("r:1.0#2")


def test_an_agent_that_asks_for_ever_ends_its_task(tmp_path: Path) -> None:
    count = 0

    async def answer(path: str, headers: dict[str, str], body: bytes, write: Write) -> None:
        nonlocal count
        if path.startswith("/.well-known"):
            await write(response(card(f"http://{headers['host']}/")))
            return
        call = json.loads(body)
        asking = {"state": "TASK_STATE_INPUT_REQUIRED", "timestamp": f"2026-01-01T00:00:{count:02}Z"}
        if call["method"] == "SendMessage":
            count += 1
            asking["timestamp"] = f"2026-01-01T00:00:{count:02}Z"
        if call["method"] == "CancelTask":
            asking["state"] = "TASK_STATE_CANCELED"
        task = {"id": "mine", "contextId": "c", "status": asking}
        await write(response({"jsonrpc": "2.0", "id": call["id"], "result": {"task": task} if call["method"] == "SendMessage" else task}))

    async def scenario() -> asterism.RunResult:
        async with serving(answer) as url:
            (tmp_path / "fleet.toml").write_text(f'[[devices]]\nid = "d"\nkind = "a2a"\nurl = "{url}"\n')
            async with asterism.open(tmp_path / "runs.db", fleet=tmp_path / "fleet.toml") as app:
                run = await app.start(asterism.Constellation.from_plan({"tasks": [{"task_id": "t", "device": "d", "description": "work"}]}))
                ended = await run.result()
                while ended.outcome == "waiting":
                    await run.answer("respond", value="more")
                    ended = await run.result()
                return ended

    ended = asyncio.run(scenario())
    assert ended.outcome == "failed"
    assert (ended.errors["t"].code, ended.errors["t"].words) == ("bad_result", "d has asked 20 questions and not returned a result")
    assert count == 20
