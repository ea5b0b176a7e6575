"""Answers to the question for a text, the values of other fields beside it, and questions about fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asterism.conversation.python.fields import Field
from asterism.conversation.python.named_texts import ReadMessage
from asterism.conversation.python.slot_filling import (
    AnswerOutcome,
    DialogueAgent,
    as_guesses,
    complaints_about,
    explained,
    field_words,
    fill_slots,
    put,
    say,
    take_values,
    which,
)
from asterism.words.reading import replies
from asterism.words.reading.clauses import Taken, Understanding
from asterism.words.reading.scan import known_words
from asterism.words.reading.tokens import fold, tokens


def answered(agent: DialogueAgent, sentences: list[str], name: str) -> AnswerOutcome:
    """Return what was said about a field, which has a value from the message if it has one now."""
    return AnswerOutcome(sentences=sentences, fields=[name] if name in agent.collected_fields else [])


def text_or_values(  # noqa: PLR0911 - as take_message
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
    if is_odd or replies.is_doubtful(text, language) or is_no_name(agent, value, asked):
        done = take_values(agent, Understanding(taken={asked.name: Taken(field=asked.name, value=value, text=text, sure=False)}))
        return AnswerOutcome(sentences=done.sentences, fields=done.fields)
    return answered(agent, fill_slots(agent, {asked.name: value}), asked.name)


def values_beside(agent: DialogueAgent, text: str, asked: Field, found: Mapping[str, Any], read: ReadMessage) -> AnswerOutcome:
    """Take the values of other fields, by their names or patterns, from an answer to the question for a text.

    Args:
        agent: the agent.
        text: the message.
        asked: the field that was asked for; its pattern has found nothing.
        found: what the patterns of other fields have found.
        read: what else the message gives, and what is left of it.
    """
    seen, left = read.seen, read.left
    is_sure = asked.name in seen.taken or not left
    if is_sure and len(found) == 1 and not seen.taken and not read.names:
        return AnswerOutcome(sentences=[which(agent, [asked.name, *found], str(*found.values()))], is_talk=True)
    taken = dict(seen.taken)
    for name, value in found.items():
        taken[name] = Taken(field=name, value=value, text=str(value))
    if not is_sure and len(left.split()) > 1:
        taken, left = {}, text  # a sentence with a value in it: "the notes of 2026-11 by Ann"
    if not is_sure:
        taken[asked.name] = Taken(field=asked.name, value=left, text=left)
    seen = Understanding(taken=taken)
    done = take_values(agent, seen if is_sure and not read.seen.negates else as_guesses(seen))
    return AnswerOutcome(sentences=done.sentences, fields=done.fields)


def _is_name(asked: Field) -> bool:
    return "name" in {*asked.name.split("_"), *(word.lower() for word in asked.words)}


def is_no_name(agent: DialogueAgent, value: str, asked: Field) -> bool:
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
