"""What a message gives for the fields of an agent: values that are certain, guesses, and what is not understood.

Within a clause that a value is taken from, each word belongs to a value, to a label, or to the neutral words of the language.
A clause with an unknown word gives guesses. A value that is negated, one of several, or bound to a condition is no value.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import msgspec

from asterism.words.reading.clauses import Clauses, Taken, Trouble, Understanding
from asterism.words.reading.fitting import fitted, shifted
from asterism.words.reading.ranges import join_ranges
from asterism.words.reading.scan import Item, Scan, Wanted
from asterism.words.reading.setting import Setting

_NEAR = dt.timedelta(days=3)
"""A weekday this near to the day that it replaces is in the same week, for most."""


def understand(text: str, setting: Setting, wanted: Sequence[Wanted], asked: str = "", known: Sequence[str] = ()) -> Understanding:
    """Return what a message gives for some fields.

    Args:
        text: the message.
        setting: its language, time zone and time.
        wanted: the fields.
        asked: name of the field that was asked for; empty for none.
        known: other words of the agent, such as its triggers.
    """
    return _Sense(Scan(text, setting, wanted, asked, known)).result()


class _Sense(Clauses):
    """One message while it is understood."""

    def result(self) -> Understanding:
        self.examine()
        spans = join_ranges(self.scan, self.items)
        self._bind_labels()
        negated = [it.value for item in self.items if item.dropped == "not" for it in item.options if it.kind == "date" and it.value]
        days = [it["value"] for it in spans if type(it["value"]) is dt.date]
        for span in spans:
            if days and any(min(days) <= day <= max(days) for day in negated):  # "Monday to Friday, but not Wednesday"
                span["sure"] = False
            self._put(span.pop("field"), **span)
        for item in self.items:
            if item.kind == "value" and not item.dropped:
                self._assign(item)
        self._take_the_rest()
        for name, value, item, start in self.answers:
            self._settle(self._taken(name, value, item, start))
        for name_given in self.texts:
            self._settle(name_given)
        self._doubt_what_was_corrected()
        self._report()
        return self.found

    # -- fields ------------------------------------------------------------------------------------

    def _bind_labels(self) -> None:
        for at, label in enumerate(self.items):
            field = self.scan.wanted.get(label.field) if label.kind == "label" else None
            if field is None:
                continue
            self.found.labels.append(field.name)
            for side in ("before", "after"):
                if label.side in ("", side) and (place := self._beside(at, side, field)) is not None:
                    self.named[place] = field.name
                    break

    def _beside(self, at: int, side: str, field: Wanted) -> int | None:
        """Return the place of the value that a label names: the nearest one before or after it in its clause."""
        step = -1 if side == "before" else 1
        for distance, place in enumerate(range(at + step, len(self.items) if step > 0 else -1, step)):
            item = self.items[place]
            if (
                item.sentence != self.items[at].sentence
                or item.kind in ("unknown", "label")
                or (item.clause != self.items[at].clause and self.scan.tokens[item.start].low != ":" and distance > 1)
            ):
                return None
            if item.kind == "value":
                fits = place not in self.named and fitted(field, item, self.scan, is_named=True) is not None
                return place if fits and (side == "after" or distance == 0) else None
            if side == "before":
                return None
        return None

    def _assign(self, item: Item) -> None:
        place = self.items.index(item)
        wanted = self.scan.wanted
        text = self.scan.text_of(item.start, item.end)
        if why := next((it.why for it in item.options if it.why), ""):
            fields = tuple(it.name for it in wanted.values() if it.kind in (item.low, "moment"))
            self.found.troubles.append(Trouble(why="none", text=text, fields=fields, about=why))
            return
        if item.role == "step" or item.low == "shift":
            self._shift(item, place)
            return
        beside = self.items[place - 1] if place else None
        if place not in self.named and item.low == "number" and beside is not None and beside.kind == "label" and beside.side != "before":
            item.dropped = "other"  # "room 5" is no number of people
            self.weak.add(item.clause)
            return
        if place in self.named:
            self._put_fitted(wanted[self.named[place]], item, is_named=True)
            return
        asked = self.scan.asked
        fits = [it for it in wanted.values() if fitted(it, item, self.scan) is not None]
        if (
            asked is not None
            and asked not in fits
            and fitted(asked, item, self.scan, is_asked=True) is not None
            and not (fits and self.strong)
        ):
            self._put_fitted(asked, item, is_asked=True)
            return
        if asked is not None and asked in fits:
            others = [
                it
                for it in fits
                if it.given is not None and it is not asked and it.kind == asked.kind and not it.end_of and asked.end_of != it.name
            ]
            self._put_fitted(asked, item, is_asked=True, sure=not (self.strong and others))
            return
        open_ = [it for it in fits if it.given is None]
        given = [it for it in fits if it.given is not None]
        refused = [it.value for other in self.items if other.dropped == "not" for it in other.options]
        corrected = [it for it in given if it.given in refused]
        which = corrected or (given if (self.found.corrects and given and not open_) or not open_ else open_)
        if len(which) == 1:
            self._put_fitted(which[0], item, sure=not self._is_doubtful(item))
        elif which:
            self.found.troubles.append(Trouble(why="which", text=text, fields=tuple(it.name for it in which)))
        elif item.low in ("number", "money", "duration"):
            self.found.troubles.append(Trouble(why="foreign", text=text))
            self.weak.add(item.clause)

    def _take_the_rest(self) -> None:
        """Take the one option that a message leaves over, as a guess: "neither Birch nor Oak Hall"."""
        asked = self.scan.asked
        dropped = [item for item in self.items if item.dropped == "not" and item.low == "option"]
        if asked is None or not dropped or asked.name in self.found.taken:
            return
        rest = set(asked.options) - {it.value for item in dropped for it in item.options}
        if len(rest) == 1 and not any(item.dropped == "or" for item in self.items):
            self._put(asked.name, value=rest.pop(), item=dropped[0], until=dropped[-1], sure=False)

    def _is_doubtful(self, item: Item) -> bool:
        """Return True for a day such as "the 2nd" where something else was asked for: it may be the second of something."""
        asked = self.scan.asked
        reading = item.options[0]
        return asked is not None and asked.kind not in ("date", "moment") and reading.kind == "date" and reading.unit == "day_of_month"

    def _shift(self, item: Item, place: int) -> None:
        named, earlier = self.named.get(place), self.found.taken
        moved = []
        for field in self.scan.wanted.values():
            if field.name in earlier:  # "we were eight, but two more have joined"
                field = msgspec.structs.replace(field, given=earlier[field.name].value)  # noqa: PLW2901 - the value of this message
            if (named is None or field.name == named) and field.given is not None:
                value = shifted(field, item.options[0])
                moved += [(field, value)] if value is not None else []
        is_range = len(moved) == 2 and moved[1][0].end_of == moved[0][0].name and not item.options[0].sure  # noqa: PLR2004 - both ends
        if len(moved) == 1 or is_range:
            for field, value in moved:
                sure = item.options[0].sure and field.name not in earlier
                earlier.pop(field.name, None)
                self._put(field.name, value=value, item=item, sure=sure)
        else:
            names = tuple(field.name for field, _ in moved)
            self.found.troubles.append(
                Trouble(why="which" if moved else "part", text=self.scan.text_of(item.start, item.end), fields=names)
            )
            self.weak.add(item.clause)  # "a team of 10 less 2"

    def _put_fitted(self, field: Wanted, item: Item, *, is_named: bool = False, is_asked: bool = False, sure: bool = True) -> None:
        found = fitted(field, item, self.scan, is_named=is_named, is_asked=is_asked)
        if found is not None:
            if item.options[0].unit == "weekday" and type(field.given) is dt.date and abs(found[0] - field.given) > _NEAR:
                sure = False  # "thursday, not wednesday": in the week of the day before it, or of today
            self._put(field.name, value=found[0], item=item, sure=found[1] and sure)

    def _put(self, field: str, *, value: Any, item: Item, sure: bool, until: Item | None = None) -> None:
        self._settle(
            self._taken(
                field,
                value,
                item,
                item.start,
                (until or item).end,
                sure=sure and item.clause not in self.weak and (until or item).clause not in self.weak,
            )
        )

    def _settle(self, taken: Taken) -> None:
        """Set the value of a field, unless another one was given for it in the same message."""
        earlier = self.found.taken.get(taken.field)
        if earlier is None or earlier.value == taken.value or taken.is_correction:
            self.found.taken[taken.field] = taken
        elif taken.sure != earlier.sure and earlier.value is not None:
            self.found.taken[taken.field] = msgspec.structs.replace(taken if taken.sure else earlier, sure=False)
        elif earlier.value is not None:
            about = f"{earlier.text}, {taken.text}"
            self.found.troubles.append(Trouble(why="two", text=about, fields=(taken.field,)))
            self.found.taken[taken.field] = Taken(field=taken.field, value=None, text=about, sure=False)

    def _doubt_what_was_corrected(self) -> None:
        """Make guesses of the values before a correction that gave no value: "2:30, actually make that 3"."""
        tokens = self.scan.tokens
        denied = {item.clause for item in self.items if item.clause and {"again", "not"} <= set(item.classes)}  # "no, until the 6th"
        for number in self.again | denied:
            values = [item for item in self._clause(number) if item.kind in ("value", "part")]
            start = min((tokens[item.start].start for item in values), default=None)
            if start is not None and not any(given.start >= start for given in self.found.taken.values()):
                for given in self.found.taken.values():
                    given.sure = False

    def _report(self) -> None:
        for name in [name for name, it in self.found.taken.items() if it.value is None]:
            del self.found.taken[name]
        if any(trouble.why == "two" for trouble in self.found.troubles):  # "wednesday 1 to friday 4": what else was read may not hold
            for given in self.found.taken.values():
                given.sure = False
        for item in self.items:
            text = self.scan.text_of(*(item.span or (item.start, item.end)))
            if item.kind == "value" and item.dropped:
                fields = tuple(
                    it.name for it in self.scan.wanted.values() if fitted(it, item, self.scan, is_asked=it is self.scan.asked) is not None
                )
                if item.dropped != "not" or not set(fields) & self.found.taken.keys():
                    self.found.troubles.append(Trouble(why=item.dropped, text=text, fields=fields))
            elif item.kind == "part" and not item.dropped:
                kind = item.options[0].value
                fields = tuple(it.name for it in self.scan.wanted.values() if it.kind == kind)
                if not set(fields) & self.found.taken.keys():
                    self.found.troubles.append(Trouble(why="part", text=text, fields=fields))
