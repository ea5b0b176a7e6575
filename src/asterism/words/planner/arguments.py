"""Assign the values of a clause to a skill's parameters.

A parameter name next to the value decides; otherwise its type, if only one parameter fits. A value
that fits none or several is left over, and the caller refuses the clause: nothing is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asterism.constellation.language.stems import words
from asterism.constellation.language.tokens import Token
from asterism.constellation.language.vocabulary import DETERMINERS, DEVICE_PREPOSITIONS, FALSE_WORDS, FILLERS, PARAMETER_LINKS, TRUE_WORDS
from asterism.engine.kernel.profile import JsonSchema, Skill

_TARGET_PREPOSITIONS = frozenset({"into", "to", "as", "onto", "called", "named"})
_TARGET_NAMES = frozenset(words("target destination dest output out to into dst name"))
_SOURCE_NAMES = frozenset(words("source src input folder directory dir path file model from origin archive"))
_PATH_NAMES = frozenset(words("path file folder directory dir"))
_NO_UNITS = FILLERS | DETERMINERS | DEVICE_PREPOSITIONS | {"and"}
"""Words that may follow a number which counts nothing."""
_FARTHEST_PREPOSITION = 4


class Arguments:
    """The arguments that a clause gives to a skill, by the tokens that name no device.

    ``inputs`` has them by name; ``unplaced`` the values that fit no parameter, as written. With ``is_of_list``, the clause is
    one of several with the same path, which is placed only by its name: each would write the same file.
    """

    def __init__(self, skill: Skill, tokens: Sequence[Token], *, is_of_list: bool = False) -> None:
        self.inputs: dict[str, Any] = {}
        self.unplaced: list[str] = []
        self._skill = skill
        self._tokens = tokens
        self._is_of_list = is_of_list
        self._fill()

    def _fill(self) -> None:
        tokens = self._tokens
        open_values: list[int] = []
        for index, token in enumerate(tokens):
            if token.kind == "operator" and token.text in {"=", "=="} and index + 1 < len(tokens) and not tokens[index + 1].is_value:
                if not self._put(self._named_before(index), index + 1):  # a word after an equals sign, as in "shuffle = yes"
                    self.unplaced.append(" ".join(token.text for token in tokens[max(0, index - 1) : index + 2]))
            elif token.is_value and not self._fill_by_name(index):
                open_values.append(index)
        paths = [index for index in open_values if tokens[index].kind == "path" and not self._is_of_list]
        if len(paths) == 1 and "*" not in tokens[paths[0]].text and self._put(self._only_path(), paths[0]):
            open_values.remove(paths[0])
        numbers = [index for index in open_values if tokens[index].kind == "number"]
        for index in open_values:
            if index in numbers:
                name = self._only_number(index) if len(numbers) == 1 else ""
            else:
                name = self._only_text(index, alone=len(open_values) - len(numbers) == 1)
            if not self._put(name, index):
                self.unplaced.append(tokens[index].text)

    @property
    def _free(self) -> list[str]:
        """Return the names of the parameters without an argument."""
        return [name for name in self._skill.parameter_names() if name not in self.inputs]

    def _schema(self, name: str) -> JsonSchema:
        schema = self._skill.parameters["properties"][name]
        return schema if isinstance(schema, dict) else {}

    def _put(self, name: str, index: int) -> bool:
        """Set a parameter to a value, if it is free and the value fits; "" names no parameter."""
        converted = _convert(self._tokens[index], self._schema(name)) if name in self._free else []
        if converted:
            self.inputs[name] = converted[0]
        return bool(converted)

    def _fill_by_name(self, index: int) -> bool:
        before = self._named_before(index)
        if before and self._goes_to(index) and class_of(before) == "source" and "target" in map(class_of, self._skill.parameter_names()):
            before = ""  # "to the folder ./backup": the folder is the target
        countable = self._tokens[index].kind in {"number", "odd"}
        return self._put(before, index) or (countable and self._put(self._named_after(index), index))

    def _named_before(self, index: int) -> str:
        """Return the parameter named right before a value, skipping links ("of", "=")."""
        position = index - 1
        while position >= 0 and self._tokens[position].text.lower() in PARAMETER_LINKS and index - position <= _FARTHEST_PREPOSITION:
            position -= 1
        spoken: list[str] = []
        for token in reversed(self._tokens[max(0, position - 3) : position + 1]):
            if token.kind != "word":
                break
            spoken += reversed(words(token.text))
        return self._best_named({name: words(name)[::-1] for name in self._free}, spoken)

    def _named_after(self, index: int) -> str:
        """Return the parameter named right after a value, as in "200 samples"."""
        spoken: list[str] = []
        for token in self._tokens[index + 1 : index + 5]:
            if token.kind != "word":
                break
            spoken += [] if not spoken and token.low == "of" else words(token.text)
        return self._best_named({name: words(name) for name in self._free}, spoken)

    @staticmethod
    def _best_named(names: dict[str, list[str]], spoken: Sequence[str]) -> str:
        """Return the name that fits best; empty for none or a tie.

        A full match scores twice its length; a name with the first spoken word scores 1.
        """
        fits = {
            name: len(stems) * 2 if spoken[: len(stems)] == stems else int(bool(spoken) and spoken[0] in stems)
            for name, stems in names.items()
        }
        best = max(fits.values(), default=0)
        found = [name for name, fit in fits.items() if fit == best]
        return found[0] if best and len(found) == 1 else ""

    def _goes_to(self, index: int) -> bool:
        """Return True for a value introduced as a destination: "into", "to the file"."""
        for token in reversed(self._tokens[max(0, index - _FARTHEST_PREPOSITION) : index]):
            if token.low in _TARGET_PREPOSITIONS:
                return True
            if token.kind != "word" or token.low in DEVICE_PREPOSITIONS | {"of", "and"}:
                return False
        return False

    def _only_path(self) -> str:
        """Return the only parameter for a path of a skill that takes no other path."""
        named = [name for name in self._skill.parameter_names() if set(words(name)) & _PATH_NAMES or class_of(name)]
        return named[0] if len(named) == 1 and set(words(named[0])) & _PATH_NAMES else ""

    def _only_text(self, index: int, *, alone: bool) -> str:
        """Return the only parameter for a text, or, if the text is ``alone``, the only required one."""
        goes_to = self._goes_to(index)
        free = [name for name in self._free if "string" in (_types(self._schema(name)) or {"string"})]
        wanted = [name for name in free if class_of(name) != ("source" if goes_to else "target")]
        if goes_to:
            wanted = [name for name in wanted if class_of(name) == "target"] or wanted
        required = [name for name in wanted if name in self._skill.required_names()]
        if alone and len(wanted) > 1 and len(required) == 1:
            wanted = required
        return wanted[0] if len(wanted) == 1 else ""

    def _only_number(self, index: int) -> str:
        """Return the only numeric parameter.

        Return "" if the number counts something else: "train 10 models" does not mean 10 epochs.
        """
        following = self._tokens[index + 1] if index + 1 < len(self._tokens) else None
        if (
            following is not None
            and following.low in {"and", "or"}
            and [one.kind for one in self._tokens[index + 2 : index + 3]] == ["number"]
        ):
            return ""  # "10 and 20 epochs": a list
        if following is not None and following.kind == "word" and following.low not in _NO_UNITS:
            return ""
        schemas = {name: self._schema(name) for name in self._free}
        free = [
            name for name, schema in schemas.items() if _types(schema) & {"integer", "number"} and _convert(self._tokens[index], schema)
        ]
        return free[0] if len(free) == 1 else ""


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


def class_of(name: str) -> str:
    """Return "target" or "source" for the name of such a parameter; else an empty text."""
    parts = set(words(name))
    return "target" if parts & _TARGET_NAMES else "source" if parts & _SOURCE_NAMES else ""
