"""Stems of English words, so that "training" and "trains" are one word, and synonymous verbs.

It knows a few suffixes and the verbs of ``vocabulary``, but no grammar.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from asterism.constellation.language.tokens import name_parts
from asterism.constellation.language.vocabulary import GENERIC_VERBS, PHRASAL_VERBS, STOP_WORDS, SYNONYMS

_SUFFIXES = (
    ("ifications", "ify"),
    ("ification", "ify"),
    ("ies", "y"),
    ("ied", "y"),
    ("ations", "ate"),
    ("ation", "ate"),
    ("ators", "ate"),
    ("ator", "ate"),
    ("ments", ""),
    ("ment", ""),
    ("ings", ""),
    ("ing", ""),
    ("ed", ""),
    ("es", ""),
    ("s", ""),
)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")
_SHORTEST_STEM = 3
_DOUBLED = frozenset("bdgkmnprt")  # before an ending, as in "shipped"


def stem(word: str) -> str:
    """Return the word without its common English endings: training, trains, trained -> train."""
    word = word.lower()
    for suffix, ending in _SUFFIXES:
        is_no_plural = suffix == "s" and word.endswith(("ss", "us", "is"))
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_STEM and not is_no_plural:
            word = word[: -len(suffix)] + ending
            if len(word) > _SHORTEST_STEM and word[-1] == word[-2] and word[-1] in _DOUBLED:
                word = word[:-1]
            break
    if len(word) > _SHORTEST_STEM and word.endswith("e"):
        word = word[:-1]
    if len(word) > _SHORTEST_STEM and word.endswith("y"):
        word = word[:-1] + "i"
    return word


def words(text: str) -> list[str]:
    """Return the stems of a text's words in order.

    Names in snake_case and camelCase are split; "back up" is one word.
    """
    found: list[str] = []
    for word in name_parts(_CAMEL.sub(" ", text)):
        stemmed = stem(word)
        if found and (found[-1], stemmed) in PHRASAL_VERBS:
            found[-1] += stemmed
        else:
            found.append(stemmed)
    return found


STOP_STEMS = frozenset(map(stem, STOP_WORDS))
_GENERIC_STEMS = frozenset(map(stem, GENERIC_VERBS))
_SYNONYM_STEMS = tuple(frozenset(map(stem, group)) for group in SYNONYMS)


def same_verbs(word: str) -> frozenset[str]:
    """Return the stems of the verbs that are synonyms of a stem, and the stem itself."""
    return frozenset({word}).union(*(group for group in _SYNONYM_STEMS if word in group))


def is_generic(word: str) -> bool:
    """Return True for the stem of a verb such as "run", which does not say what to do."""
    return word in _GENERIC_STEMS


def is_common_verb(word: str) -> bool:
    """Return True for the stem of a generic verb, or of a verb with synonyms."""
    return is_generic(word) or any(word in group for group in _SYNONYM_STEMS)


def unknown(stems: Sequence[str], known: Iterable[str]) -> list[str]:
    """Return the stems that are not known; two neighbors that join to a known word are known."""
    known = frozenset(known)
    joined = {word for left, right in pairwise(stems) for word in (left, right) if stem(left + right) in known or left + right in known}
    return [word for word in stems if word not in known and word not in joined]


def head(stems: Sequence[str]) -> str:
    """Return the stem that says what to do: the first that is no stop word and no generic verb.

    Without one, return the first generic verb, else an empty text.
    """
    content = [word for word in stems if word not in STOP_STEMS]
    return next((word for word in content if word not in _GENERIC_STEMS), content[0] if content else "")
