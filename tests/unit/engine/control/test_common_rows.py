"""The rows that every machine has, on a machine with nothing else: a courier that carries one parcel."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec
import pytest

from asterism.engine.control.children import ChildBlocked, ChildEnded, SignalChild, StartChild
from asterism.engine.control.common_rows import RunControl, cancels_to, define_machine, fails_to
from asterism.engine.control.run_control import (
    Answered,
    AskPerson,
    Cancel,
    CancelEffect,
    EffectCancelled,
    Forked,
    OwnershipAcquired,
    Pause,
    RunMemory,
    TransitionFailed,
    Unpause,
    Verb,
    check_sender,
)
from asterism.engine.kernel.machine import Effect, EffectResult, Event, StartRequest, StepContext, kind_of, row
from asterism.engine.kernel.permissions import ALL
from asterism.engine.kernel.phrase import Text
from asterism.engine.kernel.snapshot import restore_snapshot, take_snapshot
from asterism.errors import IllegalTransition, Refused
from tests.support.ferry_machine import FERRY, Depart
from tests.support.machine_harness import MachineHarness


class State(StrEnum):
    IDLE = "IDLE"
    CARRYING = "CARRYING"
    DONE = "DONE"
    LOST = "LOST"


class Ordered(Event, tag="ordered", frozen=True, kw_only=True):
    pass


class Carried(EffectResult, tag="carried", frozen=True, kw_only=True):
    pass


class Carry(Effect, tag="carry", frozen=True, kw_only=True):
    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        return Carried(effect_id=effect_id)


class Parcel(RunMemory, kw_only=True):
    counted: list[str] = msgspec.field(default_factory=list)

    def count_usage(self, event: EffectResult) -> None:
        self.counted = [*self.counted, event.effect_id]

    def wake_at(self) -> float | None:
        return None

    def result(self) -> dict[str, Any]:
        return self.failure_info()


def order(memory: Parcel, event: Ordered, context: StepContext) -> State:
    context.schedule(Carry())
    context.schedule(StartChild(machine="courier", start=StartRequest(definition={})))
    context.schedule(AskPerson(question="Leave it at the door?"))
    return State.CARRYING


def carried(memory: Parcel, event: Carried, context: StepContext) -> State:
    memory.code = "finished"
    return State.DONE


def child_ended(memory: Parcel, event: ChildEnded, context: StepContext) -> State:
    return State.CARRYING


COURIER = define_machine(
    "courier",
    states=State,
    initial=State.IDLE,
    table={
        State.IDLE: {Ordered: row(order, State.CARRYING)},
        State.CARRYING: {Carried: row(carried, State.DONE, State.LOST), ChildEnded: row(child_ended)},
        State.DONE: {},
        State.LOST: {},
    },
    effects=(Carry,),
    memory=Parcel,
    control=RunControl(cancel=cancels_to(State.LOST), defect=fails_to(State.LOST)),
)
CARRY, CHILD, QUESTION = "r:1.0", "r:1.1", "r:1.2"


def courier() -> MachineHarness[Parcel]:
    return MachineHarness(COURIER, Ordered(), 1000.0)


def asked(run: MachineHarness[Any]) -> list[tuple[str, str]]:
    """The effects of the last entry: what kind each is, and its target."""
    return [(kind_of(effect), getattr(effect, "effect_id", "")) for effect in run.entries[-1].effects]


def test_a_pause_and_an_unpause_are_recorded_and_signaled_to_children() -> None:
    run = courier()
    run.take(Pause())
    assert (run.state, run.memory.paused, asked(run)) == ("CARRYING", True, [("signal_child", CHILD)])
    run.take(Unpause())
    assert (run.state, run.memory.paused, asked(run)) == ("CARRYING", False, [("signal_child", CHILD)])


def test_a_child_that_has_ended_gets_no_signal() -> None:
    run = courier()
    run.take(ChildEnded(effect_id=CHILD, outcome="finished"))
    run.take(Pause())
    assert asked(run) == []


def test_a_cancel_calls_off_everything_and_drops_what_comes_of_it() -> None:
    run = courier()
    run.take(Cancel(reason="enough"), actor="ann")
    assert (run.state, run.memory.outcome(), run.memory.reason) == ("LOST", "cancelled", "cancelled by ann: enough")
    assert asked(run) == [("cancel_effect", CARRY), ("signal_child", CHILD), ("cancel_effect", QUESTION)]
    assert run.run.abandoned == {CARRY, CHILD, QUESTION}
    run.take(Carried(effect_id=CARRY))
    assert (run.state, run.memory.outcome()) == ("LOST", "cancelled")


def test_a_defect_in_handling_a_result_ends_the_run_by_name_and_cancels_all_effects() -> None:
    run = courier()
    run.take(TransitionFailed(effect_id=CARRY, event="carried", reason="KeyError: 'x'"))
    assert (run.state, run.memory.code, run.memory.reason) == ("LOST", "defect", "carried could not be taken: KeyError: 'x'")
    assert asked(run) == [("signal_child", CHILD), ("cancel_effect", QUESTION)]


def test_an_answer_to_a_cancelled_question_is_refused_until_the_question_is_settled() -> None:
    run = courier()
    run.take(Cancel())
    with pytest.raises(Refused, match=f"{QUESTION} is not open any more"):
        run.take(Answered(effect_id=QUESTION, verb="approve"))
    run.take(Answered(effect_id=QUESTION, cancelled=True))
    assert QUESTION not in run.run.outstanding


def test_an_ended_run_accepts_no_command_and_makes_no_entry_for_batch_ended() -> None:
    run = courier()
    run.take(Carried(effect_id=CARRY))
    for command in (Pause(), Unpause(), Cancel()):
        with pytest.raises(IllegalTransition):
            run.take(command)
    entries = len(run.entries)
    assert run.drain() is None
    assert len(run.entries) == entries


def test_a_fork_calls_off_the_children_that_are_its_origins() -> None:
    run = courier()
    run.take(Forked(origin="o", seq=1, idle_s=0.0))
    assert asked(run)[0] == ("cancel_effect", CHILD)
    run.take(Pause())
    assert asked(run) == []  # the child is the origin's, and hears nothing of a fork


def test_a_fork_asks_its_open_questions_again_under_its_own_id() -> None:
    run = courier()
    run.take(Forked(origin="o", seq=1, idle_s=0.0))
    assert asked(run)[1:] == [("cancel_effect", QUESTION), ("ask_person", "")]
    assert list(run.memory.inquiries) == ["r:2.2"]
    run.take(Cancel())
    assert run.memory.inquiries == {}


def test_a_state_that_only_waits_takes_a_question_that_has_expired_as_not_approved() -> None:
    run = MachineHarness(FERRY, Depart(parcels=("a",), asks=True, answer_within_s=60.0), 1000.0)
    assert (run.state, run.memory.due_at()) == ("ASKING", 1060.0)
    assert run.drain() is None
    run.now = 1060.0
    run.drain()
    assert (run.state, run.memory.code, run.memory.due_at()) == ("SUNK", "rejected", None)
    assert asked(run) == [("cancel_effect", "r:1.0")]


def test_an_answer_that_a_question_does_not_name_never_reaches_a_move() -> None:
    run = MachineHarness(FERRY, Depart(asks=True), 1000.0)
    with pytest.raises(Refused, match=r"r:1\.0 accepts approve, reject, not respond"):
        run.take(Answered(effect_id="r:1.0", verb="respond", value="yes"))
    run.take(Answered(effect_id="r:1.0", verb="approve"))
    assert (run.state, run.memory.inquiries) == ("SAILING", {})


def test_the_end_of_a_run_closes_its_open_questions() -> None:
    run = courier()
    assert list(run.memory.inquiries) == [QUESTION]
    run.take(Carried(effect_id=CARRY))
    assert (run.state, asked(run), run.memory.inquiries) == ("DONE", [("cancel_effect", QUESTION)], {})


def test_a_new_owner_forgets_which_children_were_blocked() -> None:
    run = courier()
    run.take(ChildBlocked(effect_id=CHILD, blocked=True))
    assert run.memory.blocked_children == {CHILD}
    assert run.take(ChildBlocked(effect_id=CHILD, blocked=True)) is None
    assert run.take(ChildBlocked(effect_id=CARRY, blocked=True)) is None
    run.take(OwnershipAcquired(epoch=2, owner="p"))
    assert run.memory.blocked_children == set()


def test_what_effects_have_used_is_counted_once_whether_or_not_anybody_waits_for_them() -> None:
    run = courier()
    run.take(Cancel())
    run.finish_cancellations()
    run.take(ChildEnded(effect_id=CHILD, outcome="cancelled"))
    counted = [effect for effect in run.memory.counted if effect in (CARRY, CHILD, QUESTION)]
    assert counted == [CARRY, QUESTION, CHILD]
    assert EffectCancelled in COURIER.events
    assert {SignalChild, CancelEffect} <= set(COURIER.effects)
    assert all(isinstance(effect, SignalChild) for effect in run.run.outstanding.values())


def test_a_replay_gives_the_same_run() -> None:
    run = courier()
    run.take(ChildBlocked(effect_id=CHILD, blocked=True))
    run.take(Cancel())
    run.finish_cancellations()
    again = run.replayed()
    assert (again.memory, again.outstanding, again.abandoned) == (run.memory, run.run.outstanding, run.run.abandoned)


def test_who_submits_a_run_or_a_copy_of_it_may_be_barred_from_approving() -> None:
    """A6: the submitter could approve; the answers to a conversation, a rejection and a cancel stay open to them."""
    post = courier()
    post.take(Forked(origin="r0", seq=2, idle_s=0.0), actor="ben@admin")
    snapshot = take_snapshot(post.run, "code")
    assert snapshot is not None
    again = restore_snapshot(post.run.machine, snapshot, "code")
    assert again is not None
    assert again.submitters == post.run.submitters == ("me", "ben@admin")

    def refusal(actor: str, verb: Verb, kind: str = "approval", *, may: bool = False) -> str:
        answer = Answered(effect_id="r:1.0", verb=verb)
        try:
            check_sender(answer, kind, again.context(answer, at=1.0, actor=actor, permissions=ALL), submitter_may_approve=may)
        except Refused as refused:
            return str(refused)
        return ""

    assert refusal("ben@operator", "approve").startswith("ben@operator has submitted this run and may not approve r:1.0")
    assert refusal("me", "edit", "plan")
    open_to_them = [refusal("me", "reject"), refusal("me", "cancel"), refusal("me", "respond"), refusal("me", "approve", "conversation")]
    assert [*open_to_them, refusal("ann", "approve"), refusal("me", "approve", may=True)] == [""] * 6
