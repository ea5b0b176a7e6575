"""StandardAgent: the base class of flow agents, with default handlers.

Inside a handler, an instance is a view: it has the state from the journal, and its state after the handler is journaled.
An instance that you create yourself is a conversation (``reply``, ``stream``, ``pause``, ``resume``, ``cancel``).
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Annotated, Any, ClassVar, Protocol, Self, TypeVar, Unpack, overload

import msgspec

from asterism.conversation.machine.events import STATE_TRANSITIONS, AgentStatus, AgentView, Message
from asterism.conversation.python.agent_state import HIDDEN, AgentResult, AgentState, checked, in_order, restore_state, setting_of
from asterism.conversation.python.children import ChildFailed, constellation
from asterism.conversation.python.conversation import Conversation, StreamEvent
from asterism.conversation.python.declaration import AgentOptions, adopt_plan, check_class, check_options, handlers_of, options_of
from asterism.conversation.python.dialogue_policy import advance, missing, take_answer, take_approval, take_first_message, take_while_paused
from asterism.conversation.python.fields import Field, fields_of, json_schema
from asterism.conversation.python.pattern_values import found_by_patterns
from asterism.conversation.python.plans import params_from
from asterism.conversation.python.registry import KNOWN, name_of
from asterism.conversation.python.slot_filling import approval_prompt
from asterism.engine.control.children import StartChild
from asterism.engine.kernel.machine import run_id_of
from asterism.engine.kernel.profile import AgentProfile
from asterism.engine.runtime.runtime import Runtime
from asterism.engine.runtime.task_group import DAEMON_THREADS
from asterism.errors import InvalidInput, did_you_mean

A = TypeVar("A", bound="type[StandardAgent]")
_Word = Annotated[str, msgspec.Meta(min_length=1)]
_Seconds = Annotated[float, msgspec.Meta(gt=0)]


def in_thread(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Return a plain handler as an async one that runs it in a thread of its own, with the context variables of the caller.

    A thread cannot be stopped: after a timeout its function runs on, and nobody reads its result.
    """

    @functools.wraps(handler)
    async def run(agent: Any, message: Any) -> Any:
        call = functools.partial(contextvars.copy_context().run, handler, agent, message)
        result = await asyncio.get_running_loop().run_in_executor(DAEMON_THREADS, call)
        return await result if inspect.isawaitable(result) else result  # of an async function in a plain wrapper

    return run


class PlanAgent(Protocol):
    """The agent, as its default ``on_running`` uses it."""

    plan: ClassVar[Any]
    description: ClassVar[str]
    _state: AgentState

    def make_result(self, status: AgentStatus | None = None, raw_message: str = "", data: dict[str, Any] | None = None) -> AgentResult:
        """Return the result of a handler."""
        ...

    async def child(self, key: str, start: StartChild) -> Any:
        """Run a child and return its result."""
        ...


PLAN = "plan"
"""Key of the child run of an agent's plan."""


def entered_once(body: Callable[..., Any]) -> Any:
    """Wrap ``on_running``: its body is entered once RUNNING is journaled, and at most once per handler; ``super()`` passes."""

    @functools.wraps(body)
    async def on_running(self: Any, msg: Message) -> Any:
        state = self._state
        if state.depth == 0:
            if state.entered:
                raise InvalidInput(f"this handler has already entered {type(self).__name__}.on_running; call it once")
            if self.status is not AgentStatus.RUNNING:
                self.transition_to(AgentStatus.RUNNING)
            if state.host is not None:
                await state.host.enter(self)
            state.entered = True
        state.depth += 1
        try:
            result = await body(self, msg)
        finally:
            state.depth -= 1
        return result if state.depth else checked(self, "on_running", result)

    return on_running


async def run_plan(agent: PlanAgent) -> AgentResult:
    """Run the plan of an agent with its fields as parameters, and complete with the results of its tasks; without one, at once.

    Raises:
        ChildFailed: the run of the plan failed or was cancelled.
    """
    if agent.plan is None:
        return agent.make_result(AgentStatus.COMPLETED, "Done.")
    started = agent._state.host.started(PLAN) if agent._state.host else None  # after a crash: the plan of the agent may have changed since
    start = started or constellation(agent.plan, request=agent.description or type(agent).__name__, params=params_from(agent))
    report = await agent.child(PLAN, start)
    return agent.make_result(AgentStatus.COMPLETED, report["summary"], {"results": report["results"]})


class StandardAgent:
    """An agent that collects its input fields, asks for approval if required, and then runs.

    Its class attributes are options of ``@flowagent``, too.

    Attributes:
        triggers: words that start a conversation with it.
        requires_approval: a person must approve exactly the values shown before ``on_running`` is entered.
        description: purpose of the agent, for people and for routers.
        timeout_s: limit for ``on_running``, in seconds.
        idempotent: ``on_running`` may run again after a crash, with the same key.
        resumable: the same as ``idempotent``, for an ``on_running`` that is safe to repeat only
            because its work is in children: the child of a key is not started twice.
        approval_timeout_s: seconds that a question for approval stays open; None for no limit.
        idle_timeout_s: seconds that the agent waits for its user; None for no limit.
        language: language of its users: "en", "de", "es", or the path of a language file.
        time_zone: time zone of its users, as "Europe/Berlin": "today" and "at 3" are theirs. By default UTC; ``asterism chat``
            takes the machine's.
        plan: plan that ``on_running`` runs by default, with the fields as its parameters: the path of a plan file, from the
            folder of the class's file; a ``Constellation``; or a plan.
    """

    triggers: ClassVar[Sequence[_Word]] = ()
    requires_approval: ClassVar[bool] = False
    description: ClassVar[str] = ""
    timeout_s: ClassVar[_Seconds] = 86_400.0
    idempotent: ClassVar[bool] = False
    resumable: ClassVar[bool] = False
    approval_timeout_s: ClassVar[_Seconds | None] = 86_400.0
    idle_timeout_s: ClassVar[_Seconds | None] = None
    language: ClassVar[str] = "en"
    time_zone: ClassVar[str] = ""
    plan: ClassVar[Any] = None

    _state: AgentState
    _conversation: Conversation | None

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        check_class(cls, StandardAgent)
        for name in handlers_of(StandardAgent) & vars(cls).keys():
            if not inspect.iscoroutinefunction(vars(cls)[name]):
                setattr(cls, name, in_thread(vars(cls)[name]))
        if "on_running" in vars(cls):
            cls.on_running = entered_once(cls.on_running)  # type: ignore[method-assign]
        if {"language", "time_zone"} & vars(cls).keys():
            setting_of(cls, "", "", 0.0)
        if "plan" in vars(cls):
            adopt_plan(cls)
        KNOWN[name_of(cls)] = cls

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Create a view with an empty state, even if a subclass overrides ``__init__``."""
        agent = super().__new__(cls)
        agent._state = AgentState()
        agent._conversation = None
        return agent

    def __init__(self, *, runtime: Runtime | None = None, run_id: str = "", user: str = "user", tenant: str = "") -> None:
        self._conversation = Conversation(type(self), runtime=runtime, run_id=run_id, user=user, tenant=tenant)

    # -- properties --------------------------------------------------------------------------------

    @property
    def status(self) -> AgentStatus:
        """Return the current status."""
        return self._state.status

    @property
    def collected_fields(self) -> dict[str, Any]:
        """Return the values of the input fields by name; you may change the dict."""
        return self._state.fields

    @property
    def outputs(self) -> dict[str, Any]:
        """Return the values of the output fields by name."""
        return self._state.outputs

    @property
    def metadata(self) -> dict[str, Any]:
        """Return the sub-states as JSON data; they are journaled, and part of every result."""
        return self._state.metadata

    @property
    def key(self) -> str:
        """Return the idempotency key of the running handler, the same after a crash; empty outside a handler."""
        return self._state.host.key if self._state.host else ""

    @property
    def run_id(self) -> str:
        """Return the id of the run; empty before the conversation starts."""
        return run_id_of(self.key) if self.key else self._conversation.run_id if self._conversation else ""

    @property
    def fleet(self) -> tuple[AgentProfile, ...]:
        """Return the profiles of the runtime's devices, for a child constellation; empty outside a handler."""
        return self._state.host.fleet if self._state.host else ()

    @classmethod
    def _is_repeatable(cls) -> bool:
        """Return True if ``on_running`` may be called again after a crash: the run of a plan is a child."""
        runs_plan = cls.plan is not None and cls.on_running is StandardAgent.on_running
        return cls.idempotent or cls.resumable or runs_plan

    @classmethod
    def input_fields(cls) -> dict[str, Field]:
        """Return the input fields by name, in the order of their prompts."""
        return fields_of(cls, Field)

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """Return the JSON Schema of the input fields."""
        return json_schema(cls)

    def _get_missing_fields(self) -> list[str]:
        """Return the names of the fields that are still to be asked for, in order."""
        return missing(self)

    # -- transitions -------------------------------------------------------------------------------

    def can_transition(self, from_state: AgentStatus, to_state: AgentStatus) -> bool:
        """Return True if a transition is allowed. An override can forbid transitions of the table, but not add any.

        It is not called for a cancel, or for the ERROR of a failed handler: those always happen.
        """
        return to_state in STATE_TRANSITIONS[from_state]

    def transition_to(self, to_state: AgentStatus) -> None:
        """Make a transition.

        Raises:
            IllegalTransition: the transition is not allowed; nothing has changed.
        """
        self._state.transition_to(self, AgentStatus(to_state))

    def make_result(
        self,
        status: AgentStatus | None = None,
        raw_message: str = "",
        data: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> AgentResult:
        """Return the result of a handler, after a transition to ``status`` unless the agent has that status.

        Raises:
            IllegalTransition: the transition is not allowed; nothing has changed.
        """
        if status is not None and AgentStatus(status) is not self.status:
            self.transition_to(status)
        if status == AgentStatus.WAITING_FOR_INPUT and self._state.entered and not self._state.asked_field:
            left = self._get_missing_fields()  # on_running has dropped its value, and asks for it in its own words
            self._state.asked_field = left[0] if len(left) == 1 else ""
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
        """Handle the first message. By default: fill fields from the message, then take the next step."""
        return await take_first_message(self, msg)

    async def on_waiting_for_input(self, msg: Message) -> AgentResult | None:
        """Handle a message while fields are collected. By default: fill and correct fields, then take the next step."""
        return await take_answer(self, msg)

    async def on_waiting_for_approval(self, msg: Message) -> AgentResult | None:
        """Handle a message while approval is pending. By default: yes runs, no cancels, a changed value is shown again."""
        return await take_approval(self, msg)

    async def on_running(self, msg: Message) -> AgentResult:  # noqa: ARG002 - for overrides
        """Do the work. By default it runs the ``plan``; without one, it completes at once."""
        return await run_plan(self)

    async def on_paused(self, msg: Message) -> AgentResult | None:
        """Handle a pause, or a message during a pause. By default: "resume" resumes the conversation."""
        return await take_while_paused(self, msg)

    async def on_error(self, msg: Message) -> AgentResult | None:  # noqa: ARG002 - for overrides
        """Handle a failure, and then each message after it. By default the error message is the answer."""
        return None

    def get_approval_prompt(self) -> str:
        """Return the question for approval; the person approves exactly the values it shows."""
        return approval_prompt(self)

    async def extract_fields(self, msg: Message) -> dict[str, Any]:
        """Return the field values that a message contains, by name, as text or as values of the field's type.

        By default a model extracts them, if there is one, else the patterns of the fields.
        """
        self._state.from_model = False
        if self._state.host is not None:
            found = await self._state.host.extract(self, msg)
            if found is not None:
                self._state.from_model = True
                return found
        return found_by_patterns(self, msg.get_text())

    async def proceed(self, msg: Message) -> AgentResult | None:
        """Take the next step: ask for a missing field, ask for approval, or run."""
        return await advance(self, msg)

    def ask(self, field: str, question: str = "") -> AgentResult:
        """Ask for a field, and drop the value that it has; the answer becomes its value.

        Args:
            field: name of an input field.
            question: the question; by default that of the field.

        Raises:
            InvalidInput: there is no such field.
            IllegalTransition: the agent cannot wait for input now.
        """
        if (asked := self.input_fields().get(field)) is None:
            raise InvalidInput(f"{type(self).__name__} has no field {field!r} to ask for{did_you_mean(field, self.input_fields())}")
        self.collected_fields.pop(field, None)
        self._state.asked_field, self._state.retries = field, 0
        return self.make_result(AgentStatus.WAITING_FOR_INPUT, question or asked.prompt)

    def report(self, text: str) -> None:
        """Report the progress of a handler to its observers."""
        if self._state.host is not None:
            self._state.host.report(self, text)

    async def child(self, key: str, start: StartChild) -> Any:
        """Run a child of this conversation, once for each key.

        Questions of the child are passed up to this conversation; cancel and pause are passed down to the child.
        After a crash the child of a key is not started twice: its recorded result is returned, or the child resumes.
        While a child waits for a person, a ``resumable`` or ``idempotent`` agent is released from memory, and called again
        when the child has ended. Any other agent waits in memory, and is interrupted if its process ends.

        Args:
            key: name of the child, unique in this conversation; the same key with another start is an error.
            start: the child to run: ``constellation(…)``, ``flow(…)``, or any machine of the runtime.

        Returns:
            The result of the child.

        Raises:
            ChildFailed: the child failed or was cancelled.
            InvalidInput: called outside a handler, or the child of this key was started with another plan or request.
        """
        if self._state.host is None:
            raise InvalidInput(f"{type(self).__name__}.child was called outside a handler; call it only in a handler, such as on_running")
        given: object = start
        if not isinstance(given, StartChild):
            what = type(given).__name__
            raise InvalidInput(f"child {key} is started with constellation(…), flow(…) or the start(…) of a loop, not with a {what}")
        ended = await self._state.host.child(self, key, start)
        if ended.outcome != "finished":
            raise ChildFailed(key, ended)
        return ended.result

    # -- as a conversation -------------------------------------------------------------------------

    def _own_conversation(self) -> Conversation:
        if self._state.host is not None or self._conversation is None:
            raise InvalidInput(
                f"{type(self).__name__}: a handler cannot call reply, stream, pause, resume or cancel; return self.make_result(…)"
            )
        return self._conversation

    async def reply(self, message: Message | str = "", **values: Any) -> AgentResult:
        """Send a message and wait for the answer; the first message starts the conversation.

        Args:
            message: text of the message.
            values: field values by name, in place of text.

        Raises:
            Refused: the conversation has ended.
        """
        return self._settled(await self._own_conversation().say(message, values))

    async def stream(self, message: Message | str = "", **values: Any) -> AsyncIterator[StreamEvent]:
        """Do as ``reply``, and yield every status and report on the way; the last event has the result."""
        async for event in self._own_conversation().stream(message, values):
            if event.result is not None:
                self._settled(event.result)
            yield event

    async def pause(self, reason: str = "") -> AgentResult:
        """Pause the conversation; a running handler finishes first."""
        return self._settled(await self._own_conversation().pause(reason))

    async def resume(self) -> AgentResult:
        """Resume a paused conversation."""
        return self._settled(await self._own_conversation().resume())

    async def cancel(self, reason: str = "") -> AgentResult:
        """Cancel the conversation; a running handler finishes first."""
        return self._settled(await self._own_conversation().cancel(reason))

    def _settled(self, result: AgentResult) -> AgentResult:
        self._state.status, self._state.fields = result.status, {}
        shown = {name: value for name, value in result.fields.items() if value != HIDDEN}
        restore_state(self, AgentView(fields=shown, outputs=result.data, metadata=result.metadata), {})
        return result


StandardAgent.on_running = entered_once(StandardAgent.on_running)  # type: ignore[method-assign]


@overload
def flowagent(agent: A) -> A: ...


@overload
def flowagent(**options: Unpack[AgentOptions]) -> Callable[[A], A]: ...


def flowagent(agent: Any = None, **options: Any) -> Any:
    """Declare a flow agent, with or without options.

    Args:
        agent: the class, where the decorator has no options.
        options: class attributes of ``StandardAgent``; the description is by default the first line of the docstring.

    Raises:
        InvalidInput: there is no such option, or its value is wrong.
    """
    known = options_of(StandardAgent)
    for name in options:
        if name not in known:
            raise InvalidInput(f"@flowagent has no option {name}{did_you_mean(name, known)}; it has {', '.join(known)}")

    def declare(cls: Any) -> Any:
        if not (isinstance(cls, type) and issubclass(cls, StandardAgent)):
            raise InvalidInput(f"@flowagent is for a subclass of StandardAgent, not for {cls!r}")
        for name, value in options.items():
            setattr(cls, name, tuple(value) if isinstance(value, list) else value)
        doc = (cls.__doc__ or "").strip().partition("\n")[0] if "__doc__" in vars(cls) else ""
        cls.description = cls.description or doc
        check_options(cls, StandardAgent)
        adopt_plan(cls)
        return cls

    return declare(agent) if agent is not None else declare
