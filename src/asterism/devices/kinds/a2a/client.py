"""The connection to one A2A agent, over the SDK's client."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
from a2a.client import A2ACardResolver, A2AClientError, Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)
from a2a.utils.errors import A2AError, TaskNotCancelableError, TaskNotFoundError
from google.protobuf.timestamp_pb2 import Timestamp

from asterism.devices.kinds.a2a.content import MAX_TEXT
from asterism.devices.kinds.a2a.http import RefusedAnswer
from asterism.devices.kinds.addresses import ForbiddenAddress
from asterism.devices.kinds.remote import http_headers, with_secret_values
from asterism.devices.model.attempt import ErrorCode
from asterism.devices.port import AttemptError
from asterism.engine.kernel.data import one_line
from asterism.errors import InvalidInput, MissingExtra

BINDINGS = ["JSONRPC", "HTTP+JSON"]
SEND_S = 300.0
"""Seconds for the answer to a message: an agent may ignore that it should answer at once."""
MAX_PAGES, PAGE = 50, 100
MAX_LISTINGS = 5
_LOST_STATUS = frozenset({408, 425, 429, 502, 503, 504})


class AgentError(AttemptError):
    """A request to an agent failed."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(code, one_line(text, MAX_TEXT))


class UnknownTask(AgentError):
    """The agent does not know the task."""


class NotCancelable(AgentError):
    """The agent does not cancel the task."""


class InvalidAnswer(AgentError):
    """The answer of the agent does not follow the protocol."""


@contextlib.contextmanager
def translated(url: str) -> Iterator[None]:
    """Raise AgentError for every failure of a request."""
    try:
        yield
    except (AgentError, GeneratorExit):
        raise
    except Exception as error:  # boundary: for an answer that is not A2A, the SDK may raise anything
        raise _error(error, url) from error


def _error(error: Exception, url: str) -> AgentError:
    cause = error.__cause__ if isinstance(error, A2AError) else error
    if isinstance(error, ForbiddenAddress):
        return AgentError("raised", f"{url}: refused to connect: {error}")
    if isinstance(error, RefusedAnswer):
        return AgentError("bad_result", f"{url}: {error}")
    if isinstance(cause, httpx.HTTPStatusError):
        status = cause.response.status_code
        hint = "; check its headers or bearer in the fleet file" if status in {401, 403} else ""
        return AgentError("device_lost" if status in _LOST_STATUS else "raised", f"{url} answered with HTTP status {status}{hint}")
    if isinstance(cause, httpx.RequestError):
        return AgentError("device_lost", f"{url}: {str(cause) or type(cause).__name__}")
    if isinstance(error, TaskNotFoundError):
        return UnknownTask("interrupted", f"{url} does not know the task")
    if isinstance(error, TaskNotCancelableError):
        return NotCancelable("raised", f"{url}: {error}")
    if isinstance(error, NotImplementedError) or (isinstance(error, A2AError) and not isinstance(error, A2AClientError)):
        return AgentError("raised", f"{url}: {error}")
    return InvalidAnswer("bad_result", f"{url}: invalid answer: {error}")


class Agent:
    """One agent, as its card describes it.

    Args:
        url: address of the agent in the fleet file, for errors.
        card: its card.
        http: client for this agent only; the SDK sets a header on it.
    """

    def __init__(self, url: str, card: AgentCard, http: httpx.AsyncClient) -> None:
        self.card = card
        self.http = http
        self._url = url
        with translated(url):
            self._client: Client = ClientFactory(ClientConfig(httpx_client=http, supported_protocol_bindings=BINDINGS)).create(card)

    @property
    def streams(self) -> bool:
        """True if the agent sends updates of a task over a stream."""
        return bool(self.card.capabilities.streaming)

    async def send(self, message: Message) -> AsyncGenerator[StreamResponse]:
        """Send a message; yield the answer, and where the agent streams, the updates of its task."""
        request = SendMessageRequest(message=message, configuration=SendMessageConfiguration(return_immediately=True))
        context = None if self.streams else ClientCallContext(timeout=SEND_S)
        async for event in self._events(self._client.send_message(request, context=context)):
            yield event

    async def subscribe(self, task_id: str) -> AsyncGenerator[StreamResponse]:
        """Yield the updates of a task, the whole task first."""
        async for event in self._events(self._client.subscribe(SubscribeToTaskRequest(id=task_id))):
            yield event

    async def _events(self, stream: AsyncIterator[StreamResponse]) -> AsyncGenerator[StreamResponse]:
        with translated(self._url):
            async for event in stream:
                yield event

    async def task(self, task_id: str) -> Task:
        """Return a task as it is now. Raises UnknownTask."""
        with translated(self._url):
            task = await self._client.get_task(GetTaskRequest(id=task_id))
        if task.id != task_id:
            raise InvalidAnswer("bad_result", f"{self._url}: returned another task than the one that was asked for")
        return task

    async def cancel(self, task_id: str) -> Task:
        """Ask the agent to cancel a task. Raises UnknownTask or NotCancelable."""
        with translated(self._url):
            return await self._client.cancel_task(CancelTaskRequest(id=task_id))

    async def find(self, message_id: str, since: float) -> Task | None:
        """Return the task that a message began, or None if the agent has none.

        A task without a timestamp, which only a new one should be, is in no listing by time. So new
        tasks are listed by their state first: one that begins to work meanwhile is in the listing
        by time.

        Args:
            message_id: id of the message.
            since: seconds since the epoch, before the message was sent.

        Raises:
            AgentError: ``interrupted`` if the agent does not list all tasks with their messages.
        """
        wanted = _Wanted(message_id)
        await self._read_pages(ListTasksRequest(status=TaskState.TASK_STATE_SUBMITTED), wanted)
        after = Timestamp(seconds=max(0, int(since)))
        for _ in range(MAX_LISTINGS):
            wanted.stamps.clear()
            pages = await self._read_pages(ListTasksRequest(status_timestamp_after=after), wanted)
            if wanted.task is not None:
                return wanted.task
            if wanted.lacks_messages:
                raise AgentError("interrupted", f"{self._url} lists tasks without their messages")
            if pages == 1 or not wanted.stamps:
                return None
            # A task that changes during a listing of several pages can move to a page that was read.
            seconds, nanos = max(wanted.stamps)
            after = Timestamp(seconds=seconds, nanos=nanos)
        raise AgentError("interrupted", f"the tasks of {self._url} change faster than they can be listed")

    async def _read_pages(self, request: ListTasksRequest, wanted: _Wanted) -> int:
        """Read a listing page by page, until the task is found; return the number of pages."""
        request.page_size = PAGE
        for page in range(1, MAX_PAGES + 1):
            try:
                with translated(self._url):
                    answer = await self._client.list_tasks(request)
            except AgentError as error:
                if error.code == "device_lost":
                    raise
                raise AgentError("interrupted", f"{self._url} does not list its tasks: {error}") from error
            wanted.read(answer.tasks)
            if wanted.task is not None or not answer.next_page_token:
                return page
            request.page_token = answer.next_page_token
        raise AgentError("interrupted", f"{self._url} lists more than {MAX_PAGES * PAGE:,} tasks")


class _Wanted:
    """What is wanted of listed tasks: one page is in memory at a time, since its tasks have whole histories.

    Attributes:
        task: the task that the message began; None if it was on no page.
        lacks_messages: True if a task was listed without its messages.
        stamps: the times of the tasks, in seconds and nanoseconds.
    """

    def __init__(self, message_id: str) -> None:
        self._message_id = message_id
        self.task: Task | None = None
        self.lacks_messages = False
        self.stamps: set[tuple[int, int]] = set()

    def read(self, tasks: Iterable[Task]) -> None:
        """Take the tasks of one page."""
        for task in tasks:
            if any(message.message_id == self._message_id for message in task.history):
                self.task = self.task or task
            self.lacks_messages = self.lacks_messages or not task.history
            self.stamps.add((task.status.timestamp.seconds, task.status.timestamp.nanos))


async def fetch_card(url: str, http: httpx.AsyncClient, verify: Callable[[AgentCard], None] | None) -> AgentCard:
    """Return the card of an agent.

    Args:
        url: address of the agent, or of its card if it ends in ``.json``.
        http: the client.
        verify: checks the signatures of the card.

    Raises:
        AgentError: the card cannot be read, or has no valid signature.
    """
    path = "/" if url.endswith(".json") else None
    with translated(url):
        # Only the card's address may be redirected; a redirected message would lose its method.
        return await A2ACardResolver(http, url).get_agent_card(path, {"follow_redirects": True}, verify)


def verifier(key_file: Path) -> Callable[[AgentCard], None]:
    """Return the check of a card's signatures against a public key, a PEM or JWK file.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no such key.
    """
    from a2a.utils.signing import SignatureVerificationError, create_signature_verifier  # noqa: PLC0415 - only where a key is configured
    from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415 - as above
    from jwt import PyJWK, PyJWTError  # noqa: PLC0415 - as above

    text = key_file.read_bytes()
    try:
        public: Any = PyJWK.from_dict(json.loads(text)) if text.lstrip().startswith(b"{") else load_pem_public_key(text)
    except PyJWTError as error:
        raise ValueError(f"{key_file} is no public key: {error}") from error
    if getattr(public, "key_type", "") == "oct":
        raise ValueError(f"{key_file} is a shared secret, not a public key")
    check = create_signature_verifier(lambda *_: public, ["ES256", "ES384", "ES512", "RS256", "PS256", "EdDSA"])

    def verify(card: AgentCard) -> None:
        try:
            check(card)
        except SignatureVerificationError as error:
            raise AgentError("raised", f"its card has no valid signature of {key_file.name}: {error}") from error

    return verify


def own_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers with the environment variables and secrets in their values. Raises AgentError if one is not set."""
    try:
        return http_headers(with_secret_values(headers))
    except (InvalidInput, MissingExtra) as error:
        raise AgentError("device_lost", str(error)) from None
