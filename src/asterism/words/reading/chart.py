"""The slots of patterns over the tokens of one message, each read once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

from asterism.words.reading.number_words import number_in_words
from asterism.words.reading.patterns import Bindings, matches
from asterism.words.reading.setting import Setting
from asterism.words.reading.tokens import WordToken, tokens
from asterism.words.reading.words import TABLES

MAX_NUMBER_WORDS = 8
MAX_DIGITS = 300
"""Digits of a number at most, so that it is finite and fits every journal."""
FRACTIONS = {"1/2": Decimal("0.5"), "1/4": Decimal("0.25"), "3/4": Decimal("0.75"), "1/3": Decimal(1) / 3, "2/3": Decimal(2) / 3}
"""Parts of an hour and the like, as people write them."""
_GROUPED = re.compile(r"\d{1,3}(?:([.,])\d{3})+(?:([.,])\d+)?")


NESTED: dict[str, Callable[[Chart, int], list[tuple[int, Any]]]] = {}
"""Readers of the slots {date} and {duration}, which the modules of these values set: a date may contain a date."""


class Chart:
    """The tokens of a message in its setting, and what was read of them.

    Attributes:
        steps: number of slots read, for tests of bounds.
    """

    def __init__(self, text: str, setting: Setting) -> None:
        self.text, self.setting, self.words = text, setting, setting.words
        self.tokens: list[WordToken] = tokens(text)
        self.steps = 0
        self._known: dict[tuple[str, int], list[tuple[int, Any]]] = {}
        self.labels: dict[tuple[str, ...], str] = {}
        self.things: frozenset[tuple[str, ...]] = frozenset()

    def slot(self, name: str, at: int) -> list[tuple[int, Any]]:
        """Return the ends and values of a slot at a token."""
        key = (name, at)
        if key not in self._known:
            self.steps += 1
            self._known[key] = []  # a slot that contains itself at the same place has no value
            self._known[key] = list(getattr(self, f"_{name}")(at)) if at < len(self.tokens) else []
        return self._known[key]

    def grammar(self, table: str, at: int) -> Iterable[tuple[str, int, Bindings]]:
        """Return the key, the end and the slots of each match of a table's patterns at a token."""
        low = self.tokens[at].low
        for key, pattern, first in self.words.patterns[table]:
            if first is None or low in first:
                for end, bound in matches(pattern, self, at):
                    yield key, end, bound

    def phrase(self, phrases: Iterable[tuple[str, ...]], at: int) -> int:
        """Return the end of the longest of some phrases at a token; ``at`` if none is there."""
        best = at
        for phrase in phrases:
            end = at + len(phrase)
            if end > best and self.tokens[at].low == phrase[0] and tuple(it.low for it in self.tokens[at:end]) == phrase:
                best = end
        return best

    def _plain(self, table: str, at: int) -> list[tuple[int, str]]:
        found = []
        for phrase, key in self.words.phrases[table].items():
            end = at + len(phrase)
            if self.tokens[at].low == phrase[0] and tuple(it.low for it in self.tokens[at:end]) == phrase:
                found.append((end, key))
        return sorted(found, reverse=True)

    # -- numbers -----------------------------------------------------------------------------------

    def _number(self, at: int) -> list[tuple[int, Decimal]]:
        first = self.tokens[at]
        is_minus = first.low == "-" and at + 1 < len(self.tokens) and self.tokens[at + 1].kind == "number" and self.tokens[at + 1].glued
        if (is_minus and not first.glued) or self.phrase(self.words.special.get("minus", ()), at) > at:
            after = at + 1 if is_minus else self.phrase(self.words.special["minus"], at)
            return [(end, -value) for end, value in self.slot("number", after)] if after < len(self.tokens) else []
        if first.kind == "number":
            value = self.digits(first.text)
            return [] if value is None else [self._multiplied(at, value)]
        return self._in_words(at)

    def _multiplied(self, at: int, value: Decimal) -> tuple[int, Decimal]:
        after = self.tokens[at + 1] if at + 1 < len(self.tokens) else None
        if after is not None and after.glued and (after.low,) in self.words.special.get("thousands", ()):
            return at + 2, value * 1000
        if after is not None and after.kind == "word":
            for name, factor in (("thousand", 1000), ("million", 1_000_000)):
                if (after.low,) in self.words.special.get(name, ()):
                    return at + 2, value * factor
        return at + 1, value

    def digits(self, text: str) -> Decimal | None:
        """Return the number that digits write in this language; None for none."""
        if len(text) > MAX_DIGITS:
            return None
        decimal, group = self.words.decimal, self.words.group
        if not re.search("[.,]", text):
            return Decimal(text)
        if found := _GROUPED.fullmatch(text):
            marks = {sign for sign in text if not sign.isdigit()}
            if found[2]:
                return Decimal(text.replace(found[1], "").replace(found[2], ".")) if found[1] != found[2] else None
            if marks == {group} or text.count(next(iter(marks))) > 1:
                return Decimal(re.sub("[.,]", "", text))
        if re.fullmatch(r"\d+[.,]\d+", text):
            return Decimal(text.replace(",", ".")) if decimal in text or not re.fullmatch(r"\d+[.,]\d{3}", text) else None
        return None

    def is_ambiguous(self, text: str) -> bool:
        """Return True for digits such as 1.200, which is another number in other countries."""
        return re.fullmatch(rf"[1-9]\d{{0,2}}{re.escape(self.words.decimal)}\d{{3}}", text) is not None

    def _in_words(self, at: int) -> list[tuple[int, Decimal]]:
        for name, value in (("alone", 1), ("half_dozen", 6), ("dozen", 12), ("hundred", 100), ("thousand", 1000), ("million", 1_000_000)):
            end = self.phrase(self.words.special.get(name, ()), at)
            if end > at and not self._goes_on(end):
                return [(end, Decimal(value))]
        run = at
        said: list[str] = []
        best: list[tuple[int, Decimal]] = []
        while run < len(self.tokens) and len(said) < MAX_NUMBER_WORDS:
            token = self.tokens[run]
            if token.kind == "word":
                said.append(token.text.lower())
                if len(said) == 2 and (self.tokens[at].low,) in self.words.special.get("articles", ()):  # noqa: PLR2004 - "a hundred and fifty"
                    said[0] = next((word for word, value in self.words.numbers.items() if value == 1), said[0])
                counted = number_in_words(tuple(said), self.words)
                if counted is not None and not (len(said) == 1 and (token.low,) in self.words.special.get("articles", ())):
                    best = [(run + 1, Decimal(counted))]
            elif token.low != "-" or not said:
                break
            run += 1
        return best

    def _goes_on(self, at: int) -> bool:
        """Return True if another number word follows: "a hundred and fifty" is read as a whole."""
        links = {phrase[0] for phrase, key in self.words.phrases["words"].items() if key == "and"}
        after = at + 1 if at < len(self.tokens) and self.tokens[at].low in links else at
        if after >= len(self.tokens) or self.tokens[after].kind != "word":
            return False
        return number_in_words((self.tokens[after].text.lower(),), self.words) is not None

    def _fraction(self, at: int) -> list[tuple[int, Decimal]]:
        value = FRACTIONS.get(self.tokens[at].low.replace("\u2044", "/"))
        return [] if value is None else [(at + 1, value)]

    def _n(self, at: int) -> list[tuple[int, Decimal]]:
        found = list(self.slot("number", at))
        if not found and (self.tokens[at].low,) in self.words.special.get("articles", ()):
            found.append((at + 1, Decimal(1)))
        end = self.phrase(self.words.special.get("half", ()), at)
        if end > at:
            found.append((end, Decimal("0.5")))
        return found

    # -- the calendar ------------------------------------------------------------------------------

    def _weekday(self, at: int) -> list[tuple[int, int]]:
        names = TABLES["weekdays"]
        return [(end + self._stop(end, at), names.index(key)) for end, key in self._plain("weekdays", at)]

    def _month(self, at: int) -> list[tuple[int, int]]:
        names = TABLES["months"]
        return [(end + self._stop(end, at), names.index(key) + 1) for end, key in self._plain("months", at)]

    def _stop(self, end: int, at: int) -> int:
        """Return 1 if the full stop of an abbreviation follows: "Dec. 3"."""
        short = end == at + 1 and len(self.tokens[at].text) <= 4  # noqa: PLR2004 - "Sept."
        return int(short and end + 1 < len(self.tokens) and self.tokens[end].low == "." and self.tokens[end].glued)

    def _unit(self, at: int) -> list[tuple[int, str]]:
        return [(end, key) for end, key in self._plain("units", at)]

    def _half_day(self, at: int) -> list[tuple[int, str]]:
        return self._plain("half_days", at)

    def _ordinal(self, at: int) -> list[tuple[int, int]]:
        first = self.tokens[at]
        if first.kind == "number" and first.text.isdecimal() and at + 1 < len(self.tokens):
            after = self.tokens[at + 1]
            if after.glued and after.low in self.words.endings and len(first.text) <= 2 and self._is_ordinal(at):  # noqa: PLR2004 - a day
                return [(at + 2, int(first.text))]
            return []
        found = []
        for phrase, value in self.words.ordinals.items():
            end, run = at, 0
            while run < len(phrase) and end < len(self.tokens):
                if self.tokens[end].low == phrase[run]:
                    run += 1
                elif not (run and self.tokens[end].low == "-"):
                    break
                end += 1
            if run == len(phrase):
                found.append((end, value))
        return sorted(found, reverse=True)

    def _is_ordinal(self, at: int) -> bool:
        """Return True unless the ending is a full stop that may end a sentence: "am 3." is a day, and "wir sind 3." is none."""
        if self.tokens[at + 1].low != ".":
            return True
        before = self.tokens[at - 1].low if at else ""
        after = self.tokens[at + 2].low if at + 2 < len(self.tokens) else ""
        special = self.words.special
        return (
            (before,) in special.get("before_ordinals", ())
            or (after,) in special.get("after_ordinals", ())
            or (after,) in self.words.phrases["months"]
        )

    def _day(self, at: int) -> list[tuple[int, int]]:
        found = list(self.slot("ordinal", at))
        token = self.tokens[at]
        if token.kind == "number":
            is_glued = at + 1 < len(self.tokens) and self.tokens[at + 1].glued and self.tokens[at + 1].kind == "word"  # "14h"
            if token.text.isdecimal() and 1 <= len(token.text) <= 2 and not is_glued:  # noqa: PLR2004 - a day
                found.append((at + 1, int(token.text)))
        else:
            found += [(end, int(value)) for end, value in self.slot("number", at) if value == int(value) and 0 < value < 32]  # noqa: PLR2004 - a day
        return found

    def _year(self, at: int) -> list[tuple[int, int]]:
        text = self.tokens[at].text
        return [(at + 1, int(text))] if self.tokens[at].kind == "number" and re.fullmatch(r"(?:19|20)\d\d", text) else []

    # -- the clock ---------------------------------------------------------------------------------

    def _hour(self, at: int) -> list[tuple[int, int]]:
        token = self.tokens[at]
        if token.kind == "number" and not re.fullmatch(r"\d{1,2}", token.text):
            return []
        numbers = self.slot("number", at)
        if not numbers and (token.low,) in self.words.special.get("articles_of_hours", ()):
            numbers = [(at + 1, Decimal(1))]
        return [(end, int(value)) for end, value in numbers if value == int(value) and 0 <= value <= 24]  # noqa: PLR2004 - hours

    def _minute(self, at: int) -> list[tuple[int, int]]:
        token = self.tokens[at]
        if token.kind == "number" and not re.fullmatch(r"\d\d", token.text):
            return []
        return [(end, int(value)) for end, value in self.slot("number", at) if value == int(value) and 5 <= value < 60]  # noqa: PLR2004 - minutes

    def _hundred(self, at: int) -> list[tuple[int, int]]:
        low = self.tokens[at].low
        return [(at + 1, self.words.numbers[low])] if low in self.words.numbers else [it for it in self._hour(at) if it[0] == at + 1]

    def _clock(self, at: int) -> list[tuple[int, tuple[str, str]]]:
        token = self.tokens[at]
        if token.kind != "clock":
            return []
        hour, minute, *_ = re.split("[:h]", token.low)
        return [(at + 1, (hour, minute))]

    def _dotted(self, at: int) -> list[tuple[int, tuple[str, str]]]:
        found = re.fullmatch(r"(\d{1,2})[.](\d\d)", self.tokens[at].text)
        return [(at + 1, (found[1], found[2]))] if found else []

    def _four_digits(self, at: int) -> list[tuple[int, tuple[str, str]]]:
        found = re.fullmatch(r"([01]\d|2[0-3])([0-5]\d)", self.tokens[at].text)
        return [(at + 1, (found[1], found[2]))] if found else []

    def _hours_minutes(self, at: int) -> list[tuple[int, tuple[int, int]]]:
        found = re.fullmatch(r"(\d{1,2})h([0-5]\d)", self.tokens[at].low)
        return [(at + 1, (int(found[1]), int(found[2])))] if found else []

    # -- other slots -------------------------------------------------------------------------------

    def _written(self, at: int) -> list[tuple[int, str]]:
        is_length = bool(self.slot("fraction", at) and self.slot("duration", at))  # "Friday, 3/4 of an hour"
        is_date = self.tokens[at].kind == "date" and self.tokens[at].low != "24/7" and not is_length
        return [(at + 1, self.tokens[at].low)] if is_date else []

    def _date(self, at: int) -> list[tuple[int, Any]]:
        return NESTED["date"](self, at)

    def _duration(self, at: int) -> list[tuple[int, Any]]:
        return NESTED["duration"](self, at)

    def _label(self, at: int) -> list[tuple[int, str]]:
        found = [
            (at + len(phrase), name)
            for phrase, name in self.labels.items()
            if tuple(it.low for it in self.tokens[at : at + len(phrase)]) == phrase
        ]
        return sorted(found, reverse=True)

    def _thing(self, at: int) -> list[tuple[int, str]]:
        from_ = at
        determiners, things = self.words.special["thing_words"], self.words.special["things"] | self.things
        while from_ < len(self.tokens) and (self.tokens[from_].low,) in determiners:
            from_ += 1
        if from_ < len(self.tokens) and (end := self.phrase(things, from_)) > from_:
            return [(end, "")]
        return [(from_, "")] if from_ > at and self.phrase(things, at) > at else []
