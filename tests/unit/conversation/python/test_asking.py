"""What on_running asks, which approval covers its steps, and what is said after an error."""

from __future__ import annotations

import pytest

from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, StandardAgent
from asterism.errors import Refused
from tests.support.conversation_harness import NEVER, Stage, talk


class Room(StandardAgent):
    idempotent = True
    start: int = InputField("At what time?")
    people: int = InputField("How many people?", default=2)

    async def on_running(self, msg: Message) -> AgentResult:
        if self.start == 15:
            return self.ask("start", "15 is taken. When else?")
        if self.start == 16:
            del self.collected_fields["start"]
            return self.make_result(AgentStatus.WAITING_FOR_INPUT, "16 is taken. When else?")
        if self.people == 9:
            return self.ask("people")
        return self.make_result(AgentStatus.COMPLETED, f"Booked {self.start} for {self.people}.")


class Approved(Room):
    requires_approval = True


@pytest.mark.parametrize("dies_after", [*range(3, 30, 3), NEVER])
def test_the_answer_to_a_question_of_on_running_is_the_value_of_its_field(dies_after: int) -> None:
    _, turns = talk(Room, "go", "15", "16", "17", dies_after=dies_after)
    assert [turn.raw_message for turn in turns] == [
        "At what time?",
        "15 is taken. When else?",
        "16 is taken. When else?",
        "Booked 17 for 2.",
    ]  # fmt: skip


def test_a_field_with_a_default_can_be_asked_for() -> None:
    stage = Stage(Room)
    stage.say("go")
    assert stage.play(stage.turn("say", "", {"people": 9, "start": 12})).raw_message == "How many people?"
    assert stage.say("4").raw_message == "Booked 12 for 4."


def test_a_new_value_needs_a_new_approval() -> None:
    _, turns = talk(Approved, "go", "15", "yes", "17", "yes")
    assert [turn.status for turn in turns] == [
        "WAITING_FOR_INPUT", "WAITING_FOR_APPROVAL", "WAITING_FOR_INPUT", "WAITING_FOR_APPROVAL", "COMPLETED",
    ]  # fmt: skip


def test_a_field_that_the_agent_does_not_have_cannot_be_asked_for() -> None:
    class Wrong(StandardAgent):
        start = InputField("When?")

        async def on_running(self, msg: Message) -> AgentResult:
            return self.ask("strat")

    assert talk(Wrong, "go", "now")[1][-1].reason == "InvalidInput: Wrong has no field 'strat' to ask for; did you mean start?"


class Steps(StandardAgent):
    requires_approval = True
    what = InputField("What?")

    async def on_running(self, msg: Message) -> AgentResult:
        done = self.metadata["done"] = self.metadata.get("done", 0) + 1
        if done < 3:
            return self.make_result(AgentStatus.WAITING_FOR_INPUT, f"Step {done} is done. Ready for step {done + 1}?")
        return self.make_result(AgentStatus.COMPLETED, "All done.")


@pytest.mark.parametrize("dies_after", [*range(5, 30, 5), NEVER])
def test_one_approval_covers_all_steps(dies_after: int) -> None:
    class Safe(Steps):
        idempotent = True

    _, turns = talk(Safe, "go", "a house", "yes", "yes", "yes", dies_after=dies_after)
    assert [turn.raw_message for turn in turns[1:]] == [
        "Safe (what: a house). Go ahead? (yes/no)",
        "Step 1 is done. Ready for step 2?",
        "Step 2 is done. Ready for step 3?",
        "All done.",
    ]


def test_a_changed_value_between_two_steps_is_shown_again() -> None:
    stage, _ = talk(Steps, "go", "a house", "yes")
    assert stage.play(stage.turn("say", "", {"what": "a tower"})).raw_message == "Steps (what: a tower). Go ahead? (yes/no)"
    assert stage.say("yes").raw_message == "Step 2 is done. Ready for step 3?"


class Fails(StandardAgent):
    async def on_running(self, msg: Message) -> AgentResult:
        raise ValueError("no paper")


class Explains(Fails):
    idempotent = True

    async def on_error(self, msg: Message) -> AgentResult:
        if msg.get_text() == "stop":
            return self.make_result(AgentStatus.CANCELLED, "Stopped.")
        return self.make_result(raw_message=f"It failed. You wrote: {msg.get_text()}.")


@pytest.mark.parametrize("dies_after", [*range(3, 20), NEVER])
def test_a_message_after_an_error_goes_to_on_error(dies_after: int) -> None:
    stage, turns = talk(Explains, "go", "why?", "why not?", dies_after=dies_after)
    assert [turn.raw_message for turn in turns] == [f"It failed. You wrote: {text}." for text in ("go", "why?", "why not?")]
    assert {turn.status for turn in turns} == {"ERROR"}
    assert stage.say("stop").status == "CANCELLED"
    with pytest.raises(Refused, match=r"^this conversation has ended \(CANCELLED\)$"):
        stage.say("hello")


def test_by_default_the_answer_after_an_error_is_the_error() -> None:
    _, turns = talk(Fails, "go", "why?")
    assert [turn.raw_message for turn in turns] == ["Sorry, something went wrong: ValueError: no paper."] * 2
    assert turns[-1].code == "error"
