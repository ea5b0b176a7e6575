"""What a message means where a secret is asked for, and a secret that is said in any other message.

A question, a remark or a change is answered as at any other field. What may be no secret is read back before it counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from asterism.conversation.machine.events import Message
from asterism.conversation.python.answers import change_by_name, said_by_name, take_message
from asterism.conversation.python.fields import Field
from asterism.conversation.python.named_texts import places_of_names
from asterism.conversation.python.pattern_values import apart, found_by_patterns, given_by_patterns
from asterism.conversation.python.secret_fields import rest_without, values_by_pattern
from asterism.conversation.python.slot_filling import AnswerOutcome, DialogueAgent, as_guesses, put_secret, read_message, say, take_values
from asterism.conversation.python.text_answers import about
from asterism.words.reading import replies
from asterism.words.reading.clauses import Understanding
from asterism.words.reading.scan import known_words
from asterism.words.reading.tokens import MAX_READ, tokens

MAX_PARTS = 5
"""Parts that one message is divided into at most."""


def parts_of(agent: DialogueAgent, text: str) -> list[str]:
    """Return the parts of a message that each change something; the whole message if they are not clearly apart."""
    found: list[str] = []
    rest = text
    while len(found) < MAX_PARTS - 1 and (pair := _divided(agent, rest)) is not None:
        found.append(pair[0])
        rest = pair[1]
    return [*found, rest]


def _divided(agent: DialogueAgent, text: str) -> tuple[str, str] | None:
    """Return what is before a change by name, and the change; or a change by name, and the values after it."""
    whole = said_by_name(agent, text)
    for left, right in _places(agent, text):
        if (
            whole is not None
            and whole.what == "set"
            and said_by_name(agent, left) == msgspec.structs.replace(whole, what="wrong", value="")
        ):
            continue  # "that's not my name, it's Ray" changes one thing
        names = [said_by_name(agent, part) is not None for part in (left, right)]
        if names[1] or (names[0] and _is_clear(agent, right)):
            return left, right
    return None


def _places(agent: DialogueAgent, text: str) -> Iterator[tuple[str, str]]:
    ands = "|".join(re.escape(" ".join(phrase[:-1])) for phrase, key in agent._state.setting.words.phrases["words"].items() if key == "and")
    if len(text) <= MAX_READ:
        for found in re.finditer(rf"(?:[.;!,]\s+(?:(?:{ands})\s+)?|\s+(?:{ands})\s+)", text, re.IGNORECASE):
            if text[: found.start()].strip() and text[found.end() :].strip():
                yield text[: found.start()].strip(), text[found.end() :].strip()
        for start in places_of_names(agent, text)[1:]:  # "folder: data month: 2026-11"
            yield text[:start].strip(), text[start:]


def _is_clear(agent: DialogueAgent, part: str) -> bool:
    by_pattern = apart(found_by_patterns(agent, part), part) | given_by_patterns(agent, part)
    for value in by_pattern.values():
        part = part.replace(value, ",")
    found = read_message(agent, part)
    return bool(found.taken or by_pattern) and not found.unknown and not found.negates and not found.troubles


async def take_any(agent: DialogueAgent, msg: Message, text: str, asked: Field | None, *, approving: bool = False) -> AnswerOutcome:
    """Take what a message gives, the values of secret fields first; the rest is read as if they were not in it."""
    is_first = asked is None and not approving
    parts = parts_of(agent, text) if not is_first and (asked is None or asked.kind_of_reading != "list") else [text]
    if len(parts) > 1:
        return await _take_parts(agent, msg, parts, asked)
    done, rest = _by_pattern(agent, text, asked)
    is_done = bool(done.fields or done.sentences)
    if is_done and _is_empty(agent, rest):
        return done
    if asked is not None and asked.secret and not is_done:
        return _answer(agent, text, asked)
    still = None if asked is not None and asked.secret else asked
    if is_done and ((change := said_by_name(agent, rest)) is not None and change.field in done.fields):
        return done  # "the account is wrong, use …"
    if is_done:
        msg = msgspec.structs.replace(msg, text=rest)
    more = await take_message(agent, msg, rest, still, approving=approving)
    return AnswerOutcome(sentences=[*done.sentences, *more.sentences], fields=[*done.fields, *more.fields], is_talk=more.is_talk)


async def _take_parts(agent: DialogueAgent, msg: Message, parts: list[str], asked: Field | None) -> AnswerOutcome:
    """Take the parts of a message one after the other; what one of them does not give is said."""
    done = AnswerOutcome()
    for part in parts:
        is_open = asked is not None and asked.name not in done.fields
        is_text = asked is not None and asked.kind is str and replies.is_doubtful(part, agent._state.setting.language)
        still = asked if is_open and not is_text else None  # "cancel that, the name is wrong" has no name
        more = await take_any(agent, msgspec.structs.replace(msg, text=part), part, still, approving=True)
        done.sentences += more.sentences
        done.fields += more.fields
    return done


def _by_pattern(agent: DialogueAgent, text: str, asked: Field | None) -> tuple[AnswerOutcome, str]:
    """Take the values that the patterns of secret fields find; return the rest of the message, too."""
    done, rest, fields = AnswerOutcome(), text, agent.input_fields()
    found = list(dict.fromkeys(values_by_pattern(fields, text)))
    for name, value in found:
        field = fields[name]
        rest = rest_without(field, agent._state.setting.words.labels.get(name, ()), rest, value)
        is_one = [it for it, _ in found].count(name) == 1
        is_meant = name not in agent.collected_fields or field is asked or any(
            replies.mentions_value(text, label) for label in (field.name, field.label, *field.words)
        )  # fmt: skip
        done.sentences += put_secret(agent, field, value, sure=is_one and is_meant and "?" not in text)
        done.fields += [name] if name in agent.collected_fields or name in agent._state.pending else []
    return done, rest


def _is_empty(agent: DialogueAgent, rest: str) -> bool:
    """Return True if what is left of a message gives nothing: only marks, and words of the language without a value."""
    known = known_words(agent._state.setting.words)
    found = read_message(agent, rest)
    is_plain = all(it.kind == "mark" or it.low in known for it in tokens(rest))
    return is_plain and not found.taken and not found.troubles and not found.labels and not replies.is_question(rest)


def _answer(agent: DialogueAgent, text: str, asked: Field) -> AnswerOutcome:  # noqa: PLR0911 - as take_message
    """Take the answer to the question for a secret, unless it is something else."""
    language = agent._state.setting.language
    is_word = len(text.split()) == 1
    if not is_word and (change := said_by_name(agent, text)) is not None:
        return change_by_name(agent, change)
    if not is_word and replies.is_question(text, language):
        return AnswerOutcome(sentences=about(agent, text, asked), is_talk=True)
    if replies.answer_of(text, language) is not None:
        return AnswerOutcome(sentences=[say(agent, "needed", label=asked.label, limits="")], is_talk=True)
    seen = read_message(agent, text) if not is_word else Understanding()
    if seen.taken and not seen.unknown:
        filled = take_values(agent, seen if seen.corrects or seen.labels else as_guesses(seen))
        return AnswerOutcome(sentences=filled.sentences, fields=filled.fields)
    if not is_word and replies.is_remark(text, language):
        return AnswerOutcome(sentences=[say(agent, "remark")], is_talk=True)
    known = known_words(agent._state.setting.words)
    if asked.pattern and not is_word and any(it.low in known for it in tokens(text)):
        return AnswerOutcome(sentences=[say(agent, "needed", label=asked.label, limits="")])
    sentences = put_secret(agent, asked, text, sure=_is_secret(agent, asked, text))
    is_taken = asked.name in agent.collected_fields or asked.name in agent._state.pending
    return AnswerOutcome(sentences=sentences, fields=[asked.name] if is_taken else [])


def _is_secret(agent: DialogueAgent, asked: Field, text: str) -> bool:
    """Return True if an answer can only be the secret: of its type, of its pattern, or no words of the language."""
    if asked.kind is not str or (len(text.split()) == 1 and not asked.pattern):
        return True
    known = known_words(agent._state.setting.words)
    words = [it for it in tokens(text) if it.kind == "word"]
    return not asked.pattern and not any(it.low in known for it in words) and any(it.isdigit() for it in text)
