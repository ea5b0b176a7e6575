"""A conversation from its user's side: say something, wait until the agent has answered, read the answer from the journal.

It runs in the runtime it is given, else in the one at hand, else in one of its own in memory. Nothing of it is kept in memory between
two turns: whoever speaks next, in whichever process, finds it in the journal.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Literal

import msgspec

from asterism.errors import InvalidInput, Refused, RunNotFound, RunOwned
from asterism.flows.agent_state import HIDDEN, AgentResult, in_order
from asterism.flows.children import question_of
from asterism.flows.performer import flow_performers
from asterism.flows.registry import agent_class, name_of
from asterism.flows.secret_store import PLACEHOLDER, SecretStore, process_vault
from asterism.flows.stream import StreamEvent, StreamWatcher
from asterism.kernel.data import as_json
from asterism.kernel.machine import Event
from asterism.kernel.run import Run
from asterism.language import replies
from asterism.machines.flow_agent.events import AgentStatus, ConversationLimits, ConversationStarted, Message, MessageReceived
from asterism.machines.flow_agent.memory import FlowMemory, Utterance
from asterism.machines.flow_agent.table import FLOW_AGENT
from asterism.machines.run_control import Cancel, Pause, Unpause, Verb
from asterism.runtime.client import Client
from asterism.runtime.current_runtime import current_runtime
from asterism.runtime.ports.store import ACCEPTED, InquiryRow, RunRow
from asterism.runtime.runtime import Runtime
from asterism.runtime.snapshots import load
from asterism.stores.memory import MemoryStore, process_memory

POLL_S = 0.05
MAX_POLLS = 20 * 86_400 * 7
"""How long another owner's answer is waited for: a week. Its handlers are bounded; this only keeps the wait from being endless."""


class Conversation:
    """One conversation with an agent.

    Args:
        agent: its class.
        runtime: where it runs; by default one of its own, in memory.
        run_id: id of the run, to go on with one that has begun.
        user, tenant: who talks, and whose it is.
        vault: where its secrets are kept; the performers of its runtime have the same.
        shown: by run, the question that its person has seen; by default nobody has seen one yet.
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
    ) -> None:
        self.agent = agent
        self.run_id = run_id
        self.user = user
        self.tenant = tenant
        self.vault = vault or process_vault()
        self._given = runtime
        self._shown = {} if shown is None else shown

    @contextlib.asynccontextmanager
    async def _runtime(self) -> AsyncIterator[Runtime]:
        machines, performers = {FLOW_AGENT.name: FLOW_AGENT}, flow_performers(self.vault)
        async with current_runtime(
            self._given, store=lambda: MemoryStore(process_memory()), machines=machines, performers=performers
        ) as runtime:
            yield runtime

    # -- what can be done --------------------------------------------------------------------------

    async def say(self, message: Message | str = "", values: dict[str, Any] | None = None) -> AgentResult:
        """Say something, and wait until the agent has answered; the first message begins the conversation.

        Raises:
            Refused: it has ended.
            RunNotFound: there is no such conversation, or it is another tenant's.
            InvalidInput: it is no data, or longer than ``replies.MAX_SAID``.
        """
        text, named = (message, {}) if isinstance(message, str) else (message.text, message.values)
        async with self._runtime() as runtime:
            if self.run_id:
                return await self._answer(runtime, text, {**named, **(values or {})})
            await self.begin(runtime, text, {**named, **(values or {})})
            return await self._settled(runtime)

    async def begin(self, client: Client, text: str, values: dict[str, Any], *, session: str = "") -> str:
        """Write the run of a new conversation, and do not drive it yet; returns its id."""
        replies.check_length(text)
        agent: Any = self.agent
        limits = ConversationLimits(approval_s=agent.approval_timeout_s, idle_s=agent.idle_timeout_s)
        values = _data(values)
        self.run_id = client.clock.new_id()
        text, values, token = self._without_secrets(agent, client, text, values)
        message = Message(text=text, by=self.user, at=client.clock.now(), values=values, secret=token)
        begun = ConversationStarted(
            agent=name_of(agent),
            message=message,
            tenant=self.tenant,
            limits=limits,
            fleet_file=client.fleet_file,
            requires_approval=agent.requires_approval,
        )
        title = agent.description or agent.__name__
        return await client.submit(FLOW_AGENT, begun, title=title, actor=self.user, run_id=self.run_id, session=session, tenant=self.tenant)

    async def _row(self, client: Client) -> RunRow:
        """The row of its run, which for another tenant is not there.

        Raises:
            RunNotFound: there is none, or it is another tenant's.
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
        return msgspec.structs.replace(result, raw_message=f"Please answer yes or no. {result.raw_message}")

    async def put(self, client: Client, text: str, values: dict[str, Any]) -> tuple[str, str] | None:
        """Put words into the inbox they are for, and wait for nothing.

        Returns:
            Their key there, and the run whose inbox it is; None where a yes or no is asked, and they are neither, or may be to what
            their person has seen before somebody else changed it.

        Raises:
            Refused: it has ended.
        """
        replies.check_length(text)
        row = await self._row(client)
        if row.status == "ended":
            raise Refused(f"this conversation has ended ({row.state})")
        asked = await self.asked(client)
        is_news = asked is not None and "approve" in asked.verbs and self._shown.get(self.run_id, asked.inquiry_id) != asked.inquiry_id
        if is_news and not values and replies.turn(text) != "cancel" and replies.denial(text) is None:
            return None
        if asked is not None and asked.run_id != self.run_id and not values:
            verb, text = await self._nested(client, asked, text)
            if verb is None:
                return None
            if verb != "respond":
                return (await client.post_answer(asked.inquiry_id, verb, actor=self.user, reason=text)).key, asked.run_id
        return await self._post(client, asked, text, _data(values)), asked.run_id if asked else self.run_id

    async def asked(self, client: Client) -> InquiryRow | None:
        """The question that is open: its own, else one of a run below it. One without verbs asks for a secret."""
        own = await client.store.inquiries(run_id=self.run_id)
        return next(iter(own or await client.store.inquiries(root=self.run_id)), None)

    async def _nested(self, client: Client, asked: InquiryRow, text: str) -> tuple[Verb | None, str]:
        """How words answer the question of a run below. A conversation there hears the words; anything else wants a clear yes or no."""
        if (await client.store.run(asked.run_id)).machine == FLOW_AGENT.name:
            return "respond", text
        if replies.is_yes(text):
            return "approve", ""
        refusal = replies.denial(text)
        return ("reject", refusal) if refusal is not None else (None, "")

    async def _post(self, client: Client, asked: InquiryRow | None, text: str, values: dict[str, Any]) -> str:
        """Put a message into the inbox, as the answer to the open question if there is one; returns its key."""
        agent = await self._agent_of(client, asked)
        in_confidence = self.vault.has_heard(self.run_id, text.strip()) or (
            not asked.verbs if asked else await self._is_hushed(client, text)
        )
        text, values, token = self._without_secrets(agent, client, text, values, in_confidence=in_confidence)
        if asked is not None and asked.verbs and not token:
            try:
                verb: Literal["edit", "respond"] = "edit" if values and "edit" in asked.verbs else "respond"
                return (await client.post_answer(asked.inquiry_id, verb, actor=self.user, value=values or text)).key
            except (Refused, InvalidInput):  # somebody was faster, or it has expired: it is a message like any other then
                pass
        confided = in_confidence and bool(token) and not values
        said = MessageReceived(
            text=text,
            inquiry_id=asked.inquiry_id if asked else self._shown.get(self.run_id, ""),
            values=values,
            secret=token,
            confidential=confided,
        )
        key = client.clock.new_id()
        await client.post(asked.run_id if asked else self.run_id, said, actor=self.user, key=key)
        return key

    async def _is_hushed(self, client: Client, text: str) -> bool:
        """True where nothing is asked, and the words may be a secret: a handler looks at one meanwhile, or its question is paused."""
        state = (await client.store.run(self.run_id)).state
        if state not in (AgentStatus.WAITING_FOR_INPUT, AgentStatus.PAUSED) or (state == AgentStatus.PAUSED and replies.turn(text)):
            return False
        return (await _lived(client, self.run_id)).memory.view.secret_expected

    async def _agent_of(self, client: Client, asked: InquiryRow | None) -> Any:
        """The agent that asks: this one, or that of a conversation below; None where it is no agent's question."""
        if asked is None or asked.run_id == self.run_id:
            return self.agent
        if (await client.store.run(asked.run_id)).machine != FLOW_AGENT.name:
            return None
        return agent_class((await _lived(client, asked.run_id)).memory.agent)

    def _without_secrets(
        self, agent: Any, client: Client, text: str, values: dict[str, Any], *, in_confidence: bool = False
    ) -> tuple[str, dict[str, Any], str]:
        """A message as it may be written down, and the token under which the vault has it as it was said; empty where that is the same.

        Secret are the words that answer a secret field (``in_confidence``) or name one ("my PIN is …"), and the values of secret fields.
        """
        secret = [field for field in agent.input_fields().values() if field.secret] if agent else []
        hushed = (in_confidence and bool(text)) or any(replies.tells(text, name) for field in secret for name in (field.name, field.label))
        shown = {name: value for name, value in values.items() if name not in [field.name for field in secret]}
        if not hushed and len(shown) == len(values):
            return text, values, ""
        token = client.clock.new_id()
        self.vault.put(self.run_id, token, text, values)
        return PLACEHOLDER if hushed else text, shown, token

    async def pause(self, reason: str = "") -> AgentResult:
        """Suspend it."""
        return await self._command(Pause(reason=reason))

    async def resume(self) -> AgentResult:
        """Go on where it was paused."""
        return await self._command(Unpause())

    async def cancel(self, reason: str = "") -> AgentResult:
        """Stop it for good; of one that has failed, the outcome becomes ``cancelled``."""
        return await self._command(Cancel(reason=reason))

    async def _command(self, event: Event) -> AgentResult:
        if not self.run_id:
            raise Refused("this conversation has not begun")
        async with self._runtime() as runtime:
            row = await self._row(runtime)
            if row.status == "ended" and not (isinstance(event, Cancel) and row.state == AgentStatus.ERROR):
                raise Refused(f"this conversation has ended ({row.state})")
            key = runtime.clock.new_id()
            await runtime.post(self.run_id, event, actor=self.user, key=key)
            return await self._settled(runtime, key)

    async def stream(self, message: Message | str, values: dict[str, Any] | None = None) -> AsyncIterator[StreamEvent]:
        """As ``say``, with what happens on the way; the last event has the result."""
        events: asyncio.Queue[StreamEvent | None] = asyncio.Queue()
        async with self._runtime() as runtime:
            own = Conversation(
                self.agent, runtime=runtime, run_id=self.run_id, user=self.user, tenant=self.tenant, vault=self.vault, shown=self._shown
            )
            watcher = StreamWatcher(lambda: own.run_id, events)
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
        """Wait until it rests, and say what it says then."""
        async with self._runtime() as runtime:
            await self._row(runtime)
            return await self._settled(runtime)

    # -- waiting, and reading ----------------------------------------------------------------------

    async def _settled(self, runtime: Runtime, key: str = "", of: str = "") -> AgentResult:
        """Drive it until only its person can move it on, and say what it says then.

        Raises:
            Refused: what was put into its inbox was refused.
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
                if verdict != ACCEPTED:
                    raise Refused(verdict)
                return await self.result(runtime, row)
            if driving.done():  # what came meanwhile is not taken yet
                driving = runtime.driver.start(self.run_id)
        raise Refused(f"run {self.run_id} is still at work; `asterism show {self.run_id}`")

    async def _is_asked_below(self, client: Client) -> bool:
        """True when a run below has a question: it comes up here, and what else is under way goes on."""
        return any(asked.run_id != self.run_id for asked in await client.store.inquiries(root=self.run_id))

    async def history(self, client: Client) -> list[Utterance]:
        """What was said, the last of it; without secrets."""
        await self._row(client)
        return (await _lived(client, self.run_id)).memory.history

    async def result(self, client: Client, row: RunRow | None = None) -> AgentResult:
        """What it said last, as its journal has it."""
        live = await _lived(client, self.run_id)
        result = result_of(live.memory, row or await self._row(client))
        asked = await self.asked(client)
        below = asked if asked is not None and asked.run_id != self.run_id else None
        self._shown[self.run_id] = below.inquiry_id if below else live.memory.open_question or "nothing"
        if live.ended:
            del self._shown[self.run_id]
        return msgspec.structs.replace(result, raw_message=question_of(below)) if below else result


async def _lived(client: Client, run_id: str) -> Run[FlowMemory]:
    live: Run[FlowMemory]
    live, _ = await load(client.store, FLOW_AGENT, run_id)
    return live


def result_of(memory: FlowMemory, row: RunRow) -> AgentResult:
    """The result of a conversation that rests."""
    agent, view = agent_class(memory.agent), memory.view
    fields = in_order(agent, {**view.fields, **dict.fromkeys(view.withheld_fields, HIDDEN)})
    return AgentResult(
        status=AgentStatus(row.state),
        raw_message=memory.prompt,
        data={**view.outputs, **memory.data},
        metadata=dict(view.metadata),
        fields=fields,
        missing_fields=tuple(name for name, field in agent.input_fields().items() if field.asked and name not in fields),
        run_id=row.run_id,
        code=memory.code if memory.code != "finished" else "",
        reason=memory.reason,
    )


def _data(values: dict[str, Any]) -> dict[str, Any]:
    """Named values as JSON data.

    Raises:
        InvalidInput: they are not data.
    """
    found: dict[str, Any] = as_json(values, "what is given by name") if values else {}
    return found
