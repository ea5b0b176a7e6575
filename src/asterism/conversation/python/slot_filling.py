"""Fill fields from messages: values by name, values that are read from words, guesses, and corrections of earlier values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import msgspec

from asterism.conversation.machine.events import AgentStatus, Message
from asterism.conversation.python.agent_state import AgentResult, AgentState, hide, masked
from asterism.conversation.python.fields import MISSING, Field
from asterism.conversation.python.parsing import converted, joined, parts_of, why_not
from asterism.words.reading.clauses import Trouble, Understanding
from asterism.words.reading.scan import Wanted
from asterism.words.reading.sense import understand
from asterism.words.reading.setting import Setting
from asterism.words.reading.spoken import value_words as in_words
from asterism.words.reading.spoken import with_weekday
from asterism.words.reading.values import iso


class DialogueAgent(Protocol):
    """The agent, as the dialogue policy uses it."""

    requires_approval: ClassVar[bool]
    triggers: ClassVar[Any]
    description: ClassVar[str]
    _state: AgentState

    @property
    def collected_fields(self) -> dict[str, Any]:
        """Return the field values by name."""
        ...

    @classmethod
    def input_fields(cls) -> dict[str, Field]:
        """Return the input fields by name."""
        ...

    def _get_missing_fields(self) -> list[str]: ...

    def get_approval_prompt(self) -> str:
        """Return the question for approval."""
        ...

    def transition_to(self, to_state: AgentStatus) -> None:
        """Make a transition."""
        ...

    def make_result(self, status: AgentStatus | None = None, raw_message: str = "") -> AgentResult:
        """Return the result of a handler."""
        ...

    async def extract_fields(self, msg: Message) -> dict[str, Any]:
        """Return the values that a message contains."""
        ...

    async def on_running(self, msg: Message) -> AgentResult | None:
        """Do the work."""
        ...


class Filled(msgspec.Struct):
    """What a message has done.

    Attributes:
        sentences: complaints, and what was changed.
        understood: what was read; None if the message was not read.
        fields: names of the fields that now have a value from it, or a guess.
    """

    sentences: list[str] = msgspec.field(default_factory=list)
    understood: Understanding | None = None
    fields: list[str] = msgspec.field(default_factory=list)


class AnswerOutcome(msgspec.Struct):
    """What a message has done.

    Attributes:
        sentences: complaints, answers, and what was changed.
        fields: names of the fields that have a value from it, or a guess.
        is_talk: True if it was a question or a remark.
    """

    sentences: list[str] = msgspec.field(default_factory=list)
    fields: list[str] = msgspec.field(default_factory=list)
    is_talk: bool = False


def say(agent: DialogueAgent, key: str, **values: Any) -> str:
    """Return a sentence in the language of the conversation."""
    return agent._state.setting.words.text(key, **values)


# -- values by name --------------------------------------------------------------------------------


def fill_slots(agent: DialogueAgent, values: Mapping[str, Any]) -> list[str]:
    """Set fields by name; return a complaint for each value that is refused."""
    complaints, fields = [], agent.input_fields()
    for name, value in values.items():
        if name not in fields:
            complaints.append(say(agent, "no_field", name=name.replace("_", " ")))
            continue
        try:
            found = fields[name].parse(agent, value, agent._state.setting) if isinstance(value, str) else fields[name].check(agent, value)
        except ValueError as error:
            complaints.append(hide(complaint_of(fields[name], error), [str(value)] if fields[name].secret else []))
        else:
            put(agent, name, found)
            if isinstance(value, str) and not fields[name].secret:
                note(agent, name, value)
    return complaints


def put(agent: DialogueAgent, name: str, value: Any) -> None:
    """Set a field; the last given field is the last in order."""
    agent.collected_fields.pop(name, None)
    agent.collected_fields[name] = value
    agent._state.pending.pop(name, None)


def note(agent: DialogueAgent, name: str, text: str, *, confirmed: bool = False) -> None:
    """Note how the value of a field was read, for the journal."""
    setting = agent._state.setting
    value = agent.collected_fields.get(name)
    agent._state.readings[name] = {
        "text": text[:MAX_NOTED], "value": iso(getattr(value, "value", value))[:MAX_NOTED], "language": setting.language,
        "time_zone": setting.zone, "at": setting.at, **({"confirmed": True} if confirmed else {}),
    }  # fmt: skip


MAX_NOTED = 200
"""Characters of a text that a note has at most."""


def put_secret(agent: DialogueAgent, field: Field, text: str, *, sure: bool) -> list[str]:
    """Set a secret field, or read the value back unless it is ``sure``; return a complaint if it is refused."""
    try:
        value = field.parse(agent, text, agent._state.setting)
    except ValueError as error:
        return [hide(complaint_of(field, error), [text])]
    before = agent.collected_fields.get(field.name)
    if not sure:
        agent._state.pending[field.name] = {"value": msgspec.to_builtins(value), "text": ""}
        return []
    put(agent, field.name, value)
    is_shown = agent._state.status is AgentStatus.WAITING_FOR_APPROVAL or agent._state.asked_field == field.name
    return [] if is_shown or before == value else [say(agent, "changed", label=field.label, value=masked(field, value))]


# -- values from words -----------------------------------------------------------------------------


def wanted_of(agent: DialogueAgent, skip: Mapping[str, Any] | None = None) -> list[Wanted]:
    """Return the fields of an agent as a reader sees them, without secrets."""
    fields, found = agent.input_fields(), []
    for name, field in fields.items():
        if field.secret or name in (skip or {}):
            continue
        given = agent.collected_fields.get(name)
        if name in agent._state.pending and not field.options:  # "no, push it back a week" changes the date that was read back
            given = restored(field, agent._state.pending[name]["value"])
        if given is None and not field.asked and field.default is not MISSING:
            given = field.default
        options = {id(option): text for text, option in field.options.items()}
        found.append(field.wanted(options.get(id(given), given) if field.options else given, end_of=_start_of(field, fields)))
    return found


def _start_of(field: Field, fields: Mapping[str, Field]) -> str:
    """Return the name of the field whose range a field ends; empty for none."""
    for name, other in fields.items():
        if other.range_with == field.name:
            return name
    if field.kind_of_reading not in ("date", "time"):
        return ""
    for first, last in RANGES:
        parts = field.name.split("_")
        if last in parts:
            start = "_".join(first if part == last else part for part in parts)
            if start in fields and start != field.name and fields[start].kind == field.kind:
                return start
    return ""


RANGES = (("first", "last"), ("from", "to"), ("start", "end"), ("begin", "end"), ("since", "until"), ("arrival", "departure"))
"""Words in the names of two fields that are the ends of a range."""


def read_message(agent: DialogueAgent, text: str, asked: str = "", skip: Mapping[str, Any] | None = None) -> Understanding:
    """Return what a message gives for the fields of an agent, apart from the fields in ``skip``."""
    setting, wanted = agent._state.setting, wanted_of(agent, skip)
    found = understand(text, setting, parts_of(wanted), asked, [*agent.triggers])
    return joined(found, wanted, setting)


def as_guesses(found: Understanding) -> Understanding:
    """Return what was understood with every value as a guess."""
    return msgspec.structs.replace(found, taken={name: msgspec.structs.replace(it, sure=False) for name, it in found.taken.items()})


def take_values(agent: DialogueAgent, found: Understanding) -> Filled:
    """Set the fields that a message gives for certain, and keep its guesses until they are confirmed."""
    done, fields = Filled(understood=found), agent.input_fields()
    for name, it in sorted(found.taken.items(), key=lambda pair: pair[1].start):
        field = fields[name]
        try:
            value = field.check(agent, converted(field.kind, it.value, agent._state.setting))
        except ValueError as error:
            done.sentences.append(complaint_of(field, error))
            continue
        done.fields.append(name)
        before = agent.collected_fields.get(name, MISSING)
        if not it.sure:
            if before != value:
                agent._state.pending[name] = {"value": msgspec.to_builtins(value), "text": it.text[:MAX_NOTED]}
            continue
        put(agent, name, value)
        note(agent, name, it.text)
        is_shown = agent._state.status is AgentStatus.WAITING_FOR_APPROVAL  # the prompt has all values
        if before is not MISSING and before is not None and before != value and not is_shown:
            done.sentences.append(say(agent, "changed", label=field.label, value=field_words(agent, field, value)))
    return done


def complaints_about(agent: DialogueAgent, found: Understanding, text: str, asked: Field | None) -> list[str]:
    """Return why parts of a message give no value: those for the field that was asked for, and those that other fields could have."""
    sentences, fields = [], agent.input_fields()
    for trouble in found.troubles:
        names = [name for name in dict.fromkeys(it.removesuffix(" (time)") for it in trouble.fields) if name in fields]
        if trouble.why == "which":
            sentences.append(which(agent, names, trouble.text))
        elif names and not (set(names) & found.taken.keys()) and (asked is None or asked.name not in names):
            sentences.append(complaint_of(fields[names[0]], ValueError(_why(agent, trouble))))
        elif trouble.why == "foreign" and asked is None and not found.taken:
            sentences.append(f"{_why(agent, trouble).capitalize()}.")
    if asked is not None and asked.name not in found.taken and not any(it.why == "which" for it in found.troubles):
        wanted = asked.wanted(None)
        sentences.append(complaint_of(asked, ValueError(why_not(wanted, text, found, agent._state.setting))))
    return list(dict.fromkeys(sentences))


def _why(agent: DialogueAgent, trouble: Trouble) -> str:
    return trouble.about if trouble.why == "none" else say(agent, trouble.why, text=repr(trouble.text))


def which(agent: DialogueAgent, names: list[str], text: str) -> str:
    """Return the question which of several fields a value is for."""
    fields = agent.input_fields()
    ways = f" {say(agent, 'or_word')} ".join(f'"{fields[name].label}: {text}"' for name in names)
    return say(agent, "which", text=text, ways=ways)


def confirmation(agent: DialogueAgent) -> str:
    """Return the question whether the guesses are right."""
    fields, shown = agent.input_fields(), []
    for name, guess in agent._state.pending.items():
        if name in fields:
            value = restored(fields[name], guess["value"])
            if fields[name].secret:
                shown.append(f"{fields[name].label}: {masked(fields[name], value)}")
                if len(agent._state.pending) == 1:
                    key = "confirm_end" if fields[name].show_last else "confirm_secret"
                    return say(agent, key, label=fields[name].label, text=masked(fields[name], value))
                continue
            if fields[name].kind is str and len(agent._state.pending) == 1:
                return say(agent, "confirm_text", label=fields[name].label, text=repr(value))
            shown.append(f"{fields[name].label}: {field_words(agent, fields[name], value, dated=True)}")
    return say(agent, "confirm", values=", ".join(shown))


def summary(agent: DialogueAgent) -> str:
    """Return the values so far as a sentence."""
    shown = []
    for name, field in agent.input_fields().items():
        if (value := agent.collected_fields.get(name)) is not None:
            shown.append(f"{field.label}: {field_words(agent, field, value, dated=True)}")
    return say(agent, "so_far", values="; ".join(shown)) if shown else say(agent, "nothing_so_far")


def confirm(agent: DialogueAgent) -> list[str]:
    """Set the fields that were guessed; return the complaints."""
    complaints, fields, guesses = [], agent.input_fields(), dict(agent._state.pending)
    agent._state.pending.clear()
    for name, guess in guesses.items():
        if name not in fields:
            continue
        try:
            put(agent, name, fields[name].check(agent, guess["value"]))
        except ValueError as error:
            complaints.append(complaint_of(fields[name], error))
        else:
            if not fields[name].secret:
                note(agent, name, guess["text"], confirmed=True)
    return complaints


def restored(field: Field, value: Any) -> Any:
    """Return a value of a field from journaled data."""
    try:
        return msgspec.convert(value, field.kind, strict=False)
    except msgspec.ValidationError:
        return value


def complaint_of(field: Field, error: ValueError) -> str:
    """Return the error of a value as a sentence about its field."""
    said = str(error).rstrip(".") or "that is not valid"
    return f"{field.label.capitalize()}: {said}."


def value_words(value: Any) -> str:
    """Return a value as text for people."""
    return in_words(value, Setting().words)


def field_words(agent: DialogueAgent, field: Field, value: Any, *, dated: bool = False) -> str:
    """Return the value of a field as text for people, a secret masked; an amount has its currency, a date its weekday if ``dated``."""
    if field.secret:
        return masked(field, value)
    words = agent._state.setting.words
    currency = f" {field.unit}" if field.unit.isupper() else ""  # those of time are in lower case
    return f"{with_weekday(value, words) if dated else in_words(value, words)}{currency}"


def approval_prompt(agent: DialogueAgent) -> str:
    """Return the question for approval with all values; a secret is masked."""
    shown = []
    for name, field in agent.input_fields().items():
        value = agent.collected_fields.get(name) if field.secret else getattr(agent, name)  # the default, where no value was given
        if value is not None:
            shown.append(f"{field.label}: {field_words(agent, field, value)}")
    what = agent.description or type(agent).__name__
    return f"{what} ({', '.join(shown)}). {say(agent, 'go_ahead')}" if shown else f"{what}. {say(agent, 'go_ahead')}"


def explained(agent: DialogueAgent, field: Field) -> str:
    """Return the description and limits of a field as a sentence; empty if it has none."""
    said = "; ".join(part for part in (field.description.rstrip("."), field.limits(agent._state.setting.words)) if part)
    return said if not said or said.endswith(("?", "!")) else f"{said}."
