"""How a conversation is told: its sub-states are shown by ``log`` and ``show``, also by who has only the journal."""

from __future__ import annotations

from asterism.cli.reasons import reasons_for
from asterism.cli.stories.flow_story import FlowStory
from asterism.cli.stories.telling import story_for
from asterism.flows import AgentResult, AgentStatus, InputField, Message, StandardAgent
from asterism.kernel.packing import packer
from asterism.machines.flow_agent.table import FLOW_AGENT
from asterism.machines.run_control import Forked
from tests.flows import Stage, talk
from tests.unit.flows.test_children import Paint
from tests.unit.flows.test_seed import Steps
from tests.unit.machines.test_flow_agent import Talk


class Adding(StandardAgent):
    requires_approval = True
    amount: int = InputField("How much?")

    async def on_running(self, msg: Message) -> AgentResult:
        self.amount += 1
        return self.make_result(AgentStatus.COMPLETED, "Added.")


def told(stage: Stage) -> tuple[FlowStory, list[str]]:
    story = story_for(FLOW_AGENT, stage.run_id)
    assert isinstance(story, FlowStory)
    return story, [it.text for it in story.read(map(packer(FLOW_AGENT).unpack, stage.records))]


def test_a_sub_state_is_told_beside_the_state_it_belongs_to() -> None:
    story, texts = told(talk(Steps, "go")[0])
    assert "RUNNING → WAITING_FOR_INPUT (step2)" in texts
    assert '  sub_state = "step2"' in [line.plain for line in story.picture(0.0, 50)]
    assert story.outcome()["metadata"] == {"sub_state": "step2"}


def test_what_was_said_is_told_in_order_and_no_state_but_the_eight_is() -> None:
    stage, _ = talk(Steps, "go", "yes")
    _, texts = told(stage)
    said = [text for text in texts if text.startswith(("the agent says", "user answers"))]
    assert said == [
        "the agent says Step 1 complete. Ready for step 2?",
        'user answers respond "yes"',
        "the agent says All steps complete!",
    ]
    assert set(stage.states) == {"INITIALIZING", "RUNNING", "WAITING_FOR_INPUT", "COMPLETED"}


def test_what_went_wrong_below_is_told_once_and_in_words() -> None:
    _, texts = told(talk(Paint, "paint", "the fence", "red", "no")[0])
    assert "its run was cancelled: rejected" in texts
    assert "the agent says Sorry, something went wrong: signature cancelled: rejected." in texts
    assert not [text for text in texts if "ChildFailed" in text]


def test_why_says_by_which_words_a_field_was_given_and_what_on_running_gave_itself() -> None:
    stage, _ = talk(Adding, "go", "4", "make it 5", "yes")
    story = story_for(FLOW_AGENT, stage.run_id)
    happenings = story.read(map(packer(FLOW_AGENT).unpack, stage.records))
    assert [reason.text for reason in reasons_for("amount", [], happenings)] == [
        'becomes 4, said user: "4"',
        'becomes 5, said user: "make it 5"',
        "becomes 6 in on_running",
    ]
    assert story.standing()["amount"] == "6"
    assert reasons_for("nothing", [], happenings) == []


def test_a_handler_that_a_fork_calls_off_is_told_by_its_name() -> None:
    talked = Talk()
    talked.take(Forked(origin="r0", seq=1, idle_s=5.0))
    talked.entered(AgentStatus.RUNNING)
    talked.take(Forked(origin="r0", seq=3, idle_s=5.0))
    texts = [it.text for it in story_for(FLOW_AGENT, "r").read(talked.entries)]
    assert [text for text in texts if text.startswith("on_") and "was interrupted" in text] == [
        "on_initializing was interrupted: called off",
        "on_running was interrupted; what came of it is not known",
    ]
