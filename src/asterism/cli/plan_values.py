"""Values of a plan's parameters: from ``--set``, or asked for at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Annotated

from cyclopts import Parameter

from asterism.constellation.model.parameters import missing_of
from asterism.constellation.python.goal import Goal, with_texts
from asterism.errors import InvalidInput
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
    texts = texts_of(given)
    if texts and goal.plan is None:
        raise InvalidInput(f"--set {min(texts)}: a request in words has no parameters; write the value into the request")
    goal = with_texts(goal, texts)
    missing = missing_of(params, texts) if asks else []
    if missing and not (sys.stdin and sys.stdin.isatty()):
        wanted = ", ".join(f"{name} ({params[name].type})" for name in missing)
        raise InvalidInput(f"the plan needs {wanted}; give each with --set name=value")
    for name in missing:
        about = f", {plain(params[name].description)}" if params[name].description else ""
        goal = with_texts(goal, {name: input(f"{name} ({params[name].type}{about}): ")})
    return goal


def texts_of(given: Iterable[str]) -> dict[str, str]:
    """Return values by name. Raises InvalidInput if one is not ``name=value``, or a name is set twice."""
    texts: dict[str, str] = {}
    for one in given:
        name, equals, text = one.partition("=")
        if not equals or not name:
            raise InvalidInput(f"--set {one}: write name=value")
        if name in texts:
            raise InvalidInput(f"--set {one}: {name} is set twice; give one value")
        texts[name] = text
    return texts
