"""A loop and a flow agent that read the text of a file."""

from __future__ import annotations

from typing import Any

from asterism import InvalidInput, read_text
from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, OutputField, StandardAgent, flowagent
from asterism.loop.python import Handoff, LoopView, OrchestrationLoop, Worker, tool


async def plan(view: LoopView) -> list[dict[str, Any]]:
    """Plan one step that reads the file."""
    return [{"step_id": "read", "worker": "reader", "intent": "read it", "context": {"file": view.context["file"]}}]


async def read(handoff: Handoff) -> dict[str, str]:
    """Return the text of the file, as a tool of a model reads it, and why it cannot be read."""
    reading = tool(read_text, idempotent=True)
    try:
        return {"text": await reading.call({"file": handoff.context["file"]}, handoff.key)}
    except InvalidInput as error:
        return {"error": str(error)}


async def synthesize(view: LoopView) -> Any:
    """Return the output of the step."""
    return view.output_of("read")


reader = OrchestrationLoop(plan=plan, workers={"reader": Worker(read)}, synthesize=synthesize)


@flowagent(description="Read a file")
class Reader(StandardAgent):
    """Returns the text of a file."""

    file: dict[str, Any] = InputField("Which file?", default={})
    text = OutputField("its text")

    async def on_running(self, msg: Message) -> AgentResult:
        """Read the file."""
        self.text = await read_text(self.file)
        return self.make_result(AgentStatus.COMPLETED, "Read.")
