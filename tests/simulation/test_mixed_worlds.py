"""Loops and conversations in the world: what it has found stays found, and its checks bite where a bug is planted."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, StandardAgent, performer
from asterism.conversation.python.agent_state import agent_view
from asterism.conversation.python.performer import HandlerPerformer
from asterism.conversation.python.registry import agent_class
from asterism.engine.kernel.machine import StepContext
from asterism.loop.machine import reflection, steps
from asterism.loop.machine import steps as loop_steps
from asterism.loop.machine.inquiries import approved, ask_about
from asterism.loop.machine.memory import Activity, LoopMemory
from asterism.loop.machine.model import State, Step
from asterism.testing.people import Crash, Line
from asterism.testing.world import World
from tests.simulation.__main__ import main
from tests.simulation.test_checkers import found

PIN = "correct-horse"


class Vault(StandardAgent):
    pin: str = InputField("Pin?", secret=True)
    name: str = InputField("Name?")

    async def on_running(self, msg: Message) -> AgentResult:
        await asyncio.sleep(10)
        return self.make_result(AgentStatus.COMPLETED, f"Opened for {self.name}, who knows {len(self.pin)} characters.")


# -- what was found ------------------------------------------------------------------------------------


def test_an_interrupted_agent_does_not_run_again_without_the_secret_that_its_process_knew() -> None:
    world = World(crashes=[Crash(entry=17, after_s=3)])
    ending = world.run_flow(Vault, ["open it", PIN, "Ada", "yes", PIN])
    assert world.counts["crashed"] == 1
    assert [it.text for it in ending.memory.history if it.by == "agent"][2:] == [
        "I have to ask you again. Pin?",
        "Opened for Ada, who knows 13 characters.",
    ]


@pytest.mark.parametrize("seed", range(20))
def test_a_secret_that_is_said_twice_does_not_become_the_next_field(seed: int) -> None:
    again = Line(text=PIN, after_s=0, waits=False)
    ending = World(seed).run_flow(Vault, ["open it", PIN, again, "Ada"])
    assert PIN.encode() not in ending.journal
    assert ending.memory.view.fields == {"name": "Ada"}


class Slow(Vault):
    async def on_waiting_for_input(self, msg: Message) -> AgentResult | None:
        await asyncio.sleep(5)
        return await super().on_waiting_for_input(msg)


def test_a_secret_that_is_said_again_while_it_is_looked_at_is_not_journaled() -> None:
    ending = World().run_flow(Slow, ["open it", PIN, Line(text=PIN, after_s=2, waits=False), "Ada"])
    assert PIN.encode() not in ending.journal
    assert ending.memory.view.fields == {"name": "Ada"}


# -- what is planted -----------------------------------------------------------------------------------


def test_a_tool_that_is_called_without_its_yes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_gate", lambda memory, activity, call, permitted: "")
    found({9}, "tools")


def test_a_worker_that_begins_without_its_yes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def assume(memory: LoopMemory, activity: Activity, about: Any, prompt: str, context: StepContext, **more: Any) -> None:
        if about == "approval":
            activity.approved = approved(memory, activity, context)
        else:
            ask_about(memory, activity, about, prompt, context, **more)

    monkeypatch.setattr(loop_steps, "ask_about", assume)
    found({9}, "loops")


def test_a_step_that_begins_before_its_turn_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def hasty(memory: LoopMemory) -> list[Step]:
        return memory.plan[memory.position : memory.position + 2]

    monkeypatch.setattr(loop_steps, "_next_group", hasty)
    found({2}, "loops")


def test_an_answer_that_is_lost_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def complete(memory: LoopMemory) -> State:
        memory.code = "finished"
        return memory.enter(State.COMPLETE)

    monkeypatch.setattr(reflection, "_complete", complete)
    found({6}, "loops")


def test_a_no_that_is_taken_for_a_yes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def eager(agent: Any, msg: Message) -> Any:
        agent.transition_to(AgentStatus.RUNNING)
        return await agent.on_running(msg)

    monkeypatch.setattr("asterism.conversation.python.agent.take_approval", eager)
    found({9}, "conversations")


def test_an_agent_that_acts_again_after_a_crash_and_asks_nobody_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    perform = HandlerPerformer.perform

    async def carefree(self: HandlerPerformer, effect_id: str, request: Any, report: Any) -> Any:
        known = agent_class(request.agent)
        again = type("Again", (known,), {"idempotent": True, "__module__": __name__})
        monkeypatch.setattr(performer, "_class_of", lambda call: again)
        return await perform(self, effect_id, request, report)

    monkeypatch.setattr(HandlerPerformer, "perform", carefree)
    found({6}, "conversations")


def test_a_secret_in_the_journal_is_found_and_reported_in_a_few_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def naked(agent: Any) -> Any:
        view = agent_view(agent)
        return type(view)(**{**{name: getattr(view, name) for name in view.__struct_fields__}, "fields": dict(agent._state.fields)})

    monkeypatch.setattr(performer, "agent_view", naked)
    seed = found({11}, "conversations").failure
    assert seed is not None
    assert main(["--one", str(seed[0]), "--profile", "conversations"]) == 1
    told = capsys.readouterr().err
    assert f"again: python -m tests.simulation --profile conversations --one {seed[0]}" in told
    assert "shortest scenario" in told
    assert told.count("crashes: ") == 0


ACTED: list[str] = []


class Acts(StandardAgent):
    requires_approval = True
    resumable = True

    async def on_running(self, msg: Message) -> AgentResult:
        ACTED.append(self.key)
        await asyncio.sleep(60)
        return self.make_result(AgentStatus.COMPLETED, "Done.")


@pytest.mark.parametrize("after_s", [0.0, 30.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_crash_during_on_running_comes_when_its_body_has_been_entered_from_any_handler(seed: int, after_s: float) -> None:
    ACTED.clear()
    world = World(seed, crashes=[Crash(during="on_running", after_s=after_s)])
    ending = world.run_flow(Acts, ["go", "yes"])
    assert (ending.outcome, world.counts["crashed"]) == ("finished", 1)
    assert len(ACTED) == 2
    assert len(set(ACTED)) == 1
