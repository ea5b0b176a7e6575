"""A loop for the tests of the console: its only worker asks before it works."""

from __future__ import annotations

from typing import Any

from asterism.loop.python import Handoff, LoopView, OrchestrationLoop, Worker


async def plan(_: LoopView) -> list[dict[str, Any]]:
    """Write one letter."""
    return [{"step_id": "write", "worker": "writer", "intent": "write the letter"}]


async def write(handoff: Handoff) -> dict[str, str]:
    """Return the letter."""
    return {"letter": handoff.intent}


async def synthesize(view: LoopView) -> str:
    """Say how many were written."""
    return f"{len(view.findings)} written"


loop = OrchestrationLoop(plan=plan, workers={"writer": Worker(write, requires_approval=True)}, synthesize=synthesize)
