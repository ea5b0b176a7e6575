"""The kernel carries the other two machines as it is: the seeds' tables, with moves that only move.

The machines themselves come with their own issues; these tables are here to hold the kernel to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from enum import StrEnum

import pytest

from asterism.errors import IllegalTransition
from asterism.kernel.diagram import mermaid
from asterism.kernel.machine import Event, Machine, Row, Turn, row
from asterism.kernel.run import Run, packer, state_history


class Loop(StrEnum):
    PLANNING = "PLANNING"
    EXECUTING = "EXECUTING"
    OBSERVING = "OBSERVING"
    REFLECTING = "REFLECTING"
    WAITING = "WAITING"
    COMPLETE = "COMPLETE"
    FAILED = "FAILED"


class ExtendedLoop(StrEnum):
    PLANNING = "PLANNING"
    EXECUTING = "EXECUTING"
    OBSERVING = "OBSERVING"
    REFLECTING = "REFLECTING"
    WAITING = "WAITING"
    COMPLETE = "COMPLETE"
    FAILED = "FAILED"
    PARALLEL = "PARALLEL"
    CONFIRMING = "CONFIRMING"
    CANCELLED = "CANCELLED"


class Flow(StrEnum):
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    WAITING_FOR_INPUT = "WAITING_FOR_INPUT"
    WAITING_FOR_APPROVAL = "WAITING_FOR_APPROVAL"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    ERROR = "ERROR"
    CANCELLED = "CANCELLED"


# As the seeds write them.
LOOP_SEED = {
    "PLANNING": {"EXECUTING", "FAILED"},
    "EXECUTING": {"OBSERVING", "WAITING", "FAILED"},
    "OBSERVING": {"REFLECTING", "FAILED"},
    "REFLECTING": {"PLANNING", "EXECUTING", "COMPLETE", "FAILED"},
    "WAITING": {"EXECUTING", "FAILED"},
    "COMPLETE": set(),
    "FAILED": set(),
}
FLOW_SEED = {
    "INITIALIZING": {"RUNNING", "WAITING_FOR_INPUT", "WAITING_FOR_APPROVAL", "PAUSED", "COMPLETED", "ERROR"},
    "RUNNING": {"COMPLETED", "ERROR", "PAUSED", "WAITING_FOR_INPUT", "WAITING_FOR_APPROVAL"},
    "WAITING_FOR_INPUT": {"RUNNING", "WAITING_FOR_APPROVAL", "PAUSED", "COMPLETED", "ERROR", "WAITING_FOR_INPUT"},
    "WAITING_FOR_APPROVAL": {"RUNNING", "WAITING_FOR_INPUT", "WAITING_FOR_APPROVAL", "PAUSED", "COMPLETED", "CANCELLED", "ERROR"},
    "PAUSED": {"INITIALIZING", "RUNNING", "WAITING_FOR_INPUT", "WAITING_FOR_APPROVAL", "CANCELLED", "ERROR"},
    "COMPLETED": set(),
    "ERROR": {"CANCELLED"},
    "CANCELLED": set(),
}
EXTENSION = {
    "PLANNING": {"CANCELLED"},
    "EXECUTING": {"PARALLEL", "CONFIRMING", "CANCELLED"},
    "OBSERVING": {"CANCELLED"},
    "REFLECTING": {"CANCELLED"},
    "WAITING": {"PARALLEL", "CANCELLED"},
    "PARALLEL": {"OBSERVING", "WAITING", "CONFIRMING", "FAILED", "CANCELLED"},
    "CONFIRMING": {"EXECUTING", "PARALLEL", "FAILED", "CANCELLED"},
}


# -- events of the loop: what happens, not where to go -------------------------------------------------


class PlanMade(Event, frozen=True, kw_only=True):
    steps: int


class WorkerReturned(Event, frozen=True, kw_only=True):
    pass


class Held(Event, frozen=True, kw_only=True):
    pass


class Resumed(Event, frozen=True, kw_only=True):
    pass


class Read(Event, frozen=True, kw_only=True):
    pass


class Reflected(Event, frozen=True, kw_only=True):
    word: str


class Claimed(Event, frozen=True, kw_only=True):
    pass


class GaveUp(Event, frozen=True, kw_only=True):
    pass


class LoopMemory:
    def __init__(self) -> None:
        self.left = 0


def planned(memory: LoopMemory, event: PlanMade, turn: Turn) -> Loop:
    memory.left = event.steps
    return Loop.EXECUTING if event.steps else Loop.FAILED


def returned(memory: LoopMemory, event: WorkerReturned, turn: Turn) -> Loop:
    memory.left -= 1
    return Loop.OBSERVING


def held(memory: LoopMemory, event: Held, turn: Turn) -> Loop:
    return Loop.WAITING


def resumed(memory: LoopMemory, event: Resumed, turn: Turn) -> Loop:
    return Loop.EXECUTING


def read(memory: LoopMemory, event: Read, turn: Turn) -> Loop:
    return Loop.REFLECTING


def reflected(memory: LoopMemory, event: Reflected, turn: Turn) -> Loop:
    word = {"replan": Loop.PLANNING, "done": Loop.COMPLETE, "fail": Loop.FAILED}.get(event.word, Loop.EXECUTING)
    return Loop.COMPLETE if word is Loop.EXECUTING and not memory.left else word


def gave_up(memory: LoopMemory, event: GaveUp, turn: Turn) -> Loop:
    return Loop.FAILED


def claimed(memory: LoopMemory, event: Claimed, turn: Turn) -> Loop:
    return Loop.EXECUTING


LOOP = Machine(
    "orchestration loop",
    states=Loop,
    initial=Loop.PLANNING,
    table={
        Loop.PLANNING: {PlanMade: row(planned, Loop.EXECUTING, Loop.FAILED)},
        Loop.EXECUTING: {
            Claimed: row(claimed),
            WorkerReturned: row(returned, Loop.OBSERVING),
            Held: row(held, Loop.WAITING),
            GaveUp: row(gave_up, Loop.FAILED),
        },
        Loop.OBSERVING: {Read: row(read, Loop.REFLECTING), GaveUp: row(gave_up, Loop.FAILED)},
        Loop.REFLECTING: {Reflected: row(reflected, Loop.PLANNING, Loop.EXECUTING, Loop.COMPLETE, Loop.FAILED)},
        Loop.WAITING: {Resumed: row(resumed, Loop.EXECUTING), GaveUp: row(gave_up, Loop.FAILED)},
        Loop.COMPLETE: {},
        Loop.FAILED: {},
    },
    effects=(),
    memory=LoopMemory,
)


class Went(Event, frozen=True, kw_only=True):
    """A transition that a handler has asked for, by name: how user code moves a flow."""

    to: str


def flow_went(memory: dict[str, str], event: Went, turn: Turn) -> Flow:
    return Flow(event.to)


def extended_went(memory: dict[str, str], event: Went, turn: Turn) -> ExtendedLoop:
    return ExtendedLoop(event.to)


def table_of(states: type[StrEnum], edges: Mapping[str, set[str]], move: object) -> dict[StrEnum, dict[type[Event], Row]]:
    return {state: {Went: row(move, *map(states, edges[state]))} if edges[state] else {} for state in states}  # type: ignore[arg-type]


FLOW: Machine[dict[str, str]] = Machine(
    "flow agent",
    states=Flow,
    initial=Flow.INITIALIZING,
    table=table_of(Flow, FLOW_SEED, flow_went),
    effects=(),
    memory=dict,
    ends=[Flow.ERROR],
)
EXTENDED: Machine[dict[str, str]] = Machine(
    "extended loop",
    states=ExtendedLoop,
    initial=ExtendedLoop.PLANNING,
    table=table_of(
        ExtendedLoop, {state: LOOP_SEED.get(state, set()) | EXTENSION.get(state, set()) for state in ExtendedLoop}, extended_went
    ),
    effects=(),
    memory=dict,
)


@pytest.mark.parametrize(("state", "target"), list(itertools.product(Loop, Loop)))
def test_each_of_the_49_pairs_of_the_loop_is_the_seeds(state: Loop, target: Loop) -> None:
    assert (target in LOOP.matrix()[state]) == (target in LOOP_SEED[state])


@pytest.mark.parametrize(("state", "target"), list(itertools.product(Flow, Flow)))
def test_each_of_the_64_pairs_of_the_flow_is_the_seeds(state: Flow, target: Flow) -> None:
    assert (target in FLOW.matrix()[state]) == (target in FLOW_SEED[state])


@pytest.mark.parametrize(("state", "target"), list(itertools.product(Flow, Flow)))
def test_a_flow_takes_the_transitions_of_its_table_and_no_other(state: Flow, target: Flow) -> None:
    memory: dict[str, str] = {}
    turn = Turn(run="r", seq=1, at=0.0, actor="me")
    if target in FLOW_SEED[state]:
        assert FLOW.step(state, memory, Went(to=target), turn) is target
    else:
        with pytest.raises(IllegalTransition):
            FLOW.step(state, memory, Went(to=target), turn)


def test_the_extended_loop_adds_and_only_adds() -> None:
    matrix = EXTENDED.matrix()
    for state, targets in LOOP.matrix().items():
        added = {str(target) for target in matrix[ExtendedLoop(state)]} - {str(target) for target in targets}
        assert {str(target) for target in targets} <= {str(target) for target in matrix[ExtendedLoop(state)]}
        assert added == EXTENSION.get(state, set())


def test_the_terminal_states_have_no_exits() -> None:
    assert {state for state in Loop if LOOP.is_terminal(state)} == {Loop.COMPLETE, Loop.FAILED}
    assert {state for state in ExtendedLoop if EXTENDED.is_terminal(state)} == {
        ExtendedLoop.COMPLETE,
        ExtendedLoop.FAILED,
        ExtendedLoop.CANCELLED,
    }
    assert {state for state in Flow if FLOW.is_terminal(state)} == {Flow.COMPLETED, Flow.ERROR, Flow.CANCELLED}


def test_an_error_of_a_flow_is_an_end_with_one_exit() -> None:
    run = Run(FLOW, "r")
    run.take(Went(to="ERROR"), at=1.0, actor="me")
    assert run.ended
    run.take(Went(to="CANCELLED"), at=2.0, actor="me")
    assert run.ended
    with pytest.raises(IllegalTransition, match="accepted: nothing"):
        run.take(Went(to="RUNNING"), at=3.0, actor="me")


def test_a_cancel_where_the_flow_has_no_edge_goes_through_paused_in_two_entries() -> None:
    run = Run(FLOW, "r")
    records = [
        packer(FLOW).pack(entry) for to in ("RUNNING", "PAUSED", "CANCELLED") if (entry := run.take(Went(to=to), at=1.0, actor="me"))
    ]
    assert [it["state"] for it in state_history(records)] == ["RUNNING", "PAUSED", "CANCELLED"]


def test_the_loop_runs_replans_waits_and_replays() -> None:
    run = Run(LOOP, "r")
    events = [
        PlanMade(steps=2), Claimed(), WorkerReturned(), Read(), Reflected(word="replan"),
        PlanMade(steps=1), Held(), Resumed(), Claimed(), WorkerReturned(), Read(), Reflected(word="continue"),
    ]  # fmt: skip
    entries = [entry for event in events if (entry := run.take(event, at=1.0, actor="me"))]
    assert run.state is Loop.COMPLETE
    again = Run(LOOP, "r")
    again.replay(packer(LOOP).unpack(packer(LOOP).pack(entry)) for entry in entries)
    assert again.state is Loop.COMPLETE
    assert again.memory.left == run.memory.left == 0


def test_both_can_be_drawn() -> None:
    assert "    REFLECTING --> COMPLETE: Reflected\n" in mermaid(LOOP)
    assert "Claimed" not in mermaid(LOOP)
    assert "    WAITING_FOR_INPUT --> WAITING_FOR_INPUT: Went\n" in mermaid(FLOW)
