"""A flow agent that runs something below itself: started once for each key, its question comes up, its answer goes down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from asterism.constellation.machine.definition import first_event
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.conversation.python import AgentResult, AgentStatus, ChildFailed, InputField, Message, StandardAgent, flow, flowagent
from asterism.conversation.python.children import check_same_child, constellation
from asterism.engine.control.children import StartChild
from asterism.engine.kernel.profile import AgentProfile
from asterism.errors import InvalidInput
from asterism.loop.python import OrchestrationLoop
from tests.support.conversation_harness import Stage, talk

STARTED: list[str] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    STARTED.clear()


@flowagent(description="Choose a colour")
class Colour(StandardAgent):
    colour = InputField("Which colour?")

    async def on_running(self, msg: Message) -> AgentResult:
        if self.colour == "none":
            raise ValueError("there is no such colour")
        return self.make_result(AgentStatus.COMPLETED, "Chosen.", data={"colour": self.colour})


@pytest.mark.parametrize("odd", [float("nan"), [float("inf")], {"in": "\ud800"}, object()])
def test_a_child_with_data_that_cannot_be_journaled_is_rejected(odd: Any) -> None:
    starts: list[Callable[[], StartChild]] = [
        lambda: flow(Colour, colour=odd),
        lambda: constellation({"tasks": [{"task_id": "a"}]}, inputs={"x": odd}),
        lambda: OrchestrationLoop(plan="openai:x", workers={}).start("x", {"x": odd}),
    ]
    for start in starts:
        with pytest.raises(InvalidInput, match=r"^a field of \w+ is not JSON: [^\n]+$"):
            start()


@flowagent(description="Sign", requires_approval=True)
class Signature(StandardAgent):
    idempotent = True

    async def on_running(self, msg: Message) -> AgentResult:
        STARTED.append("signed")
        return self.make_result(AgentStatus.COMPLETED, "Signed.")


class Paint(StandardAgent):
    resumable = True
    what = InputField("Paint what?")

    async def on_running(self, msg: Message) -> AgentResult:
        chosen = await self.child("colour", flow(Colour, "choose"))
        await self.child("signature", flow(Signature, "sign"))
        again = await self.child("colour", flow(Colour, "choose"))
        assert again == chosen
        return self.make_result(AgentStatus.COMPLETED, f"{self.what} is {chosen['colour']}.")


class Careful(Paint):
    async def on_running(self, msg: Message) -> AgentResult:
        try:
            return await super().on_running(msg)
        except ChildFailed as failed:
            return self.make_result(AgentStatus.COMPLETED, f"Not painted: {failed}.")


class Greeting(StandardAgent):
    name: str = InputField("Who?")

    async def on_running(self, msg: Message) -> AgentResult:
        return self.make_result(AgentStatus.COMPLETED, f"Hi {self.name}.")


class Host(StandardAgent):
    resumable = True

    async def on_running(self, msg: Message) -> AgentResult:
        first = await self.child("greet", flow(Greeting, name="Ann"))
        assert first == await self.child("greet", flow(Greeting, name="Ann"))
        second = await self.child("greet", flow(Greeting, name="Bob"))
        return self.make_result(AgentStatus.COMPLETED, f"{first['text']} {second['text']}")


class Rooms(StandardAgent):
    start = InputField("When?")

    async def on_running(self, msg: Message) -> AgentResult:
        plan = {"tasks": [{"task_id": "check", "device": "calendar", "skill": "check", "inputs": {"start": self.start}}]}
        try:
            await self.child("booking", constellation(plan, self.fleet))
        except ChildFailed:
            del self.collected_fields["start"]
            return self.make_result(AgentStatus.WAITING_FOR_INPUT, "Taken. When else?")
        return self.make_result(AgentStatus.COMPLETED, "Booked.")


def test_a_key_that_was_used_for_another_child_is_refused() -> None:
    answer = talk(Host, "go")[1][-1]
    assert answer.status == "ERROR"
    assert answer.reason.startswith(
        "InvalidInput: child greet was started before, and differs from this one in its inputs; give the new child"
    )


def test_a_key_that_an_earlier_turn_used_for_another_plan_is_refused_in_every_process() -> None:
    _, turns = talk(Rooms, "go", "14:30", "15:30", "15:30")
    assert turns[1].raw_message == "Taken. When else?"
    assert "child booking was started before, and differs from this one in its plan or agent;" in turns[-1].reason


def test_a_child_that_is_only_a_plan_is_an_error_that_says_how_to_start_it() -> None:
    class Bare(StandardAgent):
        async def on_running(self, msg: Message) -> AgentResult:
            return AgentResult(status=await self.child("k", {"tasks": []}))  # type: ignore[arg-type]

    said = talk(Bare, "go")[1][-1].reason
    assert said == "InvalidInput: child k is started with constellation(…), flow(…) or the start(…) of a loop, not with a dict"


def test_the_same_plan_with_other_devices_is_the_same_child() -> None:
    plan = {"tasks": [{"task_id": "a", "device": "d"}]}
    check_same_child("a", constellation(plan), constellation(plan, [AgentProfile(device_id="d")]))
    with pytest.raises(InvalidInput, match="in its machine and plan or agent;"):
        check_same_child("a", constellation(plan), flow(Greeting))


LINES = ("paint", "the fence", "red", "yes")


def test_a_question_of_a_child_is_passed_up_and_its_answer_down() -> None:
    stage, turns = talk(Paint, *LINES)
    assert [(turn.raw_message, str(turn.status)) for turn in turns] == [
        ("Paint what?", "WAITING_FOR_INPUT"),
        ("Which colour?", "RUNNING"),
        ("Sign. Go ahead? (yes/no)", "RUNNING"),
        ("the fence is red.", "COMPLETED"),
    ]
    assert len(stage.database.runs) == 3, "one child for each key, however often the body was entered"
    assert STARTED == ["signed"]


class Bold(Paint):
    resumable = False


def test_an_agent_that_cannot_be_called_again_continues_in_its_process() -> None:
    stage = Stage(Bold)

    async def play() -> list[AgentResult]:
        async with stage.process() as (_, conversation, _):
            said = [await conversation.say(line) for line in LINES]
            stage.run_id = conversation.run_id
            return said

    assert [(turn.raw_message, str(turn.status)) for turn in stage.play(play())] == [
        ("Paint what?", "WAITING_FOR_INPUT"),
        ("Which colour?", "RUNNING"),
        ("Sign. Go ahead? (yes/no)", "RUNNING"),
        ("the fence is red.", "COMPLETED"),
    ]
    assert sum(record.kind == "ownership_acquired" for record in stage.records) == 2, "its process kept it while its children were asking"
    _, turns = talk(Bold, *LINES[:3])
    assert turns[-1].raw_message.startswith("It was interrupted"), "and when its process has gone, a person is asked"


def test_the_end_is_the_same_when_a_process_is_killed_after_any_entry() -> None:
    expected = [turn.raw_message for turn in talk(Paint, *LINES)[1]]
    length = len(talk(Paint, *LINES)[0].records)
    for entry in range(2, length + 1):
        stage, turns = talk(Paint, *LINES, dies_after=entry)
        assert [turn.raw_message for turn in turns] == expected, f"killed after entry {entry}"
        assert len(stage.database.runs) == 3


def test_a_rejection_in_a_child_is_an_error_that_the_agent_may_handle() -> None:
    assert talk(Careful, *LINES[:3], "no, too bright")[1][-1].raw_message == "Not painted: signature cancelled: too bright."
    turn = talk(Paint, *LINES[:3], "no")[1][-1]
    assert (turn.status, turn.raw_message) == ("ERROR", "Sorry, something went wrong: signature cancelled: rejected.")
    assert talk(Careful, *LINES[:2], "none")[1][-1].raw_message.startswith("Not painted: colour failed: ValueError")


def test_a_cancel_is_passed_down() -> None:
    stage, turns = talk(Paint, *LINES[:2], "!cancel enough")
    assert (turns[-1].raw_message, turns[-1].status) == ("Cancelled.", "CANCELLED")
    assert {row.outcome for row in stage.database.runs.values()} == {"cancelled"}


def test_pause_and_resume_are_passed_down() -> None:
    stage, turns = talk(Paint, *LINES[:2], "!pause", "!resume", "red", "yes")
    assert turns[-1].raw_message == "the fence is red."
    assert "PAUSED" not in stage.states, "the conversation was running: its child was paused"


def test_a_constellation_is_started_with_its_plan_and_its_inputs() -> None:
    start = constellation({"tasks": [{"task_id": "a", "device": "d", "skill": "s"}]}, inputs={"when": "now"}, request="do a")
    assert (start.machine, start.title) == ("constellation agent", "do a")
    first = first_event(start.start)
    assert (first.request, first.inputs, first.plan is not None) == ("do a", {"when": "now"}, True)


class Odd(StandardAgent):
    async def on_running(self, msg: Message) -> AgentResult:
        start = flow(Colour)
        definition = {**start.start.definition, "colour": "red"}
        await self.child("colour", msgspec.structs.replace(start, start=msgspec.structs.replace(start.start, definition=definition)))
        return self.make_result(AgentStatus.COMPLETED, "Chosen.")


def test_a_definition_with_an_unknown_field_is_rejected() -> None:
    stage, turns = talk(Odd, "go")
    assert turns[-1].status == AgentStatus.ERROR
    assert "its definition is not a valid FlowDefinition: Object contains unknown field `colour`" in turns[-1].reason
    assert len(stage.database.runs) == 1


def test_a_machine_that_cannot_be_a_child_is_rejected_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FLOW_AGENT, "starts", None)
    stage, turns = talk(Paint, "paint", "the fence")
    assert turns[-1].status == AgentStatus.ERROR
    assert "a flow agent cannot be started by another run" in turns[-1].reason
    assert len(stage.database.runs) == 1


def test_a_child_cannot_be_started_outside_a_handler() -> None:
    stage = Stage(Paint)

    async def play() -> Any:
        return await Paint().child("x", flow(Colour))

    with pytest.raises(InvalidInput, match="was called outside a handler"):
        stage.play(play())


class Shipping(StandardAgent):
    async def on_running(self, msg: Message) -> AgentResult:
        await self.child("ship", constellation({"tasks": [{"task_id": "a", "device": "d", "skill": "s"}]}))
        return self.make_result(AgentStatus.COMPLETED, "Shipped.")


def test_a_conversation_outside_of_open_starts_a_constellation() -> None:
    said = asyncio.run(Shipping().reply("ship"))
    assert said.reason == "ship failed: a: unknown device 'd'; the fleet has no device"  # it needs the fleet of an open(…)
