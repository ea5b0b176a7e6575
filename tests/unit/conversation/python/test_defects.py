"""A conversation whose moves fail: the handler that is under way goes on with what the journal says, or is called off."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from asterism.conversation.machine.table import FLOW_AGENT
from asterism.conversation.python import AgentResult, AgentStatus, ChildFailed, Message, StandardAgent, flowagent, performer
from asterism.engine.control.children import ChildEnded
from asterism.engine.control.run_control import Pause
from asterism.engine.kernel.machine import Event, Row, StepContext, kind_of
from asterism.loop.python import OrchestrationLoop, Worker
from asterism.testing.ending import Ending
from asterism.testing.people import Crash, ScheduledEvent
from asterism.testing.world import World

REFUSED = "a defect of asterism: pause could not be taken: KeyError: 'a defect in a move'"
SAID: list[str] = []


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


@flowagent(description="Work alone")
class Alone(Waiting):
    async def on_running(self, msg: Message) -> AgentResult:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.child("k", LOOP.start("work")))
                await asyncio.sleep(60)
        finally:
            SAID.append("on_running is over")
        return self.make_result(AgentStatus.COMPLETED, "done")

    async def on_error(self, msg: Message) -> AgentResult | None:
        SAID.append("on_error")
        return await super().on_error(msg)


@flowagent(description="Do not wait", requires_approval=True)
class Hasty(StandardAgent):
    async def on_initializing(self, msg: Message) -> AgentResult | None:
        return self.make_result(AgentStatus.RUNNING)

    async def on_running(self, msg: Message) -> AgentResult:
        SAID.append("on_running")
        return self.make_result(AgentStatus.COMPLETED, "done")


@flowagent(description="Pause before anybody is asked", requires_approval=True)
class Sly(Hasty):
    async def on_initializing(self, msg: Message) -> AgentResult | None:
        self.transition_to(AgentStatus.WAITING_FOR_APPROVAL)
        return self.make_result(AgentStatus.PAUSED, "paused")

    async def on_paused(self, msg: Message) -> AgentResult | None:
        return await self.on_running(msg)


@flowagent(description="Run when it is to be paused", requires_approval=True)
class Contrary(Sly):
    async def on_initializing(self, msg: Message) -> AgentResult | None:
        await asyncio.sleep(10)
        return self.make_result(AgentStatus.WAITING_FOR_APPROVAL, "Shall I?")


@flowagent(description="Take the long way")
class Roundabout(StandardAgent):
    idempotent = True

    async def on_initializing(self, msg: Message) -> AgentResult | None:
        for status in (AgentStatus.PAUSED, AgentStatus.WAITING_FOR_INPUT, AgentStatus.WAITING_FOR_APPROVAL):
            self.transition_to(status)
        return await self.on_running(msg)

    async def on_running(self, msg: Message) -> AgentResult:
        return self.make_result(AgentStatus.COMPLETED, "done")


def fails_over(patch: pytest.MonkeyPatch, kind: type[Event]) -> None:
    """Plant a defect: every live move of a running conversation over such an event raises."""
    sound = FLOW_AGENT.table[AgentStatus.RUNNING][kind]

    def broken(memory: Any, event: Any, context: StepContext) -> Any:
        if not context.replayed:
            raise KeyError("a defect in a move")
        return sound.move(memory, event, context)

    patch.setitem(FLOW_AGENT.table[AgentStatus.RUNNING], kind, Row(broken, sound.to, sound.internal))


def lived(agent: type, *scheduled_events: ScheduledEvent) -> tuple[World, Ending]:
    world = World(scheduled_events=scheduled_events, loops=[LOOP])
    return world, world.run_flow(agent, ["go"])


def events(ending: Ending) -> Sequence[str]:
    return [kind_of(entry.event) for entry in ending.entries]


def test_a_handler_is_notified_of_the_end_of_its_child_after_a_failed_command(monkeypatch: pytest.MonkeyPatch) -> None:
    fails_over(monkeypatch, Pause)
    world, ending = lived(Waiting, ScheduledEvent(at_s=5, what="pause"))
    assert (ending.outcome, ending.memory.prompt) == ("finished", "done")
    assert world.refusals == [REFUSED]
    assert ending.lasted_s < 60


def test_a_handler_is_cancelled_after_a_failed_command(monkeypatch: pytest.MonkeyPatch) -> None:
    fails_over(monkeypatch, Pause)
    world, ending = lived(Waiting, ScheduledEvent(at_s=3, what="pause"), ScheduledEvent(at_s=5, what="cancel"))
    assert (ending.outcome, world.refusals) == ("cancelled", [REFUSED])
    assert ending.lasted_s < 60


def test_a_conversation_that_fails_cancels_its_running_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    SAID.clear()
    fails_over(monkeypatch, ChildEnded)
    _, ending = lived(Alone)
    assert (ending.row.state, ending.outcome, ending.memory.code) == ("ERROR", "failed", "defect")
    assert SAID == ["on_running is over", "on_error"]
    assert events(ending).count("handler_ended") == 2, "the one that was called off, and on_error"


def test_the_machine_rejects_running_without_approval_even_if_the_agent_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    SAID.clear()
    monkeypatch.setattr(performer, "is_before_approval", lambda *_: False)
    _, ending = lived(Hasty)
    assert (ending.row.state, ending.memory.code, SAID) == ("ERROR", "defect", [])
    assert "a transition to RUNNING without an approval" in ending.memory.reason


@pytest.mark.parametrize("is_checked_by", ["the view", "the machine"])
@pytest.mark.parametrize(
    ("agent", "said", "scheduled_events"), [(Sly, ["go", "hello"], ()), (Contrary, ["go"], (ScheduledEvent(at_s=5, what="pause"),))]
)
def test_a_pause_before_the_question_does_not_bypass_an_approval(
    agent: type, said: list[str], scheduled_events: Sequence[ScheduledEvent], is_checked_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    SAID.clear()
    if is_checked_by == "the machine":
        monkeypatch.setattr(performer, "is_before_approval", lambda *_: False)
    ending = World(scheduled_events=scheduled_events).run_flow(agent, said)
    assert (ending.row.state, SAID) == ("ERROR", [])
    assert "a transition to RUNNING without an approval" in ending.memory.reason


@pytest.mark.parametrize("entry", range(4, 9))  # the handler's way to RUNNING has the entries 4 to 7
def test_a_handler_killed_before_running_resumes_once_all_transitions_are_journaled(entry: int) -> None:
    world = World(crashes=[Crash(entry=entry)])
    ending = world.run_flow(Roundabout, ["go"])
    assert (ending.outcome, world.counts["crashed"]) == ("finished", 1)
    assert events(ending).index("handler_notified") < events(ending).index("handler_ended")
