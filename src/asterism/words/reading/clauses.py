"""The clauses of a message: what corrects, negates, leaves open or binds to a condition, and which values are only guesses."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from typing import Any

import msgspec

from asterism.words.reading.durations import MAX_SECONDS, SECONDS
from asterism.words.reading.scan import Item, Scan, Wanted


class Taken(msgspec.Struct, kw_only=True):
    """The value of a field, as it was read.

    Attributes:
        field: name of the field.
        value: the value; of an option its name.
        text: the words that give it.
        sure: False for a guess.
        start, end: position of the words in the message.
    """

    field: str
    value: Any
    text: str
    sure: bool = True
    start: int = 0
    end: int = 0
    is_correction: bool = False


class Trouble(msgspec.Struct, kw_only=True, frozen=True):
    """Words that were read, and give no value.

    Attributes:
        why: "not", "or", "if", "two", "which", "foreign", "range", "other", "part", or "none" for what does not exist.
        text: the words.
        fields: names of the fields that they are about.
        about: more about it, for the person.
    """

    why: str
    text: str
    fields: tuple[str, ...] = ()
    about: str = ""


class Understanding(msgspec.Struct, kw_only=True):
    """What was understood of a message.

    Attributes:
        taken: values by field.
        troubles: words that were read, and give no value.
        unknown: words that were not understood.
        corrects: True if it begins like a correction ("no, …", "actually …").
        labels: names of the fields that are named.
        negates: True if something is negated, bound to a condition, or left open.
    """

    taken: dict[str, Taken] = msgspec.field(default_factory=dict)
    troubles: list[Trouble] = msgspec.field(default_factory=list)
    unknown: list[str] = msgspec.field(default_factory=list)
    corrects: bool = False
    negates: bool = False
    labels: list[str] = msgspec.field(default_factory=list)

    @property
    def guesses(self) -> dict[str, Taken]:
        """Return the values that must be confirmed."""
        return {name: it for name, it in self.taken.items() if not it.sure}


class Clauses:
    """A message while its clauses are examined; the items of the scan are marked."""

    def __init__(self, scan: Scan) -> None:
        self.scan, self.items = scan, scan.items
        self.found = Understanding()
        self.strong = False  # a correction in so many words
        self.again: set[int] = set()  # clauses that correct what was said before them
        self.weak: set[int] = set()  # clauses whose values are guesses
        self.named: dict[int, str] = {}  # field of an item by its place, from a label
        self.texts: list[Taken] = []
        self.answers: list[tuple[str, bool, Item, int]] = []

    def examine(self) -> None:
        """Mark the items whose values do not count, and find the clauses whose values are guesses."""
        self._take_names()
        self._corrections()
        self._answers_to_labels()
        self._negations()
        self._alternatives()
        self._conditions()
        self._unknown_words()
        self._units_left_out()
        self._days_from()

    # -- clauses -----------------------------------------------------------------------------------

    def _clause(self, number: int) -> list[Item]:
        return [item for item in self.items if item.clause == number]

    def _clauses(self) -> list[int]:
        return list(dict.fromkeys(item.clause for item in self.items))

    def _corrections(self) -> None:
        """Find the clauses that begin with "no", "actually" and the like, and divide a clause where one is in the middle."""
        pending = is_open = is_no = False
        for number in self._clauses():
            line = [item for item in self._clause(number) if item.kind != "mark" and "but" not in item.classes]
            head = 0
            while head < len(line) and self._is_again(line, head):
                self.strong = self.strong or "neutral" not in line[head].classes
                is_no = "not" in line[head].classes
                line[head].classes |= {"neutral", "used"}
                head += 1
            if head or pending:
                self.again.add(number)
                self.found.corrects = (
                    self.found.corrects or not any(it.kind == "value" for it in self.items[: self.items.index(line[0])]) if line else True
                )
            is_late = is_open and bool(line) and not (head or pending)  # "six, no, my brother can't come, so five"
            if is_late:
                self.again.add(number)
                self.weak.add(number)
            is_open = (head > 0 or pending or is_open) and not any(it.kind == "value" for it in line)
            pending = bool(line) and head == len(line)
            self._divide(line[head:])
        if is_open and is_no:  # "two hours, no, a day or so": what was said before it may not count
            self.weak |= set(self._clauses())

    def _is_again(self, line: list[Item], at: int) -> bool:
        if "again" not in line[at].classes:
            return False
        if "not" not in line[at].classes:
            return True
        rest = line[at + 1 :]  # "no" alone, or before "wait"; in "no friday" it negates
        return not rest or "again" in rest[0].classes

    def _units_left_out(self) -> None:
        """Give a number that corrects a duration its unit: "not two hours, one and a half"."""
        earlier: Item | None = None
        for item in self.items:
            if item.kind != "value":
                continue
            is_correction = (
                earlier is not None and item.clause != earlier.clause and (earlier.dropped == "not" or item.clause in self.again)
            )
            if item.low == "number" and earlier is not None and is_correction and not item.dropped:
                number, unit = item.options[0], earlier.options[0].unit
                seconds = number.value * SECONDS.get(unit, MAX_SECONDS)
                if abs(seconds) <= MAX_SECONDS:
                    length = dt.timedelta(seconds=float(seconds))
                    item.options = [msgspec.structs.replace(number, kind="duration", value=length, unit=unit, sure=False)]
            earlier = item if item.low == "duration" else None

    def _days_from(self) -> None:
        """Make guesses of a day beside a length of days: "a fortnight today" is not today."""
        for one, two in pairwise(item for item in self.items if item.kind == "value"):
            lengths = [item.options[0].value for item in (one, two) if item.low == "duration"]
            has_day = "date" in (one.low, two.low) and one.clause == two.clause
            if has_day and any(isinstance(length, dt.timedelta) and length >= dt.timedelta(days=1) for length in lengths):
                self.weak.add(one.clause)

    def _divide(self, line: list[Item]) -> None:
        """Give what follows "no wait" in the middle of a clause a clause of its own."""
        for at, item in enumerate(line[1:], 1):
            is_middle = ("again" in item.classes) != ("not" in item.classes)  # "friday no wait thursday", "at 10 not at 11"
            before, after = ({it.low for it in part if it.kind == "value"} for part in (line[:at], line[at:]))
            if is_middle and before & after:
                fresh = max(self._clauses()) + 1
                for other in line[at:]:
                    other.clause = fresh
                if "again" in item.classes:
                    item.classes |= {"neutral"}
                    self.again.add(fresh)
                return

    def _answers_to_labels(self) -> None:
        """Read "with catering" as a yes to the field catering, and "no catering" as a no."""
        for at, item in enumerate(self.items):
            field = self.scan.wanted.get(item.field) if item.kind == "label" else None
            if field is None or field.kind != "yes_no":
                continue
            before = next(
                (it for it in reversed(self.items[:at]) if it.clause == item.clause and "used" not in it.classes and not _is_article(it)),
                None,
            )
            says_no = before is not None and "not" in before.classes
            after = next((it for it in self.items[at + 1 :] if it.clause == item.clause and "not" in it.classes), None)
            if says_no and before is not None:
                before.classes = frozenset({"neutral"})
            if after is not None and not says_no:
                continue
            item.options, item.kind = [], "words"
            item.classes = frozenset({"neutral", "answer"})
            self.answers.append((field.name, not says_no, item, item.start if before is None or not says_no else before.start))

    def _negations(self) -> None:
        for number in self._clauses():
            line = self._clause(number)
            if any("not" in it.classes and "used" not in it.classes for it in line) or self._excludes(line):
                self.found.negates = True
                values = [it for it in line if it.kind in ("value", "label", "part")]
                for item in values:
                    item.dropped = item.dropped or "not"
                self.answers = [it for it in self.answers if it[2] not in line]
                if not any(it.kind == "value" for it in values):
                    self._weaken(line[0].sentence)

    def _excludes(self, line: list[Item]) -> bool:
        """Return True for the clause after "any room", in "any room but Cedar"."""
        if "but" not in line[0].classes:
            return False
        before = [it for it in self.items[: self.items.index(line[0])] if it.clause == line[0].clause - 1]
        return any("all" in it.classes for it in before) and not any(it.kind == "value" for it in before)

    def _weaken(self, sentence: int) -> None:
        self.weak |= {item.clause for item in self.items if item.sentence == sentence}

    def _alternatives(self) -> None:
        for at, item in enumerate(self.items):
            if "or" not in item.classes or "used" in item.classes or self._is_in_a_path(at):
                continue
            self.found.negates = True
            left = next((it for it in reversed(self.items[:at]) if it.kind == "value" and it.sentence == item.sentence), None)
            right = next((it for it in self.items[at + 1 :] if it.kind == "value" and it.sentence == item.sentence), None)
            self._weaken(item.sentence)
            kinds = {reading.kind for it in (left, right) if it for reading in it.options}
            for other in self.items:
                same = other.kind == "value" and other.sentence == item.sentence and any(it.kind in kinds for it in other.options)
                beside = other in (left, right) or (other.clause == item.clause and not (left and right) and other.kind == "value")
                other.span = (left.start, right.end) if left and right and other in (left, right) else other.span
                if (same and left and right and (_comparable(left, right))) or beside:
                    other.dropped = other.dropped or "or"

    def _is_in_a_path(self, at: int) -> bool:
        """Return True for the slash of "data/reports": it is between two unknown words, without spaces."""
        around = self.items[max(0, at - 1) : at + 2]
        is_glued = all(self.scan.tokens[it.start].glued for it in around[1:])
        return self.scan.tokens[self.items[at].start].low == "/" and is_glued and [it.kind for it in around[::2]] == ["unknown"] * 2

    def _conditions(self) -> None:
        for item in self.items:
            if "if" in item.classes and "neutral" not in item.classes:
                self.found.negates = True
                self._weaken(item.sentence)
                for other in self._clause(item.clause):
                    if other.kind == "value":
                        other.dropped = other.dropped or "if"
            if {"about", "up_to"} & item.classes and "neutral" not in item.classes:
                self.weak.add(item.clause)

    def _unknown_words(self) -> None:
        for at, item in enumerate(self.items):
            is_guess = bool(self.scan.guessed & set(range(item.start, item.end)))
            if item.kind == "unknown" or (item.kind == "part" and not item.dropped) or is_guess:
                self.weak.add(item.clause)
            if self._is_pronoun(item, at):
                item.kind, item.options, item.classes = "words", [], frozenset({"neutral"})
            if item.kind == "unknown":
                self.found.unknown.append(self.scan.text_of(item.start, item.end))
                before = self.items[at - 1] if at else None
                is_counted = before is not None and before.kind == "value" and before.low == "number" and before.clause == item.clause
                if before is not None and is_counted and not self._is_only_number():
                    before.dropped = before.dropped or "other"
                    if self.scan.asked is not None and self.scan.asked.kind == "whole" and not self.scan.asked.unit:
                        self.weak |= set(self._clauses())  # "three. and 2 kids"

    def _is_only_number(self) -> bool:
        """Return True if a number was asked for and the message has one: then what it counts may be read back."""
        asked = self.scan.asked
        numbers = [it for it in self.items if it.kind == "value" and it.low in ("number", "money")]
        return asked is not None and asked.kind in ("whole", "number") and len(numbers) == 1

    def _is_pronoun(self, item: Item, at: int) -> bool:
        """Return True for the "one" of "the large one"."""
        before = self.items[at - 1] if at else None
        is_word = item.low == "number" and (self.scan.tokens[item.start].low,) in self.scan.chart.words.special.get("pronouns", ())
        if not is_word or before is None:
            return False
        if (self.scan.tokens[item.start - 1].low,) in self.scan.chart.words.special.get("before_pronouns", ()):
            self.weak.add(item.clause)  # "the one at 3" may name no time
            return True
        after = self.items[at + 1] if at + 1 < len(self.items) else None
        if before.low in ("money", "date", "time", "duration") and (after is None or after.kind == "mark"):
            self.weak.add(item.clause)  # "the 20 euro one"
            return True
        return before.kind == "unknown" or before.low == "option"

    # -- names -------------------------------------------------------------------------------------

    def _take_names(self) -> None:
        """Read "this is Ann Lee" and "Ann Lee here", and "reason: …" for fields of text."""
        words = self.scan.chart.words.phrases["names"]
        for field in self.scan.wanted.values():
            if (
                field.kind != "text"
                or "name" not in {*field.name.split("_"), *field.labels, *self.scan.chart.words.labels.get(field.name, ())}
                or field is self.scan.asked
            ):
                continue
            for at in range(len(self.scan.tokens)):
                end = self.scan.chart.phrase([phrase for phrase, key in words.items() if key == "leading"], at)
                last = self._capitals(end) if end > at else end
                if last > end > at:
                    self._name(field, end, last, at, last)
                    break
                last = self._capitals(at)
                after = (
                    self.scan.chart.phrase([phrase for phrase, key in words.items() if key == "after"], last)
                    if last < len(self.scan.tokens)
                    else last
                )
                if last > at and after > last and (at == 0 or self.scan.tokens[at - 1].kind == "mark"):
                    self._name(field, at, last, at, after)
                    break

    def _capitals(self, at: int) -> int:
        """Return the end of the unknown words with capitals at a token."""
        end = at
        while end < len(self.scan.tokens) and end - at < 4 and self.scan.tokens[end].text[:1].isupper():  # noqa: PLR2004 - words of a name
            item = next(it for it in self.items if it.start <= end < it.end)
            if item.kind != "unknown" and not item.options:
                break
            if item.options and not self.scan.guessed & set(range(item.start, item.end)):
                break
            end += 1
        return end

    def _name(self, field: Wanted, start: int, end: int, first: int, last: int) -> None:
        for item in self.items:
            if item.start < last and item.end > first:
                item.kind, item.options, item.classes = "words", [], frozenset({"neutral"})
        text = self.scan.text_of(start, end)
        tokens = self.scan.tokens
        self.texts.append(Taken(field=field.name, value=text, text=text, start=tokens[start].start, end=tokens[end - 1].end))

    def _taken(self, field: str, value: Any, item: Item, start: int, end: int = 0, *, sure: bool = True) -> Taken:
        end = end or item.end
        tokens = self.scan.tokens
        return Taken(
            field=field, value=value, text=self.scan.text_of(start, end), sure=sure and item.clause not in self.weak,
            start=tokens[start].start, end=tokens[end - 1].end, is_correction=item.clause in self.again,
        )  # fmt: skip


def _is_article(item: Item) -> bool:
    return item.kind == "words" and "neutral" in item.classes and "not" not in item.classes


def _comparable(one: Item, two: Item) -> bool:
    kinds = [{it.kind for it in item.options} for item in (one, two)]
    return bool(kinds[0] & kinds[1]) or "number" in kinds[0] | kinds[1]
