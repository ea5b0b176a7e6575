"""What a message means while fields are collected: a change by name, a question, values, the text that was asked for, or a remark."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import msgspec

from asterism.conversation.machine.events import AgentStatus, Message
from asterism.conversation.python.fields import Field
from asterism.conversation.python.named_texts import NamedTexts, labels_of, read_rest, texts_with_colons
from asterism.conversation.python.parsing import exact_value
from asterism.conversation.python.pattern_values import apart, given_by_patterns
from asterism.conversation.python.slot_filling import (
    AnswerOutcome,
    DialogueAgent,
    as_guesses,
    complaint_of,
    complaints_about,
    field_words,
    fill_slots,
    note,
    put,
    put_secret,
    read_message,
    say,
    take_values,
    which,
)
from asterism.conversation.python.text_answers import about, answered, is_no_name, text_or_values, values_beside
from asterism.words.reading import replies
from asterism.words.reading.clauses import Taken, Understanding
from asterism.words.reading.tokens import MAX_READ, fold, tokens


async def take_message(agent: DialogueAgent, msg: Message, text: str, asked: Field | None, *, approving: bool = False) -> AnswerOutcome:
    """Take what a message gives.

    Args:
        agent: the agent.
        msg: the message.
        text: its text.
        asked: the field that was asked for; None for none.
        approving: True if the values are shown for approval.
    """
    state, language = agent._state, agent._state.setting.language
    if asked is not None and asked.kind is not str and (exact := exact_value(asked.kind, text, state.setting)) is not None:
        return _exact(agent, asked, exact, text)
    is_first = asked is None and not approving
    if not is_first and (change := said_by_name(agent, text)) is not None:
        return change_by_name(agent, change)
    if asked is not None and asked.kind_of_reading in ("list", "other"):
        return answered(agent, fill_slots(agent, {asked.name: text}), asked.name)
    is_question = replies.is_question(text, language)
    if is_question and not replies.is_request(text, language) and not is_first:
        return AnswerOutcome(sentences=about(agent, text, asked), is_talk=True)
    found = _of_fields(agent, await agent.extract_fields(msg))
    if state.from_model:
        return _from_model(agent, text, found, asked)
    named = texts_with_colons(agent, text)
    if named.taken:  # a pattern must not find anything in them
        found = _of_fields(agent, await agent.extract_fields(msgspec.structs.replace(msg, text=named.rest)))
    return _read(
        agent, text, named, found, asked, is_question=is_question and (text.rstrip(" !").endswith("?") or is_first), is_first=is_first
    )


def _of_fields(agent: DialogueAgent, values: dict[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (values or {}).items() if name in agent.input_fields()}


def _exact(agent: DialogueAgent, asked: Field, value: Any, text: str) -> AnswerOutcome:
    try:
        put(agent, asked.name, asked.check(agent, value))
    except ValueError as error:
        return AnswerOutcome(sentences=[complaint_of(asked, error)])
    note(agent, asked.name, text)
    return AnswerOutcome(fields=[asked.name])


# -- changes by name -------------------------------------------------------------------------------


def said_by_name(agent: DialogueAgent, text: str) -> replies.FieldChange | None:
    """Return the change of a field by its name that a message is; None for any other message."""
    known = labels_of(agent)
    change = replies.change_of(text, known, agent._state.setting.language)
    if change is None or (
        change.what == "set" and replies.is_question(text, agent._state.setting.language) and not _is_named_first(text, known)
    ):
        return None
    return change


def _is_named_first(text: str, labels: dict[str, str]) -> bool:
    """Return True for "change the title to Who am I?", which is no question although it has its mark."""
    before = re.split(r"[:=]|\b(?:to|into|auf|a)\b", text, maxsplit=1)
    return (
        len(before) > 1
        and bool(set(fold(before[0]).split()) & set(labels))
        and re.match(r"\s*(?:[\w ]+:|\w+ )", text) is not None
        and ("change" in before[0].lower() or ":" in text)
    )


def change_by_name(agent: DialogueAgent, change: replies.FieldChange) -> AnswerOutcome:
    """Set, remove or ask again for a field by its name."""
    field = agent.input_fields()[change.field]
    if change.what == "set":
        return _set(agent, field, change.value)
    if change.what == "remove" and field.optional:
        put(agent, field.name, None)
        return AnswerOutcome(sentences=[say(agent, "removed", label=field.label)], fields=[field.name])
    if change.what == "remove" and field.kind is bool:
        return _set(agent, field, say(agent, "no_word"))
    if field.name in agent._state.pending:
        del agent._state.pending[field.name]
        return AnswerOutcome(sentences=[say(agent, "dropped")], is_talk=True)
    if field.name in agent.collected_fields and field.asked:
        return ask_for_again(agent, field)
    return AnswerOutcome(sentences=[say(agent, "no_change")], is_talk=True)


def ask_for_again(agent: DialogueAgent, field: Field) -> AnswerOutcome:
    """Drop the value of a field that is wrong, and ask for it next."""
    del agent.collected_fields[field.name]
    agent._state.asked_field, agent._state.retries = field.name, 0
    return AnswerOutcome(sentences=[say(agent, "wrong_field", label=field.label)], is_talk=True)


def doubted_field(agent: DialogueAgent, text: str) -> str:
    """Return the one given field that a message without a value finds fault with, or only names; empty for none or several."""
    language, fields = agent._state.setting.language, agent.input_fields()
    found = read_message(agent, text)
    secret = {fold(word): name for name, it in fields.items() if it.secret for word in (name, it.label, *it.words)}
    is_name = (
        not {fold(word) for word in found.unknown} - secret.keys()
        and len(text.split()) <= LONGEST_NAME
        and replies.denial(text, language) is not None
    )
    if found.taken or not (is_name or replies.finds_fault(text, language)):
        return ""
    given = [field for name, field in fields.items() if field.asked and name in agent.collected_fields]
    said = {it.low for it in tokens(text)}
    kinds = {"date": "date", "time": "time", "duration": "duration"}
    named = [field for field in given if field.name in {*found.labels, *(secret[word] for word in said & secret.keys())}] or [
        field for field in given if said & set(agent._state.setting.words.labels.get(kinds.get(field.kind_of_reading, ""), ()))
    ]
    return named[0].name if len(named) == 1 else ""


LONGEST_NAME = 4
"""Words of a message at most that only names a field ("no, the amount")."""


def _set(agent: DialogueAgent, field: Field, text: str) -> AnswerOutcome:
    before = agent.collected_fields.get(field.name)
    if field.secret:
        sentences = put_secret(agent, field, text, sure=not field.pattern)
        is_taken = field.name in agent._state.pending or agent.collected_fields.get(field.name) != before
        return AnswerOutcome(sentences=sentences, fields=[field.name] if is_taken else [])
    found: Understanding | None = None
    if field.kind is not str and exact_value(field.kind, text, agent._state.setting) is None:
        found = read_message(agent, text, field.name)
        if (read := found.taken.get(field.name)) is not None and not read.sure:
            done = take_values(agent, Understanding(taken={field.name: read}))
            return AnswerOutcome(sentences=done.sentences, fields=done.fields)
        if read is not None:
            done = take_values(agent, found)
            return AnswerOutcome(sentences=done.sentences, fields=done.fields)
    if field.kind is str and is_no_name(agent, text, field):
        done = take_values(agent, Understanding(taken={field.name: Taken(field=field.name, value=text, text=text, sure=False)}))
        return AnswerOutcome(sentences=done.sentences, fields=done.fields)
    sentences = fill_slots(agent, {field.name: text})
    after = agent.collected_fields.get(field.name)
    is_shown = agent._state.status is AgentStatus.WAITING_FOR_APPROVAL
    if not sentences and before is not None and before != after and not is_shown:
        sentences = [say(agent, "changed", label=field.label, value=field_words(agent, field, after))]
    return answered(agent, sentences, field.name if after is not None and after != before else "")


# -- values ----------------------------------------------------------------------------------------


def _read(  # noqa: PLR0911 - as take_message
    agent: DialogueAgent, text: str, named: NamedTexts, found: dict[str, Any], asked: Field | None, *, is_question: bool, is_first: bool
) -> AnswerOutcome:
    """Take the values that patterns have found, and those that the rest of the message gives."""
    name = asked.name if asked is not None else ""
    is_unread = name in agent._state.unread
    is_text = asked is not None and asked.kind is str and name not in found and not is_unread
    found = apart(found, named.rest) if is_text else found
    read = read_rest(agent, named, found, name)
    seen, rest = read.seen, read.rest
    is_other = bool(found or named.taken or read.names)
    if not is_other and not is_first and (change := _corrected_by_pattern(agent, text, asked)) is not None:
        return change
    if asked is not None and is_text:
        return values_beside(agent, text, asked, found, read) if is_other else text_or_values(agent, text, asked, seen)
    done = AnswerOutcome()
    if found and seen.negates:  # the pattern does not know what is negated
        for key, value in found.items():
            _guess(agent, key, value, done)
    else:
        done.sentences += fill_slots(agent, found)
        done.fields += [key for key in found if key in agent.collected_fields]
    if is_question and not is_first:
        seen = as_guesses(seen)
    filled = take_values(agent, seen)
    done.sentences += filled.sentences
    done.fields += filled.fields
    if asked is not None and is_unread:
        done.sentences.append(say(agent, "too_slow", label=asked.label.capitalize()))
        return done
    if is_first and not seen.troubles:
        return done
    is_silent = not done.fields and not done.sentences and not seen.troubles
    if is_silent and (meant := _without_value(agent, text, asked, seen, is_question=is_question)) is not None:
        return meant
    still = (
        asked
        if asked is not None and name not in found and name not in done.fields and not (done.fields and not _is_about(seen, name))
        else None
    )
    if still is not None and replies.is_remark(rest, agent._state.setting.language) and not seen.troubles:
        return AnswerOutcome(sentences=[*done.sentences, say(agent, "remark")], fields=done.fields, is_talk=True)
    if still is None or not filled.sentences:
        done.sentences += complaints_about(agent, seen, rest, still)
    return done


def _corrected_by_pattern(agent: DialogueAgent, text: str, asked: Field | None) -> AnswerOutcome | None:
    """Correct the one given field whose pattern finds a value in a message ("make it 2026-10"); return None for any other message."""
    given = given_by_patterns(agent, text)
    rest = text
    for value in set(given.values()):
        rest = rest.replace(value, " ")
    seen = read_message(agent, rest) if given else Understanding()
    if not given or (asked is not None and not seen.corrects):
        return None
    if len(given) > 1:
        return AnswerOutcome(sentences=[which(agent, [*given], next(iter(given.values())))], is_talk=True)
    (name, value), done = given.popitem(), AnswerOutcome()
    if seen.unknown or seen.negates or (asked is not None and asked.kind is str):
        _guess(agent, name, value, done)
        seen = as_guesses(seen)
    else:
        done = _set(agent, agent.input_fields()[name], value)
    filled = take_values(agent, seen)
    return AnswerOutcome(sentences=[*done.sentences, *filled.sentences], fields=[*done.fields, *filled.fields])


def _without_value(agent: DialogueAgent, text: str, asked: Field | None, seen: Understanding, *, is_question: bool) -> AnswerOutcome | None:
    """Answer a question, and read back the yes or no that a text begins with; return None for any other message."""
    if is_question and seen.unknown and len(text.split()) > LONGEST_REQUEST:
        return AnswerOutcome(sentences=about(agent, text, asked), is_talk=True)
    leaning = replies.leaning_of(text, agent._state.setting.language) if asked is not None and asked.kind is bool else None
    done = AnswerOutcome()
    if asked is not None and leaning is not None:
        _guess(agent, asked.name, leaning, done)
    return done if done.fields else None


LONGEST_REQUEST = 2
"""Words of a question at most that may be a value with a typing error."""


def _is_about(found: Understanding, name: str) -> bool:
    return any(name in trouble.fields for trouble in found.troubles)


def _guess(agent: DialogueAgent, name: str, value: Any, done: AnswerOutcome) -> None:
    field = agent.input_fields()[name]
    with contextlib.suppress(ValueError):
        parsed = field.parse(agent, value, agent._state.setting) if isinstance(value, str) else field.check(agent, value)
        agent._state.pending[name] = {"value": msgspec.to_builtins(parsed), "text": str(value)}
        done.fields.append(name)


def _from_model(agent: DialogueAgent, text: str, found: dict[str, Any], asked: Field | None) -> AnswerOutcome:
    """Take what a model has found: certain if the words give it as well, else a guess that is read back."""
    name = asked.name if asked is not None else ""
    seen = read_message(agent, text, name) if len(text) <= MAX_READ else Understanding()
    done = AnswerOutcome()
    if asked is not None and asked.kind is str and (not found or set(found) == {name}):
        return text_or_values(agent, text, asked, seen) if not found or found[name] in text else _proposed(agent, found, seen, done)
    return (
        _proposed(agent, found, seen, done)
        if found
        else _read(agent, text, texts_with_colons(agent, text), {}, asked, is_question=False, is_first=asked is None)
    )


def _proposed(agent: DialogueAgent, found: dict[str, Any], seen: Understanding, done: AnswerOutcome) -> AnswerOutcome:
    sure = {name: it for name, it in seen.taken.items() if it.sure}
    filled = take_values(agent, Understanding(taken=sure))
    done.sentences += filled.sentences
    done.fields += filled.fields
    for name, value in found.items():
        field = agent.input_fields()[name]
        if name in filled.fields:
            continue
        try:
            parsed = field.parse(agent, value, agent._state.setting) if isinstance(value, str) else field.check(agent, value)
        except ValueError as error:
            done.sentences.append(complaint_of(field, error))
        else:
            agent._state.pending[name] = {"value": msgspec.to_builtins(parsed), "text": str(value)[:200]}
            done.fields.append(name)
    return done
