"""An agent that looks up an order and refunds it; a person approves each refund.

asterism loop run examples/refund/desk.py:desk "Order 17 arrived broken."
"""

import os
from typing import Any

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from asterism.loop.python import LoopView, ModelWorker, OrchestrationLoop, tool

ORDERS = {"17": {"item": "lamp", "paid": 49.9}}


async def look_up(order: str) -> dict[str, Any]:
    """Return an order."""
    return ORDERS[order]


async def refund(order: str, amount: float) -> str:
    """Pay an amount back, in euros."""
    return f"refunded {amount:.2f} euros for order {order}"


async def plan(view: LoopView) -> list[dict[str, Any]]:
    """Hand the request to the agent."""
    return [{"step_id": "answer", "worker": "desk", "intent": view.request}]


def script(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    """Stand in for a model: look up order 17, refund what was paid, and say so."""
    returned = [part.content for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    if not returned:
        return ModelResponse(parts=[ToolCallPart("look_up", {"order": "17"})])
    if len(returned) == 1:
        return ModelResponse(parts=[ToolCallPart("refund", {"order": "17", "amount": ORDERS["17"]["paid"]})])
    return ModelResponse(parts=[TextPart(f"Done: {returned[-1]}.")])


model = os.environ.get("DESK_MODEL") or FunctionModel(script)
tools = [tool(look_up, idempotent=True), tool(refund, gate="external")]
desk = OrchestrationLoop(plan=plan, workers={"desk": ModelWorker(model, "You refund orders that arrived broken.", tools=tools)})
