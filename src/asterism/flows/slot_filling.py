"""Fill fields from messages: values by name, corrections of earlier values, and the rest of a message."""

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
    """The agent, as the dialogue policy uses it."""

    requires_approval: ClassVar[bool]
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


# -- values ----------------------------------------------------------------------------------------


def fill_slots(agent: DialogueAgent, values: Mapping[str, Any], at: float) -> list[str]:
    """Set fields by name; return a complaint for each value that is refused."""
    complaints, fields = [], agent.input_fields()
    for name, value in values.items():
        if name not in fields:
            complaints.append(f"There is no {name.replace('_', ' ')} here.")
            continue
        try:
            found = fields[name].parse(agent, value, at) if isinstance(value, str) else fields[name].check(agent, value)
        except ValueError as error:
            complaints.append(hide(complaint_of(fields[name], error), [str(value)] if fields[name].secret else []))
        else:
            agent.collected_fields.pop(name, None)  # the last given field is the last in order
            agent.collected_fields[name] = found
    return complaints


def found_by_patterns(agent: DialogueAgent, text: str) -> dict[str, Any]:
    """Return what the patterns of the missing fields find in a message, by name; ``unread`` has those that took too long."""
    found, state, fields = dict[str, Any](), agent._state, agent.input_fields()
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
    """Return the error of a value as a sentence about its field."""
    said = str(error).rstrip(".") or "that is not valid"
    return f"{field.label.capitalize()}: {said}."


def corrected(agent: DialogueAgent, text: str, at: float, asked: Field | None) -> list[str] | None:
    """Apply a correction of earlier values and return its complaints; None if the text is no correction."""
    said = replies.correction_of(text)
    if said is None:
        return _second_thought(agent, text, at, asked)
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
    return ["I do not see what that changes; write which one it is."] if changed is None else changed


def _second_thought(agent: DialogueAgent, text: str, at: float, asked: Field | None) -> list[str] | None:
    """Apply "no, 5 people" as a correction, unless it answers the question; None if the text is no correction.

    The value must start with a number, a day or a time, or be an option: any other word may well be a name.
    """
    value = replies.short_correction(text)
    if not value or (asked is not None and (asked.secret or (asked.kind is not str and can_be(asked, value, at)))):
        return None
    return _changed(agent, [field for field in _correctable(agent, asked) if _is_clearly(field, value, at)], value, at)


def _correctable(agent: DialogueAgent, asked: Field | None) -> list[Field]:
    """Return the fields that a value without a name may correct: given ones in order, and defaults if no field is asked for."""
    fields = agent.input_fields()
    said = [fields[name] for name in agent.collected_fields if name in fields]
    shown = [] if asked is not None else [field for field in fields.values() if not field.asked and field not in said]
    return [field for field in [*said, *shown] if not field.secret]


def _is_clearly(field: Field, value: str, at: float) -> bool:
    if field.kind in (str, bool):  # any text is a str, and "no" is a bool
        return False
    if options := options_of(field.kind):
        return plain(value) in map(plain, options)
    return can_be(field, value.split(maxsplit=1)[0], at) and can_be(field, value, at)


def _changed(agent: DialogueAgent, fits: list[Field], value: str, at: float) -> list[str] | None:
    """Set the only field that a value fits ("5 cups": cups), or ask which one is meant; None if it fits none."""
    fits = [field for field in fits if field.label.lower().split()[-1] in plain(value).split()] or fits
    if len(fits) == 1:
        return fill_slots(agent, {fits[0].name: value}, at)
    ways = " or ".join(f'"{field.label}: {value}"' for field in fits)
    return [f"Which one shall be {value}? Write {ways}."] if fits else None


def _meant(text: str, given: list[Field], fits: list[Field], *, answers: bool) -> Field | None:
    """Return the field that a value without a name corrects while another is asked for; None if it answers that one."""
    last = given[-1] if given else None
    if last is not None and (last in fits or (last.kind is str and "mean" in text.lower())):
        return last
    return fits[0] if len(fits) == 1 and not answers else None


def not_understood(agent: DialogueAgent, found: Mapping[str, Any], text: str) -> str:
    """Return the message without the parts that patterns have matched."""
    for name in found:
        text = agent.input_fields()[name].without(text)
    return text


def value_words(value: Any) -> str:
    """Return a value as text for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(value_words, value))
    return str(getattr(value, "value", value))


def explained(field: Field) -> str:
    """Return the description and limits of a field as a sentence; empty if it has none."""
    said = "; ".join(part for part in (field.description.rstrip("."), field.limits) if part)
    return said if not said or said.endswith(("?", "!")) else f"{said}."


def can_be(field: Field, value: str, at: float) -> bool:
    """Return True if the text gives a value of the field's type, within its bounds or not."""
    try:
        parse(field.kind, value, at)
    except ValueError:
        return False
    return True
