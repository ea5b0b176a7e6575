"""What a message means while fields are collected: a change by name, a question, values, the text that was asked for, or a remark."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import msgspec

from asterism.flows.fields import Field
from asterism.flows.parsing import exact_value
from asterism.flows.slot_filling import (
    DialogueAgent,
    as_guesses,
    complaint_of,
    complaints_about,
    explained,
    field_words,
    fill_slots,
    note,
    put,
    put_secret,
    read_message,
    say,
    take_values,
)
from asterism.machines.flow_agent.events import AgentStatus, Message
from asterism.reading import replies
from asterism.reading.clauses import Taken, Understanding
from asterism.reading.scan import known_words
from asterism.reading.tokens import MAX_READ, fold, tokens


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
        return _answered(agent, fill_slots(agent, {asked.name: text}), asked.name)
    is_question = replies.is_question(text, language)
    if is_question and not replies.is_request(text, language) and not is_first:
        return AnswerOutcome(sentences=about(agent, text, asked), is_talk=True)
    given = await agent.extract_fields(msg)
    found = {name: value for name, value in given.items() if name in agent.input_fields()} if given else {}
    if state.from_model:
        return _from_model(agent, text, found, asked)
    return _read(agent, text, found, asked, is_question=is_question and (text.rstrip(" !").endswith("?") or is_first), is_first=is_first)


def _exact(agent: DialogueAgent, asked: Field, value: Any, text: str) -> AnswerOutcome:
    try:
        put(agent, asked.name, asked.check(agent, value))
    except ValueError as error:
        return AnswerOutcome(sentences=[complaint_of(asked, error)])
    note(agent, asked.name, text)
    return AnswerOutcome(fields=[asked.name])


def _answered(agent: DialogueAgent, sentences: list[str], name: str) -> AnswerOutcome:
    return AnswerOutcome(sentences=sentences, fields=[name] if name in agent.collected_fields else [])


# -- changes by name -------------------------------------------------------------------------------


def said_by_name(agent: DialogueAgent, text: str) -> replies.FieldChange | None:
    """Return the change of a field by its name that a message is; None for any other message."""
    labels: dict[str, str] = {}
    words = agent._state.setting.words
    for name, field in agent.input_fields().items():
        own = (field.label, field.name, field.label.split()[-1], *field.words, *words.labels.get(name, ()))
        for label in own:
            if "{}" not in label:
                labels[label.lower()] = name if labels.setdefault(label.lower(), name) == name else ""
    known = {label: name for label, name in labels.items() if name}
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
    if field.kind is str and _is_no_name(agent, text, field):
        done = take_values(agent, Understanding(taken={field.name: Taken(field=field.name, value=text, text=text, sure=False)}))
        return AnswerOutcome(sentences=done.sentences, fields=done.fields)
    sentences = fill_slots(agent, {field.name: text})
    after = agent.collected_fields.get(field.name)
    is_shown = agent._state.status is AgentStatus.WAITING_FOR_APPROVAL
    if not sentences and before is not None and before != after and not is_shown:
        sentences = [say(agent, "changed", label=field.label, value=field_words(agent, field, after))]
    return _answered(agent, sentences, field.name if after is not None and after != before else "")


# -- values ----------------------------------------------------------------------------------------


def _read(
    agent: DialogueAgent, text: str, found: dict[str, Any], asked: Field | None, *, is_question: bool, is_first: bool
) -> AnswerOutcome:
    """Take the values that patterns have found, and those that the rest of the message gives."""
    rest = text
    for name in found:
        rest = agent.input_fields()[name].without(rest)
    name = asked.name if asked is not None else ""
    seen = read_message(agent, rest, name, found) if len(rest) <= MAX_READ else Understanding()
    is_unread = name in agent._state.unread
    if asked is not None and asked.kind is str and name not in found and not is_unread:
        return _text_or_values(agent, text, asked, seen)
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
        return _text_or_values(agent, text, asked, seen) if not found or found[name] in text else _proposed(agent, found, seen, done)
    return _proposed(agent, found, seen, done) if found else _read(agent, text, {}, asked, is_question=False, is_first=asked is None)


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


# -- texts -----------------------------------------------------------------------------------------


def _text_or_values(  # noqa: PLR0911 - as take_message
    agent: DialogueAgent, text: str, asked: Field, seen: Understanding
) -> AnswerOutcome:
    """Take a message as the text that was asked for, unless it is a correction, a remark, or gives other fields."""
    language = agent._state.setting.language
    others = {name: it for name, it in seen.taken.items() if name != asked.name}
    is_whole = bool(others) and not seen.unknown and all(it.sure for it in others.values())
    if is_whole and seen.labels and not seen.corrects and not seen.negates and not replies.is_question(text, language):
        done = take_values(agent, as_guesses(Understanding(taken=others)))
        return AnswerOutcome(sentences=done.sentences, fields=done.fields)
    if is_whole and seen.corrects and not seen.negates:
        done = take_values(agent, Understanding(taken=others))
        return AnswerOutcome(sentences=done.sentences, fields=done.fields)
    if seen.corrects and not seen.unknown and any(trouble.why == "which" for trouble in seen.troubles):
        return AnswerOutcome(sentences=complaints_about(agent, seen, text, None), is_talk=True)
    if replies.is_question(text, language):
        return AnswerOutcome(sentences=about(agent, text, asked), is_talk=True)
    if asked.optional and replies.is_refusal(text, language) and not others:
        put(agent, asked.name, None)
        return AnswerOutcome(sentences=[say(agent, "removed", label=asked.label)], fields=[asked.name])
    if replies.is_remark(text, language) and not others:
        return AnswerOutcome(sentences=[say(agent, "remark")], is_talk=True)
    value = _without_introduction(agent, text, asked)
    currencies = agent._state.setting.words.vocabulary("currencies")
    is_value = bool(seen.troubles) and not seen.unknown and any(it.low in currencies for it in tokens(text))  # "42 dollars"
    is_yes = replies.is_yes(text, language)  # to a question that somebody else has asked
    is_odd = is_whole or seen.corrects or is_value or is_yes or replies.begins_with_no(text, language)
    if is_odd or replies.is_doubtful(text, language) or _is_no_name(agent, value, asked):
        done = take_values(agent, Understanding(taken={asked.name: Taken(field=asked.name, value=value, text=text, sure=False)}))
        return AnswerOutcome(sentences=done.sentences, fields=done.fields)
    return _answered(agent, fill_slots(agent, {asked.name: value}), asked.name)


def _is_name(asked: Field) -> bool:
    return "name" in {*asked.name.split("_"), *(word.lower() for word in asked.words)}


def _is_no_name(agent: DialogueAgent, value: str, asked: Field) -> bool:
    """Return True if an answer to the question for a name has ordinary words: "put Smith", "same as always"."""
    words = value.split()
    known = known_words(agent._state.setting.words)
    ordinary = [word for word in words if word.islower() and fold(word).strip(".,") in known]
    return _is_name(asked) and bool(ordinary) and (words[0] in ordinary or value.islower() or "," in value)


def _without_introduction(agent: DialogueAgent, text: str, asked: Field) -> str:
    """Return an answer without "my name is" and the like, if the field is a name; else without "it is"."""
    words = agent._state.setting.words
    if not _is_name(asked):
        return text
    line = tokens(text)
    best = 0
    for phrase, key in words.phrases["names"].items():
        if key != "after" and tuple(it.low for it in line[: len(phrase)]) == phrase:
            best = max(best, len(phrase))
    name = text[line[best].start :].strip() if 0 < best < len(line) else text
    return replies.without_courtesies(name, agent._state.setting.language)


def _known_of(agent: DialogueAgent, field: Field) -> str:
    """Return the value of a field, and its description or limits, as sentences; empty without any."""
    value = agent.collected_fields.get(field.name)
    given = "" if value is None else field_words(agent, field, value)
    about_it = explained(agent, field)
    link = "; " if about_it[:1].islower() else ". "
    return f"{given}{link}{about_it}" if given and about_it else about_it or (given and f"{given}.")


def about(agent: DialogueAgent, text: str, asked: Field | None) -> list[str]:
    """Return the answer to a question: what is known of the fields that it names, else that it cannot be answered."""
    said = set(fold(text).replace("?", " ").split())
    named = [
        field
        for field in agent.input_fields().values()
        if said
        & {fold(field.name), *fold(field.label).split(), *(fold(word) for word in field.words)}
        - agent._state.setting.words.vocabulary("questions")
    ]
    found = [f"{field.label.capitalize()}: {words}" for field in named if (words := _known_of(agent, field))]
    if not found and asked is not None and asked.description and not named:
        return [say(agent, "question"), explained(agent, asked)]
    return found or [say(agent, "question")]
