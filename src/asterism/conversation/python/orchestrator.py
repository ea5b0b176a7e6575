"""Route the messages of many users to conversations with many agents.

A message goes to the current conversation of its user. A message that starts with the trigger of another agent is a
digression: a new conversation begins, and when it ends the earlier one continues. The open conversations and their order
are read from the journals, so a restart loses nothing.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from asterism.constellation.language.tokens import plain
from asterism.conversation.machine.events import AgentStatus, ConversationRecalled
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.conversation.python.agent import StandardAgent
from asterism.conversation.python.agent_state import HIDDEN, AgentResult
from asterism.conversation.python.conversation import Conversation
from asterism.conversation.python.registry import KNOWN, name_of
from asterism.conversation.python.secret_fields import SecretStore, process_secret_store
from asterism.conversation.python.slot_filling import fill_slots, read_message
from asterism.engine.ports.store import RunRow
from asterism.engine.runtime.runtime import Runtime
from asterism.errors import InvalidInput, Refused
from asterism.words.reading import replies
from asterism.words.reading.options import corrected
from asterism.words.reading.setting import DEFAULT_LANGUAGE, DEFAULT_ZONE, Setting
from asterism.words.reading.tokens import fold
from asterism.words.reading.words import words_of

MAX_OFFERS = 10_000
"""Users whose last question or result is remembered at most."""
MAX_RUNS = 100_000
"""Conversations that are searched, once, for open ones at most."""
ENDED = (AgentStatus.COMPLETED, AgentStatus.ERROR, AgentStatus.CANCELLED)


class _Person(msgspec.Struct, frozen=True, kw_only=True):
    """The user who sends a message."""

    user: str
    tenant: str = ""

    @property
    def session(self) -> str:
        """Return the session of the user's conversations; users of two tenants never share one."""
        return f"{len(self.tenant)}:{self.tenant}/{self.user}"


class _Offer(NamedTuple):
    """The question whether to begin with an agent, the message that raised it, the values to begin with, and when it was asked."""

    agent: type[StandardAgent]
    text: str
    values: dict[str, Any] = {}  # noqa: RUF012 - nobody changes it
    at: float = 0.0


class Router(Protocol):
    """Chooses an agent if no trigger matches: a model, or your own rule."""

    async def choose(self, text: str, agents: Sequence[type[StandardAgent]], context: dict[str, Any]) -> type[StandardAgent] | None:
        """Return the agent for a message, or None, within bounded time."""
        ...


def _question(agent: Any, result: AgentResult) -> str:
    """Return the question of a conversation, without a complaint about an earlier answer."""
    fields = agent.input_fields()
    asked = [fields[name].prompt for name in result.missing_fields if name in fields and result.raw_message.endswith(fields[name].prompt)]
    return asked[0] if asked else result.raw_message


class Orchestrator:
    """Routes the messages of users to their conversations.

    Override the hooks ``prepare_context``, ``should_process``, ``post_process`` and ``handle_no_match`` to extend it.

    Args:
        agents: agent classes; if two have the same trigger, the first one wins.
        runtime: runtime of the conversations.
        router: chooses an agent if no trigger matches and the user has no open conversation.
        max_per_user: open conversations per user at most.
        max_open: open conversations in total at most.
        idle_s: seconds without a message after which ``expire_idle`` cancels a conversation, and a yes accepts no offer.
        vault: store of secrets; by default the one of this process.
        language, time_zone: how messages are read; by default as the agents' classes say.
        local_zone: time zone for agents whose class names none; by default UTC.
    """

    def __init__(
        self,
        agents: Sequence[type[StandardAgent]],
        *,
        runtime: Runtime,
        router: Router | None = None,
        max_per_user: int = 5,
        max_open: int = 10_000,
        idle_s: float = 7 * 86_400.0,
        vault: SecretStore | None = None,
        language: str = "",
        time_zone: str = "",
        local_zone: str = "",
    ) -> None:
        self.agents = tuple(agents)
        self.runtime = runtime
        self.max_per_user = max_per_user
        self.max_open = max_open
        self.idle_s = idle_s
        self._router = router
        self._language, self._time_zone, self._local_zone = language, time_zone, local_zone
        self._vault = vault or process_secret_store()
        self._shown: dict[str, str] = {}
        self._by_name = {name_of(agent): agent for agent in agents}
        self._open: dict[str, dict[str, str]] | None = None  # session -> run id -> agent name, from the journals
        self._missing: dict[str, dict[str, str]] = {}  # as _open
        self._reading = asyncio.Lock()
        self._turns: dict[str, asyncio.Lock] = {}
        self._waiting: collections.Counter[str] = collections.Counter()
        self._offered: dict[str, _Offer] = {}
        self._completed: dict[str, _Offer] = {}  # by session, what its last conversation has done

    # -- hooks -------------------------------------------------------------------------------------

    async def prepare_context(self, text: str, user: str, tenant: str) -> dict[str, Any]:
        """Return the context for the other hooks and the router."""
        return {"user": user, "tenant": tenant, "text": text}

    async def should_process(self, text: str, context: dict[str, Any]) -> bool:  # noqa: ARG002 - for overrides
        """Return False to pass the message to ``handle_no_match``."""
        return True

    async def post_process(self, result: AgentResult, context: dict[str, Any]) -> AgentResult:  # noqa: ARG002 - as above
        """Return the final result of a message."""
        return result

    async def handle_no_match(self, text: str, context: dict[str, Any]) -> AgentResult:  # noqa: ARG002 - as above
        """Return the answer to a message that no agent matches."""
        able = [agent.description or agent.__name__ for agent in self.agents]
        return AgentResult(
            status=AgentStatus.CANCELLED,
            raw_message=words_of(self._language or DEFAULT_LANGUAGE).text("able", what="; ".join(able)),
            code="no_match",
        )

    # -- routing -----------------------------------------------------------------------------------

    async def handle(self, text: str, *, user: str, tenant: str = "") -> AgentResult:
        """Handle a message of a user; messages of the same user are handled one after the other.

        Raises:
            Refused: too many conversations are open.
            InvalidInput: the message is longer than ``replies.MAX_MESSAGE_CHARS``.
        """
        replies.check_length(text)
        person = _Person(user=user, tenant=tenant)
        async with self._turn(person.session):
            context = await self.prepare_context(text, user, tenant)
            wanted = await self.should_process(text, context)
            result = await self._routed(text, person, context) if wanted else await self.handle_no_match(text, context)
            return await self.post_process(result, context)

    async def _routed(self, text: str, person: _Person, context: dict[str, Any]) -> AgentResult:
        stack = await self.stack(person.user, person.tenant)
        here = stack[-1] if stack else None
        offer, is_answered = self._offered.pop(person.session, None), False
        is_old = offer is not None and offer.at <= self.runtime.clock.now() - self.idle_s
        if offer is not None and not is_old and (answer := replies.answer_of(text, self._talks(offer.agent))) is not None:
            is_answered, text = True, offer.text
            triggered = offer.agent if answer else None
        else:
            triggered = self._named(text) or self.triggered(text, leading=here is not None)
        there = next((row for row in reversed(stack) if triggered and self._agent_of(row) is triggered), None)
        if not is_answered and triggered is None and here is None and (done := self._changed(text, person)) is not None:
            self._remember(self._offered, person.session, done)
            question = words_of(self._talks(done.agent)).text("again", what=done.agent.description or done.agent.__name__)
            return AgentResult(status=AgentStatus.CANCELLED, raw_message=question, code="no_match")
        if not is_answered and triggered is None and (other := await self._offerable(text, here, person)) is not None:
            return await self._offer(other, text, here, person)
        if here is not None and (triggered is None or there is here):
            return await self._said(self._conversation(here, person), text, stack)
        if there is not None:  # return to an open conversation: it repeats its question
            conversation = self._conversation(there, person)
            await self.runtime.send(there.run_id, ConversationRecalled(), actor=person.user)
            return await conversation.result(self.runtime)
        if triggered is None and self._router is not None and not is_answered:
            triggered = await self._router.choose(text, self.agents, context)
        if triggered is None:
            return await self.handle_no_match(text, context)
        return await self._begun(triggered, text, person, stack, offer.values if offer is not None and is_answered else {})

    def triggered(self, text: str, *, leading: bool = False) -> type[StandardAgent] | None:
        """Return the agent whose trigger a message contains as whole words; None for none.

        Args:
            text: the message.
            leading: match only at the beginning, also after "I want to …". This is the rule within a conversation,
                where an answer may well contain a trigger.
        """
        said = fold(plain(text))
        openings, determiners = ("|".join(sorted(self._phrases(key), key=len, reverse=True)) for key in ("openings", "determiners"))
        lead = rf"^(?:(?:(?:{openings}) )+(?:(?:{determiners}) )?)?"
        for agent in self.agents:
            for trigger in agent.triggers:
                word = rf"\b{re.escape(fold(plain(trigger)))}\b"
                if re.search(f"{lead}{word}" if leading else word, said):
                    return agent
        return None

    def _talks(self, agent: type[StandardAgent] | None = None) -> str:
        return self._language or (agent.language if agent else DEFAULT_LANGUAGE)

    def _phrases(self, key: str) -> set[str]:
        """Return the phrases of a key of the agents' languages, as regular expressions."""
        codes = {DEFAULT_LANGUAGE, self._talks(), *(agent.language for agent in self.agents)}
        return {re.escape(plain(" ".join(it))) for code in codes for it in words_of(code).special.get(key, ())}

    def _named(self, text: str) -> type[StandardAgent] | None:
        """Return the agent whose whole description a message is; None for none."""
        return next((agent for agent in self.agents if agent.description and plain(agent.description) == plain(text)), None)

    async def _offerable(self, text: str, here: RunRow | None, person: _Person) -> type[StandardAgent] | None:
        """Return the agent that a message may be meant for: by a trigger in the answer to a question for a text, or a misspelt one."""
        if here is None:
            known = {plain(trigger): agent for agent in reversed(self.agents) for trigger in agent.triggers}
            near = {known[word] for said in plain(text).split() if (word := corrected(said, known))}
            return near.pop() if len(near) == 1 else None
        other = self.triggered(text)
        if other is None or other is self._agent_of(here) or not replies.is_doubtful(text, self._talks()):
            return None  # "Mr Weather" is a name, and "I also need the weather" a wish
        result = await self._conversation(here, person).result(self.runtime)
        fields = (self._agent_of(here) or other).input_fields()
        asked = next((fields[it] for it in result.missing_fields if it in fields and result.raw_message.endswith(fields[it].prompt)), None)
        is_text = asked is not None and asked.kind is str and not asked.secret and result.status is AgentStatus.WAITING_FOR_INPUT
        return other if is_text else None

    def _changed(self, text: str, person: _Person) -> _Offer | None:
        """Return what the last conversation has done, with a message that would change one of its values; None for any other message."""
        done = self._completed.get(person.session)
        if done is None:
            return None
        view: Any = done.agent()
        view._state.setting = Setting(
            language=self._talks(), zone=self._time_zone or self._local_zone or DEFAULT_ZONE, at=self.runtime.clock.now()
        )
        fill_slots(view, done.values)
        found = read_message(view, text)
        is_change = found.corrects or bool(found.labels) or replies.begins_with_no(text, self._talks())
        return done._replace(text=text) if is_change and found.taken else None

    async def _offer(self, agent: type[StandardAgent], text: str, here: RunRow | None, person: _Person) -> AgentResult:
        """Ask whether a message is meant for another agent."""
        self._remember(self._offered, person.session, _Offer(agent, text))
        question = words_of(self._talks(agent)).text("instead", what=agent.description or agent.__name__)
        if here is None:
            return AgentResult(status=AgentStatus.CANCELLED, raw_message=question, code="no_match")
        return msgspec.structs.replace(await self._conversation(here, person).result(self.runtime), raw_message=question)

    async def stack(self, user: str, tenant: str = "") -> list[RunRow]:
        """Return the open conversations of a user; the current one is the last."""
        known = (await self._known()).get(_Person(user=user, tenant=tenant).session, {})
        rows = [await self.runtime.store.run(run) for run in tuple(known)]
        for row in rows:
            if row.status == "ended":
                known.pop(row.run_id, None)
        return sorted((row for row in rows if row.status != "ended"), key=lambda row: (row.updated_at, row.seq))

    async def current(self, user: str, tenant: str = "") -> Conversation | None:
        """Return the current conversation of a user, or None."""
        stack = await self.stack(user, tenant)
        return self._conversation(stack[-1], _Person(user=user, tenant=tenant)) if stack else None

    async def missing(self, user: str, tenant: str = "") -> dict[str, str]:
        """Return the open conversations of a user whose class is gone from the modules of the agents: its name, by run id.

        They wait, and continue once the class is back.
        """
        await self._known()
        return self._missing.get(_Person(user=user, tenant=tenant).session, {})

    async def expire_idle(self) -> int:
        """Cancel the conversations without a message for ``idle_s``; return their number."""
        expired = 0
        for session, known in (await self._known()).items():
            for run in tuple(known):
                row = await self.runtime.store.run(run)
                if row.status in ("waiting", "paused") and row.updated_at <= self.runtime.clock.now() - self.idle_s:
                    async with self._turn(session):
                        await self._conversation(row, _Person(user="idle", tenant=row.tenant)).cancel("nobody has spoken for a long time")
                    expired += 1
        return expired

    # -- conversations -----------------------------------------------------------------------------

    async def _begun(
        self, agent: type[StandardAgent], text: str, person: _Person, stack: list[RunRow], values: dict[str, Any]
    ) -> AgentResult:
        if len(stack) >= self.max_per_user:
            raise Refused(f"{len(stack)} conversations are open already; end one of them first")
        known = await self._known()
        if sum(map(len, known.values())) >= self.max_open:
            raise Refused("too many conversations are open; try again later")
        conversation = self._conversation_with(agent, person, time_zone=self._time_zone or agent.time_zone or self._local_zone)
        run = await conversation.begin(self.runtime, text, values, session=person.session)
        known.setdefault(person.session, {})[run] = name_of(agent)
        return await self._with_return(await conversation.settle(), person, stack)

    async def _said(self, conversation: Conversation, text: str, stack: list[RunRow]) -> AgentResult:
        result = await conversation.say(text)
        rest = [row for row in stack if row.run_id != conversation.run_id]
        is_refusal = replies.refusal_of(text, conversation.language) is not None  # who has just said no is not asked again
        return await self._with_return(result, _Person(user=conversation.user, tenant=conversation.tenant), rest, offers=not is_refusal)

    async def _with_return(self, result: AgentResult, person: _Person, rest: list[RunRow], *, offers: bool = True) -> AgentResult:
        """Return the result, followed by the question of the previous conversation if this one has ended."""
        if result.status not in ENDED:
            return result
        agent = self._by_name.get((await self._known()).get(person.session, {}).pop(result.run_id, ""))
        self._completed.pop(person.session, None)
        given = {name: value for name, value in result.fields.items() if value not in (None, HIDDEN)}
        if agent is not None and result.status is AgentStatus.COMPLETED:
            self._remember(self._completed, person.session, _Offer(agent, "", given))
        if not rest:
            return self._with_offer(result, person, _Offer(agent, "", given)) if agent and offers else result
        conversation = self._conversation(rest[-1], person)
        back = _question(conversation.agent, await conversation.result(self.runtime, rest[-1]))
        return msgspec.structs.replace(
            result, raw_message=f"{result.raw_message} {words_of(conversation.language).text('back_to', question=back)}".strip()
        )

    def _with_offer(self, result: AgentResult, person: _Person, done: _Offer) -> AgentResult:
        """Return the result; if a handler has raised an error, followed by the offer to start again with the values."""
        if result.status is not AgentStatus.ERROR or result.code != "error" or not result.reason:
            return result  # an end of the agent's own, or one after which the work may have been done
        self._remember(self._offered, person.session, done)
        question = words_of(self._talks(done.agent)).text("start_again_with" if done.values else "start_again")
        return msgspec.structs.replace(result, raw_message=f"{result.raw_message} {question}")

    def _remember(self, offers: dict[str, _Offer], session: str, offer: _Offer) -> None:
        """Set the offer of a session; the oldest one makes room."""
        offers[session] = offer._replace(at=self.runtime.clock.now())
        if len(offers) > MAX_OFFERS:
            del offers[next(iter(offers))]

    def _agent_of(self, row: RunRow) -> type[StandardAgent] | None:
        return self._by_name.get((self._open or {}).get(row.session, {}).get(row.run_id, ""))

    def _conversation(self, row: RunRow, person: _Person) -> Conversation:
        agent = self._agent_of(row)
        if agent is None:
            raise InvalidInput(f"run {row.run_id} belongs to an agent that this orchestrator does not have")
        return self._conversation_with(agent, person, run_id=row.run_id)

    def _conversation_with(self, agent: type[StandardAgent], person: _Person, *, run_id: str = "", time_zone: str = "") -> Conversation:
        return Conversation(
            agent,
            runtime=self.runtime,
            run_id=run_id,
            user=person.user,
            tenant=person.tenant,
            vault=self._vault,
            shown=self._shown,
            language=self._language,
            time_zone=time_zone,
        )

    async def _known(self) -> dict[str, dict[str, str]]:
        """Return the open conversations by session; they are read from the store once, and updated from then on."""
        async with self._reading:
            if self._open is None:
                found: dict[str, dict[str, str]] = {}
                places = {name.rpartition(":")[0] for name in self._by_name}
                for row in await self.runtime.store.runs(limit=MAX_RUNS, roots_only=True, open_only=True):
                    if row.machine == FLOW_AGENT.name:
                        (first, *_) = await self.runtime.store.records(row.run_id, limit=1)
                        name = msgspec.json.decode(first.body)["event"]["agent"]
                        if name in self._by_name:
                            found.setdefault(row.session, {})[row.run_id] = name
                        elif name.rpartition(":")[0] in places and name not in KNOWN:
                            self._missing.setdefault(row.session, {})[row.run_id] = name
                self._open = found
        return self._open

    @contextlib.asynccontextmanager
    async def _turn(self, session: str) -> AsyncIterator[None]:
        lock = self._turns.setdefault(session, asyncio.Lock())
        self._waiting[session] += 1
        try:
            async with lock:
                yield
        finally:
            self._waiting[session] -= 1
            if not self._waiting[session]:
                del self._waiting[session], self._turns[session]
