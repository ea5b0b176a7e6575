"""A chat with an agent of a server, which drives the conversations; leaving it stops none."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import TYPE_CHECKING, Any

from asterism.cli.output import put
from asterism.cli.run_access import remote_runs
from asterism.conversation.python.agent_state import AgentResult
from asterism.errors import InvalidInput, did_you_mean
from asterism.views.words import plain

if TYPE_CHECKING:
    from asterism.service.remote_app import RemoteApp
    from asterism.service.remote_conversation import RemoteConversation


class RemoteChat:
    """``Chat`` with an agent of a server; the token says who speaks.

    Args:
        app: client of the server.
        agent: name of the agent.
        language, time_zone: how messages are read; by default as the agent says.
    """

    def __init__(self, app: RemoteApp, agent: str, *, language: str = "", time_zone: str = "") -> None:
        self._app = app
        self._agent = agent
        self._setting = {"language": language, "time_zone": time_zone}
        self._conversation: RemoteConversation | None = None

    async def current(self) -> RemoteConversation | None:
        """See ``Chat``."""
        if self._conversation is not None and (await self._app.describe(self._conversation.run_id)).status == "ended":
            self._conversation = None
        return self._conversation

    async def say(self, text: str) -> AgentResult:
        """See ``Chat``."""
        conversation = self._conversation or self._app.conversation(self._agent, **self._setting)
        result = await conversation.say(text)
        self._conversation = conversation
        return result

    async def take(self, turn: Coroutine[Any, Any, AgentResult]) -> AgentResult:
        """See ``Chat``."""
        return await turn

    async def find_open(self) -> None:
        """Continue the conversation of this agent whose last change is the newest, if one is open."""
        for row in sorted(await self._app.conversations(), key=lambda it: it.updated_at, reverse=True):
            found = self._app.conversation(run_id=row.run_id)
            if await found.agent_name() == self._agent:
                self._conversation = found
                return


@contextlib.asynccontextmanager
async def open_remote_chat(url: str, agent: str, *, language: str, time_zone: str) -> AsyncIterator[RemoteChat]:
    """Open a chat with an agent of a server, and print what it does. Raises InvalidInput if the server has no such agent."""
    async with remote_runs(url) as app:
        known = {it["name"]: it["description"] for it in (await app.connection.get("/api/agents"))["agents"]}
        if agent not in known:
            hint = did_you_mean(agent, known) or f"; it has {', '.join(sorted(known))}" if known else "; start it with --agents SOURCE"
            raise InvalidInput(f"the server {url} has no agent {agent!r}{hint}")
        chat = RemoteChat(app, agent, language=language, time_zone=time_zone)
        await chat.find_open()
        put(f"{plain(known[agent] or agent)}. Type /help for commands.")
        yield chat
