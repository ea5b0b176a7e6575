"""Parameters of a plan: declared with types and defaults, filled when the plan is submitted.

A task refers to one as ``${params.name}``. The parameters of a nested plan are filled from the inputs
of its task.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from asterism.engine.kernel.data import FILE, check_json, is_file
from asterism.errors import InvalidInput, did_you_mean

ParamType = Literal["str", "int", "float", "bool", "list", "dict", "file"]
_TYPES: Mapping[str, type] = {"str": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict, "file": dict}
PLACEHOLDERS: Mapping[str, Any] = {
    "str": "",
    "int": 0,
    "float": 0.0,
    "bool": False,
    "list": [],
    "dict": {},
    "file": {FILE: f"sha256:{0:064}"},
}
"""A value of each type, for a rehearsal, which reads none."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")


class Param(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One parameter of a plan.

    Attributes:
        type: type of its value.
        default: its value where none is given; without a default, a value is required.
        description: its meaning, for people.
    """

    type: ParamType = "str"
    default: Any = msgspec.UNSET
    description: str = ""


def parse_params(value: Any, where: str = "params") -> dict[str, Param]:
    """Return parameters from JSON: ``{name: type}`` or ``{name: {type, default, description}}``.

    A program may also give Python's types, such as ``int`` or ``list[str]``, and ``Param`` objects.
    The types of the items of a list are not checked.

    Raises:
        InvalidInput: a name, a type or a default is invalid.
    """
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{where}: expected an object of names and types, got {type(value).__name__}")
    params = {}
    for name, given in value.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidInput(f"{where}: {name!r} is no name of a parameter; letters, digits, _ and -, 64 at most")
        try:
            param = msgspec.convert(_as_data(given), Param)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"{where}.{name}: {error}; a parameter has type ({', '.join(_TYPES)}), default, description") from None
        except TypeError:
            types = f"{_instead(given)}it is one of {', '.join(_TYPES)}, or a Param with one"
            raise InvalidInput(f"{where}.{name}: {given!r} is no type of a parameter; {types}") from None
        if param.default is not msgspec.UNSET:
            check_json(param.default, f"{where}.{name}.default")
            param = msgspec.structs.replace(param, default=_converted(param, param.default, f"{where}.{name}.default"))
        params[name] = param
    return params


def _as_data(given: Any) -> Any:
    match given:
        case str():
            return {"type": given}
        case Param():
            data = {name: it for name, it in msgspec.structs.asdict(given).items() if it is not msgspec.UNSET}
        case Mapping():
            data = dict(given)
        case _:
            return {"type": _name_of(given)}
    if "type" in data and not isinstance(data["type"], str):
        data["type"] = _name_of(data["type"])
    return data


def _name_of(given: Any) -> str:
    """Return the name of a type of Python's; of ``list[str]`` that of ``list``. Raises TypeError for one that no parameter has."""
    kind = typing.get_origin(given) or given
    if kind not in (str, int, float, bool, list, dict):
        raise TypeError
    return str(kind.__name__)


def _instead(given: Any) -> str:
    """Return in words that a type is written as ``str``, if its values are text in JSON, such as dates; else an empty text."""
    try:
        is_text = msgspec.json.schema(given).get("type") == "string"
    except (TypeError, RuntimeError):
        return ""
    return "write str, as its values are text in JSON; " if is_text else ""


def values_of(params: Mapping[str, Param], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of every parameter: converted, or the default.

    Raises:
        InvalidInput: a value is missing, of another type, or of an unknown name.
    """
    for name in given:
        if name not in params:
            has = f"; it has {', '.join(params)}" if params else "; it has none"
            raise InvalidInput(f"the plan has no parameter {name!r}{did_you_mean(name, params) or has}")
    missing = missing_of(params, given)
    if missing:
        raise InvalidInput(f"the plan needs {', '.join(f'{name} ({params[name].type})' for name in missing)}")
    return {name: _converted(it, given[name], f"params.{name}") if name in given else it.default for name, it in params.items()}


def missing_of(params: Mapping[str, Param], given: Mapping[str, Any]) -> list[str]:
    """Return the names of the parameters that have neither a value nor a default."""
    return [name for name, param in params.items() if name not in given and param.default is msgspec.UNSET]


def value_of_text(name: str, param: Param, text: str) -> Any:
    """Return a value that was given as text: as it is for ``str``, else as JSON.

    Raises:
        InvalidInput: it is not of the type.
    """
    if param.type == "str":
        return text
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        value = text
    return _converted(param, value, f"params.{name}")


def _converted(param: Param, value: Any, where: str) -> Any:
    wanted = _TYPES[param.type]
    if param.type == "float" and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise InvalidInput(f"{where}: {str(value)[:20]}… is too large for float") from None
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
        raise InvalidInput(f"{where}: it is {param.type}, not {type(value).__name__}")
    if param.type == "file" and not is_file(value):
        raise InvalidInput(f"{where}: it is a file, not {value!r:.100}")
    check_json(value, where)
    return value
