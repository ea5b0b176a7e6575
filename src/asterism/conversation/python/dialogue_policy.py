"""The default dialogue policy: collect the fields, apply corrections, confirm guesses, and ask for approval.

An invalid value does not discard valid ones of the same message. The first message is never used as a whole as the value
of the first field. The repairs are those of Rasa: correct, skip, cancel, explain, repeat, go back, cannot handle.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from asterism.conversation.machine.events import AgentStatus, Message
from asterism.conversation.python.agent_state import AgentResult
from asterism.conversation.python.answers import ask_for_again, doubted_field, said_by_name
from asterism.conversation.python.fields import Field, complaint
from asterism.conversation.python.secret_answers import take_any
from asterism.conversation.python.secret_fields import values_by_pattern
from asterism.conversation.python.slot_filling import (
    DialogueAgent,
    as_guesses,
    complaint_of,
    confirm,
    confirmation,
    explained,
    fill_slots,
    read_message,
    say,
    summary,
    take_values,
)
from asterism.engine.kernel.phrase import phrase
from asterism.words.reading import replies
from asterism.words.reading.tokens import fold

_ADDRESS = re.compile(r"\w+://\S+")
_FILE = re.compile(r"\S*\w\.[A-Za-z]\w{0,4}")
MAX_PLAIN_RETRIES = 3
"""Unusable answers in a row after which the prompt explains the field and how to cancel."""
MAX_UNKNOWN = 2
"""Words that are not understood in an answer to a read-back, with which its values are certain at most."""
SMALL_TALK = ("thanks", "greet", "unsure")


# -- the next step ---------------------------------------------------------------------------------


def corrected_path(agent: DialogueAgent, text: str) -> dict[str, str]:
    """Return the field whose path a message replaces, with the new one; empty if it replaces none.

    The message is the path alone, or a correction ("no, …", "actually …"), and one field has a value of the same form.
    """
    words = text.split()
    found = [word for it in words if (word := it.strip("\"'`,;!?()").removesuffix(".")) and _form(word)]
    if len(found) != 1:
        return {}
    (path,) = found
    rest = " ".join(it for it in words if path not in it)
    seen = read_message(agent, rest)
    if rest and (seen.unknown or seen.taken or seen.troubles or not read_message(agent, f"{rest} {path}").corrects):
        return {}
    names = [
        name
        for name, field in agent.input_fields().items()
        if not field.secret and field.kind is str and _form(str(agent.collected_fields.get(name))) == _form(path)
    ]
    return {names[0]: path} if len(names) == 1 else {}


def _form(word: str) -> str:
    """Return the form of a word: an address, a file or a folder; empty for any other word."""
    if re.search(r"\s", word):
        return ""
    return "address" if _ADDRESS.fullmatch(word) else "file" if _FILE.fullmatch(word) else "folder" if "/" in word else ""


def missing(agent: DialogueAgent) -> list[str]:
    """Return the names of the fields that are still to be asked for, in order."""
    return [
        name
        for name, field in agent.input_fields().items()
        if (field.asked or name == agent._state.asked_field) and name not in agent.collected_fields
    ]


async def advance(agent: DialogueAgent, msg: Message, said: Iterable[str] = ()) -> AgentResult | None:
    """Ask whether a guess is right, else for a missing field, else for approval, else run; ``said`` precedes the question."""
    broken = _broken_rules(agent)
    sentences = list(dict.fromkeys([*said, *broken]))  # a model and the words may give the same refused value
    if agent._state.pending:
        missing_ = agent._get_missing_fields()
        if agent._state.asked_field not in missing_:
            agent._state.asked_field = missing_[0] if missing_ else ""
        return agent.make_result(AgentStatus.WAITING_FOR_INPUT, raw_message=" ".join([*sentences, confirmation(agent)]))
    wanted = agent._get_missing_fields()
    if wanted:
        again = agent._state.asked_field if agent._state.asked_field in wanted and not broken else wanted[0]
        return ask(agent, again, sentences)
    agent._state.asked_field = ""
    if agent.requires_approval and not agent._state.is_approved(agent):
        return agent.make_result(AgentStatus.WAITING_FOR_APPROVAL, raw_message=" ".join([*sentences, agent.get_approval_prompt()]))
    agent.transition_to(AgentStatus.RUNNING)
    return await agent.on_running(msg)


def ask(agent: DialogueAgent, name: str, sentences: Iterable[str] = ()) -> AgentResult:
    """Ask for a field, after other sentences. The hints change with each answer that could not be used."""
    state, field = agent._state, agent.input_fields().get(name)
    if state.asked_field != name:
        state.retries = 0
    state.asked_field = name
    hints = []
    if state.retries == MAX_PLAIN_RETRIES - 1 and field and (examples := _examples(agent, field)):
        hints = [say(agent, "would", examples=examples)]
    if state.retries >= MAX_PLAIN_RETRIES:
        hints = [field.description] if field and field.description else []
        hints.append(say(agent, "cancel_way"))
    prompt = field.prompt if field else f"{name}?"
    return agent.make_result(AgentStatus.WAITING_FOR_INPUT, raw_message=" ".join([*sentences, *hints, prompt]))


def _examples(agent: DialogueAgent, field: Field) -> str:
    kind, setting = field.kind_of_reading, agent._state.setting
    key = f"examples_{kind}"
    return setting.words.text(key, today=setting.today.isoformat(), options=", ".join(field.options)) if key in setting.words.say else ""


def _broken_rules(agent: DialogueAgent) -> list[str]:
    """Check each rule whose fields all have values; drop the field of a broken rule, and return the complaints."""
    sentences = []
    for name in dir(type(agent)):
        involved = getattr(getattr(type(agent), name, None), "__asterism_rule__", ())
        if involved and all(agent.collected_fields.get(field) is not None for field in involved):
            try:
                complaint(getattr(agent, name), words=agent._state.setting.words)
            except ValueError as error:
                del agent.collected_fields[involved[0]]
                sentences.append(complaint_of(agent.input_fields()[involved[0]], error))
    return sentences


# -- the default handlers --------------------------------------------------------------------------


async def take_first_message(agent: DialogueAgent, msg: Message) -> AgentResult | None:
    """Fill fields from the first message: named values, and values that patterns, a model or the words give."""
    sentences = fill_slots(agent, msg.values)
    text = msg.get_text()
    if text:
        sentences += (await take_any(agent, msg, text, None)).sentences
    return await advance(agent, msg, sentences)


async def take_answer(agent: DialogueAgent, msg: Message) -> AgentResult | None:
    """Handle an answer, or an intent such as cancel, help or back."""
    state, text = agent._state, msg.get_text().strip()
    if msg.values:
        return await advance(agent, msg, fill_slots(agent, msg.values))
    if text and state.pending:
        done, result = await _take_confirmation(agent, msg, text)
        if done:
            return result
    wanted = agent._get_missing_fields()
    asked = agent.input_fields().get(state.asked_field) if state.asked_field in wanted else None
    # An override has answered the question, or on_running has asked for something that is no field and reads the answer itself.
    if not text or not wanted or (state.asked_field and asked is None):
        return await advance(agent, msg)
    intent = _intent(agent, msg, text, asked)
    if intent:
        return await _take_intent(agent, intent, msg, asked)
    if asked is not None and asked.kind not in (str, bool) and replies.denial(text, state.setting.language) == "":
        return await _take_intent(agent, "skip", msg, asked)
    answered = await take_any(agent, msg, text, asked)
    is_open = asked is not None and asked.name not in agent.collected_fields
    was_missed = is_open and not answered.fields and not answered.is_talk
    state.retries = state.retries + 1 if was_missed else state.retries if is_open else 0
    return await advance(agent, msg, answered.sentences)


async def _take_confirmation(  # noqa: PLR0911 - as take_message
    agent: DialogueAgent, msg: Message, text: str
) -> tuple[bool, AgentResult | None]:
    """Handle an answer to the question whether a guess is right; return False if it must be read as an answer to the field."""
    state, language = agent._state, agent._state.setting.language
    answer = replies.answer_of(text, language)
    if answer is True:
        return True, await advance(agent, msg, confirm(agent))
    intent = replies.intent_of(text, language, agent.triggers)
    if intent == "cancel":
        return True, cancel(agent, msg)
    if rest := replies.after_yes(text, language):
        return True, await _confirm_but(agent, msg, rest)
    if answer is False:
        state.pending.clear()
        return True, await advance(agent, msg, [say(agent, "dropped")])
    if intent in ("repeat", "help", "summary", *SMALL_TALK):
        said = [summary(agent)] if intent == "summary" else [say(agent, intent)] if intent in SMALL_TALK else []
        return True, await advance(agent, msg, said)
    if replies.is_question(text, language) and not replies.is_request(text, language):
        return True, await advance(agent, msg, [say(agent, "question")])
    if values_by_pattern(agent.input_fields(), text) or said_by_name(agent, text) is not None:
        return True, await advance(agent, msg, (await take_any(agent, msg, text, None, approving=True)).sentences)
    guesses = dict(state.pending)
    found = read_message(agent, text, state.asked_field)
    state.pending.clear()
    if not found.taken and not intent and not found.troubles and state.asked_field not in agent._get_missing_fields():
        state.pending |= guesses
        return True, await advance(agent, msg)
    if found.taken:  # a value for one of several guesses, or for another field, leaves the other guesses as they are
        found = as_guesses(found) if "?" in text or len(found.unknown) > MAX_UNKNOWN else found
        filled = take_values(agent, found)
        state.pending |= {name: guess for name, guess in guesses.items() if name not in filled.fields}
        return True, await advance(agent, msg, filled.sentences)
    if intent != "skip" and not replies.begins_with_no(text, language) and not replies.finds_fault(text, language):
        state.pending |= guesses  # they are asked about again, unless this message gives those fields
    if state.asked_field not in agent._get_missing_fields():  # the values are shown for approval, and something else was said
        return True, await _discuss(agent, msg, text)
    return False, None


async def _confirm_but(agent: DialogueAgent, msg: Message, rest: str) -> AgentResult | None:
    """Take "yes, but …": the guesses are right if the rest changes something; "yes, but only if …" is no yes."""
    fields, guesses = dict(agent.collected_fields), dict(agent._state.pending)
    sentences = confirm(agent)
    found = read_message(agent, rest)
    if found.negates or not (found.taken or said_by_name(agent, rest)):
        agent.collected_fields.clear()
        agent.collected_fields.update(fields)
        agent._state.pending = guesses
        return await advance(agent, msg, [say(agent, "no_change")])
    more = await take_any(agent, msgspec.structs.replace(msg, text=rest), rest, None, approving=True)
    return await advance(agent, msg, [*sentences, *(more.sentences or ([] if more.fields else [say(agent, "no_change")]))])


def _intent(agent: DialogueAgent, msg: Message, text: str, asked: Field | None) -> replies.Intent:
    """Return the wish that a message is; an answer to the question is none."""
    language = agent._state.setting.language
    if msg.secret and asked is not None and asked.secret:
        return replies.intent_of(text, language, agent.triggers)
    if asked is not None and asked.kind is bool and replies.answer_of(text, language) is not None:
        return ""
    intent = replies.intent_of(text, language, agent.triggers)
    if intent == "nothing":  # "none" may be the text that was asked for
        return "" if asked is not None and asked.kind is str and not asked.optional else "skip"
    if intent in (*SMALL_TALK, "repeat", "help", "back") and asked is not None and asked.kind is not str and not asked.secret:
        found = read_message(agent, text, asked.name)
        if asked.name in found.taken:
            return ""
    if not intent and asked is not None and asked.optional and replies.denial(text, language) == "":
        return "skip"
    return intent


async def _take_intent(agent: DialogueAgent, intent: replies.Intent, msg: Message, asked: Field | None) -> AgentResult | None:
    state = agent._state
    given, sentences = _given(agent), []
    if intent == "cancel":
        return cancel(agent, msg)
    if intent == "back" and given:
        del agent.collected_fields[given[-1]]
        return ask(agent, given[-1])
    if intent == "back":
        sentences = [say(agent, "nothing_before")]
    elif intent == "summary":
        sentences = [summary(agent)]
    elif intent in SMALL_TALK:
        sentences = [] if intent == "unsure" and state.retries else [say(agent, intent)]
        state.retries += intent == "unsure"
    elif asked is not None and intent == "help":
        limits = asked.limits(state.setting.words)
        needed = say(agent, "needed", label=asked.label, limits=f"; {limits}" if limits else "")
        sentences = [explained(agent, asked) if asked.description else needed]
        if examples := _examples(agent, asked) if not asked.description and not limits else "":
            sentences.append(say(agent, "would", examples=examples))
    elif asked is not None and intent == "skip" and asked.optional:
        agent.collected_fields[asked.name], state.retries = None, 0
    elif asked is not None and intent == "skip":
        sentences = [say(agent, "cannot_skip", label=asked.label)]
    return await advance(agent, msg, sentences)


def cancel(agent: DialogueAgent, msg: Message) -> AgentResult:
    """Cancel the conversation for its user."""
    state = agent._state
    state.cancel_requested, state.reason = True, phrase("conversation.cancelled_by", by=msg.by)
    return agent.make_result()


async def take_approval(agent: DialogueAgent, msg: Message) -> AgentResult | None:  # noqa: PLR0911 - as take_message
    """Handle an answer to the approval: yes runs, no cancels, a change is shown again; anything else repeats the question."""
    text, language = msg.get_text().strip(), agent._state.setting.language
    if agent._get_missing_fields():
        return await advance(agent, msg)
    if msg.verb == "edit" or msg.values:
        return await advance(agent, msg, fill_slots(agent, msg.values))
    if msg.verb == "approve" or (msg.verb == "respond" and replies.is_yes(text, language)):
        agent.transition_to(AgentStatus.RUNNING)
        return await agent.on_running(msg)
    if rest := replies.after_yes(text, language):
        return await _discuss(agent, msgspec.structs.replace(msg, text=rest), rest)
    is_fault = replies.finds_fault(text, language)
    if msg.verb == "reject" or (replies.answer_of(text, language) is False and not is_fault):
        return _reject(agent, text if msg.verb == "reject" else "")
    if replies.intent_of(text, language, agent.triggers):
        return await _discuss(agent, msg, text)
    refusal = replies.denial(text, language)
    if refusal and not is_fault:
        found = read_message(agent, text)
        is_value = not found.unknown and replies.has_value(refusal, language)  # "no, until the 26th", where no field ends anything
        is_change = bool(
            found.taken or found.labels or found.troubles or is_value or doubted_field(agent, text) or corrected_path(agent, text)
        )
        if not is_change and said_by_name(agent, text) is None:
            return _reject(agent, refusal)
    return await _discuss(agent, msg, text)


def _reject(agent: DialogueAgent, reason: str) -> AgentResult:
    state = agent._state
    state.code, state.reason = "rejected", reason or phrase("conversation.rejected")
    answer = say(agent, "not_done_because", reason=reason.rstrip(".")) if reason else say(agent, "not_done")
    return agent.make_result(AgentStatus.CANCELLED, raw_message=answer)


async def _discuss(agent: DialogueAgent, msg: Message, text: str) -> AgentResult | None:  # noqa: PLR0911 - as take_message
    """Handle a message that is neither yes nor no: an intent, a question, a correction, or an unclear text."""
    language = agent._state.setting.language
    intent = replies.intent_of(text, language, agent.triggers)
    if intent == "cancel":
        return cancel(agent, msg)
    if intent == "back" and (given := _given(agent)):
        del agent.collected_fields[given[-1]]
        return await advance(agent, msg)
    names = ", ".join(field.words[0] if field.secret and field.words else field.label for field in agent.input_fields().values())
    shown = say(agent, "names_to_change", names=names) if names else ""
    unclear = say(agent, "answer_yes_no", names=shown)
    if intent == "summary":
        return await advance(agent, msg, [summary(agent)])
    if intent in SMALL_TALK:
        return await advance(agent, msg, [say(agent, intent)])
    if intent == "help":
        return await advance(agent, msg, [*_explanations(agent, text), unclear])
    if intent:
        return await advance(agent, msg)
    if path := corrected_path(agent, text):
        return await advance(agent, msg, fill_slots(agent, path))
    answered = await take_any(agent, msg, text, None, approving=True)
    if answered.fields or answered.sentences:
        more = [unclear] if answered.is_talk and not answered.fields and not agent._get_missing_fields() else []
        return await advance(agent, msg, [*answered.sentences, *more])
    if name := doubted_field(agent, text):
        return await advance(agent, msg, ask_for_again(agent, agent.input_fields()[name]).sentences)
    if replies.finds_fault(text, language):
        return await advance(agent, msg, [say(agent, "what_is_wrong", names=shown)])
    return await advance(agent, msg, [say(agent, "no_change") if read_message(agent, text).corrects else unclear])


def _given(agent: DialogueAgent) -> list[str]:
    """Return the names of the answered fields, in the order of the answers."""
    fields = agent.input_fields()
    return [name for name in agent.collected_fields if name in fields and fields[name].asked]


def _explanations(agent: DialogueAgent, text: str) -> list[str]:
    """Explain the fields that a question names, or all fields if it names none."""
    asked = set(fold(text).replace("?", " ").split()) - agent._state.setting.words.vocabulary("questions")
    known = list(agent.input_fields().values())
    named = [field for field in known if asked & {field.name.lower(), field.label.lower(), field.label.lower().split()[-1]}]
    return [f"{field.label.capitalize()}: {explanation}" for field in named or known if (explanation := explained(agent, field))]


async def take_while_paused(agent: DialogueAgent, msg: Message) -> AgentResult | None:
    """Handle a message during a pause: resume, cancel, or explain the pause."""
    intent = replies.intent_of(msg.get_text(), agent._state.setting.language, agent.triggers)
    if intent == "resume":
        return resume(agent)
    if intent == "cancel":
        return cancel(agent, msg)
    return agent.make_result(raw_message=say(agent, "paused"))


def resume(agent: DialogueAgent) -> AgentResult:
    """Return to the status and the prompt before the pause."""
    state = agent._state
    return agent.make_result(state.before, raw_message="" if state.before is AgentStatus.RUNNING else state.before_prompt)


def take_interruption(agent: DialogueAgent, msg: Message) -> tuple[AgentResult | None, bool]:
    """Handle the answer about an interrupted ``on_running``; return the result, and True to enter it again."""
    text, language = msg.get_text().strip(), agent._state.setting.language
    if msg.verb == "approve" or (msg.verb == "respond" and replies.is_yes(text, language)):
        return None, True
    if msg.verb == "reject" or replies.denial(text, language) is not None or replies.intent_of(text, language) == "cancel":
        state = agent._state
        state.code, state.reason = "interrupted", phrase("conversation.outcome_unknown")
        return agent.make_result(AgentStatus.ERROR, raw_message=say(agent, "not_run_again")), False
    return agent.make_result(raw_message=say(agent, "interrupted")), False
