# mypy: ignore-errors
"""An agent on the last SDK that speaks A2A 0.3 only; run by the Python of an environment of its own, with a folder.

mypy knows only the newer SDK, which has other types.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, DataPart, Part, TextPart
from a2a.utils import new_task


class Executor(AgentExecutor):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def execute(self, context: Any, event_queue: Any) -> None:
        with (self._folder / "starts").open("a") as starts:
            starts.write(context.message.message_id + "\n")
        task, is_reply = context.current_task or new_task(context.message), context.current_task is not None
        if not is_reply:
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        if not is_reply:
            await updater.requires_input(updater.new_agent_message([Part(root=TextPart(text="Which GPU?"))]), final=True)
            return
        await updater.add_artifact([Part(root=DataPart(data={"chosen": context.get_user_input()}))])
        await updater.complete()

    async def cancel(self, context: Any, event_queue: Any) -> None:
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


async def serve(folder: Path) -> None:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    card = AgentCard(
        name="legacy",
        description="speaks A2A 0.3",
        version="1",
        url=f"{url}/",
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["application/json"],
        skills=[],
    )
    handler = DefaultRequestHandler(agent_executor=Executor(folder), task_store=InMemoryTaskStore())
    server = uvicorn.Server(uvicorn.Config(A2AStarletteApplication(agent_card=card, http_handler=handler).build(), log_level="critical"))
    (folder / "url.new").write_text(url)
    (folder / "url.new").rename(folder / "url")
    await server.serve(sockets=[listening])


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
