"""Where a view of an agent stands: its status, the transitions it has made, its fields, and the way to its run.

A handler works on a fresh view; what it leaves is read back from here (``view_of``) and journaled. Secrets stay in the process.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

import msgspec

from asterism.constellation.profile import AgentProfile
from asterism.errors import IllegalTransition
from asterism.flows.fields import Field, Output, declared
from asterism.kernel.data import as_json, round_trip
from asterism.machines.children import ChildEnded, StartChild
from asterism.machines.flow_agent.events import STATE_TRANSITIONS, AgentStatus, AgentView, Message

HIDDEN = "•••"
"""What is shown in place of a secret."""
MIN_SECRET = 4
"""Characters of a secret that is hidden in other answers; a shorter one is in any of them, and to hide it would falsify them."""


class AgentResult(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent says after a turn.

    Attributes:
        status: of the agent, then.
        raw_message: what it says to the person.
        data: output fields, and what the handler returned besides.
        metadata: its sub-states.
        fields: what it has collected, in the order of declaration; no secrets.
        missing_fields: names of what it still needs.
        run_id: id of the run; empty for a view that has none.
        code, reason: why it did not complete; empty otherwise.
    """

    status: AgentStatus
    raw_message: str = ""
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    fields: dict[str, Any] = msgspec.field(default_factory=dict)
    missing_fields: tuple[str, ...] = ()
    run_id: str = msgspec.field(default="", name="run")
    code: str = ""
    reason: str = ""


class HandlerContext(Protocol):
    """What a view asks of the run it belongs to."""

    key: str
    fleet: tuple[AgentProfile, ...]

    async def enter(self, agent: Any) -> None:
        """Have the transitions so far journaled, before the body of ``on_running`` is entered."""
        ...

    def report(self, agent: Any, text: str) -> None:
        """Say how far it is."""
        ...

    async def child(self, agent: Any, key: str, start: StartChild) -> ChildEnded:
        """The end of the child run of a key."""
        ...

    async def extract(self, agent: Any, message: Message) -> dict[str, Any] | None:
        """What a model finds in a message, by field; None where there is no model."""
        ...


class AgentState:
    """The state of one view.

    Attributes:
        status: of the agent, with what this view has done to it.
        transitions: transitions made and not journaled.
        fields: values by name, as their types.
        outputs, metadata: as the agent has them.
        asked_field: the field asked for last; ``misses`` answers to it in a row could not be used.
        unread: names of the fields whose patterns could not be searched for in time, in the message that is being heard.
        prompt: what the agent said last.
        at: when the message was said, seconds since the epoch.
        approval_required: it may not lead to RUNNING, since nobody has approved that yet.
        before, before_prompt: what was paused.
        depth: how deep in bodies of ``on_running`` (of the class and its parents) it is; ``entered`` that it was in one.
        code, reason, cancel_requested: what the result is to say of the end.
    """

    def __init__(self) -> None:
        self.status = AgentStatus.INITIALIZING
        self.transitions: list[AgentStatus] = []
        self.fields: dict[str, Any] = {}
        self.outputs: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.asked_field = ""
        self.retries = 0
        self.unread: set[str] = set()
        self.prompt = ""
        self.at = 0.0
        self.approval_required = False
        self.before = AgentStatus.INITIALIZING
        self.before_prompt = ""
        self.depth = 0
        self.entered = False
        self.code = ""
        self.reason = ""
        self.cancel_requested = False
        self.host: HandlerContext | None = None

    def transition_to(self, agent: Any, to: AgentStatus) -> None:
        """Make a transition.

        Raises:
            IllegalTransition: the table has no such edge, the agent's ``can_transition`` forbids it, or it leads to RUNNING past the
                approval that the agent requires; nothing has changed.
        """
        if to is AgentStatus.RUNNING and self.approval_required:
            raise IllegalTransition(type(agent).__name__, self.status, "a transition to RUNNING that nobody has approved", [])
        if to not in STATE_TRANSITIONS[self.status] or not agent.can_transition(self.status, to):
            allowed = [target for target in STATE_TRANSITIONS[self.status] if agent.can_transition(self.status, target)]
            raise IllegalTransition(type(agent).__name__, self.status, f"a transition to {to}", allowed)
        self.status = to
        self.transitions.append(to)

    def take_transitions(self) -> tuple[AgentStatus, ...]:
        """The transitions since they were last taken."""
        taken, self.transitions = tuple(self.transitions), []
        return taken


def agent_view(agent: Any) -> AgentView:
    """What a handler has left of its agent, as plain data.

    Raises:
        InvalidInput: something in it is not data, and could not be journaled.
    """
    state: AgentState = agent._state
    fields: dict[str, Field] = declared(type(agent), Field)
    secret = {name for name, field in fields.items() if field.secret}
    hidden, names = secrets_of(agent), names_of(agent)
    flags = {name: value for name, value in vars(agent).items() if not name.startswith("_")}
    asked = fields.get(state.asked_field)
    answers = {name: value for name, value in state.fields.items() if name not in secret}
    defaults = {name: it.default for name, it in fields.items() if not (it.asked or it.secret) and answers.get(name) is None}
    long = [text for text in hidden if len(text) >= MIN_SECRET]
    return AgentView(
        fields=plain_data(answers, "collected_fields", long, names),
        defaults=plain_data(defaults, "the default of a field", long, names),
        secret_fields=tuple(sorted(secret)),
        withheld_fields=tuple(sorted(secret & state.fields.keys())),
        outputs=plain_data(state.outputs, "an output field", hidden, names),
        metadata=plain_data(state.metadata, "metadata", hidden),
        flags=plain_data(flags, "an instance variable (begin its name with _ to keep it out of the journal)", hidden, flags),
        asked_field=state.asked_field,
        secret_expected=asked is not None and asked.secret,
        retries=state.retries,
    )


def secrets_of(agent: Any) -> list[str]:
    """The values of its secret fields, as texts."""
    values = [agent.collected_fields.get(name) for name, field in agent.input_fields().items() if field.secret]
    return [str(value) for value in values if value is not None]


def names_of(agent: Any) -> set[str]:
    """The names of its fields: they are its code's, and no secret though one may be in them."""
    return {*declared(type(agent), Field), *declared(type(agent), Output)}


def in_order(agent: type, fields: dict[str, Any]) -> dict[str, Any]:
    """Values by field name, in the order in which its class declares them; elsewhere they are in the order in which they were said."""
    return {name: fields[name] for name in declared(agent, Field) if name in fields} | fields


def restore_state(agent: Any, view: AgentView, secrets: dict[str, Any]) -> None:
    """Give a fresh agent what an earlier handler has left; a secret that is not known here is missing again."""
    state: AgentState = agent._state
    fields: dict[str, Field] = declared(type(agent), Field)
    for name, value in view.fields.items():
        field = fields.get(name)
        try:
            state.fields[name] = msgspec.convert(value, field.kind, strict=False) if field and value is not None else value
        except msgspec.ValidationError:
            state.fields[name] = value  # put there by the agent's own code, past the type
    state.fields |= {name: secrets[name] for name in view.withheld_fields if name in secrets}
    state.outputs, state.metadata = round_trip(view.outputs), round_trip(view.metadata)
    state.asked_field, state.retries = view.asked_field, view.retries
    vars(agent).update(round_trip(view.flags))


def plain_data(value: dict[str, Any], what: str, hidden: list[str], names: Collection[str] = ()) -> dict[str, Any]:
    """JSON-able data, with no secret in it; see ``hide``.

    Raises:
        InvalidInput: it is not data.
    """
    found: dict[str, Any] = as_json(value, what)
    return hide(found, hidden, names) if hidden else found


def hide(value: Any, hidden: list[str], names: Collection[str] = ()) -> Any:
    """The same data, without these secrets; the outermost names stay that are among ``names``."""
    if isinstance(value, str):
        for secret in hidden:
            value = HIDDEN if value == secret else value.replace(secret, HIDDEN) if secret else value
        return value
    if isinstance(value, dict):
        return {name if name in names else hide(name, hidden): hide(item, hidden) for name, item in value.items()}
    if isinstance(value, list):
        return [hide(item, hidden) for item in value]
    return HIDDEN if hidden and str(value) in hidden else value
