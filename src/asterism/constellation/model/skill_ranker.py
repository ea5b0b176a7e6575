"""A small lexical ranker of skills for a text, by word stems weighted by field and rarity.

It reads name, tags, examples, description, parameter names and result fields. A fleet's own names
take precedence; ``asterism.constellation.language`` adds synonymous verbs. The result is deterministic, with ties
in the given order. The offline planner decides more strictly than ``clear_match`` if a match is
good enough (``asterism.words.planner.placement``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from asterism.constellation.language.stems import STOP_STEMS, head, same_verbs, stem, words
from asterism.engine.kernel.profile import Skill

VERB_KINDS = ("own", "tag", "same")
"""Relations of a text's verb to a skill, nearest first; see ``Ranked.by_verb``."""

CLEAR_MARGIN = 1.25
"""Ratio of the best score to the next one from which a match is clear."""

_FIELD_WEIGHTS = {"name": 4.0, "tags": 3.0, "examples": 1.5, "description": 1.5, "parameters": 1.0, "output": 0.5}
_SAME_VERB_WEIGHT = 2.0


class SkillWords(msgspec.Struct, frozen=True):
    """The stems of a skill.

    Attributes:
        weights: stem -> weight of the strongest field it occurs in; two neighbors also count as
            one word ("data set", "dataset").
        actions: stems that can stand for the verb: ``verbs`` and the tags, except plain nouns
            (later words of the name, words of parameters and result fields).
        verbs: first words of name, description and examples.
    """

    weights: dict[str, float]
    actions: frozenset[str]
    verbs: frozenset[str]


def skill_words(skill: Skill) -> SkillWords:
    """Return the stems of a skill's fields."""
    properties = skill.parameters.get("properties", {})
    documented = [str(part.get(key, "")) for part in properties.values() if isinstance(part, dict) for key in ("description", "enum")]
    texts = {
        "name": skill.name,
        "tags": " ".join(skill.tags),
        "examples": " ".join(skill.examples),
        "description": skill.description,
        "parameters": " ".join([*properties, *documented]),
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
    """The rank of one skill for a text.

    Attributes:
        index: its index in the ranked list of skills.
        score: higher is nearer; 0 if no word is shared.
        by_verb: relation of the text's verb to the skill: "own" (it opens the name, description or
            an example), "tag" (it is a tag), "same" (it is a synonym of an own verb), or empty.
    """

    index: int
    skill: Skill
    score: float
    by_verb: str


def rank(text: str, skills: Sequence[Skill], known: Sequence[SkillWords] = ()) -> list[Ranked]:
    """Return all skills, nearest first; O(words x skills).

    ``known`` are their ``skill_words``, for callers that rank the same skills often.
    """
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
    """Return the first skill if it is ``CLEAR_MARGIN`` times ahead of other names, else None."""
    if not ranked or ranked[0].score <= 0:
        return None
    best = ranked[0]
    rival = max((one.score for one in ranked if one.skill.name != best.skill.name), default=0.0)
    return best if best.score >= CLEAR_MARGIN * rival else None


def clear_match(text: str, skills: Sequence[Skill]) -> Skill | None:
    """Return the one skill that clearly matches a task's name and description, or None.

    A match is clear if the text has a verb of the skill (or a synonym), and no other skill comes
    near its score.
    """
    meant = frozenset[str]().union(*map(same_verbs, words(text)))
    known = [skill_words(skill) for skill in skills]
    candidates = [one for one in rank(text, skills, known) if not known[one.index].verbs.isdisjoint(meant)]
    winner = clear_winner(candidates)
    return winner.skill if winner else None
