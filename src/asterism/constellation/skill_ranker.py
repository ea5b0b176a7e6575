"""Which skill does a text speak of? A small lexical ranker: word stems, weighted by field and by rarity.

It reads name, tags, examples, description, parameter names and result fields. What a fleet calls its skills is the authority;
``asterism.language`` knows which verbs mean the same. The same input gives the same list, ties in the order given. Not here:
whether a match is good enough to act on for a request in words (that is ``asterism.planner.offline.placement``, which is stricter
than ``clear_match``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from asterism.constellation.profile import Skill
from asterism.language.stems import STOP_STEMS, head, same_verbs, stem, words

VERB_KINDS = ("own", "tag", "same")
"""How a text's verb can name a skill, nearest first; see ``Ranked.by_verb``."""

CLEAR_MARGIN = 1.25
"""The best score must be this many times the next one's, or the match is not clear."""

_FIELD_WEIGHTS = {"name": 4.0, "tags": 3.0, "examples": 1.5, "description": 1.5, "parameters": 1.0, "output": 0.5}
_SAME_VERB_WEIGHT = 2.0


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
    asked = [word for word in dict.fromkeys(stems) if word not in STOP_STEMS]
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
