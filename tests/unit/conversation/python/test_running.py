"""on_running: entered once, after RUNNING is durable; interrupted, it is not silently repeated."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from asterism.conversation.machine.events import MessageReceived
from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, StandardAgent, StreamEvent
from asterism.conversation.python.conversation import Conversation
from asterism.engine.control.run_control import Answered
from asterism.errors import InvalidInput, Refused
from tests.support.conversation_harness import Stage, act, talk

ENTERED: list[tuple[str, str]] = []
BEFORE: list[list[str]] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    ENTERED.clear()
    BEFORE.clear()


class Pay(StandardAgent):
    requires_approval = True
    amount: int = InputField("How much?")

    async def on_running(self, msg: Message) -> AgentResult:
        ENTERED.append((self.key, msg.get_text()))
        await asyncio.sleep(5)
        return self.make_result(AgentStatus.COMPLETED, f"Paid {self.amount}.")


class SafePay(Pay):
    idempotent = True


class ResumablePay(Pay):
    resumable = True


def entry_of_body(agent: type, yes: str = "yes") -> int:
    """Seq of the entry after which the body is entered."""
    stage, _ = talk(agent, "pay", "40", yes)
    return next(record.seq for record in stage.records if record.kind == "running_entered")


def test_an_interrupted_body_is_reported_and_not_repeated() -> None:
    stage, turns = talk(Pay, "pay", "40", "yes", dies_after=entry_of_body(Pay))
    assert turns[-1].raw_message.startswith("It was interrupted while it was under way, and may have finished.")
    assert turns[-1].status == "RUNNING"
    assert stage.deaths == 1
    assert len(ENTERED) == 1, "only the trial run of entry_of_body entered it: this process died before"


@pytest.mark.parametrize(
    ("words", "status", "said", "entered"),
    [
        ("yes", "COMPLETED", "Paid 40.", 1),
        ("no", "ERROR", "It was not run again. Whether it finished the first time is not known.", 0),
        ("hm", "RUNNING", "It was interrupted while it was under way, and may have finished. Run it again? (yes/no)", 0),
    ],
)
def test_a_person_decides_about_an_interrupted_body(words: str, status: str, said: str, entered: int) -> None:
    dies_after = entry_of_body(Pay)
    ENTERED.clear()
    _, turns = talk(Pay, "pay", "40", "yes", words, dies_after=dies_after)
    assert (turns[-1].status, turns[-1].raw_message, len(ENTERED)) == (status, said, entered)


def test_the_question_about_an_interruption_is_in_the_language_of_the_conversation() -> None:
    class Zahlen(Pay):
        language = "de"

    turns = talk(Zahlen, "pay", "40", "ja", "hm", "nein", dies_after=entry_of_body(Zahlen, "ja"))[1]
    asked = "Es wurde mittendrin unterbrochen und ist vielleicht fertig geworden. Noch einmal ausführen? (ja/nein)"
    ended = "Es wurde nicht noch einmal ausgeführt. Ob es beim ersten Mal fertig wurde, ist nicht bekannt."
    assert [turn.raw_message for turn in turns[-3:]] == [asked, asked, ended]


def test_a_pause_does_not_answer_the_question_about_an_interrupted_body() -> None:
    dies_after = entry_of_body(Pay)
    ENTERED.clear()
    _, turns = talk(Pay, "pay", "40", "yes", "!pause", "well?", "!resume", "no", dies_after=dies_after)
    asked = "It was interrupted while it was under way, and may have finished. Run it again? (yes/no)"
    assert [turn.raw_message for turn in turns[-5:]] == [
        asked,
        'This is paused. Write "resume" to continue, or "cancel" to stop.',
        'This is paused. Write "resume" to continue, or "cancel" to stop.',
        asked,
        "It was not run again. Whether it finished the first time is not known.",
    ]
    assert ENTERED == []


@pytest.mark.parametrize("agent", [SafePay, ResumablePay])
def test_a_body_that_may_be_entered_again_has_the_same_key(agent: type) -> None:
    stage = Stage(agent)

    async def play() -> AgentResult:
        for line in ("pay", "40"):
            await act(stage, line)
        async with stage.process() as (_, conversation, store):
            task = asyncio.ensure_future(conversation.say("yes"))
            await asyncio.sleep(2)  # it is in the body now
            assert len(ENTERED) == 1
            store.crash()
            task.cancel()
            await asyncio.wait([task])
            _ = task.cancelled() or task.exception()
        return await stage.look()

    result = stage.play(play())
    assert result.raw_message == "Paid 40."
    assert len(ENTERED) == 2
    assert len({key for key, _ in ENTERED}) == 1
    assert [text for _, text in ENTERED] == ["yes", "yes"]


def test_three_yes_at_once_pay_once() -> None:
    stage = Stage(SafePay)

    async def play() -> list[Any]:
        for line in ("pay", "40"):
            await act(stage, line)
        async with stage.process() as (runtime, _, _):
            people = [Conversation(SafePay, runtime=runtime, run_id=stage.run_id, user=name) for name in ("ann", "bob", "cleo")]
            return await asyncio.gather(*(person.say("yes") for person in people), return_exceptions=True)

    said = stage.play(play())
    assert len(ENTERED) == 1
    assert [it.raw_message for it in said if isinstance(it, AgentResult)].count("Paid 40.") >= 1
    assert stage.states[-2:] == ["RUNNING", "COMPLETED"]


def test_a_yes_to_values_that_were_changed_meanwhile_pays_nothing() -> None:
    stage = Stage(SafePay)

    async def play() -> list[AgentResult]:
        for line in ("pay", "40"):
            await act(stage, line)
        async with stage.process() as (runtime, _, _):
            ann, bob = (Conversation(SafePay, runtime=runtime, run_id=stage.run_id, user=name) for name in ("ann", "bob"))
            await ann.settle()
            await bob.say("make it 7")
            return [await ann.say("yes"), await ann.say("yes")]

    unseen, seen = stage.play(play())
    assert unseen.status == "WAITING_FOR_APPROVAL"
    assert "7" in unseen.raw_message
    assert (seen.raw_message, len(ENTERED)) == ("Paid 7.", 1)


def test_three_yes_written_straight_into_the_inbox_pay_once() -> None:
    stage = Stage(SafePay)

    async def play() -> None:
        for line in ("pay", "40"):
            await act(stage, line)
        async with stage.process() as (runtime, _, _):
            (asked,) = await runtime.store.inquiries(run_id=stage.run_id)
            for name in ("ann", "bob"):
                await runtime.post(stage.run_id, MessageReceived(text="yes", inquiry_id=asked.inquiry_id), actor=name, key=name)
            await runtime.post(stage.run_id, Answered(effect_id=asked.inquiry_id, verb="approve"), actor="cleo", key="cleo")
            await runtime.drive(stage.run_id)

    stage.play(play())
    assert len(ENTERED) == 1


def test_an_edit_through_the_inbox_is_shown_again() -> None:
    stage = Stage(SafePay)

    async def play() -> AgentResult:
        for line in ("pay", "40"):
            await act(stage, line)
        async with stage.process() as (runtime, conversation, _):
            (asked,) = await runtime.store.inquiries(run_id=stage.run_id)
            await runtime.post_answer(asked.inquiry_id, "edit", actor="ann", value={"amount": 80})
            await runtime.drive(stage.run_id)
            return await conversation.result(runtime)

    result = stage.play(play())
    assert (result.status, result.raw_message) == ("WAITING_FOR_APPROVAL", "SafePay (amount: 80). Go ahead? (yes/no)")
    assert ENTERED == []


class Transfer(Pay):
    amount: int = InputField("How much?", unit="EUR")
    days: int = InputField("In how many days?", unit="day")


def test_an_approval_shows_an_amount_with_its_currency() -> None:
    _, turns = talk(Transfer, "transfer", "150", "2")
    assert turns[-1].raw_message == "Transfer (amount: 150 EUR, days: 2). Go ahead? (yes/no)"


class Impatient(Pay):
    async def on_initializing(self, msg: Message) -> AgentResult | None:
        self.amount = 40
        if msg.get_text() == "body":
            return await self.on_running(msg)
        if msg.get_text() == "through":
            self.transition_to(AgentStatus.WAITING_FOR_APPROVAL)
        return self.make_result(AgentStatus.RUNNING)

    async def on_waiting_for_input(self, msg: Message) -> AgentResult | None:
        return self.make_result(AgentStatus.RUNNING)

    async def on_paused(self, msg: Message) -> AgentResult | None:
        return self.make_result(AgentStatus.RUNNING) if msg.get_text() == "now" else None


@pytest.mark.parametrize("line", ["body", "through", "result"])
def test_an_agent_cannot_bypass_its_required_approval(line: str) -> None:
    _, turns = talk(Impatient, line)
    assert "without an approval" in turns[0].raw_message
    assert ENTERED == []


class Direct(StandardAgent):
    async def on_initializing(self, msg: Message) -> AgentResult | None:
        result = await self.on_running(msg)
        assert result is not None
        self.after = True
        return result

    async def on_running(self, msg: Message) -> AgentResult:
        ENTERED.append(("direct", msg.get_text()))
        return self.make_result(AgentStatus.COMPLETED, "Done directly.")


class Child(Direct):
    async def on_running(self, msg: Message) -> AgentResult:
        ENTERED.append(("child", msg.get_text()))
        return await super().on_running(msg)


class Roundabout(StandardAgent):
    async def on_initializing(self, msg: Message) -> AgentResult:
        for state in (AgentStatus.WAITING_FOR_INPUT, AgentStatus.WAITING_FOR_APPROVAL, AgentStatus.RUNNING):
            self.transition_to(state)
        return await self.on_running(msg)

    async def on_running(self, msg: Message) -> AgentResult:
        return self.make_result(AgentStatus.COMPLETED, "Round.")


def test_a_body_is_entered_once_all_transitions_to_it_are_journaled() -> None:
    stage, turns = talk(Roundabout, "go")
    assert turns[-1].raw_message == "Round."
    assert stage.states == ["INITIALIZING", "WAITING_FOR_INPUT", "WAITING_FOR_APPROVAL", "RUNNING", "COMPLETED"]


class Twice(StandardAgent):
    async def on_initializing(self, msg: Message) -> AgentResult | None:
        await self.on_running(msg)
        return await self.on_running(msg)

    async def on_running(self, msg: Message) -> AgentResult:
        ENTERED.append(("twice", ""))
        return self.make_result()


class ByResult(StandardAgent):
    async def on_initializing(self, msg: Message) -> AgentResult | None:
        return self.make_result(AgentStatus.RUNNING)


def test_a_body_that_is_called_directly_is_entered_through_running() -> None:
    stage, turns = talk(Direct, "go")
    assert stage.states == ["INITIALIZING", "RUNNING", "COMPLETED"]
    assert turns[0].raw_message == "Done directly."
    assert ENTERED == [("direct", "go")]


def test_super_passes_through() -> None:
    stage, _ = talk(Child, "go")
    assert ENTERED == [("child", "go"), ("direct", "go")]
    assert sum(record.kind == "running_entered" for record in stage.records) == 1


def test_a_handler_enters_a_body_once() -> None:
    _, turns = talk(Twice, "go")
    assert (turns[0].status, len(ENTERED)) == ("ERROR", 1)


def test_a_result_of_running_leads_into_the_body() -> None:
    assert talk(ByResult, "go")[0].states == ["INITIALIZING", "RUNNING", "COMPLETED"]


class Forgetful(StandardAgent):
    async def on_running(self, msg: Message) -> Any:
        return {"text": "done"} if msg.get_text() == "dict" else None


@pytest.mark.parametrize("line", ["dict", "nothing"])
def test_a_body_without_a_result_is_an_error_with_a_remedy(line: str) -> None:
    _, turns = talk(Forgetful, line)
    assert turns[0].status == "ERROR"
    assert "return self.make_result(" in turns[0].raw_message


class HandMade(StandardAgent):
    async def on_running(self, msg: Message) -> AgentResult:
        if msg.get_text() == "stale":
            self.make_result(AgentStatus.COMPLETED)
            return AgentResult(status=AgentStatus.RUNNING)
        return AgentResult(status=AgentStatus.COMPLETED, raw_message="All done!")


@pytest.mark.parametrize("line", ["made by hand", "stale"])
def test_a_result_with_another_status_than_the_agent_is_an_error(line: str) -> None:
    _, turns = talk(HandMade, line)
    assert turns[0].status == "ERROR"
    assert "and the agent is" in turns[0].raw_message


def test_a_traceback_goes_to_the_log_and_not_to_the_person(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(StandardAgent):
        async def on_running(self, msg: Message) -> AgentResult:
            return AgentResult(status=1 / 0)  # type: ignore[arg-type]

    with caplog.at_level(logging.INFO):
        _, turns = talk(Broken, "go")
    assert turns[0].raw_message == "Sorry, something went wrong: ZeroDivisionError: division by zero."
    assert "1 / 0" in caplog.text
    assert not [it for it in caplog.records if it.levelno >= logging.WARNING], "what nobody set up a log for is on the screen of a chat"


def test_a_handler_that_hangs_before_the_body_times_out() -> None:
    class Stuck(StandardAgent):
        async def on_initializing(self, msg: Message) -> AgentResult | None:
            await asyncio.sleep(10_000)
            return None

    _, turns = talk(Stuck, "go")
    assert (turns[0].status, turns[0].raw_message) == ("ERROR", "Sorry, something went wrong: it took longer than 300 s.")


@pytest.mark.parametrize("error", [SystemExit("bye"), asyncio.CancelledError()])
def test_a_system_exit_ends_only_its_conversation(error: BaseException) -> None:
    class Quitter(StandardAgent):
        async def on_running(self, msg: Message) -> AgentResult:
            raise error

    _, turns = talk(Quitter, "go")
    assert (turns[0].status, turns[0].reason.partition(":")[0]) == ("ERROR", type(error).__name__)


class Talkative(StandardAgent):
    idempotent = True

    async def on_running(self, msg: Message) -> AgentResult:
        self.report("halfway")
        await asyncio.sleep(1)
        return self.make_result(AgentStatus.COMPLETED, "There.")


def test_a_stream_has_each_status_and_report_and_ends_with_the_result() -> None:
    stage = Stage(Talkative)

    async def play() -> list[StreamEvent]:
        async with stage.process() as (_, conversation, _):
            return [event async for event in conversation.stream("go")]

    events = stage.play(play())
    assert [(event.kind, str(event.status), event.text) for event in events] == [
        ("status", "INITIALIZING", ""),
        ("status", "RUNNING", ""),
        ("report", "RUNNING", "halfway"),
        ("status", "COMPLETED", ""),
        ("result", "COMPLETED", "There."),
    ]


def test_a_stream_of_a_later_turn_does_not_begin_with_the_state_it_is_in() -> None:
    stage = Stage(Pay)

    async def play() -> list[StreamEvent]:
        await act(stage, "pay")
        async with stage.process() as (_, conversation, _):
            return [event async for event in conversation.stream("40")]

    assert [(event.kind, str(event.status)) for event in stage.play(play())] == [
        ("status", "WAITING_FOR_APPROVAL"),
        ("result", "WAITING_FOR_APPROVAL"),
    ]


def test_a_cancel_during_the_body_takes_effect_at_its_end() -> None:
    stage = Stage(Pay)

    async def play() -> AgentResult:
        await act(stage, "pay")
        await act(stage, "40")
        async with stage.process() as (runtime, conversation, _):
            task = asyncio.ensure_future(conversation.say("yes"))
            await asyncio.sleep(2)
            other = Conversation(Pay, runtime=runtime, run_id=stage.run_id)
            assert (await other.cancel()).status == "COMPLETED"
            with pytest.raises(Refused, match="ended"):
                await other.cancel()
            return await task

    assert stage.play(play()).status == "COMPLETED", "what is done is done"


def test_an_agent_whose_module_is_missing_fails_with_the_reason() -> None:
    from asterism.conversation.python.registry import KNOWN, name_of  # noqa: PLC0415 - looked into here alone

    class Gone(StandardAgent):
        item = InputField("What?")

    stage = Stage(Gone)
    stage.say("go")
    del KNOWN[name_of(Gone)]
    with pytest.raises(InvalidInput, match="import its module first"):
        stage.say("tea")


def test_a_handler_cannot_talk_to_itself() -> None:
    class Narcissus(StandardAgent):
        async def on_running(self, msg: Message) -> AgentResult:
            return await self.reply("hello")

    assert "a handler cannot call reply" in talk(Narcissus, "go")[1][0].raw_message


@pytest.mark.parametrize("count", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_conversations_are_isolated_and_many_at_once(count: int) -> None:
    class Echo(StandardAgent):
        word = InputField("Which word?")

        async def on_running(self, msg: Message) -> AgentResult:
            await asyncio.sleep(1)
            return self.make_result(AgentStatus.COMPLETED, f"{self.word}!")

    stage = Stage(Echo)

    async def play() -> list[AgentResult]:
        async with stage.process() as (runtime, _, _):
            talks = [Conversation(Echo, runtime=runtime, user=f"user {number}") for number in range(count)]
            await asyncio.gather(*(it.say("go") for it in talks))
            return await asyncio.gather(*(it.say(f"text {number}") for number, it in enumerate(talks)))

    assert [it.raw_message for it in stage.play(play())] == [f"text {number}!" for number in range(count)]
