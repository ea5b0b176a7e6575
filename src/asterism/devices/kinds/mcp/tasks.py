"""Tasks of MCP servers: calls that go on without a connection.

The id of a task is the handle of its attempt, so the next owner of the run follows the same task.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types
import msgspec
from mcp import MCPError

from asterism.devices.kinds.mcp.calls import McpConnection
from asterism.devices.kinds.mcp.questions import MAX_LEGS, LegState
from asterism.devices.kinds.mcp.results import MAX_ERROR_CHARS, error_of
from asterism.devices.kinds.mcp.task_messages import ServerTask, TaskCancel, TaskParams, TaskQuery, TaskReply, UpdateParams
from asterism.devices.port import Attempt, AttemptResult, Signs, Unreachable
from asterism.engine.kernel.backoff import Backoff
from asterism.engine.kernel.data import one_line
from asterism.errors import InvalidInput

POLL_S = (0.1, 1.0, 60.0)
"""Seconds between two looks at a task: at least, if the server names no time, and at most."""
GRACE_S = 60.0
"""Seconds for which a task is followed while its server cannot be reached."""
FAULTS = Backoff(0.2, 5.0)
"""Waits after a failed request."""
CANCEL_S = 5.0
"""Seconds that a server may take to end a cancelled task."""
MAX_MESSAGE_CHARS = 500

Reconnect = Callable[[McpConnection | None], Awaitable[McpConnection]]
"""Returns a connection in place of one that has failed; raises Unreachable."""


def poll_interval_s(milliseconds: float | None) -> float:
    """Return the seconds until the next look at a task, within bounds."""
    least_s, usual_s, most_s = POLL_S
    return usual_s if milliseconds is None else max(least_s, min(milliseconds / 1000, most_s))  # also for NaN


class FollowedTask:
    """One leg of an attempt whose call has become a task.

    Args:
        attempt: the attempt.
        state: state between the legs, with the id of the task and the replies to its questions.
        signs: receives the messages of the task.
        reconnect: connects to the server.
    """

    def __init__(self, attempt: Attempt, state: LegState, signs: Signs, reconnect: Reconnect) -> None:
        self._attempt = attempt
        self._state = state
        self._signs = signs
        self._reconnect = reconnect
        self._params = TaskParams(taskId=state.task)
        self._connection: McpConnection | None = None
        self._message = ""

    async def run(self, wait_s: float = 0.0) -> AttemptResult | tuple[mcp_types.CallToolResult, McpConnection]:
        """Return the end of the task, or its question; first wait for ``wait_s``.

        Raises:
            Unreachable: the server cannot be reached for ``GRACE_S``.
        """
        try:
            return await self._followed(wait_s)
        except MCPError as error:
            why = one_line(error.message, MAX_ERROR_CHARS)
            return AttemptResult.failed("interrupted", f"the server does not know its task {self._state.task} any more: {why}")
        except (InvalidInput, ValueError) as odd:  # a ValidationError is one
            await self._abandon()
            return AttemptResult.failed("bad_result", one_line(f"task {self._state.task}: {odd}", MAX_ERROR_CHARS))

    async def _followed(self, wait_s: float) -> AttemptResult | tuple[mcp_types.CallToolResult, McpConnection]:
        if answered := {name: self._state.responses[name] for name in self._state.requests if name in self._state.responses}:
            # After a crash it is sent again: a server ignores a response that it has.
            await self._sent(TaskReply(params=UpdateParams(taskId=self._state.task, inputResponses=answered)), mcp_types.Result)
        while True:  # bounded by the timeout of the attempt
            await asyncio.sleep(wait_s)
            task, connection = await self._sent(TaskQuery(params=self._params), ServerTask)
            if task.task_id != self._state.task:
                raise InvalidInput("the server has answered with another task")
            if task.status == "completed":
                return mcp_types.CallToolResult.model_validate(task.result, by_name=False), connection
            message = one_line(task.status_message or "", MAX_MESSAGE_CHARS)
            if task.status == "failed":
                reason = str(task.error.get("message", "")) or message
                return error_of(MCPError(code=int(task.error.get("code", mcp_types.INTERNAL_ERROR)), message=reason))
            if task.status == "cancelled":
                return AttemptResult.failed("cancelled", f"its task was cancelled at the server{': ' + message if message else ''}")
            if message and message != self._message:
                self._signs.progress(message=message)
            self._message = message
            if any(name not in self._state.responses for name in task.input_requests):
                self._state = msgspec.structs.replace(self._state, requests=task.input_requests)
                return await self._question()
            wait_s = poll_interval_s(task.poll_interval_ms)

    async def _question(self) -> AttemptResult:
        if self._attempt.leg >= MAX_LEGS:
            await self._abandon()
            return AttemptResult.failed("raised", f"the server has asked {MAX_LEGS} questions")
        return AttemptResult(question=self._state.question())

    async def _sent(self, request: Any, kind: type[Any]) -> tuple[Any, McpConnection]:
        """Return the answer to a request, also over another connection. Raises MCPError if the task is unknown, and ValueError."""
        now = asyncio.get_running_loop().time
        give_up = now() + GRACE_S
        for faults in itertools.count(1):  # bounded by GRACE_S
            try:
                if self._connection is None:
                    self._connection = await self._reconnect(None)
                return await self._connection.client.session.send_request(request, kind), self._connection
            except Exception as error:  # boundary: the connection may be gone, in any of its layers
                if isinstance(error, ValueError) or (isinstance(error, MCPError) and error.code == mcp_types.INVALID_PARAMS):
                    raise
                if now() >= give_up:
                    raise Unreachable(one_line(str(error), MAX_ERROR_CHARS)) from error
            await asyncio.sleep(FAULTS.wait_s(faults))
            with contextlib.suppress(Unreachable):
                self._connection = await self._reconnect(self._connection)
        raise AssertionError("the count does not end")

    async def _abandon(self) -> None:
        """Ask the server to end a task whose attempt has failed."""
        if self._connection is not None:
            with contextlib.suppress(Exception):  # boundary: the attempt has failed already
                async with asyncio.timeout(CANCEL_S):
                    await self._connection.client.session.send_request(TaskCancel(params=self._params), mcp_types.Result)


async def stop_task(session: Any, task_id: str) -> str:
    """Cancel a task; return why it may still run, or an empty text.

    Raises:
        Exception: the server does not answer, or answers with an error.
    """
    params = TaskParams(taskId=task_id)
    try:
        await session.send_request(TaskCancel(params=params), mcp_types.Result)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CANCEL_S):
                while not (await session.send_request(TaskQuery(params=params), ServerTask)).is_over:  # noqa: ASYNC110 - at the server
                    await asyncio.sleep(POLL_S[0])
                return ""
    except MCPError as error:
        if error.code == mcp_types.INVALID_PARAMS:  # the server has no such task
            return ""
        raise
    return "the server has not ended it"
