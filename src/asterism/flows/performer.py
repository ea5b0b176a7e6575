"""Performs the effects of flow agents: calls a handler over a fresh view of its agent, and brings back what it did.

A handler is bounded in time, one runs at a time in each conversation, and it enters the body of ``on_running`` only when RUNNING is
in the journal. What it raises is an ERROR with a message for the person; the trace goes to the log.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

import msgspec

from asterism.constellation.profile import AgentProfile
from asterism.errors import AsterismError, InvalidInput
from asterism.flows.agent_state import AgentResult, AgentState, agent_view, hide, names_of, plain_data, restore_state, secrets_of
from asterism.flows.children import ChildFailed
from asterism.flows.dialogue_policy import ask, resume, take_interruption
from asterism.flows.fields import Field
from asterism.flows.registry import agent_class
from asterism.flows.secret_store import SecretStore
from asterism.kernel.data import as_json, error_text, read_back
from asterism.kernel.machine import Effect, EffectResult, run_id_of
from asterism.kernel.start import StartRequest
from asterism.machines.children import ChildEnded, StartChild
from asterism.machines.flow_agent.events import (
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
from asterism.machines.flow_agent.moves import INTERRUPTED_PROMPT
from asterism.machines.flow_agent.requests import HandlerCall, HandlerNotification
from asterism.runtime.ports.performer import Performer, Report

HANDLER_TIMEOUT_S = 300.0
"""Bound on a handler that does not enter ``on_running``."""
log = logging.getLogger("asterism.flows")


class Extractor(Protocol):
    """Finds fields in a person's words, by a model."""

    async def extract(self, schema: dict[str, Any], asking: str, text: str) -> dict[str, Any]:
        """Values by field name, as far as the words give any; bounded.

        Raises:
            AsterismError: it cannot be had now; the conversation goes on without a model.
        """
        ...


class HandlerCancelled(BaseException):
    """A handler is ended at an await of ours: a cancel is wanted. Not an Exception, so that user code lets it through."""


class SecretLost(BaseException):
    """``on_running`` cannot be entered: a secret did not outlive its process."""

    def __init__(self, field: str) -> None:
        self.field = field


class Devices(NamedTuple):
    """What a child constellation may use: the profiles, and the fleet file where they are opened again; empty where there is none."""

    fleet: tuple[AgentProfile, ...] = ()
    file: str = ""


class HandlerExecution:
    """One handler at work: the host of its view. It knows its call, and the news that has come since.

    Attributes:
        call: its request.
        limit_s: bound on it, in seconds; another one once it enters ``on_running``.
        timeout: what holds it to that.
    """

    def __init__(self, effect_id: str, call: HandlerCall, report: Report, extractor: Extractor | None, devices: Devices) -> None:
        self.key = effect_id
        self.fleet = devices.fleet
        self._fleet_file = devices.file
        self.call = call
        self.limit_s = HANDLER_TIMEOUT_S
        self.timeout: asyncio.Timeout | None = None
        self._entered = call.entered and not call.entering
        self._cancel_requested = call.cancel_requested
        self._ended = dict(call.ended)
        self._woken = asyncio.Event()
        self._report = report
        self._extractor = extractor

    def notify(self, news: HandlerNotification) -> None:
        """Take in what the handler is woken for."""
        self._entered = self._entered or news.effect.entered
        self._cancel_requested = self._cancel_requested or news.effect.cancel_requested
        if news.ended:
            self._ended[news.effect.child_key] = news.ended
        self._woken.set()

    def _check_cancel(self) -> None:
        """Go no further when the conversation is to be cancelled."""
        if self._cancel_requested:
            raise HandlerCancelled

    async def _until(self, is_known: Callable[[], bool]) -> None:
        """Wait for news; bounded by the handler's time."""
        while not (self._cancel_requested or is_known()):
            await self._woken.wait()
            self._woken.clear()
        self._check_cancel()

    async def enter(self, agent: Any) -> None:
        """Journal the way to RUNNING, then go on; not when a cancel is wanted."""
        fields: dict[str, Field] = agent.input_fields()
        for name in agent._get_missing_fields():
            # A handler of this process may have looked at it since (a pause, a word about an interruption), and withheld nothing.
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
        """The end of the child of a key, which is started once."""
        self._check_cancel()
        asked = start.start
        given = [key, start.title, asked.definition, asked.request, asked.inputs]
        if hide(given, secrets_of(agent)) != given:
            raise InvalidInput(f"child {key} would be given a secret, and what it is given is journaled; let it ask for its own")
        if not asked.fleet_file:  # a process that resumes the child without this one opens its devices there
            asked = msgspec.structs.replace(asked, fleet_file=self._fleet_file)
        data = as_json(asked, f"what child {key} is given")
        start = msgspec.structs.replace(start, start=msgspec.convert(data, StartRequest))
        if key not in self._ended:
            self._report(read_back(ChildRequested(effect_id=self.key, key=key, start=start, resumable=agent.idempotent or agent.resumable)))
            await self._until(lambda: key in self._ended)
        return self._ended[key]

    def report(self, agent: Any, text: str) -> None:
        """Say how far it is."""
        self._report(read_back(HandlerReported(effect_id=self.key, text=hide(text, secrets_of(agent)))))

    async def extract(self, agent: Any, message: Message) -> dict[str, Any] | None:
        """What the model finds, without secret fields; None where there is none, or it cannot be had now."""
        if self._extractor is None or message.secret:
            return None
        schema = agent.json_schema()
        open_ = {name: about for name, about in schema["properties"].items() if not about.get("writeOnly")}
        try:
            return await self._extractor.extract(
                {**schema, "properties": open_, "required": []}, agent._state.asked_field, message.get_text()
            )
        except AsterismError as error:
            log.warning("%s: no model, going on without one: %s", self.key, error)
            return None


class HandlerPerformer:
    """Performs ``CallHandler``."""

    def __init__(self, vault: SecretStore, extractor: Extractor | None, devices: Devices) -> None:
        self.vault = vault
        self.visits: dict[str, HandlerExecution] = {}
        self._extractor = extractor
        self._devices = devices

    async def perform(self, effect_id: str, request: HandlerCall, report: Report) -> EffectResult:
        """Call the handler; what it did, or what went wrong, is the outcome."""
        try:
            agent = agent_class(request.agent)()
        except Exception as error:  # boundary: what a user's module or class raises ends its conversation, and no other one
            return _failed(effect_id, "no_agent", error_text(error), request)
        if request.entered and not (agent.idempotent or agent.resumable):
            return HandlerEnded(effect_id=effect_id, interrupted=True, reason="its process ended while on_running was under way")
        visit = self.visits[effect_id] = HandlerExecution(effect_id, request, report, self._extractor, self._devices)
        try:
            return await self._visited(agent, visit)
        finally:
            del self.visits[effect_id]

    async def _visited(self, agent: Any, visit: HandlerExecution) -> EffectResult:
        call, state, run = visit.call, agent._state, run_id_of(visit.key)
        restore_state(agent, call.view, self.vault.of(run))
        state.status, state.prompt, state.host = call.status, call.prompt, visit
        state.approval_required = agent.requires_approval and is_before_approval(call.handler, call.status, call.before)
        state.before, state.before_prompt, state.at = call.before, call.before_prompt, call.message.at
        message = self.vault.heard(call.message) if call.message.secret else call.message
        handled: HandlerEnded
        try:
            handled = read_back(await _done(agent, visit, message))
        except (Exception, SystemExit) as error:  # boundary: what a handler raises ends its conversation, and no other one
            handled = _gone_wrong(agent, visit, error)
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) is None or task.cancelling():
                raise  # it is we who are cancelled, and not something that the handler has waited for
            handled = _gone_wrong(agent, visit, error)
        return self._without_secrets(agent, run, handled, message.secret)

    def _without_secrets(self, agent: Any, run_id: str, handled: HandlerEnded, token: str) -> HandlerEnded:
        """Keep the secrets here, and none of them in what is journaled."""
        secret = [name for name, field in agent.input_fields().items() if field.secret and name in agent.collected_fields]
        values = {name: agent.collected_fields[name] for name in secret}
        is_over = any(state in (AgentStatus.COMPLETED, AgentStatus.ERROR, AgentStatus.CANCELLED) for state in handled.transitions)
        self.vault.keep(run_id, {} if is_over else values, token)
        hidden, names = secrets_of(agent), names_of(agent)
        if not hidden:
            return handled
        parts = {name: hide(getattr(handled, name), hidden, names) for name in ("text", "data", "reason")}
        return msgspec.structs.replace(handled, **parts)


class NotifyPerformer:
    """Performs ``NotifyHandler``: gives a handler of this process its news."""

    def __init__(self, visits: dict[str, HandlerExecution]) -> None:
        self._visits = visits

    async def perform(self, effect_id: str, request: HandlerNotification, report: Report) -> EffectResult:
        """Wake it, if it is here."""
        if visit := self._visits.get(request.effect.effect_id):
            visit.notify(request)
        return HandlerNotified(effect_id=effect_id)


def flow_performers(
    vault: SecretStore, extractor: Extractor | None = None, fleet: Iterable[AgentProfile] = (), *, fleet_file: str = ""
) -> dict[type[Effect], Performer]:
    """The performers of a process, by kind of effect.

    Args:
        vault: its secrets.
        extractor: finds fields by a model; None for none.
        fleet: profiles of the devices that a child constellation may use.
        fleet_file: where they are opened again; empty where there is no file.
    """
    handles = HandlerPerformer(vault, extractor, Devices(tuple(fleet), fleet_file))
    return {CallHandler: handles, NotifyHandler: NotifyPerformer(handles.visits)}


async def _done(agent: Any, visit: HandlerExecution, message: Message) -> HandlerEnded:
    """Call a handler within its time; what it did, or that it is called off, or that a secret is asked for again."""
    state: AgentState = agent._state
    try:
        async with asyncio.timeout(visit.limit_s) as visit.timeout:
            result, again = await _call(agent, visit.call.handler, message)
        return _outcome(agent, visit.key, result, again=again)
    except HandlerCancelled:
        return HandlerEnded(effect_id=visit.key, view=agent_view(agent))
    except SecretLost as missing:
        state.status, state.transitions = visit.call.status, []
        return _outcome(agent, visit.key, ask(agent, missing.field, ["I have to ask you again."]), again=False)


async def _call(agent: Any, handler: str, message: Message) -> tuple[AgentResult | None, bool]:
    """Call a handler; its result, and whether ``on_running`` is to be entered once more."""
    if handler == "on_interrupted":
        return take_interruption(agent, message, INTERRUPTED_PROMPT)
    if handler == "resume":
        return resume(agent), False
    result = await (_pause(agent, message) if handler == "pause" else getattr(agent, handler)(message))
    if result is not None and not isinstance(result, AgentResult):
        raise TypeError(f"{handler} returned {type(result).__name__}; return self.make_result(…)")
    if result is not None and result.status is not agent.status:
        raise TypeError(f"{handler} returned a result of {result.status}, and the agent is {agent.status}; return self.make_result(…)")
    if result is None and agent._state.entered and agent.status is AgentStatus.RUNNING:
        raise TypeError("on_running returned nothing; return self.make_result(status=AgentStatus.COMPLETED, raw_message=…)")
    return result, False


async def _pause(agent: Any, message: Message) -> AgentResult | None:
    if not agent.can_transition(agent.status, AgentStatus.PAUSED):
        return agent.make_result(raw_message=f"It cannot be paused now. {agent._state.prompt}".strip())  # type: ignore[no-any-return]
    agent.transition_to(AgentStatus.PAUSED)
    result: AgentResult | None = await agent.on_paused(message)
    return result


def _outcome(agent: Any, effect_id: str, result: AgentResult | None, *, again: bool) -> HandlerEnded:
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


def _gone_wrong(agent: Any, visit: HandlerExecution, error: BaseException) -> HandlerEnded:
    """What a handler has raised: words for the person, and the trace, without secrets, for the log."""
    call = visit.call
    if visit.timeout is not None and visit.timeout.expired():
        return _failed(visit.key, "timeout", f"it took longer than {visit.limit_s:g} s", call)
    trace = hide("".join(traceback.format_exception(error)), secrets_of(agent)).encode(errors="backslashreplace").decode()
    log.info("%s: %s of %s failed\n%s", visit.key, call.handler, call.agent, trace)
    said = error_text(error).partition("\n")[0]
    kind = type(error).__name__
    is_plain = isinstance(error, ChildFailed) or said.startswith(kind)
    return _failed(visit.key, "error", said if is_plain else f"{kind}: {said}", call)


def _failed(effect_id: str, code: str, reason: str, call: HandlerCall) -> HandlerEnded:
    """What went wrong, for the person. The agent is left as it was; one that has failed already stays so."""
    path = () if call.status is AgentStatus.ERROR else (AgentStatus.ERROR,)
    text = f"Sorry, something went wrong: {reason.rstrip('.')}." if path else call.prompt
    return HandlerEnded(effect_id=effect_id, transitions=path, text=text, code=code if path else "", reason=reason if path else "")
