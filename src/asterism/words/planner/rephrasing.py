"""Rewrite spoken forms as plain imperatives: misspelt words, the passive, "after …ing", lists.

Each rewriting keeps the meaning or does not apply; what is left unread is refused by placement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from asterism.constellation.language.stems import stem, words
from asterism.constellation.language.tokens import Token
from asterism.constellation.language.vocabulary import (
    DETERMINERS,
    DEVICE_PREPOSITIONS,
    FILLERS,
    GENERIC_VERBS,
    LIST_OPENINGS,
    NAMED_RESULTS,
    NEGATIONS,
    OTHER_VERBS,
    PASSIVES,
    SYNONYMS,
)
from asterism.words.planner.mentions import FleetWords

_SHORTEST_MISSPELT = 5
"""Shorter words have too many neighbors: "mode", "move"."""
_ENGLISH = frozenset(chain(FILLERS, DETERMINERS, DEVICE_PREPOSITIONS, GENERIC_VERBS, NEGATIONS, OTHER_VERBS, *SYNONYMS))
_LONGEST_OBJECT = 12
_LONGEST_NOUN = 2


def corrected(found: Sequence[Token], fleet_words: FleetWords) -> list[Token]:
    """Correct words with one missing, doubled or swapped character.

    A word is corrected if no list knows it, and exactly one word of the fleet is that near. The
    first character must be right, and a character more or less at the end is an ending, not a slip.
    """
    return [
        Token("word", meant, token.start, token.end) if token.kind == "word" and (meant := _meant(token, fleet_words)) else token
        for token in found
    ]


def _meant(token: Token, fleet_words: FleetWords) -> str:
    low = token.low
    if len(low) < _SHORTEST_MISSPELT or not low.isalpha() or low in _ENGLISH or set(words(low)) & (fleet_words.vocabulary | _STEMS):
        return ""
    near = {word for word in fleet_words.spellings if word[0] == low[0] and _one_slip(low, word)}
    stems = {stem(word) for word in near}
    return min(near, key=lambda word: (abs(len(word) - len(low)), word)) if len(stems) == 1 else ""


_STEMS = frozenset(map(stem, _ENGLISH))


def _one_slip(left: str, right: str) -> bool:
    """Return True if a character that is missing, too much, or swapped with its neighbor is the difference.

    A substitution does not count: it is too often another word ("trail" and "train").
    """
    if abs(len(left) - len(right)) > 1 or left == right:
        return False
    at = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    rest_left, rest_right = left[at:], right[at:]
    if len(left) != len(right):
        longer, shorter = sorted((rest_left, rest_right), key=len, reverse=True)
        return longer[1:] == shorter and bool(shorter)  # a character more at the end is an ending, not a slip
    return rest_left[1::-1] == rest_right[:2] and rest_left[2:] == rest_right[2:]


def imperative(found: list[Token], fleet_words: FleetWords, auxiliaries: Iterable[tuple[str, ...]] = PASSIVES) -> list[Token]:
    """Return "the model should be evaluated on …" as "evaluated the model on …"; else the same list."""
    for index in range(1, min(len(found), _LONGEST_OBJECT)):
        if length := phrase_at(found, index, auxiliaries):
            verb = index + length
            if verb < len(found) and is_participle(found[verb], fleet_words) and not any(fleet_words.is_verb(one) for one in found[:1]):
                return [found[verb], *found[:index], *found[verb + 1 :]]
            break
    return found


def is_participle(token: Token, fleet_words: FleetWords) -> bool:
    """Return True for "trained", "downloaded": a verb of the fleet, or a common one, in the past."""
    return token.low.endswith(("ed", "t", "n")) and fleet_words.is_verb(token)


def is_gerund(found: Sequence[Token], fleet_words: FleetWords) -> bool:
    """Return True if the first token is one like "training", "downloading"."""
    return bool(found) and found[0].low.endswith("ing") and fleet_words.is_verb(found[0])


def without_named_results(found: Sequence[Token]) -> list[Token]:
    """Return the tokens with "it" for "what comes out of it"."""
    rewritten: list[Token] = []
    position = 0
    while position < len(found):
        if length := phrase_at(found, position, NAMED_RESULTS):
            rewritten.append(Token("word", "it", found[position].start, found[position + length - 1].end))
            position += length
        else:
            token = found[position]
            against = token.low == "against" and position + 1 < len(found)
            rewritten.append(Token("word", "on", token.start, token.end) if against else token)
            position += 1
    return rewritten


def repeated(found: Sequence[Token], fleet_words: FleetWords) -> list[tuple[int, list[Token]]]:
    """Return the request in parts: a sentence "for each of A and B, …" once for A and once for B.

    Each part comes with the number of its value, from 1, or 0 for a part without a list.
    """
    parts: list[tuple[int, list[Token]]] = []
    for sentence in _sentences(found):
        length = phrase_at(sentence, 0, LIST_OPENINGS)
        values, beyond = _values(sentence, length)
        noun: list[Token] = []
        while values and beyond < len(sentence) and len(noun) < _LONGEST_NOUN and sentence[beyond].kind == "word":
            if fleet_words.is_verb(sentence[beyond]):
                break
            noun.append(sentence[beyond])
            beyond += 1
        rest = sentence[beyond:]
        if not length or len(values) < 2 or not rest:  # noqa: PLR2004 - a list has two values or more
            parts.append((0, sentence))
            continue
        parts += [(number, with_value(rest, [value, *noun], always=True)) for number, value in enumerate(values, 1)]
    return parts


def _sentences(found: Sequence[Token]) -> list[list[Token]]:
    sentences: list[list[Token]] = [[]]
    for token in found:
        sentences[-1].append(token)
        if token.kind == "mark" and token.text in "\n;.!?":
            sentences.append([])
    return [sentence for sentence in sentences if sentence]


def _values(sentence: Sequence[Token], start: int) -> tuple[list[Token], int]:
    """Return the values of the list that starts here, and the position after it."""
    values: list[Token] = []
    position = start
    while position < len(sentence) and (sentence[position].is_value or (values and sentence[position].text.lower() in {",", "and"})):
        if sentence[position].is_value:
            values.append(sentence[position])
        elif not any(token.is_value for token in sentence[position + 1 : position + 3]):
            break
        position += 1
    return values, position


def with_value(rest: Sequence[Token], value: Sequence[Token], *, always: bool = False) -> list[Token]:
    """Return the tokens with the value for the first "it"; without one, ``always`` adds it to the first clause."""
    start = 1 if rest[0].kind == "mark" else 0
    at = next((index for index, token in enumerate(rest) if token.low in {"it", "them", "this", "that"}), None)
    if at is not None:
        return [*rest[start:at], *_placed(value, rest[at].start, rest[at].end), *rest[at + 1 :]]
    if not always:
        return list(rest)
    end = next((index for index, token in enumerate(rest) if index > start and (token.kind == "mark" or token.low == "and")), len(rest))
    return [*rest[start:end], *_placed(value, rest[end - 1].end, rest[end - 1].end), *rest[end:]]


def _placed(found: Sequence[Token], start: int, end: int) -> list[Token]:
    return [Token(token.kind, token.text, start, end) for token in found]


def phrase_at(found: Sequence[Token], position: int, *tables: Iterable[tuple[str, ...]]) -> int:
    """Return the length of the first phrase of the tables, each longest first, found here; else 0."""
    for phrase in chain(*tables):
        near = found[position : position + len(phrase)]
        if tuple(token.low for token in near) == phrase:
            return len(phrase)
    return 0
