"""A conversation whose moves fail: the handler that is under way goes on with what the journal says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from asterism.flows import AgentResult, AgentStatus, ChildFailed, Message, StandardAgent, flowagent
from asterism.kernel.machine import Event, Row, Turn
from asterism.loops import OrchestrationLoop, Worker
from asterism.machines.control import Pause
from asterism.machines.flow_agent.table import FLOW_AGENT
from asterism.simulation.ending import Ending
from asterism.simulation.people import Happening
from asterism.simulation.world import World

REFUSED = "a defect of asterism: Pause could not be taken: KeyError: 'a defect in a move'"


async def plan(view: Any) -> list[dict[str, str]]:
    return [{"step_id": "w", "worker": "w", "intent": "work"}]


async def work(handoff: Any) -> dict[str, bool]:
    await asyncio.sleep(10)
    return {"ok": True}


LOOP = OrchestrationLoop(plan=plan, workers={"w": Worker(work, idempotent=True)})


@flowagent(description="Wait for a loop")
class Waiting(StandardAgent):
    async def on_running(self, msg: Message) -> AgentResult:
        try:
            await self.child("k", LOOP.start("work"))
        except ChildFailed as failed:
            return self.make_result(AgentStatus.COMPLETED, str(failed))
        return self.make_result(AgentStatus.COMPLETED, "done")


def fails_over(patch: pytest.MonkeyPatch, kind: type[Event]) -> None:
    """Plant a defect: every live move of a running conversation over such an event raises."""
    sound = FLOW_AGENT.table[AgentStatus.RUNNING][kind]

    def broken(memory: Any, event: Any, turn: Turn) -> Any:
        if not turn.replayed:
            raise KeyError("a defect in a move")
        return sound.move(memory, event, turn)

    patch.setitem(FLOW_AGENT.table[AgentStatus.RUNNING], kind, Row(broken, sound.to, sound.internal))


def lived(agent: type, *happenings: Happening) -> tuple[World, Ending]:
    world = World(happenings=happenings, loops=[LOOP])
    return world, world.run_flow(agent, ["go"])


def test_a_handler_hears_that_its_child_has_ended_after_a_command_that_met_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    fails_over(monkeypatch, Pause)
    world, ending = lived(Waiting, Happening(at_s=5, what="pause"))
    assert (ending.outcome, ending.memory.prompt) == ("finished", "done")
    assert world.refusals == [REFUSED]
    assert ending.lasted_s < 60


def test_a_handler_is_cancelled_after_a_command_that_met_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    fails_over(monkeypatch, Pause)
    world, ending = lived(Waiting, Happening(at_s=3, what="pause"), Happening(at_s=5, what="cancel"))
    assert (ending.outcome, world.refusals) == ("cancelled", [REFUSED])
    assert ending.lasted_s < 60
