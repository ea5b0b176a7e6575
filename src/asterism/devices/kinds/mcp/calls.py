"""A connection to an MCP server, and the calls that are under way on it.

A call is a task of its connection and not of its attempt: with older protocols the server holds the
call open while it waits for an answer, and the attempt ends a leg in the meantime.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types
from mcp.client.subscriptions import SubscriptionLost
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from asterism.devices.kinds.mcp.questions import digest_of, on_the_wire, response_of
from asterism.devices.kinds.mcp.server import ConnectionEnding
from asterism.devices.kinds.mcp.task_messages import CreatedTask
from asterism.devices.port import Signs

MAX_LISTENS = 100_000
"""Streams of changes opened on one connection."""
LISTEN_AGAIN_S = 10.0
"""Seconds until a lost stream of changes is opened again."""

MAX_REMEMBERED = 1000
"""Number of latest attempts of which a device knows how their call has ended."""
DISMISS_S = 5.0
"""Seconds that a call may take to end after its question was dismissed."""
DISMISSED = {"action": "cancel"}

Returned = mcp_types.CallToolResult | mcp_types.InputRequiredResult | CreatedTask


class OpenCall:
    """One call of a tool.

    Args:
        connection: its connection.
        replay: recorded responses that are given, each once, if the server asks the same again; each
            with the digest of its request.

    Attributes:
        task: the call itself.
        signs: receives its progress; None between two legs.
        request: the request that the server waits for, as JSON; None if it does not wait.
    """

    def __init__(self, connection: McpConnection, replay: list[tuple[str, dict[str, Any]]]) -> None:
        self.connection = connection
        self.task: asyncio.Task[Returned | Exception]
        self.signs: Signs | None = None
        self.request: dict[str, Any] | None = None
        self._replay = replay
        self._asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._response: asyncio.Future[dict[str, Any]] | None = None

    def recorded(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """Return, and use up, the recorded response to a request; None if there is none."""
        digest = digest_of(request)
        found = next((entry for entry in self._replay if entry[0] == digest), None)
        if found is None:
            return None
        self._replay.remove(found)
        return found[1]

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the response to a request of the server, when there is one."""
        if (found := self.recorded(request)) is not None:
            return found
        self._response = asyncio.get_running_loop().create_future()
        self.request = request
        if not self._asked.done():
            self._asked.set_result(None)
        try:
            return await self._response
        finally:
            self.request = None

    def answer(self, response: dict[str, Any]) -> None:
        """Give the server the response that it waits for."""
        self._asked = asyncio.get_running_loop().create_future()
        self.request = None
        if self._response is not None and not self._response.done():
            self._response.set_result(response)

    async def until_asked_or_ended(self) -> dict[str, Any] | None:
        """Wait until the server asks, and return its request; or until the call has ended, and return None."""
        if self.request is None:
            either: set[asyncio.Future[Any]] = {self.task, self._asked}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return None if self.task.done() else self.request

    async def progressed(self, progress: float, total: float | None, message: str | None) -> None:
        """Report progress to the leg that is under way."""
        if self.signs is not None:
            fraction = min(max(progress / total, 0.0), 1.0) if total else None
            self.signs.progress(fraction, message or "")


class McpConnection:
    """One connection to a server.

    Attributes:
        client: client of the SDK.
        ending: the reason why it has ended.
        calls: calls that are under way.
        has_changed: True if the tools of the server have changed since they were listed.
        is_closed: True once this program has closed it.
    """

    def __init__(self, client: Any, group: asyncio.TaskGroup, ending: ConnectionEnding) -> None:
        self.client = client
        self.ending = ending
        self.calls: set[OpenCall] = set()
        self.has_changed = False
        self.is_closed = False
        self._group: asyncio.TaskGroup = group

    @property
    def is_modern(self) -> bool:
        """True if the protocol holds no call open and has no requests of the server."""
        return self.client.protocol_version in MODERN_PROTOCOL_VERSIONS

    def change(self) -> None:
        """Note that the tools have changed."""
        self.has_changed = True
        self.ending.wake.set()

    async def woken(self, timeout_s: float) -> bool:
        """Return True when the tools have changed or the connection has ended; False after the time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.ending.wake.wait()
        except TimeoutError:
            return False
        self.ending.wake.clear()
        return True

    async def beat(self) -> None:
        """Ask the server for a sign of life. Raises the errors of the SDK."""
        if self.is_modern:
            await self.client.session.send_discover(self.client.protocol_version)
        else:
            await self.client.session.send_ping()

    async def listen(self) -> None:
        """Report changes of the tools, if the server has them to report; returns if it has none."""
        for _ in range(MAX_LISTENS if self.is_modern else 0):
            try:
                async with self.client.listen(tools_list_changed=True) as changes:
                    async for _change in changes:
                        self.change()
            except SubscriptionLost:
                pass
            except Exception:  # boundary: the server has no such stream, or the connection is gone
                return
            await asyncio.sleep(LISTEN_AGAIN_S)
            self.change()

    def call(
        self,
        name: str,
        arguments: dict[str, Any],
        key: str,
        *,
        signs: Signs,
        responses: dict[str, dict[str, Any]],
        request_state: str | None,
        replay: list[tuple[str, dict[str, Any]]],
    ) -> OpenCall:
        """Start a call of a tool. ``key`` goes with it, as ``asterism.key`` of its ``_meta``."""
        call = OpenCall(self, replay)
        call.signs = signs
        calling = functools.partial(
            self.client.session.call_tool,
            name,
            arguments,
            progress_callback=call.progressed,
            input_responses={name: response_of(sent) for name, sent in responses.items()} or None,
            request_state=request_state,
            meta={"asterism.key": key},
            allow_input_required=True,
            allow_claimed=True,
        )
        call.task = self._group.create_task(_contained(calling), name=f"call {name}")
        self.calls.add(call)
        call.task.add_done_callback(lambda _: self.calls.discard(call))
        return call

    async def asked(self, request: Any) -> mcp_types.ElicitResult | mcp_types.ErrorData:
        """Answer a request that an older protocol makes during a call; the protocol does not say which call."""
        candidates = [call for call in self.calls if call.request is None]
        if len(candidates) != 1:
            why = "several calls are under way, and the protocol does not say which one asks" if candidates else "no call is under way"
            return mcp_types.ErrorData(code=mcp_types.INVALID_REQUEST, message=why)
        return response_of(await candidates[0].ask({"method": "elicitation/create", "params": on_the_wire(request)}))

    async def close(self) -> None:
        """Cancel the calls that are under way."""
        self.is_closed = True
        tasks = {call.task for call in self.calls}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


class HeldCalls:
    """The calls that servers hold open between two legs, and how the latest calls have ended, by attempt.

    Args:
        held_s: seconds after which a call without an answer is dismissed.
        outlive_connection: True if a server may go on with a call after its connection was closed.
    """

    def __init__(self, held_s: float, *, outlive_connection: bool = False) -> None:
        self._held_s = held_s
        self._outlive_connection = outlive_connection
        self._held: dict[str, tuple[OpenCall, asyncio.TimerHandle]] = {}
        self._cancelled: dict[str, McpConnection | None] = {}

    def begin(self, key: str) -> None:
        """Note that the first leg of an attempt begins: no call of it is out yet."""
        self._remember(key, None)

    def keep(self, key: str, call: OpenCall) -> None:
        """Keep a call for the next leg."""
        call.signs = None
        self._held[key] = (call, asyncio.get_running_loop().call_later(self._held_s, self._dismiss, key))

    def take(self, key: str) -> OpenCall | None:
        """Return the held call of an attempt, if its server still waits."""
        call, timer = self._held.pop(key, (None, None))
        if timer is not None:
            timer.cancel()
        return call if call is not None and not call.task.done() else None

    def outcome(self, key: str, call: OpenCall) -> Returned | BaseException:
        """Return how a call has ended, and note that it has."""
        self._remember(key, None)
        return ConnectionError("the connection was closed") if call.task.cancelled() else call.task.result()

    def cancel(self, key: str, call: OpenCall) -> None:
        """Cancel a call. The server is notified; the protocol has no confirmation."""
        if not call.task.done():
            call.task.cancel()
            self._remember(key, call.connection)

    async def stop(self, key: str) -> bool | None:
        """End the call of an attempt; return whether it may still run, None if nothing is known of it."""
        call = self.take(key)
        if call is not None:
            call.answer(DISMISSED)
            await asyncio.wait({call.task}, timeout=DISMISS_S)
            self._remember(key, None)
            self.cancel(key, call)
        if key not in self._cancelled:
            return None
        connection = self._cancelled[key]
        return connection is not None and (self._outlive_connection or not connection.is_closed)

    def _dismiss(self, key: str) -> None:
        if call := self.take(key):
            call.answer(DISMISSED)

    def _remember(self, key: str, connection: McpConnection | None) -> None:
        """Note on which connection a call was cancelled; None for a call that has ended."""
        self._cancelled.pop(key, None)
        self._cancelled[key] = connection
        while len(self._cancelled) > MAX_REMEMBERED:
            del self._cancelled[next(iter(self._cancelled))]


async def _contained(calling: Callable[[], Awaitable[Returned]]) -> Returned | Exception:
    try:
        return await calling()
    except Exception as error:  # boundary: returned, since a task that raises it would end its group
        return error
