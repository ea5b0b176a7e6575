"""Child runs: the effects that start and signal them, and the events that report them.

``engine.runtime.children`` drives the child runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal

import msgspec

from asterism.engine.kernel.data import as_json
from asterism.engine.kernel.machine import Effect, EffectResult, Event, RecoveryPolicy, RequestFactory, StartRequest, StepContext
from asterism.engine.kernel.phrase import Text
from asterism.engine.kernel.profile import ChildSpec
from asterism.engine.kernel.run import Run
from asterism.errors import InvalidInput

MIN_LIMIT_S = 0.001
"""Time limit of a child that starts when no time is left."""


class StartChild(Effect, tag="start_child", frozen=True, kw_only=True):
    """Run a machine to its end as a run of its own, created once and resumed after a crash.

    A child is cancelled by a ``SignalChild`` with a `Cancel`; its ``ChildEnded`` follows. A
    `CancelEffect` only drops the effect. A fork drops its copied effects this way; the
    child runs of the original go on.

    Attributes:
        start: request from which the machine makes the first event of the run.
        title: one line for people.
    """

    recovery_policy: ClassVar[RecoveryPolicy] = RecoveryPolicy.REATTACH  # the child run has its own journal

    machine: str
    start: StartRequest
    title: str = ""

    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        """Return a failed end, because the end of the child is not known."""
        return ChildEnded(effect_id=effect_id, outcome="failed", reason=why, code="interrupted")


EditedBy = Literal["", "local", "foreign"]
"""If a run has been edited while it was under way: by nobody, only by local users, or over the network, too."""


class ChildEnded(EffectResult, tag="child_ended", frozen=True, kw_only=True):
    """A child run has ended.

    Attributes:
        result: report of the child's memory (see ``RunMemory.report``).
        reason, code: those of the end of a child that did not finish; empty for one that did.
        edited: as ``RunMemory.edited``: what the child returns may be of another request than the parent's.
    """

    outcome: Literal["finished", "failed", "cancelled"]
    result: Any = None
    reason: Text = ""
    code: str = ""
    edited: EditedBy = ""


class ChildBlocked(Event, tag="child_blocked", frozen=True, kw_only=True):
    """A child is blocked (it waits only for people, or is paused), or is not blocked any more.

    Attributes:
        effect_id: id of the effect that started the child.
    """

    is_progress: ClassVar[bool] = False

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

    def interrupted(self, effect_id: str, why: Text) -> EffectResult:
        """Return the only possible result of a signal."""
        return ChildSignaled(effect_id=effect_id)


class ChildSignaled(EffectResult, tag="child_signaled", frozen=True, kw_only=True):
    """The command is in the child's inbox, or the child has ended."""


class ChildRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request to run a child.

    Attributes:
        start: the effect that starts it.
        signals: outstanding commands for it, by effect id, oldest first.
    """

    start: StartChild
    signals: dict[str, SignalChild]


def _child_request(run: Run[Any], effect_id: str, effect: StartChild) -> ChildRequest:
    signals = {key: it for key, it in run.outstanding.items() if isinstance(it, SignalChild) and it.effect_id == effect_id}
    return ChildRequest(start=effect, signals=signals)


CHILD_REQUESTS: Mapping[type[Effect], RequestFactory] = {StartChild: RequestFactory(_child_request)}
"""The request factories of the child effects; every machine has them."""


def signal_child(target: str, command: Event) -> SignalChild:
    """Return the effect that sends a command to the child that ``target`` has started."""
    return SignalChild(effect_id=target, command=event_data(command))


def signal_children(children: Iterable[str], command: Event, context: StepContext) -> None:
    """Send a command to the children that these effects have started."""
    for effect in children:
        context.schedule(signal_child(effect, command))


def child_start(machine: str, start: StartRequest, title: str) -> StartChild:
    """Return the effect that starts a run of a machine.

    Raises:
        InvalidInput: the request is not JSON, or a field has the wrong type.
    """
    data = event_data(start)
    try:
        return StartChild(machine=machine, start=msgspec.convert(data, StartRequest), title=title)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"a {machine} cannot be started with this request: {error}") from None


def child_start_of(spec: ChildSpec, request: str, inputs: dict[str, Any], *, left_s: float, title: str) -> StartChild:
    """Return the effect that starts the run of a child spec, for at most ``left_s`` seconds.

    Only the inputs that the spec accepts are passed on.
    """
    if spec.accepts is not None:
        inputs = {name: inputs[name] for name in spec.accepts if name in inputs}
    start = StartRequest(definition=spec.definition, request=request, inputs=inputs, budget_s=max(MIN_LIMIT_S, left_s))
    return StartChild(machine=spec.machine, start=start, title=title)


def note_blocked(blocked_children: set[str], event: ChildBlocked) -> bool:
    """Record if a child is blocked; return False if nothing changed."""
    if event.blocked == (event.effect_id in blocked_children):
        return False
    (blocked_children.add if event.blocked else blocked_children.discard)(event.effect_id)
    return True


def event_data(given: msgspec.Struct) -> dict[str, Any]:
    """Return a struct as JSON data, as it would be after a round trip through the journal.

    Raises:
        InvalidInput: a value in the struct is not JSON.
    """
    data: dict[str, Any] = as_json(given, f"a field of {type(given).__name__}", bounded=False)
    return data


def child_run_id(effect_id: str) -> str:
    """Return the id of the run that a ``StartChild`` of this id starts: ``parent.seq.index``."""
    parent, _, place = effect_id.rpartition(":")
    return f"{parent}.{place}"


def root_of(run_id: str) -> str:
    """Return the id of the root of the tree of a run."""
    return re.sub(r"(\.\d+\.\d+)+$", "", run_id)
