"""Handlers that are plain functions run in threads: they stop nobody, and their timeout holds."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from asterism.conversation.python import AgentResult, AgentStatus, InputField, Message, StandardAgent
from asterism.conversation.python.conversation import Conversation
from tests.support.conversation_harness import talk

GATE = threading.Event()
TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("TENANT", default="none")


@pytest.fixture(autouse=True)
def shut() -> None:
    GATE.clear()


class Slow(StandardAgent):
    what = InputField("What?")

    def on_running(self, msg: Message) -> AgentResult:  # type: ignore[override]
        self.report("waiting")
        GATE.wait(30)
        return self.make_result(AgentStatus.COMPLETED, f"{self.what} in {threading.current_thread() is not threading.main_thread()}.")


class Hurried(Slow):
    timeout_s = 0.05


class Quick(StandardAgent):
    async def on_running(self, msg: Message) -> AgentResult:
        GATE.set()
        return self.make_result(AgentStatus.COMPLETED, "Quick.")


def test_a_plain_handler_runs_in_a_thread_while_others_go_on() -> None:
    async def scene() -> tuple[list[str], str, str]:
        slow = Conversation(Slow)
        await slow.say("go")

        async def heard() -> tuple[list[str], str]:
            events = [event async for event in slow.stream("tea")]
            return [event.text for event in events if event.kind == "report"], events[-1].text

        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            listening = group.create_task(heard())
            await asyncio.sleep(0)
            quick = await Conversation(Quick).say("now")
        return *listening.result(), quick.raw_message

    assert asyncio.run(scene()) == (["waiting"], "tea in True.", "Quick.")


def test_the_timeout_of_a_plain_handler_holds() -> None:
    async def scene() -> AgentResult:
        conversation = Conversation(Hurried)
        await conversation.say("go")
        return await conversation.say("tea")

    result = asyncio.run(scene())
    assert (result.status, result.code, result.reason) == ("ERROR", "timeout", "it took longer than 0.05 s")
    GATE.set()


def wrapped(handler: Callable[..., Awaitable[AgentResult]]) -> Any:
    def call(self: Any, msg: Message) -> Awaitable[AgentResult]:
        return handler(self, msg)

    return call


def test_an_async_handler_in_a_plain_wrapper_still_runs_in_the_event_loop() -> None:
    class Wrapped(StandardAgent):
        @wrapped
        async def on_running(self, msg: Message) -> AgentResult:
            await asyncio.sleep(0)
            return self.make_result(AgentStatus.COMPLETED, str(threading.current_thread() is threading.main_thread()))

    assert talk(Wrapped, "go")[1][0].raw_message == "True"


def test_a_plain_handler_has_the_context_of_its_conversation_and_its_errors_are_reported() -> None:
    class Plain(StandardAgent):
        def on_initializing(self, msg: Message) -> AgentResult:  # type: ignore[override]
            return self.make_result(raw_message=TENANT.get())

        def on_waiting_for_input(self, msg: Message) -> AgentResult:  # type: ignore[override]
            raise ValueError(msg.get_text())

    TENANT.set("acme")
    _, turns = talk(Plain, "go")
    assert turns[0].raw_message == "acme"
    assert "ValueError" in talk(type("Failing", (Plain,), {"on_initializing": Plain.__dict__["on_waiting_for_input"]}), "go")[1][0].reason
