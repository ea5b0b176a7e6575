"""A device whose skills are the tools of an MCP server.

An attempt is a call, and nothing finds a call again after the connection is gone: such an attempt
ends with an error, and is performed again only if its skill is declared repeatable. A call that the
server has made a task is found again by the id of the task.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncIterator
from typing import Any

import mcp_types
import msgspec
from mcp import MCPError

from asterism.devices.attempts.processes import WorkerLedger
from asterism.devices.kinds.mcp.calls import HeldCalls, McpConnection
from asterism.devices.kinds.mcp.leg import Leg
from asterism.devices.kinds.mcp.questions import LegState
from asterism.devices.kinds.mcp.results import error_of, refusal_of, result_of, with_contents
from asterism.devices.kinds.mcp.server import CONNECT_S, ConnectionEnding, McpEntry, ServerAddress, listed_tools, open_client
from asterism.devices.kinds.mcp.task_messages import CreatedTask, TasksExtension
from asterism.devices.kinds.mcp.tasks import GRACE_S, FollowedTask, poll_interval_s, stop_task
from asterism.devices.kinds.mcp.tools import CONTENT_OUTPUT, skills_of
from asterism.devices.kinds.remote import SENT_FILE_BYTES, ConnectedDevice, secret_names, with_secret_values, with_variables
from asterism.devices.port import Attempt, AttemptError, AttemptResult, Notices, Signs, Unreachable
from asterism.engine.kernel.backoff import Backoff
from asterism.engine.kernel.data import error_text, one_line
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.engine.runtime.resources import ResourcePool
from asterism.engine.runtime.task_group import task_group
from asterism.errors import InvalidInput, first_of

BEAT_S = 15.0
"""Seconds between two signs of life that the device asks for."""
IDLE_SILENT_S = 30.0
"""Seconds of silence after which a server without a call is lost."""
CHECK_S = 5.0
"""Seconds that a server has for a sign of life after a call has failed."""
WELL_S = 60.0
"""Seconds after which a connection counts as well, and its end as the first."""
RELISTS = Backoff(1.0, 600.0)
"""Times between two listings of tools that change: each one can add a profile to the journals."""
STOP_S = 14.0
"""Seconds for the cancel of a task."""
MAX_REASON = 300

log = logging.getLogger("asterism.devices")


class McpDevice(ConnectedDevice):
    """A device of kind ``mcp``.

    Args:
        entry: its table, with absolute paths.
        pool: opens the connection, and closes it at the end.
        ledger: lists the process group of a server.
    """

    def __init__(self, entry: McpEntry, pool: ResourcePool, ledger: WorkerLedger | None) -> None:
        self._entry = entry
        self._pool = pool
        self._ledger = ledger
        self._address = ServerAddress(command=entry.command, url=entry.url, headers=entry.headers, folder=entry.folder)
        self._key = ("mcp device", id(self))
        self._tasks = 0
        self._ended_at = -math.inf
        self._held = HeldCalls(entry.held_s, outlive_connection=bool(entry.url))
        self.secret_names = secret_names((*entry.headers.values(), *entry.env.values()))
        super().__init__(self._described(entry.description))

    async def open(self) -> None:
        """Connect, for the profile. A server that cannot be reached leaves a device without skills, and the reason."""
        try:
            await self._connected()
        except Unreachable as why:
            log.info("device %s: %s", self._entry.id, why)
            self.unreachable = str(why)
            self.profile = self._described(f"{self._entry.description} (cannot be reached: {why})".strip())

    async def connect(self) -> None:
        await self._connected()

    # -- attempts ----------------------------------------------------------------------------------

    async def carry_out(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        if attempt.leg == 1 and not attempt.again:
            self._held.begin(attempt.key)
        try:
            return await self._performed(attempt, signs)
        except (InvalidInput, msgspec.ValidationError) as odd:
            raise AttemptError("raised", str(odd)) from odd

    async def _performed(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        state = msgspec.convert(attempt.state, LegState)
        if attempt.reply is not None:
            state = state.replied(attempt.reply)
            if state.pending() is not None:
                return AttemptResult(question=state.question())
        if task_id := state.task or attempt.handle:
            await signs.begun()
            return await self._followed_task(attempt, msgspec.structs.replace(state, task=task_id), signs)
        connection = await self._connected()
        skill = self._skill(attempt)
        attempt = await with_contents(attempt, skill.parameters)
        if wrong := refusal_of(attempt.arguments, skill.parameters):
            raise AttemptError("bad_arguments", f"skill {skill.name}: {wrong}")
        await signs.begun()
        ended = await Leg(attempt, skill, connection, signs, state=state, held=self._held).run()
        if isinstance(ended, CreatedTask):
            state, wait_s = LegState(task=ended.task_id), poll_interval_s(ended.poll_interval_ms)
            return await self._followed_task(attempt, state, signs, wait_s)
        return ended if isinstance(ended, AttemptResult) else await self._end_of(ended, skill, connection)

    async def _followed_task(self, attempt: Attempt, state: LegState, signs: Signs, wait_s: float = 0.0) -> AttemptResult:
        """Follow the task that a call has become; its id is durable first."""
        await signs.attached(state.task)
        self._tasks += 1
        try:
            ended = await FollowedTask(attempt, state, signs, self._reconnected).run(wait_s)
        finally:
            self._tasks -= 1
        if isinstance(ended, AttemptResult):
            return ended
        result, connection = ended
        skill = self.profile.skill(attempt.skill) or Skill(name=attempt.skill, output=CONTENT_OUTPUT)
        return await result_of(result, skill, connection.client.session)

    async def _reconnected(self, failed: McpConnection | None) -> McpConnection:
        """Return a connection, another one if this one has ended. Raises Unreachable."""
        if failed is not None and (failed.is_closed or failed.ending.reason or not await self._lives(failed)):
            self._give_up(failed)
        return await self._connected()

    async def stop(self, attempt: Attempt) -> str:
        if task_id := attempt.state.get("task", "") or attempt.handle:
            try:
                async with asyncio.timeout(STOP_S):
                    left = await stop_task((await self._connected()).client.session, task_id)
            except Exception as error:  # boundary: a server may answer anything; the task may run
                left = f"no answer within {STOP_S:g} s" if isinstance(error, TimeoutError) else one_line(error_text(error), MAX_REASON)
            return f"task {one_line(task_id, MAX_REASON)} of {self._address.shown} ({left})" if left else ""
        may_run = await self._held.stop(attempt.key)
        if may_run is None:  # before this process: a program has ended with its caller, and a question that is not held has ended its call
            state = msgspec.convert(attempt.state, LegState)
            may_run = bool(self._entry.url) and (state.held or not state.requests)
        return f"{attempt.skill} of {self._address.shown}: MCP servers do not confirm that they cancel a call" if may_run else ""

    def _skill(self, attempt: Attempt) -> Skill:
        """Return the skill of an attempt that may begin. Raises AttemptError."""
        if (skill := self.profile.skill(attempt.skill)) is None:
            raise self.lacks(attempt.skill)
        if attempt.env or attempt.task_folder:
            raise AttemptError("bad_arguments", f"a task of device {self._entry.id} cannot have env or folder: its server already runs")
        if attempt.again and not skill.idempotent:
            raise AttemptError("interrupted", "MCP has no way to find a call again, and it may have been carried out")
        return skill

    async def _end_of(self, ended: mcp_types.CallToolResult | BaseException, skill: Skill, connection: McpConnection) -> AttemptResult:
        """Return the end of an attempt whose call has ended."""
        if isinstance(ended, mcp_types.CallToolResult):
            return await result_of(ended, skill, connection.client.session)
        if connection.is_closed or connection.ending.reason or not await self._lives(connection):
            connection.ending(one_line(error_text(ended), MAX_REASON))
            self._give_up(connection)
            message = f"the connection to {self._address.shown} was lost: {connection.ending.reason}"
            return AttemptResult.failed("crashed" if self._entry.command else "device_lost", message)
        if isinstance(ended, MCPError):
            return error_of(ended)
        return AttemptResult.failed("bad_result", one_line(error_text(ended), MAX_REASON))

    # -- the connection ----------------------------------------------------------------------------

    async def watch(self, notices: Notices) -> None:
        now = asyncio.get_running_loop().time
        while True:
            began = now()
            try:
                connection = await self._connected()
            except Unreachable:
                if not self._tasks or now() - self._ended_at >= GRACE_S:  # tasks go on without it
                    raise
                await asyncio.sleep(CHECK_S)
                continue
            notices.found(self.profile)
            why = await self._followed(connection, notices)
            self._give_up(connection)
            ended_before, self._ended_at = self._ended_at, now()
            if began - ended_before < WELL_S and now() - began < WELL_S:  # one that has ended once is started again at once
                raise Unreachable(why)

    async def _followed(self, connection: McpConnection, notices: Notices) -> str:
        """Report changed tools while the connection lasts; return why it has ended."""
        now = asyncio.get_running_loop().time
        lists, listed_at, wait_s = 0, -math.inf, 0.0
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(connection.listen())
            try:
                while not connection.ending.reason:
                    due_s = listed_at + wait_s - now() if connection.has_changed else BEAT_S
                    if due_s <= 0:
                        lists = 1 if now() - listed_at > RELISTS.longest_s else lists + 1
                        wait_s, listed_at = RELISTS.wait_s(lists), now()
                        await self._list_again(connection)
                        notices.found(self.profile)
                    elif not await connection.woken(min(due_s, BEAT_S)):
                        limit_s = self._entry.silent_s if connection.calls else min(IDLE_SILENT_S, self._entry.silent_s)
                        if not await self._lives(connection, limit_s):
                            connection.ending(f"it has given no sign of life for {limit_s:g} s")
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
                connection = await self._pool.get(self._key, self._opened)
                if connection.is_closed:  # it has ended, and the pool does not know it yet
                    self._pool.forget(self._key)
                    connection = await self._pool.get(self._key, self._opened)
                return connection
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

        env = with_variables(with_secret_values(self._entry.env), "env variable")
        client = open_client(
            msgspec.structs.replace(self._address, env=env, headers=with_secret_values(self._entry.headers)),
            log=log,
            needs=("mcp", "a device of the kind mcp"),
            ending=ending,
            ledger=self._ledger,
            read_s=self._entry.silent_s,
            elicitation_callback=elicited,
            message_handler=notified,
            extensions=[TasksExtension()],
        )
        async with client as connected, task_group() as group:
            opened.append(connection := McpConnection(connected, group, ending))
            try:
                await self._list(connection)
                yield connection
            finally:
                ending("it was closed")
                await connection.close()

    async def _list_again(self, connection: McpConnection) -> None:
        connection.has_changed = False
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._list(connection)
        except TimeoutError:
            connection.ending(f"it has not listed its tools within {CONNECT_S:g} s")

    async def _list(self, connection: McpConnection) -> None:
        tools = await listed_tools(connection.client)
        skills = skills_of(tools, self._entry.id, allow=self._entry.allow, trust_hints=self._entry.trust_hints)
        info = connection.client.server_info
        description = self._entry.description or f"MCP server {one_line(info.title or info.name, 80)}"
        self.profile = self._described(description, skills)

    def _described(self, description: str, skills: tuple[Skill, ...] = ()) -> AgentProfile:
        return self._entry.profile(file_bytes=SENT_FILE_BYTES, outlives_cancel=True, description=description, skills=skills)

    def _give_up(self, connection: McpConnection) -> None:
        """Close a connection that has ended; the next attempt opens another."""
        if not connection.is_closed:
            connection.is_closed = True
            self._pool.forget(self._key)
