"""Skills: plain Python functions with declared parameters, results and safety of repetition.

User files import this module, so it imports little. ``source`` finds skills, and ``worker`` runs
them.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import msgspec

from asterism.engine.kernel.data import FILE, FILE_SCHEMA, is_file
from asterism.engine.kernel.profile import JsonSchema, Skill
from asterism.errors import InvalidInput

Function = TypeVar("Function", bound=Callable[..., Any])
Paths = Literal["texts", "files", "none"]
"""What becomes a ``Path`` or ``File``: also a text; only a file that the device has put there; nothing."""

_MARK = "__asterism_skill__"
_PLANNED = frozenset({"retry", "retries", "max_attempts", "backoff_s", "timeout", "timeout_s", "priority", "deadline_s"})


def _discard(fraction: float | None, message: str) -> None:
    """Discard progress: the skill was called as a plain function, for example in a test."""


class File:
    """A file that a skill takes or returns.

    Args:
        path: where it is; a relative one counts from the working folder.
        name: a name for people; by default the last part of the path.
        media_type: such as ``application/pdf``; by default guessed from the name.
    """

    def __init__(self, path: Path | str, name: str = "", media_type: str = "") -> None:
        self.path = Path(path)
        self.name = name or self.path.name
        self.media_type = media_type

    def __repr__(self) -> str:
        return f"File({str(self.path)!r}, {self.name!r}, {self.media_type!r})"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SkillContext:
    """The context of an attempt. A parameter annotated with this type receives it.

    Attributes:
        folder: folder of this attempt, for files; removed when the attempt has ended.
        key: idempotency key of this attempt; the same if a crash repeats the attempt. The next
            attempt, by a retry policy or with a person's consent, has another key.
        attempt: number of the attempt, from 1.
        task_id: id of its task.
        results: JSON results of the direct predecessors, by task id.
        sink: receives progress; bound by the worker.
    """

    folder: Path = Path()
    key: str = ""
    attempt: int = 1
    task_id: str = ""
    results: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    sink: Callable[[float | None, str], None] = _discard

    def progress(self, fraction: float | None = None, message: str = "") -> None:
        """Report a fraction (0 to 1) and a message, or one of them. Any thread may call it."""
        self.sink(None if fraction is None else min(max(float(fraction), 0.0), 1.0), str(message))


@overload
def skill(function: Function, /) -> Function: ...
@overload
def skill(
    *, name: str = "", idempotent: bool = False, tags: typing.Iterable[str] = (), examples: typing.Iterable[str] = ()
) -> Callable[[Function], Function]: ...
def skill(
    function: Function | None = None,
    /,
    *,
    name: str = "",
    idempotent: bool = False,
    tags: typing.Iterable[str] = (),
    examples: typing.Iterable[str] = (),
    **unknown: object,
) -> Function | Callable[[Function], Function]:
    """Make a function a skill. The function itself does not change, and can be called as before.

    Args:
        function: the function, if the decorator is used without arguments.
        name: name of the skill; the function's name if empty.
        idempotent: True if it may be performed again under the same key after a crash.
        tags: further words for the search of skills.
        examples: requests that it serves.
        unknown: none; an argument of another name is refused.

    Raises:
        InvalidInput: not a function, an unknown argument, or a parameter cannot be passed by name.
    """
    if unknown:
        where = "; a plan sets retries and limits: the task's fields retry and timeout_s" if unknown.keys() & _PLANNED else ""
        raise InvalidInput(f"@skill has no argument {next(iter(unknown))!r}; it takes name, idempotent, tags, examples{where}")
    mark = Skill(name=name, idempotent=idempotent, tags=tuple(tags), examples=tuple(examples))

    def decorate(function: Function) -> Function:
        _require_named_parameters(function)
        setattr(function, _MARK, mark)
        return function

    return decorate if function is None else decorate(function)


def is_skill(function: object) -> bool:
    """Return True for a function that was decorated with ``@skill``."""
    return isinstance(getattr(function, _MARK, None), Skill)


def skill_name(function: Callable[..., Any]) -> str:
    """Return the name of a function as a skill."""
    mark = getattr(function, _MARK, None)
    return (mark.name if mark else "") or function.__name__


class Contract(msgspec.Struct, frozen=True):
    """How to call one skill.

    Attributes:
        skill: its description for planners.
        arguments: struct type of its arguments; those with a default may be ``UNSET``.
        context: names of the parameters that receive the SkillContext.
        returns: type that its result is checked against; None without a declared type that JSON
            can be decoded as.
    """

    skill: Skill
    arguments: type[msgspec.Struct]
    context: tuple[str, ...]
    returns: Any = None

    def check_result(self, packed: msgspec.Raw) -> None:
        """Check a result in JSON against its declared type. Raises msgspec.ValidationError."""
        if self.returns is not None:
            msgspec.json.decode(packed, type=self.returns, dec_hook=_revive)

    def values(self, arguments: Mapping[str, Any], paths: Paths = "texts") -> dict[str, Any]:
        """Return the arguments by name, converted to the function's types.

        Raises msgspec.ValidationError.
        """
        given = msgspec.convert(arguments, self.arguments, strict=False, dec_hook=functools.partial(_revive, paths=paths))
        values = {name: getattr(given, name) for name in self.arguments.__struct_fields__}
        return {name: value for name, value in values.items() if value is not msgspec.UNSET}


def contract_of(function: Callable[..., Any]) -> Contract:
    """Read the contract of a function; one without ``@skill`` is not idempotent.

    Raises:
        InvalidInput: not a function, a parameter cannot be passed by name, or a type hint cannot be resolved or has no
            JSON form.
    """
    mark: Skill = getattr(function, _MARK, None) or Skill(name="")
    _require_named_parameters(function)
    title = mark.name or function.__name__
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise InvalidInput(
            f"skill {title}: a type hint cannot be resolved ({error}); import its type outside `if TYPE_CHECKING`"
        ) from error
    parameters = inspect.signature(function).parameters
    context = tuple(name for name in parameters if _takes_context(hints.get(name)))
    asked = {name: parameter for name, parameter in parameters.items() if name not in context}
    try:
        arguments = msgspec.defstruct(
            title, [_field(parameter, hints.get(name, Any)) for name, parameter in asked.items()], kw_only=True, forbid_unknown_fields=True
        )
        schema = _schema(arguments)
        returns = _decodable(hints.get("return", Any))
        output = _schema(hints["return"]) if returns is not None or _is_record(hints.get("return")) else None
    except TypeError as error:
        raise InvalidInput(f"skill {title}: a type hint has no JSON Schema: {error}") from error
    _add_defaults(schema, asked)
    description = " ".join((inspect.getdoc(function) or "").split("\n\n", 1)[0].split())
    described = msgspec.structs.replace(mark, name=title, description=description, parameters=schema, output=output)
    return Contract(described, arguments, context, returns)


def describe(function: Callable[..., Any]) -> Skill:
    """Return the description of a decorated function for planners. Raises InvalidInput."""
    return contract_of(function).skill


def plain(value: object) -> object:
    """Return a value that msgspec cannot convert as JSON types: paths, and numbers of libraries.

    Raises TypeError for any other value.
    """
    match value:
        case Path():
            return str(value)
        case Integral():
            return int(value)
        case Real():
            return float(value)
        case _:
            raise TypeError(f"a {type(value).__module__}.{type(value).__qualname__} has no JSON form")


def _require_named_parameters(function: object) -> None:
    if not inspect.isfunction(function):
        raise InvalidInput(f"a skill is a function, not {function!r}")
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            message = (
                f"skill {function.__qualname__}: its parameter `{str(parameter).partition(':')[0]}` cannot be passed by name; "
                f"name each parameter ({name}: …) instead of *args, **kwargs or positional-only ones"
            )
            raise InvalidInput(message)


def _takes_context(hint: object) -> bool:
    return hint is SkillContext or SkillContext in typing.get_args(hint)


def _field(parameter: inspect.Parameter, hint: Any) -> tuple[str, Any] | tuple[str, Any, Any]:
    if parameter.default is parameter.empty:
        return parameter.name, hint
    # An argument that is not given is not passed, so the function's own default applies.
    return parameter.name, hint | msgspec.UnsetType, msgspec.UNSET


def _decodable(hint: Any) -> Any:
    """Return a type that a result can be checked against; None if msgspec cannot decode it, or if it allows anything."""
    if hint is Any or hint is object:
        return None
    hint = type(None) if hint is None else hint
    try:
        msgspec.json.schema(hint, schema_hook=_path_schema)
    except TypeError:
        return None
    return hint


def type_name(hint: object) -> str:
    """Return a type as it is written: ``int``, ``dict[str, int]``."""
    return hint.__name__ if isinstance(hint, type) and not typing.get_args(hint) else str(hint).replace("typing.", "")


def _is_record(hint: object) -> bool:
    return isinstance(hint, type) and (typing.is_typeddict(hint) or dataclasses.is_dataclass(hint) or issubclass(hint, msgspec.Struct))


def _schema(hint: Any) -> JsonSchema:
    """Return the JSON Schema of a type, with the records that it refers to under ``$defs``."""
    (top,), components = msgspec.json.schema_components([hint], schema_hook=_path_schema, ref_template="#/$defs/{name}")
    if "$ref" not in top:
        return {**top, "$defs": components} if components else top
    name = top["$ref"].removeprefix("#/$defs/")
    schema = {key: value for key, value in components[name].items() if key != "title"}
    refers_to_itself = b'"' + top["$ref"].encode() + b'"' in msgspec.json.encode(components)
    shared = {key: value for key, value in components.items() if key != name or refers_to_itself}
    return schema | {"$defs": shared} if shared else schema


def _add_defaults(schema: JsonSchema, parameters: Mapping[str, inspect.Parameter]) -> None:
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty:
            continue
        try:
            schema["properties"][name] = schema["properties"][name] | {"default": msgspec.to_builtins(parameter.default, enc_hook=plain)}
        except TypeError:
            continue  # a default without a JSON form still works; planners do not see it


def _path_schema(hint: type) -> JsonSchema:
    if hint is Path:
        return {"type": "string", "format": "path"}
    if hint is File:
        return FILE_SCHEMA
    raise TypeError(f"{hint.__qualname__}; use str, int, float, bool, list, dict, Path, File, a dataclass, a TypedDict or a Struct")


def _revive(hint: type, value: Any, paths: Paths = "texts") -> Any:
    if hint is Path and isinstance(value, str):
        if paths != "texts":
            raise ValueError("a text is no path in a run that has something from another computer; give it a file")
        return Path(value)
    if hint in (Path, File) and is_file(value) and paths != "none":
        path = Path(value.get("path", value[FILE]))
        return path if hint is Path else File(path, value.get("name", ""), value.get("media_type", ""))
    raise ValueError(f"expected {hint.__qualname__}")
