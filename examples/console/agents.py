"""The loop of the site; its conversations are those of ``examples/flows``."""

from __future__ import annotations

import asyncio
from typing import Any

from asterism.loop.python import Handoff, LoopView, OrchestrationLoop, Worker

FOUND = {
    "logs": "From 09:12 on, every checkout waits 2.4 s for the table of orders.",
    "changes": "Version 2.4.0 was deployed at 09:10. It drops the index on orders.customer.",
    "metrics": "The processor of the database is at 96 %, before 09:10 at 20 %.",
}


async def plan(_: LoopView) -> list[dict[str, Any]]:
    """Look at three places."""
    asked = {"logs": "Which step of the checkout is slow?", "changes": "What was changed before?", "metrics": "What is busy meanwhile?"}
    return [{"step_id": name, "worker": name, "intent": intent} for name, intent in asked.items()]


async def look(handoff: Handoff) -> str:
    """Return what was found."""
    await asyncio.sleep(1)
    return FOUND[handoff.to]


async def synthesize(view: LoopView) -> str:
    """Say why."""
    return f"Restore the index on orders.customer: {len(view.findings)} findings point to it."


slow_checkout = OrchestrationLoop(plan=plan, workers={name: Worker(look, idempotent=True) for name in FOUND}, synthesize=synthesize)
