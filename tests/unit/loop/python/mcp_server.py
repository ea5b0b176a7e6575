"""An MCP server over stdio for tests: it adds, lists and removes notes."""

from __future__ import annotations

import os
import sys

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

server = MCPServer("notes", version="1")
NOTES: list[str] = []


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def list_notes() -> list[str]:
    """List the notes."""
    return NOTES


@server.tool(annotations=ToolAnnotations(destructive_hint=False))
def add_note(text: str) -> str:
    """Add a note."""
    if not text:
        raise ToolError("a note has a text")
    NOTES.append(text)
    return f"noted {text}"


@server.tool()
def remove_notes() -> str:
    """Remove all notes."""
    NOTES.clear()
    return "removed"


@server.tool()
def die() -> str:
    """End the server."""
    os._exit(3)


if __name__ == "__main__":
    sys.exit(server.run("stdio"))
