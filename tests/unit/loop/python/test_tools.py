"""Workers with a model: both kinds of tools, allow-lists, scopes, gates, and the model's messages."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from asterism.engine.runtime.resources import open_resources
from asterism.errors import InvalidInput
from asterism.loop.machine.model import ToolCall
from asterism.loop.python import LoopResult, McpServer, ModelWorker, OrchestrationLoop, tool, within
from asterism.loop.python.tool import gated
from asterism.testing.loop import run as run_in_virtual_time
from tests.unit.loop.python.mcp_server import NOTES
from tests.unit.loop.python.mcp_server import server as notes

SERVER = (sys.executable, str(Path(__file__).with_name("mcp_server.py")))


class Script:
    """A scripted model: each item is a text, or calls as ``{tool: arguments}``.

    Attributes:
        told: what each tool returned, as the model was told.
        called: with what it called each, as it was told.
        offered: names of the tools in each request.
    """

    def __init__(self, *replies: str | dict[str, Any]) -> None:
        self._replies = list(replies)
        self.told: dict[str, str] = {}
        self.called: dict[str, Any] = {}
        self.offered: list[list[str]] = []
        self.model = FunctionModel(self._reply)

    async def _reply(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.offered.append([it.name for it in info.function_tools])
        for message in messages:
            for part in message.parts if isinstance(message, ModelRequest) else []:
                if isinstance(part, ToolReturnPart):
                    self.told[part.tool_name] = str(part.content)
            for call in message.tool_calls if isinstance(message, ModelResponse) else []:
                self.called[call.tool_name] = call.args_as_dict()
        said = self._replies.pop(0)
        if isinstance(said, str):
            return ModelResponse(parts=[TextPart(content=said)])
        return ModelResponse(parts=[ToolCallPart(name, arguments) for name, arguments in said.items()])


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


async def shout(text: str) -> str:
    return text.upper()


def loop_of(script: Script, *tools: Any) -> OrchestrationLoop:
    worker = ModelWorker(script.model, "You work.", tools=tools)
    return OrchestrationLoop(plan=[{"step_id": "a", "worker": "m", "intent": "do it"}], workers={"m": worker})


def run(script: Script, *tools: Any) -> LoopResult:
    return asyncio.run(loop_of(script, *tools).run("x"))


@pytest.mark.parametrize("gate", ["danger", True, None, ["external"]])
def test_an_unknown_gate_is_refused_on_definition(gate: Any) -> None:
    for make in (lambda: tool(double, gate=gate), lambda: McpServer(url="http://x", allow=("double",), gates={"double": gate})):
        with pytest.raises(InvalidInput, match=r"gate of double must be one of destructive, external, first_time, or empty, not "):
            make()


def test_python_functions_are_called_with_the_models_arguments_and_its_last_text_is_the_finding() -> None:
    script = Script({"double": {"number": 21}, "shout": {"text": "hey"}}, "42 HEY")
    assert run(script, double, shout).answer == "42 HEY"
    assert script.told == {"double": "42", "shout": "HEY"}
    assert script.offered == [["double", "shout"]] * 2


def test_a_tool_that_is_not_listed_is_neither_offered_nor_called() -> None:
    script = Script({"format_disk": {}}, "I could not")
    ended = run(script, double)
    assert ended.answer == "I could not"
    assert json.loads(script.told["format_disk"]) == {
        "status": "denied",
        "reason": "there is no tool 'format_disk'; there are double",
        "feedback": "",
    }


def test_the_model_sees_the_error_of_invalid_arguments() -> None:
    script = Script({"double": {"number": "many"}}, "sorry")
    run(script, double)
    assert json.loads(script.told["double"])["status"] == "failed"


def test_the_model_sees_an_exception_of_a_tool_with_its_line() -> None:
    async def fails(text: str) -> str:
        raise OSError(text)

    script = Script({"fails": {"text": "foggy"}}, "sorry")
    assert run(script, fails).answer == "sorry"
    assert json.loads(script.told["fails"])["reason"].startswith("OSError: foggy (test_tools.py:")


def test_arguments_that_are_nested_too_deeply_are_denied() -> None:
    deep: dict[str, Any] = {"in": 1}
    for _ in range(101):
        deep = {"in": deep}
    script = Script({"double": deep}, "sorry")
    assert run(script, double).answer == "sorry"
    assert json.loads(script.told["double"])["reason"] == "the arguments: more than 100 lists and objects within each other"


def test_a_tool_that_hangs_times_out_and_the_model_sees_it() -> None:
    async def hangs() -> None:
        await asyncio.Event().wait()

    script = Script({"hangs": {}}, "it took too long")
    worker = ModelWorker(script.model, "You work.", tools=[hangs], timeout_s=0.2)
    loop = OrchestrationLoop(plan=[{"worker": "m", "intent": "x"}], workers={"m": worker})
    assert run_in_virtual_time(loop.run("x")).answer == "it took too long"
    assert json.loads(script.told["hangs"])["reason"] == "hangs took longer than 0.2 s; it is unknown if the call took effect"


def test_a_scope_denies_with_its_reason_or_its_error() -> None:
    def broken(arguments: object) -> str:
        raise KeyError("x")

    small = tool(double, scope=lambda given: "" if given["number"] < 10 else "numbers are below 10")
    script = Script({"double": {"number": 21}, "shout": {"text": "x"}}, "no")
    run(script, small, tool(shout, scope=broken))
    assert json.loads(script.told["double"])["reason"] == "numbers are below 10"
    assert json.loads(script.told["shout"])["reason"] == "its scope could not be checked: KeyError: 'x'"


def gated_run(*answers: tuple[str, Any]) -> tuple[LoopResult, LoopResult, Script]:
    """Run a loop with a destructive tool to the question, and then after the answer."""
    script = Script({"double": {"number": 1}}, "done")
    loop = loop_of(script, tool(double, gate="destructive", scope=lambda given: "" if given["number"] < 10 else "too large"))

    async def scene() -> tuple[LoopResult, LoopResult]:
        waits = await loop.run("x")
        for asked, (verb, value) in zip(waits.waiting, answers, strict=True):
            await loop.answer(asked.inquiry_id, verb, value=value)  # type: ignore[arg-type]
        return waits, await loop.resume()

    return *asyncio.run(scene()), script


def test_a_destructive_tool_is_confirmed_with_exactly_its_arguments_before_it_is_called() -> None:
    waits, ended, script = gated_run(("approve", None))
    assert waits.state == "CONFIRMING"
    assert json.loads(waits.waiting[0].subject) == {"tool": "double", "arguments": {"number": 1}}
    assert (ended.state, script.told) == ("COMPLETE", {"double": "2"})


def test_edited_arguments_are_used_and_checked_against_the_scope() -> None:
    assert gated_run(("edit", {"number": 4}))[2].told == {"double": "8"}
    assert json.loads(gated_run(("edit", {"number": 40}))[2].told["double"])["reason"] == "too large"


def test_a_model_whose_arguments_were_edited_is_shown_the_call_that_was_made() -> None:
    assert gated_run(("edit", {"number": 4}))[2].called == {"double": {"number": 4}}
    assert gated_run(("approve", None))[2].called == {"double": {"number": 1}}


def test_the_model_sees_the_reason_of_a_rejected_call() -> None:
    assert json.loads(gated_run(("reject", None))[2].told["double"])["status"] == "denied"


# -- MCP servers -----------------------------------------------------------------------------------------


def test_tools_of_an_mcp_server_are_called_over_stdio_and_only_those_allowed_are_offered() -> None:
    script = Script({"add_note": {"text": "buy milk"}}, {"list_notes": {}}, "noted")
    ended = run(script, McpServer(command=SERVER, allow=("add_note", "list_notes")))
    assert (ended.state, ended.answer) == ("COMPLETE", "noted")
    assert script.offered[0] == ["add_note", "list_notes"]
    assert "buy milk" in script.told["list_notes"]


@contextlib.asynccontextmanager
async def served(token: str = "") -> AsyncIterator[str]:
    """Serve the same tools over HTTP for the holder of the token; yield the URL."""
    app = notes.streamable_http_app()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if token and scope["type"] == "http" and (b"authorization", f"Bearer {token}".encode()) not in scope["headers"]:
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await app(scope, receive, send)

    http = uvicorn.Server(uvicorn.Config(guarded, log_config=None))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        async with asyncio.TaskGroup() as group:
            group.create_task(http.serve(sockets=[listening]))
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
            http.should_exit = True


def test_tools_of_an_mcp_server_are_called_over_http_and_a_destructive_one_is_confirmed_first() -> None:
    script = Script({"add_note": {"text": "buy bread"}}, {"remove_notes": {}}, {"die": {}}, "all gone")

    async def scene() -> tuple[LoopResult, list[str], LoopResult]:
        async with served() as url:
            loop = loop_of(script, McpServer(url=url, allow=("add_note", "remove_notes")))
            waits = await loop.run("x")
            there = list(NOTES)
            await loop.answer(waits.waiting[0].inquiry_id, "approve")
            return waits, there, await loop.resume()

    waits, there, ended = asyncio.run(scene())
    assert (waits.state, json.loads(waits.waiting[0].subject)) == ("CONFIRMING", {"tool": "remove_notes", "arguments": {}})
    assert (there, NOTES) == (["buy bread"], [])
    assert (ended.state, ended.answer) == ("COMPLETE", "all gone")
    assert script.offered == [["add_note", "remove_notes"]] * 4
    assert json.loads(script.told["die"])["status"] == "denied"


async def tools_of(server: McpServer) -> list[str]:
    async with open_resources() as keeper:
        return list(await ModelWorker("any:model", "", tools=[server]).open_tools(keeper))


def test_headers_are_sent_with_the_variables_that_they_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(token: str) -> list[str] | str:
        async with served(token) as url:
            try:
                return await tools_of(McpServer(url=url, headers={"Authorization": "Bearer $NOTES_TOKEN"}, allow=("list_notes",)))
            except InvalidInput as refused:
                return str(refused).partition("/mcp ")[2]

    assert (
        asyncio.run(scene("s3cret"))
        == "cannot be used: its header Authorization needs the environment variable NOTES_TOKEN, which is not set"
    )
    monkeypatch.setenv("NOTES_TOKEN", "s3cret")
    assert asyncio.run(scene("s3cret")) == ["list_notes"]
    assert asyncio.run(scene("another")) == "cannot be used: MCPError: Server returned an error response"
    monkeypatch.setenv("NOTES_TOKEN", "s3\ncret")
    assert asyncio.run(scene("s3cret")) == "cannot be used: its header Authorization has an invalid character"


def test_headers_and_variables_take_secrets_that_no_result_may_contain(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> list[str] | str:
        async with served("hunter2-and-more") as url:
            try:
                return await tools_of(McpServer(url=url, headers={"Authorization": "Bearer ${secret.NOTES}"}, allow=("list_notes",)))
            except InvalidInput as refused:
                return str(refused).partition("/mcp ")[2]

    assert str(asyncio.run(scene())).startswith("cannot be used: secret NOTES is not set")
    monkeypatch.setenv("ASTERISM_SECRET_NOTES", "hunter2-and-more")
    assert asyncio.run(scene()) == ["list_notes"]
    script = Script({"add_note": {"text": "hunter2-and-more"}}, "done")
    run(script, McpServer(command=SERVER, env={"TOKEN": "${secret.NOTES}"}, allow=("add_note",)))
    assert "the result contains the secret NOTES" in script.told["add_note"]
    assert "hunter2" not in script.told["add_note"]


def test_invalid_protocol_messages_of_a_server_do_not_reach_the_screen() -> None:
    program = (
        "import asyncio, sys; from asterism.errors import InvalidInput; from asterism.loop.python.server import McpServer; "
        "from asterism.engine.runtime.resources import open_resources; "
        "server = McpServer(command=(sys.executable, '-c', 'print(1234, [])'), allow=('x',))\n"
        "async def main():\n"
        "    async with open_resources() as keeper:\n"
        "        try: await server.tools(keeper)\n"
        "        except InvalidInput as error: print(error)\n"
        "asyncio.run(main())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert ("cannot be used" in done.stdout, done.stderr) == (True, "")


def test_other_output_of_a_server_reaches_only_the_log(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    server = McpServer(command=(sys.executable, "-c", "import sys; print('no such table', file=sys.stderr)"), allow=("x",))

    def told() -> str:
        with pytest.raises(
            InvalidInput,
            match=r"Connection closed; its own output is in the log asterism.loop.python, at level INFO \(.*ASTERISM_LOG=info\)$",
        ):
            asyncio.run(tools_of(server))
        return capfd.readouterr().err

    assert told() == ""
    caplog.set_level("INFO", "asterism.loop.python")
    assert told() == "no such table\n"


def test_a_server_with_nothing_allowed_offers_nothing() -> None:
    script = Script({"add_note": {"text": "x"}}, "no")
    run(script, McpServer(command=SERVER))
    assert (script.offered[0], json.loads(script.told["add_note"])["status"]) == ([], "denied")


def test_a_tool_that_is_not_declared_harmless_is_confirmed() -> None:
    async def scene() -> dict[str, str]:
        async with open_resources() as keeper:
            server = McpServer(command=SERVER, allow=("list_notes", "add_note", "remove_notes"), gates={"add_note": "external"})
            return {name: it.gate for name, it in (await ModelWorker("any:model", "", tools=[server]).open_tools(keeper)).items()}

    assert asyncio.run(scene()) == {"list_notes": "", "add_note": "external", "remove_notes": "destructive"}


def test_the_model_sees_an_error_and_a_crash_of_a_server_and_it_is_restarted() -> None:
    script = Script({"add_note": {"text": ""}}, {"die": {}}, {"list_notes": {}}, "it died once")
    server = McpServer(command=SERVER, allow=("add_note", "die", "list_notes"), gates={"die": ""})
    assert run(script, server).answer == "it died once"
    assert "a note has a text" in script.told["add_note"]
    assert json.loads(script.told["die"])["status"] == "failed"
    assert "[]" in script.told["list_notes"]


@pytest.mark.parametrize(
    ("server", "why"),
    [
        (
            McpServer(command=("no-such-program-here",), allow=("x",)),
            "no-such-program-here cannot be used: FileNotFoundError",
        ),
        (McpServer(url="http://127.0.0.1:9/mcp", allow=("x",)), "http://127.0.0.1:9/mcp cannot be used: ConnectError"),
        (McpServer(command=SERVER, allow=("fly",)), r"the MCP server has no tool fly; it has list_notes, add_note, remove_notes, die"),
    ],
)
def test_an_unavailable_server_fails_the_step_in_one_line(server: McpServer, why: str) -> None:
    ended = run(Script("never"), server)
    assert ended.state == "FAILED"
    assert re.search(why, ended.reason)


def test_an_http_answer_that_is_not_json_is_reported_in_one_line() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        await writer.drain()
        writer.close()

    async def scene() -> str:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as http:
            url = f"http://127.0.0.1:{http.sockets[0].getsockname()[1]}/mcp"
            with pytest.raises(InvalidInput) as refused:
                await tools_of(McpServer(url=url, allow=("x",)))
            return str(refused.value)

    told = asyncio.run(scene())
    assert "cannot be used: MCPError: Failed to parse JSON response" in told
    assert "\n" not in told


# -- the pieces ------------------------------------------------------------------------------------------


def test_two_tools_of_one_name_are_refused() -> None:
    async def scene() -> None:
        async with open_resources() as keeper:
            await ModelWorker("any:model", "", tools=[double, double]).open_tools(keeper)

    with pytest.raises(InvalidInput, match="two tools of one worker have the name double"):
        asyncio.run(scene())


@pytest.mark.parametrize(
    ("path", "inside"),
    [("a.txt", True), ("deep/a.txt", True), ("../b.txt", False), ("/etc/passwd", False), ("link/x", False), (["a", "../b"], False)],
)
def test_a_scope_within_a_folder_follows_dots_and_links(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: Any,
    inside: bool,  # noqa: FBT001 - a case
) -> None:
    home = tmp_path / "home"
    (home / "deep").mkdir(parents=True)
    (home / "link").symlink_to("/etc")
    monkeypatch.chdir(home)
    assert (within(str(home), "path")({"path": path}) is None) == inside


def test_a_call_is_checked_against_its_tool() -> None:
    found = gated(ToolCall(call_id="c", tool="double"), {"double": tool(double, idempotent=True, gate="first_time")})
    assert (found.denied, found.gate, found.idempotent) == ("", "first_time", True)
    assert found.parameters["properties"] == {"number": {"type": "integer"}}
    assert gated(ToolCall(call_id="c", tool="double"), {"double": tool(double)}).parameters == {}


def supervised(replies: Sequence[str]) -> Callable[[], FunctionModel]:
    left = list(replies)
    return lambda: FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart(content=left.pop(0))]))


def test_a_model_may_plan_reflect_synthesize_and_criticise() -> None:
    async def look(handoff: object) -> str:
        return "a heron"

    plan = 'Here is the plan:\n```json\n[{"step_id": "s", "worker": "look", "intent": "look"}]\n```'
    loop = OrchestrationLoop(
        plan=supervised([plan])(),
        workers={"look": look},
        reflect=supervised(["Done."])(),
        synthesize=supervised(["a bird", "a grey heron"])(),
        critique=supervised(["which one?", "OK"])(),
    )
    ended = asyncio.run(loop.run("what is there?"))
    assert (ended.state, ended.answer) == ("COMPLETE", "a grey heron")


def test_an_invalid_json_plan_is_asked_for_again() -> None:
    async def look(handoff: object) -> str:
        return "x"

    loop = OrchestrationLoop(plan=supervised(["let me think", '[{"worker": "look", "intent": "x"}]'])(), workers={"look": look})
    assert asyncio.run(loop.run("x")).outcome == "finished"


def test_the_command_of_a_server_can_be_a_list_and_is_no_text() -> None:
    listed, as_tuple = McpServer(command=["server", "--fast"], allow=["x"]), McpServer(command=("server", "--fast"), allow=("x",))
    assert (listed, listed.key) == (as_tuple, as_tuple.key)
    with pytest.raises(InvalidInput, match="the command of an MCP server is a list, program and arguments, not 'server --fast'"):
        McpServer(command="server --fast")
