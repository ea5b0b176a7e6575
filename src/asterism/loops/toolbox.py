"""A toolbox: all the tools of one worker, whatever they come from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from asterism.errors import InvalidInput
from asterism.loops.keeper import Keeper
from asterism.loops.server import McpServer
from asterism.loops.tool import Tool, tool

ToolSource = Tool | McpServer | Callable[..., Any]
"""What tools come from: a function may stand for the tool that it makes."""


class Toolbox:
    """The tools of one worker. What is not in it cannot be called, whatever a model wants."""

    def __init__(self, sources: Collection[ToolSource]) -> None:
        self._sources: Sequence[Tool | McpServer] = [it if isinstance(it, Tool | McpServer) else tool(it) for it in sources]

    async def tools(self, keeper: Keeper) -> dict[str, Tool]:
        """By name.

        Raises:
            InvalidInput: a server cannot be used, or two tools have one name.
        """
        found: dict[str, Tool] = {}
        for source in self._sources:
            for each in [source] if isinstance(source, Tool) else await source.tools(keeper):
                if each.name in found:
                    raise InvalidInput(f"two tools of one worker are named {each.name}")
                found[each.name] = each
        return found
