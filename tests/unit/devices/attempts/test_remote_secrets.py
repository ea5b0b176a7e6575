"""Secrets of attempts on remote devices: the other side gets the values, and nothing that comes back has one."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asterism.devices.dispatch.dispatcher import Dispatcher
from asterism.devices.kinds.a2a.client import AgentError, own_headers
from asterism.devices.model.attempt import TaskError
from asterism.devices.port import Attempt, AttemptResult, DeviceQuestion, Notices, RemoteDevice, Signs
from asterism.engine.kernel.profile import AgentProfile
from tests.support.device_signs import Heard
from tests.support.mcp_devices import open_mcp

TOKEN = "correct-horse-battery"  # noqa: S105 - of a test
GIVEN = Attempt(
    key="r:1.0",
    run_id="r",
    task_id="t",
    device_id="far",
    skill="do",
    arguments={"token": "${secret.TOKEN}", "text": "${secret.TOKEN}"},
    secrets=(("token",),),
)


class Echo(RemoteDevice):
    """A remote device that returns, asks or raises what it was given."""

    def __init__(self, behavior: str = "", secret_names: tuple[str, ...] = ()) -> None:
        super().__init__(AgentProfile(device_id="far", kind="echo"))
        self.behavior = behavior
        self.secret_names = secret_names
        self.got: list[dict[str, Any]] = []

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        self.got.append({**attempt.arguments, **attempt.env})
        text = f"I got {TOKEN}"
        signs.progress(message=text)
        match self.behavior:
            case "raise":
                raise ValueError(text)
            case "fail":
                return AttemptResult(error=TaskError(code="raised", message=text))
            case "ask":
                return AttemptResult(question=DeviceQuestion(prompt=text))
            case "note":
                return AttemptResult(question=DeviceQuestion(prompt="?", state={"token": TOKEN}))
            case "result":
                return AttemptResult(result=[{"token": TOKEN}])
            case _:
                return AttemptResult(result="done")

    async def stop(self, attempt: Attempt) -> str:
        return f"{attempt.task_id} has {TOKEN}"

    async def watch(self, notices: Notices) -> None:
        await asyncio.Event().wait()


def performed(device: Echo, heard: Heard, attempt: Attempt = GIVEN) -> AttemptResult:
    async def scene() -> AttemptResult:
        async with Dispatcher({"far": device}, lambda: 0.0) as dispatcher:
            return await dispatcher.perform(attempt, heard)

    return asyncio.run(scene())


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("ASTERISM_SECRET_TOKEN", TOKEN)
    return TOKEN


@pytest.mark.usefixtures("token")
def test_the_device_gets_the_value_where_the_plan_wrote_a_reference_and_nowhere_else() -> None:
    device = Echo()
    given = msgspec.structs.replace(GIVEN, env={"PGPASSWORD": "${secret.TOKEN}"})
    assert performed(device, Heard(), given).result == "done"
    assert device.got == [{"token": TOKEN, "text": "${secret.TOKEN}", "PGPASSWORD": TOKEN}]


@pytest.mark.usefixtures("token")
@pytest.mark.parametrize(("behavior", "code"), [("raise", "crashed"), ("fail", "raised"), ("note", "bad_result"), ("result", "bad_result")])
def test_no_error_and_no_progress_has_the_value(behavior: str, code: str) -> None:
    heard = Heard()
    end = performed(Echo(behavior), heard)
    assert end.error is not None
    assert (end.error.code, TOKEN in end.error.message, heard.messages()) == (code, False, ["I got [secret]"])
    assert end.result is None


@pytest.mark.usefixtures("token")
def test_a_question_has_the_value_masked() -> None:
    question = performed(Echo("ask"), Heard()).question
    assert question is not None
    assert question.prompt == "I got [secret]"


@pytest.mark.usefixtures("token")
def test_the_secrets_of_the_process_are_masked_in_attempts_that_use_none() -> None:
    heard = Heard()
    end = performed(Echo("fail"), heard, msgspec.structs.replace(GIVEN, arguments={}, secrets=()))
    assert end.error is not None
    assert (end.error.message, heard.messages()) == ("I got [secret]", ["I got [secret]"])


def test_a_secret_of_the_device_itself_is_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "TOKEN").write_text(TOKEN)
    (tmp_path / "TOKEN").chmod(0o600)
    monkeypatch.setenv("ASTERISM_SECRETS", str(tmp_path))
    end = performed(Echo("fail", ("TOKEN",)), Heard(), msgspec.structs.replace(GIVEN, arguments={}, secrets=()))
    assert end.error is not None
    assert end.error.message == "I got [secret]"


@pytest.mark.usefixtures("token")
def test_what_may_still_run_is_named_without_the_value() -> None:
    async def scene() -> str:
        async with Dispatcher({"far": Echo()}, asyncio.get_running_loop().time) as dispatcher:
            return await dispatcher.stop(GIVEN, 0.0)

    assert asyncio.run(scene()).endswith("t has [secret]")


@pytest.mark.parametrize(("again", "code"), [(False, "bad_arguments"), (True, "interrupted")])
def test_a_missing_secret_fails_the_attempt_before_the_device_hears_of_it(*, again: bool, code: str) -> None:
    device = Echo()
    end = performed(device, Heard(), msgspec.structs.replace(GIVEN, again=again))
    assert end.error is not None
    assert (end.error.code, "secret TOKEN is not set" in end.error.message, device.got) == (code, True, [])


def test_headers_of_an_agent_take_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    headers = {"Authorization": "Bearer ${secret.TOKEN}"}
    monkeypatch.setenv("ASTERISM_SECRET_TOKEN", "pa$$word-$HOME")
    assert own_headers(headers) == {"Authorization": "Bearer pa$$word-$HOME"}
    monkeypatch.delenv("ASTERISM_SECRET_TOKEN")
    with pytest.raises(AgentError, match="secret TOKEN is not set"):
        own_headers(headers)


SERVER = """
import json, os, sys
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, request = message.get("method"), message.get("id")
    if method == "initialize":
        info = {"name": "env", "version": "1"}
        send(id=request, result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "tools/list":
        send(id=request, result={"tools": [{"name": "do", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call":
        got = [os.environ["API_TOKEN"], message["params"]["arguments"]["token"]]
        send(id=request, result={"isError": True, "content": [{"type": "text", "text": json.dumps(got)}]})
    elif request is not None:
        send(id=request, error={"code": -32601, "message": "no such method"})
"""


@pytest.mark.usefixtures("token")
def test_an_mcp_server_gets_the_values_in_its_variables_and_arguments(tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    (tmp_path / "server.py").write_text(SERVER)

    async def scene() -> tuple[AttemptResult, AttemptResult]:
        env = {"API_TOKEN": "${secret.TOKEN}"}
        async with open_mcp(tmp_path, command=(sys.executable, str(tmp_path / "server.py")), env=env) as device:
            resolved = msgspec.structs.replace(GIVEN, arguments={"token": TOKEN}, secrets=())
            bare = await device.perform(resolved, Heard())
            async with Dispatcher({"far": device}, lambda: 0.0) as dispatcher:
                return bare, await dispatcher.perform(GIVEN, Heard())

    bare, end = asyncio.run(scene())
    assert bare.error is not None
    assert end.error is not None
    assert json.loads(bare.error.message) == [TOKEN, TOKEN]
    assert json.loads(end.error.message) == ["[secret]", "[secret]"]
