"""The seed's own examples, as it writes them (imports aside), doing what its text says."""

# ruff: noqa: ANN001, ANN201, RET503, RET505 - the seed's code, as it writes it

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import Any

import pytest

from asterism.conversation.python import STATE_TRANSITIONS, AgentResult, AgentStatus, InputField, Message, StandardAgent, flowagent
from asterism.errors import IllegalTransition, Refused
from tests.support.conversation_harness import Stage, act, talk

PAIRS = list(itertools.product(AgentStatus, AgentStatus))
created: list[str] = []
needs: dict[str, bool] = {}


async def create_order(item: str) -> str:
    created.append(item)
    return f"#{len(created)}"


@pytest.fixture(autouse=True)
def fresh() -> None:
    created.clear()
    needs.clear()


# fmt: off
@flowagent(triggers=["order"])
class OrderAgent(StandardAgent):
    item = InputField("What would you like to order?")

    async def on_running(self, msg):  # type: ignore[no-untyped-def]
        # Your custom logic here
        order_id = await create_order(self.item)

        return self.make_result(
            status=AgentStatus.COMPLETED,
            raw_message=f"Order created: {order_id}"
        )


@flowagent(triggers=["delete"], requires_approval=True)
class DeleteAgent(StandardAgent):
    target = InputField("What to delete?")

    def get_approval_prompt(self) -> str:
        return f"Delete '{self.target}'? This cannot be undone. (yes/no)"

    async def on_waiting_for_approval(self, msg):  # type: ignore[no-untyped-def]
        # Custom approval parsing
        user_input = msg.get_text().lower()

        if user_input == "yes delete":
            self.transition_to(AgentStatus.RUNNING)
            return await self.on_running(msg)

        return self.make_result(
            status=AgentStatus.CANCELLED,
            raw_message="Deletion cancelled."
        )


@flowagent(triggers=["survey"])
class SurveyAgent(StandardAgent):
    rating = InputField("Rate 1-5")
    comment = InputField("Any comments?")

    async def on_waiting_for_input(self, msg):  # type: ignore[no-untyped-def]
        user_input = msg.get_text()

        # Custom extraction logic
        if "skip" in user_input.lower():
            # Allow skipping optional fields
            current_field = self._get_missing_fields()[0]
            self.collected_fields[current_field] = "N/A"

        # Call parent for default behavior
        return await super().on_waiting_for_input(msg)


class StrictAgent(StandardAgent):
    def can_transition(self, from_state: AgentStatus, to_state: AgentStatus) -> bool:
        # Prevent going back to WAITING_FOR_INPUT from RUNNING
        if from_state == AgentStatus.RUNNING and to_state == AgentStatus.WAITING_FOR_INPUT:
            return False

        return super().can_transition(from_state, to_state)


class Manual(StandardAgent):
    async def on_running(self, msg):  # type: ignore[no-untyped-def]
        needs_more_info = needs.pop("more", False)
        if needs_more_info:
            # Go back to collect more input
            self.transition_to(AgentStatus.WAITING_FOR_INPUT)
            return self.make_result(
                status=AgentStatus.WAITING_FOR_INPUT,
                raw_message="I need more details. What else?"
            )

        return self.make_result(
            status=AgentStatus.COMPLETED,
            raw_message="Done!"
        )


class Steps(StandardAgent):
    async def on_running(self, msg):  # type: ignore[no-untyped-def]
        sub_state = self.metadata.get("sub_state", "step1")

        if sub_state == "step1":
            # Do step 1
            self.metadata["sub_state"] = "step2"
            return self.make_result(
                status=AgentStatus.WAITING_FOR_INPUT,
                raw_message="Step 1 complete. Ready for step 2?"
            )

        elif sub_state == "step2":
            # Do step 2
            return self.make_result(
                status=AgentStatus.COMPLETED,
                raw_message="All steps complete!"
            )
# fmt: on


class StrictManual(StrictAgent, Manual):
    pass


def said(agent: type, *lines: str) -> list[tuple[str, str]]:
    return [(result.raw_message, str(result.status)) for result in talk(agent, *lines)[1]]


def test_an_order_is_collected_and_created() -> None:
    assert said(OrderAgent, "I want to order something", "pizza") == [
        ("What would you like to order?", "WAITING_FOR_INPUT"),
        ("Order created: #1", "COMPLETED"),
    ]
    assert created == ["pizza"]


@pytest.mark.parametrize(
    ("words", "reply", "status"),
    [
        ("yes delete", "Done.", "COMPLETED"),
        ("YES DELETE", "Done.", "COMPLETED"),
        ("yes", "Deletion cancelled.", "CANCELLED"),
        ("what?", "Deletion cancelled.", "CANCELLED"),
    ],
)
def test_a_deletion_requires_its_own_confirmation(words: str, reply: str, status: str) -> None:
    turns = said(DeleteAgent, "delete", "the old logs", words)
    assert turns[1] == ("Delete 'the old logs'? This cannot be undone. (yes/no)", "WAITING_FOR_APPROVAL")
    assert turns[2] == (reply, status)


def test_fields_of_the_survey_may_be_skipped() -> None:
    stage, turns = talk(SurveyAgent, "survey", "skip", "very nice")
    assert [turn.raw_message for turn in turns] == ["Rate 1-5", "Any comments?", "Done."]
    assert turns[-1].fields == {"rating": "N/A", "comment": "very nice"}
    _, turns = talk(SurveyAgent, "survey", "5", "please skip this one")
    assert (turns[-1].fields, turns[-1].status) == ({"rating": "5", "comment": "N/A"}, "COMPLETED")
    assert stage.states[-1] == "COMPLETED"


@pytest.mark.parametrize(("state", "target"), PAIRS)
def test_an_override_forbids_and_the_table_still_holds(state: AgentStatus, target: AgentStatus) -> None:
    forbidden = (state, target) == (AgentStatus.RUNNING, AgentStatus.WAITING_FOR_INPUT)
    for agent in (StandardAgent(), StrictAgent()):
        allowed = target in STATE_TRANSITIONS[state] and not (forbidden and isinstance(agent, StrictAgent))
        assert agent.can_transition(state, target) == allowed
        agent._state.status = state
        if allowed:
            agent.transition_to(target)
            assert agent.status is target
        else:
            with pytest.raises(IllegalTransition):
                agent.transition_to(target)
            assert agent.status is state


@pytest.mark.parametrize(("state", "target"), PAIRS)
def test_an_illegal_result_changes_nothing_and_raises_and_a_result_in_place_is_idempotent(state: AgentStatus, target: AgentStatus) -> None:
    agent = StrictAgent()
    agent._state.status = state
    if target is state:
        assert agent.make_result(status=target).status is agent.status is state
        assert agent._state.transitions == []
    elif agent.can_transition(state, target):
        assert agent.make_result(status=target, raw_message="so").status is agent.status is target
    else:
        with pytest.raises(IllegalTransition):
            agent.make_result(status=target, metadata={"sub_state": "x"})
        assert (agent.status, agent.metadata, agent._state.transitions) == (state, {}, [])


def test_an_override_that_allows_more_adds_nothing() -> None:
    class Lax(StandardAgent):
        def can_transition(self, from_state: AgentStatus, to_state: AgentStatus) -> bool:
            return True

    agent = Lax()
    agent._state.status = AgentStatus.COMPLETED
    with pytest.raises(IllegalTransition):
        agent.transition_to(AgentStatus.RUNNING)


FORBIDDEN: list[tuple[AgentStatus, AgentStatus]] = []
TALKS = [
    ("go", "1", "2", "!pause", "!resume", "change a to 3", "back", "4", "yes", "more", "yes"),
    ("go", "!pause", "resume", "1", "2", "no"),
]
EDGES = [
    ("INITIALIZING", "WAITING_FOR_INPUT"), ("WAITING_FOR_INPUT", "PAUSED"), ("PAUSED", "WAITING_FOR_INPUT"),
    ("WAITING_FOR_INPUT", "WAITING_FOR_APPROVAL"), ("WAITING_FOR_APPROVAL", "PAUSED"), ("PAUSED", "WAITING_FOR_APPROVAL"),
    ("WAITING_FOR_APPROVAL", "WAITING_FOR_INPUT"), ("WAITING_FOR_APPROVAL", "RUNNING"), ("WAITING_FOR_APPROVAL", "CANCELLED"),
    ("RUNNING", "WAITING_FOR_INPUT"), ("RUNNING", "COMPLETED"),
]  # fmt: skip


class Watched(StandardAgent):
    requires_approval = True
    a = InputField("a?")
    b = InputField("b?")

    def can_transition(self, from_state: AgentStatus, to_state: AgentStatus) -> bool:
        return (from_state, to_state) not in FORBIDDEN and super().can_transition(from_state, to_state)

    async def on_running(self, msg: Message) -> AgentResult:
        rounds = self.metadata["rounds"] = self.metadata.get("rounds", 0) + 1
        return self.make_result(AgentStatus.COMPLETED if rounds > 1 else AgentStatus.WAITING_FOR_INPUT, "Well.")


def edges_taken() -> set[tuple[str, str]]:
    taken = set()
    for lines in TALKS:
        stage, said = Stage(Watched), list(lines)

        async def play(stage: Stage = stage, said: list[str] = said) -> None:
            with contextlib.suppress(Refused):  # it has ended early
                for line in said:
                    await act(stage, line)

        stage.play(play())
        taken |= set(itertools.pairwise(stage.states))
    return taken


@pytest.mark.parametrize("edge", EDGES, ids="->".join)
def test_an_override_is_called_for_every_transition_of_the_framework(edge: tuple[str, str]) -> None:
    FORBIDDEN.clear()
    assert edge in edges_taken()
    FORBIDDEN.append((AgentStatus(edge[0]), AgentStatus(edge[1])))
    assert edge not in edges_taken()


def test_going_back_to_collect_more_input() -> None:
    needs["more"] = True
    assert said(Manual, "go", "the red one") == [("I need more details. What else?", "WAITING_FOR_INPUT"), ("Done!", "COMPLETED")]


def test_a_strict_agent_that_goes_back_fails_with_the_reason() -> None:
    needs["more"] = True
    stage, (turn,) = talk(StrictManual, "go")
    assert turn.status == "ERROR"
    assert "does not accept a transition to WAITING_FOR_INPUT" in turn.raw_message
    assert stage.states == ["INITIALIZING", "RUNNING", "ERROR"]


def test_sub_states_in_metadata_survive_the_process() -> None:
    _, turns = talk(Steps, "go", "yes")
    assert [(turn.raw_message, str(turn.status)) for turn in turns] == [
        ("Step 1 complete. Ready for step 2?", "WAITING_FOR_INPUT"),
        ("All steps complete!", "COMPLETED"),
    ]
    assert turns[0].metadata == {"sub_state": "step2"}


class NoFields(StandardAgent):
    pass


@flowagent(requires_approval=True)
class Approved(OrderAgent):
    pass


class Two(StandardAgent):
    a = InputField("a?")
    b = InputField("b?")


@pytest.mark.parametrize(
    ("agent", "lines", "states"),
    [
        (NoFields, ["go"], ["INITIALIZING", "RUNNING", "COMPLETED"]),
        (Two, ["go", "1", "2"], ["INITIALIZING", "WAITING_FOR_INPUT", "RUNNING", "COMPLETED"]),
        (Approved, ["go", "tea", "yes"], ["INITIALIZING", "WAITING_FOR_INPUT", "WAITING_FOR_APPROVAL", "RUNNING", "COMPLETED"]),
        (Approved, ["go", "tea", "no"], ["INITIALIZING", "WAITING_FOR_INPUT", "WAITING_FOR_APPROVAL", "CANCELLED"]),
    ],
)
def test_the_typical_flows_have_exactly_these_states(agent: type, lines: list[str], states: list[str]) -> None:
    assert talk(agent, *lines)[0].states == states


def test_an_agent_in_a_program_has_the_status_of_its_last_result() -> None:
    async def play() -> None:
        agent: Any = Approved()
        for turn in (agent.pause, agent.resume, agent.cancel):
            with pytest.raises(Refused, match="has not started"):
                await turn()
        for turn, status in (
            (agent.reply("order"), "WAITING_FOR_INPUT"),
            (agent.reply("tea"), "WAITING_FOR_APPROVAL"),
            (agent.pause("lunch"), "PAUSED"),
            (agent.resume(), "WAITING_FOR_APPROVAL"),
        ):
            result = await turn
            assert result.status is agent.status is AgentStatus(status)
            assert result.run_id == agent.run_id
        assert (agent.item, agent.key, agent.fleet) == ("tea", "", ())
        events = [event async for event in agent.stream("yes")]
        assert events[-1].result.status is agent.status is AgentStatus.COMPLETED
        other: Any = OrderAgent()
        await other.reply("order")
        assert (await other.cancel("enough")).status is other.status is AgentStatus.CANCELLED

    asyncio.run(play())
