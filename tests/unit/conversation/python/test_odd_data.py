"""What an agent's code says ends in a journal that gives it back, or ends its conversation in words; it never ends the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec
import pytest

from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, Orchestrator, StandardAgent, flow
from asterism.engine.kernel.data import MAX_BYTES
from asterism.errors import InvalidInput
from asterism.words.reading.replies import MAX_MESSAGE_CHARS
from tests.support.conversation_harness import Stage, talk

HALF = "\ud800"
"""Half a character, as the name of a file may have it."""


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"in": value}
    return value


class Odd(StandardAgent):
    """Does in on_running what a test has put here."""

    idempotent = True
    body: ClassVar[Callable[[Any], Any]]

    async def on_running(self, msg: Message) -> AgentResult:
        return await type(self).body(self) or self.make_result(AgentStatus.COMPLETED, "fine")


async def raises(agent: Odd) -> None:
    raise OSError(f"no file {HALF}.txt")


async def raises_its_own_words(agent: Odd) -> None:
    raise InvalidInput(f"no file {HALF}.txt")


async def says(agent: Odd) -> AgentResult:
    return agent.make_result(AgentStatus.COMPLETED, HALF)


async def says_no_text(agent: Odd) -> AgentResult:
    return agent.make_result(AgentStatus.COMPLETED, 5)  # type: ignore[arg-type]


async def returns_no_number(agent: Odd) -> AgentResult:
    return agent.make_result(AgentStatus.COMPLETED, "fine", data={"loss": float("nan")})


async def returns_too_deep(agent: Odd) -> AgentResult:
    return agent.make_result(AgentStatus.COMPLETED, "fine", data={"it": nested(100_000)})


async def leaves_too_deep(agent: Odd) -> None:
    agent.metadata["it"] = nested(101)


async def leaves_half(agent: Odd) -> None:
    agent.found = HALF  # type: ignore[attr-defined]


async def reports(agent: Odd) -> None:
    agent.report(HALF)


async def starts_with_no_number(agent: Odd) -> None:
    start = flow(Odd)
    await agent.child("it", msgspec.structs.replace(start, start=msgspec.structs.replace(start.start, inputs={"loss": float("nan")})))


async def starts_with_half(agent: Odd) -> None:
    await agent.child(HALF, flow(Odd))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (raises, r"OSError: no file \ud800.txt"),
        (raises_its_own_words, r"no file \ud800.txt"),
        (says, "a journal cannot hold it: 'utf-8' codec"),
        (says_no_text, "a journal cannot hold it: Expected `str`, got `int` - at `$.text`"),
        (returns_no_number, "the data of a result is not JSON: Out of range float values"),
        (returns_too_deep, "the data of a result is not JSON: maximum recursion depth"),
        (leaves_too_deep, "metadata: more than 100 lists and objects within each other"),
        (leaves_half, "an instance variable (begin its name with _ to keep it out of the journal) is not JSON: 'utf-8' codec"),
        (reports, "a journal cannot hold it: 'utf-8' codec"),
        (starts_with_no_number, "the start of child it is not JSON: Out of range float values"),
        (starts_with_half, "a journal cannot hold it: 'utf-8' codec"),
    ],
)
def test_data_that_cannot_be_journaled_is_an_error(body: Callable[[Any], Any], said: str) -> None:
    Odd.body = staticmethod(body)
    stage, (result,) = talk(Odd, "go")
    assert result.raw_message.startswith("Sorry, something went wrong: ")
    assert said in result.raw_message
    assert (result.status, stage.states[-1], result.code) == ("ERROR", "ERROR", "error")


@pytest.mark.parametrize("handler", ["on_initializing", "on_waiting_for_input", "on_waiting_for_approval", "on_paused"])
def test_data_that_cannot_be_journaled_is_an_error_in_every_handler(handler: str) -> None:
    async def odd(self: Any, msg: Message) -> AgentResult:
        raise OSError(HALF)

    asks = {"requires_approval": True, "item": InputField("What?"), "__annotations__": {"item": str}}
    agent = type(f"Odd_{handler}", (StandardAgent,), {**asks, handler: odd, "__module__": __name__})
    lines = {"on_initializing": ["go"], "on_waiting_for_input": ["go", "x"], "on_waiting_for_approval": ["go", "x", "yes"]}
    _, turns = talk(agent, *lines.get(handler, ["go", "!pause"]))
    assert (turns[-1].status, turns[-1].raw_message) == ("ERROR", r"Sorry, something went wrong: OSError: \ud800.")


def test_an_agent_that_cannot_be_constructed_fails_its_conversation() -> None:
    class Broken(StandardAgent):
        def __init__(self) -> None:
            raise RuntimeError("no room")

    _, (result,) = talk(Broken, "go")
    assert (result.status, result.raw_message) == ("ERROR", "Sorry, something went wrong: RuntimeError: no room.")


@pytest.mark.parametrize(("text", "values"), [(HALF, {}), ("go", {"item": HALF}), ("go", {"item": float("nan")})])
def test_a_message_that_cannot_be_journaled_is_rejected(text: str, values: dict[str, Any]) -> None:
    stage = Stage(Odd)
    with pytest.raises(InvalidInput, match=r"is not JSON|a journal cannot hold it|is not valid Unicode"):
        stage.play(stage.turn("say", text, values))


class Amount(StandardAgent):
    amount: int = InputField("How much?")


@pytest.mark.parametrize("first", ["go", ""])
def test_a_message_that_is_too_long_is_rejected_and_the_conversation_continues(first: str) -> None:
    stage = Stage(Amount)
    if first:
        stage.say(first)
    with pytest.raises(InvalidInput, match=r"a message of 50,001 characters; at most 50,000 \(MAX_MESSAGE_CHARS\)"):
        stage.say("4" * (MAX_MESSAGE_CHARS + 1))
    assert stage.say("4" * MAX_MESSAGE_CHARS).raw_message == ("Amount: that number is too long. How much?" if first else "How much?")


class Slow(StandardAgent):
    code: str = InputField("Which code?", pattern=r"\b(?:a|aa)+$")
    name: str = InputField("Which name?", min_length=2, pattern=r"\bunder (\w+)")


class Drinks(StandardAgent):
    cups: int = InputField("How many cups?", pattern=r"(\d+) cups|(\d+) mugs")
    note: str | None = InputField("A note?", pattern=r"note(?: (\w+))?")
    word: str = InputField("A word?", pattern=r"x*")
    mark: str = InputField("A mark?", pattern=r"mark(y*)")


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("5 cups", {"cups": 5}),
        ("6 mugs", {"cups": 6}),
        ("6 mugs, note sugar", {"cups": 6, "note": "sugar"}),
        ("note", {}),
        ("mark and words", {}),
        ("xx", {"word": "xx"}),
        ("markyy", {"mark": "yy"}),
    ],
)
def test_a_pattern_gives_its_first_group_that_matches_and_nothing_empty(said: str, found: dict[str, Any]) -> None:
    stage = Stage(Drinks)
    assert stage.say(said).fields == found


def test_a_pattern_that_takes_too_long_is_stopped_and_the_conversation_continues() -> None:
    slow = f"under smith, {'a' * 60}!"
    _, said = talk(Slow, slow, slow, "it is aaa")
    assert said[0].raw_message == "Which code?"
    assert said[0].fields == {"name": "smith"}
    assert said[1].raw_message == "Code: that took too long to read; please write it in other words. Which code?"
    assert said[2].fields == {"code": "aaa", "name": "smith"}


def test_a_message_stays_whole_if_the_search_for_a_pattern_takes_too_long() -> None:
    slow = f"{'a' * 60}!"
    assert Slow.input_fields()["code"].without(slow) == slow


def test_a_message_that_is_too_long_is_rejected_by_the_orchestrator_and_as_an_answer() -> None:
    stage = Stage(Amount)

    async def play() -> None:
        await stage.turn("say", "go")
        async with stage.process() as (runtime, _, _):
            with pytest.raises(InvalidInput, match="MAX_MESSAGE_CHARS"):
                await Orchestrator([Amount], runtime=runtime).handle("4" * (MAX_MESSAGE_CHARS + 1), user="ann")
            (asked,) = await runtime.store.inquiries(run_id=stage.run_id)
            with pytest.raises(InvalidInput, match=rf"the answer to {asked.inquiry_id} has 1,048,.* bytes, and the limit is 1,048,576"):
                await runtime.post_answer(asked.inquiry_id, "respond", actor="ann", value="4" * MAX_BYTES)

    stage.play(play())
