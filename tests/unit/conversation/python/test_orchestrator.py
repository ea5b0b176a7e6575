"""Who a message is for: triggers, digressions, tenants, hooks, limits; and the same after the process has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, Orchestrator, StandardAgent, flowagent
from asterism.conversation.python.conversation import Conversation
from asterism.errors import Refused, RunNotFound
from tests.support.conversation_harness import Stage


@flowagent(triggers=["book", "table"], description="Book a table")
class Booking(StandardAgent):
    guests: int = InputField("How many guests?")
    name = InputField("Under which name?")


@flowagent(triggers=["weather"], description="Tell the weather")
class Weather(StandardAgent):
    town = InputField("In which town?")


@flowagent(triggers=["delete everything"], description="Delete", requires_approval=True)
class Delete(StandardAgent):
    target = InputField("What?")

    async def on_waiting_for_approval(self, msg: Any) -> Any:
        return self.make_result("CANCELLED", "Deletion cancelled.") if msg.get_text() != "yes delete" else await super().on_running(msg)  # type: ignore[arg-type]


AGENTS = (Booking, Weather, Delete)
WORLD = Stage(Booking)


class Desk:
    """Lines said to an orchestrator, each in a fresh process unless told otherwise."""

    def __init__(self, agents: Sequence[type[StandardAgent]] = AGENTS, kind: type[Orchestrator] = Orchestrator, **more: Any) -> None:
        self.stage = Stage(Booking)
        self.agents = agents
        self.kind = kind
        self.more = more

    def play(self, *lines: str | tuple[str, str] | tuple[str, str, str]) -> list[str]:
        async def one(line: Any) -> str:
            text, user, tenant = (
                line if isinstance(line, tuple) and len(line) == 3 else (*line, "") if isinstance(line, tuple) else (line, "ann", "")
            )
            if text.startswith("!wait"):
                await asyncio.sleep(float(text[5:]))
                return ""
            async with self.stage.process() as (runtime, _, _):
                desk = self.kind(self.agents, runtime=runtime, **self.more)
                if text == "!expire":
                    return str(await desk.expire_idle())
                return (await desk.handle(text, user=user, tenant=tenant)).raw_message

        async def every() -> list[str]:
            said = []
            for line in lines:
                said.append(await one(line))
                await asyncio.sleep(1)  # people take their time, and who was spoken to last is told by it
            return said

        said: list[str] = self.stage.play(every())
        return said


def test_a_trigger_is_a_word_and_not_a_part_of_one() -> None:
    nobody = "I can do this: Book a table; Tell the weather; Delete."
    assert Desk().play("I want to book a table", "4") == ["How many guests?", "Under which name?"]
    assert Desk().play("a bookish comfortable facebook", "deleted everything", "") == [nobody, nobody, nobody]
    assert Desk().play("please DELETE   everything!") == ["What?"]


def test_after_a_digression_the_earlier_conversation_continues() -> None:
    assert Desk().play("book", "4", "weather", "Rome", "Smith") == [
        "How many guests?",
        "Under which name?",
        "In which town?",
        "Done. Back to where we were: Under which name?",
        "Done.",
    ]


def test_an_answer_that_contains_a_trigger_is_an_answer() -> None:
    assert Desk().play("book", "4", "Frau Weather", "weather")[2:] == ["Done.", "In which town?"]
    assert Desk().play("weather", "the table mountain")[1] == "Done."


def test_the_user_can_return_to_an_open_conversation() -> None:
    assert Desk().play("book", "4", "weather", "let's book a table", "Smith", "Rome") == [
        "How many guests?",
        "Under which name?",
        "In which town?",
        "Under which name?",
        "Done. Back to where we were: In which town?",
        "Done.",
    ]


def test_returning_to_a_conversation_sends_it_no_message() -> None:
    turns = Desk().play("delete everything", "logs", "weather", "delete everything", "yes delete")
    assert turns[3] == "Delete (target: logs). Go ahead? (yes/no)"
    assert "Done." in turns[4]


def test_users_and_tenants_are_isolated() -> None:
    turns = Desk().play(
        ("book", "ann"), ("weather", "bob"), ("4", "ann"), ("Rome", "bob"), ("book", "ann", "acme"), ("7", "ann", "acme"), ("x", "a/ann")
    )
    assert turns == [
        "How many guests?", "In which town?", "Under which name?", "Done.", "How many guests?", "Under which name?",
        "I can do this: Book a table; Tell the weather; Delete.",
    ]  # fmt: skip


def test_a_conversation_is_hidden_from_other_tenants() -> None:
    stage = Stage(Booking)

    async def play() -> None:
        async with stage.process() as (runtime, _, _):
            desk = Orchestrator(AGENTS, runtime=runtime)
            run = (await desk.handle("book", user="ann", tenant="acme")).run_id
            assert [row.tenant for row in await runtime.runs()] == ["acme"]
            for tenant in ("", "other"):
                stranger = Conversation(Booking, runtime=runtime, run_id=run, user="ann", tenant=tenant)
                for turn in (stranger.say("4"), stranger.pause(), stranger.cancel(), stranger.settle(), stranger.result(runtime)):
                    with pytest.raises(RunNotFound):
                        await turn
            assert (await Conversation(Booking, runtime=runtime, run_id=run, tenant="acme").say("4")).raw_message == "Under which name?"

    stage.play(play())


def test_messages_of_one_user_are_handled_one_at_a_time() -> None:
    stage = Stage(Booking)

    async def play() -> list[AgentResult]:
        async with stage.process() as (runtime, _, _):
            desk = Orchestrator(AGENTS, runtime=runtime)

            async def say(number: int, text: str) -> AgentResult:
                await asyncio.sleep(number / 1e6)
                return await desk.handle(text, user="ann")

            said = await asyncio.gather(*(say(number, text) for number, text in enumerate(("book", "4", "Smith"))))
            assert not desk._turns
            return said

    assert [it.raw_message for it in stage.play(play())] == ["How many guests?", "Under which name?", "Done."]


class Hooked(Orchestrator):
    async def prepare_context(self, text: str, user: str, tenant: str) -> dict[str, Any]:
        return {"mood": "calm", **await super().prepare_context(text, user, tenant)}

    async def should_process(self, text: str, context: dict[str, Any]) -> bool:
        return "spam" not in text

    async def post_process(self, result: AgentResult, context: dict[str, Any]) -> AgentResult:
        return AgentResult(status=result.status, raw_message=f"({context['mood']}) {result.raw_message}")

    async def handle_no_match(self, text: str, context: dict[str, Any]) -> AgentResult:
        return AgentResult(status=(await super().handle_no_match(text, context)).status, raw_message="Pardon?")


def test_hooks_run_before_and_after_each_message() -> None:
    assert Desk(kind=Hooked).play("book spam", "hm", "book") == ["(calm) Pardon?", "(calm) Pardon?", "(calm) How many guests?"]


class ByLength:
    async def choose(self, text: str, agents: Sequence[type[StandardAgent]], context: dict[str, Any]) -> type[StandardAgent] | None:
        return agents[1] if len(text) > 10 else None


def test_a_router_is_asked_if_no_trigger_matches() -> None:
    assert Desk(router=ByLength()).play("shall I take an umbrella?", "Rome", "hm")[:2] == ["In which town?", "Done."]


def test_open_conversations_are_limited() -> None:
    with pytest.raises(Refused, match="1 conversations are open"):
        Desk(max_per_user=1).play("book", "weather")
    with pytest.raises(Refused, match="too many"):
        Desk(max_open=1).play(("book", "ann"), ("book", "bob"))


def test_only_idle_conversations_expire() -> None:
    turns = Desk(idle_s=3600).play(("book", "ann"), "!wait4000", ("book", "bob"), "!expire", ("4", "ann"), ("4", "bob"))
    assert turns[3:] == ["1", "I can do this: Book a table; Tell the weather; Delete.", "Under which name?"]


def test_a_wish_for_another_agent_in_the_answer_to_a_question_for_a_text_is_asked_about() -> None:
    offer = "Do you want this instead: Tell the weather? (yes/no)"
    assert Desk().play("book", "4", "oh, and the weather please")[2] == offer
    desk = Talking()
    assert desk.play("book", "4", "oh, and the weather please", "yes", "Rome", "Ann")[2:] == [
        offer,
        "In which town?",
        "Done. Back to where we were: Under which name?",
        "Done.",
    ]
    assert desk.play("book", "4", "oh, and the weather please", "no")[3] == "Shall I take this as the name: 'oh, and the weather'? (yes/no)"
    assert desk.play("cancel", "book", "4", "oh, and the weather please", "Ann")[4] == "Done."


def test_a_misspelt_trigger_and_the_name_of_an_agent_are_understood() -> None:
    assert Talking().play("wether please", "yes") == ["Do you want this instead: Tell the weather? (yes/no)", "In which town?"]
    assert Talking().play("wether please", "no")[1] == "I can do this: Book a table; Tell the weather; Delete."
    assert Talking().play("Tell the weather") == ["In which town?"]


def test_triggers_are_understood_after_an_opening_in_another_language() -> None:
    assert Talking(language="de").play("delete everything", "ich möchte ein table")[1] == "How many guests?"


def test_a_change_after_the_end_is_offered_as_a_new_conversation_with_the_values() -> None:
    offer = "That is done and stays as it is. Start again with this change: Book a table? (yes/no)"
    desk = Talking()
    assert desk.play("book", "4", "Ann", "no, 5 guests", "yes")[2:] == ["Done.", offer, "Done."]
    first, second = desk.stage.database.records.values()
    assert ('"guests":4' in str(first[-1]), '"guests":5' in str(second[-1])) == (True, True)
    nobody = "I can do this: Book a table; Tell the weather; Delete."
    assert desk.play("book", "4", "Ann", "no, 5 guests", "no")[4] == nobody
    assert desk.play("book", "4", "Ann", "thanks", "the guests are fine")[3:] == [nobody, nobody]


@flowagent(triggers=["ship"], description="Ship an order", requires_approval=True)
class Shipping(StandardAgent):
    order: int = InputField("Which order?")

    async def on_running(self, msg: Message) -> AgentResult:
        raise RuntimeError("the carrier is down")


@flowagent(triggers=["paket"], description="Ein Paket senden", requires_approval=True, language="de")
class GermanShipping(Shipping):
    pass


@flowagent(triggers=["refund"], description="Refund an order")
class Refund(Shipping):
    async def on_running(self, msg: Message) -> AgentResult:
        return self.make_result(AgentStatus.ERROR, "It is too late for a refund.")


@flowagent(triggers=["restock"], description="Restock")
class Restock(StandardAgent):
    async def on_running(self, msg: Message) -> AgentResult:
        raise RuntimeError("the shelf is down")


@flowagent(triggers=["insure"], description="Insure")
class Insured(StandardAgent):
    insured: bool = InputField("Is it insured?")

    async def on_running(self, msg: Message) -> AgentResult:
        raise RuntimeError("it needs an insurance")


SHIPPING = (Shipping, GermanShipping, Refund)
APPROVAL = "Ship an order (order: 7). Go ahead? (yes/no)"
RESTART = "Start again from the beginning, with the same values? (yes/no)"


def test_a_conversation_that_failed_starts_again_with_its_values_and_asks_for_approval_again() -> None:
    failed = f"Sorry, something went wrong: RuntimeError: the carrier is down. {RESTART}"
    said = Talking(SHIPPING).play("ship", "7", "yes", "yes", "make it 8", "yes", "no")
    assert said[1:] == [
        APPROVAL,
        failed,
        APPROVAL,
        APPROVAL.replace("7", "8"),
        failed,
        "I can do this: Ship an order; Ein Paket senden; Refund an order.",
    ]


def test_an_offer_to_start_again_is_accepted_for_as_long_as_a_conversation_may_be_idle() -> None:
    able = "I can do this: Restock."
    failed = f"Sorry, something went wrong: RuntimeError: the shelf is down. {RESTART.replace(', with the same values', '')}"
    assert Talking((Restock,), idle_s=60.0).play("restock", "!wait 50", "yes", "!wait 70", "yes") == [failed, failed, able]


def test_a_failure_after_a_no_offers_no_restart() -> None:
    assert Talking((Insured,)).play("insure", "no")[1] == "Sorry, something went wrong: RuntimeError: it needs an insurance."


def test_an_agent_without_values_starts_again_too() -> None:
    said = Talking((Restock,)).play("restock", "yes")
    assert said == [f"Sorry, something went wrong: RuntimeError: the shelf is down. {RESTART.replace(', with the same values', '')}"] * 2


def test_a_restart_is_offered_and_accepted_in_the_language_of_the_agent() -> None:
    said = Talking(SHIPPING).play("paket", "7", "ja", "ja")
    assert said[2].endswith("Noch einmal von vorn beginnen, mit denselben Angaben? (ja/nein)")
    assert said[3] == said[1]


def test_an_agent_that_ends_with_an_error_of_its_own_offers_no_restart() -> None:
    assert Talking(SHIPPING).play("refund", "7", "yes")[2] == "It is too late for a refund."


def test_a_failure_in_a_digression_leads_back_to_the_earlier_conversation() -> None:
    said = Talking((Booking, *SHIPPING)).play("book", "4", "ship", "7", "yes")
    assert said[4] == "Sorry, something went wrong: RuntimeError: the carrier is down. Back to where we were: Under which name?"


class Talking(Desk):
    """One process for all lines."""

    def play(self, *lines: Any) -> list[str]:
        self.stage = Stage(Booking)

        async def every() -> list[str]:
            async with self.stage.process() as (runtime, _, _):
                desk = self.kind(self.agents, runtime=runtime, **self.more)
                said = []
                for line in lines:
                    if not line.startswith("!wait"):
                        said.append((await desk.handle(line, user="ann")).raw_message)
                    await asyncio.sleep(float(line[5:]) if line.startswith("!wait") else 1)
                return said

        said: list[str] = self.stage.play(every())
        return said
