"""Options by their names, by a word that only one of them has, or by a name with a typing error."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from asterism.words.reading.chart import Chart
from asterism.words.reading.tokens import WordToken, fold, tokens
from asterism.words.reading.values import Reading

SHORTEST_TYPO = 4
"""Characters of a word at least in which one error is looked for; two are looked for in twice as many."""
SHORTEST_ABBREVIATION = 3
"""Characters of an abbreviation at least; a single sign is an initial."""
MAX_INITIAL_WORDS = 3
"""Words of a message at most in which a single sign is an option: "L", "size L please"."""


def options_at(line: list[WordToken], at: int, options: Mapping[str, str]) -> list[Reading]:
    """Return the options that begin at a token, the longest first.

    Args:
        line: tokens of the message.
        at: the first token.
        options: names of the options by their spelling in folded words.
    """
    found = []
    for spelling, name in options.items():
        words = tuple(spelling.split())
        end, run = at, 0
        while run < len(words) and end < len(line):
            if line[end].low == words[run]:
                run += 1
            elif not (run and line[end].low in ("-", "_")):
                break
            end += 1
        if run == len(words):
            found.append(Reading(kind="option", value=name, start=at, end=end))
    return sorted(found, key=lambda it: -it.end)


def rough_options_at(chart: Chart, at: int, names: Sequence[str], known: Container[str]) -> list[Reading]:
    """Return the option that a superlative, an abbreviation or an initial means, as a guess: "the smallest", "med", "L"."""
    token, words = chart.tokens[at], chart.words
    ends: dict[str, int] = {}
    for phrase, size in words.phrases["superlatives"].items():
        if tuple(it.low for it in chart.tokens[at : at + len(phrase)]) == phrase:
            of_size = {fold(it) for it in words.options.get(size, ())}
            ends |= {name: at + len(phrase) for name in names if fold(name) in of_size}
    is_initial = len(token.low) == 1 and sum(it.kind != "mark" for it in chart.tokens) <= MAX_INITIAL_WORDS
    is_short = is_initial or (len(token.low) >= SHORTEST_ABBREVIATION and token.low not in known)
    if not ends and is_short and token.kind == "word":
        ends = {name: at + 1 for name in names if fold(name).startswith(token.low)}
    return [Reading(kind="option", value=name, start=at, end=end, sure=False) for name, end in ends.items()] if len(ends) == 1 else []


def spellings_of(names: Iterable[str]) -> dict[str, str]:
    """Return the spellings of options: their names, the names written as one word, and each word that only one of them has."""
    found: dict[str, str] = {}
    single: dict[str, set[str]] = {}
    for name in names:
        words = [it.low for it in tokens(name.replace("_", " "))]
        found[" ".join(words)] = name
        if len(words) > 1:
            found.setdefault("".join(words), name)
            for word in words:
                single.setdefault(word, set()).add(name)
    return found | {word: min(owners) for word, owners in single.items() if len(owners) == 1 and word not in found and len(word) > 2}  # noqa: PLR2004 - "of"


def corrected(word: str, known: Iterable[str]) -> str:
    """Return the only known word that differs from a word by a typing error; empty for none, or for several."""
    word = fold(word)
    if len(word) < SHORTEST_TYPO:
        return ""
    limit = 2 if len(word) >= 2 * SHORTEST_TYPO else 1
    near = {it for it in known if abs(len(it) - len(word)) <= limit and len(it) >= SHORTEST_TYPO and distance(word, it, limit) <= limit}
    if len(near) > 1:
        near = {it for it in near if distance(word, it, 1) <= 1}
    return near.pop() if len(near) == 1 else ""


def distance(one: str, two: str, limit: int) -> int:
    """Return the number of typing errors between two words: a sign more, less, other, or two exchanged; at most ``limit`` + 1."""
    if abs(len(one) - len(two)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(two) + 1))
    for i, sign in enumerate(one, 1):
        new = [i]
        for j, other in enumerate(two, 1):
            cost = min(row[j] + 1, new[j - 1] + 1, row[j - 1] + (sign != other))
            if i > 1 and j > 1 and sign == two[j - 2] and one[i - 2] == other:
                cost = min(cost, before[j - 2] + 1)
            new.append(cost)
        before, row = row, new
        if min(row) > limit:
            return limit + 1
    return min(row[-1], limit + 1)
