"""Index the words that name a fleet's verbs, parameters and devices, and find devices in a request.

A device is named by id, alias or spoken form ("GPU server").
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from asterism.constellation.language.stems import is_common_verb, words
from asterism.constellation.language.tokens import Token, name_parts
from asterism.constellation.language.vocabulary import (
    DETERMINERS,
    DEVICE_CAUSATIVES,
    DEVICE_NOUNS,
    DEVICE_PREPOSITIONS,
    FILLERS,
    NAMING_PREPOSITIONS,
    OTHER_VERBS,
    PRONOUNS,
)
from asterism.constellation.model.skill_ranker import SkillWords, skill_words
from asterism.engine.kernel.profile import Fleet, Skill

_ENDING_PHRASE = DEVICE_PREPOSITIONS | {"and"}
_LONGEST_NAME = 8
_LONGEST_PHRASE = 6


class Mention(msgspec.Struct, frozen=True):
    """A part of a clause that names a device.

    Attributes:
        start, end: token indexes, including the preposition.
        devices: the devices that it can mean; more than one if it is ambiguous.
    """

    start: int
    end: int
    devices: tuple[str, ...]


def _spellings(skill: Skill) -> set[str]:
    """Return the words of a skill as they are written: of its name, tags, examples, parameters and result."""
    texts = (skill.name, *skill.tags, *skill.examples, *skill.parameter_names(), *(skill.output_fields() or ()))
    return {part for text in texts for part in name_parts(text) if part.isalpha()}


class FleetWords(msgspec.Struct, frozen=True):
    """A fleet, indexed by its words; built once for a request.

    ``skills`` holds all skills with their device and words, in fleet order; ``vocabulary`` all
    stems and ``spellings`` the words that people write for them.
    """

    fleet: Fleet
    skills: tuple[tuple[str, Skill, SkillWords], ...]
    vocabulary: frozenset[str]
    names: dict[tuple[str, ...], tuple[str, ...]]
    hints: dict[str, frozenset[str]]
    verbs: frozenset[str]
    tags: frozenset[str]
    parameters: frozenset[tuple[str, ...]]
    spellings: frozenset[str]

    @classmethod
    def of(cls, fleet: Fleet) -> FleetWords:
        """Index a fleet."""
        names: dict[tuple[str, ...], tuple[str, ...]] = {}
        for device_id, profile in fleet.items():
            for name in (device_id, *profile.aliases):
                spoken = tuple(part for index, part in enumerate(name_parts(name)) if index or part not in DETERMINERS)[:_LONGEST_NAME]
                if spoken:
                    names[spoken] = tuple(dict.fromkeys((*names.get(spoken, ()), device_id)))
        skills = tuple((device_id, skill, skill_words(skill)) for device_id, profile in fleet.items() for skill in profile.skills)
        known = [one for _, _, one in skills]
        return cls(
            fleet=fleet,
            skills=skills,
            vocabulary=frozenset[str]().union(*(one.weights for one in known)),
            names=names,
            hints={
                device_id: frozenset(part for text in (device_id, *profile.aliases, *profile.capabilities) for part in name_parts(text))
                for device_id, profile in fleet.items()
            },
            verbs=frozenset[str]().union(*(one.verbs for one in known)),
            tags=frozenset[str]().union(*(one.actions for one in known)),
            parameters=frozenset(tuple(words(name)) for _, skill, _ in skills for name in skill.parameter_names()),
            spellings=frozenset(word for _, skill, _ in skills for word in _spellings(skill)),
        )

    def is_verb(self, token: Token) -> bool:
        """Return True for a word that can open a clause."""
        stems = words(token.text) if token.kind == "word" else []
        return bool(stems) and (stems[0] in self.verbs or is_common_verb(stems[0]) or token.low in OTHER_VERBS)

    def opens_clause(self, tokens: Sequence[Token], position: int) -> bool:
        """Return True if an imperative seems to begin here.

        It begins with a verb, a tag used as one, or "on <device>" and then one of these.
        """
        if position >= len(tokens):
            return False
        token = tokens[position]
        if self.is_verb(token):
            return True
        following = tokens[position + 1] if position + 1 < len(tokens) else None
        stems = words(token.text) if token.kind == "word" else []
        if stems and stems[0] in self.tags and following is not None:
            return following.is_value or following.low in DETERMINERS | PRONOUNS | DEVICE_PREPOSITIONS
        near = tokens[position : position + _LONGEST_NAME + _LONGEST_PHRASE]
        mention = next((one for one in self.mentions(near) if one.start == 0), None) if token.low in DEVICE_PREPOSITIONS else None
        return mention is not None and mention.end < len(near) and self.opens_clause(near[mention.end :], 0)

    def mentions(self, tokens: Sequence[Token]) -> list[Mention]:
        """Return the mentions of devices in a clause, in order."""
        found: list[Mention] = []
        position = 0
        while position < len(tokens):
            mention = self._exact(tokens, position) or self._partial(tokens, position)
            if mention is not None:
                found.append(mention)
                position = mention.end
            else:
                position += 1
        return found

    def _exact(self, tokens: Sequence[Token], position: int) -> Mention | None:
        """Return a full name after a preposition, at the clause's start, or of several words."""
        start = position
        if tokens[start].low in DEVICE_PREPOSITIONS | DEVICE_CAUSATIVES:
            start += 1
        while start < len(tokens) and tokens[start].low in DETERMINERS:
            start += 1
        end, devices, length = self._longest_name(tokens, start)
        if not devices:
            return None
        introduced = start > position and tokens[position].low not in DETERMINERS
        if not introduced and position > 0 and length == 1:
            return None
        while introduced and end < len(tokens) and tokens[end].low in DEVICE_NOUNS:
            end += 1
        return Mention(position, end, devices)

    def _longest_name(self, tokens: Sequence[Token], start: int) -> tuple[int, tuple[str, ...], int]:
        spoken: tuple[str, ...] = ()
        best: tuple[int, tuple[str, ...], int] = (start, (), 0)
        for end in range(start, min(len(tokens), start + _LONGEST_NAME)):
            if tokens[end].kind not in {"word", "path", "odd"} and not (spoken and tokens[end].kind == "number"):
                break
            spoken += name_parts(tokens[end].text)
            if spoken in self.names and (tokens[end].kind != "path" or end == start):
                best = (end + 1, self.names[spoken], len(spoken))
        return best

    def _partial(self, tokens: Sequence[Token], position: int) -> Mention | None:
        """Return a partial name, as in "on the GPU", "to the test machine".

        It has only words of the device's names and capabilities, and nouns for devices.
        """
        if tokens[position].low not in NAMING_PREPOSITIONS:
            return None
        start = position + 1
        while start < len(tokens) and tokens[start].low in DETERMINERS:
            start += 1
        end = start
        while end < min(len(tokens), start + _LONGEST_PHRASE) and tokens[end].kind == "word" and tokens[end].low not in _ENDING_PHRASE:
            end += 1
        while end > start and tokens[end - 1].low in FILLERS - DEVICE_NOUNS:
            end -= 1
        bare_verb = tokens[position].low == "to" and start == position + 1 and end > start and self.is_verb(tokens[start])
        spoken = [part for token in tokens[start:end] for part in name_parts(token.text)]
        distinctive = [part for part in spoken if part not in DEVICE_NOUNS] or spoken
        devices = tuple(device for device, hints in self.hints.items() if distinctive and hints.issuperset(distinctive))
        return Mention(position, end, devices) if devices and not bare_verb else None
