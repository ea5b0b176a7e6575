"""Conversations in a file that reads as they went: ``python -m tests.simulation.conversations`` writes the replies anew, to be read.

== title · Agent (or Desk: an orchestrator with several)
> what the person says (or a command: !pause, !resume, !cancel, !wait SECONDS)
what the agent says
[STATUS]
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from asterism.conversation.python import AgentResult, Orchestrator
from asterism.conversation.python.secret_fields import SecretStore
from asterism.engine.runtime.runtime import Runtime
from asterism.errors import AsterismError
from tests.simulation.conversation_agents import AGENTS, AT_THE_DESK
from tests.support.conversation_harness import NEVER, Stage, act

PAGE = Path(__file__).with_name("conversations.txt")


class Conversation(NamedTuple):
    title: str
    agent: str
    lines: list[str]
    text: str


def read() -> list[Conversation]:
    """The conversations of the page."""
    found = []
    for block in re.split(r"(?m)^(?=== )", PAGE.read_text(encoding="utf-8")):
        if head := re.match(r"== (.*) · (\w+)\n", block):
            lines = [line[2:] for line in block.splitlines() if line.startswith("> ")]
            found.append(Conversation(head[1], head[2], lines, block.rstrip("\n")))
    return found


class Desk:
    """A person before an orchestrator, as ``asterism chat`` has it."""

    def __init__(self, runtime: Runtime, vault: SecretStore) -> None:
        self.run_id = ""
        self._desk = Orchestrator(AT_THE_DESK, runtime=runtime, vault=vault)

    async def say(self, text: str) -> AgentResult:
        await asyncio.sleep(1)  # people take their time, and who was spoken to last is told by it
        result = await self._desk.handle(text, user="ann")
        self.run_id = result.run_id
        return result

    async def pause(self) -> AgentResult:
        return await self._current("pause")

    async def resume(self) -> AgentResult:
        return await self._current("resume")

    async def cancel(self) -> AgentResult:
        return await self._current("cancel")

    async def _current(self, what: str) -> AgentResult:
        there = await self._desk.current("ann")
        assert there is not None
        result: AgentResult = await getattr(there, what)()
        return result


class DeskStage(Stage):
    """A desk instead of one conversation."""

    def talker(self, runtime: Runtime, vault: SecretStore) -> Any:
        return Desk(runtime, vault)


def hold(conversation: Conversation, *, dies_after: int = NEVER, restarts: bool = True) -> tuple[Stage, str]:
    """Hold a conversation, a fresh process for each turn unless told otherwise; returns it as the page has it."""
    kind, agent = (DeskStage, AGENTS["Greeting"]) if conversation.agent == "Desk" else (Stage, AGENTS[conversation.agent])
    stage = kind(agent, dies_after=dies_after, forgetful=conversation.agent != "Expense")  # a secret dies with its process
    told = [f"== {conversation.title} · {conversation.agent}"]

    async def play() -> None:
        async with contextlib.nullcontext() if restarts else stage.living():
            await lines()

    async def lines() -> None:
        for line in conversation.lines:
            told.append(f"> {line}")
            try:
                result = await act(stage, line)
            except AsterismError as error:
                told.append(f"({error})")
                continue
            if result is not None:
                told.extend([result.raw_message, f"[{result.status}]"])

    stage.play(play())
    return stage, "\n".join(told)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # the examples' agents write where they are
        PAGE.write_text("\n\n".join(hold(conversation)[1] for conversation in read()) + "\n", encoding="utf-8")
    print(f"wrote {PAGE.name}")
