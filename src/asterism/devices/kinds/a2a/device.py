"""A device whose attempts are tasks of an A2A agent.

The handle of an attempt is the id of its task. Letting an attempt go only closes the connection.

An attempt that may have been sent is looked for before it is sent again: by its handle, else by the
id of its message in the list of the agent's tasks. Two things cannot be found: a message that
reaches the agent after the list was read, and one that the agent answers without a task.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping

import httpx
from a2a.types import AgentCard, Message, StreamResponse, Task, TaskState

from asterism.devices.kinds.a2a import content
from asterism.devices.kinds.a2a.client import Agent, AgentError, InvalidAnswer, NotCancelable, UnknownTask, fetch_card, own_headers
from asterism.devices.kinds.a2a.content import parts_of, with_files
from asterism.devices.kinds.a2a.http import http_client
from asterism.devices.kinds.addresses import Addresses
from asterism.devices.kinds.remote import ConnectedDevice, secret_names
from asterism.devices.model.attempt import ErrorCode
from asterism.devices.port import Attempt, AttemptError, AttemptResult, DeviceQuestion, Notices, Signs, Unreachable
from asterism.engine.kernel.data import one_line
from asterism.engine.kernel.profile import AgentProfile

SETTLE_S = 5.0
"""Seconds before the tasks of an agent are listed: a message sent before a crash arrives meanwhile."""
HANDLE_S = 5.0
"""Seconds that a cancelled attempt waits for the answer to its message, which has the handle."""
REPORT_S = 0.1
"""Seconds for that report, which nobody needs to confirm."""
MARGIN_S = 3600.0
"""Seconds by which the clock of an agent may be behind."""
STOP_S = 14.0
CANCEL_S = 5.0
DRAIN_S = 0.1
FIRST_POLL_S, LAST_POLL_S = 0.05, 5.0
MAX_FAULTS = 5
"""Failed requests in a row, each after a longer wait, before the agent counts as lost."""
MAX_STALE = 10
"""Times that an answered question may still be shown before it counts as asked again."""
WATCH_S = 30.0
"""Seconds between two looks at the card of the agent."""
MAX_TASK_ID = 1024

_ENDS: dict[int, ErrorCode] = {
    TaskState.TASK_STATE_FAILED: "raised",
    TaskState.TASK_STATE_REJECTED: "raised",
    TaskState.TASK_STATE_CANCELED: "cancelled",
}
_WORDS = {
    TaskState.TASK_STATE_FAILED: "failed",
    TaskState.TASK_STATE_REJECTED: "was rejected by the agent",
    TaskState.TASK_STATE_CANCELED: "was cancelled at the agent",
}
_QUESTIONS = frozenset({TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED})


class A2aConnection:
    """The connection to the agent of one device; its card is read when the agent is first needed."""

    def __init__(
        self, url: str, addresses: Addresses, headers: Mapping[str, str], tls: ssl.SSLContext, verify: Callable[[AgentCard], None] | None
    ) -> None:
        self.url = url
        self._addresses, self._headers, self._tls, self._verify = addresses, headers, tls, verify
        self.secret_names = secret_names(headers.values())
        self._http: httpx.AsyncClient | None = None
        self._agent: Agent | None = None

    async def agent(self, *, fresh: bool = False) -> Agent:
        """Return the agent, with its card as last read; ``fresh`` reads it again. Raises AgentError."""
        if self._http is None:
            self._http = http_client(self.url, self._addresses, own_headers(self._headers), self._tls)
        if self._agent is None or fresh:
            card = await fetch_card(self.url, self._http, self._verify)
            if self._agent is None or self._agent.card != card:
                self._agent = Agent(self.url, card, self._http)
        return self._agent

    async def close(self) -> None:
        """Close the connection; tasks of the agent continue."""
        if self._http is not None:
            await self._http.aclose()


class A2aDevice(ConnectedDevice):
    """A device that hands its attempts to an agent.

    Args:
        declared: what the fleet file says about the device.
        connection: connection to the agent.
    """

    def __init__(self, declared: AgentProfile, connection: A2aConnection) -> None:
        super().__init__(declared)
        self._declared = declared
        self._connection = connection
        self.secret_names = connection.secret_names

    async def connect(self) -> None:
        """Read the card of the agent."""
        try:
            agent = await self._connection.agent(fresh=True)
        except AgentError as error:
            raise Unreachable(str(error)) from error
        self.profile = content.described(self._declared, agent.card)

    async def watch(self, notices: Notices) -> None:
        while True:
            await self.connect()
            notices.found(self.profile)
            await asyncio.sleep(WATCH_S)

    async def carry_out(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        agent = await self._connection.agent()
        return await with_files(await _Leg(agent, self._connection.url, attempt, signs).perform(), agent.http)

    async def has_gone_on(self, attempt: Attempt) -> bool:
        try:
            task = await (await self._connection.agent()).task(_task_id(attempt))
        except AgentError:  # the answer, or the next look, finds out
            return False
        return task.status.state not in _QUESTIONS or _question_id(task) != attempt.state["question"]

    async def stop(self, attempt: Attempt) -> str:
        task_id = _task_id(attempt)
        try:
            async with asyncio.timeout(STOP_S):
                agent = await self._connection.agent()
                if not task_id:
                    found = await agent.find(content.message_id(attempt.key), attempt.since - MARGIN_S)
                    task_id = found.id if found else ""
                return await _stopped(agent, task_id) if task_id else ""
        except AgentError as error:
            why = str(error)
        except TimeoutError:
            why = f"no answer within {STOP_S:g} s"
        what = f"task {one_line(task_id, content.MAX_TEXT)}" if task_id else f"a task with the message {content.message_id(attempt.key)}"
        return f"{what} may still run at {self._connection.url} ({why})"


class _Leg:
    """One leg of an attempt: a message, and its task until the end or a question."""

    def __init__(self, agent: Agent, url: str, attempt: Attempt, signs: Signs) -> None:
        self._agent = agent
        self._url = url
        self._attempt = attempt
        self._signs = signs
        self._message_id = content.message_id(attempt.message_key)
        self._stale = 0

    async def perform(self) -> AttemptResult:
        attempt, task_id = self._attempt, _task_id(self._attempt)
        if attempt.reply is not None and attempt.reply.verb == "reject":
            return await self._declined(task_id)
        try:
            files = await parts_of(attempt, self._agent.card) if attempt.reply is None and not task_id else []
        except AttemptError as error:
            raise AttemptError("interrupted" if attempt.again else error.code, error.message) from error
        await self._signs.begun()
        if attempt.reply is not None:
            await self._signs.attached(task_id)
            if await self._needs_no_reply(task_id):
                return await self._follow(task_id)
            try:
                return await self._send(content.reply_of(attempt, task_id))
            except AgentError as error:
                if error.code != "raised" or not _is_over(await self._agent.task(task_id)):
                    raise
                return await self._follow(task_id)  # it has gone on in this moment
        if not task_id and attempt.again:
            await asyncio.sleep(SETTLE_S)
            found = await self._agent.find(self._message_id, attempt.since - MARGIN_S)
            task_id = found.id if found else ""
        if task_id:
            await self._signs.attached(task_id)
            return await self._follow(task_id)
        return await self._send(content.request_of(attempt, files, takes_json=content.takes_json(self._agent.card)))

    async def _declined(self, task_id: str) -> AttemptResult:
        """End the task of a question that a person declined: a refusal in words could be taken for an answer."""
        assert self._attempt.reply is not None  # noqa: S101 - the caller has checked it
        if left := await _stopped(self._agent, task_id):
            return AttemptResult.failed("rejected", f"a person declined the question of the agent; {left}")
        reason = self._attempt.reply.reason
        return AttemptResult.failed("rejected", f"a person declined the question of the agent{': ' + reason if reason else ''}")

    async def _needs_no_reply(self, task_id: str) -> bool:
        """Return whether the agent has this leg's message, or has gone on without it, as A2A 1.0 (7.6) lets it."""
        if self._attempt.again:
            await asyncio.sleep(SETTLE_S)
        task = await self._agent.task(task_id)
        if task.status.state not in _QUESTIONS:
            return True
        if not self._attempt.again:
            return False
        if not task.history:
            raise AgentError("interrupted", f"{self._url} returns its task without messages, so the reply may have been sent or not")
        return any(message.message_id == self._message_id for message in task.history)

    async def _send(self, message: Message) -> AttemptResult:
        async with contextlib.aclosing(self._agent.send(message)) as events:
            try:
                first = await self._first(events)
            except InvalidAnswer as error:
                raise AgentError("interrupted", f"{error}; whether the agent has begun is unknown") from error
            if first is None:
                raise AgentError("device_lost", f"{self._url} ended its answer before the task began")
            if first.HasField("message"):
                return content.result_of(Task(status={"message": first.message}))
            task_id = _id_of(first)
            if not 0 < len(task_id) <= MAX_TASK_ID:
                raise AgentError("interrupted", f"{self._url}: invalid answer: the id of a task has {len(task_id):,} characters")
            if message.task_id and task_id != message.task_id:
                raise AgentError("interrupted", f"{self._url} continued another task than the one that asked")
            task = first.task if first.HasField("task") else Task(id=task_id)
            async with asyncio.TaskGroup() as group:  # the journal is written while the agent works
                group.create_task(self._attached(task_id), name=f"a2a handle {self._attempt.key}")
                end = self._end_of(task)
                if end is None and self._agent.streams:
                    end = await self._read(task, events)
        return end or await self._follow(task_id)

    async def _attached(self, task_id: str) -> None:
        await self._signs.attached(task_id)

    async def _first(self, events: AsyncGenerator[StreamResponse]) -> StreamResponse | None:
        """Return the first answer, which has the handle; a cancelled attempt reports it if it arrives in time."""
        async with asyncio.TaskGroup() as group:
            answer = group.create_task(_next(events), name=f"a2a {self._attempt.key}")
            try:
                await asyncio.wait({answer})
            except asyncio.CancelledError:
                await asyncio.wait({answer}, timeout=HANDLE_S)
                if answer.done() and isinstance(found := answer.result(), StreamResponse) and 0 < len(_id_of(found)) <= MAX_TASK_ID:
                    with contextlib.suppress(asyncio.CancelledError, TimeoutError):
                        async with asyncio.timeout(REPORT_S):
                            await self._signs.attached(_id_of(found))
                raise
        found = answer.result()
        if isinstance(found, AgentError):
            raise found
        return found

    async def _follow(self, task_id: str) -> AttemptResult:
        """Return the end of a task: over a stream where the agent has them, else by asking again and again."""
        wait_s, faults = FIRST_POLL_S, 0
        while True:
            try:
                task = await self._agent.task(task_id)
                if end := self._end_of(task):
                    return end
                self._report(task)
                if self._agent.streams:
                    async with contextlib.aclosing(self._agent.subscribe(task_id)) as events:
                        if end := await self._read(task, events):
                            return end
                faults = 0
            except UnknownTask as error:
                raise AgentError("interrupted", f"{error} {one_line(task_id, content.MAX_TEXT)} any more") from error
            except AgentError as error:
                faults += 1
                if faults > MAX_FAULTS or error.code == "bad_result":
                    raise
            await asyncio.sleep(wait_s * 2**faults)
            wait_s = min(wait_s * 1.5, LAST_POLL_S)

    async def _read(self, task: Task, events: AsyncGenerator[StreamResponse]) -> AttemptResult | None:
        """Add the updates of a stream to a task; return its end, or None if the stream ends before it.

        Updates of other tasks are ignored.
        """
        try:
            async for event in events:
                if _id_of(event) != task.id:
                    continue
                if event.HasField("task"):
                    task = event.task
                elif event.HasField("artifact_update"):
                    content.add_artifact(task, event.artifact_update)
                    continue
                elif event.HasField("status_update"):
                    task.status.CopyFrom(event.status_update.status)
                if end := self._end_of(task):
                    await _drain(events)
                    return end
                self._report(task)
        except content.UnusableResult as error:
            with contextlib.suppress(AgentError):
                await _stopped(self._agent, task.id)
            return error.end
        except AgentError as error:
            return error.end if error.code == "bad_result" else None
        return None

    def _end_of(self, task: Task) -> AttemptResult | None:
        state, text = task.status.state, content.text_of(task.status.message.parts)
        if state == TaskState.TASK_STATE_COMPLETED:
            return content.result_of(task)
        if state in _ENDS:
            return AttemptResult.failed(_ENDS[state], f"the task {_WORDS[state]}{': ' + one_line(text, content.MAX_TEXT) if text else ''}")
        if state in _QUESTIONS and not self._is_answered(task):
            is_authorization = state == TaskState.TASK_STATE_AUTH_REQUIRED
            prompt = "\n".join(one_line(line, content.MAX_TEXT) for line in text[: content.MAX_PROMPT].splitlines() if line.strip())
            return AttemptResult(
                question=DeviceQuestion(
                    prompt=prompt or ("The agent needs an authorization." if is_authorization else "The agent needs an answer."),
                    verbs=("approve", "reject") if is_authorization else ("respond", "reject"),
                    state={"task": task.id, "context": task.context_id, "question": _question_id(task)},
                    may_go_on=True,
                )
            )
        return None

    def _is_answered(self, task: Task) -> bool:
        """Return whether this is the question that this leg's message answers, still shown for a moment."""
        answered = self._attempt.state.get("question", "")
        if not answered or answered != _question_id(task) or self._stale >= MAX_STALE:
            return False
        self._stale += 1
        return True

    def _report(self, task: Task) -> None:
        if task.status.state == TaskState.TASK_STATE_WORKING and (text := content.text_of(task.status.message.parts)):
            self._signs.progress(message=one_line(text, content.MAX_TEXT))


async def _next(events: AsyncGenerator[StreamResponse]) -> StreamResponse | AgentError | None:
    try:
        return await anext(events, None)
    except AgentError as error:  # a task that raises it would end its group
        return error


async def _drain(events: AsyncGenerator[StreamResponse]) -> None:
    """Read a stream to its end, which is due: a connection that is left in the middle cannot be used again."""
    with contextlib.suppress(TimeoutError, AgentError):
        async with asyncio.timeout(DRAIN_S):
            async for _ in events:
                pass


async def _stopped(agent: Agent, task_id: str) -> str:
    """Cancel a task; return what may still run, or an empty text."""
    try:
        task = await agent.cancel(task_id)
    except UnknownTask:
        return ""
    except NotCancelable:
        task = await agent.task(task_id)
    with contextlib.suppress(TimeoutError, UnknownTask):
        async with asyncio.timeout(CANCEL_S):
            while not _is_over(task):
                await asyncio.sleep(FIRST_POLL_S * 4)
                task = await agent.task(task_id)
    return "" if _is_over(task) else f"the agent has not stopped task {one_line(task_id, content.MAX_TEXT)}"


def _is_over(task: Task) -> bool:
    return task.status.state == TaskState.TASK_STATE_COMPLETED or task.status.state in _ENDS


def _task_id(attempt: Attempt) -> str:
    """Return the id of an attempt's task, empty if it is not known."""
    return str(attempt.state.get("task", "")) or attempt.handle


def _id_of(event: StreamResponse) -> str:
    """Return the id of the task that an event is about."""
    kind = event.WhichOneof("payload")
    found = getattr(event, kind).id if kind == "task" else getattr(event, kind).task_id if kind else ""
    return str(found)


def _question_id(task: Task) -> str:
    """Return what tells one question of a task from the next; empty if the agent sends neither time nor id.

    The time comes first: agents show an answered question without its message for a moment.
    """
    stamp = task.status.timestamp
    return f"{stamp.seconds}.{stamp.nanos:09}" if stamp.seconds else task.status.message.message_id
