"""Handlers that say or do what a journal would not give back: the conversation is in ERROR, with words, and can be read ever after."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from asterism.conversation.python import AgentResult, AgentStatus, Message, StandardAgent
from asterism.conversation.python.conversation import Conversation
from asterism.engine.control.children import StartChild
from asterism.loop.python import OrchestrationLoop


async def work(_: Any) -> str:
    return "done"


LOOP = OrchestrationLoop(plan=[{"worker": "w", "intent": "x"}], workers={"w": work})


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def says(text: Any) -> Callable[[Any], AgentResult]:
    return lambda agent: agent.make_result(AgentStatus.COMPLETED, raw_message=text)


def reports(text: Any) -> Callable[[Any], AgentResult]:
    def report(agent: Any) -> AgentResult:
        agent.report(text)
        return says("done")(agent)

    return report


def raises(error: BaseException) -> Callable[[Any], AgentResult]:
    def fail(_: Any) -> AgentResult:
        raise error

    return fail


def talked(body: Callable[[Any], Any]) -> AgentResult:
    class Odd(StandardAgent):
        async def on_running(self, msg: Message) -> AgentResult:
            found: AgentResult = body(self)
            return await found if asyncio.iscoroutine(found) else found

    async def scene() -> AgentResult:
        conversation = Conversation(Odd)
        async with asyncio.timeout(30):
            return await conversation.say("go")

    return asyncio.run(scene())


@pytest.mark.parametrize("body", [says(None), says(5), says("\ud800"), reports(5), reports(None), reports("\ud800")])
def test_a_value_that_is_not_text_is_an_error_with_its_name(body: Any) -> None:
    result = talked(body)
    assert (result.status, result.code) == ("ERROR", "error")
    assert "a journal cannot hold it" in result.raw_message


def test_a_child_key_that_is_not_text_is_an_error() -> None:
    async def child(agent: Any) -> AgentResult:
        start: StartChild = LOOP.start("x")
        await agent.child(5, start)
        return says("done")(agent)

    result = talked(child)
    assert (result.status, result.code) == ("ERROR", "error")


@pytest.mark.parametrize(
    ("error", "said"), [(ValueError("caf\udce9"), r"ValueError: caf\udce9"), (Mute(), "Mute"), (KeyError("x" * 10**6), "KeyError: 'xxx")]
)
def test_an_exception_that_cannot_be_encoded_is_stored_in_part(error: Exception, said: str) -> None:
    result = talked(raises(error))
    assert result.status == "ERROR"
    assert said in result.raw_message
    assert len(result.raw_message) < 11_000
