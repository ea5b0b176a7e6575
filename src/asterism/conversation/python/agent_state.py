"""The state of an agent object: its status, its transitions, its fields, and the context of its handler.

A handler works on a fresh agent object. Its state afterwards is journaled (``agent_view``); secrets stay in the process.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

import msgspec

from asterism.conversation.machine.events import STATE_TRANSITIONS, AgentStatus, AgentView, Message
from asterism.conversation.python.fields import Field, Output, fields_of
from asterism.engine.control.children import ChildEnded, StartChild
from asterism.engine.kernel.data import as_json, round_trip
from asterism.engine.kernel.phrase import Text
from asterism.engine.kernel.profile import AgentProfile
from asterism.errors import IllegalTransition
from asterism.words.reading.setting import DEFAULT_LANGUAGE, DEFAULT_ZONE, Setting
from asterism.words.reading.words import Words

HIDDEN = "•••"
"""Shown in place of a secret."""
GUESS = "{}?"
"""Name under which the store of secrets has a guess for a secret field."""
MIN_SECRET = 4
"""Shortest secret, in characters, that is hidden in other values; shorter ones occur there by chance."""


class AgentResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of an agent to a message.

    Attributes:
        status: status of the agent.
        raw_message: text for the person.
        data: output fields, and other data that the handler returned.
        metadata: sub-states of the agent.
        fields: collected fields in the order of declaration, without secrets.
        missing_fields: names of the fields still to be asked for.
        run_id: id of the run; empty without a run.
        code, reason: cause of a failure or cancellation; empty otherwise.
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
    """The run of a handler, as its agent object uses it."""

    key: str
    fleet: tuple[AgentProfile, ...]

    async def enter(self, agent: Any) -> None:
        """Journal the transitions so far, before the body of ``on_running`` is entered."""
        ...

    def report(self, agent: Any, text: str) -> None:
        """Report the progress of the handler."""
        ...

    async def child(self, agent: Any, key: str, start: StartChild) -> ChildEnded:
        """Run the child of a key, and return its end."""
        ...

    def started(self, key: str) -> StartChild | None:
        """Return the start of the child of a key; None if it was not started."""
        ...

    async def extract(self, agent: Any, message: Message) -> dict[str, Any] | None:
        """Return the values that a model finds in a message, by field name; None without a model."""
        ...


class AgentState:
    """The state of an agent object.

    Attributes:
        status: status of the agent, after the transitions of this handler.
        transitions: transitions that are not journaled yet.
        fields: field values by name, converted to their types.
        outputs, metadata: output fields and sub-states of the agent.
        asked_field: name of the field asked for last.
        retries: number of unusable answers in a row to that field.
        unread: names of the fields whose patterns took too long to search for in the current message.
        prompt: last message of the agent.
        setting: language, time zone and time of the message.
        pending: values that were guessed, by field, until the person confirms them.
        readings: how the values of fields were read from words.
        from_model: True if the values of ``extract_fields`` come from a model.
        approval_required: True while nobody has approved a transition to RUNNING.
        approved: values of an approval that still holds; None without one.
        secrets_before: secret field values before this handler; None for one that was lost with its process.
        before, before_prompt: status and prompt before a pause.
        depth: nesting depth in bodies of ``on_running`` (of the class and its parents).
        entered: True once a body of ``on_running`` was entered.
        code, reason, cancel_requested: end of the conversation, for the result.
        host: context of the handler; None outside a handler.
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
        self.setting = Setting()
        self.pending: dict[str, Any] = {}
        self.readings: dict[str, dict[str, Any]] = {}
        self.from_model = False
        self.approval_required = False
        self.approved: dict[str, Any] | None = None
        self.secrets_before: dict[str, Any] = {}
        self.before = AgentStatus.INITIALIZING
        self.before_prompt = ""
        self.depth = 0
        self.entered = False
        self.code = ""
        self.reason: Text = ""
        self.cancel_requested = False
        self.host: HandlerContext | None = None

    def transition_to(self, agent: Any, to: AgentStatus) -> None:
        """Make a transition.

        Raises:
            IllegalTransition: the table has no such edge, the agent's ``can_transition`` forbids it, or a required approval
                is missing; nothing has changed.
        """
        if to is AgentStatus.RUNNING and self.approval_required and not self.is_approved(agent):
            others = [target for target in STATE_TRANSITIONS[self.status] if target is not to and agent.can_transition(self.status, target)]
            raise IllegalTransition(type(agent).__name__, self.status, "a transition to RUNNING without an approval", others)
        if to not in STATE_TRANSITIONS[self.status] or not agent.can_transition(self.status, to):
            allowed = [target for target in STATE_TRANSITIONS[self.status] if agent.can_transition(self.status, target)]
            raise IllegalTransition(type(agent).__name__, self.status, f"a transition to {to}", allowed)
        self.status = to
        self.transitions.append(to)

    def is_approved(self, agent: Any) -> bool:
        """Return True if an earlier approval covers the present values; it covers no secret that has changed since."""
        view = agent_view(agent)
        return self.approved is not None and view.shown == self.approved and not view.secrets_changed

    def take_transitions(self) -> tuple[AgentStatus, ...]:
        """Return the transitions since the last call, and clear them."""
        taken, self.transitions = tuple(self.transitions), []
        return taken


def worded(text: Text, words: Words) -> str:
    """Return a text as it is; a phrase of the machine in the language of the words."""
    return text if isinstance(text, str) else words.text(text.code.rpartition(".")[2])


def checked(agent: Any, handler: str, result: Any) -> AgentResult | None:
    """Return the result of a handler.

    Raises:
        TypeError: a handler cannot return it.
    """
    if result is not None and not isinstance(result, AgentResult):
        raise TypeError(f"{handler} returned {type(result).__name__}; return self.make_result(…)")
    if result is not None and result.status is not agent.status:
        raise TypeError(f"{handler} returned a result of {result.status}, and the agent is {agent.status}; return self.make_result(…)")
    if result is None and agent._state.entered and agent.status is AgentStatus.RUNNING:
        raise TypeError("on_running returned nothing; return self.make_result(status=AgentStatus.COMPLETED, raw_message=…)")
    return result


def agent_view(agent: Any) -> AgentView:
    """Return the state of an agent after a handler as JSON data, without secrets.

    Raises:
        InvalidInput: a value is not JSON data, and cannot be journaled.
    """
    state: AgentState = agent._state
    fields: dict[str, Field] = fields_of(type(agent), Field)
    secret = {name for name, field in fields.items() if field.secret}
    withheld = {name: state.fields[name] for name in sorted(secret & state.fields.keys())}
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
        withheld_fields=tuple(withheld),
        secret_ends={name: masked(fields[name], it) for name, it in withheld.items() if fields[name].show_last and it is not None},
        secrets_changed=withheld != state.secrets_before,
        outputs=plain_data(state.outputs, "an output field", hidden, names),
        metadata=plain_data(state.metadata, "metadata", hidden),
        flags=plain_data(flags, "an instance variable (begin its name with _ to keep it out of the journal)", hidden, flags),
        asked_field=state.asked_field,
        secret_expected=asked is not None and asked.secret,
        retries=state.retries,
        pending=plain_data({name: guess for name, guess in state.pending.items() if name not in secret}, "a guess", long, names),
        readings=plain_data({name: it for name, it in state.readings.items() if name in answers}, "a reading", long, names),
    )


def setting_of(agent: Any, language: str, time_zone: str, at: float) -> Setting:
    """Return the setting of a message: that of the conversation, else that of the agent's class.

    Raises:
        InvalidInput: there is no such language or time zone.
    """
    found = Setting(language=language or agent.language or DEFAULT_LANGUAGE, zone=time_zone or agent.time_zone or DEFAULT_ZONE, at=at)
    _ = found.words, found.now  # so that a wrong one is an error here
    return found


def secrets_of(agent: Any) -> list[str]:
    """Return the values of the secret fields, and their guesses, as text."""
    secret = [name for name, field in agent.input_fields().items() if field.secret]
    guesses = [agent._state.pending[name]["value"] for name in secret if name in agent._state.pending]
    values = [*(agent.collected_fields.get(name) for name in secret), *guesses]
    return [str(value) for value in values if value is not None]


def names_of(agent: Any) -> set[str]:
    """Return the names of all fields: they come from the code, so a secret that equals one need not be hidden there."""
    return {*fields_of(type(agent), Field), *fields_of(type(agent), Output)}


def in_order(agent: type, fields: dict[str, Any]) -> dict[str, Any]:
    """Return field values by name, in the order of declaration rather than the order in which they were given."""
    return {name: fields[name] for name in fields_of(agent, Field) if name in fields} | fields


def restore_state(agent: Any, view: AgentView, secrets: dict[str, Any]) -> None:
    """Restore the state after an earlier handler; a secret that this process does not hold is missing again."""
    state: AgentState = agent._state
    fields: dict[str, Field] = fields_of(type(agent), Field)
    for name, value in view.fields.items():
        field = fields.get(name)
        try:
            state.fields[name] = msgspec.convert(value, field.kind, strict=False) if field and value is not None else value
        except msgspec.ValidationError:
            state.fields[name] = value  # set by the agent's own code, without a check of its type
    state.secrets_before = {name: secrets.get(name) for name in view.withheld_fields}
    state.fields |= {name: secrets[name] for name in view.withheld_fields if name in secrets}
    state.outputs, state.metadata = round_trip(view.outputs), round_trip(view.metadata)
    state.asked_field, state.retries = view.asked_field, view.retries
    state.pending, state.readings = round_trip(view.pending), round_trip(view.readings)
    state.pending |= {name: {"value": secrets[GUESS.format(name)], "text": ""} for name in fields if GUESS.format(name) in secrets}
    vars(agent).update(round_trip(view.flags))


def masked(field: Field, value: Any) -> str:
    """Return a secret with only its last characters, as many as the field allows; none of a short one."""
    said = "".join(sign for sign in str(value) if sign.isalnum())
    count = field.show_last if len(said) > 2 * field.show_last else 0
    return f"{HIDDEN}{said[-count:]}" if count else HIDDEN


def plain_data(value: dict[str, Any], what: str, hidden: list[str], names: Collection[str] = ()) -> dict[str, Any]:
    """Return a value as JSON data without secrets; see ``hide``.

    Raises:
        InvalidInput: the value is not JSON data.
    """
    found: dict[str, Any] = as_json(value, what)
    return hide(found, hidden, names) if hidden else found


def hide(value: Any, hidden: list[str], names: Collection[str] = ()) -> Any:
    """Return the data with secrets replaced by ``HIDDEN``; top-level keys in ``names`` stay."""
    if isinstance(value, str):
        for secret in hidden:
            value = HIDDEN if value == secret else value.replace(secret, HIDDEN) if secret else value
        return value
    if isinstance(value, dict):
        return {name if name in names else hide(name, hidden): hide(item, hidden) for name, item in value.items()}
    if isinstance(value, list):
        return [hide(item, hidden) for item in value]
    return HIDDEN if hidden and str(value) in hidden else value
