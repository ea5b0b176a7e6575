"""The arguments of ``Constellation.task``: checked where they are given, so that a mistake is refused in its own line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

from asterism.devices.skills.skill import skill_name
from asterism.errors import InvalidInput, did_you_mean

NOT_A_TASK = "pass what task(…) has returned"


def arguments_of(inputs: Any, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a task: those of ``inputs=`` and those by name.

    Raises:
        InvalidInput: ``inputs`` is no dict, or an argument is given twice.
    """
    if not isinstance(inputs, Mapping):
        raise InvalidInput(f"inputs: expected a dict of arguments by name, got {type(inputs).__name__}")
    if twice := [name for name in inputs if name in more]:
        raise InvalidInput(f"argument {twice[0]!r} is given twice, by its name and in inputs=")
    return {**inputs, **more}


def check_conditions(condition: Any) -> None:
    """Check that ``condition=`` is a dict by task; raises InvalidInput."""
    if not isinstance(condition, Mapping):
        raise InvalidInput(f"condition: expected a dict of conditions by task, as in {{train: 'accuracy > 0.95'}}, got {condition!r}")


def check_names(
    task_id: str, function: Callable[..., Any], given: Mapping[str, Any], options: Collection[str], chosen: Collection[str]
) -> None:
    """Check the names of a function's arguments.

    Args:
        task_id: id of its task.
        function: the function.
        given: its arguments.
        options: names that mean an option of ``task``.
        chosen: those of them that are given; a parameter of this name might have been meant.

    Raises:
        InvalidInput: the function has no parameter of a name, or a required one has the name of an option.
    """
    takes = inspect.signature(function).parameters
    for name, parameter in takes.items():
        if name in options and name not in given and (parameter.default is parameter.empty or name in chosen):
            raise InvalidInput(
                f"task {task_id}: its parameter {name!r} has the name of an option of task(…); give it as inputs={{{name!r}: …}}"
            )
    if unknown := [name for name in given if name not in takes]:
        meant = did_you_mean(unknown[0], takes) or f"; it has {', '.join(takes) or 'none'}"
        raise InvalidInput(f"task {task_id}: {skill_name(function)} has no parameter {unknown[0]!r}{meant}")
