"""Check the declaration of a flow agent, so that a mistake is an error where the class is written.

The names and options of every agent are read from the base class.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypedDict

import msgspec

from asterism.conversation.python.fields import MISSING, Field, Output, fields_of
from asterism.conversation.python.plans import PlanSource, check_params, plan_of
from asterism.errors import InvalidInput, did_you_mean

VALIDATOR = "validate_"
"""Begin of the names of methods that validate a field."""
TYPO = 0.85
"""Similarity from which on a name counts as a misspelt option or handler of the base class."""


class AgentOptions(TypedDict, total=False):
    """The options of ``@flowagent``: the class attributes of an agent."""

    triggers: Sequence[str]
    requires_approval: bool
    description: str
    timeout_s: float
    idempotent: bool
    resumable: bool
    approval_timeout_s: float | None
    idle_timeout_s: float | None
    language: str
    time_zone: str
    plan: PlanSource


@functools.cache
def options_of(base: type) -> dict[str, Any]:
    """Return the types of the class attributes that an agent may set, by name."""
    hints = typing.get_type_hints(base, include_extras=True)
    return {name: typing.get_args(hint)[0] for name, hint in hints.items() if typing.get_origin(hint) is typing.ClassVar}


def check_options(agent: type, base: type) -> None:
    """Check the values of the options that a class or its decorator has set.

    Raises:
        InvalidInput: a value has another type, or is out of its bounds.
    """
    for name, kind in options_of(base).items():
        value = inspect.getattr_static(agent, name)
        where = f"{agent.__name__}.{name}"
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"{where} is {_in_words(name, kind)}, not {value!r}: {error}") from None


def _in_words(name: str, kind: Any) -> str:
    if name.endswith("_s"):
        return "a number of seconds above 0" + (", or None" if type(None) in typing.get_args(kind) else "")
    return {bool: "true or false", str: "a text"}.get(kind, "a list of words")


def check_class(agent: type, base: type) -> None:
    """Check a subclass of ``base``, the class of all agents.

    Raises:
        InvalidInput: a name, field, validator, rule, handler or option is wrong. Names the class, its attribute, and the remedy.
    """
    for place in agent.__mro__:
        if place is agent or (place not in base.__mro__ and not issubclass(place, base)):  # the others were checked when they were defined
            for name, value in vars(place).items():
                _check_attribute(agent, base, name, value)
    check_options(agent, base)
    fields = fields_of(agent, Field)
    for field in fields.values():
        _check_field(agent, field)
    for name, method in _methods(agent):
        if rule := getattr(method, "__asterism_rule__", ()):
            for part in rule:
                _check_known(agent, name, part, fields)
            _check_method(agent, name, method, 0)


def adopt_plan(agent: Any) -> None:
    """Read the plan of a class, if it has one, and check that the fields fill its parameters.

    Raises:
        InvalidInput: the plan is invalid, or does not fit the fields. Names the class.
    """
    if agent.plan is None:
        return
    file = getattr(sys.modules.get(agent.__module__), "__file__", None)
    try:
        agent.plan = plan_of(agent.plan, Path(file).absolute().parent if file else Path.cwd())
    except InvalidInput as error:
        raise InvalidInput(f"{agent.__name__}.plan: {error}") from None
    check_params(agent, agent.plan)


def _methods(agent: type) -> Iterator[tuple[str, Any]]:
    return ((name, inspect.getattr_static(agent, name)) for name in dir(agent))


# -- names -----------------------------------------------------------------------------------------


def _check_attribute(agent: type, base: type, name: str, value: Any) -> None:
    where = f"{agent.__name__}.{name}"
    if name.startswith("__"):
        return
    if isinstance(value, Field | Output):
        if hasattr(base, name) or name in base.__annotations__:
            raise InvalidInput(
                f'{where}: every flow agent has an attribute "{name}", so a field cannot have that name; '
                f'call it, for example, "{agent.__name__.lower()}_{name}"'
            )
    elif name in options_of(base):
        return
    elif hasattr(base, name):
        _check_override(agent, base, name, value)
    elif name.startswith(VALIDATOR) and callable(getattr(agent, name)):
        _check_known(agent, name, name.removeprefix(VALIDATOR), fields_of(agent, Field))
        _check_method(agent, name, value, 1)
    elif near := _meant(base, name, value):
        raise InvalidInput(f"{where}: a flow agent has no such attribute; did you mean {near}? Otherwise give it a less similar name")


def _meant(base: type, name: str, value: Any) -> str:
    """Return the option or handler of the base class that a name misspells; empty if it misspells none."""
    known = handlers_of(base) if callable(value) else options_of(base)
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=TYPO)), "")


@functools.cache
def handlers_of(base: type) -> frozenset[str]:
    """Return the names of the handlers of every agent."""
    return frozenset(name for name in vars(base) if name.startswith("on_"))


def _check_known(agent: type, name: str, field: Any, fields: dict[str, Any]) -> None:
    if field not in fields:
        known = f"; its fields are {', '.join(fields)}{did_you_mean(str(field), fields)}" if fields else ""
        raise InvalidInput(f'{agent.__name__}.{name} is for the field "{field}", which {agent.__name__} does not have{known}')


# -- methods ---------------------------------------------------------------------------------------


def _check_override(agent: type, base: type, name: str, value: Any) -> None:
    known, where = inspect.getattr_static(base, name), f"{agent.__name__}.{name}"
    what = next((word for kind, word in _KINDS.items() if isinstance(known, kind)), "method")
    if what != next((word for kind, word in _KINDS.items() if isinstance(value, kind)), "method" if callable(value) else ""):
        raise InvalidInput(f'{where}: every flow agent has a {what} "{name}"; use another name')
    if not inspect.isfunction(value):
        return
    is_async = inspect.iscoroutinefunction(known)
    if inspect.iscoroutinefunction(value) and not is_async:
        raise InvalidInput(f"{where} is async; define it with def, as the method that it overrides")
    if is_async and name not in handlers_of(base) and not inspect.iscoroutinefunction(inspect.unwrap(value)):
        raise InvalidInput(f"{where} is not async; define it with async def, as the method that it overrides")
    needed = [it for it in inspect.signature(known).parameters.values() if it.default is it.empty and it.kind is it.POSITIONAL_OR_KEYWORD]
    if not _takes(value, len(needed)):
        raise InvalidInput(f"{where} takes other arguments; define it as {name}({', '.join(it.name for it in needed)})")


_KINDS: dict[type, str] = {property: "property", classmethod: "class method", staticmethod: "static method"}


def _check_method(agent: type, name: str, method: Any, values: int) -> None:
    """Check a validator or rule: a plain function of the agent, and of a value if ``values`` is 1."""
    if inspect.iscoroutinefunction(method):
        raise InvalidInput(f"{agent.__name__}.{name} is async; move slow checks to on_running")
    if inspect.isfunction(method) and not _takes(method, 1 + values):
        raise InvalidInput(
            f"{agent.__name__}.{name} takes other arguments; define it as {name}({', '.join(('self', 'value')[: 1 + values])})"
        )


def _takes(function: Callable[..., Any], count: int) -> bool:
    """Return False if a function cannot be called with this number of arguments; True also if that is not known."""
    try:
        inspect.signature(function).bind(*range(count))
    except ValueError:  # a function in C may have no signature
        return True
    except TypeError:
        return False
    return True


# -- fields ----------------------------------------------------------------------------------------


def _check_field(agent: type, field: Field) -> None:
    where = f"{agent.__name__}.{field.name}"
    prompt: object = field.prompt
    if not isinstance(prompt, str):
        raise InvalidInput(f"{where}: the question of an InputField is a text, not {prompt!r}")
    validators: tuple[Any, ...] = field.validators
    for validator in validators:
        if not callable(validator) or inspect.iscoroutinefunction(validator) or not _takes(validator, 1):
            raise InvalidInput(f"{where}: a validator is a function of the value that is not async, not {validator!r}")
    field.check_asked()
    _ = field.compiled
    try:
        kind = field.constrained()
        with contextlib.suppress(msgspec.ValidationError):
            msgspec.convert(None, kind)
        if field.default is not MISSING and field.default is not None:
            _check_default(where, field, kind)
    except InvalidInput as error:
        if isinstance(error.__context__, NameError):
            return  # its type is not defined yet; it is checked when it is used
        raise
    except (TypeError, ValueError) as error:  # of msgspec
        raise InvalidInput(f"{where}: its bounds cannot be used: {error}") from None


def _check_default(where: str, field: Field, kind: Any) -> None:
    try:
        msgspec.convert(msgspec.to_builtins(field.default), kind, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{where}: the default {field.default!r} is no value of the field: {error}") from None
