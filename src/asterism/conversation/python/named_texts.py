"""Texts that a message gives by the names of their fields: "folder: data, month: 2026-11", "of folder data for 2026-11"."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from asterism.conversation.python.fields import Field
from asterism.conversation.python.parsing import converted
from asterism.conversation.python.pattern_values import apart, without_word
from asterism.conversation.python.slot_filling import DialogueAgent, read_message
from asterism.words.reading.clauses import Taken, Understanding
from asterism.words.reading.replies import without_courtesies
from asterism.words.reading.scan import known_words
from asterism.words.reading.tokens import MAX_READ, WordToken, fold, tokens
from asterism.words.reading.words import Words

MAX_SEPARATORS = 10
"""Commas in a value at most, behind each of which another field may begin."""
_QUOTED = re.compile(r"\"[^\"\n]+\"|'[^'\n]+'|“[^”\n]+”|„[^“\n]+“|«[^»\n]+»")
_SEPARATOR = re.compile(r"[,;\n]\s*")


class NamedTexts(msgspec.Struct):
    """The texts of a message that are given by name.

    Attributes:
        taken: the values, by field; a value that may end elsewhere is a guess.
        rest: the message without the names and their values.
    """

    taken: dict[str, Taken]
    rest: str


class ReadMessage(msgspec.Struct):
    """What a message gives apart from the values that patterns find.

    Attributes:
        seen: the values, those given by name among them.
        names: True if a text, or a value that a pattern has found, is given by name.
        rest: the message without them.
        left: the rest without the common words around it.
    """

    seen: Understanding
    names: bool
    rest: str
    left: str


class _Name(msgspec.Struct, frozen=True):
    """The name of a field in a message, from ``start``; a value begins at ``end``."""

    field: str
    start: int
    end: int


def texts_with_colons(agent: DialogueAgent, text: str) -> NamedTexts:
    """Return the texts with a colon or "=" between the name and the value; a value goes on until the next such name."""
    names = _with_colons(agent, text)
    spans = []
    for at, name in enumerate(names):
        after = names[at + 1].start if at + 1 < len(names) else len(text)
        spans.append((name, _until_another_field(agent, text, name.end, after)))
    return _taken(agent, text, spans, unsure=_SEPARATOR)


def places_of_names(agent: DialogueAgent, text: str) -> list[int]:
    """Return where the names with a colon or "=" begin."""
    return [name.start for name in _with_colons(agent, text)]


def _with_colons(agent: DialogueAgent, text: str) -> list[_Name]:
    return [name for name in _names(agent, text) if re.search(r"[:=]$", text[name.start : name.end])]


def read_rest(agent: DialogueAgent, named: NamedTexts, found: Mapping[str, Any], asked: str) -> ReadMessage:
    """Return what a message gives apart from the values that patterns, or an ``extract_fields`` of the agent, have found.

    Args:
        agent: the agent.
        named: the texts with a colon, and the rest of the message.
        found: these values, by field.
        asked: name of the field that was asked for; empty for none.
    """
    rest, fields = named.rest, agent.input_fields()
    for name, value in found.items():
        rest = _without(agent, rest, fields[name], value)
    behind = _texts_behind_names(agent, rest, {*found, *named.taken})
    seen = _read(agent, behind.rest, asked, {*found, *named.taken, *behind.taken})
    is_doubtful = bool(seen.unknown or seen.negates or seen.troubles)
    is_text = asked in fields and fields[asked].kind is str
    is_alone = is_text and asked in behind.taken and not (found or named.taken or seen.taken or len(behind.taken) > 1)
    is_another = asked not in behind.taken and (is_doubtful or not all(it.sure for it in behind.taken.values()))
    if is_text and is_another:
        behind = NamedTexts(taken={}, rest=rest)  # "the folder data is old": the answer to the question for another text
        seen = _read(agent, rest, asked, {*found, *named.taken})
    for it in named.taken.values():
        seen.taken[it.field] = msgspec.structs.replace(it, sure=it.sure and not seen.negates)
    for it in behind.taken.values():  # alone, the name may be part of the text: "room 5"
        seen.taken[it.field] = msgspec.structs.replace(it, sure=it.sure and not is_doubtful and not is_alone)
    return ReadMessage(seen=seen, names=behind.rest != rest, rest=behind.rest, left=_left(agent, behind.rest))


def _without(agent: DialogueAgent, text: str, field: Field, value: Any) -> str:
    """Return a message with a comma in place of a value that was found in it, as its pattern, its text or a reader places it."""
    rest = field.without(text)
    if rest != text or field.secret or len(text) > MAX_READ:
        return rest
    if apart({field.name: str(value)}, text):
        return without_word(text, str(value))
    read = read_message(agent, text, field.name, dict.fromkeys(agent.input_fields().keys() - {field.name})).taken.get(field.name)
    with contextlib.suppress(ValueError):
        if read is not None and converted(field.kind, read.value, agent._state.setting) == value:
            return f"{text[: read.start]} , {text[read.end :]}"
    return text


def _read(agent: DialogueAgent, text: str, asked: str, skip: Collection[str]) -> Understanding:
    return read_message(agent, text, asked, dict.fromkeys(skip)) if len(text) <= MAX_READ else Understanding()


def _left(agent: DialogueAgent, text: str) -> str:
    """Return a text without the common words, triggers and marks around it."""
    words = agent._state.setting.words.vocabulary("words") | {fold(word) for phrase in agent.triggers for word in phrase.split()}
    parts = [it.lstrip(",;:").rstrip(",;.!?:") for it in text.split()]
    parts = [it for it in parts if it]
    while parts and fold(parts[0]) in words:
        del parts[0]
    while parts and fold(parts[-1]) in words:
        del parts[-1]
    return " ".join(parts)


def _texts_behind_names(agent: DialogueAgent, text: str, skip: Collection[str]) -> NamedTexts:
    """Return the texts directly behind a name: in quotes, or up to a comma, a name or a common word; those in ``skip`` have a value."""
    names = _names(agent, text)
    spans = []
    for at, name in enumerate(names):
        after = names[at + 1].start if at + 1 < len(names) else len(text)
        spans.append((name, name.end if name.field in skip else _until_common_word(agent, text, name.end, after)))
    return _taken(agent, text, spans, skip, unsure=re.compile(r"\s"))


def _taken(
    agent: DialogueAgent, text: str, spans: list[tuple[_Name, int]], skip: Collection[str] = (), *, unsure: re.Pattern[str]
) -> NamedTexts:
    """Return the values of the fields of text; one with ``unsure`` in it, and not in quotes, is a guess."""
    found, fields = NamedTexts(taken={}, rest=text), agent.input_fields()
    for name, end in reversed(spans):
        field, said = fields[name.field], text[name.end : end].strip()
        value = said[1:-1] if _QUOTED.fullmatch(said) else without_courtesies(said, agent._state.setting.language)
        if field.name not in skip and (not value or field.kind is not str or field.secret):
            continue
        if field.name not in skip:
            earlier = found.taken.get(field.name)
            is_sure = (value != said or not unsure.search(said)) and (earlier is None or earlier.value == value)
            whole = text[name.start : end].strip()
            found.taken[field.name] = Taken(field=field.name, value=value, text=whole, sure=is_sure, start=name.start, end=end)
        found.rest = f"{found.rest[: name.start]} , {found.rest[end:]}"
    return found


def labels_of(agent: DialogueAgent) -> dict[str, str]:
    """Return the fields of an agent by their labels in lower case; a label of two fields is none."""
    labels: dict[str, str] = {}
    words = agent._state.setting.words
    for name, field in agent.input_fields().items():
        for label in (field.label, field.name, field.label.split()[-1], *field.words, *words.labels.get(name, ())):
            if "{}" not in label:
                labels[label.lower()] = name if labels.setdefault(label.lower(), name) == name else ""
    return {label: name for label, name in labels.items() if name}


def _names(agent: DialogueAgent, text: str) -> list[_Name]:
    """Return the names of fields in a message, in order."""
    line = tokens(text) if len(text) <= MAX_READ else []
    before = {word[:-2].strip(): name for name, it in agent.input_fields().items() for word in it.words if word.endswith("{}")}
    labels = {tuple(it.low for it in tokens(label)): name for label, name in (before | labels_of(agent)).items() if label}
    found: list[_Name] = []
    at = 0
    while at < len(line):
        end = max((at + len(phrase) for phrase in labels if _is_at(line, at, phrase)), default=at)
        if end == at or (line[at].glued and line[at - 1].low not in ",;("):
            at += 1
            continue
        field = labels[tuple(it.low for it in line[at:end])]
        has_mark = end < len(line) and line[end].low in (":", "=")
        found.append(_Name(field, line[at].start, line[end].end if has_mark else line[end - 1].end))
        at = end
    return found


def _is_at(line: list[WordToken], at: int, phrase: tuple[str, ...]) -> bool:
    return tuple(it.low for it in line[at : at + len(phrase)]) == phrase


def _until_another_field(agent: DialogueAgent, text: str, start: int, end: int) -> int:
    """Return the end of a value: before a comma behind which values of other fields follow, else before the next name."""
    ands = "|".join(re.escape(" ".join(phrase[:-1])) for phrase, key in agent._state.setting.words.phrases["words"].items() if key == "and")
    end = start + len(
        re.sub(rf"(?:[\s,;]|\s(?:{ands})\s)*$" if end < len(text) else r"[\s,;.!]*$", "", text[start:end], flags=re.IGNORECASE)
    )
    for number, mark in enumerate(_SEPARATOR.finditer(text, start, end)):
        seen = read_message(agent, text[mark.end() : end])
        if number < MAX_SEPARATORS and seen.taken and not (seen.unknown or seen.negates or seen.troubles):
            return mark.start()
    return end


def _until_common_word(agent: DialogueAgent, text: str, start: int, end: int) -> int:
    """Return the end of a value behind a name without a colon; ``start`` if none is there."""
    quoted = _QUOTED.match(text, start + len(text[start:end]) - len(text[start:end].lstrip()))
    if quoted is not None and quoted.end() <= end:
        return quoted.end()
    common, last = _common_words(agent._state.setting.words), start
    for part in re.finditer(r"\S+", text[start:end]):
        said = part[0].rstrip(",;.!?")
        if not said or fold(said) in common:
            break
        last = start + part.start() + len(said)
        if said != part[0]:
            break
    return last


def _common_words(words: Words) -> frozenset[str]:
    """Return the words of a language apart from those of values, with which no value begins."""
    return known_words(words) - words.vocabulary("weekdays", "months", "units") - set(words.numbers)
