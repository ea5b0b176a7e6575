"""Conversations in a file that reads as they went: ``python -m tests.simulation.conversations`` writes the replies anew, to be read.

== title · Agent
> what the person says (or a command: !pause, !resume, !cancel, !wait SECONDS)
what the agent says
[STATUS]
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from asterism.errors import AsterismError
from tests.flows import NEVER, Stage, act
from tests.simulation.conversation_agents import AGENTS

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


def hold(conversation: Conversation, *, dies_after: int = NEVER) -> tuple[Stage, str]:
    """Hold a conversation, a fresh process for each turn; returns it as the page has it."""
    stage = Stage(AGENTS[conversation.agent], dies_after=dies_after, forgetful=False)
    told = [f"== {conversation.title} · {conversation.agent}"]

    async def play() -> None:
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
    PAGE.write_text("\n\n".join(hold(conversation)[1] for conversation in read()) + "\n", encoding="utf-8")
    print(f"wrote {PAGE.name}")
