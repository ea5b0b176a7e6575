"""An A2A agent on the official SDK: an editor, which asks for the title of the file that it is sent, and returns another file.

usage: python -m examples.remote.a2a_agent PORT
"""

from __future__ import annotations

import asyncio
import json
import sys

import uvicorn
from a2a.helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Message, Part
from starlette.applications import Starlette

from examples.remote.skills import PACE_S, digest, note


class Editor(AgentExecutor):
    """Receives a text as a file, asks for its title, and returns the text below the title, also as a file."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Begin a task, or continue it with the answer."""
        task_id, message = context.task_id or "", context.message or Message()
        is_new = context.current_task is None
        note("editor", "start" if is_new else "answer", message.message_id)
        if is_new:
            await event_queue.enqueue_event(new_task_from_user_message(message))
        updater = TaskUpdater(event_queue, task_id, context.context_id or "")
        await updater.start_work()
        await asyncio.sleep(PACE_S)
        if is_new:
            (content,) = (part.raw for part in message.parts if part.raw)
            note("editor", "file", digest(content))
            self._texts[task_id] = content.decode()
            await updater.requires_input(new_text_message("What is the title?"))
            return
        edited = f"{message.parts[0].text}\n\n{self._texts.pop(task_id)}"
        file = Part(raw=edited.encode(), filename="edited.txt", media_type="text/plain")
        await updater.add_artifact([Part(text=json.dumps({"text": edited}), media_type="application/json"), file])
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Cancel a task."""
        note("editor", "cancel")
        await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()


def serve(port: int) -> None:
    """Serve until the process is ended."""
    url = f"http://127.0.0.1:{port}"
    card = AgentCard(
        name="editor",
        description="Gives a text a title",
        version="1",
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain", "application/json"],
        default_output_modes=["application/json"],
        supported_interfaces=[AgentInterface(url=f"{url}/", protocol_binding="JSONRPC", protocol_version="1.0")],
        skills=[AgentSkill(id="title", name="title", description="gives a text a title", tags=["edit"])],
    )
    handler = DefaultRequestHandler(agent_executor=Editor(), task_store=InMemoryTaskStore(), agent_card=card)
    app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
    uvicorn.run(app, port=port, log_level="critical", timeout_graceful_shutdown=1)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
