"""Values of a plan's parameters: from ``--set``, or asked for at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from asterism.constellation.parameters import Param, missing_of, value_of_text
from asterism.constellations.goal import Goal, with_files
from asterism.errors import InvalidInput, did_you_mean
from asterism.views.words import plain

Values = Annotated[
    tuple[str, ...],
    Parameter(
        name="--set",
        negative=(),
        help="Value of a parameter of the plan, as name=value; the path of a file; JSON for other types than str.",
    ),
]


def with_values(goal: Goal, given: Iterable[str], *, asks: bool = False) -> Goal:
    """Return a goal with the values of its plan's parameters.

    Args:
        goal: the goal; one without a plan has no parameters.
        given: values as ``name=value``.
        asks: True to ask for missing values at a terminal, and to refuse where there is none.

    Raises:
        InvalidInput: a value is missing, of another type, or of an unknown name.
    """
    params = goal.plan.params if goal.plan else {}
    values: dict[str, Any] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals or not name:
            raise InvalidInput(f"--set {one}: write name=value")
        if goal.plan is None:
            raise InvalidInput(f"--set {one}: a request in words has no parameters; write the value into the request")
        if name in values:
            raise InvalidInput(f"--set {one}: {name} is set twice; give one value")
        if name not in params:
            has = f"; it has {', '.join(params)}" if params else ""
            raise InvalidInput(f"--set {one}: the plan has no parameter {name!r}{did_you_mean(name, params) or has}")
        values[name] = _value(name, params[name], text)
    missing = missing_of(params, values) if asks else []
    if missing and not (sys.stdin and sys.stdin.isatty()):
        wanted = ", ".join(f"{name} ({params[name].type})" for name in missing)
        raise InvalidInput(f"the plan needs {wanted}; give each with --set name=value")
    for name in missing:
        about = f", {plain(params[name].description)}" if params[name].description else ""
        values[name] = _value(name, params[name], input(f"{name} ({params[name].type}{about}): "))
    return with_files(msgspec.structs.replace(goal, params=values))


def _value(name: str, param: Param, text: str) -> Any:
    return text if param.type == "file" else value_of_text(name, param, text)
