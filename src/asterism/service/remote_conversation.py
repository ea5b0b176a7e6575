"""A conversation with a flow agent of a server, with the methods of ``Conversation``."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any

from asterism.conversation.machine.events import AgentStatus
from asterism.conversation.machine.memory import Utterance
from asterism.conversation.python.agent_state import AgentResult
from asterism.engine.ports.store import InquiryRow
from asterism.errors import Refused
from asterism.service.http_connection import HttpConnection
from asterism.service.remote_store import inquiry_row

POLL_S = 0.2
"""Seconds between two looks at a conversation whose agent works."""
MAX_POLLS = 5 * 86_400 * 7
"""Bound on waiting for an answer: a week. Handlers have bounds of their own."""


class RemoteConversation:
    """A conversation with an agent of a server; the token says who speaks.

    Args:
        connection: connection to the server.
        agent: name of the agent; not needed for an existing conversation.
        run_id: id of the run of an existing conversation.
        language, time_zone: how messages are read; by default as the agent says.
    """

    def __init__(self, connection: HttpConnection, agent: str = "", *, run_id: str = "", language: str = "", time_zone: str = "") -> None:
        self.agent = agent
        self.run_id = run_id
        self._connection = connection
        self._setting = {"language": language, "time_zone": time_zone}
        self._shown = {"inquiry_id": "", "digest": ""}

    async def say(self, message: str = "", values: Mapping[str, Any] | None = None) -> AgentResult:
        """Send a message and wait for the answer; the first message starts the conversation.

        A secret in it is sent to the server, which has it in memory only.

        Raises:
            Refused: the conversation has ended.
            RunNotFound: there is no such conversation.
            InvalidInput: there is no such agent, or the message cannot be used.
        """
        body: dict[str, Any] = {"text": message, "values": dict(values or {})}
        key = secrets.token_hex(16)
        if not self.run_id:
            begun = await self._connection.post("/api/conversations", {"agent": self.agent, **self._setting, **body}, key=key)
            self.run_id = begun["run_id"]
            return await self._settled(begun)
        body |= self._shown
        for _ in range(MAX_POLLS):
            reply = await self._connection.post(f"{self._path()}/messages", body, key=key)
            if reply["verdict"] != "pending":
                return self._result(reply)
        raise Refused(f"the agent still works; see: asterism show {self.run_id}")

    async def settle(self) -> AgentResult:
        """Wait until the conversation waits for its user or has ended; return the agent's last answer."""
        return await self._settled(await self._connection.get(self._path()))

    async def result(self) -> AgentResult:
        """Return the agent's last answer."""
        return self._result(await self._connection.get(self._path()))

    async def asked(self) -> InquiryRow | None:
        """Return the open question of this conversation, else of a run below it; one without verbs asks for a secret."""
        asked = (await self._connection.get(self._path()))["question"]
        return inquiry_row(asked) if asked else None

    async def fields(self) -> dict[str, Any]:
        """Return the fields collected so far, without secrets."""
        fields: dict[str, Any] = (await self._connection.get(self._path()))["fields"]
        return fields

    async def agent_name(self) -> str:
        """Return the name of its agent."""
        name: str = (await self._connection.get(self._path()))["agent"]
        return name

    async def history(self) -> list[Utterance]:
        """Return the most recent messages, without secrets."""
        return [Utterance(it["by"], it["text"]) for it in (await self._connection.get(self._path()))["messages"]]

    async def pause(self, reason: str = "") -> AgentResult:
        """Pause the conversation."""
        return await self._command({"command": "pause", "reason": reason})

    async def resume(self) -> AgentResult:
        """Resume a paused conversation."""
        return await self._command({"command": "unpause"})

    async def cancel(self, reason: str = "") -> AgentResult:
        """Cancel the conversation."""
        return await self._command({"command": "cancel", "reason": reason})

    async def _command(self, body: Mapping[str, Any]) -> AgentResult:
        self._path()
        await self._connection.post(f"/api/runs/{self.run_id}/commands", body, key=secrets.token_hex(16))
        return await self.settle()

    async def _settled(self, found: Mapping[str, Any]) -> AgentResult:
        for _ in range(MAX_POLLS):
            if found["waits"]:
                return self._result(found)
            await asyncio.sleep(POLL_S)
            found = await self._connection.get(self._path())
        raise Refused(f"the agent still works; see: asterism show {self.run_id}")

    def _result(self, found: Mapping[str, Any]) -> AgentResult:
        self._shown = {"inquiry_id": found["inquiry_id"], "digest": found["question"]["digest"] if found["question"] else ""}
        known = {name: found[name] for name in ("run_id", "data", "metadata", "fields", "code", "reason")}
        missing = tuple(found["missing_fields"])
        return AgentResult(**known, status=AgentStatus(found["status"]), raw_message=found["text"], missing_fields=missing)

    def _path(self) -> str:
        if not self.run_id:
            raise Refused("this conversation has not started; send a message first")
        return f"/api/conversations/{self.run_id}"
