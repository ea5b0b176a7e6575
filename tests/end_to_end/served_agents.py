"""Runs of all three machines for the tests of a server; as a program, it submits some of each and drives none.

usage: served_agents.py CONSTELLATIONS LOOPS CONVERSATIONS
Whatever has an effect outside writes a line to the file ``done``: its name and its idempotency key.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import asterism
from asterism import Constellation, SkillContext, skill
from asterism.constellation.python.rounds import submit
from asterism.conversation.python import AgentStatus, InputField, StandardAgent, flowagent
from asterism.conversation.python.conversation import Conversation
from asterism.loop.machine.table import ORCHESTRATION_LOOP
from asterism.loop.python import Handoff, LoopView, OrchestrationLoop, Worker


def did(name: str, key: str) -> None:
    with Path("done").open("a", encoding="utf-8") as log:
        log.write(f"{name} {key}\n")


@skill(idempotent=True)
async def prepare(context: SkillContext) -> int:
    """Prepare."""
    did("prepare", context.key)
    await asyncio.sleep(0.2)
    return 1


@skill
async def deploy(context: SkillContext) -> int:
    """Deploy: once is right, twice is not."""
    did("deploy", context.key)
    await asyncio.sleep(0.1)
    return 2


plan = Constellation("served")
prepared = plan.task(prepare)
plan.task(deploy, after=[prepared])


async def steps(view: LoopView) -> Any:
    return [{"step_id": name, "worker": "work", "intent": name, "uses": [] if name == "a" else ["a"]} for name in ("a", "b")]


async def work(handoff: Handoff) -> Any:
    did(f"work_{handoff.intent}", handoff.key)
    await asyncio.sleep(0.2)
    return [handoff.intent]


async def synthesize(view: LoopView) -> Any:
    return len(view.findings)


loop = OrchestrationLoop(plan=steps, workers={"work": Worker(work, idempotent=True)}, synthesize=synthesize)


@flowagent(triggers=["settle"], description="Settle")
class Settle(StandardAgent):
    amount: int = InputField("How much?", ge=1, le=100)
    idempotent = True

    async def on_running(self, msg: Any) -> Any:
        did("settle", self.key)
        await asyncio.sleep(0.2)
        return self.make_result(AgentStatus.COMPLETED, f"Settled {self.amount}.")


async def main(constellations: int, loops: int, conversations: int) -> None:
    async with asterism.connect() as client:
        for _ in range(constellations):
            print(await submit(client, plan))
        for _ in range(loops):
            first = loop.submitted("go", definition="agents.py:loop")
            print(await client.submit(ORCHESTRATION_LOOP, first, title="a loop", actor="test"))
        for _ in range(conversations):
            print(await Conversation(Settle).begin(client, "settle", {"amount": 5}))


if __name__ == "__main__":
    sys.modules["agents"] = sys.modules["__main__"]
    Settle.__module__ = "agents"
    asyncio.run(main(*map(int, sys.argv[1:])))
