"""A loop that reads a folder of notes, writes a summary into it, and checks what was written.

Its three workers are models whose tools are those of an MCP filesystem server, each with the few that it needs; the writer's can overwrite
files, so a person is shown exactly what it is to write before it writes. ``NOTES_MODEL`` names the model, ``NOTES_SMALL_MODEL`` a
cheaper one that only reflects; ``python -m examples.notes`` has a script stand in for both.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from asterism.loop.python import LoopView, McpServer, ModelWorker, OrchestrationLoop, within

FOLDER = str(Path(os.environ.get("NOTES_FOLDER", Path(__file__).with_name("notes"))).resolve())
SUMMARY = str(Path(FOLDER) / "summary.md")
SERVER = ("npx", "-y", "@modelcontextprotocol/server-filesystem@2026.8.31", FOLDER)
MODEL = os.environ.get("NOTES_MODEL", "openai:gpt-4o")
SMALL_MODEL = os.environ.get("NOTES_SMALL_MODEL", MODEL)


async def plan(view: LoopView) -> list[dict[str, Any]]:
    """Read, write, check."""
    return [
        {"step_id": "read", "worker": "reader", "intent": f"Read all notes in {FOLDER} and tell what is in them. {view.request}"},
        {"step_id": "write", "worker": "writer", "intent": f"Write a summary of what was read to {SUMMARY}", "uses": ["read"]},
        {"step_id": "check", "worker": "checker", "intent": f"Say how many words are in {SUMMARY}"},
    ]


async def synthesize(view: LoopView) -> dict[str, Any]:
    """What was checked is the answer."""
    return {"summary": SUMMARY, "checked": view.output_of("check")}


def worker(instructions: str, *tools: str) -> ModelWorker:
    """A worker that can call these tools of the server, on what is in the folder."""
    scopes = {name: within(FOLDER, "path", "paths") for name in tools}
    return ModelWorker(MODEL, instructions, tools=[McpServer(command=SERVER, allow=tools, scopes=scopes)], timeout_s=120)


loop = OrchestrationLoop(
    plan=plan,
    workers={
        "reader": worker("You read files and tell exactly what is in them.", "list_directory", "read_multiple_files"),
        "writer": worker("You write what you are handed into one file, once, and say so.", "write_file"),
        "checker": worker("You look into a file and answer in one sentence.", "read_text_file"),
    },
    reflect=SMALL_MODEL,
    synthesize=synthesize,
)
