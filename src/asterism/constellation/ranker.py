"""Which skill does a text speak of? A small lexical ranker: word stems, weighted by field and by rarity.

It reads name, tags, examples, description, parameter names and result fields. It knows no language beyond
a few suffixes and a short table of verbs that mean the same; what a fleet calls its skills is the authority.
The same input gives the same list, ties in the order given. Not here: whether a match is good enough to act
on for a request in words (that is ``asterism.planner.offline.placement``, which is stricter than ``clear_match``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from asterism.constellation.profile import Skill

VERB_KINDS = ("own", "tag", "same")
"""How a text's verb can name a skill, nearest first; see ``Ranked.by_verb``."""

CLEAR_MARGIN = 1.25
"""The best score must be this many times the next one's, or the match is not clear."""

_FIELD_WEIGHTS = {"name": 4.0, "tags": 3.0, "examples": 1.5, "description": 1.5, "parameters": 1.0, "output": 0.5}
_SAME_VERB_WEIGHT = 2.0


def word_set(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


STOP_WORDS = word_set(
    """a an and are as at be been by for from has have i in into is it its itself let me my of off on onto our out please
    so some that the their them then there these they this those to up upon us via was we were will with within you your
    using use"""
)

GENERIC_VERBS = word_set("run do perform execute start launch make create build carry kick go try begin call invoke conduct trigger")
"""Verbs that say only that something is to be done; the next word says what."""

_SAME_VERBS = tuple(
    word_set(group)
    for group in (
        "download fetch get grab pull retrieve obtain acquire",
        "train fit teach retrain",
        "evaluate assess measure score benchmark test",
        "deploy ship release publish rollout",
        "count tally enumerate",
        "archive zip pack compress bundle backup",
        "check inspect examine scan verify validate confirm",
        "delete remove erase",
        "copy duplicate",
        "move transfer",
        "list show display print",
        "convert transform",
        "summarize summarise condense",
        "send email mail",
        "clean cleanup tidy",
    )
)

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
_PHRASAL_VERBS = frozenset({("back", "up"), ("roll", "out"), ("clean", "up"), ("check", "out")})
_WORD = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")
_SHORTEST_STEM = 3
_DOUBLED = frozenset("bdgkmnprt")  # before an ending, as in "shipped"


def stem(word: str) -> str:
    """The word without its common English endings: training, trains, trained -> train."""
    word = word.lower()
    for suffix, ending in _SUFFIXES:
        kept = suffix == "s" and word.endswith(("ss", "us", "is"))
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_STEM and not kept:
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
    """Stems of the words of a text, in order; snake_case and camelCase are taken apart, "back up" is one word."""
    found: list[str] = []
    for word in _WORD.findall(_CAMEL.sub(" ", text)):
        stemmed = stem(word)
        if found and (found[-1], stemmed) in _PHRASAL_VERBS:
            found[-1] += stemmed
        else:
            found.append(stemmed)
    return found


_STOP_STEMS = frozenset(map(stem, STOP_WORDS))
_GENERIC_STEMS = frozenset(map(stem, GENERIC_VERBS))
_SAME_VERB_STEMS = tuple(frozenset(map(stem, group)) for group in _SAME_VERBS)


def same_verbs(word: str) -> frozenset[str]:
    """Stems of the verbs that mean the same as a stem, itself included."""
    return frozenset({word}).union(*(group for group in _SAME_VERB_STEMS if word in group))


def is_generic(word: str) -> bool:
    """True for the stem of a verb that says only that something is to be done."""
    return word in _GENERIC_STEMS


def is_common_verb(word: str) -> bool:
    """True for a stem that the tables here know as a verb."""
    return is_generic(word) or any(word in group for group in _SAME_VERB_STEMS)


class SkillWords(msgspec.Struct, frozen=True):
    """The stems a skill is known by.

    Attributes:
        weights: stem -> weight of the most telling field it occurs in; neighbours also as one word ("data set", "dataset").
        actions: stems that may stand where the verb stands: ``verbs``, and the tags that are not plainly nouns (a word of the
            name behind the first, of a parameter or of a result field).
        verbs: the first words of name, description and examples.
    """

    weights: dict[str, float]
    actions: frozenset[str]
    verbs: frozenset[str]


def unknown(stems: Sequence[str], known: Iterable[str]) -> list[str]:
    """The stems that are not known, where two neighbours that make one known word are."""
    known = frozenset(known)
    joined = {word for left, right in pairwise(stems) for word in (left, right) if stem(left + right) in known or left + right in known}
    return [word for word in stems if word not in known and word not in joined]


def skill_words(skill: Skill) -> SkillWords:
    """The stems of a skill's fields."""
    properties = skill.parameters.get("properties", {})
    told = [str(part.get(key, "")) for part in properties.values() if isinstance(part, dict) for key in ("description", "enum")]
    texts = {
        "name": skill.name,
        "tags": " ".join(skill.tags),
        "examples": " ".join(skill.examples),
        "description": skill.description,
        "parameters": " ".join([*properties, *told]),
        "output": " ".join(sorted(skill.output_fields() or ())),
    }
    weights: dict[str, float] = {}
    for field, text in texts.items():
        found = words(text)
        for word in (*found, *(stem(left + right) for left, right in pairwise(found))):
            weights[word] = max(weights.get(word, 0.0), _FIELD_WEIGHTS[field])
    sentences = (skill.name, skill.description, *skill.examples)
    verbs = frozenset(verb for sentence in sentences if (verb := head(words(sentence))))
    nouns = {*words(skill.name)[1:], *words(" ".join(properties)), *words(texts["output"])}
    return SkillWords(weights, verbs | frozenset(words(texts["tags"])) - nouns, verbs)


def head(stems: Sequence[str]) -> str:
    """The stem that says what is to be done: the first that is neither a stop word nor a generic verb, else a generic verb, else empty."""
    telling = [word for word in stems if word not in _STOP_STEMS]
    return next((word for word in telling if word not in _GENERIC_STEMS), telling[0] if telling else "")


class Ranked(msgspec.Struct, frozen=True):
    """One skill's standing for a text.

    Attributes:
        index: its place in the list that was ranked.
        skill: the skill.
        score: higher is nearer; 0 when no word is shared.
        by_verb: how the text's verb names the skill: "own" (it opens the skill's name, description or an example), "tag"
            (it is a tag), "same" (it means the same as one that is its own), or empty. Nearer kinds win over farther ones.
    """

    index: int
    skill: Skill
    score: float
    by_verb: str


def rank(text: str, skills: Sequence[Skill], known: Sequence[SkillWords] = ()) -> list[Ranked]:
    """All the skills, nearest first; O(words x skills). ``known`` are their ``skill_words``, for who ranks the same skills often."""
    stems = words(text)
    asked = [word for word in dict.fromkeys(stems) if word not in _STOP_STEMS]
    verb = head(stems)
    known = known or [skill_words(skill) for skill in skills]
    rarity = {word: math.log(1 + len(skills) / max(1, sum(word in one.weights for one in known))) for word in asked}
    ranked = []
    for index, (skill, one) in enumerate(zip(skills, known, strict=True)):
        score = sum(rarity[word] * one.weights.get(word, 0.0) for word in asked)
        by_verb = _by_verb(verb, one)
        if by_verb == "same":
            score += _SAME_VERB_WEIGHT
        ranked.append(Ranked(index, skill, round(score, 6), by_verb))
    return sorted(ranked, key=lambda one: -one.score)


def _by_verb(verb: str, known: SkillWords) -> str:
    if verb in known.verbs:
        return "own"
    if verb in known.actions:
        return "tag"
    return "" if known.verbs.isdisjoint(same_verbs(verb)) else "same"


def clear_winner(ranked: Sequence[Ranked]) -> Ranked | None:
    """The first, if it is ``CLEAR_MARGIN`` ahead of every skill of another name; None where nothing matches or two compete."""
    if not ranked or ranked[0].score <= 0:
        return None
    best = ranked[0]
    rival = max((one.score for one in ranked if one.skill.name != best.skill.name), default=0.0)
    return best if best.score >= CLEAR_MARGIN * rival else None


def clear_match(text: str, skills: Sequence[Skill]) -> Skill | None:
    """The one skill that a task's name and description clearly speak of, or None.

    Clear: the text has a word of what the skill does (or a verb that means the same), and no other skill comes near its score.
    """
    stems = frozenset(words(text))
    candidates = []
    for one in rank(text, skills):
        actions = skill_words(one.skill).verbs
        if not actions.isdisjoint(stems) or any(not actions.isdisjoint(same_verbs(word)) for word in stems):
            candidates.append(one)
    winner = clear_winner(candidates)
    return winner.skill if winner else None
