"""The items of a message: the value, the label or the phrase at each place, and the clauses that they form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, Literal

import msgspec

from asterism.words.reading.chart import FRACTIONS, Chart
from asterism.words.reading.dates import date_parts_at, dates_at, whole_at
from asterism.words.reading.durations import durations_at, shifts_at
from asterism.words.reading.money import numbers_at
from asterism.words.reading.options import corrected, options_at, rough_options_at, spellings_of
from asterism.words.reading.setting import Setting
from asterism.words.reading.times import time_parts_at, times_at
from asterism.words.reading.tokens import MAX_READ, WordToken, fold, tokens
from asterism.words.reading.values import Reading
from asterism.words.reading.words import Words

FieldKind = Literal["date", "time", "moment", "duration", "whole", "number", "yes_no", "option", "text", "list", "other"]
MAX_UNIT = 3
"""Characters of the abbreviation of a unit."""
EARLY = 6
"""Hours: "5h" is rather a duration, and "7h" a time."""
_PATH = re.compile(r"(?<!\S)(?:~|\.{1,2})?/[^\s,;]*\w[^\s,;]*")
"""A path that begins with a slash, a dot or a tilde: its slash is no "or"."""
_NAME = re.compile(r"(?<!\S)(?P<first>[^\W\d_]{2,})(?:\d|[-_](?=\w)|\.(?=[^\W\d]))(?:[^\W_]|[-_.:](?=\w))*")
"""A name with digits: a word, then a digit or a link, and no space."""
SENTENCE_MARKS = frozenset(".!?;\n…")
_COMPANY = {"one_more": 2, "two_more": 3}
"""Number of people of the patterns of company that have no slot."""
ORDER = ("option", "span", "date", "time", "duration", "money", "shift", "label", "part", "number", "words")
"""Which of several items of the same length is taken."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A field as a reader sees it.

    Attributes:
        name: name of the field.
        kind: kind of its values.
        labels: names of the field in people's words; ``{}`` is the place of the value.
        options: names of its options.
        unit: unit of its numbers: of time, as "minute", or a currency, as "EUR"; empty for none.
        hours: usual hours of a time, first and last.
        given: its value; None if it has none.
        end_of: name of the field whose range it ends.
    """

    name: str
    kind: FieldKind
    labels: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    unit: str = ""
    hours: tuple[int, int] | None = None
    given: Any = None
    end_of: str = ""


class Item(msgspec.Struct, kw_only=True):
    """One item: a reading, a label, a phrase of the language, a mark, or an unknown word.

    Attributes:
        kind: "value", "part", "label", "words", "mark" or "unknown".
        start, end: its first token, and the one after its last.
        options: the readings of the same words.
        classes: classes of a phrase, as the language file names them.
        field: name of the field of a label; its value is expected ``after`` or ``before`` it, or on either side.
        role: ``first``, ``last`` or ``back`` of a value after "from", "until" or "back on".
        span: the tokens of the alternatives that it is one of; None for none.
        dropped: why the value does not count: "not", "or", "if", "two", "range", "other".
    """

    kind: str
    start: int
    end: int
    options: list[Reading] = msgspec.field(default_factory=list)
    classes: frozenset[str] = frozenset()
    field: str = ""
    side: str = ""
    role: str = ""
    dropped: str = ""
    span: tuple[int, int] | None = None
    clause: int = 0
    sentence: int = 0

    @property
    def low(self) -> str:
        """Return its kind of value."""
        return self.options[0].kind if self.options else ""


class Scan:
    """The items of a message.

    Attributes:
        items: the items in order.
        guessed: tokens with a typing error that was corrected.
    """

    def __init__(self, text: str, setting: Setting, wanted: Sequence[Wanted], asked: str, known: Sequence[str] = ()) -> None:
        self.own = frozenset(tuple(it.low for it in tokens(phrase)) for phrase in known if phrase.strip())
        self.chart = Chart(text, setting)
        self._join_paths()
        for index, token in enumerate(self.chart.tokens):  # "monday's out"
            if token.low.endswith("'s") and (token.low[:-2],) in setting.words.phrases["weekdays"]:
                self.chart.tokens[index] = msgspec.structs.replace(token, low=token.low[:-2])
        self.wanted = {it.name: it for it in wanted}
        self.asked = self.wanted.get(asked)
        self.options = _options(setting.words, wanted)
        self.labels = _labels(setting.words, wanted)
        self._join_names(setting.words)
        self.guessed = self._corrected(setting.words) | self._slashes()
        self.items = self._scanned()
        self._divide()

    @property
    def tokens(self) -> list[WordToken]:
        """Return the tokens."""
        return self.chart.tokens

    def text_of(self, start: int, end: int) -> str:
        """Return the text from one token to before another one, as written."""
        return self.chart.text[self.tokens[start].start : self.tokens[end - 1].end] if end > start else ""

    def _join_paths(self) -> None:
        """Make one unknown word of each path such as "./data"."""
        line = self.chart.tokens
        for match in reversed([*_PATH.finditer(self.chart.text[:MAX_READ])]):
            inside = [at for at, token in enumerate(line) if match.start() <= token.start < match.end()]
            line[inside[0] : inside[-1] + 1] = [WordToken("word", match[0], fold(match[0]), match.start(), match.end())]

    def _join_names(self, words: Words) -> None:
        """Take the digits of names such as "web-3" and "db01.example.org" for words; those of "June-3" are a date."""
        for match in _NAME.finditer(self.chart.text[:MAX_READ]):
            first = fold(match["first"])
            is_known = first in known_words(words) or any(first in phrase for phrase in self.labels)
            if not is_known and re.search(r"\d", match[0]):
                for index, token in enumerate(self.tokens):
                    if match.start() <= token.start < match.end() and token.kind != "mark":
                        self.tokens[index] = msgspec.structs.replace(token, kind="word")

    def _corrected(self, words: Words) -> set[int]:
        known = known_words(words) | {part for spelling in self.options for part in spelling.split()}
        known |= {token for phrase in (*self.labels, *self.own) for token in phrase}
        goals = _value_words(words) | {part for spelling in self.options for part in spelling.split()} | set(words.numbers)
        found = set()
        for index, token in enumerate(self.tokens):
            if (
                token.kind == "word"
                and token.low not in known
                and not self.chart.slot("number", index)
                and (right := corrected(token.low, goals))
            ):
                self.tokens[index] = msgspec.structs.replace(token, low=right, text=right)
                found.add(index)
        if found:
            self.chart._known.clear()  # noqa: SLF001 - what was read before the correction
        for index in range(len(self.tokens) - 1):  # "oka hall", "oak-hal"
            joined = f"{self.tokens[index].low}{self.tokens[index + 1].low}"
            if not found & {index, index + 1} and self.tokens[index].low not in known and (right := corrected(joined, self.options)):
                name = [it.low for it in tokens(self.options[right])]
                if len(name) == 2:  # noqa: PLR2004 - two tokens for two words
                    for offset, low in enumerate(name):
                        self.tokens[index + offset] = msgspec.structs.replace(self.tokens[index + offset], low=low)
                    found |= {index, index + 1}
        return found

    def _slashes(self) -> set[int]:
        """Return the tokens such as "3/4" that may be no date: parts of something, or where no date was asked for."""
        found, chart = set[int](), self.chart
        asks_other = self.asked is not None and self.asked.kind not in ("date", "moment")
        for at, token in enumerate(self.tokens):
            if re.fullmatch(r"\d{1,2}/\d{1,2}", token.text) or token.low.replace("\u2044", "/") in FRACTIONS:
                is_length = any(it.end > at + 1 for start in {at, max(0, at - 1)} for it in durations_at(chart, start))
                if not is_length and (asks_other or chart.slot("fraction", at)):
                    found.add(at)
        return found

    # -- items -------------------------------------------------------------------------------------

    def _scanned(self) -> list[Item]:
        items, at = [], 0
        while at < len(self.tokens):
            item = self._at(at)
            items.append(item)
            at = item.end
        return items

    def _at(self, at: int) -> Item:
        found = [item for reading in self._readings(at) if (item := self._item(reading))]
        found += self._labels_at(at) + self._words_at(at)
        if not found:
            token = self.tokens[at]
            return Item(kind="mark" if token.kind == "mark" else "unknown", start=at, end=at + 1)
        longest = max(item.end for item in found)
        longest_ones = [item for item in found if item.end == longest]
        best = min(longest_ones, key=self._rank)
        if best.kind == "value":
            best.options = self._apart([reading for item in longest_ones if item.kind == "value" for reading in item.options])
        best.classes = frozenset().union(*(item.classes for item in longest_ones if item.kind == best.kind))
        return best

    def _apart(self, options: list[Reading]) -> list[Reading]:
        """Return the readings without those of another kind that the same words can have: "14h" is a time, and "2h" a duration."""
        kinds = {it.kind for it in options}
        if not {"time", "duration"} <= kinds:
            return options
        is_time = any(it.kind == "time" and (it.value is not None) and (it.value.hour >= EARLY or it.value.minute != 0) for it in options)
        if self.asked is not None and self.asked.kind == "time":
            is_time = True
        short = next((it for it in options if it.kind == "duration"), None)
        if short is not None and short.value.total_seconds() < EARLY * 3600 and not (self.asked is not None and self.asked.kind == "time"):
            is_time = False
        return [it for it in options if it.kind != ("duration" if is_time else "time")]

    def _rank(self, item: Item) -> int:
        return ORDER.index(item.low if item.kind == "value" else item.kind)

    def _item(self, reading: Reading) -> Item | None:
        if self.guessed & set(range(reading.start, reading.end)):
            reading = msgspec.structs.replace(reading, sure=False)
        kind = "part" if reading.kind == "part" else "value"
        return Item(kind=kind, start=reading.start, end=reading.end, options=[reading])

    def _readings(self, at: int) -> Iterable[Reading]:
        asks_date = self.asked is not None and self.asked.kind == "date"
        asks_time = self.asked is not None and self.asked.kind == "time"
        chart = self.chart
        numbers = numbers_at(chart, at)
        after = max((it.end for it in numbers), default=at)
        is_counted = at < after < len(chart.tokens) and bool(self._labels_at(after))  # "11 people" is no hour, whatever is asked for
        is_part = at in self.guessed and chart.tokens[at].kind == "date" and at + 1 < len(chart.tokens) and bool(self._labels_at(at + 1))
        yield from () if is_part else dates_at(chart, at, asked=asks_date and not is_counted)  # "3/4 people"
        yield from whole_at(chart, at)
        yield from times_at(chart, at, asked=asks_time and not is_counted)
        yield from durations_at(chart, at)
        yield from shifts_at(chart, at)
        yield from numbers
        yield from _company_at(chart, at)
        yield from options_at(chart.tokens, at, self.options)
        if self.asked is not None and self.asked.options:
            yield from rough_options_at(chart, at, self.asked.options, known_words(chart.words))
        yield from date_parts_at(chart, at)
        yield from time_parts_at(chart, at)

    def _labels_at(self, at: int) -> list[Item]:
        found = []
        for phrase, places in self.labels.items():
            end = at + len(phrase)
            if end <= len(self.tokens) and tuple(it.low for it in self.tokens[at:end]) == phrase:
                for field, side in places:
                    found.append(Item(kind="label", start=at, end=end, field=field, side=side))
        if not found:
            return self._unit_at(at)
        longest = max(it.end for it in found)
        found = [it for it in found if it.end == longest]
        names = {it.field for it in found}
        if len(names) > 1:  # a word for two fields names neither
            return [Item(kind="words", start=at, end=longest, classes=frozenset({"neutral"}))]
        sides = {it.side for it in found}
        return [found[0] if len(sides) == 1 else msgspec.structs.replace(found[0], side="")]

    def _unit_at(self, at: int) -> list[Item]:
        """Return a label for an abbreviation of it after a number: "40 GB" of a field named ``gigabytes``."""
        low = self.tokens[at].low
        if not at or self.tokens[at - 1].kind != "number" or self.tokens[at].kind != "word" or len(low) > MAX_UNIT:
            return []
        named = [it.name for it in self.wanted.values() if it.kind in ("whole", "number") and _abbreviates(low, it.name)]
        return (
            [Item(kind="label", start=at, end=at + 1, field=named[0])]
            if len(named) == 1 and low not in known_words(self.chart.words)
            else []
        )

    def _words_at(self, at: int) -> list[Item]:
        words = self.chart.words.phrases["words"]
        found: dict[int, set[str]] = {}
        for phrase, key in words.items():
            end = at + len(phrase) - 1
            if phrase[0] == self.tokens[at].low and tuple(it.low for it in self.tokens[at:end]) == phrase[:-1]:
                found.setdefault(end, set()).add(key)
        for phrase in self.own:
            if tuple(it.low for it in self.tokens[at : at + len(phrase)]) == phrase:
                found.setdefault(at + len(phrase), set()).add("neutral")
        return [Item(kind="words", start=at, end=end, classes=frozenset(keys)) for end, keys in found.items()]

    def _divide(self) -> None:
        """Number the clauses (between commas and "but") and the sentences."""
        clause = sentence = 0
        for at, item in enumerate(self.items):
            mark = self.tokens[item.start].low if item.kind == "mark" else ""
            if mark in SENTENCE_MARKS or mark in {",", ":"} or "but" in item.classes or (mark == "-" and self._is_aside(at)):
                clause += 1
                sentence += mark in SENTENCE_MARKS
            item.clause, item.sentence = clause, sentence

    def _is_aside(self, at: int) -> bool:
        """Return True for the dash of "at 10 - sorry, at 11" and "at 10 - for two", which joins no range."""
        dash, after = self.tokens[self.items[at].start], self.items[at + 1] if at + 1 < len(self.items) else None
        return not dash.glued and after is not None and not self.tokens[after.start].glued and after.kind in ("words", "label")


def _abbreviates(low: str, name: str) -> bool:
    """Return True if a word has the first character of a word of a name, and others of it in order: "gb" of "gigabytes"."""
    for word in name.split("_"):
        rest = iter(word)
        if len(word) > MAX_UNIT and word[0] == low[0] and all(sign in rest for sign in low):
            return True
    return False


def _options(words: Words, wanted: Sequence[Wanted]) -> dict[str, str]:
    """Return the options of the fields by their spellings; a word of the language counts unless it is one of another option, too."""
    names = list(dict.fromkeys(name for it in wanted for name in it.options))
    found = spellings_of(names)
    said: dict[str, set[str]] = {}
    for name in names:
        for text in words.options.get(name.casefold(), ()):
            said.setdefault(" ".join(it.low for it in tokens(text)), set()).add(name)
    return {text: min(owners) for text, owners in said.items() if len(owners) == 1} | found


def _labels(words: Words, wanted: Sequence[Wanted]) -> dict[tuple[str, ...], list[tuple[str, str]]]:
    """Return the fields and sides of the value by the words of their labels."""
    found: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for field in wanted:
        own = (field.name.replace("_", " "), *field.labels)
        for text in dict.fromkeys((*own, *words.labels.get(field.name, ()))):
            before, mark, after = text.partition("{}")
            for part, side in ((before, "after"), (after, "before")) if mark else ((text, ""),):
                phrase = tuple(it.low for it in tokens(part))
                if phrase and (field.name, side) not in found.setdefault(phrase, []):
                    found[phrase].append((field.name, side))
    return found


def _value_words(words: Words) -> frozenset[str]:
    """Return the words of values, which a typing error is looked up in."""
    found = set(words.vocabulary("weekdays", "months"))
    for table in ("date", "time"):
        for _, pattern, _first in words.patterns[table]:
            found |= {word for part in _words_in(pattern) for word in part}
    return frozenset(word for word in found if len(word) > 4)  # noqa: PLR2004 - "next" is near to "text"


def _words_in(pattern: Iterable[Any]) -> Iterable[frozenset[str]]:
    for part in pattern:
        if hasattr(part, "any_of"):
            yield part.any_of
        elif hasattr(part, "parts"):
            yield from _words_in(part.parts)


def known_words(words: Words) -> frozenset[str]:
    """Return all words of a language file."""
    if words.known is None:
        found = set(words.vocabulary(*words.phrases)) | set(words.numbers) | {word for phrase in words.ordinals for word in phrase}
        for table, rows in words.patterns.items():
            for _, pattern, _first in rows:
                found |= {word for part in _words_in(pattern) for word in part} if table not in ("acts", "edit") else set()
        found |= {word for phrases in words.special.values() for phrase in phrases for word in phrase}
        found |= {token.low for texts in words.labels.values() for text in texts for token in tokens(text)}
        words.known = frozenset(found)
    return words.known


def _company_at(chart: Chart, at: int) -> list[Reading]:
    """Return the numbers of people at a token ("me and my wife"); each is a guess, and counts only where a number was asked for."""
    found = []
    for key, end, bound in chart.grammar("company", at):
        value = _COMPANY.get(key) or bound["n"] + (bound["n2"] if key == "sum" else 1)
        if value == int(value):
            found.append(Reading(kind="number", value=Decimal(value), start=at, end=end, unit="people", role="asked", sure=False))
    return found
