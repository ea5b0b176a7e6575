"""How an agent that overrides nothing talks: it collects its fields, repairs what people correct, and asks for approval.

Valid values survive an invalid neighbour. The message that began the agent is never taken whole as its first field. What follows
Rasa's patterns of conversation repair: correct, skip, cancel, explain, repeat, go back, cannot handle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Protocol

from asterism.flows import words
from asterism.flows.fields import Field, complaint
from asterism.flows.seat import AgentResult, Seat
from asterism.machines.flow_agent.events import AgentStatus, Message

MANY_MISSES = 3
"""Answers that could not be used, after which the way out is told."""


class Talker(Protocol):
    """What a conversation needs of its agent."""

    requires_approval: ClassVar[bool]
    _seat: Seat

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


# -- what comes next -------------------------------------------------------------------------------


def missing(agent: Talker) -> list[str]:
    """Names of the fields that would be asked for, in order."""
    return [name for name, field in agent.input_fields().items() if field.asked and name not in agent.collected_fields]


async def advance(agent: Talker, msg: Message, said: Iterable[str] = ()) -> AgentResult | None:
    """Ask for what is missing, then for approval, then run."""
    told = [*said, *_broken_rules(agent)]
    wanted = agent._get_missing_fields()  # noqa: SLF001 - the seed names it so
    if wanted:
        return ask(agent, wanted[0], told)
    _seat(agent).asking = ""
    if agent.requires_approval:
        return agent.make_result(AgentStatus.WAITING_FOR_APPROVAL, raw_message=" ".join([*told, agent.get_approval_prompt()]))
    agent.transition_to(AgentStatus.RUNNING)
    return await agent.on_running(msg)


def ask(agent: Talker, name: str, told: Iterable[str] = ()) -> AgentResult:
    """Ask for a field, after what there is to tell."""
    seat, field = _seat(agent), agent.input_fields().get(name)
    if seat.asking != name:
        seat.misses = 0
    seat.asking = name
    way_out = []
    if seat.misses >= MANY_MISSES:
        way_out = [field.description] if field and field.description else []
        way_out.append('Say "cancel" to stop.')
    prompt = field.prompt if field else f"{name}?"
    return agent.make_result(AgentStatus.WAITING_FOR_INPUT, raw_message=" ".join([*told, *way_out, prompt]))


def _broken_rules(agent: Talker) -> list[str]:
    """Ask each rule whose fields all have values; a value that breaks one is dropped, so that it is asked for again."""
    told = []
    for name in dir(type(agent)):
        involved = getattr(getattr(type(agent), name, None), "__asterism_rule__", ())
        if involved and all(agent.collected_fields.get(field) is not None for field in involved):
            try:
                complaint(getattr(agent, name))
            except ValueError as error:
                del agent.collected_fields[involved[0]]
                told.append(_said_of(agent.input_fields()[involved[0]], error))
    return told


# -- taking values ---------------------------------------------------------------------------------


def take(agent: Talker, values: Mapping[str, Any], at: float) -> list[str]:
    """Take values by field name; returns what is wrong with those that cannot be taken."""
    told, fields = [], agent.input_fields()
    for name, value in values.items():
        if name not in fields:
            told.append(f"There is no {name.replace('_', ' ')} here.")
            continue
        try:
            found = fields[name].parse(agent, value, at) if isinstance(value, str) else fields[name].check(agent, value)
        except ValueError as error:
            told.append(_said_of(fields[name], error))
        else:
            agent.collected_fields.pop(name, None)  # so that the last in order is the last that was said
            agent.collected_fields[name] = found
    return told


def _said_of(field: Field, error: ValueError) -> str:
    said = str(error).rstrip(".") or "that is not valid"
    return f"{field.label.capitalize()}: {said}."


def _seat(agent: Talker) -> Seat:
    return agent._seat  # noqa: SLF001 - the framework's side of the agent


# -- the default handlers --------------------------------------------------------------------------


async def hear_first(agent: Talker, msg: Message) -> AgentResult | None:
    """Take what the first message gives by itself: named values, and what patterns or a model find in it."""
    known = agent.input_fields()
    told = take(agent, msg.values, msg.at)
    if msg.get_text():
        found = await agent.extract_fields(msg)
        told += take(agent, {name: value for name, value in found.items() if name in known}, msg.at)
    return await advance(agent, msg, told)


async def hear_answer(agent: Talker, msg: Message) -> AgentResult | None:
    """Take an answer, or a turn of the conversation."""
    seat, text = _seat(agent), msg.get_text().strip()
    wanted = agent._get_missing_fields()  # noqa: SLF001 - the seed names it so
    asked = agent.input_fields().get(seat.asking) if seat.asking in wanted else None
    if msg.values:
        return await advance(agent, msg, take(agent, msg.values, msg.at))
    # Nothing to take: an override has answered the question, or on_running has asked something that is no field and hears the answer.
    if not text or not wanted or (seat.asking and asked is None):
        return await advance(agent, msg)
    if turn := words.turn(text):
        return await _take_turn(agent, turn, msg, asked)
    return await advance(agent, msg, await _take_answer(agent, msg, text, asked))


async def _take_answer(agent: Talker, msg: Message, text: str, asked: Field | None) -> list[str]:
    """Values from an answer: corrections, what it gives by itself, else all of it for the field that was asked for."""
    seat, told = _seat(agent), list[str]()
    if (corrected := _corrected(agent, text, msg.at, asked)) is not None:
        return corrected
    secret = asked is not None and asked.secret  # a secret is nobody's to look through
    found = {} if secret else {name: value for name, value in (await agent.extract_fields(msg)).items() if name in agent.input_fields()}
    told += take(agent, found, msg.at)
    if asked is not None and not found:
        told += take(agent, {asked.name: text}, msg.at)
    still = asked is not None and asked.name not in agent.collected_fields
    seat.misses = seat.misses + 1 if still else 0
    return told


async def _take_turn(agent: Talker, turn: words.Turn, msg: Message, asked: Field | None) -> AgentResult | None:
    seat = _seat(agent)
    given = [name for name in agent.collected_fields if name in agent.input_fields()]
    told = []
    if turn == "cancel":
        return leave(agent, msg)
    if turn == "back" and given:
        del agent.collected_fields[given[-1]]
        return ask(agent, given[-1])
    if turn == "back":
        told = ["There is nothing before this."]
    elif asked is not None and turn == "help":
        told = [asked.description or f"It is the {asked.label} I need."]
    elif asked is not None and turn == "skip" and asked.optional:
        agent.collected_fields[asked.name], seat.misses = None, 0
    elif asked is not None and turn == "skip":
        told = [f"I cannot go on without the {asked.label}."]
    return await advance(agent, msg, told)


def leave(agent: Talker, msg: Message) -> AgentResult:
    """The person wants it cancelled."""
    seat = _seat(agent)
    seat.leave, seat.reason = True, f"cancelled by {msg.by}" if msg.by else "cancelled"
    return agent.make_result()


def _corrected(agent: Talker, text: str, at: float, asked: Field | None) -> list[str] | None:
    """Take a correction of what was said before; None where the words are none."""
    said = words.change(text)
    if said is None:
        return None
    named, value = said
    fields = agent.input_fields()
    if named:
        meant = [field for field in fields.values() if named in (field.label, field.name) or (named and named == field.label.split()[-1])]
        return take(agent, {meant[0].name: value}, at) if len(meant) == 1 else None
    given = [fields[name] for name in agent.collected_fields if name in fields and not fields[name].secret]
    fits = [field for field in given if field.kind is not str and _fits(agent, field, value, at)]
    fits = fits or [field for field in given if field.kind is str]
    if asked is not None:  # "I meant 5" is about what was said last; else it answers what was asked
        return take(agent, {fits[-1].name: value}, at) if fits and fits[-1] is given[-1] and asked.kind is not fits[-1].kind else None
    if len(fits) == 1:
        return take(agent, {fits[0].name: value}, at)
    return [f"Which one shall be {value}: {', '.join(field.label for field in fits)}?"] if fits else ["I do not see what that changes."]


def _fits(agent: Talker, field: Field, value: str, at: float) -> bool:
    try:
        field.parse(agent, value, at)
    except ValueError:
        return False
    return True


async def hear_approval(agent: Talker, msg: Message) -> AgentResult | None:
    """A clear yes runs it, a clear no cancels it, a change is shown again; anything else is asked again."""
    text = msg.get_text().strip()
    if agent._get_missing_fields():  # noqa: SLF001 - a secret that did not outlive its process
        return await advance(agent, msg)
    if msg.verb == "edit" or msg.values:
        return await advance(agent, msg, take(agent, msg.values, msg.at))
    if msg.verb == "approve" or (msg.verb == "respond" and words.is_yes(text)):
        agent.transition_to(AgentStatus.RUNNING)
        return await agent.on_running(msg)
    refusal = text if msg.verb == "reject" else words.denial(text)
    if refusal is not None:
        seat = _seat(agent)
        seat.code, seat.reason = "rejected", refusal or "rejected"
        told = "All right, it is not done" + (f": {refusal}." if refusal else ".")
        return agent.make_result(AgentStatus.CANCELLED, raw_message=told)
    return await _discuss(agent, msg, text)


async def _discuss(agent: Talker, msg: Message, text: str) -> AgentResult | None:
    """What is neither yes nor no: a turn, a correction, or unclear."""
    turn = words.turn(text)
    if turn == "cancel":
        return leave(agent, msg)
    if turn == "back" and (given := [name for name in agent.collected_fields if name in agent.input_fields()]):
        del agent.collected_fields[given[-1]]
        return await advance(agent, msg)
    corrected = None if turn else _corrected(agent, text, msg.at, None)
    unclear = ["Please answer yes or no, or say what to change."] if not turn or turn == "help" else []
    return await advance(agent, msg, unclear if corrected is None else corrected)


async def hear_while_paused(agent: Talker, msg: Message) -> AgentResult | None:
    """Go on, cancel, or say that it is paused."""
    turn = words.turn(msg.get_text())
    if turn == "resume":
        return go_on(agent)
    if turn == "cancel":
        return leave(agent, msg)
    return agent.make_result(raw_message='This is paused. Say "resume" to go on, or "cancel" to stop.')


def go_on(agent: Talker) -> AgentResult:
    """Resume where it was paused, with what was said there."""
    seat = _seat(agent)
    return agent.make_result(seat.before, raw_message="" if seat.before is AgentStatus.RUNNING else seat.before_prompt)


def hear_of_interruption(agent: Talker, msg: Message, prompt: str) -> tuple[AgentResult | None, bool]:
    """What a person says of an interrupted ``on_running``: the result, and whether to enter it once more."""
    text = msg.get_text().strip()
    if msg.verb == "approve" or (msg.verb == "respond" and words.is_yes(text)):
        return None, True
    if msg.verb == "reject" or words.denial(text) is not None or words.turn(text) == "cancel":
        seat = _seat(agent)
        seat.code, seat.reason = "interrupted", "it was interrupted; whether it finished is not known"
        return agent.make_result(
            AgentStatus.ERROR, raw_message="It was not run again. Whether it finished the first time is not known."
        ), False
    return agent.make_result(raw_message=prompt), False
