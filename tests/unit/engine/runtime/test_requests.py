"""Requests of performers: data that does not change while the run goes on, and is the same after a crash."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from asterism.constellation.machine.events import AskPlanner, Dispatch
from asterism.constellation.machine.requests import PlannerRequest
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.conversation.machine.events import AgentStatus, AgentView, CallHandler
from asterism.conversation.machine.requests import HandlerCall
from asterism.devices.model.attempt import Attempt
from asterism.engine.control.children import ChildRequest, SignalChild, StartChild
from asterism.engine.control.run_control import Cancel
from asterism.engine.kernel.machine import StartRequest
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.snapshot import take_snapshot
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.code_version import code_version
from asterism.engine.runtime.snapshots import load
from asterism.loop.machine.effects import AskModel, Reflect
from asterism.loop.machine.model import ToolCall
from asterism.loop.machine.requests import ModelCall, Supervision
from asterism.stores.memory import MemoryStore
from tests.support.constellation_harness import Agent
from tests.support.constellations import plan
from tests.support.loop_harness import Loop, steps
from tests.support.memory_stores import put_snapshot
from tests.unit.conversation.machine.test_flow_agent import Talk


def asked_while_it_works() -> tuple[Agent, str]:
    """One that asks its planner about b while a and then c are under way."""
    agent = Agent(plan("a b c", "a>c"), replan="always", hold="none", max_tokens=1000)
    agent.ends("b", {"x": [1, 2]})
    (question,) = agent.outstanding(AskPlanner)
    return agent, question


@pytest.mark.parametrize("frozen", [False, True])
def test_the_planner_question_is_the_same_after_a_crash(*, frozen: bool) -> None:
    agent, question = asked_while_it_works()
    before: PlannerRequest = agent.run.request(question)
    snapshot = take_snapshot(agent.run, code_version(CONSTELLATION_AGENT)) if frozen else None
    agent.ends("a", {"x": 3})
    assert agent.running() == ["c"], "something has happened since"

    async def taken_up() -> Any:
        store = MemoryStore()
        first, *more = [packer(CONSTELLATION_AGENT).pack(entry) for entry in agent.entries]
        await store.submit(RunRow(run_id="r", machine=CONSTELLATION_AGENT.name, title="", state="START"), first, *more)
        if snapshot:
            put_snapshot(store, snapshot)
        return (await load(store, CONSTELLATION_AGENT, "r"))[0]

    after = asyncio.run(taken_up()).request(question)
    assert after == before == agent.run.request(question)
    assert msgspec.json.encode(after) == msgspec.json.encode(before)
    assert before.constellation is not None
    assert [task["status"] for task in before.constellation["tasks"]] == ["RUNNING", "COMPLETED", "WAITING_DEPENDENCY"]


def test_a_question_is_forgotten_with_its_answer() -> None:
    agent, question = asked_while_it_works()
    assert list(agent.run.fixed_requests) == [question]
    agent.plans()
    assert question not in agent.run.fixed_requests


def test_what_a_planner_and_a_device_are_given_stays_as_it_is() -> None:
    agent, question = asked_while_it_works()
    (attempt,) = agent.outstanding(Dispatch)
    given: list[PlannerRequest | Attempt] = [agent.run.request(question), agent.run.request(attempt)]
    before = msgspec.json.encode(given)
    agent.ends("a", {"x": 3})
    agent.plans(thought="again", status="START")
    assert msgspec.json.encode(given) == before


def test_what_a_supervisor_and_a_model_are_given_stays_as_it_is() -> None:
    loop = Loop(*steps("a:model", "b"))
    loop.replies("", ToolCall(call_id="c", tool="t"))
    loop.returns("c", {"n": 1})
    call: ModelCall = loop.run.request(loop.effect(AskModel))
    loop.replies("found")
    seen: Supervision = loop.run.request(loop.effect(Reflect))
    before = msgspec.json.encode([call, seen])
    loop.says("continue")
    loop.ends("b", "more")
    assert msgspec.json.encode([call, seen]) == before
    assert [made.calls[0].result for made in call.rounds] == [{"n": 1}]
    assert [finding.output for finding in seen.view.findings] == ["found"]


def test_a_handler_call_is_immutable_and_after_a_crash_has_the_progress_made_before() -> None:
    talk = Talk()
    handler = talk.memory.handler_effect
    assert isinstance(talk.run.outstanding[handler], CallHandler)
    call: HandlerCall = talk.run.request(handler)
    before = msgspec.json.encode(call)
    talk.entered(AgentStatus.RUNNING)
    talk.take(Cancel())
    assert msgspec.json.encode(call) == before
    again: HandlerCall = talk.run.request(handler)
    assert (again.handler, again.entered, again.cancel_requested, again.view) == ("on_running", True, True, AgentView())


def test_a_child_is_started_with_the_commands_that_it_has_not_been_sent() -> None:
    agent = Agent(plan("a"))
    start = StartChild(machine="m", start=StartRequest(definition={}))
    agent.run.outstanding = {"r:1.0": start, "r:1.1": start, "r:2.0": SignalChild(effect_id="r:1.0", command={"type": "cancel"})}
    request: ChildRequest = agent.run.request("r:1.0")
    assert (request.start, list(request.signals)) == (start, ["r:2.0"])
    assert agent.run.request("r:1.1").signals == {}
