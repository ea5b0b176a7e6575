"""Checks JSON values against the JSON Schema that a skill or a tool declares, before anything depends on them.

It reads the keywords that schemas of Python types have, and ignores the others: who declares a schema
checks completely. The regular expressions of a server, for one, could take for ever to match. Unlike
a device, it converts nothing: "3" is no integer.
"""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from asterism.engine.kernel.data import is_file
from asterism.engine.kernel.profile import JSON_TYPES, JsonSchema, has_json_type

Mismatch = tuple[str, str]
"""The path of a value that does not fit, such as ``[2].price``, and what is wanted: ``number, not str``."""

MAX_STEPS = 250_000
"""Parts of a value, each with the keywords of one part of the schema, that one check compares: about a second.
It lets the rest pass. A few lines of schema can double the work with every level (``allOf`` with the same reference twice)."""
MAX_SHOWN = 60
"""Characters of a value in a message."""

_KNOWN_TYPES = {*JSON_TYPES, "null"}
_FORMATS: Mapping[str, tuple[Any, str]] = {
    "date": (dt.date, "2026-11-23"),
    "time": (dt.time, "07:30:00"),
    "date-time": (dt.datetime, "2026-11-23T07:30:00Z"),
    "duration": (dt.timedelta, "PT90S"),
    "uuid": (uuid.UUID, "12345678-1234-5678-1234-567812345678"),
    "decimal": (decimal.Decimal, "10.95"),
    "base64": (bytes, "aGVsbG8="),
}
"""For each format that is checked: its type, and an example for the message."""


def mismatch(value: Any, schema: JsonSchema, root: JsonSchema | None = None, *, exact: bool = True) -> Mismatch | None:
    """Return the first part of a JSON value that does not fit a schema; None if it fits.

    Args:
        value: the value.
        schema: the schema.
        root: the document that the references of the schema refer to; by default the schema itself.
        exact: as a worker takes a value: 1.0 is no integer, and a text has the format of its schema, which JSON Schema only notes.
    """
    try:
        return next(_Check(schema if root is None else root, exact=exact).wrong(value, schema, ""), None)
    except (AttributeError, RecursionError, TypeError, ValueError):
        return None  # the schema of a server is malformed, or refers to itself without end: only its device knows


def mismatch_text(value: Any, schema: JsonSchema, *, exact: bool = True) -> str:
    """Return a mismatch in words, as ``[2].price: number, not str``; empty if the value fits. Arguments as of ``mismatch``."""
    path, wanted = mismatch(value, schema, exact=exact) or ("", "")
    return f"{path.removeprefix('.')}: {wanted}" if path else wanted


class _Check:
    """One check; ``left`` is the number of steps that it may still take."""

    def __init__(self, root: JsonSchema, *, exact: bool) -> None:
        self._root = root
        self._exact = exact
        self._left = MAX_STEPS

    def wrong(self, value: Any, schema: Any, path: str) -> Iterator[Mismatch]:
        """Yield the parts that do not fit."""
        if not isinstance(schema, dict):
            if schema is not True:
                yield path, f"nothing here, not {_given(value)}"
            return
        self._left -= 1 + sum(len(keyword) for keyword in schema.values() if isinstance(keyword, list | dict))
        if self._left < 0:
            return
        if is_file(value) and schema.get("format") in ("path", "file"):
            return
        if (target := self._target(schema)) is not None:
            yield from self.wrong(value, target, path)
        for part in schema.get("allOf", ()):
            yield from self.wrong(value, part, path)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                yield from self._wrong_in_all(value, schema[keyword], path)
        if wanted := _not_wanted(value, schema, exact=self._exact):
            yield path, wanted
        elif isinstance(value, dict):
            yield from self._wrong_in_object(value, schema, path)
        elif isinstance(value, list):
            yield from self._wrong_in_array(value, schema, path)

    def _target(self, schema: JsonSchema) -> Any:
        """Return what a reference to the schema or a definition in it refers to; None without one."""
        reference = str(schema.get("$ref"))
        place, _, name = reference.removeprefix("#/").partition("/")
        if place in ("$defs", "definitions"):
            return self._root.get(place, {}).get(name)
        return self._root if reference == "#" else None

    def _wrong_in_all(self, value: Any, choices: list[Any], path: str) -> Iterator[Mismatch]:
        """Yield what is wrong if no choice fits: in the only one that has the type of the value, else what all of them want."""
        reasons = [next(self.wrong(value, choice, path), None) for choice in choices]
        if None in reasons:
            return
        near = [reason for choice, reason in zip(choices, reasons, strict=True) if reason is not None and self._is_near(value, choice)]
        if len(near) == 1:
            yield near[0]
        else:
            wanted = [reason[1].rpartition(", not ")[0] or reason[1] for reason in reasons if reason is not None]
            yield path, f"{' or '.join(dict.fromkeys(wanted))}, not {_given(value)}"

    def _is_near(self, value: Any, choice: JsonSchema) -> bool:
        """Return True if a value has the type of a choice."""
        return has_json_type(value, str((self._target(choice) or choice).get("type")))

    def _wrong_in_object(self, value: dict[str, Any], schema: JsonSchema, path: str) -> Iterator[Mismatch]:
        properties = schema.get("properties", {})
        more = True if "patternProperties" in schema else schema.get("additionalProperties", True)  # which other names there are is unknown
        if missing := [name for name in schema.get("required", ()) if name not in value]:
            yield path, f"{_object(schema)}; {missing[0]} is missing"
        for name, item in value.items():
            if name in properties or more is not False:
                yield from self.wrong(item, properties.get(name, more), f"{path}.{name}")
            else:
                yield path, f"{_object(schema)}, not with {name}"

    def _wrong_in_array(self, value: list[Any], schema: JsonSchema, path: str) -> Iterator[Mismatch]:
        first, rest = schema.get("prefixItems", []), schema.get("items", True)
        for place, item in enumerate(value):
            yield from self.wrong(item, first[place] if place < len(first) else rest, f"{path}[{place}]")


def _not_wanted(value: Any, schema: JsonSchema, *, exact: bool) -> str:
    """Return what is wanted instead of a value as a whole; empty if nothing is."""
    if "enum" in schema or "const" in schema:
        allowed = schema.get("enum", [schema.get("const")])
        if not any(value == it and type(value) is type(it) for it in allowed):
            return f"{' or '.join(_shown(it) for it in allowed)}, not {_shown(value)}"
    form = "base64" if schema.get("contentEncoding") == "base64" else str(schema.get("format", ""))
    if form == "file":
        return f"a file, not {_given(value)}"
    if form == "decimal" and has_json_type(value, "number"):
        return ""
    if not exact and isinstance(value, float) and value.is_integer():
        value = int(value)
    types = schema.get("type", [])
    if (types := [types] if isinstance(types, str) else types) and not any(
        has_json_type(value, name) or name not in _KNOWN_TYPES for name in types
    ):
        words = [_object(schema) if name == "object" else name for name in types]
        return f"{' or '.join(words)}, not {_given(value)}"
    if isinstance(value, str) and exact and form in _FORMATS:
        kind, example = _FORMATS[form]
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError:
            return f"{form} such as {example}, not {_shown(value)}"
    return _out_of_bounds(value, schema)


def _out_of_bounds(value: Any, schema: JsonSchema) -> str:
    """Return the bound that a number, or the length of a text or list, exceeds; empty for none."""
    if has_json_type(value, "number"):
        lower, upper = schema.get("minimum"), schema.get("maximum")
        above, below, step = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum"), schema.get("multipleOf")
        bounds = (
            (lower is not None and value < lower, f"at least {lower}"),
            (upper is not None and value > upper, f"at most {upper}"),
            (above is not None and value <= above, f"more than {above}"),
            (below is not None and value >= below, f"less than {below}"),
            (isinstance(step, int) and isinstance(value, int) and step > 0 and value % step > 0, f"a multiple of {step}"),
        )
        return next((f"{wanted}, not {value}" for is_outside, wanted in bounds if is_outside), "")
    for kind, least, most, what in ((str, "minLength", "maxLength", "characters"), (list, "minItems", "maxItems", "items")):
        if isinstance(value, kind) and len(value) < schema.get(least, 0):
            return f"at least {schema[least]} {what}, not {len(value)}"
        if isinstance(value, kind) and len(value) > schema.get(most, len(value)):
            return f"at most {schema[most]} {what}, not {len(value)}"
    return ""


def _object(schema: JsonSchema) -> str:
    names = ", ".join(schema.get("properties", {}))
    return f"an object with {names}" if names else "object"


def _shown(value: Any) -> str:
    if isinstance(value, list | dict):
        return _given(value)
    text = msgspec.json.encode(value[: MAX_SHOWN + 1] if isinstance(value, str) else value).decode()
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def _given(value: Any) -> str:
    return "null" if value is None else type(value).__name__
