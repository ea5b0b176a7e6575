"""A conversation from its user's side: send a message, wait for the agent, read the answer from the journal.

It runs in the given runtime, else in the current one, else in one over the default database. It has no state in memory
between two messages: the next message may come from any process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Literal

import msgspec

from asterism.conversation.machine.events import (
    AgentStatus,
    ConversationLimits,
    ConversationStarted,
    HandlerReported,
    Message,
    MessageReceived,
)
from asterism.conversation.machine.memory import FlowMemory, Utterance
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.conversation.python.agent_state import HIDDEN, AgentResult, in_order, setting_of, worded
from asterism.conversation.python.children import question_of
from asterism.conversation.python.registry import agent_class, name_of
from asterism.conversation.python.resumption import class_of, declared_fields
from asterism.conversation.python.secret_fields import PLACEHOLDER, SecretStore, process_secret_store, values_by_pattern, without_values
from asterism.engine.control.run_control import Cancel, Pause, Unpause, Verb
from asterism.engine.kernel.data import as_json
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.machine import Event
from asterism.engine.kernel.permissions import Permission
from asterism.engine.kernel.phrase import Text
from asterism.engine.kernel.run import Run
from asterism.engine.ports.store import ACCEPTED, InquiryRow, RunRow
from asterism.engine.runtime.client import Client, accepted
from asterism.engine.runtime.runtime import CURRENT, Runtime, current_runtime
from asterism.engine.runtime.snapshots import load
from asterism.errors import InvalidInput, Refused, RunNotFound, RunOwned
from asterism.words.reading import replies
from asterism.words.reading.words import words_of

STREAMED = 1000
"""Events buffered for a slow reader; older ones are dropped."""
POLL_S = 0.05
MAX_POLLS = 20 * 86_400 * 7
"""Bound on waiting for an answer from another owner: a week. Handlers have bounds of their own."""


def in_language(memory: FlowMemory, text: Text) -> str:
    """Return a text; a phrase of the machine in the language of the conversation."""
    return text if isinstance(text, str) else worded(text, words_of(memory.language or agent_class(memory.agent).language))


def history_of(memory: FlowMemory) -> list[Utterance]:
    """Return the most recent messages, without secrets."""
    return [msgspec.structs.replace(it, text=in_language(memory, it.text)) for it in memory.history]


def result_of(memory: FlowMemory, row: RunRow) -> AgentResult:
    """Return the result of a conversation that waits or has ended."""
    agent, view = agent_class(memory.agent), memory.view
    fields = in_order(agent, {**view.fields, **dict.fromkeys(view.withheld_fields, HIDDEN)})
    return AgentResult(
        status=AgentStatus(row.state),
        raw_message=in_language(memory, memory.prompt),
        data={**view.outputs, **memory.data},
        metadata=dict(view.metadata),
        fields=fields,
        missing_fields=tuple(name for name, field in agent.input_fields().items() if field.asked and name not in fields),
        run_id=row.run_id,
        code=memory.code if memory.code != "finished" else "",
        reason=memory.reason,
    )


class StreamEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A status or report on the way to an answer; the last event has the result."""

    kind: Literal["status", "report", "result"]
    status: AgentStatus
    text: str = ""
    result: AgentResult | None = None


class StreamWatcher:
    """``Observer`` that puts durable entries into a stream.

    Args:
        run: returns the id of the streamed run; empty before it starts.
        events: queue of the stream, with ``STREAMED`` events at most.
        state: state of the run before; empty before it starts.
    """

    def __init__(self, run: Callable[[], str], events: asyncio.Queue[StreamEvent | None], state: str) -> None:
        self._run = run
        self._events = events
        self._state = state

    def appended(self, run_id: str, entries: Sequence[Entry]) -> None:
        """Add the events of new entries."""
        if run_id != self._run():
            return
        for entry in entries:
            if self._events.qsize() >= STREAMED:
                self._events.get_nowait()
            status = AgentStatus(entry.state)
            if isinstance(entry.event, HandlerReported):
                self._events.put_nowait(StreamEvent(kind="report", status=status, text=entry.event.text))
            elif entry.state != self._state:
                self._state = entry.state
                self._events.put_nowait(StreamEvent(kind="status", status=status))

    def trouble(self, run_id: str, message: str) -> None:
        """Ignore warnings; a stream does not carry them."""


class Conversation:
    """A conversation with an agent.

    Args:
        agent: class of the agent.
        runtime: runtime of the conversation; by default the current one, else one over the default database.
        run_id: id of the run of an existing conversation.
        user, tenant: name of the user, and the tenant that owns the conversation.
        vault: store of secrets, the same as that of the runtime's performers.
        shown: question that the user has seen last, by run; empty by default.
        language, time_zone: how messages are read; by default as the agent's class says. They count for a new conversation;
            an existing one keeps its own, which are in its journal.
    """

    def __init__(
        self,
        agent: type,
        *,
        runtime: Runtime | None = None,
        run_id: str = "",
        user: str = "user",
        tenant: str = "",
        vault: SecretStore | None = None,
        shown: dict[str, str] | None = None,
        language: str = "",
        time_zone: str = "",
    ) -> None:
        self.agent = agent
        self.run_id = run_id
        self.user = user
        self.tenant = tenant
        self.vault = vault or process_secret_store()
        self.language = language or agent.language  # type: ignore[attr-defined]  # an agent's class has one
        self.time_zone = time_zone or agent.time_zone  # type: ignore[attr-defined]  # as above
        self._given = runtime
        self._shown = {} if shown is None else shown

    # -- messages and commands ---------------------------------------------------------------------

    async def say(self, message: Message | str = "", values: dict[str, Any] | None = None) -> AgentResult:
        """Send a message and wait for the answer; the first message starts the conversation.

        Raises:
            Refused: the conversation has ended.
            RunNotFound: there is no such conversation, or it belongs to another tenant.
            InvalidInput: the values are not JSON data, or the text is longer than ``replies.MAX_MESSAGE_CHARS``.
        """
        text, named = (message, {}) if isinstance(message, str) else (message.text, message.values)
        async with current_runtime(self._given) as runtime:
            if self.run_id:
                return await self._answer(runtime, text, {**named, **(values or {})})
            await self.begin(runtime, text, {**named, **(values or {})})
            return await self._settled(runtime)

    async def begin(self, client: Client, text: str, values: dict[str, Any], *, session: str = "") -> str:
        """Submit the run of a new conversation without driving it; return its id, that of this object if it has one."""
        begun = self.first_event(client, text, values)
        agent: Any = self.agent
        title = agent.description or agent.__name__
        return await client.submit(FLOW_AGENT, begun, title=title, actor=self.user, run_id=self.run_id, session=session, tenant=self.tenant)

    def first_event(self, client: Client, text: str, values: dict[str, Any]) -> ConversationStarted:
        """Return the event that starts the run of this object; its secrets are in the store of secrets."""
        replies.check_length(text)
        agent: Any = self.agent
        setting_of(agent, self.language, self.time_zone, 0.0)
        limits = ConversationLimits(approval_s=agent.approval_timeout_s, idle_s=agent.idle_timeout_s)
        values = as_json(values, "the field values")
        self.run_id = self.run_id or client.clock.new_id()
        text, values, token = self._without_secrets(agent, client, text, values)
        message = Message(text=text, by=self.user, at=client.clock.now(), values=values, secret=token)
        return ConversationStarted(
            agent=name_of(agent),
            message=message,
            tenant=self.tenant,
            limits=limits,
            fleet_file=client.fleet_file,
            requires_approval=agent.requires_approval,
            declared=declared_fields(agent),
            language=self.language,
            time_zone=self.time_zone,
        )

    async def _row(self, client: Client) -> RunRow:
        """Return the row of the run.

        Raises:
            RunNotFound: there is no such run, or it belongs to another tenant.
        """
        row = await client.store.run(self.run_id)
        if row.tenant != self.tenant:
            raise RunNotFound(self.run_id)
        return row

    async def _answer(self, runtime: Runtime, text: str, values: dict[str, Any]) -> AgentResult:
        said = await self.put(runtime, text, values)
        if said is not None:
            return await self._settled(runtime, *said)
        result = await self.result(runtime)
        return msgspec.structs.replace(result, raw_message=f"{replies.unclear(text, self.language)} {result.raw_message}")

    async def put(self, client: Client, text: str, values: dict[str, Any], *, key: str = "", digest: str = "") -> tuple[str, str] | None:
        """Write a message to the inbox of this conversation, or of the child that asks, without waiting for an answer.

        Args:
            client: client of the database.
            text: the message.
            values: fields given by name.
            key: idempotency key of the message; by default a fresh one, or that of the question that it answers.
            digest: that of the question which was shown; a local client has seen the open one.

        Returns:
            The key of the message and the run id of the inbox. None if a yes or no is expected and the text is neither,
            or if it may answer an older question than the open one.

        Raises:
            Refused: the conversation has ended.
        """
        replies.check_length(text)
        row = await self._row(client)
        if row.status == "ended" and row.state != AgentStatus.ERROR:
            raise Refused(f"this conversation has ended ({row.state})")
        asked = await self.asked(client)
        language = (await _load_run(client, self.run_id)).memory.language or self.language
        is_new = asked is not None and "approve" in asked.verbs and self._shown.get(self.run_id, asked.inquiry_id) != asked.inquiry_id
        is_denial = not values and (replies.intent_of(text, language) == "cancel" or replies.denial(text, language) is not None)
        if is_new and (not (values or is_denial) or Permission.LOCAL not in client.permissions):
            return None
        if asked is not None and asked.run_id != self.run_id and not values:
            verb, text = await self._nested(client, asked, text, language)
            if verb is None:
                return None
            if verb != "respond":
                return (
                    await client.post_answer(asked.inquiry_id, verb, actor=self.user, reason=text, key=key, digest=digest)
                ).key, asked.run_id
        values = as_json(values, "the field values")
        return await self._post(client, asked, text, values, key, digest=digest), asked.run_id if asked else self.run_id

    async def asked(self, client: Client | None = None) -> InquiryRow | None:
        """Return the open question of this conversation, else of a run below it; one without verbs asks for a secret."""
        store = self._client(client).store
        own = await store.inquiries(run_id=self.run_id)
        return next(iter(own or await store.inquiries(root=self.run_id)), None)

    async def _nested(self, client: Client, asked: InquiryRow, text: str, language: str) -> tuple[Verb | None, str]:
        """Return the verb and text that answer the question of a child run: a conversation gets the text, others need a yes or no."""
        if (await client.store.run(asked.run_id)).machine == FLOW_AGENT.name:
            return "respond", text
        if replies.is_yes(text, language):
            return "approve", ""
        refusal = replies.refusal_of(text, language)
        return ("reject", refusal) if refusal is not None else (None, "")

    async def _post(self, client: Client, asked: InquiryRow | None, text: str, values: dict[str, Any], key: str, *, digest: str) -> str:
        """Write a message to the inbox, as the answer to the open question if there is one; return its key."""
        agent = await self._agent_of(client, asked)
        in_confidence = self.vault.knows(self.run_id, text.strip()) or (
            not asked.verbs if asked else await self._is_secret_expected(client, text)
        )
        text, values, token = self._without_secrets(agent, client, text, values, in_confidence=in_confidence)
        if asked is not None and asked.verbs and not token:
            try:
                verb: Literal["edit", "respond"] = "edit" if values and "edit" in asked.verbs else "respond"
                sent = await client.post_answer(asked.inquiry_id, verb, actor=self.user, value=values or text, key=key, digest=digest)
            except (Refused, InvalidInput):  # already answered or expired: send it as an ordinary message
                pass
            else:
                return sent.key
        confidential = in_confidence and bool(token) and not values
        said = MessageReceived(
            text=text,
            inquiry_id=asked.inquiry_id if asked else self._shown.get(self.run_id, ""),
            values=values,
            secret=token,
            confidential=confidential,
            digest=digest,
        )
        key = key or client.clock.new_id()
        await client.post(asked.run_id if asked else self.run_id, said, actor=self.user, key=key)
        return key

    async def _is_secret_expected(self, client: Client, text: str) -> bool:
        """Return True if no question is open but the text may be a secret: a handler is reading one, or its question is paused."""
        state, memory = (await client.store.run(self.run_id)).state, (await _load_run(client, self.run_id)).memory
        if state not in (AgentStatus.WAITING_FOR_INPUT, AgentStatus.PAUSED) or (
            state == AgentStatus.PAUSED and replies.intent_of(text, memory.language or self.language)
        ):
            return False
        return memory.view.secret_expected

    async def _agent_of(self, client: Client, asked: InquiryRow | None) -> Any:
        """Return the agent that asks: this one, or that of a child conversation; None if no agent asks."""
        if asked is None or asked.run_id == self.run_id:
            return self.agent
        if (await client.store.run(asked.run_id)).machine != FLOW_AGENT.name:
            return None
        return class_of(asked.run_id, (await _load_run(client, asked.run_id)).memory)

    def _without_secrets(
        self, agent: Any, client: Client, text: str, values: dict[str, Any], *, in_confidence: bool = False
    ) -> tuple[str, dict[str, Any], str]:
        """Return a message without its secrets, and the token under which the vault has the original; empty if there are none.

        Secrets are texts that answer a secret field (``in_confidence``) or name one ("my PIN is …"), what the pattern of
        a secret field finds, and values of secret fields.
        """
        secret = {name: field for name, field in agent.input_fields().items() if field.secret} if agent else {}
        found = {name for name, _ in values_by_pattern(secret, text)}
        is_secret = (in_confidence and bool(text)) or any(
            replies.mentions_value(text, word)
            for name, field in secret.items()
            for word in (name, field.label, *field.words)
            if name not in found
        )
        shown = {name: value for name, value in values.items() if name not in secret}
        written = PLACEHOLDER if is_secret else without_values(secret, text)
        if written == text and len(shown) == len(values):
            return text, values, ""
        token = client.clock.new_id()
        self.vault.put(self.run_id, token, text, values)
        return written, shown, token

    async def pause(self, reason: str = "") -> AgentResult:
        """Pause the conversation."""
        return await self._command(Pause(reason=reason))

    async def resume(self) -> AgentResult:
        """Resume a paused conversation."""
        return await self._command(Unpause())

    async def cancel(self, reason: str = "") -> AgentResult:
        """Cancel the conversation; the outcome of a failed one becomes ``cancelled``."""
        return await self._command(Cancel(reason=reason))

    async def _command(self, event: Event) -> AgentResult:
        if not self.run_id:
            raise Refused("this conversation has not started; send a message first")
        async with current_runtime(self._given) as runtime:
            row = await self._row(runtime)
            if row.status == "ended" and not (isinstance(event, Cancel) and row.state == AgentStatus.ERROR):
                raise Refused(f"this conversation has ended ({row.state})")
            key = runtime.clock.new_id()
            await runtime.post(self.run_id, event, actor=self.user, key=key)
            return await self._settled(runtime, key)

    async def stream(self, message: Message | str, values: dict[str, Any] | None = None) -> AsyncIterator[StreamEvent]:
        """Do as ``say``, and yield every status and report on the way; the last event has the result."""
        events: asyncio.Queue[StreamEvent | None] = asyncio.Queue()
        async with current_runtime(self._given) as runtime:
            own = Conversation(
                self.agent,
                runtime=runtime,
                run_id=self.run_id,
                user=self.user,
                tenant=self.tenant,
                vault=self.vault,
                shown=self._shown,
                language=self.language,
                time_zone=self.time_zone,
            )
            state = (await self._row(runtime)).state if self.run_id else ""
            watcher = StreamWatcher(lambda: own.run_id, events, state)
            runtime.driver.observe(watcher)
            try:
                async with asyncio.TaskGroup() as group:
                    turn = group.create_task(own.say(message, values))
                    turn.add_done_callback(lambda _: events.put_nowait(None))
                    while (event := await events.get()) is not None:
                        yield event
            except* (Refused, InvalidInput) as refused:
                raise refused.exceptions[0] from None
            finally:
                runtime.driver.unobserve(watcher)
                self.run_id = own.run_id
            result = turn.result()
            yield StreamEvent(kind="result", status=result.status, text=result.raw_message, result=result)

    async def settle(self) -> AgentResult:
        """Wait until the conversation waits for its user or has ended; return the agent's last answer."""
        async with current_runtime(self._given) as runtime:
            await self._row(runtime)
            return await self._settled(runtime)

    # -- waiting, and reading ----------------------------------------------------------------------

    async def _settled(self, runtime: Runtime, key: str = "", of: str = "") -> AgentResult:
        """Run until the conversation waits for its user or has ended; return the agent's answer.

        Raises:
            Refused: the run refused the message in its inbox.
        """
        driving = runtime.driver.start(self.run_id)
        for _ in range(MAX_POLLS):
            await asyncio.wait([driving], timeout=POLL_S)
            if driving.done() and isinstance(driving.exception(), RunOwned):
                runtime.driver.wake_inbox()
                await asyncio.sleep(POLL_S)
                driving = runtime.driver.start(self.run_id)
            elif driving.done():
                driving.result()
            verdict = await runtime.store.verdict(of or self.run_id, key) if key else ACCEPTED
            row = await self._row(runtime)
            if verdict and (row.status != "active" or await self._is_asked_below(runtime)):
                accepted(verdict)
                return await self.result(runtime, row)
            if driving.done():  # a message that came meanwhile is not processed yet
                driving = runtime.driver.start(self.run_id)
        raise Refused(f"run {self.run_id} is still running; see: asterism show {self.run_id}")

    async def _is_asked_below(self, client: Client) -> bool:
        """Return True if a child run has an open question, even while other work continues."""
        return any(asked.run_id != self.run_id for asked in await client.store.inquiries(root=self.run_id))

    def _client(self, given: Client | None) -> Client:
        """Return the given client, else the runtime of this conversation, else the current one."""
        if (found := given or self._given or CURRENT.get()) is None:
            raise InvalidInput("this conversation has no runtime; read it with a client, or within `async with asterism.open()`")
        return found

    async def history(self, client: Client | None = None) -> list[Utterance]:
        """Return the most recent messages, without secrets."""
        client = self._client(client)
        await self._row(client)
        return history_of((await _load_run(client, self.run_id)).memory)

    async def fields(self) -> dict[str, Any]:
        """Return the fields collected so far, without secrets."""
        return (await self.result()).fields

    async def result(self, client: Client | None = None, row: RunRow | None = None) -> AgentResult:
        """Return the agent's last answer, from the journal."""
        client = self._client(client)
        live = await _load_run(client, self.run_id)
        return self.result_from(live, row or await self._row(client), await self.asked(client))

    def result_from(self, live: Run[FlowMemory], row: RunRow, asked: InquiryRow | None) -> AgentResult:
        """Return the agent's last answer in a loaded run, given its open question."""
        self.language = live.memory.language or self.language
        result = result_of(live.memory, row)
        below = asked if asked is not None and asked.run_id != self.run_id else None
        self._shown[self.run_id] = below.inquiry_id if below else live.memory.open_question or "nothing"
        if live.ended:
            del self._shown[self.run_id]
        return msgspec.structs.replace(result, raw_message=question_of(below, self.language)) if below else result


async def _load_run(client: Client, run_id: str) -> Run[FlowMemory]:
    live: Run[FlowMemory]
    live, _ = await load(client.store, FLOW_AGENT, run_id)
    return live
