"""Advice for a refused request: a similar request that can be placed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from asterism.constellation.language.tokens import tokens
from asterism.engine.kernel.profile import JsonSchema, Skill
from asterism.words.planner.arguments import Arguments
from asterism.words.planner.mentions import FleetWords
from asterism.words.planner.refusal import ClauseRefused

_DANGLING = re.compile(r"^(?:[\s,;.:?!]|(?:and|then|but|so)\b)+|(?:[\s,;.:?!]|\b(?:and|then|but)\b)+$")
"""Marks and words that are left at an end when a part is left out."""
_GAP = re.compile(r"(?:\s*(?:,|;|\.|\band\b)){2,}")
MAX_TRIED = 12
"""Requests that are tried for one piece of advice."""


def advice(request: str, refusals: Sequence[ClauseRefused], fleet_words: FleetWords, is_placed: Callable[[str], bool]) -> str:
    """Return a request near the refused one that ``is_placed``, or an empty text.

    It adds a missing argument, leaves out what no skill does, or writes the nearest skill in full.
    Placeholders stand in capitals.
    """
    tried = (wording for _, wording in zip(range(MAX_TRIED), _wordings(request, refusals, fleet_words), strict=False))
    return next((wording for wording in tried if is_placed(wording)), "")


def _wordings(request: str, refusals: Sequence[ClauseRefused], fleet_words: FleetWords) -> Iterator[str]:
    skills = {f"{device}.{skill.name}": (skill, device) for device, skill, _ in fleet_words.skills}

    def of_nearest(refused: ClauseRefused) -> str:
        label = next((label for label in refused.nearest if label in skills), "")
        return _written(*skills[label], Arguments(skills[label][0], tokens(request[refused.start : refused.end])).inputs) if label else ""

    def added(refused: ClauseRefused) -> str:
        return f"{request[refused.start : refused.end]} {refused.needs} {refused.needs.upper()!r}" if refused.needs else ""

    known = [refused for refused in refusals if refused.code != "no_match"]
    if len(known) == len(refusals):
        yield _replaced(request, refusals, lambda refused: added(refused) or of_nearest(refused))
        yield _replaced(request, refusals, of_nearest)
    left_out = _replaced(request, refusals, lambda _: "")
    if 2 * len(left_out) >= len(request):
        yield left_out
    for refused in (*known, *refusals):
        yield of_nearest(refused)
    yield from (_written(skill, device, {}) for skill, device in skills.values())


def _replaced(request: str, refusals: Sequence[ClauseRefused], by: Callable[[ClauseRefused], str]) -> str:
    for refused in sorted(refusals, key=lambda one: -one.start):
        request = request[: refused.start] + by(refused) + request[refused.end :]
    return _DANGLING.sub("", _GAP.sub(",", " ".join(request.split())))


def _written(skill: Skill, device: str, given: Mapping[str, Any]) -> str:
    """Return a request for a skill with its required arguments, in the simplest words, and with the values that were given."""
    schemas: dict[str, Any] = skill.parameters.get("properties", {})
    names = [*skill.required_names(), *(name for name in given if name not in skill.required_names())]
    values = {name: _value(given[name]) if name in given else _placeholder(name, schemas.get(name, {})) for name in names}
    arguments = [f"{name} {value}" for name, value in values.items()]
    return " ".join([skill.name, *arguments, "on", device])


def _value(given: Any) -> str:
    text = str(given).replace("'", "’")
    return f"'{text}'" if isinstance(given, str) else str(given).lower()


def _placeholder(name: str, schema: JsonSchema) -> str:
    if schema.get("enum"):
        return repr(schema["enum"][0])
    return {"integer": "1", "number": "1", "boolean": "true"}.get(str(schema.get("type")), repr(name.upper()))
