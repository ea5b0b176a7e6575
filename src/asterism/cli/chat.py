"""A chat at the terminal: read messages and commands, print the answers."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from asterism.cli.exit_codes import FAILED, FINISHED, INTERRUPTED, WAITING
from asterism.cli.keyboard import typed_answer
from asterism.cli.output import put
from asterism.conversation.machine.events import AgentStatus
from asterism.conversation.machine.memory import Utterance
from asterism.conversation.python.agent_state import AgentResult
from asterism.conversation.python.slot_filling import value_words
from asterism.engine.ports.store import InquiryRow
from asterism.errors import AsterismError
from asterism.views.words import plain

MAX_SHOWN = 2000
"""Characters of an answer that are printed at most."""
CODES = {AgentStatus.COMPLETED: FINISHED, AgentStatus.ERROR: FAILED, AgentStatus.CANCELLED: INTERRUPTED}
"""Exit codes; any other status is ``WAITING``."""
PAUSED = -1
"""In place of an exit code: Ctrl-C has paused the conversation, and the chat ends."""
HELP = """\
/pause    pause the conversation
/resume   resume a paused conversation
/cancel   cancel the conversation
/fields   list the fields collected so far
/history  list the messages so far
/quit     leave; an open conversation stays open
End a line with a backslash to continue it on the next."""

COMMANDS = ("pause", "resume", "cancel", "fields", "history")


class OpenConversation(Protocol):
    """The open conversation of the user."""

    async def asked(self) -> InquiryRow | None:
        """Return its open question; one without verbs asks for a secret."""
        ...

    async def fields(self) -> Mapping[str, Any]:
        """Return the fields collected so far, without secrets."""
        ...

    async def history(self) -> Sequence[Utterance]:
        """Return the most recent messages, without secrets."""
        ...

    async def command(self, command: str) -> AgentResult | None:
        """``pause``, ``resume`` or ``cancel`` it; return the agent's answer, or None if Ctrl-C has paused it meanwhile."""
        ...

    async def settle(self) -> AgentResult:
        """Wait until it waits for the user or has ended; return the agent's last answer."""
        ...


class Chat(Protocol):
    """A user and the agents that take their messages, of this computer or of a server."""

    async def current(self) -> OpenConversation | None:
        """Return the open conversation of the user."""
        ...

    async def say(self, text: str) -> AgentResult | None:
        """Send a message; it starts a conversation if none is open. None if Ctrl-C has paused the conversation."""
        ...


async def run_chat(chat: Chat) -> int:
    """Chat until the user leaves; return the exit code: from a pipe, that of the last answer."""
    code = FINISHED
    if conversation := await chat.current():
        code = print_result(await conversation.settle()) or code  # an interrupted answer is completed first
    while (line := await _next_message(chat)) is not None:  # until the person leaves
        if line.strip() == "/quit":
            return FINISHED
        try:
            done = await _handle(chat, line)
        except AsterismError as error:
            put(f"({plain(str(error).partition(chr(10))[0], MAX_SHOWN)})")
            code = FAILED
            continue
        if done == PAUSED:
            return INTERRUPTED
        code = code if done is None else done
    return FINISHED if sys.stdin.isatty() else code


async def _next_message(chat: Chat) -> str | None:
    """Return the next message, the answer to an open question if there is one; None at the end of the input."""
    conversation = await chat.current()
    return await typed_answer(await conversation.asked() if conversation else None)


async def _handle(chat: Chat, line: str) -> int | None:
    """Handle a line, and print the answer; return the exit code of a conversation that has answered."""
    if not line.startswith("/"):
        return _print_answer(await chat.say(line))
    command = line.strip()[1:]
    if command not in COMMANDS:
        put(HELP)
    elif (conversation := await chat.current()) is None:
        put("(no conversation is open)")
    elif command == "fields":
        fields = await conversation.fields()
        put("\n".join(f"{name}: {plain(value_words(value), MAX_SHOWN)}" for name, value in fields.items()) or "(none yet)")
    elif command == "history":
        for said in await conversation.history():
            put(f"{plain(said.by)}: {plain(said.text, MAX_SHOWN)}")
    else:
        return _print_answer(await conversation.command(command))
    return None


def _print_answer(result: AgentResult | None) -> int | None:
    return PAUSED if result is None else print_result(result)


def print_result(result: AgentResult) -> int | None:
    """Print a result; return the exit code of its status, or None if no agent has answered."""
    put(plain(result.raw_message, MAX_SHOWN))
    if not result.run_id:
        return None
    put(f"  [{result.status}]")
    return CODES.get(result.status, WAITING)
