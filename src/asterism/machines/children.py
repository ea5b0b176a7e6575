"""Runs below a run, as every machine has them: started, told, heard of, named.

These are effects and events that each machine puts into its own table. Not here: how a child is driven (``runtime.children``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from asterism.constellation.profile import ChildSpec
from asterism.errors import InvalidInput
from asterism.kernel.data import as_json
from asterism.kernel.machine import Effect, EffectResult, Event, RecoveryPolicy, RequestFactory, StepContext
from asterism.kernel.run import Run
from asterism.kernel.start import StartRequest

MIN_LIMIT_S = 0.001
"""Time limit of a child that is started at the last moment."""


class StartChild(Effect, tag="start_child", frozen=True, kw_only=True):
    """Run a machine to its end, as a run of its own: created if it is not there, and taken up again after a crash.

    Not withdrawn: a child is ended by a ``SignalChild`` of Cancel, and its ``ChildEnded`` arrives as ever.

    Attributes:
        machine: name of the machine.
        start: what the machine makes the first event of.
        title: one line for people.
    """

    machine: str
    start: StartRequest
    title: str = ""

    @property
    def recovery_policy(self) -> RecoveryPolicy:
        """The child has its own journal: look there."""
        return RecoveryPolicy.REATTACH

    def interrupted(self, effect_id: str, why: str) -> EffectResult:
        """What became of the child is not known."""
        return ChildEnded(effect_id=effect_id, outcome="failed", reason=why, code="interrupted")


class ChildEnded(EffectResult, tag="child_ended", frozen=True, kw_only=True):
    """A child run has ended.

    Attributes:
        result: what its memory reports (see ``RunMemory.report``).
        reason, code: why it did not finish; empty when it did.
    """

    outcome: Literal["finished", "failed", "cancelled"]
    result: Any = None
    reason: str = ""
    code: str = ""


class ChildBlocked(Event, tag="child_blocked", frozen=True, kw_only=True):
    """Whether a child waits for nothing but people, or is paused.

    Attributes:
        effect_id: id of the effect that started it.
    """

    effect_id: str
    blocked: bool


class SignalChild(Effect, tag="signal_child", frozen=True, kw_only=True):
    """Put a command into a child's inbox, under this effect's id.

    Attributes:
        effect_id: id of the effect that started the child.
        command: the event, as JSON with its type.
    """

    effect_id: str
    command: dict[str, Any]

    def interrupted(self, effect_id: str, why: str) -> EffectResult:
        """Its own outcome; there is no other."""
        return ChildSignaled(effect_id=effect_id)


class ChildSignaled(EffectResult, tag="child_signaled", frozen=True, kw_only=True):
    """A command is in the child's inbox, or the child is not awaited any more."""


class ChildRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is needed to run a child.

    Attributes:
        start: how it begins.
        signals: commands for it that are outstanding, by the ids of their effects, oldest first.
    """

    start: StartChild
    signals: dict[str, SignalChild]


def _child_request(run: Run[Any], effect_id: str, effect: StartChild) -> ChildRequest:
    relayed = {key: it for key, it in run.outstanding.items() if isinstance(it, SignalChild) and it.effect_id == effect_id}
    return ChildRequest(start=effect, signals=relayed)


CHILD_REQUESTS: Mapping[type[Effect], RequestFactory] = {StartChild: RequestFactory(_child_request)}
"""How the requests of these effects are made; a part of every machine's."""


def signal_child(target: str, command: Event) -> SignalChild:
    """A command for the child that an effect has started."""
    return SignalChild(effect_id=target, command=event_data(command))


def signal_children(children: Iterable[str], command: Event, context: StepContext) -> None:
    """Pass a command on to the children that these effects have started."""
    for effect in children:
        context.schedule(signal_child(effect, command))


def child_start(machine: str, start: StartRequest, title: str) -> StartChild:
    """Return the effect that starts a run of a machine.

    Raises:
        InvalidInput: what it is given is not JSON, or not what a request has.
    """
    data = event_data(start)
    try:
        return StartChild(machine=machine, start=msgspec.convert(data, StartRequest), title=title)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"a {machine} cannot be started with what it is given: {error}") from None


def child_start_of(spec: ChildSpec, request: str, inputs: dict[str, Any], *, left_s: float, title: str) -> StartChild:
    """Return the effect that starts the run of a spec.

    Args:
        spec: what is started.
        request: what is to be done, in words.
        inputs: JSON values by name; those that the spec accepts are handed over.
        left_s: seconds the run may take.
        title: one line for people.
    """
    if spec.accepts is not None:
        inputs = {name: inputs[name] for name in spec.accepts if name in inputs}
    start = StartRequest(definition=spec.definition, request=request, inputs=inputs, budget_s=max(MIN_LIMIT_S, left_s))
    return StartChild(machine=spec.machine, start=start, title=title)


def note_blocked(blocked_children: set[str], event: ChildBlocked) -> bool:
    """Note whether a child rests; False where that is known."""
    if event.blocked == (event.effect_id in blocked_children):
        return False
    (blocked_children.add if event.blocked else blocked_children.discard)(event.effect_id)
    return True


def event_data(given: msgspec.Struct) -> dict[str, Any]:
    """A struct as a journal would give it back where it is a field of an event.

    Raises:
        InvalidInput: something in it is no JSON.
    """
    data: dict[str, Any] = as_json(given, f"what {type(given).__name__} is given", bounded=False)
    return data


def child_run_id_under(parent: str, key: str) -> str:
    """The id of the run that a parent has started under a key (of an effect: ``seq.index``).

    Raises:
        ValueError: the key has a colon, which separates a run from its effects.
    """
    if ":" in key:
        raise ValueError(f"the key of a child has no colon: {key!r}")
    return f"{parent}.{key}"


def child_run_id(effect_id: str) -> str:
    """The id of the run that a ``StartChild`` of this id has started."""
    parent, _, key = effect_id.rpartition(":")
    return child_run_id_under(parent, key)
