"""The flow agent's table, sentence by sentence; the matrix is written out here a second time, as the seed has it."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from asterism.conversation.machine.events import (
    STATE_TRANSITIONS,
    AgentStatus,
    AgentView,
    CallHandler,
    ChildRequested,
    ConversationLimits,
    ConversationStarted,
    HandlerEnded,
    HandlerNotified,
    Message,
    MessageReceived,
    NotifyHandler,
    RunningEntered,
)
from asterism.conversation.machine.memory import HandlerRunning
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.engine.control.children import ChildEnded, EditedBy, StartChild, child_start
from asterism.engine.control.run_control import (
    Answered,
    AskPerson,
    BatchEnded,
    Cancel,
    CancelEffect,
    FleetGuarded,
    Forked,
    Imported,
    Pause,
    TransitionFailed,
    Unpause,
)
from asterism.engine.kernel.guards import DeviceGuards, Guards, ReportedSkills, SkillGuard, digest_of
from asterism.engine.kernel.journal import Entry, state_history
from asterism.engine.kernel.machine import Event, StartRequest
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.permissions import ALL, LOWEST, Permission, Permissions
from asterism.engine.kernel.run import Run
from asterism.errors import IllegalTransition, Refused
from tests.support.machine_harness import as_shown

SEED = {
    "INITIALIZING": {"RUNNING", "WAITING_FOR_INPUT", "WAITING_FOR_APPROVAL", "PAUSED", "COMPLETED", "ERROR"},
    "RUNNING": {"COMPLETED", "ERROR", "PAUSED", "WAITING_FOR_INPUT", "WAITING_FOR_APPROVAL"},
    "WAITING_FOR_INPUT": {"RUNNING", "WAITING_FOR_APPROVAL", "PAUSED", "COMPLETED", "ERROR", "WAITING_FOR_INPUT"},
    "WAITING_FOR_APPROVAL": {"RUNNING", "WAITING_FOR_INPUT", "WAITING_FOR_APPROVAL", "PAUSED", "COMPLETED", "CANCELLED", "ERROR"},
    "PAUSED": {"INITIALIZING", "RUNNING", "WAITING_FOR_INPUT", "WAITING_FOR_APPROVAL", "CANCELLED", "ERROR"},
    "COMPLETED": set(),
    "ERROR": {"CANCELLED"},
    "CANCELLED": set(),
}
S = AgentStatus
PAIRS = list(itertools.product(AgentStatus, AgentStatus))


class Talk:
    """A conversation whose handlers are played by the test."""

    def __init__(self, *, values: dict[str, Any] | None = None, **begun: Any) -> None:
        self.run: Any = Run(FLOW_AGENT, "r")
        self.entries: list[Entry] = []
        self.now = 1000.0
        self.take(ConversationStarted(agent="tests:Agent", message=Message(text="hello", by="ada", values=values or {}), **begun))

    def take(self, event: Event, actor: str = "ada", permissions: Permissions | None = None) -> tuple[Any, ...]:
        """Take an event, then BatchEnded until nothing more happens; returns the effects."""
        may = (ALL if event.from_outside else LOWEST) if permissions is None else permissions
        entries = [self.run.take(as_shown(self.run, event), at=self.now, actor=actor, permissions=may)]
        while entry := self.run.take(BatchEnded(), at=self.now, actor="system"):
            entries.append(entry)
            if len(entries) > 20:
                raise AssertionError("it never comes to rest")
        made = [entry for entry in entries if entry]
        self.entries += made
        for effect_id, effect in list(self.run.outstanding.items()):
            if isinstance(effect, CancelEffect):  # as a session does it
                if target := self.run.outstanding.get(effect.effect_id):
                    self.take(target.interrupted(effect.effect_id, "called off"))
                self.take(effect.interrupted(effect_id, ""))
            elif isinstance(effect, NotifyHandler):
                self.take(HandlerNotified(effect_id=effect_id))
        return tuple(effect for entry in made for effect in entry.effects)

    @property
    def memory(self) -> Any:
        return self.run.memory

    @property
    def handler(self) -> Any:
        effect = self.run.outstanding.get(self.memory.handler_effect)
        return effect.handler if isinstance(effect, CallHandler) else ""

    def handled(self, *path: AgentStatus, **more: Any) -> tuple[Any, ...]:
        return self.take(HandlerEnded(effect_id=self.memory.handler_effect, transitions=path, **more), actor="agent")

    def entered(self, *path: AgentStatus) -> tuple[Any, ...]:
        return self.take(RunningEntered(effect_id=self.memory.handler_effect, transitions=path, view=AgentView()), actor="agent")

    def answer(self, verb: Any = "respond", value: Any = None, **more: Any) -> tuple[Any, ...]:
        return self.take(Answered(effect_id=self.memory.open_question, verb=verb, value=value, **more))

    def question(self) -> AskPerson:
        asked = self.run.outstanding[self.memory.open_question]
        assert isinstance(asked, AskPerson)
        return asked

    def states(self) -> list[str]:
        return [it["state"] for it in state_history(packer(FLOW_AGENT).pack(entry) for entry in self.entries)]


def talk_in(state: AgentStatus) -> Talk:
    """A conversation that rests in a state."""
    talk = Talk()
    ways = {S.INITIALIZING: [], S.CANCELLED: [S.PAUSED, S.CANCELLED]}
    if state is S.RUNNING:
        talk.entered(S.RUNNING)
        talk.handled()
    else:
        talk.handled(*ways.get(state, [state]))
    if state is S.ERROR:
        talk.handled()
    return talk


@pytest.mark.parametrize(("state", "target"), PAIRS)
def test_each_of_the_64_pairs_is_the_seeds(state: AgentStatus, target: AgentStatus) -> None:
    assert (target in FLOW_AGENT.matrix()[state]) == (target in SEED[state])
    assert (target in STATE_TRANSITIONS[state]) == (target in SEED[state])


@pytest.mark.parametrize(("state", "target"), PAIRS)
def test_a_handler_moves_a_conversation_only_along_the_seeds_edges(state: AgentStatus, target: AgentStatus) -> None:
    talk = talk_in(state)
    if not SEED[state] or state is S.ERROR:  # nobody is called any more, so what is said of a handler is noted
        before = talk.run.state
        talk.take(HandlerEnded(effect_id="r:1.0", transitions=(target,)))
        assert talk.run.state is before
        return
    talk.take(MessageReceived(text="go"), actor="ada") if talk.memory.open_question == "" else talk.answer(value="go")
    assert talk.handler
    if target in SEED[state]:
        talk.handled(target)
        assert target in talk.states()
    else:
        with pytest.raises(IllegalTransition):
            talk.handled(target)


def test_only_error_completed_and_cancelled_are_ends() -> None:
    assert {state for state in AgentStatus if FLOW_AGENT.is_terminal(state)} == {S.COMPLETED, S.ERROR, S.CANCELLED}


def test_a_handler_that_makes_three_transitions_leaves_three_entries() -> None:
    talk = Talk()
    talk.handled(S.WAITING_FOR_INPUT, S.WAITING_FOR_APPROVAL, S.COMPLETED)
    assert talk.states() == ["INITIALIZING", "WAITING_FOR_INPUT", "WAITING_FOR_APPROVAL", "COMPLETED"]
    assert talk.run.ended
    assert talk.memory.outcome() == "finished"


def test_running_is_journaled_before_the_body_is_entered() -> None:
    talk = Talk()
    effects = talk.entered(S.RUNNING)
    assert effects == (NotifyHandler(effect_id="r:2.0", entered=True),)
    assert talk.run.state is S.RUNNING
    assert talk.handler == "on_initializing", "the handler that reached it goes on"
    talk.handled(S.COMPLETED, text="done")
    assert talk.states() == ["INITIALIZING", "RUNNING", "COMPLETED"]


def test_a_handler_is_notified_when_its_last_transition_to_running_is_journaled() -> None:
    talk = Talk()
    talk.entered(S.WAITING_FOR_INPUT, S.WAITING_FOR_APPROVAL, S.RUNNING)
    wakes = {entry.state: entry.effects for entry in talk.entries if entry.effects and isinstance(entry.effects[0], NotifyHandler)}
    assert wakes == {S.RUNNING: (NotifyHandler(effect_id="r:2.0", entered=True),)}


def test_a_handler_about_to_enter_after_a_cancel_is_cancelled_without_a_transition() -> None:
    talk = Talk()
    talk.take(Cancel())
    assert talk.entered(S.RUNNING) == (NotifyHandler(effect_id="r:2.0", cancel_requested=True),)
    assert (talk.run.state, isinstance(talk.memory.handler, HandlerRunning)) == (S.INITIALIZING, False)
    talk.handled()
    assert talk.run.state is S.CANCELLED


def test_a_cancel_between_the_transitions_to_running_calls_the_handler_off() -> None:
    talk = Talk()
    handler = talk.memory.handler_effect
    events: tuple[Event, ...] = (RunningEntered(effect_id=handler, transitions=(S.WAITING_FOR_INPUT, S.RUNNING)), Cancel(), BatchEnded())
    *_, last = [talk.run.take(event, at=1000.0, actor="ada") for event in events]
    assert last.effects == (NotifyHandler(effect_id=handler, cancel_requested=True),)


def test_a_child_is_started_once_and_its_end_is_reported_with_its_key() -> None:
    talk = Talk()
    talk.entered(S.RUNNING)
    handler, start = talk.memory.handler_effect, StartChild(machine="flow agent", start=StartRequest(definition={}))
    wanted = ChildRequested(effect_id=handler, key="k", start=start)
    guarded = msgspec.structs.replace(start, start=StartRequest(definition={}, guards=Guards(submitter="ada")))
    assert talk.take(wanted) == (guarded,)
    assert talk.take(wanted) == (), "its end will wake the handler"
    ended = ChildEnded(effect_id=talk.memory.children["k"].effect_id, outcome="finished", result=1)
    assert talk.take(ended) == (NotifyHandler(effect_id=handler, child_key="k"),)
    assert talk.take(wanted) == (NotifyHandler(effect_id=handler, child_key="k"),)


@pytest.mark.parametrize("edited", ["", "local", "foreign"])
def test_an_edit_below_a_conversation_concerns_what_it_starts_then_and_is_reported(edited: EditedBy) -> None:
    talk = Talk(guards=Guards(plan_skills=("wipe",), submitter="ada"))
    talk.entered(S.RUNNING)
    handler, start = talk.memory.handler_effect, StartChild(machine="flow agent", start=StartRequest(definition={}))
    talk.take(ChildRequested(effect_id=handler, key="k", start=start))
    talk.take(ChildEnded(effect_id=talk.memory.children["k"].effect_id, outcome="finished", edited=edited))
    talk.take(ChildRequested(effect_id=handler, key="then", start=start))
    *_, then = [it for it in talk.run.outstanding.values() if isinstance(it, StartChild)]
    assert (talk.memory.edited, then.start.guards.concerning) == (edited, ("wipe",) if edited else ())


def test_a_conversation_hands_down_the_skills_that_guarded_devices_had_when_it_began() -> None:
    """A1: a device may rename one before the first constellation below begins."""
    talk = Talk(guards=Guards(submitter="ada"))
    guarded = {"vault": DeviceGuards(every=SkillGuard(approval=True))}
    talk.take(FleetGuarded(guards={**guarded, "free": DeviceGuards()}, skills={"vault": ("wipe",), "free": ("read",)}))
    talk.entered(S.RUNNING)
    start = StartChild(machine="constellation agent", start=StartRequest(definition={}))
    talk.take(ChildRequested(effect_id=talk.memory.handler_effect, key="k", start=start))
    (child,) = [it for it in talk.run.outstanding.values() if isinstance(it, StartChild)]
    assert child.start.guards.reported == {"vault": ReportedSkills(first=("wipe",))}


@pytest.mark.parametrize("by", ["approval", "interruption", ""])
def test_what_a_conversation_starts_knows_that_a_person_has_approved_it(by: str) -> None:
    """A4: what an interrupted body starts again was approved by the yes to its repetition, also in a fork."""
    talk = Talk()
    if by == "approval":
        talk.handled(S.WAITING_FOR_APPROVAL)
        talk.answer("approve")
    talk.entered(S.RUNNING)
    if by == "interruption":
        talk.take(Forked(origin="r0", seq=talk.run.seq, idle_s=5.0))
        talk.answer("approve")
        talk.handled(reenter=True)
        talk.entered()
    start = StartChild(machine="flow agent", start=StartRequest(definition={}))
    talk.take(ChildRequested(effect_id=talk.memory.handler_effect, key="k", start=start))
    (child,) = [it for it in talk.run.outstanding.values() if isinstance(it, StartChild)]
    assert child.start.guards.is_approved == bool(by)


def test_a_conversation_reports_an_answer_that_edits_what_was_shown() -> None:
    talk = talk_in(S.WAITING_FOR_APPROVAL)
    talk.memory.guards = msgspec.structs.replace(talk.memory.guards, plan_skills=("wipe",))
    talk.answer("edit", {"amount": 902})
    assert talk.memory.edited == "local"
    assert talk.memory.guards.concerning == ("wipe",), "what the handler starts then has other values"


@pytest.mark.parametrize("kind", ["fields", "defaults"])
@pytest.mark.parametrize("item", ["pizza", "EVIL"])
def test_a_field_that_gets_another_value_concerns_what_a_conversation_starts_then(item: str, kind: str) -> None:
    talk = Talk(guards=Guards(plan_skills=("wipe",), submitter="ada"))
    before: dict[str, Any] = {kind: {"item": "pizza"}}
    talk.handled(S.WAITING_FOR_INPUT, view=AgentView(**before))
    talk.answer(value="4")
    talk.handled(S.WAITING_FOR_INPUT, view=AgentView(fields={"item": item, "size": 4}))
    assert talk.memory.guards.concerning == (() if item == "pizza" else ("wipe",))


def test_a_value_in_the_place_of_one_that_the_agent_has_not_accepted_is_another_value() -> None:
    talk = Talk(guards=Guards(plan_skills=("wipe",), submitter="ada"), values={"item": "pizzza"})
    talk.handled(S.WAITING_FOR_INPUT)
    talk.answer(value="EVIL")
    talk.handled(S.WAITING_FOR_INPUT, view=AgentView(fields={"item": "EVIL"}))
    assert talk.memory.guards.concerning == ("wipe",)


APPROVED = Guards(submitter="ada", is_approved=True)
"""The guards of a conversation that an approved task has started."""


@pytest.mark.parametrize(
    ("guards", "item", "code"),
    [
        (APPROVED, "EVIL", "guarded"),
        (APPROVED, "pizza", ""),
        (Guards(submitter="ada"), "EVIL", ""),
    ],
)
def test_nobody_changes_a_field_of_a_request_that_was_approved(guards: Guards, item: str, code: str) -> None:
    """A8: "performed with another request than was shown"; other fields are answered as before."""
    talk = Talk(guards=guards)
    talk.handled(S.WAITING_FOR_INPUT, view=AgentView(fields={"item": "pizza"}))
    talk.answer(value="4")
    talk.handled(S.WAITING_FOR_INPUT, view=AgentView(fields={"item": item, "size": 4}))
    assert talk.memory.code == code
    assert talk.memory.outcome() == ("failed" if code else "")


def test_of_a_field_that_the_agent_guesses_from_an_approved_request_only_the_guess_may_be_given() -> None:
    """G2 of the attackers: the words of the request are shown, and the agent asks whether it has read them right."""
    guess = {"item": {"value": "pizza", "text": "pizzza"}}
    confirmed, named, said = (Talk(guards=APPROVED) for _ in range(3))
    for talk in (confirmed, named, said):
        talk.handled(S.WAITING_FOR_INPUT, view=AgentView(pending=guess))
    with pytest.raises(Refused):
        named.answer(value={"item": "EVIL"})
    said.answer(value="no, EVIL")
    said.handled(S.WAITING_FOR_INPUT, view=AgentView(fields={"item": "EVIL"}))
    assert said.memory.code == "guarded"
    for answer, view in (("4", AgentView(fields={"size": 4}, pending=guess)), ("yes", AgentView(fields={"item": "pizza", "size": 4}))):
        confirmed.answer(value=answer)
        confirmed.handled(S.WAITING_FOR_INPUT, view=view)
    assert (confirmed.memory.code, confirmed.memory.view.fields) == ("", {"item": "pizza", "size": 4})


@pytest.mark.parametrize("values", [{}, {"item": "pizzza"}])
def test_nobody_puts_another_guess_in_the_place_of_one_from_an_approved_request(values: dict[str, Any]) -> None:
    """A "yes" would take the other guess; so would one after a "no", which drops the first."""
    changed, dropped = (Talk(guards=APPROVED, values=values) for _ in range(2))
    for talk in (changed, dropped):
        talk.handled(S.WAITING_FOR_INPUT, view=AgentView(pending={"item": {"value": "pizza", "text": "pizzza"}}))
    dropped.answer(value="no")
    dropped.handled(S.WAITING_FOR_INPUT, view=AgentView())
    assert dropped.memory.code == ""
    for talk in (changed, dropped):
        talk.answer(value="EVILL")
        talk.handled(S.WAITING_FOR_INPUT, view=AgentView(pending={"item": {"value": "EVIL", "text": "EVILL"}}))
        assert talk.memory.code == "guarded"


@pytest.mark.parametrize("fields", [{}, {"size": 4}])
def test_nobody_gives_another_value_for_a_field_of_an_approved_request_that_the_agent_has_not_accepted(fields: dict[str, Any]) -> None:
    """A8: the request is shown with a value that no reader takes."""
    named, said = (Talk(guards=APPROVED, values={"item": "pizzza"}) for _ in range(2))
    for talk in (named, said):
        talk.handled(S.WAITING_FOR_INPUT, view=AgentView(fields=fields))
    with pytest.raises(Refused):
        named.answer(value={"item": "EVIL"})
    said.answer(value="EVIL")
    said.handled(S.WAITING_FOR_INPUT, view=AgentView(fields={**fields, "item": "EVIL"}))
    assert said.memory.code == "guarded"


@pytest.mark.parametrize("may", [True, False])
def test_an_approval_of_a_conversation_covers_other_fields_than_an_approved_request_unless_its_submitter_may_not_approve(
    *, may: bool
) -> None:
    """The question goes to the person it talks with, who may be the submitter."""
    talk = Talk(guards=msgspec.structs.replace(APPROVED, submitter_may_approve=may), requires_approval=True)
    talk.handled(S.WAITING_FOR_INPUT, view=AgentView(fields={"item": "pizza"}))
    talk.answer(value="4")
    talk.handled(S.WAITING_FOR_APPROVAL, view=AgentView(fields={"item": "EVIL", "size": 4}))
    assert talk.memory.code == ("" if may else "guarded")


BOUNDED = Guards(
    submitter="ada",
    devices={"desk": DeviceGuards(every=SkillGuard(no_options=("*",), within={"path": ("/srv",)}))},
    started_by=("desk", "order"),
)
"""The guards of a conversation that a task on a device with bounds has started."""


@pytest.mark.parametrize(
    ("guards", "values"), [(APPROVED, {"size": 4, "item": "EVIL"}), (BOUNDED, {"item": "--evil"}), (BOUNDED, {"path": "/etc"})]
)
def test_values_by_name_that_may_not_be_given_are_refused_and_the_question_stays_open(guards: Guards, values: dict[str, Any]) -> None:
    talk = Talk(guards=guards)
    talk.handled(S.WAITING_FOR_INPUT, view=AgentView(fields={"item": "pizza"}))
    question = talk.memory.open_question
    with pytest.raises(Refused):
        talk.answer(value=values)
    with pytest.raises(Refused):
        talk.take(MessageReceived(values=values, inquiry_id=question))
    assert (talk.memory.open_question, talk.memory.queue) == (question, [])
    talk.answer(value={"size": 4, "item": "pizza"})
    assert talk.handler == "on_waiting_for_input"


@pytest.mark.parametrize(("path", "code"), [("/etc", "guarded"), ("/srv/data", "")])
def test_bounds_of_the_device_that_starts_a_conversation_hold_for_fields_in_words(path: str, code: str) -> None:
    first, later = Talk(guards=BOUNDED), Talk(guards=BOUNDED)
    later.handled(S.WAITING_FOR_INPUT)
    later.answer(value="there")
    for talk in (first, later):
        talk.handled(S.WAITING_FOR_INPUT, view=AgentView(fields={"path": path}, defaults={"item": "-"}))
        assert talk.memory.code == code


def test_no_child_is_started_after_a_cancel() -> None:
    talk = Talk()
    talk.entered(S.RUNNING)
    talk.take(Cancel())
    wanted = ChildRequested(
        effect_id=talk.memory.handler_effect, key="k", start=StartChild(machine="flow agent", start=StartRequest(definition={}))
    )
    assert talk.take(wanted) == (NotifyHandler(effect_id=talk.memory.handler_effect, cancel_requested=True),)
    assert talk.memory.children == {}


def test_a_handler_that_waits_for_a_failed_event_is_cancelled() -> None:
    talk = Talk()
    talk.entered(S.RUNNING)
    handler = talk.memory.handler_effect
    talk.take(ChildRequested(effect_id=handler, key="k", start=StartChild(machine="flow agent", start=StartRequest(definition={}))))
    talk.take(TransitionFailed(effect_id=talk.memory.children["k"].effect_id, event="child_ended", reason="KeyError: x"))
    assert talk.run.state is S.ERROR
    assert handler not in talk.run.outstanding


def test_running_is_entered_even_without_a_handler_that_led_there() -> None:
    talk = Talk()
    talk.handled(S.RUNNING)
    assert talk.handler == "on_running"


def test_a_body_that_stays_in_running_waits_for_the_person() -> None:
    talk = talk_in(S.RUNNING)
    assert not talk.handler
    talk.answer(value="next")
    assert talk.handler == "on_running"
    assert talk.memory.message.text == "next"


def test_a_message_goes_to_the_handler_of_its_state_and_the_question_is_closed() -> None:
    talk = Talk()
    talk.handled(S.WAITING_FOR_INPUT, text="How many?", view=AgentView(fields={"item": "pizza"}))
    question = talk.question()
    assert (question.prompt, question.verbs, question.subject["fields"]) == ("How many?", ("respond",), {"item": "pizza"})
    talk.answer(value="4")
    assert (talk.handler, talk.memory.message.text, talk.memory.open_question) == ("on_waiting_for_input", "4", "")
    assert [(it.by, it.text) for it in talk.memory.history] == [("ada", "hello"), ("agent", "How many?"), ("ada", "4")]


def test_messages_queue_while_a_handler_runs_and_are_handled_one_by_one() -> None:
    talk = Talk()
    talk.take(MessageReceived(text="one"))
    talk.take(MessageReceived(text="two"))
    talk.handled(S.WAITING_FOR_INPUT)
    assert talk.memory.message.text == "one"
    talk.handled()
    assert talk.memory.message.text == "two"


def test_a_message_to_no_question_closes_the_one_that_is_open() -> None:
    talk = talk_in(S.WAITING_FOR_INPUT)
    asked = talk.memory.open_question
    talk.take(MessageReceived(text="4"))
    assert talk.handler == "on_waiting_for_input"
    assert asked not in talk.run.outstanding


def test_of_three_simultaneous_approvals_one_is_accepted() -> None:
    talk = talk_in(S.WAITING_FOR_APPROVAL)
    asked = talk.memory.open_question
    talk.run.take(MessageReceived(text="yes", inquiry_id=asked), at=talk.now, actor="ada", permissions=ALL)
    talk.run.take(MessageReceived(text="yes", inquiry_id=asked), at=talk.now, actor="bob", permissions=ALL)
    talk.run.take(as_shown(talk.run, Answered(effect_id=asked, verb="approve")), at=talk.now, actor="cleo", permissions=ALL)
    talk.take(BatchEnded())
    talk.entered(S.RUNNING)
    talk.handled(S.WAITING_FOR_APPROVAL, text="And again?")
    assert not talk.handler, "a yes to what was shown before says nothing about what is shown now"
    assert talk.question().prompt == "And again?"


@pytest.mark.parametrize(
    ("state", "path"),
    [
        (S.INITIALIZING, (S.RUNNING,)),
        (S.WAITING_FOR_INPUT, (S.RUNNING,)),
        (S.INITIALIZING, (S.WAITING_FOR_APPROVAL, S.RUNNING)),
        (S.WAITING_FOR_INPUT, (S.PAUSED, S.RUNNING)),
    ],
)
def test_no_handler_leads_past_an_approval_that_the_agent_requires(state: AgentStatus, path: tuple[AgentStatus, ...]) -> None:
    talk = Talk(requires_approval=True)
    if state is S.WAITING_FOR_INPUT:
        talk.handled(S.WAITING_FOR_INPUT, text="what?")
        talk.answer(value="this")
    assert (talk.run.state, talk.handler) == (state, f"on_{state.lower()}")
    entries = len(talk.entries)
    with pytest.raises(IllegalTransition, match="without an approval"):
        talk.entered(*path)
    with pytest.raises(IllegalTransition, match="without an approval"):
        talk.handled(*path)
    assert len(talk.entries) == entries


def test_a_handler_that_is_given_the_answer_to_the_approval_may_run() -> None:
    talk = Talk(requires_approval=True)
    talk.handled(S.WAITING_FOR_APPROVAL, text="Do it?")
    talk.answer("approve")
    talk.entered(S.RUNNING)
    assert talk.run.state is S.RUNNING


def test_an_approval_shows_exactly_what_it_is_bound_to_and_expires() -> None:
    talk = Talk(limits=ConversationLimits(approval_s=60))
    talk.handled(S.WAITING_FOR_APPROVAL, text="Order pizza?", view=AgentView(fields={"item": "pizza"}))
    question = talk.question()
    assert (question.prompt, question.subject["fields"], question.expires_at) == ("Order pizza?", {"item": "pizza"}, 1060.0)
    assert talk.memory.due_at() == 1060.0
    talk.now = 1060.0
    talk.take(HandlerNotified(effect_id="none"))
    assert (talk.states()[-1], talk.memory.outcome(), talk.memory.code) == ("CANCELLED", "cancelled", "expired")


@pytest.mark.parametrize(
    ("state", "way"),
    [
        (S.INITIALIZING, ["PAUSED", "CANCELLED"]),
        (S.WAITING_FOR_INPUT, ["PAUSED", "CANCELLED"]),
        (S.RUNNING, ["PAUSED", "CANCELLED"]),
        (S.WAITING_FOR_APPROVAL, ["CANCELLED"]),
        (S.PAUSED, ["CANCELLED"]),
        (S.ERROR, ["CANCELLED"]),
    ],
)
def test_a_cancel_ends_every_state_through_paused_where_there_is_no_edge(state: AgentStatus, way: list[str]) -> None:
    talk = talk_in(state)
    if talk.handler:
        talk.handled()
    before = len(talk.states())
    talk.take(Cancel(reason="enough"))
    assert talk.states()[before:] == way
    assert not talk.memory.paused
    assert talk.run.ended
    assert talk.memory.outcome() == "cancelled"
    assert "on_paused" not in [it.handler for entry in talk.entries for it in entry.effects if isinstance(it, CallHandler)]


def test_a_cancel_while_a_handler_runs_waits_for_its_end_and_comes_too_late_for_what_completes() -> None:
    talk = Talk()
    talk.take(Cancel())
    assert talk.handler == "on_initializing"
    talk.handled(S.WAITING_FOR_INPUT)
    assert talk.states()[-2:] == ["PAUSED", "CANCELLED"]
    assert talk.memory.reason == "cancelled by ada"
    late = Talk()
    late.take(Cancel())
    late.handled(S.COMPLETED)
    assert late.states()[-1] == "COMPLETED"


@pytest.mark.parametrize("resuming", [False, True])
def test_a_cancel_that_waits_for_a_handler_is_not_forgotten_for_a_pause_or_its_end(*, resuming: bool) -> None:
    talk = talk_in(S.PAUSED) if resuming else Talk()
    if resuming:
        talk.take(Unpause())
    talk.take(Cancel())
    for late in (Pause(), Unpause()):
        with pytest.raises(Refused, match="is being cancelled"):
            talk.take(late)
    talk.handled(S.WAITING_FOR_INPUT)
    assert talk.states()[-2:] == ["PAUSED", "CANCELLED"]


@pytest.mark.parametrize("state", [S.COMPLETED, S.CANCELLED])
def test_a_terminal_conversation_refuses_what_people_say(state: AgentStatus) -> None:
    for event in (MessageReceived(text="hello?"), Cancel(), Pause(), Unpause()):
        with pytest.raises(IllegalTransition):
            talk_in(state).take(event)


def test_pausing_and_resuming_are_calls_on_the_agent() -> None:
    talk = talk_in(S.WAITING_FOR_APPROVAL)
    talk.take(Pause(reason="lunch"))
    assert talk.handler == "pause"
    talk.handled(S.PAUSED, text="Paused.")
    assert (talk.memory.paused, talk.memory.before, talk.memory.open_question) == (True, "WAITING_FOR_APPROVAL", "")
    with pytest.raises(Refused, match="paused already"):
        talk.take(Pause())
    talk.take(Unpause())
    assert talk.handler == "resume"
    with pytest.raises(Refused, match="being resumed already"):
        talk.take(Unpause())
    talk.handled(S.WAITING_FOR_APPROVAL, text="Order pizza?")
    assert not talk.memory.paused
    assert talk.question().prompt == "Order pizza?"


@pytest.mark.parametrize("first", ["message", "pause"])
def test_a_message_that_meets_a_pause_is_taken_after_it(first: str) -> None:
    """H9: it was accepted, and went to ``on_paused``, which dropped its value."""
    talk = Talk()
    events = [MessageReceived(text="seven"), Pause()]
    for event in events if first == "message" else events[::-1]:  # while the first message is handled
        talk.take(event)
    talk.handled(S.WAITING_FOR_INPUT, text="How many?")
    assert talk.handler == "pause"
    talk.take(MessageReceived(text="large"))
    talk.handled(S.PAUSED, text="Paused.")
    assert (talk.handler, talk.memory.paused) == ("", True)
    talk.take(MessageReceived(text="still there?"))
    assert talk.handler == "on_paused"
    talk.handled(text="It is paused.")
    talk.take(Unpause())
    talk.handled(S.WAITING_FOR_INPUT, text="How many?")
    for text in ("seven", "large"):
        assert (talk.handler, talk.memory.message.text) == ("on_waiting_for_input", text)
        talk.handled(S.WAITING_FOR_INPUT)
    assert talk.memory.open_question


@pytest.mark.parametrize("handled", [True, False])
def test_a_message_is_not_held_by_a_pause_that_is_called_off_or_that_the_agent_refuses(*, handled: bool) -> None:
    """H9."""
    talk = Talk()
    talk.take(Pause())
    talk.take(MessageReceived(text="seven"))
    if not handled:
        talk.take(Unpause())
    talk.handled(S.WAITING_FOR_INPUT, text="How many?")
    if handled:
        talk.handled(text="This cannot pause.")
    assert (talk.handler, talk.memory.message.text) == ("on_waiting_for_input", "seven")


@pytest.mark.parametrize("changed", [False, True])
def test_an_answer_that_meets_a_pause_holds_for_what_it_was_shown(*, changed: bool) -> None:
    """H9: the answer was accepted and dropped; the question is asked again only if it would show something else."""
    talk = talk_in(S.WAITING_FOR_APPROVAL)
    asked = talk.memory.open_question
    for event in (Answered(effect_id=asked, verb="approve"), Pause()):
        talk.run.take(as_shown(talk.run, event), at=talk.now, actor="ada", permissions=ALL)
    talk.take(MessageReceived(text="wait"))
    assert talk.handler == "pause"
    talk.handled(S.PAUSED, text="Paused.", view=AgentView(fields={"size": 2} if changed else {}))
    talk.take(Unpause())
    talk.handled(S.WAITING_FOR_APPROVAL, text="Order pizza?")
    if changed:
        assert talk.memory.open_question not in ("", asked)
    else:
        assert (talk.handler, talk.memory.message.verb) == ("on_waiting_for_approval", "approve")


def test_what_is_said_while_paused_goes_to_on_paused() -> None:
    talk = talk_in(S.PAUSED)
    talk.take(MessageReceived(text="still there?"))
    assert talk.handler == "on_paused"


def test_an_error_calls_on_error_once_and_ends() -> None:
    talk = Talk()
    talk.handled(S.ERROR, code="timeout", reason="took too long")
    assert talk.handler == "on_error"
    assert not talk.run.ended
    talk.handled(text="Sorry.")
    assert talk.run.ended
    assert (talk.memory.outcome(), talk.memory.report()) == ("failed", {"text": "Sorry.", "code": "timeout", "reason": "took too long"})


@pytest.mark.parametrize(("words", "after"), [({"reenter": True}, "on_running"), ({"transitions": (S.ERROR,)}, "on_error"), ({}, "")])
def test_an_interrupted_body_is_asked_about_and_not_repeated(words: dict[str, Any], after: str) -> None:
    talk = Talk()
    talk.entered(S.RUNNING)
    talk.handled(interrupted=True)
    assert not talk.handler
    assert "may have finished" in talk.question().prompt
    talk.answer("approve")
    assert talk.handler == "on_interrupted"
    talk.take(HandlerEnded(effect_id=talk.memory.handler_effect, **words))
    assert talk.handler == after
    assert talk.memory.message.text == "hello", "what it was entered with the first time"
    assert bool(talk.memory.open_question) == (after == "")


def test_a_fork_calls_an_unfinished_handler_again_and_asks_about_an_entered_one() -> None:
    talk = Talk()
    talk.take(Forked(origin="r0", seq=1, idle_s=5.0))
    assert talk.handler == "on_initializing"
    assert talk.memory.message.text == "hello"
    talk.entered(S.RUNNING)
    talk.take(Forked(origin="r0", seq=3, idle_s=5.0))
    assert not talk.handler
    assert talk.memory.interrupted


def test_a_fork_before_the_body_is_entered_calls_it_again_without_a_question() -> None:
    talk = Talk()
    talk.handled(S.RUNNING)
    assert talk.handler == "on_running"
    talk.take(Forked(origin="r0", seq=2, idle_s=5.0))
    assert (talk.handler, talk.memory.message.text, talk.memory.queue) == ("on_running", "hello", [])
    assert not talk.memory.interrupted


def test_a_cancelled_handler_enters_no_body() -> None:
    talk = Talk()
    old = talk.memory.handler_effect
    talk.take(Forked(origin="o", seq=1, idle_s=0))
    assert talk.memory.handler_effect not in ("", old)
    assert talk.run.take(RunningEntered(effect_id=old, transitions=(S.RUNNING,), view=AgentView()), at=talk.now, actor="agent") is None
    assert talk.run.state is S.INITIALIZING


def test_a_fork_keeps_what_a_person_is_asked_about_an_interrupted_body() -> None:
    talk = Talk()
    talk.entered(S.RUNNING)
    talk.handled(interrupted=True)
    talk.answer(value="hm")
    assert talk.handler == "on_interrupted"
    talk.take(Forked(origin="r0", seq=5, idle_s=5.0))
    assert (talk.handler, talk.memory.interrupted) == ("", True)
    assert "may have finished" in talk.question().prompt


def test_an_answer_to_the_question_of_the_original_is_none_in_a_fork() -> None:
    """A4: also one that had come before the fork, and that no handler had received."""
    for is_sent in (True, False):
        talk = Talk()
        talk.handled(S.WAITING_FOR_APPROVAL)
        there = talk.memory.open_question
        if is_sent:
            talk.run.take(MessageReceived(text="yes", inquiry_id=there), at=talk.now, actor="ada", permissions=ALL)
        talk.take(Forked(origin="r0", seq=talk.run.seq, idle_s=5.0))
        assert talk.memory.open_question not in ("", there)
        assert not talk.handler
        talk.take(Answered(effect_id=there, verb="approve", digest=digest_of(talk.question().subject)))
        talk.take(MessageReceived(text="yes", inquiry_id=there))
        assert not talk.handler
        talk.answer("approve")
        assert talk.handler == "on_waiting_for_approval"


def test_an_import_drops_a_yes_for_which_nothing_has_begun() -> None:
    """A4: the handler that has the yes is called again only with one to the question that is asked here."""
    talk = Talk(requires_approval=True)
    talk.handled(S.WAITING_FOR_APPROVAL)
    there = talk.memory.open_question
    talk.answer("approve")
    assert talk.handler == "on_waiting_for_approval"
    talk.take(Imported())
    assert not talk.handler
    assert talk.memory.open_question not in ("", there)


@pytest.mark.parametrize("way", ["to_input", "stayed", "paused"])
@pytest.mark.parametrize("event", [Forked(origin="r0", seq=6, idle_s=5.0), Imported()])
def test_a_copy_asks_again_after_a_body_that_was_approved_has_asked_something(way: str, event: Event) -> None:
    """A4, "a retry that a person commands, a fork, and a copy ask again": wherever the yes would hold, it is void."""
    talk = Talk(requires_approval=True)
    talk.handled(S.WAITING_FOR_APPROVAL)
    talk.answer("approve")
    talk.entered(S.RUNNING)
    talk.handled(*([S.WAITING_FOR_INPUT] if way == "to_input" else []), text="Which day?")
    if way == "paused":
        talk.take(Pause())
        talk.handled(S.PAUSED)
    talk.take(event)
    assert talk.memory.approved is None
    if way == "paused":
        talk.take(Unpause())
        talk.handled(S.RUNNING)
    if way != "to_input":
        assert "may have finished" in talk.question().prompt
        return
    talk.answer(value="Tuesday")
    with pytest.raises(IllegalTransition, match="without an approval"):
        talk.handled(S.RUNNING)


def test_an_import_leaves_a_handler_that_has_entered_its_body() -> None:
    talk = Talk()
    talk.entered(S.RUNNING)
    talk.take(Imported())
    assert isinstance(talk.memory.handler, HandlerRunning)


NETWORKED = (Permission.VIEW, Permission.ANSWER)


@pytest.mark.parametrize("has_words", [True, False])
def test_a_yes_in_words_from_another_computer_names_what_was_shown(has_words: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """A6, A8: as an answer and as a message; one of the local user does not have to."""
    talk = Talk()
    talk.handled(S.WAITING_FOR_APPROVAL)
    asked = talk.memory.open_question
    shown = digest_of(talk.memory.inquiries[asked].subject)

    def yes(digest: str) -> Event:
        said = MessageReceived(text="yes", inquiry_id=asked, digest=digest)
        return said if has_words else Answered(effect_id=asked, verb="respond", value="yes", digest=digest)

    for digest in ("", "another"):
        with pytest.raises(Refused, match="about another request than this answer names"):
            talk.run.take(yes(digest), at=talk.now, actor="ada", permissions=NETWORKED)
        assert talk.memory.open_question == asked
    talk.take(yes(shown), permissions=NETWORKED)
    assert talk.handler == "on_waiting_for_approval"


def test_a_message_from_another_computer_is_no_second_answer_to_a_question_that_is_closed() -> None:
    """A6: a pause that holds the first answer takes no other one under the same id."""
    talk = Talk()
    talk.handled(S.WAITING_FOR_APPROVAL)
    asked = talk.memory.open_question
    talk.run.take(Answered(effect_id=asked, verb="reject"), at=talk.now, actor="ada", permissions=NETWORKED)
    talk.run.take(MessageReceived(text="yes", inquiry_id=asked), at=talk.now, actor="ada", permissions=NETWORKED)
    assert [it.inquiry_id for it in talk.memory.queue] == [asked, ""]


def test_a_defect_of_ours_ends_it_by_name() -> None:
    talk = Talk()
    talk.take(TransitionFailed(effect_id=talk.memory.handler_effect, event="handler_ended", reason="KeyError: x"))
    assert (talk.states()[-1], talk.memory.code) == ("ERROR", "defect")


def test_a_defect_in_handling_another_result_cancels_the_running_handler() -> None:
    talk = Talk()
    talk.entered(S.RUNNING)
    handle, run = talk.memory.handler_effect, talk.run
    wanted = run.take(
        ChildRequested(effect_id=handle, key="k", start=child_start("m", StartRequest(definition={}), "k")), at=1000.0, actor="agent"
    )
    broke = run.take(
        TransitionFailed(effect_id=wanted.effect_ids()[0], event="child_ended", reason="KeyError: x"), at=1000.0, actor="system"
    )
    assert (str(run.state), talk.memory.code) == ("ERROR", "defect")
    assert [effect.effect_id for effect in broke.effects if isinstance(effect, CancelEffect)] == [handle]
    assert run.take(BatchEnded(), at=1000.0, actor="system") is None, "on_error waits until the other handler has ended"
    assert run.take(RunningEntered(effect_id=handle, transitions=(S.RUNNING,), view=AgentView()), at=1000.0, actor="agent") is None
    talk.take(HandlerEnded(effect_id=handle, transitions=(S.COMPLETED,), text="done"), actor="agent")
    assert (talk.handler, str(run.state), talk.memory.prompt) == ("on_error", "ERROR", "")


def test_on_error_is_called_even_after_a_defect_in_the_result_of_a_cancelled_handler() -> None:
    talk = Talk()
    handle, run = talk.memory.handler_effect, talk.run
    wanted = run.take(
        ChildRequested(effect_id=handle, key="k", start=child_start("m", StartRequest(definition={}), "k")), at=1000.0, actor="agent"
    )
    run.take(TransitionFailed(effect_id=wanted.effect_ids()[0], event="child_ended", reason="KeyError: x"), at=1000.0, actor="system")
    talk.take(TransitionFailed(effect_id=handle, event="handler_ended", reason="KeyError: y"), actor="system")
    assert (talk.handler, str(run.state)) == ("on_error", "ERROR")


def test_its_journal_replays_to_the_same_memory() -> None:
    talk = Talk()
    talk.handled(S.WAITING_FOR_INPUT, text="How many?", view=AgentView(fields={"item": "pizza"}, metadata={"sub_state": "step1"}))
    talk.answer(value="4")
    talk.entered(S.RUNNING)
    again = Run(FLOW_AGENT, "r")
    again.replay(packer(FLOW_AGENT).unpack(packer(FLOW_AGENT).pack(entry)) for entry in talk.entries)
    assert again.memory == talk.memory


def test_the_last_fifty_utterances_are_remembered_and_the_journal_has_all() -> None:
    talk = Talk()
    for number in range(60):
        talk.memory.remember("ada", f"line {number}")
    assert [said.text for said in talk.memory.history] == [f"line {number}" for number in range(10, 60)]


def test_a_conversation_that_ended_gives_what_it_said_last_and_its_outputs_as_its_result() -> None:
    talk = talk_in(S.COMPLETED)
    talk.memory.prompt, talk.memory.data = "Done.", {"booked": 3}
    assert talk.memory.result() == {"summary": "Done.", "data": {"booked": 3}}
