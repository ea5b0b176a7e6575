"""Taking values from what people say: by name, as a correction of what they said before, as what is left of a message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from asterism.flows.agent_state import AgentResult, AgentState, hide
from asterism.flows.fields import Field
from asterism.flows.parsing import options_of, parse
from asterism.language import replies
from asterism.language.tokens import plain
from asterism.machines.flow_agent.events import AgentStatus, Message


class DialogueAgent(Protocol):
    """What a conversation needs of its agent."""

    requires_approval: ClassVar[bool]
    _state: AgentState

    @property
    def collected_fields(self) -> dict[str, Any]:
        """Values of its fields."""
        ...

    @classmethod
    def input_fields(cls) -> dict[str, Field]:
        """Its fields."""
        ...

    def _get_missing_fields(self) -> list[str]: ...

    def get_approval_prompt(self) -> str:
        """The question for approval."""
        ...

    def transition_to(self, to_state: AgentStatus) -> None:
        """Make a transition."""
        ...

    def make_result(self, status: AgentStatus | None = None, raw_message: str = "") -> AgentResult:
        """The result of a handler."""
        ...

    async def extract_fields(self, msg: Message) -> dict[str, Any]:
        """Values that a message gives by itself."""
        ...

    async def on_running(self, msg: Message) -> AgentResult | None:
        """The task itself."""
        ...


# -- taking values ---------------------------------------------------------------------------------


def fill_slots(agent: DialogueAgent, values: Mapping[str, Any], at: float) -> list[str]:
    """Take values by field name; returns what is wrong with those that cannot be taken."""
    told, fields = [], agent.input_fields()
    for name, value in values.items():
        if name not in fields:
            told.append(f"There is no {name.replace('_', ' ')} here.")
            continue
        try:
            found = fields[name].parse(agent, value, at) if isinstance(value, str) else fields[name].check(agent, value)
        except ValueError as error:
            told.append(hide(complaint_of(fields[name], error), [str(value)] if fields[name].secret else []))
        else:
            agent.collected_fields.pop(name, None)  # so that the last in order is the last that was said
            agent.collected_fields[name] = found
    return told


def found_by_patterns(agent: DialogueAgent, text: str) -> dict[str, Any]:
    """Return what the patterns of the missing fields find in a message, by name; ``unread`` has those that took too long."""
    found, state, fields = dict[str, Any](), state_of(agent), agent.input_fields()
    state.unread = set()
    for name in agent._get_missing_fields():
        try:
            match = fields[name].search(text) if name in fields else None
        except TimeoutError:
            state.unread.add(name)
        else:
            groups = (match.groups() or (match[0],)) if match else ()
            value = next((group for group in groups if group is not None), "")
            found |= {name: value} if value else {}
    return found


def complaint_of(field: Field, error: ValueError) -> str:
    """What is wrong with a value, as a sentence about its field."""
    said = str(error).rstrip(".") or "that is not valid"
    return f"{field.label.capitalize()}: {said}."


def state_of(agent: DialogueAgent) -> AgentState:
    """Where its view stands."""
    return agent._state


def corrected(agent: DialogueAgent, text: str, at: float, asked: Field | None) -> list[str] | None:
    """Take a correction of what was said before; None where the words are none."""
    said = replies.change(text)
    if said is None:
        return _thought_better(agent, text, at, asked)
    named, value = said
    fields = agent.input_fields()
    if named:
        meant = [field for field in fields.values() if named in (field.label, field.name) or (named and named == field.label.split()[-1])]
        return fill_slots(agent, {meant[0].name: value}, at) if len(meant) == 1 else None
    given = _correctable(agent, asked)
    fits = [field for field in given if field.kind is not str and can_be(field, value, at)]
    if asked is not None:
        only = _meant(text, given, fits, answers=asked.kind is not str and can_be(asked, value, at))
        return fill_slots(agent, {only.name: value}, at) if only else None
    changed = _changed(agent, fits, value, at)
    return ["I do not see what that changes; say which it is."] if changed is None else changed


def _thought_better(agent: DialogueAgent, text: str, at: float, asked: Field | None) -> list[str] | None:
    """Take "no, 5 people" as a correction of the number that was given, unless it answers what is asked for; None where it is none.

    Only what begins with a number, a day, a time, or is an option: any other words may well be a name.
    """
    value = replies.second_thought(text)
    if not value or (asked is not None and (asked.secret or (asked.kind is not str and can_be(asked, value, at)))):
        return None
    return _changed(agent, [field for field in _correctable(agent, asked) if _is_said_by(field, value, at)], value, at)


def _correctable(agent: DialogueAgent, asked: Field | None) -> list[Field]:
    """What a value without a name may be meant for: what was said, the last last; and the defaults, where nothing is asked for any more."""
    fields = agent.input_fields()
    said = [fields[name] for name in agent.collected_fields if name in fields]
    shown = [] if asked is not None else [field for field in fields.values() if not field.asked and field not in said]
    return [field for field in [*said, *shown] if not field.secret]


def _is_said_by(field: Field, value: str, at: float) -> bool:
    if field.kind in (str, bool):  # any words are a text, and "no" is a bool
        return False
    if options := options_of(field.kind):
        return plain(value) in map(plain, options)
    return can_be(field, value.split(maxsplit=1)[0], at) and can_be(field, value, at)


def _changed(agent: DialogueAgent, fits: list[Field], value: str, at: float) -> list[str] | None:
    """Give the one field that a value fits that value, or say how to tell which; None where it fits none. Of "5 cups", cups is the one."""
    fits = [field for field in fits if field.label.lower().split()[-1] in plain(value).split()] or fits
    if len(fits) == 1:
        return fill_slots(agent, {fits[0].name: value}, at)
    ways = " or ".join(f'"{field.label}: {value}"' for field in fits)
    return [f"Which one shall be {value}? Say {ways}."] if fits else None


def _meant(text: str, given: list[Field], fits: list[Field], *, answers: bool) -> Field | None:
    """Which field a value without a name corrects while another is asked for; None where it answers that one."""
    last = given[-1] if given else None
    if last is not None and (last in fits or (last.kind is str and "mean" in text.lower())):
        return last
    return fits[0] if len(fits) == 1 and not answers else None


def not_understood(agent: DialogueAgent, found: Mapping[str, Any], text: str) -> str:
    """The words that no pattern has taken."""
    for name in found:
        text = agent.input_fields()[name].without(text)
    return text


def in_words(value: Any) -> str:
    """A value as it is shown."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(in_words, value))
    return str(getattr(value, "value", value))


def explained(field: Field) -> str:
    """What it means and what it must be, as a sentence for who asks; empty where there is nothing to say."""
    said = "; ".join(part for part in (field.description.rstrip("."), field.limits) if part)
    return said if not said or said.endswith(("?", "!")) else f"{said}."


def can_be(field: Field, value: str, at: float) -> bool:
    """Whether the words give a value of its type, within its bounds or not."""
    try:
        parse(field.kind, value, at)
    except ValueError:
        return False
    return True
