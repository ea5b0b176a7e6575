"""A chat at the terminal: read messages and commands, print the answers."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from asterism.cli.exit_codes import FAILED, FINISHED, INTERRUPTED, WAITING
from asterism.cli.keyboard import typed_answer
from asterism.cli.output import put
from asterism.conversation.machine.events import AgentStatus
from asterism.conversation.python.agent_state import AgentResult
from asterism.conversation.python.conversation import Conversation
from asterism.conversation.python.slot_filling import value_words
from asterism.errors import AsterismError
from asterism.views.words import plain

if TYPE_CHECKING:
    from asterism.service.remote_conversation import RemoteConversation

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


class Chat(Protocol):
    """A user and the agents that take their messages, of this computer or of a server."""

    async def current(self) -> Conversation | RemoteConversation | None:
        """Return the open conversation of the user."""
        ...

    async def say(self, text: str) -> AgentResult | None:
        """Send a message, as ``take``; it starts a conversation if none is open."""
        ...

    async def take(self, turn: Coroutine[Any, Any, AgentResult]) -> AgentResult | None:
        """Return the agent's answer to a command; None if Ctrl-C has paused the conversation meanwhile."""
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
        return _print_answer(await chat.take(getattr(conversation, command)()))
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
