"""An MCP server on the official SDK, over HTTP: a catalogue. Its only tool asks for the author before it works.

usage: python -m examples.remote.mcp_server PORT
"""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel, Field

from examples.remote.skills import PACE_S, digest, note

server = MCPServer("catalogue", version="1")


FileText = Annotated[str, Field(json_schema_extra={"contentMediaType": "text/plain"})]
"""A text that may be given as a file."""


class Author(BaseModel):
    """The form that is shown."""

    author: str


async def who(text: FileText) -> Elicit[Author]:
    """Ask for the author."""
    return Elicit(f"Who is the author of the {len(text.split())} words?", Author)


@server.tool()
async def register(text: FileText, found: Annotated[ElicitationResult[Author], Resolve(who)]) -> dict[str, Any]:
    """Enter a text into the catalogue."""
    if not isinstance(found, AcceptedElicitation):
        raise ToolError("a text without an author cannot be registered")
    entry = {"author": found.data.author, "number": len(text)}
    note("catalogue", "file", digest(text.encode()))
    note("catalogue", "start", entry)
    try:
        await asyncio.sleep(PACE_S)
    except asyncio.CancelledError:
        note("catalogue", "cancel")
        raise
    return entry


if __name__ == "__main__":
    server.run("streamable-http", port=int(sys.argv[1]))
