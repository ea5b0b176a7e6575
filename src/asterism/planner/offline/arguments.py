"""Assign the values of a clause to a skill's parameters.

A parameter name next to the value decides; otherwise its type, if only one parameter fits. A value
that fits none or several is left over, and the caller refuses the clause: nothing is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from asterism.constellation.profile import JsonSchema, Skill
from asterism.language.stems import words
from asterism.language.tokens import Token
from asterism.language.vocabulary import DETERMINERS, DEVICE_PREPOSITIONS, FALSE_WORDS, FILLERS, PARAMETER_LINKS, TRUE_WORDS

_TARGET_PREPOSITIONS = frozenset({"into", "to", "as", "onto", "called", "named"})
_TARGET_NAMES = frozenset(words("target destination dest output out to into dst name"))
_SOURCE_NAMES = frozenset(words("source src input folder directory dir path file model from origin archive"))
_FARTHEST_PREPOSITION = 4


class Filled(msgspec.Struct):
    """The arguments that a clause gives to a skill.

    Attributes:
        inputs: arguments by name.
        unplaced: values that fit no parameter, as written.
    """

    inputs: dict[str, Any]
    unplaced: list[str]


def fill(skill: Skill, tokens: Sequence[Token]) -> Filled:
    """Fill a skill's parameters from the tokens of a clause that name no device."""
    filled = Filled({}, [])
    open_values: list[int] = []
    for index, token in enumerate(tokens):
        if token.kind == "operator" and token.text in {"=", "=="} and index + 1 < len(tokens) and not tokens[index + 1].is_value:
            _fill_word(skill, tokens, index, filled)
        elif token.is_value and not _fill_by_name(skill, tokens, index, filled):
            open_values.append(index)
    numbers = [index for index in open_values if tokens[index].kind == "number"]
    for index in open_values:
        if index in numbers:
            name = _only_number(skill, tokens, index, filled) if len(numbers) == 1 else ""
        else:
            name = _only_text(skill, tokens, index, filled, alone=len(open_values) - len(numbers) == 1)
        if not name or not _put(skill, name, tokens[index], filled):
            filled.unplaced.append(tokens[index].text)
    return filled


def _schema(skill: Skill, name: str) -> JsonSchema:
    schema = skill.parameters.get("properties", {}).get(name, {})
    return schema if isinstance(schema, dict) else {}


def _types(schema: JsonSchema) -> frozenset[str]:
    """Return the JSON types that a schema allows; empty for any."""
    declared = schema.get("type")
    if isinstance(declared, str):
        return frozenset({declared})
    if isinstance(declared, list):
        return frozenset(declared)
    options = [option for key in ("anyOf", "oneOf") for option in schema.get(key, ()) if isinstance(option, dict)]
    return frozenset[str]().union(*(_types(option) for option in options))


def _convert(token: Token, schema: JsonSchema) -> list[Any]:
    """Return the value as a schema's type, in a list; an empty list if it does not fit."""
    types = _types(schema)
    found: list[Any] = []
    if token.kind == "number":
        number = token.number()
        whole = number == number.to_integral_value() and not token.text.endswith("%")
        if whole and (not types or "integer" in types or ("number" in types and "." not in token.text)):
            found = [int(number)]
        elif not types or "number" in types:
            found = [float(number)]
        elif "string" in types:
            found = [token.text]
    elif token.kind == "word" and token.low in TRUE_WORDS | FALSE_WORDS and "boolean" in types:
        found = [token.low in TRUE_WORDS]
    elif not types or "string" in types:
        found = [token.text]
    allowed = schema.get("enum")
    return [value for value in found if not isinstance(allowed, list) or value in allowed]


def _put(skill: Skill, name: str, token: Token, filled: Filled) -> bool:
    converted = _convert(token, _schema(skill, name))
    if converted and name not in filled.inputs:
        filled.inputs[name] = converted[0]
        return True
    return False


def _fill_word(skill: Skill, tokens: Sequence[Token], index: int, filled: Filled) -> None:
    """Read a word after an equals sign, as in "shuffle = yes"."""
    name = _named_before(skill, tokens, index, filled)
    if not name or not _put(skill, name, tokens[index + 1], filled):
        around = tokens[max(0, index - 1) : index + 2]
        filled.unplaced.append(" ".join(token.text for token in around))


def _fill_by_name(skill: Skill, tokens: Sequence[Token], index: int, filled: Filled) -> bool:
    before = _named_before(skill, tokens, index, filled)
    if (
        before
        and _goes_to(tokens, index)
        and _class(before) == "source"
        and any(_class(name) == "target" for name in skill.parameter_names())
    ):
        before = ""  # "to the folder ./backup": the folder is the target
    if before and _put(skill, before, tokens[index], filled):
        return True
    after = _named_after(skill, tokens, index, filled) if tokens[index].kind in {"number", "odd"} else ""
    return bool(after) and _put(skill, after, tokens[index], filled)


def _named_before(skill: Skill, tokens: Sequence[Token], index: int, filled: Filled) -> str:
    """Return the parameter named right before a value, skipping links ("of", "=")."""
    position = index - 1
    while position >= 0 and tokens[position].text.lower() in PARAMETER_LINKS and index - position <= _FARTHEST_PREPOSITION:
        position -= 1
    spoken: list[str] = []
    for token in reversed(tokens[max(0, position - 3) : position + 1]):
        if token.kind != "word":
            break
        spoken = [*words(token.text), *spoken]
    return _best_named(skill, filled, lambda name: _common(list(reversed(name)), list(reversed(spoken))))


def _named_after(skill: Skill, tokens: Sequence[Token], index: int, filled: Filled) -> str:
    """Return the parameter named right after a value, as in "200 samples"."""
    spoken: list[str] = []
    for token in tokens[index + 1 : index + 5]:
        if token.kind != "word":
            break
        spoken += [] if not spoken and token.low == "of" else words(token.text)
    return _best_named(skill, filled, lambda name: _common(name, spoken))


def _common(name: Sequence[str], spoken: Sequence[str]) -> int:
    """Return a score: twice the length for a full match, 1 if the first spoken word is in it."""
    if spoken[: len(name)] == list(name):
        return len(name) * 2
    return 1 if spoken and spoken[0] in name else 0


def _best_named(skill: Skill, filled: Filled, fit: Callable[[Sequence[str]], int]) -> str:
    """Return the unfilled parameter that fits best; empty for none or a tie."""
    fits = sorted(((fit(words(name)), name) for name in skill.parameter_names() if name not in filled.inputs), key=lambda pair: -pair[0])
    if not fits or fits[0][0] == 0 or (len(fits) > 1 and fits[1][0] == fits[0][0]):
        return ""
    return fits[0][1]


def _class(name: str) -> str:
    parts = set(words(name))
    return "target" if parts & _TARGET_NAMES else "source" if parts & _SOURCE_NAMES else ""


def _goes_to(tokens: Sequence[Token], index: int) -> bool:
    """Return True for a value introduced as a destination: "into", "to the file"."""
    for token in reversed(tokens[max(0, index - _FARTHEST_PREPOSITION) : index]):
        if token.low in _TARGET_PREPOSITIONS:
            return True
        if token.kind != "word" or token.low in DEVICE_PREPOSITIONS | {"of", "and"}:
            return False
    return False


def _only_text(skill: Skill, tokens: Sequence[Token], index: int, filled: Filled, *, alone: bool) -> str:
    free = [name for name in skill.parameter_names() if name not in filled.inputs]
    free = [name for name in free if "string" in (_types(_schema(skill, name)) or {"string"})]
    wanted = [name for name in free if (_class(name) != "source" if _goes_to(tokens, index) else _class(name) != "target")]
    if _goes_to(tokens, index) and any(_class(name) == "target" for name in wanted):
        wanted = [name for name in wanted if _class(name) == "target"]
    required = [name for name in wanted if name in skill.required_names()]
    if alone and len(wanted) > 1 and len(required) == 1:
        wanted = required
    return wanted[0] if len(wanted) == 1 else ""


def _only_number(skill: Skill, tokens: Sequence[Token], index: int, filled: Filled) -> str:
    """Return the only numeric parameter.

    Return "" if the number counts something else: "train 10 models" does not mean 10 epochs.
    """
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    if following is not None and following.kind == "word" and following.low not in FILLERS | DETERMINERS | DEVICE_PREPOSITIONS | {"and"}:
        return ""
    free = [
        name
        for name in skill.parameter_names()
        if name not in filled.inputs
        and not _types(_schema(skill, name)).isdisjoint({"integer", "number"})
        and _convert(tokens[index], _schema(skill, name))
    ]
    return free[0] if len(free) == 1 else ""
