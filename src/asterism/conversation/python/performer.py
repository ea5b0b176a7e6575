"""Performers of flow agents: call a handler on a fresh agent object, and return its transitions and state.

Each handler has a time limit, each conversation runs one at a time, and the body of ``on_running`` is entered only once
RUNNING is journaled. An exception leads to ERROR with a message for the person; its traceback goes to the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from asterism.conversation.machine.events import (
    AgentStatus,
    CallHandler,
    ChildRequested,
    HandlerEnded,
    HandlerNotified,
    HandlerReported,
    Message,
    NotifyHandler,
    RunningEntered,
    is_before_approval,
)
from asterism.conversation.machine.requests import HandlerCall, HandlerNotification
from asterism.conversation.python.agent_state import (
    GUESS,
    AgentResult,
    AgentState,
    agent_view,
    checked,
    hide,
    names_of,
    plain_data,
    restore_state,
    secrets_of,
    setting_of,
    worded,
)
from asterism.conversation.python.children import ChildFailed, check_same_child
from asterism.conversation.python.dialogue_policy import ask, resume, take_interruption
from asterism.conversation.python.fields import Field
from asterism.conversation.python.registry import agent_class
from asterism.conversation.python.resumption import fitting_class
from asterism.conversation.python.secret_fields import SecretStore, masked_text
from asterism.devices.attempts.task_log import hidden, print_trace
from asterism.devices.kinds.here import HereDevice
from asterism.engine.control.children import ChildEnded, StartChild
from asterism.engine.kernel.data import as_json, error_text, read_back
from asterism.engine.kernel.machine import Effect, EffectResult, StartRequest, run_id_of
from asterism.engine.kernel.phrase import Text, phrase
from asterism.engine.kernel.profile import AgentProfile, Fleet
from asterism.engine.ports.performer import Performer, Report
from asterism.engine.runtime.task_group import is_being_cancelled
from asterism.errors import AsterismError, DefinitionMissing, InvalidInput
from asterism.words.reading.setting import DEFAULT_LANGUAGE
from asterism.words.reading.words import Words, words_of

HANDLER_TIMEOUT_S = 300.0
"""Time limit for a handler that does not enter ``on_running``, in seconds."""
log = logging.getLogger("asterism.conversation")


class Extractor(Protocol):
    """Extracts field values from a message with a model."""

    async def extract(self, schema: dict[str, Any], asking: str, text: str) -> dict[str, Any]:
        """Return the values that the text contains, by field name, within bounded time.

        Raises:
            AsterismError: the model is unavailable; the conversation continues without it.
        """
        ...


class HandlerCancelled(BaseException):
    """Ends a handler at one of our awaits because a cancel was requested. A BaseException, so user code does not catch it."""


class SecretLost(BaseException):
    """``on_running`` cannot be entered: a secret was lost with its process."""

    def __init__(self, field: str) -> None:
        self.field = field


Prepare = Callable[[StartRequest, Fleet, HereDevice | None], Awaitable[StartRequest]]
"""Returns the start of a child with the devices that are open here."""


class Devices(NamedTuple):
    """The devices for child runs.

    Attributes:
        fleet: their profiles.
        file: the fleet file to open them from; empty for none.
        here: the device ``here``.
        prepares: what prepares the start of a child for them, by the name of its machine.
    """

    fleet: tuple[AgentProfile, ...] = ()
    file: str = ""
    here: HereDevice | None = None
    prepares: Mapping[str, Prepare] = {}


class HandlerExecution:
    """A running handler, with its request and the notifications received since; the context of its agent object.

    Attributes:
        call: the request.
        limit_s: time limit in seconds; it changes when the handler enters ``on_running``.
        timeout: the timeout that enforces it.
    """

    def __init__(self, effect_id: str, call: HandlerCall, report: Report, extractor: Extractor | None, devices: Devices) -> None:
        self.key = effect_id
        self.fleet = devices.fleet
        self._devices = devices
        self.call = call
        self.limit_s = HANDLER_TIMEOUT_S
        self.timeout: asyncio.Timeout | None = None
        self._entered = call.entered and not call.entering
        self._cancel_requested = call.cancel_requested
        self._started = dict(call.started)
        self._ended = dict(call.ended)
        self._notified = asyncio.Event()
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._report = report
        self._extractor = extractor

    def notify(self, news: HandlerNotification) -> None:
        """Record a notification and wake the handler."""
        self._entered = self._entered or news.effect.entered
        self._cancel_requested = self._cancel_requested or news.effect.cancel_requested
        if news.ended:
            self._ended[news.effect.child_key] = news.ended
        self._notified.set()

    def _check_cancel(self) -> None:
        """Raise HandlerCancelled if a cancel of the conversation was requested."""
        if self._cancel_requested:
            raise HandlerCancelled

    async def _until(self, is_known: Callable[[], bool]) -> None:
        """Wait for a notification, within the time limit of the handler."""
        while not (self._cancel_requested or is_known()):
            await self._notified.wait()
            self._notified.clear()
        self._check_cancel()

    async def enter(self, agent: Any) -> None:
        """Journal the transitions to RUNNING before ``on_running`` is entered.

        Raises:
            HandlerCancelled: a cancel was requested.
            SecretLost: a secret must be asked for again.
        """
        fields: dict[str, Field] = agent.input_fields()
        for name in agent._get_missing_fields():
            # Another handler of this process (a pause, an interruption) may have run since, and withheld nothing.
            if fields[name].secret and (name in self.call.view.withheld_fields or not fields[name].optional):
                raise SecretLost(name)
        self._check_cancel()
        if self.timeout is not None:
            self.limit_s = agent.timeout_s
            self.timeout.reschedule(asyncio.get_running_loop().time() + self.limit_s)
        if not self._entered:
            if not self.call.entering:
                self._report(RunningEntered(effect_id=self.key, transitions=agent._state.take_transitions(), view=agent_view(agent)))
            await self._until(lambda: self._entered)

    async def child(self, agent: Any, key: str, start: StartChild) -> ChildEnded:
        """Start the child of a key unless it was started, wait for it, and return its end.

        Raises:
            InvalidInput: the start has a secret or no JSON, or the child of the key was started with another request.
        """
        self._check_cancel()
        asked = start.start
        given = [key, start.title, asked.definition, asked.request, asked.inputs]
        if hide(given, secrets_of(agent)) != given:
            raise InvalidInput(f"child {key} would receive a secret, and the start of a run is journaled; let the child ask for it")
        if not asked.fleet_file:  # a process that resumes the child alone opens its devices from this file
            asked = msgspec.structs.replace(asked, fleet_file=self._devices.file)
        if (prepare := self._devices.prepares.get(start.machine)) and key not in self._started:
            asked = await prepare(asked, {it.device_id: it for it in self.fleet}, self._devices.here)
        data = as_json(asked, f"the start of child {key}")
        start = msgspec.structs.replace(start, start=msgspec.convert(data, StartRequest))
        check_same_child(key, self._started.setdefault(key, start), start)
        if key not in self._ended:
            self._report(ChildRequested(effect_id=self.key, key=key, start=start, resumable=agent._is_repeatable()))
            await self._until(lambda: key in self._ended)
        return self._ended[key]

    def started(self, key: str) -> StartChild | None:
        """Return the start of the child of a key; None if it was not started."""
        return self._started.get(key)

    def report(self, agent: Any, text: str) -> None:
        """Report the progress of the handler, from any thread."""
        reported = read_back(HandlerReported(effect_id=self.key, text=hide(text, secrets_of(agent))))
        if threading.get_ident() == self._thread:
            self._report(reported)
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the thread has outlived it
                self._loop.call_soon_threadsafe(self._report, reported)

    async def extract(self, agent: Any, message: Message) -> dict[str, Any] | None:
        """Return the values that the model finds, without secret fields; None if there is no model, or it is unavailable."""
        if self._extractor is None or message.secret:
            return None
        schema = agent.json_schema()
        open_ = {name: about for name, about in schema["properties"].items() if not about.get("writeOnly")}
        try:
            return await self._extractor.extract(
                {**schema, "properties": open_, "required": []}, agent._state.asked_field, message.get_text()
            )
        except AsterismError as error:
            log.warning("%s: model unavailable, continuing without it: %s", self.key, error)
            return None


class HandlerPerformer(msgspec.Struct, eq=False):
    """Performer of ``CallHandler``."""

    vault: SecretStore
    extractor: Extractor | None
    devices: Devices
    executions: dict[str, HandlerExecution] = msgspec.field(default_factory=dict)

    async def perform(self, effect_id: str, request: HandlerCall, report: Report) -> EffectResult:
        """Call the handler; return its result, or its failure.

        Raises:
            DefinitionMissing: its class is missing or does not fit the journal; the conversation waits.
        """
        try:
            agent = _class_of(request)()
        except DefinitionMissing as error:
            if request.cancel_requested:
                return HandlerEnded(effect_id=effect_id, interrupted=True, reason=str(error))
            raise DefinitionMissing(f"run {run_id_of(effect_id)} waits: {error}") from error
        except Exception as error:  # boundary: an error in a user's class ends only its conversation
            return _failed(effect_id, "no_agent", error_text(error), request)
        if request.entered and not agent._is_repeatable():
            return HandlerEnded(effect_id=effect_id, interrupted=True, reason=phrase("conversation.owner_ended"))
        execution = self.executions[effect_id] = HandlerExecution(effect_id, request, report, self.extractor, self.devices)
        try:
            return await self._execute(agent, execution)
        finally:
            del self.executions[effect_id]

    async def _execute(self, agent: Any, execution: HandlerExecution) -> EffectResult:
        call, state, run = execution.call, agent._state, run_id_of(execution.key)
        restore_state(agent, call.view, self.vault.of(run))
        words = _words_for(call)
        state.status, state.prompt, state.host = call.status, worded(call.prompt, words), execution
        state.approval_required = agent.requires_approval and is_before_approval(call.handler, call.status, call.before)
        state.approved = call.approved
        state.before, state.before_prompt = call.before, worded(call.before_prompt, words)
        message = self.vault.original(call.message) if call.message.secret else call.message
        handled: HandlerEnded
        try:
            state.setting = setting_of(agent, call.language, call.time_zone, call.message.at)
            handled = read_back(await _run_handler(agent, execution, message))
        except (Exception, SystemExit) as error:  # boundary: an error in a handler ends only its conversation
            handled = _failure_of(agent, execution, error)
        except asyncio.CancelledError as error:
            if is_being_cancelled():
                raise
            handled = _failure_of(agent, execution, error)
        return self._without_secrets(agent, run, handled, message.secret)

    def _without_secrets(self, agent: Any, run_id: str, handled: HandlerEnded, token: str) -> HandlerEnded:
        """Move the secrets into the vault, and return the result without them."""
        secret = [name for name, field in agent.input_fields().items() if field.secret and name in agent.collected_fields]
        values = {name: agent.collected_fields[name] for name in secret}
        guesses = {name: it["value"] for name, it in agent._state.pending.items() if agent.input_fields()[name].secret}
        values |= {GUESS.format(name): value for name, value in guesses.items()}
        is_over = any(state in (AgentStatus.COMPLETED, AgentStatus.ERROR, AgentStatus.CANCELLED) for state in handled.transitions)
        self.vault.keep(run_id, {} if is_over else values, token)
        hidden, names = secrets_of(agent), names_of(agent)
        if not hidden:
            return handled
        handled = msgspec.structs.replace(handled, text=masked_text(agent, handled.text))
        parts = {name: hide(getattr(handled, name), hidden, names) for name in ("text", "data", "reason")}
        return msgspec.structs.replace(handled, **parts)


class NotifyPerformer(msgspec.Struct, eq=False):
    """Performer of ``NotifyHandler``: passes a notification to a handler in this process."""

    executions: dict[str, HandlerExecution]

    async def perform(self, effect_id: str, request: HandlerNotification, report: Report) -> EffectResult:
        """Notify the handler, if it runs in this process."""
        if execution := self.executions.get(request.effect.effect_id):
            execution.notify(request)
        return HandlerNotified(effect_id=effect_id)


def flow_performers(
    vault: SecretStore,
    extractor: Extractor | None = None,
    devices: Devices = Devices(),  # noqa: B008 - immutable
) -> dict[type[Effect], Performer]:
    """Return the performers of a process, by kind of effect.

    Args:
        vault: store of secrets.
        extractor: extracts fields with a model; None for no model.
        devices: the devices for child runs.
    """
    handles = HandlerPerformer(vault, extractor, devices)
    return {CallHandler: handles, NotifyHandler: NotifyPerformer(handles.executions)}


def _class_of(call: HandlerCall) -> Any:
    return fitting_class(call.agent, call.declared, call.view, requires_approval=call.requires_approval)


async def _run_handler(agent: Any, execution: HandlerExecution, message: Message) -> HandlerEnded:
    """Run the handler under its timeout and return its result; it may be cancelled, or ask for a lost secret again."""
    state: AgentState = agent._state
    try:
        async with asyncio.timeout(execution.limit_s) as execution.timeout:
            result, again = await _call(agent, execution.call.handler, message)
        return _result(agent, execution.key, result, again=again)
    except HandlerCancelled:
        return HandlerEnded(effect_id=execution.key, view=agent_view(agent))
    except SecretLost as missing:
        state.status, state.transitions = execution.call.status, []
        return _result(agent, execution.key, ask(agent, missing.field, [state.setting.words.text("ask_again")]), again=False)


async def _call(agent: Any, handler: str, message: Message) -> tuple[AgentResult | None, bool]:
    """Call a handler; return its result, and True if ``on_running`` must be entered again."""
    if handler == "on_interrupted":
        return take_interruption(agent, message)
    if handler == "resume":
        return resume(agent), False
    result = await (_pause(agent, message) if handler == "pause" else getattr(agent, handler)(message))
    return checked(agent, handler, result), False


async def _pause(agent: Any, message: Message) -> AgentResult | None:
    if not agent.can_transition(agent.status, AgentStatus.PAUSED):
        return agent.make_result(raw_message=f"{agent._state.setting.words.text('no_pause')} {agent._state.prompt}".strip())  # type: ignore[no-any-return]
    agent.transition_to(AgentStatus.PAUSED)
    result: AgentResult | None = await agent.on_paused(message)
    return result


def _result(agent: Any, effect_id: str, result: AgentResult | None, *, again: bool) -> HandlerEnded:
    state: AgentState = agent._state
    return HandlerEnded(
        effect_id=effect_id,
        transitions=state.take_transitions(),
        text=result.raw_message if result else "",
        view=agent_view(agent),
        data=plain_data(result.data, "the data of a result", []) if result else {},
        code=state.code,
        reason=state.reason,
        reenter=again,
        cancel=state.cancel_requested,
    )


def _failure_of(agent: Any, execution: HandlerExecution, error: BaseException) -> HandlerEnded:
    """Return the failure of a handler for the person; log the traceback, without secrets."""
    call = execution.call
    if execution.timeout is not None and execution.timeout.expired():
        return _failed(execution.key, "timeout", phrase("conversation.too_long", limit_s=execution.limit_s), call)
    trace = hidden(hide("".join(traceback.format_exception(error)), secrets_of(agent))).encode(errors="backslashreplace").decode()
    log.info("%s: %s of %s failed\n%s", execution.key, call.handler, call.agent, trace)
    print_trace(trace)
    said = hidden(error_text(error)).partition("\n")[0]
    kind = type(error).__name__
    is_plain = isinstance(error, ChildFailed) or said.startswith(kind)
    return _failed(execution.key, "error", said if is_plain else f"{kind}: {said}", call)


def _words_for(call: HandlerCall) -> Words:
    """Return the words of a conversation; those of the default language if its own cannot be read."""
    try:
        return words_of(call.language or agent_class(call.agent).language)
    except (InvalidInput, DefinitionMissing, AttributeError):
        return words_of(DEFAULT_LANGUAGE)


def _failed(effect_id: str, code: str, reason: Text, call: HandlerCall) -> HandlerEnded:
    """Return a failure as a result: the agent moves to ERROR, unless it is there already."""
    path = () if call.status is AgentStatus.ERROR else (AgentStatus.ERROR,)
    words = _words_for(call)
    text = words.text("failed", reason=str(reason).rstrip(".")) if path else worded(call.prompt, words)
    return HandlerEnded(effect_id=effect_id, transitions=path, text=text, code=code if path else "", reason=reason if path else "")
