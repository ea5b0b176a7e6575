"""A loop that reads a folder of notes, writes a summary into it, and checks what was written.

Its reader and its writer are models whose tools are those of an MCP filesystem server; the writer's tool can overwrite files, so a
person is shown what it is to write before it writes. Set ``NOTES_MODEL`` (``openai:gpt-4o``, …) for a real model; without it a small
script stands in for one, so that the example runs without a key.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from asterism.loops import Handoff, LoopView, McpServer, ModelWorker, OrchestrationLoop, Worker, within

FOLDER = str(Path(os.environ.get("NOTES_FOLDER", Path(__file__).with_name("notes"))).resolve())
SUMMARY = str(Path(FOLDER) / "summary.md")
SERVER = ("npx", "-y", "@modelcontextprotocol/server-filesystem@2026.8.31", FOLDER)


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """What a model would do here, without one: list, read, and tell; or write what it was handed."""
    returned = {
        part.tool_name: str(part.content)
        for message in messages
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    }
    if any(tool.name == "write_file" for tool in info.function_tools):
        if "write_file" in returned:
            return ModelResponse(parts=[TextPart(content=returned["write_file"])])
        told = "\n".join(str(part.content) for part in messages[0].parts[1:] if hasattr(part, "content"))
        facts = [line for line in told.replace("\\n", "\n").splitlines() if line.endswith(".")]
        content = "# Summary\n\n" + "\n".join(f"- {fact}" for fact in facts) + "\n"
        return ModelResponse(parts=[ToolCallPart("write_file", {"path": SUMMARY, "content": content})])
    if "read_multiple_files" in returned:
        return ModelResponse(parts=[TextPart(content=returned["read_multiple_files"])])
    if "list_directory" in returned:
        names = [word for word in returned["list_directory"].replace("\\n", " ").split() if word.strip('"{}').endswith(".md")]
        paths = [str(Path(FOLDER) / name.strip('"{}')) for name in names if "summary" not in name]
        return ModelResponse(parts=[ToolCallPart("read_multiple_files", {"paths": paths})])
    return ModelResponse(parts=[ToolCallPart("list_directory", {"path": FOLDER})])


MODEL: Any = os.environ.get("NOTES_MODEL") or FunctionModel(scripted)


async def plan(view: LoopView) -> list[dict[str, Any]]:
    """Read, write, check."""
    return [
        {"step_id": "read", "worker": "reader", "intent": f"Read all notes in {FOLDER} and tell what is in them. {view.request}"},
        {"step_id": "write", "worker": "writer", "intent": f"Write a summary of what was read to {SUMMARY}", "uses": ["read"]},
        {"step_id": "check", "worker": "checker", "intent": "Check the summary"},
    ]


async def reflect(view: LoopView) -> str:
    """A step that failed, or that somebody did not want, is the end of it."""
    return "continue" if all(finding.status == "ok" for finding in view.latest) else "fail"


async def check(handoff: Handoff) -> dict[str, Any]:
    """See whether the summary is there, and how long it is."""
    text = Path(SUMMARY).read_text(encoding="utf-8") if Path(SUMMARY).exists() else ""  # noqa: ASYNC240 - one small file
    return {"path": SUMMARY, "words": len(text.split()), "checked_for": handoff.intent}


async def synthesize(view: LoopView) -> dict[str, Any]:
    """What was checked is the answer."""
    checked: dict[str, Any] = view.output_of("check")
    return {"summary": checked["path"], "words": checked["words"]}


loop = OrchestrationLoop(
    plan=plan,
    workers={
        "reader": ModelWorker(
            MODEL,
            "You read files and tell exactly what is in them.",
            tools=[McpServer(command=SERVER, allow=("list_directory", "read_multiple_files"))],
        ),
        "writer": ModelWorker(
            MODEL,
            "You write what you are handed into one file, once, and say so.",
            tools=[McpServer(command=SERVER, allow=("write_file",), scopes={"write_file": within(FOLDER, "path")})],
        ),
        "checker": Worker(check, idempotent=True),
    },
    reflect=reflect,
    synthesize=synthesize,
)
