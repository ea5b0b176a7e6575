"""StandardAgent: what a flow agent is, and how its handlers behave until they are overridden.

An instance is a view: inside a handler it is the agent as the journal has it, and what the handler leaves is journaled. The same
class, made by its user, is a conversation (``reply``, ``stream``, ``pause``, ``resume``, ``cancel``).
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, ClassVar, Self, TypeVar, overload

from asterism.constellation.profile import AgentProfile
from asterism.errors import InvalidInput
from asterism.flows.agent_state import HIDDEN, AgentResult, AgentState, in_order, restore_state
from asterism.flows.children import ChildFailed
from asterism.flows.conversation import Conversation
from asterism.flows.dialogue_policy import advance, missing, take_answer, take_approval, take_first_message, take_while_paused
from asterism.flows.fields import Field, declared, json_schema
from asterism.flows.registry import KNOWN, name_of
from asterism.flows.slot_filling import found_by_patterns, in_words
from asterism.flows.stream import StreamEvent
from asterism.kernel.machine import run_id_of
from asterism.machines.children import StartChild
from asterism.machines.flow_agent.events import STATE_TRANSITIONS, AgentStatus, AgentView, Message
from asterism.runtime.runtime import Runtime

A = TypeVar("A", bound="type[StandardAgent]")


class StandardAgent:
    """A conversation that collects its input fields, asks for approval if it must, and then runs.

    Class attributes (``@flowagent`` sets the first four):
        triggers: words that begin it.
        requires_approval: a person must say yes to exactly what is shown before ``on_running`` is entered.
        description: what it does, for people and for routers.
        timeout_s: bound on ``on_running``.
        idempotent: ``on_running`` may be run again after a crash, under the same key.
        resumable: ``on_running`` may be entered again after a crash; the children it has started are not started twice.
        approval_timeout_s: how long a question for approval stays open; None for ever.
        idle_timeout_s: how long it waits for its person; None for ever.
    """

    triggers: ClassVar[Sequence[str]] = ()
    requires_approval: ClassVar[bool] = False
    description: ClassVar[str] = ""
    timeout_s: ClassVar[float] = 86_400.0
    idempotent: ClassVar[bool] = False
    resumable: ClassVar[bool] = False
    approval_timeout_s: ClassVar[float | None] = 86_400.0
    idle_timeout_s: ClassVar[float | None] = None

    _state: AgentState
    _conversation: Conversation | None

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "on_running" in vars(cls):
            cls.on_running = _entered_once(cls.on_running)  # type: ignore[method-assign]
        for field in cls.input_fields().values():
            field.check_asked()
        KNOWN[name_of(cls)] = cls

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """A view that stands nowhere yet, whatever a subclass does in its ``__init__``."""
        agent = super().__new__(cls)
        agent._state = AgentState()
        agent._conversation = None
        return agent

    def __init__(self, *, runtime: Runtime | None = None, run_id: str = "", user: str = "user", tenant: str = "") -> None:
        self._conversation = Conversation(type(self), runtime=runtime, run_id=run_id, user=user, tenant=tenant)

    # -- what it is --------------------------------------------------------------------------------

    @property
    def status(self) -> AgentStatus:
        """Where it is."""
        return self._state.status

    @property
    def collected_fields(self) -> dict[str, Any]:
        """Values of its input fields, by name; to read and to write."""
        return self._state.fields

    @property
    def outputs(self) -> dict[str, Any]:
        """Values of its output fields."""
        return self._state.outputs

    @property
    def metadata(self) -> dict[str, Any]:
        """Its sub-states, as JSON data: journaled, and in every result."""
        return self._state.metadata

    @property
    def key(self) -> str:
        """Idempotency key of the handler that runs: the same when it is run again after a crash. Empty outside of one."""
        return self._state.host.key if self._state.host else ""

    @property
    def run_id(self) -> str:
        """Id of its run; empty before it has begun."""
        return run_id_of(self.key) if self.key else self._conversation.run_id if self._conversation else ""

    @property
    def fleet(self) -> tuple[AgentProfile, ...]:
        """Profiles of the devices its runtime has, for a constellation that it starts. Empty outside of a handler."""
        return self._state.host.fleet if self._state.host else ()

    @classmethod
    def input_fields(cls) -> dict[str, Field]:
        """Its input fields, by name, in the order they are asked for."""
        return declared(cls, Field)

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The JSON Schema of its input."""
        return json_schema(cls)

    def _get_missing_fields(self) -> list[str]:
        """Names of the fields that have no value and would be asked for, in order."""
        return missing(self)

    # -- moving ------------------------------------------------------------------------------------

    def can_transition(self, from_state: AgentStatus, to_state: AgentStatus) -> bool:
        """Whether a transition is allowed. Override it to forbid; what the table does not have, no override adds.

        It is not asked about a cancel, nor about the ERROR of what its handlers raise: nothing else is left then.
        """
        return to_state in STATE_TRANSITIONS[from_state]

    def transition_to(self, to_state: AgentStatus) -> None:
        """Make a transition.

        Raises:
            IllegalTransition: it is not allowed; nothing has changed.
        """
        self._state.transition_to(self, AgentStatus(to_state))

    def make_result(
        self,
        status: AgentStatus | None = None,
        raw_message: str = "",
        data: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> AgentResult:
        """The result of a handler; moves to ``status`` unless the agent is there already.

        Raises:
            IllegalTransition: it may not move there; nothing has changed.
        """
        if status is not None and AgentStatus(status) is not self.status:
            self.transition_to(status)
        self.metadata.update(metadata or {})
        return self._result(raw_message, data or {})

    def _result(self, text: str, data: dict[str, Any]) -> AgentResult:
        secret = {name for name, field in self.input_fields().items() if field.secret}
        return AgentResult(
            status=self.status,
            raw_message=text,
            data={**self.outputs, **data},
            metadata=dict(self.metadata),
            fields=in_order(type(self), {name: HIDDEN if name in secret else value for name, value in self.collected_fields.items()}),
            missing_fields=tuple(self._get_missing_fields()),
            run_id=self.run_id,
        )

    # -- handlers ----------------------------------------------------------------------------------

    async def on_initializing(self, msg: Message) -> AgentResult | None:
        """It starts. By default: take what the first message says of the fields, then go on to what is next."""
        return await take_first_message(self, msg)

    async def on_waiting_for_input(self, msg: Message) -> AgentResult | None:
        """A message while fields are collected. By default: take what it says, repair what it corrects, go on to what is next."""
        return await take_answer(self, msg)

    async def on_waiting_for_approval(self, msg: Message) -> AgentResult | None:
        """A message while approval is asked. By default: a clear yes runs it, a clear no cancels it, a change is shown again."""
        return await take_approval(self, msg)

    async def on_running(self, msg: Message) -> AgentResult | None:  # noqa: ARG002 - for who overrides it
        """The task itself. By default it is done at once."""
        return self.make_result(AgentStatus.COMPLETED, raw_message="Done.")

    async def on_paused(self, msg: Message) -> AgentResult | None:
        """It is paused, or a message comes while it is. By default: "resume" goes on."""
        return await take_while_paused(self, msg)

    async def on_error(self, msg: Message) -> AgentResult | None:  # noqa: ARG002 - for who overrides it
        """It has failed. By default what went wrong is all there is to say."""
        return None

    def get_approval_prompt(self) -> str:
        """The question for approval; what it shows is what is approved."""
        shown = []
        for name, field in self.input_fields().items():
            value = self.collected_fields.get(name) if field.secret else getattr(self, name)  # its default, where nobody has said any
            if value is not None:
                shown.append(f"{field.label}: {HIDDEN if field.secret else in_words(value)}")
        what = self.description or type(self).__name__
        return f"{what} ({', '.join(shown)}). Go ahead? (yes/no)" if shown else f"{what}. Go ahead? (yes/no)"

    async def extract_fields(self, msg: Message) -> dict[str, Any]:
        """Values that a message gives by itself, by field name; words, or values of the field's type.

        By default a model finds them, where there is one; else the patterns of the fields do.
        """
        if self._state.host is not None:
            found = await self._state.host.extract(self, msg)
            if found is not None:
                return found
        return found_by_patterns(self, msg.get_text())

    async def proceed(self, msg: Message) -> AgentResult | None:
        """Go on to what is next: ask for what is missing, ask for approval, or run."""
        return await advance(self, msg)

    def report(self, text: str) -> None:
        """Say how far a handler is, to whoever watches."""
        if self._state.host is not None:
            self._state.host.report(self, text)

    async def child(self, key: str, start: StartChild) -> Any:
        """Run something below this conversation, once for each key: what it asks comes up, cancel and pause go down.

        After a crash the child of a key is not started twice: its result is the recorded one, or it goes on. While a child waits for
        a person, an agent that is ``resumable`` or ``idempotent`` is not kept in memory, and is called again when the child has ended;
        any other waits where it is, and is interrupted if its process ends.

        Args:
            key: names it among the children of this conversation.
            start: what to run: ``constellation(…)``, ``flow(…)``, or any machine the runtime has.

        Returns:
            What the child reports.

        Raises:
            ChildFailed: it failed, or was cancelled.
            InvalidInput: no run of this agent is under way.
        """
        if self._state.host is None:
            raise InvalidInput(f"{type(self).__name__}.child is for its handlers")
        ended = await self._state.host.child(self, key, start)
        if ended.outcome != "finished":
            raise ChildFailed(key, ended)
        return ended.result

    # -- as a conversation -------------------------------------------------------------------------

    def _talk(self) -> Conversation:
        if self._state.host is not None or self._conversation is None:
            raise InvalidInput(f"a handler of {type(self).__name__} cannot talk to itself; return self.make_result(…)")
        return self._conversation

    async def reply(self, message: Message | str = "", **values: Any) -> AgentResult:
        """Say something, and wait for what it says; the first message begins it.

        Args:
            message: the words.
            values: fields by name, in place of words.

        Raises:
            Refused: it has ended.
        """
        return self._settled(await self._talk().say(message, values))

    async def stream(self, message: Message | str = "", **values: Any) -> AsyncIterator[StreamEvent]:
        """As ``reply``, with every status and report on the way; the last event has the result."""
        async for event in self._talk().stream(message, values):
            if event.result is not None:
                self._settled(event.result)
            yield event

    async def pause(self, reason: str = "") -> AgentResult:
        """Suspend it; a handler that runs is finished first."""
        return self._settled(await self._talk().pause(reason))

    async def resume(self) -> AgentResult:
        """Go on where it was paused."""
        return self._settled(await self._talk().resume())

    async def cancel(self, reason: str = "") -> AgentResult:
        """Stop it for good; a handler that runs is finished first."""
        return self._settled(await self._talk().cancel(reason))

    def _settled(self, result: AgentResult) -> AgentResult:
        self._state.status, self._state.fields = result.status, {}
        shown = {name: value for name, value in result.fields.items() if value != HIDDEN}
        restore_state(self, AgentView(fields=shown, outputs=result.data, metadata=result.metadata), {})
        return result


def _entered_once(body: Callable[..., Any]) -> Any:
    """``on_running``, entered only when RUNNING is journaled, and at most once by one handler; ``super()`` passes through."""

    @functools.wraps(body)
    async def on_running(self: StandardAgent, msg: Message) -> Any:
        state = self._state
        if state.depth == 0:
            if state.entered:
                raise InvalidInput(f"{type(self).__name__}.on_running was entered already by this handler")
            if self.status is not AgentStatus.RUNNING:
                self.transition_to(AgentStatus.RUNNING)
            if state.host is not None:
                await state.host.enter(self)
            state.entered = True
        state.depth += 1
        try:
            return await body(self, msg)
        finally:
            state.depth -= 1

    return on_running


StandardAgent.on_running = _entered_once(StandardAgent.on_running)  # type: ignore[method-assign]


@overload
def flowagent(agent: A) -> A: ...


@overload
def flowagent(
    *, triggers: Sequence[str] = (), requires_approval: bool = False, description: str = "", timeout_s: float | None = None
) -> Callable[[A], A]: ...


def flowagent(
    agent: Any = None,
    *,
    triggers: Sequence[str] = (),
    requires_approval: bool = False,
    description: str = "",
    timeout_s: float | None = None,
) -> Any:
    """Declare a flow agent; bare, or with what it is.

    Args:
        agent: the class, when it stands bare.
        triggers: words or phrases that begin it.
        requires_approval: a person must say yes before ``on_running`` is entered.
        description: what it does; by default the first line of its docstring.
        timeout_s: bound on ``on_running``, in seconds.
    """

    def declare(cls: Any) -> Any:
        if not (isinstance(cls, type) and issubclass(cls, StandardAgent)):
            raise InvalidInput(f"@flowagent is for a subclass of StandardAgent, not for {cls!r}")
        if isinstance(triggers, str):
            raise InvalidInput(f"@flowagent(triggers=…) of {cls.__name__} is a list of words, not {triggers!r}")
        for name, value in {"triggers": tuple(triggers), "requires_approval": requires_approval, "timeout_s": timeout_s}.items():
            if value or value == 0:
                setattr(cls, name, value)
        doc = (cls.__doc__ or "").strip().partition("\n")[0] if "__doc__" in vars(cls) else ""
        cls.description = description or cls.description or doc
        return cls

    return declare(agent) if agent is not None else declare
