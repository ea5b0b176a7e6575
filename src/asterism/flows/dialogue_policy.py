"""The default dialogue policy: collect the fields, apply corrections, and ask for approval.

An invalid value does not discard valid ones of the same message. The first message is never used as a whole as the value
of the first field. The repairs are those of Rasa: correct, skip, cancel, explain, repeat, go back, cannot handle.
"""

from __future__ import annotations

from collections.abc import Iterable

from asterism.flows.agent_state import AgentResult
from asterism.flows.fields import Field, complaint
from asterism.flows.slot_filling import (
    DialogueAgent,
    can_be,
    complaint_of,
    corrected,
    explained,
    fill_slots,
    not_understood,
    value_words,
)
from asterism.language import replies
from asterism.language.tokens import plain
from asterism.language.vocabulary import QUESTION_WORDS
from asterism.machines.flow_agent.events import AgentStatus, Message

MAX_PLAIN_RETRIES = 3
"""Unusable answers in a row after which the prompt explains the field and how to cancel."""


# -- the next step ---------------------------------------------------------------------------------


def missing(agent: DialogueAgent) -> list[str]:
    """Return the names of the fields that are still to be asked for, in order."""
    return [
        name
        for name, field in agent.input_fields().items()
        if (field.asked or name == agent._state.asked_field) and name not in agent.collected_fields
    ]


async def advance(agent: DialogueAgent, msg: Message, said: Iterable[str] = ()) -> AgentResult | None:
    """Ask for a missing field, else for approval, else run; ``said`` precedes the question."""
    sentences = [*said, *_broken_rules(agent)]
    wanted = agent._get_missing_fields()
    if wanted:
        return ask(agent, wanted[0], sentences)
    agent._state.asked_field = ""
    if agent.requires_approval and not agent._state.is_approved(agent):
        return agent.make_result(AgentStatus.WAITING_FOR_APPROVAL, raw_message=" ".join([*sentences, agent.get_approval_prompt()]))
    agent.transition_to(AgentStatus.RUNNING)
    return await agent.on_running(msg)


def ask(agent: DialogueAgent, name: str, sentences: Iterable[str] = ()) -> AgentResult:
    """Ask for a field, after other sentences."""
    state, field = agent._state, agent.input_fields().get(name)
    if state.asked_field != name:
        state.retries = 0
    state.asked_field = name
    hints = []
    if state.retries >= MAX_PLAIN_RETRIES:
        hints = [field.description] if field and field.description else []
        hints.append('Write "cancel" to stop.')
    prompt = field.prompt if field else f"{name}?"
    return agent.make_result(AgentStatus.WAITING_FOR_INPUT, raw_message=" ".join([*sentences, *hints, prompt]))


def _broken_rules(agent: DialogueAgent) -> list[str]:
    """Check each rule whose fields all have values; drop the field of a broken rule, and return the complaints."""
    sentences = []
    for name in dir(type(agent)):
        involved = getattr(getattr(type(agent), name, None), "__asterism_rule__", ())
        if involved and all(agent.collected_fields.get(field) is not None for field in involved):
            try:
                complaint(getattr(agent, name))
            except ValueError as error:
                del agent.collected_fields[involved[0]]
                sentences.append(complaint_of(agent.input_fields()[involved[0]], error))
    return sentences


# -- the default handlers --------------------------------------------------------------------------


async def take_first_message(agent: DialogueAgent, msg: Message) -> AgentResult | None:
    """Fill fields from the first message: named values, and values that patterns or a model find."""
    known = agent.input_fields()
    sentences = fill_slots(agent, msg.values, msg.at)
    if msg.get_text():
        found = await agent.extract_fields(msg)
        sentences += fill_slots(agent, {name: value for name, value in found.items() if name in known}, msg.at)
    return await advance(agent, msg, sentences)


async def take_answer(agent: DialogueAgent, msg: Message) -> AgentResult | None:
    """Handle an answer, or an intent such as cancel, help or back."""
    state, text = agent._state, msg.get_text().strip()
    wanted = agent._get_missing_fields()
    asked = agent.input_fields().get(state.asked_field) if state.asked_field in wanted else None
    if msg.values:
        return await advance(agent, msg, fill_slots(agent, msg.values, msg.at))
    # An override has answered the question, or on_running has asked for something that is no field and reads the answer itself.
    if not text or not wanted or (state.asked_field and asked is None):
        return await advance(agent, msg)
    intent = replies.intent_of(text) or ("skip" if asked is not None and _declines(asked, text, msg.at) else "")
    if intent:
        return await _take_intent(agent, intent, msg, asked)
    return await advance(agent, msg, await _take_answer(agent, msg, text, asked))


def _declines(asked: Field, text: str, at: float) -> bool:
    """Return True if "no" skips an optional field; it does not where "no" is a value of its type."""
    return asked.optional and replies.denial(text) == "" and (asked.kind is str or not can_be(asked, text, at))


async def _take_answer(agent: DialogueAgent, msg: Message, text: str, asked: Field | None) -> list[str]:
    """Fill fields from an answer: by a correction, by values found in it, else by its whole text; return the complaints."""
    state, sentences = agent._state, list[str]()
    before = dict(agent.collected_fields)
    if (fixed := corrected(agent, text, msg.at, asked)) is not None:
        fields = agent.input_fields()
        changed = [name for name, value in agent.collected_fields.items() if name in before and before[name] != value]
        return [*fixed, *(f"All right, {fields[name].label}: {value_words(agent.collected_fields[name])}." for name in changed)]
    secret = asked is not None and asked.secret  # a secret is not searched for other values
    found = {} if secret else {name: value for name, value in (await agent.extract_fields(msg)).items() if name in agent.input_fields()}
    sentences += fill_slots(agent, found, msg.at)
    if asked is not None and asked.name in state.unread:
        sentences.append(f"{asked.label.capitalize()}: that took too long to read; please write it in other words.")
    elif asked is not None and not found:
        sentences += fill_slots(agent, {asked.name: text}, msg.at)
    elif asked is not None and asked.name not in found and asked.kind is not str:
        fill_slots(agent, {asked.name: not_understood(agent, found, text)}, msg.at)  # the rest may be the answer, or not
    is_open = asked is not None and asked.name not in agent.collected_fields
    state.retries = state.retries + 1 if is_open else 0
    return sentences


async def _take_intent(agent: DialogueAgent, intent: replies.Intent, msg: Message, asked: Field | None) -> AgentResult | None:
    state = agent._state
    given, sentences = _given(agent), []
    if intent == "cancel":
        return cancel(agent, msg)
    if intent == "back" and given:
        del agent.collected_fields[given[-1]]
        return ask(agent, given[-1])
    if intent == "back":
        sentences = ["There is nothing before this."]
    elif asked is not None and intent == "help":
        sentences = [explained(asked) if asked.description else f"It is the {asked.label} I need{asked.limits and '; '}{asked.limits}."]
    elif asked is not None and intent == "skip" and asked.optional:
        agent.collected_fields[asked.name], state.retries = None, 0
    elif asked is not None and intent == "skip":
        sentences = [f"I cannot continue without the {asked.label}."]
    return await advance(agent, msg, sentences)


def cancel(agent: DialogueAgent, msg: Message) -> AgentResult:
    """Cancel the conversation for its user."""
    state = agent._state
    state.cancel_requested, state.reason = True, f"cancelled by {msg.by}" if msg.by else "cancelled"
    return agent.make_result()


async def take_approval(agent: DialogueAgent, msg: Message) -> AgentResult | None:
    """Handle an answer to the approval: yes runs, no cancels, a change is shown again; anything else repeats the question."""
    text = msg.get_text().strip()
    if agent._get_missing_fields():
        return await advance(agent, msg)
    if msg.verb == "edit" or msg.values:
        return await advance(agent, msg, fill_slots(agent, msg.values, msg.at))
    if msg.verb == "approve" or (msg.verb == "respond" and replies.is_yes(text)):
        agent.transition_to(AgentStatus.RUNNING)
        return await agent.on_running(msg)
    asks = msg.verb == "respond" and replies.is_question(text)
    refusal = text if msg.verb == "reject" else None if asks else replies.denial(text)
    if refusal and msg.verb == "respond" and (fixed := corrected(agent, text, msg.at, None)) is not None:
        return await advance(agent, msg, fixed)  # "no, 5 people" gives no reason
    if refusal is not None:
        state = agent._state
        state.code, state.reason = "rejected", refusal or "rejected"
        answer = "All right, it is not done" + (f": {refusal.rstrip('.')}." if refusal else ".")
        return agent.make_result(AgentStatus.CANCELLED, raw_message=answer)
    return await _discuss(agent, msg, text, asks=asks)


async def _discuss(agent: DialogueAgent, msg: Message, text: str, *, asks: bool) -> AgentResult | None:
    """Handle a message that is neither yes nor no: an intent, a question, a correction, or an unclear text."""
    intent = replies.intent_of(text)
    if intent == "cancel":
        return cancel(agent, msg)
    if intent == "back" and (given := _given(agent)):
        del agent.collected_fields[given[-1]]
        return await advance(agent, msg)
    if not intent and not asks and (fixed := corrected(agent, text, msg.at, None)) is not None:
        return await advance(agent, msg, fixed)
    sentences = _explanations(agent, text) if intent == "help" or (asks and not intent) else []
    unclear = ["Please answer yes or no, or write what to change."] if not intent or intent == "help" else []
    return await advance(agent, msg, [*sentences, *unclear])


def _given(agent: DialogueAgent) -> list[str]:
    """Return the names of the answered fields, in the order of the answers."""
    fields = agent.input_fields()
    return [name for name in agent.collected_fields if name in fields and fields[name].asked]


def _explanations(agent: DialogueAgent, text: str) -> list[str]:
    """Explain the fields that a question names, or all fields if it names none."""
    asked = set(plain(text).split()) - QUESTION_WORDS  # "what" may be the name of a field, but not in a question
    known = list(agent.input_fields().values())
    named = [field for field in known if asked & {field.name.lower(), field.label.lower(), field.label.lower().split()[-1]}]
    return [f"{field.label.capitalize()}: {explanation}" for field in named or known if (explanation := explained(field))]


async def take_while_paused(agent: DialogueAgent, msg: Message) -> AgentResult | None:
    """Handle a message during a pause: resume, cancel, or explain the pause."""
    intent = replies.intent_of(msg.get_text())
    if intent == "resume":
        return resume(agent)
    if intent == "cancel":
        return cancel(agent, msg)
    return agent.make_result(raw_message='This is paused. Write "resume" to continue, or "cancel" to stop.')


def resume(agent: DialogueAgent) -> AgentResult:
    """Return to the status and the prompt before the pause."""
    state = agent._state
    return agent.make_result(state.before, raw_message="" if state.before is AgentStatus.RUNNING else state.before_prompt)


def take_interruption(agent: DialogueAgent, msg: Message, prompt: str) -> tuple[AgentResult | None, bool]:
    """Handle the answer about an interrupted ``on_running``; return the result, and True to enter it again."""
    text = msg.get_text().strip()
    if msg.verb == "approve" or (msg.verb == "respond" and replies.is_yes(text)):
        return None, True
    if msg.verb == "reject" or replies.denial(text) is not None or replies.intent_of(text) == "cancel":
        state = agent._state
        state.code, state.reason = "interrupted", "it was interrupted; whether it finished is not known"
        return agent.make_result(
            AgentStatus.ERROR, raw_message="It was not run again. Whether it finished the first time is not known."
        ), False
    return agent.make_result(raw_message=prompt), False
