"""How a conversation is told: its sub-states are shown by ``log`` and ``show``, also by who has only the journal."""

from __future__ import annotations

import json

from asterism.conversation.form import FORM
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, StandardAgent
from asterism.conversation.view.history import FlowHistory
from asterism.engine.control.run_control import Answered, Forked
from asterism.engine.kernel.packing import packer
from asterism.views.text.history import unread_history
from asterism.views.words import plain_words
from tests.support.conversation_harness import Stage, talk
from tests.unit.conversation.machine.test_flow_agent import Talk
from tests.unit.conversation.python.test_children import Paint
from tests.unit.conversation.python.test_seed import Steps


class Adding(StandardAgent):
    requires_approval = True
    amount: int = InputField("How much?")

    async def on_running(self, msg: Message) -> AgentResult:
        self.amount += 1
        return self.make_result(AgentStatus.COMPLETED, "Added.")


def told(stage: Stage) -> tuple[FlowHistory, list[str]]:
    history = unread_history(FORM, stage.run_id)
    assert isinstance(history, FlowHistory)
    return history, [it.text for it in history.read(map(packer(FLOW_AGENT).unpack, stage.records))]


def test_a_sub_state_is_shown_with_its_state() -> None:
    history, texts = told(talk(Steps, "go")[0])
    assert "RUNNING → WAITING_FOR_INPUT (step2)" in texts
    assert '  sub_state = "step2"' in [str(line) for line in history.status_lines(0.0, 50)]
    assert history.result_fields()["metadata"] == {"sub_state": "step2"}


def test_what_the_machine_itself_said_is_in_words_in_the_results_for_programs_and_for_parents() -> None:
    stage, _ = talk(Adding, "go", "cancel")
    history, _ = told(stage)
    memory = history.run.memory
    assert json.loads(json.dumps(history.result_fields()))["history"][-1] == {"by": "agent", "text": "Cancelled."}
    assert (memory.result()["summary"], memory.report()["text"]) == ("Cancelled.", "Cancelled.")


def test_messages_and_states_are_logged_in_order() -> None:
    stage, _ = talk(Steps, "go", "yes")
    _, texts = told(stage)
    said = [text for text in texts if text.startswith(("the agent says", "user answers"))]
    assert said == [
        "the agent says Step 1 complete. Ready for step 2?",
        'user answers respond "yes"',
        "the agent says All steps complete!",
    ]
    assert set(stage.states) == {"INITIALIZING", "RUNNING", "WAITING_FOR_INPUT", "COMPLETED"}


def test_the_failure_of_a_child_is_logged_once() -> None:
    _, texts = told(talk(Paint, "paint", "the fence", "red", "no")[0])
    assert "its run was cancelled: rejected" in texts
    assert "the agent says Sorry, something went wrong: signature cancelled: rejected." in texts
    assert not [text for text in texts if "ChildFailed" in text]


def test_no_line_is_the_bare_name_of_an_event() -> None:
    for lines in (("paint", "the fence", "red", "no"), ("paint", "the fence", "red", "yes"), ("paint", "!pause", "!resume", "!cancel")):
        _, texts = told(talk(Paint, *lines)[0])
        assert [text for text in texts if text and (text[0].isupper() or "_" in text) and " " not in text] == []
    assert plain_words(Answered(effect_id="x", verb="respond", cancelled=True)) == "question cancelled"


def test_why_explains_which_message_or_handler_set_a_field() -> None:
    stage, _ = talk(Adding, "go", "4", "make it 5", "yes")
    history = unread_history(FORM, stage.run_id)
    lines = history.read(map(packer(FLOW_AGENT).unpack, stage.records))
    assert [reason.text for reason in history.events_of("amount", lines)] == [
        'set to 4 by user: "4"',
        'set to 5 by user: "make it 5"',
        "set to 6 in on_running",
    ]
    assert history.part_status()["amount"] == "6"
    assert history.events_of("nothing", lines) == []


def test_a_handler_that_a_fork_cancels_is_logged_by_name() -> None:
    talked = Talk()
    talked.take(Forked(origin="r0", seq=1, idle_s=5.0))
    talked.entered(AgentStatus.RUNNING)
    talked.take(Forked(origin="r0", seq=3, idle_s=5.0))
    texts = [it.text for it in unread_history(FORM, "r").read(talked.entries)]
    assert [text for text in texts if text.startswith("on_") and "was interrupted" in text] == [
        "on_initializing was interrupted: called off",
        "on_running was interrupted; its result is unknown",
    ]
