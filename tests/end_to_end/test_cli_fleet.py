"""The fleet on the command line: devices that cannot be used, the list of devices, and new devices."""

from __future__ import annotations

import asyncio
import json
import platform
import shutil
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.desk import Desk
from tests.support.a2a_process import AgentProcess
from tests.support.mcp_devices import SCRIPTED
from tests.support.ssh_server import ssh_server

BROKEN = """
[[devices]]
id = "camera"
[[devices.commands]]
name = "shoot"
argv = ["./camera.sh"]
"""


@pytest.fixture
def camera(desk: Desk) -> Desk:
    """A fleet with a device whose program is missing."""
    desk.fleet.write_text(desk.fleet.read_text(encoding="utf-8") + BROKEN, encoding="utf-8")
    return desk


def install(desk: Desk) -> None:
    program = desk.folder / "camera.sh"
    program.write_text("#!/bin/sh\necho smile\n", encoding="utf-8")
    program.chmod(0o755)


def test_a_missing_program_stops_only_the_plans_that_use_it(camera: Desk) -> None:
    measure = camera.plan({"task_id": "m", "device": "desk", "skill": "measure"}, name="measure.json")
    shoot = camera.plan({"task_id": "s", "device": "camera", "skill": "shoot"}, name="shoot.json")
    for command in ("plan", "run"):
        refused = camera.do(command, shoot, "--fleet", camera.fleet, code=2)
        assert refused.stderr == (
            f"asterism: device 'camera' of the plan cannot be used: {camera.fleet}: devices[2] (camera).commands[0].argv[0]: "
            "there is no program './camera.sh'; name one on the PATH, or a path relative to the fleet file\n"
        )
    assert not camera.database.exists()
    camera.do("plan", measure, "--fleet", camera.fleet)
    assert camera.do("run", measure, "--fleet", camera.fleet).stderr == ""
    refused = camera.do("run", "shoot a picture on the camera", "--fleet", camera.fleet, code=2)
    assert refused.stderr.splitlines()[-1].startswith("  device 'camera' cannot be used: ")


def test_a_resumed_run_waits_for_a_device_until_it_can_be_opened(camera: Desk) -> None:
    install(camera)
    shoot = camera.plan({"task_id": "s", "device": "camera", "skill": "shoot", "requires_approval": True})
    camera.do("run", shoot, "--fleet", camera.fleet, code=3)
    (camera.folder / "camera.sh").unlink()
    run = camera.runs()[0]["run"]
    answering = camera.start("answer", run, "approve")
    give_up = time.monotonic() + 30
    while "camera is lost" not in camera.do("log", run).stdout.replace("'", ""):
        assert time.monotonic() < give_up
    install(camera)
    out, err = answering.communicate(timeout=60)
    assert answering.returncode == 0, out + err
    assert "smile" in out


def devices(desk: Desk, *options: str) -> dict[str, dict[str, Any]]:
    found = json.loads(desk.do("fleet", desk.fleet, "--json", *options).stdout)
    return {state["device"]: state for state in found}


def test_the_fleet_shows_the_load_of_runs_in_other_processes_and_when_a_device_was_seen(desk: Desk) -> None:
    assert devices(desk)["desk"] == {
        "device": "desk",
        "kind": "local",
        "health": "ok",
        "reason": "",
        "since": None,
        "last_seen": pytest.approx(time.time(), abs=60),
        "running": 0,
        "queued": 0,
        "limit": 2,
        "skills": ["measure", "wait", "rude", "fail"],
    }
    assert not desk.database.exists()
    unasked = devices(desk, "--no-connect")["server"]
    assert (unasked["health"], unasked["last_seen"], unasked["skills"]) == ("unknown", None, ["deploy", "measure"])
    desk.do("run", desk.plan({"task_id": "d", "device": "server", "skill": "measure"}), "--fleet", desk.fleet)
    assert devices(desk, "--no-connect")["server"]["last_seen"] == pytest.approx(time.time(), abs=60)
    plan = desk.plan(*({"task_id": f"t{number}", "device": "desk", "skill": "wait"} for number in range(3)))
    running = desk.start("run", plan, "--fleet", desk.fleet, gated=True)
    try:
        desk.reach()
        busy = devices(desk)["desk"]
        assert (busy["running"], busy["queued"]) == (2, 1)
        first, line, *_ = desk.do("fleet", "show", desk.fleet).stdout.splitlines()
        assert first.split() == ["DEVICE", "KIND", "HEALTH", "LOAD", "SEEN", "SKILLS"]
        assert line.split("  ")[0] == "desk"
        assert "2 of 2 +1" in line
    finally:
        running.kill()
        running.communicate()
    assert devices(desk)["desk"]["running"] == 0  # nobody drives the run


def test_a_device_that_does_not_answer_is_lost_with_the_reason_and_the_others_are_shown(camera: Desk) -> None:
    agent = '[[devices]]\nid = "agent"\nkind = "a2a"\nurl = "http://127.0.0.1:9"\n'
    camera.fleet.write_text(camera.fleet.read_text(encoding="utf-8") + agent, encoding="utf-8")
    found = devices(camera)
    assert {name: state["health"] for name, state in found.items()} == {"desk": "ok", "server": "ok", "camera": "lost", "agent": "lost"}
    assert "there is no program './camera.sh'" in found["camera"]["reason"]
    assert found["agent"]["reason"] == "http://127.0.0.1:9: All connection attempts failed"
    assert found["agent"]["skills"] is None
    out = camera.do("fleet", camera.fleet).stdout
    assert "agent   a2a    lost    0 of 1        ?\n  http://127.0.0.1:9: All connection attempts failed" in out


def test_a_fleet_file_that_is_missing_is_one_line(desk: Desk) -> None:
    refused = desk.do("fleet", "none.toml", code=2)
    assert refused.stderr == "asterism: none.toml: the fleet file cannot be read: No such file or directory\n"


# -- fleet add ---------------------------------------------------------------------------------------


def test_an_mcp_server_is_added_after_it_was_asked_for_its_tools(desk: Desk) -> None:
    before = desk.fleet.read_text(encoding="utf-8")
    add = ("fleet", "add", "mcp", "tools", "--fleet", desk.fleet)
    done = desk.do(*add, "--env", "STATE_KEY=$CLI_LOG", "--", sys.executable, SCRIPTED, desk.folder)
    assert "  answer()" in done.stdout
    assert done.stdout.splitlines()[-2:] == [f"added tools to {desk.fleet}", f'next: asterism plan "REQUEST" --fleet {desk.fleet}']
    command = json.dumps([sys.executable, str(SCRIPTED), str(desk.folder)])
    table = f'\n[[devices]]\nid = "tools"\nkind = "mcp"\ncommand = {command}\nenv = {{STATE_KEY = "$CLI_LOG"}}\napproval = "destructive"\n'
    assert desk.fleet.read_text(encoding="utf-8") == before + table
    again = desk.do(*add, "--", "true", code=2)
    assert again.stderr == f"asterism: {desk.fleet}: devices[3] (tools).id: there is another device 'tools'; ids are unique\n"


def test_a_server_that_does_not_answer_is_added_only_offline(desk: Desk) -> None:
    file = desk.folder / "new.toml"
    add = ("fleet", "add", "mcp", "tools", "--fleet", file)
    refused = desk.do(*add, "--", "true", code=2)
    assert refused.stderr.startswith("asterism: device 'tools' was not added: the MCP server true cannot be used: ")
    assert refused.stderr.endswith("; --offline adds it without asking it\n")
    assert not file.exists()
    header = "Authorization: Bearer ${secret.TOOLS}"
    done = desk.do(*add, "--offline", "--url", "http://127.0.0.1:9/mcp", "--header", header)
    assert done.stdout == f"added tools to {file}\nnext: asterism fleet {file}\n"
    assert done.stderr.startswith("asterism: secret TOOLS is not set; ")
    (table,) = tomllib.loads(file.read_text(encoding="utf-8"))["devices"]
    assert table["headers"] == {"Authorization": "Bearer ${secret.TOOLS}"}


def test_an_agent_is_added_after_its_card_was_read(desk: Desk) -> None:
    agent = AgentProcess(desk.folder / "agent")
    try:
        done = desk.do("fleet", "add", "a2a", "helper", agent.url, "--fleet", desk.fleet)
    finally:
        agent.kill()
    assert done.stdout.startswith("helper  ")
    assert "kind a2a; 1 at a time" in done.stdout
    assert tomllib.loads(desk.fleet.read_text(encoding="utf-8"))["devices"][-1] == {"id": "helper", "kind": "a2a", "url": agent.url}
    refused = desk.do("fleet", "add", "a2a", "other", "http://127.0.0.1:9", "--fleet", desk.fleet, code=2)
    assert refused.stderr.startswith("asterism: device 'other' was not added: http://127.0.0.1:9: ")


async def add_lab(desk: Desk, host: str, home: Path, *options: str) -> tuple[int | None, str, str]:
    """Add a host as the user of a home, in the folder of the desk; return exit code, output and errors."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *desk.argv("fleet", "add", "ssh", "lab", host, "--fleet", desk.fleet, *options),
        env={**desk.environment(), "HOME": str(home)},
        cwd=desk.folder,
        stdout=pipe,
        stderr=pipe,
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


def test_a_host_is_added_after_it_was_connected_to(desk: Desk) -> None:
    async def scenario() -> tuple[int | None, str, str, int]:
        async with ssh_server(desk.folder / "host") as server:
            keys = desk.folder / "user" / ".ssh"
            keys.mkdir(parents=True)
            for name, new in (("known_hosts", "known_hosts"), ("id", "id_ed25519")):
                shutil.copy(server.home.parent / name, keys / new)
            return *await add_lab(desk, f"127.0.0.1:{server.port}", keys.parent), server.port

    code, out, err, port = asyncio.run(scenario())
    assert (code, err) == (0, "")
    assert f"  {platform.system()} {platform.machine()}\n" in out
    assert f"added lab to {desk.fleet}\nit has no skills yet; add its programs to {desk.fleet}, below the device:\n" in out
    text = desk.fleet.read_text(encoding="utf-8")
    assert tomllib.loads(text)["devices"][-1] == {"id": "lab", "kind": "ssh", "host": f"127.0.0.1:{port}", "no_options": ["*"]}
    desk.fleet.write_text(text + out.partition("below the device:\n")[2].partition("next:")[0], encoding="utf-8")
    assert devices(desk, "--no-connect")["lab"]["skills"] == ["count"]


def test_a_host_is_added_with_its_keys_and_jump_hosts(desk: Desk) -> None:
    async def scenario() -> tuple[tuple[int | None, str, str], tuple[int | None, str, str], dict[str, Any]]:
        async with ssh_server(desk.folder / "host") as server, ssh_server(desk.folder / "gate") as gate:
            known = desk.folder / "user" / ".ssh" / "known_hosts"
            known.parent.mkdir(parents=True)
            known.write_text(server.known_hosts.read_text() + gate.known_hosts.read_text())
            host, jump = f"127.0.0.1:{server.port}", f"127.0.0.1:{gate.port}"
            refused = await add_lab(desk, host, known.parents[1], "--key", "host/none")
            added = await add_lab(desk, host, known.parents[1], "--key", "host/id", "--key", str(gate.key), "--jump", jump)
            assert len(gate.connections) == 1
            table: dict[str, Any] = {"id": "lab", "kind": "ssh", "host": host, "jump": [jump], "keys": ["host/id", str(gate.key)]}
            return refused, added, table | {"no_options": ["*"]}

    refused, added, table = asyncio.run(scenario())
    assert (refused[0], refused[2].count("\n")) == (2, 1)
    assert f"the key {desk.folder}/host/none cannot be read" in refused[2]
    assert (added[0], added[2]) == (0, "")
    assert tomllib.loads(desk.fleet.read_text(encoding="utf-8"))["devices"][-1] == table


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("mcp", "x"), "fleet add mcp x: give either a program, after --, or --url URL"),
        (("mcp", "x", "--url", "http://127.0.0.1:9", "--", "true"), "fleet add mcp x: give either a program, after --, or --url URL"),
        (("mcp", "x", "--header", "A: b", "--", "true"), "headers: only for a server with a url"),
        (("mcp", "x", "--url", "ftp://a"), "is not the URL of an MCP server"),
        (("mcp", "x", "--url", "http://me:pw@127.0.0.1:9"), "the URL contains a credential"),
        (
            ("mcp", "x", "--url", "http://127.0.0.1:9", "--header", "Authorization: Bearer abc"),
            "header Authorization: its value looks like a",
        ),
        (
            ("mcp", "x", "--url", "http://127.0.0.1:9", "--header", "X-Odd"),
            "--header: 'X-Odd' has no value; write it as --header 'NAME: VALUE'",
        ),
        (("mcp", "x", "--url", "http://127.0.0.1:9", "--header", "A: b", "--header", "A: c"), "--header A is given twice"),
        (("mcp", "x", "--env", "API_KEY=abc", "--", "true"), "variable API_KEY: its value looks like a credential"),
        (("mcp", "x", "--", "true", "--token", "abc"), "argument 3 of the command is a credential"),
        (("mcp", "two words", "--", "true"), "devices[2] (two words).id: Expected str"),
        (("mcp", "here", "--", "true"), "'here' is the device of a program's own functions"),
        (("a2a", "x", "agent.example.org"), "url: 'agent.example.org' is not an address"),
        (("a2a", "x", "https://127.0.0.1:9", "--bearer", "abc"), "--bearer: name an environment variable, as '$NAME'"),
        (("ssh", "x", "a b"), "host: 'a b' is not an address"),
        (("ssh", "x", "a", "--jump", "b c"), "jump[0]: 'b c' is not an address"),
    ],
)
def test_what_cannot_be_added_is_one_line_and_writes_nothing(desk: Desk, arguments: tuple[str, ...], why: str) -> None:
    before = desk.fleet.read_text(encoding="utf-8")
    command, name, *rest = arguments
    refused = desk.do("fleet", "add", command, name, "--fleet", desk.fleet, *rest, code=2)
    assert why in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert desk.fleet.read_text(encoding="utf-8") == before


def test_a_path_of_the_current_folder_is_relative_to_the_fleet_file(desk: Desk) -> None:
    (desk.folder / "jobs").mkdir()
    file = desk.folder / "jobs" / "fleet.toml"
    desk.do("fleet", "add", "mcp", "x", "--offline", "--fleet", file, "--", "./server", "-v", cwd=desk.folder)
    desk.do("fleet", "add", "ssh", "y", "lab", "--key", "id", "--offline", "--fleet", file, cwd=desk.folder)
    added = tomllib.loads(file.read_text(encoding="utf-8"))["devices"]
    assert (added[0]["command"], added[1]["keys"]) == (["../server", "-v"], ["../id"])
