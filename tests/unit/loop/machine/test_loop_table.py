"""The loop's table against the seed's, pair by pair; and what every state refuses."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from enum import StrEnum

import msgspec
import pytest

from asterism.engine.control.run_control import BatchEnded, Cancel, OwnershipAcquired, Pause, TransitionFailed, Unpause
from asterism.engine.kernel.machine import Event, Machine, Row, StepContext, row
from asterism.engine.kernel.refusal import verdict_words
from asterism.errors import IllegalTransition, Refused
from asterism.loop.machine.events import LoopSubmitted, StepOnce, WorkerEnded
from asterism.loop.machine.memory import LoopMemory
from asterism.loop.machine.model import State, Step, ToolCall
from asterism.loop.machine.table import ORCHESTRATION_LOOP, TRANSITIONS
from tests.support.loop_harness import WORKERS, Loop, steps

# As the seed writes it.
SEED = {
    State.PLANNING: {State.EXECUTING, State.FAILED},
    State.EXECUTING: {State.OBSERVING, State.WAITING, State.FAILED},
    State.OBSERVING: {State.REFLECTING, State.FAILED},
    State.REFLECTING: {State.PLANNING, State.EXECUTING, State.COMPLETE, State.FAILED},
    State.WAITING: {State.EXECUTING, State.FAILED},
    State.COMPLETE: set(),
    State.FAILED: set(),
}
LIVE = [state for state in SEED if SEED[state]]
# As the design adds to it, and only adds.
EXTENSION = {
    *((State.EXECUTING, target) for target in (State.PARALLEL, State.CONFIRMING)),
    *((State.PARALLEL, target) for target in (State.OBSERVING, State.WAITING, State.CONFIRMING, State.FAILED)),
    (State.WAITING, State.PARALLEL),
    *((State.CONFIRMING, target) for target in (State.EXECUTING, State.PARALLEL, State.FAILED)),
    *((state, State.CANCELLED) for state in (*LIVE, State.PARALLEL, State.CONFIRMING)),
}
TERMINAL = (State.COMPLETE, State.FAILED, State.CANCELLED)


@pytest.mark.parametrize(("state", "target"), list(itertools.product(SEED, SEED)))
def test_each_of_the_49_pairs_is_the_seeds(state: State, target: State) -> None:
    assert (target in TRANSITIONS[state]) == (target in SEED[state])


def test_the_extension_adds_what_the_design_says_and_nothing_else() -> None:
    pairs = {(state, target) for state, targets in TRANSITIONS.items() for target in targets}
    assert pairs - {(state, target) for state, targets in SEED.items() for target in targets} == EXTENSION


@pytest.mark.parametrize(("state", "target"), [pair for pair in itertools.product(SEED, SEED) if pair[1] not in SEED[pair[0]]])
def test_a_pair_that_is_not_in_the_table_raises_whatever_a_move_wants(state: State, target: State) -> None:
    """A move of this table, replaced by one that wants the pair: the table does not let it."""

    def wants(memory: LoopMemory, event: BatchEnded, context: StepContext) -> State:
        return target

    was = ORCHESTRATION_LOOP.table[state][BatchEnded]
    rows: dict[type[Event], Row] = dict(ORCHESTRATION_LOOP.table[state])
    rows[BatchEnded] = row(wants, *was.to)
    table: dict[StrEnum, Mapping[type[Event], Row]] = dict(ORCHESTRATION_LOOP.table)
    table[state] = rows
    wanting: Machine[LoopMemory] = Machine(
        "orchestration loop",
        states=State,
        initial=State.PLANNING,
        table=table,
        effects=ORCHESTRATION_LOOP.effects,
        memory=LoopMemory,
    )
    # A row without targets is internal: it may stay, which is no transition and no edge of the matrix.
    if not was.to and state is target:
        assert not wanting.matrix()[state]
        return
    with pytest.raises(IllegalTransition, match=f"orchestration loop in {state} does not accept batch_ended to {target}"):
        wanting.step(state, LoopMemory(), BatchEnded(), StepContext(run_id="r", seq=1, at=0.0, actor="me", state=state))


@pytest.mark.parametrize("state", list(State))
def test_the_terminal_states_are_the_seeds(state: State) -> None:
    assert ORCHESTRATION_LOOP.is_terminal(state) == (state in TERMINAL)


def in_state(state: State) -> Loop:
    """A loop that has come to a state by legal events only."""
    if state is State.PLANNING:
        return Loop()
    loop = Loop(*steps("a", "b", group="g")) if state is State.PARALLEL else Loop()
    if state in (State.EXECUTING, State.OBSERVING, State.REFLECTING, *TERMINAL):
        loop.plans(*steps("a"))
    if state is State.WAITING:
        loop.plans(*steps("a:asks"))
    if state is State.CONFIRMING:
        loop = confirming()
    if state is State.OBSERVING:
        loop.take(loop.end_of("a"))
    if state in (State.REFLECTING, State.COMPLETE):
        loop.ends("a")
    if state is State.COMPLETE:
        loop.says("done")
        loop.answers_with()
    if state is State.FAILED:
        loop.ends("a")
        loop.says("fail")
    if state is State.CANCELLED:
        loop.batch(Cancel())
        loop.finish_cancellations()
    assert loop.state == state
    return loop


def confirming() -> Loop:
    loop = Loop(*steps("a:model"))
    loop.replies("", ToolCall(call_id="c", tool="remove", gate="destructive"))
    return loop


@pytest.mark.parametrize("state", TERMINAL)
@pytest.mark.parametrize("event", [Cancel(), Pause(), Unpause(), StepOnce(), LoopSubmitted(request="again", workers=WORKERS)])
def test_a_terminal_state_refuses_every_command_and_nothing_changes(state: State, event: Cancel) -> None:
    loop = in_state(state)
    before, entries = msgspec.to_builtins(loop.memory), list(loop.entries)
    with pytest.raises(IllegalTransition) as raised:
        loop.take(event)
    assert raised.value.machine == "orchestration loop"
    assert raised.value.state == state
    assert raised.value.history
    assert (msgspec.to_builtins(loop.memory), loop.entries, loop.state) == (before, entries, state)


@pytest.mark.parametrize("state", TERMINAL)
def test_a_terminal_state_leads_nowhere_not_even_to_itself_and_a_drain_makes_no_entry(state: State) -> None:
    assert TRANSITIONS[state] == frozenset()
    loop = in_state(state)
    assert loop.drain() is None
    assert loop.run.ended


@pytest.mark.parametrize("state", list(State))
def test_a_command_out_of_place_raises_and_changes_nothing(state: State) -> None:
    loop = in_state(state)
    before, entries = msgspec.to_builtins(loop.memory), list(loop.entries)
    with pytest.raises((IllegalTransition, Refused)):
        loop.take(LoopSubmitted(request="again", workers=WORKERS))
    assert (msgspec.to_builtins(loop.memory), loop.entries) == (before, entries)


@pytest.mark.parametrize("state", list(State))
def test_an_unexpected_result_is_noted_and_changes_nothing(state: State) -> None:
    loop = in_state(state)
    before = msgspec.to_builtins(loop.memory)
    entry = loop.take(WorkerEnded(effect_id="r:99.0"))
    assert entry is not None
    assert verdict_words(entry.note) == "r:99.0 is not outstanding"
    assert (msgspec.to_builtins(loop.memory), loop.state) == (before, state)


@pytest.mark.parametrize("state", [state for state in State if state not in TERMINAL])
def test_a_cancel_in_any_state_ends_in_cancelled_and_calls_off_what_is_under_way(state: State) -> None:
    loop = in_state(state)
    loop.batch(Cancel(reason="enough"))
    assert loop.state == "CANCELLED"
    loop.finish_cancellations()
    assert loop.run.ended
    assert (loop.memory.outcome(), loop.memory.reason) == ("cancelled", "cancelled by me: enough")
    loop.assert_replays()


@pytest.mark.parametrize("state", [state for state in State if state not in TERMINAL])
def test_the_wall_limit_ends_any_state_in_failed_and_is_named(state: State) -> None:
    loop = in_state(state)
    loop.wait_until(1000.0 + 8 * 86400)
    assert loop.state == "FAILED"
    assert "(wall_limit_s)" in loop.memory.reason
    loop.finish_cancellations()
    assert loop.run.ended
    loop.assert_replays()


@pytest.mark.parametrize("state", [state for state in State if state not in TERMINAL])
def test_a_defect_ends_any_state_in_failed_by_name(state: State) -> None:
    loop = in_state(state)
    effect = next(iter(loop.run.outstanding), None)
    if effect is None:
        assert state is State.OBSERVING
        return
    loop.batch(TransitionFailed(effect_id=effect, event="X", reason="ZeroDivisionError"))
    assert loop.state == "FAILED"
    assert loop.memory.reason == "X could not be taken: ZeroDivisionError"


@pytest.mark.parametrize("state", [state for state in State if state not in TERMINAL])
def test_a_paused_loop_starts_nothing_until_it_is_unpaused(state: State) -> None:
    loop = in_state(state)
    under_way = list(loop.run.outstanding)
    loop.batch(Pause(), OwnershipAcquired(epoch=2, owner="x"))
    assert list(loop.run.outstanding) == under_way
    assert loop.state == state
    loop.batch(Unpause())
    assert not loop.memory.paused


def test_a_run_with_an_unknown_worker_in_its_plan_is_refused() -> None:
    with pytest.raises(Refused, match=r"step 'a': there is no worker 'ghost'; there are w, once, asks, model"):
        Loop(Step(step_id="a", worker="ghost", intent="haunt"))
