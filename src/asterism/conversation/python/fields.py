"""The input and output fields of a flow agent.

The annotation is the type, and bounds are arguments. A validator is a function that returns an error text or None, raises
ValueError, or returns a bool. A rule checks several fields and is reported at one of them.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import operator
import typing
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from asterism.conversation.python.parsing import SPOKEN, bare, is_spoken, kind_of, options_of, parse
from asterism.errors import InvalidInput
from asterism.words.reading.durations import SECONDS
from asterism.words.reading.scan import FieldKind, Wanted
from asterism.words.reading.setting import Setting
from asterism.words.reading.spoken import value_words
from asterism.words.reading.words import Words, words_of

if TYPE_CHECKING:
    import regex

_NUMBERS = ("ge", "le", "gt", "lt", "min_length", "max_length")
F = TypeVar("F", bound=Callable[..., Any])
Validator = Callable[..., Any]
MISSING = object()

PATTERN_TIMEOUT_S = 0.5
"""Time limit for one search, in seconds: a pattern and a hostile text may take arbitrarily long."""


MAX_SHOWN = 4
"""Characters of a secret that questions may show at most."""


def limits_in_words(kind: Any, bounds: Mapping[str, Any], words: Words) -> str:
    """Return the bounds of a field, its options, or yes or no; empty if there are none."""
    said = bounds_in_words(bounds, words)
    return said or (kind_in_words(kind, words) if options_of(kind) or kind is bool else "")


def refusal_in_words(kind: Any, bounds: Mapping[str, Any], value: Any, words: Words) -> str:
    """Return why a value is none of a field; a number is shown."""
    if isinstance(value, str) and kind in (int, float):
        return words.text("is_number")
    said = bounds_in_words(bounds, words)
    if said and kind in (int, float, Decimal) and isinstance(value, (int, float, Decimal)):
        return words.text("not_value", limits=said, value=value_words(value, words))
    return said or kind_in_words(kind, words)


def bounds_in_words(bounds: Mapping[str, Any], words: Words) -> str:
    """Return bounds in words; empty if there are none."""
    low, high = bounds.get("ge"), bounds.get("le")
    if low is not None and high is not None:
        return words.text("between", low=low, high=high)
    said = [words.text(f"bound_{name}", bound=bound) for name, bound in bounds.items() if name in _NUMBERS]
    return words.text("must_be", limits=f" {words.text('and_word')} ".join(said)) if said else ""


def kind_in_words(kind: Any, words: Words) -> str:
    """Return what a value of a type is."""
    if options := options_of(kind):
        return words.text("is_option", options=", ".join(options))
    key = {int: "whole_number", float: "is_number", bool: "none_yes_no"}.get(kind, "is_kind")
    return words.text(key, kind=getattr(kind, "__name__", kind))


class Field(msgspec.Struct, eq=False, kw_only=True, dict=True):
    """An input field: its declaration, and a descriptor for its value. Made by :func:`InputField`."""

    prompt: str
    validators: tuple[Validator, ...]
    bounds: dict[str, Any]
    description: str
    default: Any
    required: bool | None
    pattern: str
    secret: bool
    words: tuple[str, ...] = ()
    unit: str = ""
    hours: tuple[int, int] | None = None
    range_with: str = ""
    show_last: int = 0
    name: str = ""
    owner: type = object

    def __set_name__(self, owner: type, name: str) -> None:
        self.name, self.owner = name, owner

    def __get__(self, agent: Any, _: type | None = None) -> Any:
        if agent is None:
            return self
        found = agent.collected_fields.get(self.name)
        return self.default if found is None and self.default is not MISSING else found

    def __set__(self, agent: Any, value: Any) -> None:
        agent.collected_fields[self.name] = self.check(agent, value)

    def check_asked(self) -> None:
        """Check that a message can give a value of the field's type. A type that is not defined yet is checked later.

        Raises:
            InvalidInput: no message can; the field needs a default.
        """
        with contextlib.suppress(NameError):
            kind, _ = self._declared()
            if self.asked and not is_spoken(kind):
                where, what = f"{self.owner.__name__}.{self.name}", kind.__name__ if isinstance(kind, type) else kind
                raise InvalidInput(f"{where}: no words give a {what}; what is asked for is {SPOKEN}; anything else needs a default")

    def _declared(self) -> tuple[Any, bool]:
        return bare(typing.get_type_hints(self.owner).get(self.name, str))

    @functools.cached_property
    def _annotation(self) -> tuple[Any, bool]:
        try:
            return self._declared()
        except NameError as error:
            raise InvalidInput(f"{self.owner.__name__}.{self.name}: cannot find its type ({error}); define it at module level") from None

    @property
    def kind(self) -> Any:
        """Return the type, without None."""
        return self._annotation[0]

    @property
    def optional(self) -> bool:
        """Return True if the field may be skipped."""
        return self._annotation[1] if self.required is None else not self.required

    @property
    def label(self) -> str:
        """Return the name in words."""
        return self.name.replace("_", " ")

    @property
    def asked(self) -> bool:
        """Return True if the agent prompts for this field. A field with a default is accepted if given, but never prompted for."""
        return self.default is MISSING

    @property
    def options(self) -> dict[str, Any]:
        """Return the values of an enumeration or a Literal by name; empty for other types."""
        return options_of(self.kind)

    @property
    def kind_of_reading(self) -> FieldKind:
        """Return how its values are read from words."""
        return kind_of(self.kind)

    def wanted(self, given: Any, *, end_of: str = "") -> Wanted:
        """Return the field as a reader sees it.

        Args:
            given: its value; None if it has none.
            end_of: name of the field whose range it ends.
        """
        kind = self.kind_of_reading
        unit = self.unit or (_unit_of(self.label) if kind in ("whole", "number") else "")
        return Wanted(
            name=self.name,
            kind=kind,
            labels=self.words,
            options=tuple(self.options),
            unit=unit,
            hours=self.hours,
            given=given,
            end_of=end_of,
        )

    def constrained(self) -> Any:
        """Return the type with its bounds, for msgspec and JSON Schema."""
        has_meta = bool(self.bounds) and self.kind is not Decimal  # msgspec has no bounds for a Decimal
        return Annotated[self.kind, msgspec.Meta(**self.bounds)] if has_meta else self.kind

    @functools.cached_property
    def compiled(self) -> regex.Pattern[str] | None:
        """Return the compiled pattern; None without one.

        Raises:
            InvalidInput: it is not a regular expression.
        """
        if not self.pattern:
            return None
        import regex  # noqa: PLC0415 - slow to import, and few fields have a pattern

        try:
            return regex.compile(self.pattern, regex.IGNORECASE)
        except (regex.error, TypeError) as error:
            where = f"{self.owner.__name__}.{self.name}"
            raise InvalidInput(f"{where}: the pattern {self.pattern!r} is not a regular expression: {error}") from None

    def search(self, text: str) -> regex.Match[str] | None:
        """Return the match of the pattern in a message; None without a match or a pattern.

        Raises:
            TimeoutError: the search took longer than ``PATTERN_TIMEOUT_S``.
        """
        return self.compiled.search(text, timeout=PATTERN_TIMEOUT_S) if self.compiled else None

    def without(self, text: str) -> str:
        """Return a message with a comma in place of the match of the pattern; unchanged if the search takes too long."""
        if self.compiled:
            with contextlib.suppress(TimeoutError):
                return self.compiled.sub(" , ", text, count=1, timeout=PATTERN_TIMEOUT_S)
        return text

    def parse(self, agent: Any, text: str, at: float | Setting) -> Any:
        """Return the value that a text gives, validated.

        Raises:
            ValueError: the text gives no valid value; the message is for the person.
        """
        return self.check(agent, parse(self.kind, text, at, self.wanted(None)))

    def check(self, agent: Any, value: Any) -> Any:
        """Return a value converted to the field's type, after all validators have accepted it.

        Raises:
            ValueError: the value is invalid; the message is for the person.
        """
        if value is None and self.optional:
            return None
        words = agent._state.setting.words
        try:
            found = msgspec.convert(msgspec.to_builtins(value), self.constrained(), strict=False)
        except (msgspec.ValidationError, TypeError):
            raise ValueError(refusal_in_words(self.kind, self.bounds, None if self.secret else value, words)) from None
        if self.kind is Decimal and not all(_HOLDS[name](found, bound) for name, bound in self.bounds.items() if name in _HOLDS):
            raise ValueError(refusal_in_words(self.kind, self.bounds, None if self.secret else found, words))
        for validator in self.validators:
            complaint(validator, found, words=words)
        if own := getattr(agent, f"validate_{self.name}", None):
            complaint(own, found, words=words)
        return found

    def limits(self, words: Words) -> str:
        """Return the limits in words: bounds, options, or yes or no; empty if there are none."""
        return limits_in_words(self.kind, self.bounds, words)


_HOLDS: dict[str, Callable[[Any, Any], bool]] = {"ge": operator.ge, "gt": operator.gt, "le": operator.le, "lt": operator.lt}


def _unit_of(label: str) -> str:
    """Return the unit of time that a label ends with: "minute" for "minutes"; empty for none."""
    found = words_of("en").phrases["units"].get((label.rpartition(" ")[2],), "")
    return found if found in SECONDS else ""


def complaint(validator: Validator, *values: Any, words: Words) -> None:
    """Call a validator of any of the three styles.

    Raises:
        ValueError: it refuses the value.
        InvalidInput: it is async.
    """
    said = validator(*values)
    if inspect.iscoroutine(said):
        said.close()
        raise InvalidInput(f"validator {validator.__qualname__} is async; move slow checks to on_running")
    if said is False:
        raise ValueError(words.text("not_valid"))
    if isinstance(said, str) and said:
        raise ValueError(said)


def InputField(  # noqa: D417, N802 - bounds are documented in pairs; it is written like a class
    prompt: str,
    *,
    description: str = "",
    default: Any = MISSING,
    required: bool | None = None,
    validator: Validator | Sequence[Validator] = (),
    pattern: str = "",
    secret: bool = False,
    show_last: int = 0,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    words: Sequence[str] = (),
    unit: str = "",
    hours: tuple[int, int] | None = None,
    range_with: str = "",
) -> Any:
    """Declare a field that the agent asks for. Its type is the annotation, ``str`` by default.

    A type whose values cannot be given in a message needs a default.

    Args:
        prompt: the question.
        description: explanation for a person who asks "what do you mean?".
        default: value if the person gives none; the agent does not prompt for such a field.
        required: False allows the person to skip it; by default, a field annotated ``| None`` may be skipped.
        validator: one or more functions of the value. A method ``validate_<name>(self, value)`` is a validator, too.
        pattern: regular expression (package ``regex``) that finds the value in a longer message: the
            first group that matches, or the whole match; an empty match counts as none. After
            ``PATTERN_TIMEOUT_S`` the search stops, and the person is asked to rephrase.
        secret: the value is never shown, logged or journaled; after a restart it is asked for again.
        show_last: of a secret, number of characters at its end that questions and the journal show, at most 4.
        ge, gt, le, lt: bounds of a number.
        min_length, max_length: bounds of a text, in characters.
        words: other names of the field in people's words, such as "guests"; in "party of {}" the value has a place.
        unit: unit of a number: of time, as "minute" (by default the last word of the name), or a currency, as "EUR".
        hours: usual hours of a time, as (8, 18): "at 3" is then 15:00, and "at 7" is asked about.
        range_with: name of the field that ends the range which this one begins; found by itself for first and last,
            from and to, start and end.

    Raises:
        InvalidInput: ``words`` is a text, ``unit`` or ``hours`` is none, or ``show_last`` is not for a secret or above 4.
    """
    if isinstance(words, str):
        raise InvalidInput(f"InputField(words=…) is a list of words, not {words!r}")
    if unit and unit not in SECONDS and not (len(unit) == 3 and unit.isupper()):  # noqa: PLR2004 - a code of ISO 4217
        raise InvalidInput(f"InputField(unit={unit!r}): a unit is one of {', '.join(SECONDS)}, or a currency such as EUR")
    if hours is not None and not (0 <= hours[0] < hours[1] <= 24):  # noqa: PLR2004 - first and last, hours
        raise InvalidInput(f"InputField(hours={hours!r}): usual hours are two hours of a day, as (8, 18)")
    _check_shown(show_last, secret=secret)
    bounds = {"ge": ge, "gt": gt, "le": le, "lt": lt, "min_length": min_length, "max_length": max_length}
    return Field(
        prompt=prompt,
        validators=(validator,) if callable(validator) else tuple(validator),
        bounds={name: bound for name, bound in bounds.items() if bound is not None},
        description=description,
        default=default,
        required=required,
        pattern=pattern,
        secret=secret,
        words=tuple(words),
        unit=unit,
        hours=hours,
        range_with=range_with,
        show_last=show_last,
    )


def _check_shown(show_last: int, *, secret: bool) -> None:
    if not 0 <= show_last <= (MAX_SHOWN if secret else 0):
        raise InvalidInput(f"InputField(show_last={show_last!r}): a secret can show up to {MAX_SHOWN} characters at its end")


class Output:
    """An output field. Made by :func:`OutputField`."""

    def __init__(self, description: str) -> None:
        self.description = description
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, agent: Any, _: type | None = None) -> Any:
        return self if agent is None else agent.outputs.get(self.name)

    def __set__(self, agent: Any, value: Any) -> None:
        agent.outputs[self.name] = value


def OutputField(description: str = "") -> Any:  # noqa: N802 - as InputField
    """Declare a field that the agent sets; it is part of the data of every result."""
    return Output(description)


def rule(field: str, *, needs: Sequence[str] = ()) -> Callable[[F], F]:
    """Make a method a rule: it is called once all of its fields have values, and reported at ``field``.

    The method takes only ``self``, and reports an error in any of the three styles of a validator.

    Args:
        field: name of the field that is asked for again if the rule is broken.
        needs: names of the other fields of the rule.
    """
    if not isinstance(field, str):
        raise InvalidInput(f'@rule of {getattr(field, "__qualname__", field)} needs the name of a field: @rule("name")')

    def mark(method: F) -> F:
        method.__asterism_rule__ = (field, *needs)  # type: ignore[attr-defined]
        return method

    return mark


def fields_of(agent: type, kind: type) -> dict[str, Any]:
    """Return the fields of a class by name, inherited ones first, without names that a subclass has set to another value."""
    found: dict[str, Any] = {}
    for base in reversed(agent.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, kind):
                found[name] = value
            elif name in found:
                del found[name]
    return found


def json_schema(agent: type) -> dict[str, Any]:
    """Return the JSON Schema of the input fields of an agent."""
    fields: dict[str, Field] = fields_of(agent, Field)
    schemas, components = msgspec.json.schema_components([field.constrained() for field in fields.values()], ref_template="#/$defs/{name}")
    properties = {}
    for field, schema in zip(fields.values(), schemas, strict=True):
        more: dict[str, Any] = {"description": field.description or field.prompt}
        if field.default is not MISSING:
            more["default"] = msgspec.to_builtins(field.default)
        if field.secret:
            more["writeOnly"] = True
        properties[field.name] = {**(schema if "$ref" not in schema else {"allOf": [schema]}), **more}
    found: dict[str, Any] = {
        "type": "object",
        "title": agent.__name__,
        "properties": properties,
        "required": [field.name for field in fields.values() if field.asked and not field.optional],
        "additionalProperties": False,
    }
    return {**found, "$defs": components} if components else found
