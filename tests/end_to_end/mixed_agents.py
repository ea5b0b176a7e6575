"""Skills, a loop, flow agents and a plan for the mixed load of a server; as a program, it submits loops and conversations.

usage: mixed_agents.py LOOPS SETTLEMENTS PAYMENTS
Whatever has an effect outside writes a line to the file ``done``: its name and its idempotency key.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Any

import asterism
from asterism import Constellation, File, SkillContext, skill
from asterism.conversation.python import AgentStatus, InputField, StandardAgent, flowagent
from asterism.conversation.python.conversation import Conversation
from asterism.loop.machine.table import ORCHESTRATION_LOOP
from asterism.loop.python import Handoff, LoopView, OrchestrationLoop, Worker

LOOP = f"{Path(__file__).resolve()}:loop"
PACE_S = 0.2
HOLD_S = 600.0


def did(name: str, key: str) -> None:
    """Append a line to the file of the effects."""
    with Path(os.environ["ASTERISM_REMOTE_DIR"], "done").open("a", encoding="utf-8") as file:
        file.write(f"{name} {key}\n")


@skill(idempotent=True)
def prepare(context: SkillContext) -> dict[str, int]:
    """Prepare."""
    did("prepare", context.key)
    time.sleep(PACE_S)
    return {"prepared": 1}


@skill
def deploy(context: SkillContext) -> dict[str, int]:
    """Deploy: once is right, twice is not."""
    did("deploy", context.key)
    time.sleep(PACE_S)
    return {"deployed": 2}


@skill(idempotent=True)
def attach(context: SkillContext) -> File:
    """Return a file."""
    path = context.folder / "attached.txt"
    path.write_text("A file that goes from task to task.", encoding="utf-8")
    did("attach", context.key)
    return File(path)


@skill(idempotent=True)
def measure(file: Path, context: SkillContext) -> dict[str, int]:
    """Return the size of a file."""
    did("measure", context.key)
    return {"size": len(file.read_bytes())}


@skill(idempotent=True)
def fail(context: SkillContext) -> None:
    """Fail."""
    did("fail", context.key)
    raise ValueError("no luck")


@skill(idempotent=True)
def hold(context: SkillContext) -> None:
    """Wait until the run is cancelled."""
    did("hold", context.key)
    time.sleep(HOLD_S)


@skill(idempotent=True)
def tick(context: SkillContext) -> None:
    """Do the work of a schedule."""
    did("tick", context.key)


ticking = Constellation("ticking")
ticking.task(tick)


async def steps(view: LoopView) -> Any:
    """Plan two steps."""
    return [
        {"step_id": "look", "worker": "look", "intent": "look"},
        {"step_id": "post", "worker": "post", "intent": "post", "uses": ["look"]},
    ]


async def look(handoff: Handoff) -> Any:
    """Look; repeating it is harmless."""
    did("look", handoff.key)
    await asyncio.sleep(PACE_S)
    return ["seen"]


async def post(handoff: Handoff) -> Any:
    """Post: once is right, twice is not."""
    did("post", handoff.key)
    await asyncio.sleep(PACE_S)
    return ["posted"]


async def synthesize(view: LoopView) -> Any:
    """Return the number of findings."""
    return len(view.findings)


loop = OrchestrationLoop(
    plan=steps, workers={"look": Worker(look, idempotent=True), "post": Worker(post, requires_approval=True)}, synthesize=synthesize
)


@flowagent(triggers=["settle"], description="Settle")
class Settle(StandardAgent):
    """Settles an amount; repeating it under the same key is harmless."""

    amount: int = InputField("How much?", ge=1, le=100)
    idempotent = True

    async def on_running(self, msg: Any) -> Any:
        """Settle."""
        did("settle", self.key)
        await asyncio.sleep(PACE_S)
        return self.make_result(AgentStatus.COMPLETED, f"Settled {self.amount}.")


@flowagent(triggers=["pay"], description="Pay", requires_approval=True)
class Pay(StandardAgent):
    """Pays an amount, after an approval: once is right, twice is not."""

    amount: int = InputField("How much?", ge=1, le=100)

    async def on_running(self, msg: Any) -> Any:
        """Pay."""
        did("pay", self.key)
        await asyncio.sleep(PACE_S)
        return self.make_result(AgentStatus.COMPLETED, f"Paid {self.amount}.")


async def main(loops: int, settlements: int, payments: int) -> None:
    """Submit runs, and print the id of each with its kind."""
    async with asterism.connect() as client:
        for _ in range(loops):
            first = loop.submitted("go", definition=LOOP)
            print("loop", await client.submit(ORCHESTRATION_LOOP, first, title="a loop", actor="test"))
        for agent, count in ((Settle, settlements), (Pay, payments)):
            for _ in range(count):
                print(agent.__name__.lower(), await Conversation(agent).begin(client, agent.__name__.lower(), {"amount": 5}))


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
