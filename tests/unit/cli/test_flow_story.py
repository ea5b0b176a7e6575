"""How a conversation is told: its sub-states are shown by ``log`` and ``show``, also by who has only the journal."""

from __future__ import annotations

from asterism.cli.flow_story import FlowStory
from asterism.cli.telling import story_for
from asterism.kernel.run import packer
from asterism.machines.flow_agent.table import FLOW_AGENT
from tests.flows import Stage, talk
from tests.unit.flows.test_children import Paint
from tests.unit.flows.test_seed import Steps


def told(stage: Stage) -> tuple[FlowStory, list[str]]:
    story = story_for(FLOW_AGENT, stage.run)
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
