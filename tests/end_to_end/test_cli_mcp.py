"""Any MCP client watches and edits: a live run and a plan file, over stdio and streamable HTTP, with real processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult

from asterism.constellation.planner.editor import RESOURCE
from tests.end_to_end.desk import TIMEOUT_S, Desk
from tests.support.constellations import SEVEN, seed

GATE = {"task_id": "gate", "name": "wait", "device": "desk"}
AFTER = {"task_id": "after", "name": "deploy", "device": "server"}
THEN = [{"from": "gate", "to": "after"}]
NEW = {"task_id": "new", "name": "measure", "device": "desk"}
Talk = Callable[[Client], Awaitable[None]]


def stdio(desk: Desk, *arguments: str | Path) -> StdioServerParameters:
    command, *rest = desk.argv("mcp", "edit", *arguments)
    return StdioServerParameters(command=command, args=rest, env=desk.environment())


@asynccontextmanager
async def http(desk: Desk, *arguments: str | Path) -> AsyncIterator[str]:
    server = desk.start("mcp", "edit", *arguments, "--http", "127.0.0.1:0")
    assert server.stdout is not None
    try:
        yield (await asyncio.to_thread(server.stdout.readline)).strip()
    finally:
        server.send_signal(signal.SIGINT)
        _, said = await asyncio.to_thread(server.communicate, timeout=TIMEOUT_S)
        assert (server.returncode, said) == (130, "asterism: interrupted\n")


def talk_over(desk: Desk, how: str, arguments: tuple[str | Path, ...], talk: Talk) -> None:
    async def main() -> None:
        if how == "stdio":
            async with Client(stdio(desk, *arguments)) as client:
                await talk(client)
        else:
            async with http(desk, *arguments) as url, Client(url) as client:
                await talk(client)

    asyncio.run(main())


def told(answer: CallToolResult) -> dict[str, Any]:
    assert answer.structured_content is not None
    content: dict[str, Any] = answer.structured_content
    return content


class Live:
    """A run whose first task waits at the gate, driven by a process of its own."""

    def __init__(self, desk: Desk, *tasks: dict[str, Any], dependencies: list[dict[str, str]] = THEN) -> None:
        plan = desk.plan(*(tasks or (GATE, AFTER)), dependencies=dependencies)
        self.process = desk.start("run", plan, "--fleet", desk.fleet, gated=True)
        desk.reach()
        self.run: str = desk.runs()[0]["run"]

    def end(self, desk: Desk) -> int:
        desk.open_gate()
        self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode


@pytest.mark.parametrize("how", ["stdio", "http"])
def test_a_client_edits_a_live_run_and_the_log_that_follows_it_shows_the_edit(desk: Desk, how: str) -> None:
    live = Live(desk)
    following = desk.start("log", live.run, "--follow")

    async def talk(client: Client) -> None:
        assert {tool.name for tool in (await client.list_tools()).tools} == {*SEVEN, "apply_edits"}
        added = told(await client.call_tool("add_task", NEW))
        assert (added["changed"], added["version"]) == (True, 2)
        assert [task["status"] for task in added["constellation"]["tasks"]][:2] == ["RUNNING", "WAITING_DEPENDENCY"]
        refused = await client.call_tool("remove_task", {"task_id": "gate"})
        assert refused.is_error
        assert told(refused) == {
            "code": "read_only",
            "what": "gate",
            "why": "it is RUNNING; only PENDING and WAITING_DEPENDENCY tasks may be edited",
        }
        again = told(await client.call_tool("add_task", NEW))
        assert (again["changed"], again["notes"]) == (False, ["add_task new: it is there already"])
        removed = told(await client.call_tool("remove_task", {"task_id": "after"}))
        assert [task["task_id"] for task in removed["constellation"]["tasks"]] == ["gate", "new"]
        seen = await client.read_resource(RESOURCE)
        assert json.loads(seen.contents[0].text)["version"] == 3  # type: ignore[union-attr]

    talk_over(desk, how, (live.run,), talk)
    assert following.stdout is not None
    said = ""
    while "version 3" not in said:  # as it happens: the run goes on
        line = following.stdout.readline()
        assert line
        said += line
    assert live.end(desk) == 0
    following.communicate(timeout=TIMEOUT_S)
    assert "adds the task on desk, version 2" in said
    assert "removes the task, version 3" in said
    assert "refused: gate: it is RUNNING" in said
    assert "by mcp" in said
    assert {line.split()[0] for line in desk.performed()} == {"gate", "new"}


@pytest.mark.parametrize("how", ["stdio", "http"])
def test_a_client_edits_a_live_run_with_a_batch_that_starts_nothing_before_its_end(desk: Desk, how: str) -> None:
    tasks = ({**GATE, "task_id": "task_003"}, {**AFTER, "task_id": "task_004"})
    live = Live(desk, *tasks, dependencies=[{"from": "task_003", "to": "task_004"}])
    actions = seed("editing")["actions"]
    actions[0]["parameters"] |= {"name": "measure", "device": "desk"}

    async def talk(client: Client) -> None:
        before = (await client.read_resource(RESOURCE)).contents[0].text  # type: ignore[union-attr]
        refused = await client.call_tool(
            "apply_edits", {"actions": [*actions, {"tool": "remove_task", "parameters": {"task_id": "task_003"}}]}
        )
        assert refused.is_error
        assert {name: told(refused)[name] for name in ("code", "what", "index")} == {"code": "read_only", "what": "task_003", "index": 3}
        assert (await client.read_resource(RESOURCE)).contents[0].text == before  # type: ignore[union-attr]
        applied = told(await client.call_tool("apply_edits", {"actions": actions}))
        assert (applied["changed"], applied["version"]) == (True, 2)
        found = {task["task_id"]: task["status"] for task in applied["constellation"]["tasks"]}
        assert found == {"task_003": "RUNNING", "task_005": "WAITING_DEPENDENCY"}

    talk_over(desk, how, (live.run,), talk)
    assert live.end(desk) == 0
    assert desk.performed() == ["task_003", "task_005"]
    said = desk.do("log", live.run).stdout
    assert "refused: actions[3] task_003: it is RUNNING" in said
    assert said.count(", version 2") == 1, "the batch is one entry"


def test_rubbish_is_refused_by_code_and_leaves_the_run_alone(desk: Desk) -> None:
    live = Live(desk)

    async def talk(client: Client) -> None:
        calls: list[tuple[str, Any, str]] = [
            ("add_task", {}, "bad_content"),
            ("add_task", {**NEW, "colour": "red"}, "bad_content"),
            ("add_task", {**NEW, "device": "moon"}, "unknown_device"),
            ("add_task", {**NEW, "inputs": {"accuracy": "high", "colour": 1}}, "unknown_argument"),
            ("add_task", {**NEW, "inputs": {"accuracy": [1]}}, "bad_argument"),
            ("update_task", {"task_id": "after", "inputs": [1]}, "bad_content"),
            ("add_dependency", {"from": "after", "to": "after"}, "cycle"),
            ("build_constellation", {"tasks": [NEW], "clear": True}, "read_only"),
            ("format_disk", {"now": True}, "unknown_edit"),
        ]
        for tool, arguments, code in calls:
            answer = await client.call_tool(tool, arguments)
            assert (answer.is_error, told(answer)["code"]) == (True, code), tool

    talk_over(desk, "stdio", (live.run,), talk)
    assert live.end(desk) == 0
    assert json.loads(desk.do("show", live.run, "--json").stdout)["constellation"]["version"] == 1


def test_several_clients_edit_one_run_at_once(desk: Desk) -> None:
    live = Live(desk)

    async def main() -> None:
        async with http(desk, live.run) as url, Client(url) as one, Client(url) as two, Client(stdio(desk, live.run)) as three:
            async with asyncio.TaskGroup() as group:
                calls = [
                    group.create_task(client.call_tool("add_task", {**NEW, "task_id": f"n{who}{number}"}))
                    for who, client in enumerate((one, two, three))
                    for number in range(4)
                ]
            assert not any(call.result().is_error for call in calls)
            versions = [told(call.result())["version"] for call in calls]
            assert max(versions) == 13

    asyncio.run(main())
    assert live.end(desk) == 0
    assert len(desk.performed()) == 14


async def until(client: Client, task_id: str, status: str) -> None:
    """Look at the constellation until a task is so."""
    async with asyncio.timeout(TIMEOUT_S):
        while True:
            seen = json.loads((await client.read_resource(RESOURCE)).contents[0].text)  # type: ignore[union-attr]
            if any((task["task_id"], task["status"]) == (task_id, status) for task in seen["tasks"]):
                return


def test_a_run_that_waits_for_a_person_is_edited_and_driven_by_the_editor(desk: Desk) -> None:
    desk.do("run", desk.plan({**AFTER, "requires_approval": True}), "--fleet", desk.fleet, code=3)
    run = desk.runs()[0]["run"]

    async def main() -> None:
        async with http(desk, run) as url, Client(url) as client:
            for task_id in ("one", "two"):
                assert told(await client.call_tool("add_task", {**NEW, "task_id": task_id}))["changed"]
                await until(client, task_id, "COMPLETED")

    asyncio.run(main())
    assert [line.split()[0] for line in desk.performed()] == ["one", "two"]
    assert (desk.runs()[0]["status"], desk.runs()[0]["via"]) == ("waiting", "network")  # H1: no text is a path from now on


def test_a_run_whose_owner_was_killed_is_edited_and_driven_by_the_editor(desk: Desk) -> None:
    live = Live(desk)
    live.process.kill()
    live.process.communicate(timeout=TIMEOUT_S)

    async def main() -> None:
        async with http(desk, live.run) as url, Client(url) as client:
            assert told(await client.call_tool("add_task", NEW))["changed"]
            await until(client, "after", "COMPLETED")
            await until(client, "new", "COMPLETED")

    asyncio.run(main())
    assert sorted(line.split()[0] for line in desk.performed()) == ["after", "gate", "gate", "new"]  # the gate is idempotent


def test_a_run_that_has_ended_is_not_edited(desk: Desk) -> None:
    desk.do("run", desk.plan(AFTER), "--fleet", desk.fleet)
    run = desk.runs()[0]["run"]
    told = desk.do("mcp", "edit", run, code=1)
    assert told.stderr == f"asterism: run {run} has already ended (finished); fork it to continue from an earlier entry\n"


def test_a_run_that_ends_meanwhile_refuses_with_words(desk: Desk) -> None:
    live = Live(desk)

    async def talk(client: Client) -> None:
        assert await asyncio.to_thread(live.end, desk) == 0
        answer = await client.call_tool("add_task", NEW)
        assert told(answer) == {"code": "ended", "what": "run", "why": "it has ended (finished); nothing of it can be edited any more"}

    talk_over(desk, "stdio", (live.run,), talk)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("261121-00000000",), "there is no run '261121-00000000'"),
        (("nowhere.json",), "there is no such plan file"),
        (("other.json",), "expected an object with tasks"),
        (("cycle.json",), "the plan has a cycle"),
        (("plan.json", "--http", "0.0.0.0:0"), "there is no login, so the host must be local"),
        (("plan.json", "--http", "127.0.0.1"), "expected HOST:PORT"),
        (("plan.json", "--http", "127.0.0.1:99999"), "cannot listen on 127.0.0.1 port 99999"),
        (("plan.json", "--fleet", "none.toml"), "none.toml"),
    ],
)
def test_what_cannot_be_edited_is_one_line_and_exit_2(desk: Desk, arguments: tuple[str, ...], said: str) -> None:
    plan = desk.plan(AFTER)
    if "00000000" in arguments[0]:
        desk.do("run", plan, "--fleet", desk.fleet)  # so that there is a database to look in
    (desk.folder / "other.json").write_text('{"name": "no plan"}', encoding="utf-8")
    cycle = {"tasks": [NEW, AFTER], "dependencies": [{"from": "new", "to": "after"}, {"from": "after", "to": "new"}]}
    (desk.folder / "cycle.json").write_text(json.dumps(cycle), encoding="utf-8")
    named = [str(desk.folder / it) if it.endswith((".json", ".toml")) else it for it in arguments]
    told = desk.do("mcp", "edit", *named, code=2)
    assert said in told.stderr
    assert told.stderr.count("\n") == 1
    assert not told.stdout


# -- plan files ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("how", "suffix"), [("stdio", "json"), ("http", "yaml")])
def test_a_client_edits_a_plan_file_that_then_runs(desk: Desk, how: str, suffix: str) -> None:
    plan = desk.plan(AFTER, name=f"plan.{suffix}")

    async def talk(client: Client) -> None:
        assert not (await client.call_tool("add_task", NEW)).is_error
        answer = await client.call_tool("add_dependency", {"from": "new", "to": "after", "condition": "accuracy > 0.5"})
        assert told(answer)["version"] == 2
        refused = await client.call_tool("add_task", {**NEW, "task_id": "m", "name": "fly"})
        assert told(refused)["code"] == "unknown_skill"
        last = {"tool": "add_task", "parameters": {**NEW, "task_id": "last"}}
        batch = [last, {"tool": "add_dependency", "parameters": {"from": "after", "to": "last"}}]
        refused = await client.call_tool(
            "apply_edits", {"actions": [*batch, {**last, "parameters": {**NEW, "task_id": "m", "name": "fly"}}]}
        )
        assert (told(refused)["code"], told(refused)["index"]) == ("unknown_skill", 2)
        assert told(await client.call_tool("apply_edits", {"actions": batch}))["version"] == 3

    talk_over(desk, how, (plan, "--fleet", desk.fleet), talk)
    desk.do("run", plan, "--fleet", desk.fleet)
    assert [line.split()[0] for line in desk.performed()] == ["new", "after", "last"]


def test_two_clients_in_two_processes_edit_one_plan_file_and_lose_nothing(desk: Desk) -> None:
    plan = desk.plan(AFTER)

    async def main() -> None:
        async with Client(stdio(desk, plan)) as one, Client(stdio(desk, plan)) as two, asyncio.TaskGroup() as group:
            for number in range(10):
                for name, client in (("a", one), ("b", two)):
                    group.create_task(client.call_tool("add_task", {**NEW, "task_id": f"{name}{number}"}))

    asyncio.run(main())
    assert len(json.loads(plan.read_text(encoding="utf-8"))["tasks"]) == 21
    assert sorted(path.name for path in plan.parent.iterdir() if "plan" in path.name) == ["plan.json"]


@pytest.mark.slow
@pytest.mark.parametrize("after_s", [0.0, 0.01, 0.03, 0.1, 0.3])
def test_an_editor_that_is_killed_leaves_a_whole_plan(desk: Desk, after_s: float) -> None:
    plan = desk.plan(AFTER)

    async def main() -> None:
        async with http_killed(desk, plan) as (url, process):
            try:
                async with Client(url) as client, asyncio.TaskGroup() as group:
                    for number in range(200):
                        group.create_task(client.call_tool("add_task", {**NEW, "task_id": f"n{number}"}))
                    await asyncio.sleep(after_s)
                    os.kill(process.pid, signal.SIGKILL)
            except* Exception as gone:  # the server, in the middle of it
                print(f"as it should: {gone}")

    asyncio.run(main())
    there = json.loads(plan.read_text(encoding="utf-8"))["tasks"]
    desk.do("plan", plan, "--fleet", desk.fleet)

    async def talk(client: Client) -> None:
        assert len(told(await client.call_tool("add_task", {**NEW, "task_id": "last"}))["constellation"]["tasks"]) == len(there) + 1

    talk_over(desk, "stdio", (plan,), talk)
    assert sorted(path.name for path in plan.parent.iterdir() if "plan" in path.name) == ["plan.json"]


@asynccontextmanager
async def http_killed(desk: Desk, plan: Path) -> AsyncIterator[tuple[str, subprocess.Popen[str]]]:
    server = desk.start("mcp", "edit", plan, "--http", "127.0.0.1:0")
    assert server.stdout is not None
    yield (await asyncio.to_thread(server.stdout.readline)).strip(), server
    server.communicate(timeout=TIMEOUT_S)


def test_an_editor_that_is_killed_leaves_the_run_alone(desk: Desk) -> None:
    live = Live(desk)

    async def main() -> None:
        async with http_killed(desk, Path(live.run)) as (url, process):
            try:
                async with Client(url) as client:
                    await client.call_tool("add_task", NEW)
                    os.kill(process.pid, signal.SIGKILL)
                    await client.call_tool("add_task", {**NEW, "task_id": "never"})
            except* Exception as gone:  # as above
                print(f"as it should: {gone}")

    asyncio.run(main())
    assert live.end(desk) == 0
    assert {line.split()[0] for line in desk.performed()} == {"gate", "after", "new"}


# -- who may call ----------------------------------------------------------------------------------


def test_a_web_page_that_points_its_own_name_here_is_refused(desk: Desk) -> None:
    plan = desk.plan(AFTER)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}

    server = desk.start("mcp", "edit", plan, "--http", "127.0.0.1:0")
    assert server.stdout is not None
    url = server.stdout.readline().strip()

    async def ask() -> list[int]:
        async with httpx2.AsyncClient() as client:
            accept = {"Accept": "application/json, text/event-stream"}
            foreign = ({"Host": "evil.example"}, {"Origin": "https://evil.example"})
            return [(await client.post(url, json=body, headers={**accept, **headers})).status_code for headers in foreign]

    assert asyncio.run(ask()) == [421, 403]
    server.terminate()
    assert server.wait(timeout=TIMEOUT_S) == 130
    server.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_editor_on_stdio_at_once(desk: Desk, number: signal.Signals) -> None:
    server = subprocess.Popen(
        desk.argv("mcp", "edit", desk.plan(AFTER)), env=desk.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}) + "\n")
    server.stdin.flush()
    assert "constellation-editor" in server.stdout.readline()
    server.send_signal(number)
    assert server.wait(timeout=TIMEOUT_S) == 130
    server.stdin.close()
    server.stdout.close()


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def post(port: int, headers: str = "", *, method: str = "POST", missing: int = 0) -> socket.socket:
    """A request of which some bytes never come; the answer is not read."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}) if method == "POST" else ""
    asking = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
    accept = "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
    head = f"{method} /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{accept}{headers}Content-Length: {len(body) + missing}\r\n\r\n"
    asking.sendall((head + body).encode())
    return asking


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_editor_over_http_whatever_its_clients_have_left_open(desk: Desk, number: signal.Signals) -> None:
    server = desk.start("mcp", "edit", desk.plan(AFTER), "--http", "127.0.0.1:0")
    assert server.stdout is not None
    port = int(server.stdout.readline().rpartition(":")[2].removesuffix("/mcp\n"))
    with post(port) as opened:
        session = next(line for line in opened.recv(65536).decode().split("\r\n") if line.lower().startswith("mcp-session-id"))
    with post(port, f"{session}\r\n", method="GET") as stream, post(port, missing=9) as stalled:
        assert b"text/event-stream" in stream.recv(65536)
        for _ in range(200):
            post(port, missing=9).close()
        server.send_signal(number)
        _, said = server.communicate(timeout=TIMEOUT_S)
        assert stalled.fileno() >= 0
    assert (server.returncode, said) == (130, "asterism: interrupted\n")


def test_an_editor_that_cannot_stop_is_ended_when_its_time_is_over() -> None:
    stuck = "from asterism.cli import edit_command as it; it.STOP_S = 0.1; it._bound_the_stop(); import threading; threading.Event().wait()"
    done = subprocess.run([sys.executable, "-c", stuck], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stderr) == (130, "asterism: interrupted\n")


def test_without_the_extra_it_is_one_line_that_names_it(desk: Desk) -> None:
    code = "import sys; sys.modules['mcp'] = None; from asterism.cli import main; sys.exit(main(sys.argv[1:]))"
    told = subprocess.run([sys.executable, "-c", code, "mcp", "edit", "plan.json"], capture_output=True, text=True, check=False)
    assert (told.returncode, told.stderr) == (2, "asterism: asterism mcp edit needs an extra: pip install 'asterism-engine[server]'\n")


def test_nothing_else_of_the_command_line_imports_it() -> None:
    code = "import sys; from asterism.cli import main; main(['--help']); main(['runs', '--help']); sys.exit('mcp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
