"""Scopes that check nothing, or a path other than the opened one, allow nothing."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from asterism.engine.runtime.resources import open_resources
from asterism.errors import InvalidInput
from asterism.loop.python import McpServer, tool, within
from asterism.loop.python.tool import Tool

SERVER = (sys.executable, str(Path(__file__).with_name("mcp_server.py")))


def tools_of(server: McpServer) -> list[Tool]:
    async def scene() -> list[Tool]:
        async with open_resources() as keeper:
            return await server.tools(keeper)

    return asyncio.run(scene())


@pytest.mark.parametrize("more", [{"scopes": {"ad": within("/", "a")}}, {"gates": {"ad": "destructive"}}])
def test_a_scope_or_gate_for_a_tool_that_is_not_allowed_is_refused(more: Any) -> None:
    with pytest.raises(InvalidInput, match="is for ad, which is not allowed; allowed: add_note"):
        tools_of(McpServer(command=SERVER, allow=("add_note",), **more))


def test_a_scope_that_names_no_argument_of_its_tool_is_refused() -> None:
    with pytest.raises(InvalidInput, match="the scope of add_note names path, but add_note takes text"):
        tools_of(McpServer(command=SERVER, allow=("add_note",), scopes={"add_note": within("/", "path")}))
    with pytest.raises(InvalidInput, match="the scope of read names pth, but read takes path"):
        tool(read, scope=within("/", "pth"))


def test_a_scope_without_arguments_is_refused() -> None:
    with pytest.raises(InvalidInput, match="name the arguments"):
        within("/")


def read(path: str) -> str:
    return path


@pytest.mark.parametrize("path", ["secret.txt", "~/.ssh/id", "~root", {"home": 1}, [["/etc/passwd"]], 5, True, ["home/a", None, {}]])
def test_a_path_that_may_resolve_outside_is_not_within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (scope,) = tool(read, scope=within(str(tmp_path / "home"), "path")).scopes
    assert "is not within" in str(scope({"path": path}))
    assert scope({"path": "home/a.txt"}) is None
    assert scope({"path": str(tmp_path / "home" / "a.txt")}) is None


def test_a_relative_path_is_relative_to_the_folder_of_its_server(tmp_path: Path) -> None:
    server = McpServer(
        command=SERVER, allow=("add_note",), scopes={"add_note": within(str(tmp_path / "home"), "text")}, folder=str(tmp_path)
    )
    ((scope,),) = [it.scopes for it in tools_of(server)]
    assert scope({"text": "secret.txt"}) == f"text 'secret.txt' is not within {tmp_path / 'home'}"
    assert scope({"text": "home/a.txt"}) is None
