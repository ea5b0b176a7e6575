"""The meaning of a whole message: a yes, a no, a wish such as "cancel", a question, a remark, a change by name.

Politeness around it does not count: "could you please cancel the booking" cancels. The wishes are those of Rasa's conversation
repair (cancel, skip, help, repeat, go back, resume), and thanks, a greeting, and "I do not know". The words are data.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from asterism.errors import InvalidInput
from asterism.words.reading.chart import Chart
from asterism.words.reading.setting import DEFAULT_LANGUAGE, Setting
from asterism.words.reading.tokens import MAX_READ, WordToken, tokens
from asterism.words.reading.words import words_of

MAX_MESSAGE_CHARS = 50_000
"""Number of characters of one message; longer texts belong in a file."""
Intent = Literal["", "cancel", "skip", "nothing", "summary", "back", "repeat", "help", "resume", "thanks", "greet", "unsure"]
ORDER: tuple[Intent, ...] = ("cancel", "skip", "nothing", "summary", "back", "repeat", "help", "resume", "thanks", "greet", "unsure")
"""Which of several wishes a message is."""
LONGEST_WISH = 20
"""Tokens of a message at most that is one wish."""


def check_length(text: str) -> None:
    """Check that a message is not too long.

    Raises:
        InvalidInput: the message is longer than ``MAX_MESSAGE_CHARS``.
    """
    if len(text) > MAX_MESSAGE_CHARS:
        limit = f"at most {MAX_MESSAGE_CHARS:,} (MAX_MESSAGE_CHARS)"
        raise InvalidInput(f"a message of {len(text):,} characters; {limit}: write it to a file and send its path")


# -- yes and no ------------------------------------------------------------------------------------


def is_yes(text: str, language: str = DEFAULT_LANGUAGE) -> bool:
    """Return True for a clear yes: only words of assent, and no question."""
    return answer_of(text, language) is True


def answer_of(text: str, language: str = DEFAULT_LANGUAGE) -> bool | None:
    """Return True for a clear yes and False for a clear no: nothing else is in the message; None for any other."""
    line = tokens(text)
    if not line or len(text) > MAX_READ or len(line) > LONGEST_WISH or "?" in text:
        return None
    words = words_of(language)
    answers: list[bool] = []
    is_changed, is_open, at = False, False, 0
    yes, no = _phrases(language, "yes", "phrases"), _phrases(language, "no", "phrases")
    courtesies = _phrases(language, "yes", "courtesies")
    ors = {phrase[0] for phrase, key in words.phrases["words"].items() if key == "or"}  # "yes or no" is neither
    again = frozenset(phrase[:-1] for phrase, key in words.phrases["words"].items() if key == "again" and phrase[0] not in ors)
    while at < len(line):
        ends = {kind: _longest(line, at, phrases) for kind, phrases in (("no", no), ("yes", yes), ("polite", courtesies), ("again", again))}
        kind = max(ends, key=lambda it: ends[it])
        if ends[kind] > at:
            if kind in ("yes", "no"):
                answers.append(kind == "yes")
                is_open = False
            is_first = kind == "again" and not answers
            if is_first and (line[at].low,) in no:  # "no no, all good" is neither; "no actually, yes" is a yes
                answers.append(False)
            is_changed = is_changed or (
                kind == "again" and (not is_first or (ends["again"] - at > 1 and line[at + 1].low != line[at].low)) and bool(answers)
            )
            is_open = is_open or kind == "again"
            at = ends[kind]
            if kind == "again" and answers and (line[at - 1].low,) in no and all(it.kind == "mark" for it in line[at:]):
                return False  # "yes, actually no"
        elif line[at].kind == "mark" and line[at].low in ",.!;-…":
            at += 1
        else:
            return None
    if answers[-2:] == [False, False] and not is_open:  # "yeah, no, don't"
        return False
    if not answers or (len(set(answers)) > 1 and not is_changed and not _begins_with_a_change(text, answers, language)):
        return None
    return None if is_open and (len(answers) > 1 or answers[-1]) else answers[-1]


def _begins_with_a_change(text: str, answers: list[bool], language: str) -> bool:
    """Return True for "no, actually yes"."""
    words = words_of(language)
    again = {phrase[:-1] for phrase, key in words.phrases["words"].items() if key == "again"} - _phrases(language, "no", "phrases")
    line = [it for it in tokens(text) if it.kind != "mark"]
    return len(answers) == 2 and any(_longest(line, at, again) > at for at in range(1, len(line)))  # noqa: PLR2004 - the first and the new one


def leaning_of(text: str, language: str = DEFAULT_LANGUAGE) -> bool | None:
    """Return the answer that a text begins with, if its other words do not limit it: "nah, we'll bring our own"; None for none."""
    line, phrases = tokens(text), words_of(language).phrases["words"]
    yes, no = _phrases(language, "yes", "phrases"), _phrases(language, "no", "phrases")
    end = _longest(line, 0, yes | no)
    said = tuple(it.low for it in line[:end])
    neutral = {phrase[:-1] for phrase, key in phrases.items() if key == "neutral"}
    is_aside = 0 < end < len(line) and (line[end].kind == "mark" or _longest(line, end, neutral) > end)  # not "no idea who eats"
    if not is_aside or "?" in text or len(text) > MAX_READ or (said in yes and said in words_of(language).special["polite"]):
        return None
    limits = {phrase[:-1] for phrase, key in phrases.items() if key in ("if", "but", "or", "not")}
    stops = limits | no if said in yes else yes | (limits - no)
    return None if any(_longest(line, at, stops) > at for at in range(end, len(line))) else said in yes


def denial(text: str, language: str = DEFAULT_LANGUAGE) -> str | None:
    """Return the reason of a clear no, empty without one; None for any other message."""
    if answer_of(text, language) is False:
        return ""
    line = tokens(text)
    refusals = {it for it in _phrases(language, "no", "phrases") if len(it) <= 2}  # noqa: PLR2004 - "no thanks"
    end = _longest(line, 0, refusals) if line else 0
    if not 0 < end < len(line) or len(text) > MAX_READ:
        return None
    because = _longest(line, end, _phrases(language, "no", "because"))
    if line[end].kind != "mark" and because == end:
        return None
    start = because if because > end else next((at for at in range(end, len(line)) if line[at].kind != "mark"), len(line))
    start = _longest(line, start, _phrases(language, "no", "because")) if start < len(line) else start
    reason = text[line[start].start :].strip() if start < len(line) else ""
    if not reason or "?" in text or answer_of(reason, language) is True or not _is_no(line, end, language):
        return None
    again = {phrase[:-1] for phrase, key in words_of(language).phrases["words"].items() if key == "again"}
    return reason if _longest(line, start, again) == start else None


def after_yes(text: str, language: str = DEFAULT_LANGUAGE) -> str:
    """Return the correction of "yes, but start on the 8th"; empty for any other message."""
    line = tokens(text) if len(text) <= MAX_READ else []
    at = _longest(line, 0, _phrases(language, "yes", "phrases")) if line else 0
    but = _phrases(language, "yes", "but")
    while 0 < at < len(line) and line[at].kind == "mark":
        at += 1
    end = _longest(line, at, but) if 0 < at < len(line) else at
    return text[line[end].start :].strip() if at < end < len(line) and "?" not in text else ""


def is_refusal(text: str, language: str = DEFAULT_LANGUAGE) -> bool:
    """Return True if a text refuses to say something: "no, it's private"."""
    return len(text) <= MAX_READ and "?" not in text and _contains(text, _phrases(language, "no", "refusals"))


def begins_with_no(text: str, language: str = DEFAULT_LANGUAGE) -> bool:
    """Return True if the first words of a text are a no, and others follow."""
    line = tokens(text)
    return len(line) > 1 and len(line[0].low) > 1 and 0 < _longest(line, 0, _phrases(language, "no", "phrases")) < len(line)


def _is_no(line: list[WordToken], end: int, language: str) -> bool:
    """Return True if a phrase is a no, and not one that only begins a sentence ("not really sure")."""
    return end == len(line) or line[end].kind == "mark" or _longest(line, end, _phrases(language, "no", "because")) > end


@functools.cache
def _phrases(language: str, table: str, key: str) -> frozenset[tuple[str, ...]]:
    return frozenset(phrase for phrase, own in words_of(language).phrases[table].items() if own == key)


def _longest(line: list[WordToken], at: int, phrases: Iterable[tuple[str, ...]]) -> int:
    best = at
    low = line[at].low if at < len(line) else ""
    for phrase in phrases:
        end = at + len(phrase)
        if phrase[0] == low and end > best and tuple(it.low for it in line[at:end]) == phrase:
            best = end
    return best


# -- wishes ----------------------------------------------------------------------------------------


def intent_of(text: str, language: str = DEFAULT_LANGUAGE, things: Iterable[str] = ()) -> Intent:
    """Return the wish that a whole message is, politeness aside; empty for none.

    Args:
        text: the message.
        language: its language.
        things: names for the conversation, which can be cancelled by name, such as the triggers of its agent.
    """
    if len(text) > MAX_READ:
        return ""
    chart = Chart(text, Setting(language=language))
    line = chart.tokens
    if not line or len(line) > LONGEST_WISH:
        return ""
    chart.things = frozenset(tuple(it.low for it in tokens(thing)) for thing in things if thing.strip())
    for start in sorted(_after_politeness(chart, 0)):  # "hello again" greets, although "again" alone asks to repeat
        found = _wishes(chart, start, 3)
        if found:
            return next(key for key in ORDER if key in found)
    return ""


def _after_politeness(chart: Chart, at: int) -> set[int]:
    """Return the tokens that can be reached from a token over words of politeness and marks."""
    reached, open_ = {at}, [at]
    while open_:
        here = open_.pop()
        if here >= len(chart.tokens):
            continue
        ends = {
            here + len(phrase)
            for phrase in chart.words.special["polite"]
            if tuple(it.low for it in chart.tokens[here : here + len(phrase)]) == phrase
        }
        if chart.tokens[here].kind == "mark":
            ends.add(here + 1)
        open_ += ends - reached
        reached |= ends
    return reached


def _wishes(chart: Chart, at: int, parts: int) -> set[str]:
    """Return the wishes that the rest of a message is; it may repeat the wish in other words."""
    if at >= len(chart.tokens):
        return set()
    found = set()
    for key, end, _ in chart.grammar("acts", at):
        after = _after_politeness(chart, end)
        if len(chart.tokens) in after:
            found.add(key)
        elif parts > 1:  # "never mind, forget the whole thing", "hello, please cancel"
            rest = {wish for other in after if other > end for wish in _wishes(chart, other, parts - 1)}
            found |= rest if key in ("unsure", "thanks", "greet") else rest & {key}
    return found


# -- questions and remarks -------------------------------------------------------------------------


def is_question(text: str, language: str = DEFAULT_LANGUAGE) -> bool:
    """Return True for a question: by its mark, or its first words ("what is it for")."""
    text = without_exclamation(text, language)
    stripped = text.rstrip(" \t\n!")
    if stripped.endswith("?") or text.lstrip().startswith("¿"):
        return True
    line = [it for it in tokens(text) if it.kind != "mark"]
    start = _longest(line, 0, _phrases(language, "questions", "start")) if line else 0
    return len(line) > start > 0 and len(line) > 2 and not _is_statement(line, start, language)  # noqa: PLR2004 - "what a day"


def without_exclamation(text: str, language: str = DEFAULT_LANGUAGE) -> str:
    """Return a text without the exclamation before it: "What?? That's not my name"."""
    line = tokens(text)
    end = after = _longest(line, 0, _phrases(language, "faults", "exclaimed")) if line else 0
    while end > 0 and after < len(line) and line[after].low in ("?", "!"):
        after += 1
    return text[line[after].start :] if end < after < len(line) else text


def _is_statement(line: list[WordToken], start: int, language: str) -> bool:
    """Return True if a request follows: "could we make it Friday" is none of our questions."""
    return _longest(line, 0, _phrases(language, "questions", "requests")) >= start


def is_request(text: str, language: str = DEFAULT_LANGUAGE) -> bool:
    """Return True for a wish in the form of a question: "can we make it tomorrow?", "Friday?"."""
    line = [it for it in tokens(text) if it.kind != "mark"]
    again = {phrase[:-1] for phrase, key in words_of(language).phrases["words"].items() if key == "again"}
    at = _longest(line, 0, again) if line else 0  # "wait, what does it cost?"
    if at >= len(line):
        return bool(line)
    if _longest(line, at, _phrases(language, "questions", "requests")) > at:
        return True
    return _longest(line, at, _phrases(language, "questions", "start")) == at


def is_remark(text: str, language: str = DEFAULT_LANGUAGE) -> bool:
    """Return True if a text has words of small talk or of complaint."""
    return _contains(text, _phrases(language, "remarks", "words"))


def finds_fault(text: str, language: str = DEFAULT_LANGUAGE) -> bool:
    """Return True if a text says that something is wrong, which is no refusal of the whole."""
    return len(text) <= MAX_READ and "?" not in text and _contains(text, _phrases(language, "faults", "words"))


def refusal_of(text: str, language: str = DEFAULT_LANGUAGE) -> str | None:
    """Return the reason of a no to a question that only takes yes or no; None for any other message, or a fault without "because"."""
    is_fault = finds_fault(text, language) and not _contains(text, _phrases(language, "no", "because"))
    return None if is_fault else denial(text, language)


def unclear(text: str, language: str = DEFAULT_LANGUAGE) -> str:
    """Return what to say about a message that is neither yes nor no."""
    return words_of(language).text("what_is_wrong_there" if finds_fault(text, language) else "yes_or_no")


def has_value(text: str, language: str = DEFAULT_LANGUAGE) -> bool:
    """Return True if a text has a number, or the name of a day or a month."""
    names = words_of(language).vocabulary("weekdays", "months")
    return any(it.kind == "number" or it.low in names for it in tokens(text))


def is_doubtful(text: str, language: str = DEFAULT_LANGUAGE) -> bool:
    """Return True if a text has words that rather change the conversation than answer a question."""
    line = [it for it in tokens(text) if it.kind != "mark"]
    asks = _longest(line, 0, _phrases(language, "questions", "requests")) > 0
    return asks or _contains(text, _phrases(language, "remarks", "doubts")) or is_remark(text, language)


def _contains(text: str, phrases: frozenset[tuple[str, ...]]) -> bool:
    line = tokens(text)
    return any(_longest(line, at, phrases) > at for at in range(len(line)))


def mentions_value(text: str, name: str) -> bool:
    """Return True if words give this name a value: "my PIN is 4711", "change the PIN to 4711"."""
    links = r"\b(?:is|are|to|into|as|ist|lautet|auf|es|a)\b"
    return re.search(rf"\b{re.escape(name)}\s*(?:{links}|:|=)\s*\S", text, re.IGNORECASE) is not None


# -- changes by name -------------------------------------------------------------------------------


class FieldChange(msgspec.Struct, frozen=True):
    """A change of a field by its name.

    Attributes:
        what: "set", "wrong" or "remove".
        field: name of the field.
        value: the new value in words; empty unless ``what`` is "set".
    """

    what: str
    field: str
    value: str = ""


def change_of(text: str, labels: Mapping[str, str], language: str = DEFAULT_LANGUAGE) -> FieldChange | None:
    """Return the change of a field by its name that a message is; None for any other message.

    Args:
        text: the message.
        labels: names of the fields by their labels.
        language: language of the message.
    """
    text = without_exclamation(text, language)
    chart = Chart(text, Setting(language=language))
    chart.labels = {tuple(it.low for it in tokens(label)): name for label, name in labels.items() if label.strip()}
    if not chart.tokens or len(text) > MAX_READ:
        return None
    for start in sorted(_starts(chart)):
        if start >= len(chart.tokens):
            continue
        found = [(end, key, bound["label"]) for key, end, bound in chart.grammar("edit", start)]
        for end, key, field in sorted(found, reverse=True):
            is_whole = len(chart.tokens) in _after_politeness(chart, end)
            if key != "set" and is_whole:
                return FieldChange(key, field)
        for end, key, field in sorted(found, reverse=True):
            if key == "set" and end < len(chart.tokens):
                value = _value_of(chart, end)
                return FieldChange("set", field, value) if value else FieldChange("wrong", field)
    return None


def _value_of(chart: Chart, at: int) -> str:
    """Return the value that begins at a token; of "wrong, it is Saturday" what is right, empty if that is not said."""
    language, text = chart.setting.language, chart.text
    fault = _longest(chart.tokens, at, _phrases(language, "faults", "words"))
    if fault > at:
        after = _after_politeness(chart, fault)
        ends = {_longest(chart.tokens, it, _phrases(language, "faults", "right")) for it in after if it < len(chart.tokens)}
        ends = {end for end in ends - after if end < len(chart.tokens)}
        if not ends:
            return ""
        at = max(ends)
    filler = _longest(chart.tokens, at, _phrases(language, "names", "fillers"))
    at = filler if filler < len(chart.tokens) else at
    value = text[chart.tokens[at].start :].strip().rstrip(" !")
    value = value.rstrip(".") if not re.search(r"\d\.$", value) else value
    return without_courtesies(value, language)


def without_courtesies(text: str, language: str = DEFAULT_LANGUAGE) -> str:
    """Return a text without "please" and the like at its end."""
    courtesies = "|".join(re.escape(" ".join(it)) for it in _phrases(language, "yes", "courtesies"))
    return re.sub(rf"(?:,?\s+(?:{courtesies}))+[.!]*$", "", text[:MAX_READ], flags=re.IGNORECASE) + text[MAX_READ:]


def _starts(chart: Chart) -> set[int]:
    """Return where a change can begin: at the start, or after "no," and "actually"."""
    again = {phrase[:-1] for phrase, key in chart.words.phrases["words"].items() if key == "again"} | {
        it for it in _phrases(chart.setting.language, "no", "phrases") if len(it) == 1
    }
    reached = _after_politeness(chart, 0)
    for at in sorted(reached):
        if at < len(chart.tokens):
            end = _longest(chart.tokens, at, again)
            if end > at:
                reached |= _after_politeness(chart, end)
    return reached
