"""An MCP server for tests whose calls become tasks: ``python tests/support/mcp_task_server.py FOLDER [PORT]``.

A task is a file in ``FOLDER/tasks``, so another process of the server has it, too. ``FOLDER/calls``
has one line ``tool key`` per call. The file ``FOLDER/release`` ends the tasks of ``held``.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.extension import Extension, MethodBinding

from asterism.devices.kinds.mcp.task_messages import CreatedTask, TaskParams, TasksExtension, UpdateParams

FOLDER = Path(sys.argv[1]) if len(sys.argv) > 1 else Path()
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
SLOW_S = 2.0


def tasks(folder: Path) -> list[dict[str, Any]]:
    """Return all tasks as they are stored."""
    return [json.loads(file.read_text()) for file in sorted((folder / "tasks").glob("*.json"))]


def state_of(task: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the status of a task now, with what belongs to it."""
    tool, answers = task["tool"], task["answers"]
    if task["is_cancelled"]:
        return {"status": "cancelled", "statusMessage": "as was asked"}
    if tool == "fail":
        return {"status": "failed", "error": {"code": -32603, "message": "no such luck"}}
    if tool in ("ask", "ask_for_ever") and (tool != "ask" or not answers):
        # A server shows an answered request for a moment; the client has to know what it has answered.
        shown = range(max(0, len(answers) - 1), len(answers) + 1)
        asked = {"message": f"Who, {len(answers)}?", "mode": "form", "requestedSchema": FORM}
        return {
            "status": "input_required",
            "inputRequests": {f"name-{number}": {"method": "elicitation/create", "params": asked} for number in shown},
        }
    is_working = tool == "wait" or (tool == "held" and not (folder / "release").exists())
    if is_working or (tool == "slow" and time.time() < task["created"] + SLOW_S):
        return {"status": "working", "statusMessage": "under way\x1b[31m"}
    structured = {"answer": {"answer": 42}, "slow": {"slow": True}}.get(tool)
    text = {"ask": str(answers), "large": "x" * (1024 * 1024)}.get(tool, "done")
    return {"status": "completed", "result": {"content": [{"type": "text", "text": text}], "structuredContent": structured}}


class Tasks(Extension):
    """Makes every call a task."""

    identifier = TasksExtension.identifier

    def methods(self) -> list[MethodBinding]:
        async def get(_context: Any, params: TaskParams) -> dict[str, Any]:
            task = self._task(params)
            shown = str(uuid.uuid4()) if task["tool"] == "foreign" else params.task_id
            return {"taskId": shown, "pollIntervalMs": 100, "ttlMs": None, **state_of(task, FOLDER)}

        async def update(_context: Any, params: UpdateParams) -> dict[str, Any]:
            task = self._task(params)
            self._store({**task, "answers": {**task["answers"], **params.input_responses}, "updates": task["updates"] + 1})
            return {}

        async def cancel(_context: Any, params: TaskParams) -> dict[str, Any]:
            self._store({**self._task(params), "is_cancelled": True})
            return {}

        return [
            MethodBinding("tasks/get", TaskParams, get),
            MethodBinding("tasks/update", UpdateParams, update),
            MethodBinding("tasks/cancel", TaskParams, cancel),
        ]

    async def intercept_tool_call(self, params: Any, ctx: Any, call_next: Any) -> CreatedTask:
        key = dict(params.meta or {}).get("asterism.key", "")
        with (FOLDER / "calls").open("a", encoding="utf-8") as file:
            file.write(f"{params.name} {key}\n")
        task_id = str(uuid.uuid4())
        fields = {"tool": params.name, "key": key, "answers": {}, "updates": 0, "is_cancelled": False, "created": time.time()}
        if params.name != "forget":
            self._store({"id": task_id, **fields})
        return CreatedTask(taskId=task_id, pollIntervalMs=50, status="working")  # type: ignore[call-arg]

    def _task(self, params: TaskParams) -> dict[str, Any]:
        file = FOLDER / "tasks" / f"{params.task_id}.json"
        if not file.exists():
            raise MCPError(-32602, "no such task")
        found: dict[str, Any] = json.loads(file.read_text())
        return found

    def _store(self, task: dict[str, Any]) -> None:
        (FOLDER / "tasks").mkdir(exist_ok=True)
        whole = FOLDER / "tasks" / f"{task['id']}.new"
        whole.write_text(json.dumps(task))
        whole.rename(whole.with_suffix(".json"))


server = MCPServer("tasks", version="1", extensions=[Tasks()])


@server.tool()
def answer() -> dict[str, int]:
    raise NotImplementedError


@server.tool()
def slow() -> dict[str, bool]:
    raise NotImplementedError


for name in ("wait", "held", "ask", "ask_for_ever", "fail", "forget", "foreign", "large"):
    server.tool(name=name, structured_output=False)(lambda: None)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        server.run("streamable-http", port=int(sys.argv[2]))
    else:
        server.run("stdio")
