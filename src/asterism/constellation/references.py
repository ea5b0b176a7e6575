"""References ``${task_id.field}``, with which a task's inputs use results of tasks upstream.

A string that is a single reference becomes the value itself; within a longer string it becomes
text. ``${task_id}`` is the whole result; ``${task_id.a.b}`` goes deeper. In a nested constellation,
``${inputs.field}`` is an input of the task that the constellation carries out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

INPUTS = "inputs"
"""Name that refers to the inputs of the task that a nested constellation carries out."""

_REFERENCE = re.compile(r"\$\{([A-Za-z0-9_-]+)((?:\.[A-Za-z0-9_-]+)*)\}")


class MissingReference(LookupError):
    """A reference names something that a result does not have."""


def references(value: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield every (task id, path) that a JSON value refers to, in order."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            for task_id, path in _REFERENCE.findall(item):
                yield task_id, tuple(path.split(".")[1:])
        elif isinstance(item, dict):
            stack.extend(reversed(list(item.values())))
        elif isinstance(item, list):
            stack.extend(reversed(item))


def resolve(value: Any, result_of: Callable[[str], Any]) -> Any:
    """Return a JSON value with every reference replaced; ``result_of`` has the result of a task id.

    Raises:
        MissingReference: a task has no result, or the result has no such field.
    """
    if isinstance(value, str):
        whole = _REFERENCE.fullmatch(value)
        if whole:
            return _look_up(whole, result_of)
        return _REFERENCE.sub(lambda match: _as_text(_look_up(match, result_of)), value)
    if isinstance(value, dict):
        return {key: resolve(item, result_of) for key, item in value.items()}
    if isinstance(value, list):
        return [resolve(item, result_of) for item in value]
    return value


def _look_up(match: re.Match[str], result_of: Callable[[str], Any]) -> Any:
    found = result_of(match[1])
    for field in match[2].split(".")[1:]:
        if isinstance(found, dict) and field in found:
            found = found[field]
        elif isinstance(found, list) and field.isdigit() and int(field) < len(found):
            found = found[int(field)]
        else:
            raise MissingReference(f"{match[0]}: the result of {match[1]} has no {field!r}")
    return found


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
