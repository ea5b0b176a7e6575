"""The words of a language, from a TOML file: one of this package, or one of the same form."""

from __future__ import annotations

import functools
import re
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from asterism.errors import InvalidInput
from asterism.words.reading.patterns import Pattern, compiled, first_words, spellings
from asterism.words.reading.tokens import fold, tokens

LANGUAGES = ("de", "en", "es")
"""Codes of the languages of this package."""
MAX_FILE_BYTES = 1_000_000

SLOTS = frozenset(
    "n number unit weekday month ordinal day year date written hour minute half_day clock dotted four_digits hundred duration "  # noqa: SIM905 - as a text it can be read
    "hours_minutes thing label fraction".split()
)
"""Slots of patterns."""
TABLES = {
    "weekdays": ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"],
    "months": ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"],
    "units": ["day", "week", "month", "year", "hour", "minute", "second"],
    "half_days": ["am", "pm"],
}
"""Tables of plain phrases with the keys that each must have."""
PLAIN_ACTS = ("polite", "things", "thing_words", "openings", "determiners")
"""Keys of the table ``acts`` that have plain phrases; a language file may lack the last two."""
GRAMMARS = ("date", "asked_date", "date_parts", "whole", "time", "asked_time", "time_parts", "duration", "shift", "company", "acts", "edit")
"""Tables of patterns."""
PHRASES = ("words", "yes", "no", "faults", "questions", "remarks", "names", "currencies", "cents", "superlatives", *TABLES)
"""Tables of plain phrases."""
REQUIRED = {
    "words": ["from", "until", "to", "back", "and", "but", "not", "or", "if", "about", "up_to", "asides", "again", "neutral"],
    "yes": ["phrases", "courtesies"],
    "no": ["phrases", "because"],
    "acts": ["cancel", "skip", "nothing", "back", "repeat", "help", "resume", "thanks", "greet", "unsure", *PLAIN_ACTS[:3]],
    "questions": ["start", "requests"],
    "remarks": ["words", "doubts"],
    "names": ["before", "after", "leading"],
    "edit": ["set", "wrong", "remove"],
    **TABLES,
}


Phrases = dict[tuple[str, ...], str]


class Words(msgspec.Struct, eq=False):
    """The words of a language.

    Attributes:
        name: the language in its own words.
        decimal, group: marks of a number: "1,200.50" has "." and ",".
        day_first: separators of dates in numbers that begin with the day.
        clock: 24 if "at 9" is always 09:00, else 12.
        week_starts: weekday on which a week starts for everybody, else empty.
        phrases: phrases of the plain tables by table, each with its key.
        patterns: patterns by table and key, each with the words that it can begin with (None: any).
        numbers, ordinals: numbers by word, and the phrases with a special value.
        special: the other phrases about numbers, and those of politeness and of things, by key.
        labels: words for fields by name of the field; ``{}`` is the place of the value.
        say: the sentences of the agent.
        options: words for common options of fields, by the name of the option.
        texts: the first word for a weekday or a unit, by key.
    """

    name: str
    decimal: str
    group: str
    day_first: frozenset[str]
    clock: int
    week_starts: str
    phrases: dict[str, Phrases]
    patterns: dict[str, list[tuple[str, Pattern, frozenset[str] | None]]]
    numbers: dict[str, int]
    ordinals: dict[tuple[str, ...], int]
    endings: frozenset[str]
    special: dict[str, frozenset[tuple[str, ...]]]
    labels: dict[str, tuple[str, ...]]
    typos: dict[str, int]
    say: dict[str, str]
    texts: dict[str, str]
    options: dict[str, tuple[str, ...]]
    code: str = ""
    known: frozenset[str] | None = None

    def text(self, key: str, **values: Any) -> str:
        """Return a sentence of the agent."""
        return self.say[key].format(**values)

    def vocabulary(self, *tables: str) -> frozenset[str]:
        """Return the single words of plain tables."""
        return frozenset(word for table in tables for phrase in self.phrases[table] for word in phrase)


@functools.cache
def words_of(language: str) -> Words:
    """Return the words of a language.

    Args:
        language: code of a language of this package, or the path of a language file (``….toml``).

    Raises:
        InvalidInput: there is no such language, or its file is wrong; the message is one line.
    """
    if language in LANGUAGES:
        return checked(resources.files("asterism.words.reading").joinpath(f"{language}.toml").read_bytes(), f"{language}.toml", language)
    if not language.endswith(".toml"):
        raise InvalidInput(
            f"there is no language {language!r}; there are {', '.join(LANGUAGES)}, or write the path of a language file (.toml)"
        )
    try:
        raw = Path(language).read_bytes()
    except OSError as error:
        raise InvalidInput(f"{language}: {error.strerror or error}") from None
    return checked(raw, language, "")


def checked(raw: bytes, where: str, code: str = "") -> Words:
    """Return the words of a language file.

    Raises:
        InvalidInput: the file is wrong; the message has the table, the key and the reason.
    """
    if len(raw) > MAX_FILE_BYTES:
        raise InvalidInput(f"{where}: a language file has at most {MAX_FILE_BYTES:,} bytes")
    try:
        data = tomllib.loads(raw.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidInput(f"{where}: {' '.join(str(error).split())}") from None
    return _File(where, data).words(code)


class _File:
    """A language file while it is checked."""

    def __init__(self, where: str, data: dict[str, Any]) -> None:
        self.where, self.data = where, data

    def wrong(self, place: str, why: str) -> InvalidInput:
        return InvalidInput(f"{self.where}: {place}: {why}")

    def words(self, code: str) -> Words:
        known = {
            "name",
            "code",
            "decimal",
            "group",
            "day_first",
            "clock",
            "week_starts",
            "numbers",
            "ordinals",
            "say",
            "labels",
            "options",
            *GRAMMARS,
            *PHRASES,
        }
        for table in sorted(self.data.keys() - known):
            raise self.wrong(table, f"no such table or key; there are {', '.join(sorted(known))}")
        for table, keys in REQUIRED.items():
            for key in keys:
                if key not in self.table(table):
                    raise self.wrong(f"{table}.{key}", "is missing")
        numbers = self.table("numbers")
        words = self.list_of("numbers", "words")
        special = [key for key in numbers if key not in ("words", "typos")]
        return Words(
            name=self.text("name"),
            decimal=self.text("decimal"),
            group=self.text("group"),
            day_first=frozenset(self.data.get("day_first", {})),
            clock=24 if self.data.get("clock") == 24 else 12,  # noqa: PLR2004 - hours
            week_starts=str(self.data.get("week_starts", "")),
            phrases={table: self.plain(table) for table in PHRASES},
            patterns={table: self.grammar(table) for table in GRAMMARS},
            numbers={spelt: index for index, word in enumerate(words) for spelt in spellings(word)},
            ordinals={phrase: index for index, word in enumerate(self.list_of("ordinals", "words"), 1) for phrase in self.phrase(word)},
            endings=frozenset(fold(ending) for ending in self.list_of("ordinals", "endings")),
            special={
                key: frozenset(it for text in self.list_of(table, key) for it in self.phrase(text))
                for table, keys in (("numbers", special), ("acts", PLAIN_ACTS))
                for key in keys
                if key in REQUIRED["acts"] or key in self.table(table)
            },
            typos={fold(word): int(value) for word, value in numbers.get("typos", {}).items()},
            labels={key: tuple(self.list_of("labels", key)) for key in self.table("labels")},
            options={key: tuple(self.list_of("options", key)) for key in self.table("options")},
            say=self.sentences(),
            texts={key: self.list_of(table, key)[0].capitalize() for table in ("weekdays", "units") for key in self.table(table)},
            code=code or str(self.data.get("code", "")),
        )

    def table(self, name: str) -> dict[str, Any]:
        found = self.data.get(name, {})
        if not isinstance(found, dict):
            raise self.wrong(name, "is a table")
        return found

    def text(self, key: str) -> str:
        found = self.data.get(key)
        if not isinstance(found, str) or not found:
            raise self.wrong(key, "is a text")
        return found

    def list_of(self, table: str, key: str) -> list[str]:
        found = self.table(table).get(key)
        if not isinstance(found, list) or not all(isinstance(it, str) and it.strip() for it in found):
            raise self.wrong(f"{table}.{key}", "is a list of phrases")
        return found

    def phrase(self, text: str) -> list[tuple[str, ...]]:
        return list(dict.fromkeys(tuple(token.low for token in tokens(spelt)) for spelt in spellings(text)))

    def plain(self, table: str) -> Phrases:
        found: Phrases = {}
        for key in self.table(table):
            for text in self.list_of(table, key):
                for phrase in self.phrase(text):
                    found.setdefault(phrase, key) if table != "words" else found.setdefault((*phrase, key), key)
        return found

    def grammar(self, table: str) -> list[tuple[str, Pattern, frozenset[str] | None]]:
        found = []
        for key in self.table(table):
            for text in self.list_of(table, key) if key not in PLAIN_ACTS else ():
                try:
                    pattern = compiled(text, SLOTS)
                except ValueError as error:
                    raise self.wrong(f"{table}.{key}", str(error)) from None
                found.append((key, pattern, first_words(pattern)))
        return found

    def sentences(self) -> dict[str, str]:
        found = self.table("say")
        own = found if self.where == "en.toml" else words_of("en").say
        for key, text in found.items():
            if not isinstance(text, str) or key not in own:
                raise self.wrong(f"say.{key}", "no such sentence" if isinstance(text, str) else "is a text")
            if set(re.findall(r"\{(\w+)\}", text)) - set(re.findall(r"\{(\w+)\}", own[key])):
                raise self.wrong(f"say.{key}", f"its slots are those of {own[key]!r}")
        return {**own, **found}
