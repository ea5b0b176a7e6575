"""A device whose skills are the tools of an MCP server.

An attempt is a call, and nothing finds a call again after the connection is gone: such an attempt
ends with an error, and is performed again only if its skill is declared repeatable.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import mcp_types
import msgspec
from mcp import MCPError

from asterism.constellation.profile import AgentProfile, Skill
from asterism.devices.mcp_calls import HeldCalls, McpConnection
from asterism.devices.mcp_entry import McpEntry
from asterism.devices.mcp_leg import Ended, Leg
from asterism.devices.mcp_questions import LegState
from asterism.devices.mcp_results import ArgumentCheck, error_of, failed, result_of
from asterism.devices.mcp_server import CONNECT_S, ConnectionEnding, ServerAddress, listed_tools, open_client, with_variables
from asterism.devices.mcp_tools import one_line, skills_of
from asterism.devices.resources import ResourcePool
from asterism.devices.worker_protocol import AttemptError
from asterism.errors import InvalidInput, first_of
from asterism.kernel.data import error_text
from asterism.runtime.driver import task_group
from asterism.runtime.ports.device import Attempt, AttemptResult, Notices, Signs

BEAT_S = 15.0
"""Seconds between two signs of life that the device asks for."""
IDLE_SILENT_S = 30.0
"""Seconds of silence after which a server without a call is lost."""
CHECK_S = 5.0
"""Seconds that a server has for a sign of life after a call has failed."""
WELL_S = 60.0
"""Seconds after which a connection counts as well, and the next failure as the first."""
FIRST_DELAY_S = 0.5
MAX_DELAY_S = 60.0
"""Longest wait between two attempts to connect, in seconds."""
STOP_GRACE_S = 5.0
"""Seconds for which a stop that the server does not confirm is tried again."""
MAX_REASON = 300

log = logging.getLogger("asterism.devices")


class Unreachable(Exception):
    """The server cannot be reached; the text says why."""


class McpDevice:
    """A device of kind ``mcp``.

    Args:
        entry: its table, with absolute paths.
        pool: opens the connection, and closes it at the end.
        started: notes the process group of a server.
    """

    def __init__(self, entry: McpEntry, pool: ResourcePool, started: Callable[[int, str], contextlib.AbstractContextManager[None]]) -> None:
        self._entry = entry
        self._pool = pool
        self._started = started
        self._address = ServerAddress(command=entry.command, url=entry.url, headers=entry.headers, folder=entry.folder)
        self._key = ("mcp device", id(self))
        self._profile = entry.profile(file_bytes=0)
        self._checks: dict[str, ArgumentCheck] = {}
        self._held = HeldCalls(entry.held_s)

    @property
    def profile(self) -> AgentProfile:
        return self._profile

    async def open(self) -> None:
        """Connect, for the profile. A server that cannot be reached leaves a device without skills, and the reason."""
        try:
            await self._connected()
        except Unreachable as why:
            log.warning("device %s: %s", self._entry.id, why)
            description = f"{self._entry.description} (cannot be reached: {why})".strip()
            self._profile = self._entry.profile(file_bytes=0, description=description)

    # -- attempts ----------------------------------------------------------------------------------

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        try:
            state = msgspec.convert(attempt.state, LegState)
            if attempt.reply is not None:
                state = state.replied(attempt.reply)
                if state.pending() is not None:
                    return AttemptResult(question=state.question())
            connection = await self._connected()
            skill = self._checked_skill(attempt)
            await signs.begun()
            ended = await Leg(attempt, skill, connection, signs, state=state, held=self._held).run()
        except Unreachable as why:
            return failed("device_lost", str(why))
        except AttemptError as refusal:
            return failed(refusal.code, refusal.message)
        except (InvalidInput, msgspec.ValidationError) as odd:
            return failed("raised", str(odd))
        return ended if isinstance(ended, AttemptResult) else await self._end_of(ended, skill, connection)

    async def stop(self, attempt: Attempt) -> str:
        may_run = await self._held.stop(attempt.key)
        if may_run is None:  # before this process: a program has ended with its caller, and a question that is not held has ended its call
            state = msgspec.convert(attempt.state, LegState)
            may_run = bool(self._entry.url) and (state.held or not state.requests)
        return f"{attempt.skill} of {self._address.shown}: MCP servers do not confirm that they cancel a call" if may_run else ""

    def _checked_skill(self, attempt: Attempt) -> Skill:
        """Return the skill of an attempt that may begin. Raises AttemptError."""
        skill: Skill | None = self._profile.skill(attempt.skill)
        if skill is None:
            have = ", ".join(each.name for each in self._profile.skills[:20]) or "none"
            raise AttemptError("no_device", f"device {self._entry.id} has no skill {attempt.skill!r}; it has {have}")
        if attempt.env or attempt.task_folder:
            raise AttemptError("bad_arguments", f"a task of device {self._entry.id} cannot have env or folder: its server already runs")
        check = self._checks.get(skill.name)
        if check is None:
            check = self._checks[skill.name] = ArgumentCheck(skill.parameters)
        if refusal := check.refusal(attempt.arguments):
            raise AttemptError("bad_arguments", f"skill {skill.name}: {refusal}")
        if attempt.again and not skill.idempotent:
            raise AttemptError("interrupted", "MCP has no way to find a call again, and it may have been carried out")
        return skill

    async def _end_of(self, ended: Ended, skill: Skill, connection: McpConnection) -> AttemptResult:
        """Return the end of an attempt whose call has ended."""
        if isinstance(ended, mcp_types.CallToolResult):
            return result_of(ended, skill.output)
        if connection.is_closed or connection.ending.reason or not await self._lives(connection):
            connection.ending(one_line(error_text(ended), MAX_REASON))
            self._give_up(connection)
            message = f"the connection to {self._address.shown} was lost: {connection.ending.reason}"
            return failed("crashed" if self._entry.command else "device_lost", message)
        if isinstance(ended, MCPError):
            return error_of(ended)
        return failed("bad_result", one_line(error_text(ended), MAX_REASON))

    # -- the connection ----------------------------------------------------------------------------

    async def watch(self, notices: Notices) -> None:
        failures = 0
        while True:
            began = asyncio.get_running_loop().time()
            try:
                connection = await self._connected()
            except Unreachable as error:
                why = str(error)
                failures = max(failures, 1)
            else:
                notices.found(self._profile)
                why = await self._followed(connection, notices)
                self._give_up(connection)
                if asyncio.get_running_loop().time() - began >= WELL_S:
                    failures = 0
            if failures:  # a server that has ended once is started again at once
                notices.lost(why)
                await asyncio.sleep(min(FIRST_DELAY_S * 2 ** min(failures, 10), MAX_DELAY_S))
            failures += 1

    async def _followed(self, connection: McpConnection, notices: Notices) -> str:
        """Report changed tools while the connection lasts; return why it has ended."""
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(connection.listen())
            try:
                while not connection.ending.reason:
                    if not await connection.woken(BEAT_S):
                        limit_s = self._entry.silent_s if connection.calls else min(IDLE_SILENT_S, self._entry.silent_s)
                        if not await self._lives(connection, limit_s):
                            connection.ending(f"it has given no sign of life for {limit_s:g} s")
                    elif connection.has_changed:
                        connection.has_changed = False
                        await self._list(connection)
                        notices.found(self._profile)
            except Exception as error:  # boundary: a server may answer anything
                connection.ending(one_line(error_text(first_of(error)), MAX_REASON))
            finally:
                listening.cancel()
        return f"{self._address.shown}: {connection.ending.reason}"

    async def _lives(self, connection: McpConnection, timeout_s: float = CHECK_S) -> bool:
        try:
            async with asyncio.timeout(timeout_s):
                await connection.beat()
        except MCPError as error:
            return error.code == mcp_types.METHOD_NOT_FOUND  # an answer all the same
        except Exception:  # boundary: the connection may be gone, in any of its layers
            return False
        return True

    async def _connected(self) -> McpConnection:
        """Return the connection, opening it if necessary. Raises Unreachable."""
        try:
            async with asyncio.timeout(CONNECT_S):
                return await self._pool.get(self._key, self._opened)
        except Exception as error:  # boundary: a server may raise anything
            self._pool.forget(self._key)
            reason = error_text(first_of(error)).partition("\n")[0]
            if isinstance(error, TimeoutError):
                reason = f"it has not answered within {CONNECT_S:g} s"
            raise Unreachable(f"the MCP server {self._address.shown} cannot be used: {one_line(reason, MAX_REASON)}") from error

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncIterator[McpConnection]:
        """Connect, and list the tools."""
        ending = ConnectionEnding()
        opened: list[McpConnection] = []

        async def notified(message: Any) -> None:
            if isinstance(message, mcp_types.ToolListChangedNotification):
                for connection in opened:
                    connection.change()

        async def elicited(_context: Any, params: Any) -> Any:
            return await opened[0].asked(params)

        client = open_client(
            msgspec.structs.replace(self._address, env=with_variables(self._entry.env, "env variable")),
            log=log,
            needs=("mcp", "a device of the kind mcp"),
            ending=ending,
            started=self._started,
            read_s=self._entry.silent_s,
            elicitation_callback=elicited,
            message_handler=notified,
        )
        async with client as connected, task_group() as group:
            opened.append(connection := McpConnection(connected, group, ending))
            try:
                await self._list(connection)
                yield connection
            finally:
                ending("it was closed")
                await connection.close()

    async def _list(self, connection: McpConnection) -> None:
        tools = await listed_tools(connection.client)
        skills = skills_of(tools, self._entry.id, allow=self._entry.allow, trust_hints=self._entry.trust_hints)
        info = connection.client.server_info
        description = self._entry.description or f"MCP server {one_line(info.title or info.name, 80)}"
        self._profile = self._entry.profile(file_bytes=0, description=description, skills=skills, grace_s=STOP_GRACE_S)
        self._checks.clear()

    def _give_up(self, connection: McpConnection) -> None:
        """Close a connection that has ended; the next attempt opens another."""
        if not connection.is_closed:
            connection.is_closed = True
            self._pool.forget(self._key)
