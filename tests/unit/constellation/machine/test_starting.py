"""How each machine begins a run that another run has started, and what each of them starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from asterism.app.bootstrap import FORMS
from asterism.constellation.machine.definition import ConstellationDefinition
from asterism.constellation.machine.events import ConstellationSubmitted, RunOptions
from asterism.constellation.model.documents import PlanDocument, parse_plan
from asterism.conversation.machine.events import AgentStatus as S
from asterism.conversation.machine.events import (
    AgentView,
    ChildRequested,
    ConversationLimits,
    ConversationStarted,
    FlowDefinition,
    Message,
    RunningEntered,
)
from asterism.engine.control.children import StartChild, child_start, child_start_of
from asterism.engine.kernel.machine import Event, StartRequest
from asterism.engine.kernel.profile import AgentProfile, ChildSpec
from asterism.errors import InvalidInput
from asterism.loop.machine.events import LoopDefinition, LoopSubmitted
from asterism.loop.machine.model import LoopOptions, Step, WorkerProfile
from tests.support.constellation_harness import FLEET, Agent
from tests.support.loop_harness import Loop
from tests.unit.conversation.machine.test_flow_agent import Talk

PLAN: PlanDocument = parse_plan({"tasks": [{"task_id": "p", "device": "d"}]})
CONSTELLATION = ConstellationDefinition(
    fleet=FLEET, plan=PLAN, options=RunOptions(replan="always", wall_limit_s=50.0), working_directory="/folder"
)
LOOP = LoopDefinition(
    definition="m:loop",
    working_directory="/folder",
    workers=(WorkerProfile(name="w"),),
    options=LoopOptions(max_steps=3, wall_limit_s=50.0),
    plan=(Step(step_id="a", worker="w", intent="x"),),
    has_critique=True,
)
FLOW = FlowDefinition(agent="m:Agent", limits=ConversationLimits(approval_s=1.0, idle_s=2.0, wall_s=50.0))
DEFINED: dict[str, msgspec.Struct] = {"constellation agent": CONSTELLATION, "orchestration loop": LOOP, "flow agent": FLOW}


def data(given: Any) -> Any:
    """As a journal gives it back."""
    return msgspec.json.decode(msgspec.json.encode(given))


def started(machine: str, start: StartRequest) -> Any:
    starts = FORMS[machine].machine.starts
    assert starts is not None
    return starts(start)


def asked(machine: str, **more: Any) -> StartRequest:
    return StartRequest(definition=data(DEFINED[machine]), request="do it", inputs={"x": 1}, fleet_file="/f.toml", **more)


def test_a_constellation_is_begun_with_its_definition_and_what_is_asked() -> None:
    assert started("constellation agent", asked("constellation agent")) == ConstellationSubmitted(
        request="do it",
        fleet_file="/f.toml",
        working_directory="/folder",
        fleet=FLEET,
        options=CONSTELLATION.options,
        plan=PLAN,
        inputs={"x": 1},
    )


def test_a_loop_is_begun_with_its_definition_and_what_is_asked() -> None:
    assert started("orchestration loop", asked("orchestration loop")) == LoopSubmitted(
        request="do it",
        context={"x": 1},
        definition="m:loop",
        working_directory="/folder",
        fleet_file="/f.toml",
        workers=LOOP.workers,
        options=LOOP.options,
        plan=LOOP.plan,
        has_critique=True,
    )


def test_a_conversation_is_begun_with_its_definition_and_what_is_asked() -> None:
    assert started("flow agent", asked("flow agent")) == ConversationStarted(
        agent="m:Agent", message=Message(text="do it", values={"x": 1}), limits=FLOW.limits, fleet_file="/f.toml"
    )


def limit_of(first: Event) -> float | None:
    assert isinstance(first, ConstellationSubmitted | LoopSubmitted | ConversationStarted)
    return first.limits.wall_s if isinstance(first, ConversationStarted) else first.options.wall_limit_s


@pytest.mark.parametrize("machine", DEFINED)
@pytest.mark.parametrize(("budget_s", "limit_s"), [(None, 50.0), (20.0, 20.0), (70.0, 50.0)])
def test_a_budget_is_a_further_limit(machine: str, budget_s: float | None, limit_s: float) -> None:
    assert limit_of(started(machine, asked(machine, budget_s=budget_s))) == limit_s


@pytest.mark.parametrize("machine", DEFINED)
def test_a_budget_is_the_only_limit_of_what_names_none(machine: str) -> None:
    definition = {"agent": "m:Agent"} if machine == "flow agent" else {}
    month_s = 30 * 86400.0
    assert limit_of(started(machine, StartRequest(definition=definition, budget_s=month_s))) == month_s


@pytest.mark.parametrize("machine", DEFINED)
@pytest.mark.parametrize("odd", [{"odd": 1}, {"type": "Submitted"}, {"options": 5, "limits": 5}])
def test_a_definition_that_a_machine_does_not_know_is_refused(machine: str, odd: dict[str, Any]) -> None:
    start = asked(machine)
    with pytest.raises(InvalidInput, match=r"^a run cannot be started: its definition is not a valid \w+Definition: "):
        started(machine, msgspec.structs.replace(start, definition={**start.definition, **odd}))


# -- what each machine starts ------------------------------------------------------------------------


def of_a_nested_task() -> tuple[StartChild, float]:
    it = Agent({"tasks": [{"task_id": "b", "description": "dig", "inputs": {"x": 1}, "constellation": data(PLAN)}]}, wall_limit_s=50)
    return next(iter(it.outstanding(StartChild).values())), 50


def of_a_task(machine: str) -> Callable[[], tuple[StartChild, float]]:
    def start() -> tuple[StartChild, float]:
        device = AgentProfile(device_id="deep", natural_language=True, child=ChildSpec(machine=machine, definition=data(DEFINED[machine])))
        it = Agent(
            {"tasks": [{"task_id": "b", "description": "dig", "device": "deep", "inputs": {"x": 1}, "timeout_s": 20}]},
            fleet=(*FLEET, device),
        )
        return next(iter(it.outstanding(StartChild).values())), 20

    return start


def of_a_step(machine: str) -> Callable[[], tuple[StartChild, float]]:
    def start() -> tuple[StartChild, float]:
        spec = ChildSpec(machine=machine, definition=data(DEFINED[machine]), accepts=("x",))
        worker = WorkerProfile(name="deep", child=spec, timeout_s=20)
        it = Loop(Step(step_id="a", worker="deep", intent="dig", context={"x": 1, "y": 2}), workers=(worker,))
        effect = it.run.outstanding[it.effect(StartChild)]
        assert isinstance(effect, StartChild)
        return effect, 20

    return start


def of_a_conversation(machine: str) -> Callable[[], tuple[StartChild, float]]:
    def start() -> tuple[StartChild, float]:
        talk = Talk()
        wanted = child_start(machine, StartRequest(definition=data(DEFINED[machine]), request="dig", inputs={"x": 1}), "dig")
        handle = talk.memory.handler_effect
        talk.run.take(RunningEntered(effect_id=handle, transitions=(S.RUNNING,), view=AgentView()), at=1000.0, actor="agent")
        talk.run.take(ChildRequested(effect_id=handle, key="k", start=wanted), at=1000.0, actor="agent")
        return next(it for it in talk.run.outstanding.values() if isinstance(it, StartChild)), 50

    return start


@pytest.mark.parametrize(
    "start", [of_a_nested_task, *(parent(machine) for parent in (of_a_task, of_a_step, of_a_conversation) for machine in DEFINED)]
)
def test_what_a_machine_starts_can_be_begun_with_what_it_was_given(start: Callable[[], tuple[StartChild, float]]) -> None:
    effect, limit_s = start()
    first = started(effect.machine, effect.start)
    assert (effect.start.request, effect.start.inputs, limit_of(first)) == ("dig", {"x": 1}, limit_s)


@pytest.mark.parametrize("odd", [{"request": 5}, {"inputs": []}, {"budget_s": 0}])
def test_an_invalid_request_is_refused_in_words(odd: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"^a flow agent cannot be started with this request: Expected [^\n]+$"):
        child_start("flow agent", StartRequest(definition={}, **odd), "t")


def test_only_what_a_spec_accepts_is_handed_over() -> None:
    spec = ChildSpec(machine="flow agent", definition=data(FLOW), accepts=("b", "a", "z"))
    assert child_start_of(spec, "dig", {"a": 1, "b": 2, "c": 3}, left_s=5, title="t").start.inputs == {"a": 1, "b": 2}
