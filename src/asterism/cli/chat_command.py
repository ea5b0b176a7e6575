"""The command chat: a conversation with flow agents, of this computer or of a server."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from asterism.app.settings import database_path, model_choice, server_url
from asterism.cli.chat import Chat, run_chat
from asterism.cli.exit_codes import INTERRUPTED
from asterism.cli.keyboard import terminal
from asterism.cli.local_chat import fleet_of, open_local_chat, open_with_models
from asterism.cli.options import BackupModel, Database, Record, ServerUrl
from asterism.cli.output import put
from asterism.cli.run_access import actor, refuse_with_server, remote_runs
from asterism.conversation.python.agent_state import AgentResult
from asterism.conversation.python.source import agents_of
from asterism.engine.runtime.clock import zone_of
from asterism.errors import InvalidInput, did_you_mean
from asterism.views.words import plain
from asterism.words.reading.setting import DEFAULT_LANGUAGE, DEFAULT_ZONE
from asterism.words.reading.words import words_of

if TYPE_CHECKING:
    from asterism.service.remote_app import RemoteApp
    from asterism.service.remote_conversation import RemoteConversation

Agents = Annotated[
    str,
    Parameter(
        name="AGENTS",
        help="Source of the agents: file.py, package.module or an entry point; file.py:Name for one agent. "
        "With a server: the name of one of its agents.",
    ),
]
AgentFleet = Annotated[Path | None, Parameter(name=["--fleet", "-f"], help="Fleet file (TOML), for agents that start constellations.")]
MODELS = "openai:…, anthropic:…, google:… or ollama:…, or replay:FILE to replay a recording [default: $ASTERISM_MODEL, else no model]."


def chat(
    source: Agents,
    /,
    *,
    user: Annotated[str | None, Parameter(help="Name under which you chat [default: your login name].")] = None,
    fleet: AgentFleet = None,
    model: Annotated[
        str | None, Parameter(name="--model", help=f"Extract fields, choose agents and plan with this model: {MODELS}")
    ] = None,
    backup_model: BackupModel = None,
    record: Record = None,
    language: Annotated[
        str | None, Parameter(help="Language of your messages: de, en or es, or a language file (.toml) [default: the agent's].")
    ] = None,
    time_zone: Annotated[str | None, Parameter(help="Your time zone, as Europe/Berlin [default: the agent's, else the machine's].")] = None,
    server: ServerUrl = None,
    database: Database = None,
) -> int:
    """Chat with flow agents. An open conversation continues; /quit leaves it open.

    Ctrl-C while the agent works pauses the conversation; a second one stops at once. With a server, Ctrl-C only leaves the chat.
    At a terminal, a line typed before an approval is shown does not answer it. Lines from a pipe are read in order, and the
    exit code is that of the last conversation: 0 completed, 1 failed, 3 waiting, 130 cancelled.
    """
    if sys.stdin is None:
        raise InvalidInput("standard input is closed; chat reads your messages from it")
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401, PLC0415 - line editing and history at a terminal
    if url := server_url(server, database):
        refuse_with_server(user=user, fleet=fleet, model=model, backup_model=backup_model, record=record)
        return _chat_with_server(url, source, language or "", time_zone or "")
    agents = agents_of(source, Path.cwd())
    user = user or actor()
    fleet = fleet or asyncio.run(fleet_of(user, database_path(database)))
    with terminal():
        words_of(language or DEFAULT_LANGUAGE)
        zone_of(time_zone or DEFAULT_ZONE)
        opened = open_with_models(database, fleet, model_choice(model, backup_model, record))
        return asyncio.run(_chat(open_local_chat(agents, user, opened, language=language or "", time_zone=time_zone or "")))


async def _chat(opening: contextlib.AbstractAsyncContextManager[Chat]) -> int:
    async with opening as opened:
        return await run_chat(opened)


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


def _chat_with_server(url: str, agent: str, language: str, time_zone: str) -> int:
    with terminal():
        try:
            return asyncio.run(_chat(open_remote_chat(url, agent, language=language, time_zone=time_zone)))
        except KeyboardInterrupt:
            put("\nan open conversation goes on in the server; the same command continues it")
            return INTERRUPTED
