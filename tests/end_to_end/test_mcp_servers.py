"""Runs on MCP servers that others have written: from PyPI in an environment of their own, and from npm; versions are pinned."""

from __future__ import annotations

import itertools
import json
import shutil
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.desk import Desk

PYPI = ("mcp-server-git==2026.10.19", "mcp-server-time==2026.10.19", "mcp-server-fetch==2026.10.24")
NPM = ("@modelcontextprotocol/server-filesystem@2026.8.31", "@modelcontextprotocol/server-everything@2026.8.31")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the programs of PyPI."""
    folder = tmp_path_factory.mktemp("pypi")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=120)
    install = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PYPI]
    subprocess.run(install, check=True, timeout=400)
    return folder / "bin"


@pytest.fixture(scope="module")
def node_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the programs of npm."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip(f"no npm for {', '.join(NPM)}")
    folder = tmp_path_factory.mktemp("npm")
    subprocess.run([npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder), *NPM], check=True, timeout=400, capture_output=True)
    return folder / "node_modules" / ".bin"


def device(name: str, *command: str | Path, **fields: Any) -> str:
    table = {"id": name, "kind": "mcp", **({"command": [str(part) for part in command]} if command else {}), **fields}
    return "[[devices]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())


def ran(desk: Desk, devices: str, *tasks: dict[str, Any]) -> dict[str, Any]:
    """Run tasks one after the other; return their results by task id."""
    desk.fleet.write_text(devices, encoding="utf-8")
    order = [{"from": one["task_id"], "to": other["task_id"]} for one, other in itertools.pairwise(tasks)]
    desk.do("run", "--fleet", desk.fleet, desk.plan(*tasks, dependencies=order))
    (run,) = desk.runs()
    shown = json.loads(desk.do("show", "--json", run["run"]).stdout)
    return {name: task["result"] for name, task in shown["tasks"].items()}


def task(task_id: str, name: str, skill: str, **inputs: Any) -> dict[str, Any]:
    return {"task_id": task_id, "device": name, "skill": skill, "inputs": inputs}


def test_git_and_time_and_fetch(desk: Desk, programs: Path) -> None:
    repository = desk.folder / "repository"
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    (repository / "new.txt").write_text("new\n", encoding="utf-8")

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the name is the library's
            self.send_response(200 if self.path == "/page" else 404)
            self.end_headers()
            self.wfile.write(b"a page about herons")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as pages:
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        devices = (
            device("git", programs / "mcp-server-git", "--repository", repository)
            + device("clock", programs / "mcp-server-time", "--local-timezone", "UTC")
            + device("web", programs / "mcp-server-fetch", "--ignore-robots-txt", "--allow-private-ips")
        )
        results = ran(
            desk,
            devices,
            task("status", "git", "git_status", repo_path=str(repository)),
            task("convert", "clock", "convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo"),
            task("page", "web", "fetch", url=f"http://127.0.0.1:{pages.server_port}/page"),
        )
        pages.shutdown()
    assert "new.txt" in json.dumps(results["status"])
    assert "21:00" in json.dumps(results["convert"])
    assert "herons" in json.dumps(results["page"])


def test_filesystem(desk: Desk, node_programs: Path) -> None:
    shelf = desk.folder / "shelf"
    shelf.mkdir()
    results = ran(
        desk,
        device("files", node_programs / "mcp-server-filesystem", shelf),
        task("write", "files", "write_file", path=str(shelf / "note.txt"), content="a heron"),
        task("read", "files", "read_text_file", path=str(shelf / "note.txt")),
    )
    assert (shelf / "note.txt").read_text(encoding="utf-8") == "a heron"
    assert "a heron" in json.dumps(results["read"])


def test_everything_over_stdio_and_http_and_its_question(desk: Desk, node_programs: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = node_programs / "mcp-server-everything"
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    served = subprocess.Popen([program, "streamableHttp"], env={**desk.environment(), "PORT": str(port)}, text=True, **silent)  # type: ignore[call-overload]
    try:
        while "listening" not in served.stderr.readline():
            assert served.poll() is None
        devices = device("all", program, "stdio") + device("remote", url=f"http://127.0.0.1:{port}/mcp")
        results = ran(
            desk,
            devices,
            task("echo", "all", "echo", message="hello"),
            task("sum", "remote", "get-sum", a=2, b=3),
            task("structured", "remote", "get-structured-content", location="New York"),
        )
        assert "hello" in json.dumps(results["echo"])
        assert "5" in json.dumps(results["sum"])
        assert results["structured"]["temperature"]
        plan = desk.plan(task("form", "all", "trigger-elicitation-request"))
        desk.do("run", "--fleet", desk.fleet, plan, code=None)
        (asked,) = json.loads(desk.do("inbox", "--json").stdout)
        assert asked["schema"]["properties"]["name"]["type"] == "string"
    finally:
        served.kill()
        served.communicate()
