"""References ``${task_id.field}``, with which a task's inputs use results of tasks upstream.

A string that is a single reference becomes the value itself; within a longer string it becomes
text. ``${task_id}`` is the whole result; ``${task_id.a.b}`` goes deeper. ``${task_id.error}`` is the
error of a task that failed, null of one that completed. In a nested constellation, ``${inputs.field}``
is an input of the task that the constellation carries out. ``${secret.NAME}`` is a secret: it
remains a reference until the task is performed. In a task with ``for_each``, ``${item}`` is
the item and ``${index}`` its number; ``${task_id.failed}`` has the failed items of such a task.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from asterism.engine.kernel.data import texts_of
from asterism.engine.kernel.phrase import Phrase, phrase

INPUTS = "inputs"
"""Name that refers to the inputs of the task that a nested constellation carries out."""

PARAMS = "params"
"""Name that refers to the parameters of the plan."""
SECRET = "secret"  # noqa: S105 - a name
"""Name that refers to secrets, which only the process that performs a task resolves."""
RUN = "run"
"""Name with which a handler refers to the run: ``${run.error}``, ``${run.outcome}``, ``${run.id}``."""
RUN_FIELDS = ("error", "outcome", "id")
ITEM = "item"
"""Name that refers to the item of a task with ``for_each``."""
INDEX = "index"
"""Name that refers to the number of that item, from 0."""
RESERVED = (PARAMS, ITEM, INDEX, RUN)
"""Further names that refer to something else than a task. New plans have no tasks of these ids; in a
journal that has one, the name refers to the task."""
ERROR = "error"
"""Field that refers to a task's error, unless its result has a field of that name."""

FAILED = "failed"
"""Field that refers to the failed items of a task with ``for_each``."""

_REFERENCE = re.compile(r"\$\{([A-Za-z0-9_-]+)((?:\.[A-Za-z0-9_-]+)*)\}")


class MissingReference(LookupError):
    """A reference names something that a result does not have.

    Attributes:
        why: what it names, and what is there.
    """

    def __init__(self, why: Phrase) -> None:
        self.why = why
        super().__init__(str(why))


def written_as(source: str, path: Iterable[str]) -> str:
    """Return a reference as a plan has it."""
    return f"${{{'.'.join((source, *path))}}}"


def is_reference(text: str) -> bool:
    """Return True for a text that is a single reference."""
    return _REFERENCE.fullmatch(text) is not None


def secrets_of(text: str) -> list[str]:
    """Return the names of the secrets that a text refers to, in order."""
    return [path[1:] for source, path in _REFERENCE.findall(text) if source == SECRET]


def secrets_in(value: Any) -> list[str]:
    """Return the names of the secrets that the texts of a JSON value refer to."""
    return [name for text in texts_of(value) for name in secrets_of(text)]


def with_secrets(text: str, value_of: Callable[[str], str]) -> str:
    """Return a text with its references to secrets replaced."""
    return _REFERENCE.sub(lambda match: value_of(match[2][1:]) if match[1] == SECRET else match[0], text)


def secret_paths(template: Any, value: Any) -> list[tuple[str | int, ...]]:
    """Return the paths of the texts of a template that refer to secrets, and that a value still has.

    Other texts of the value may come from results: what looks like a reference there is none.
    """
    found: list[tuple[str | int, ...]] = []
    stack: list[tuple[tuple[str | int, ...], Any, Any]] = [((), template, value)]
    while stack:
        path, wanted, there = stack.pop()
        if isinstance(wanted, str):
            if wanted == there and secrets_of(wanted):
                found.append(path)
        elif isinstance(wanted, dict) and isinstance(there, dict):
            stack += [((*path, key), item, there[key]) for key, item in wanted.items() if key in there]
        elif isinstance(wanted, list) and isinstance(there, list):
            stack += [((*path, place), item, other) for place, (item, other) in enumerate(zip(wanted, there, strict=False))]
    return found


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


def resolve(value: Any, value_of: Callable[[str, str], Any], *, lenient: bool = False) -> Any:
    """Return a JSON value with every reference replaced.

    ``value_of`` has the value of a task id and a path, such as ``a.b``. With ``lenient`` a missing value is
    null, and an empty text within a text.

    Raises:
        MissingReference: a task has no result, or the result has no such field.
    """
    if isinstance(value, str):
        whole = _REFERENCE.fullmatch(value)
        if whole:
            return _look_up(whole, value_of, lenient=lenient)
        empty = "" if lenient else "null"
        return _REFERENCE.sub(lambda match: _as_text(_look_up(match, value_of, lenient=lenient), empty), value)
    if isinstance(value, dict):
        return {key: resolve(item, value_of, lenient=lenient) for key, item in value.items()}
    if isinstance(value, list):
        return [resolve(item, value_of, lenient=lenient) for item in value]
    return value


def _look_up(match: re.Match[str], value_of: Callable[[str, str], Any], *, lenient: bool) -> Any:
    try:
        return _found(match, value_of)
    except MissingReference:
        if lenient:
            return None
        raise


def _found(match: re.Match[str], value_of: Callable[[str, str], Any]) -> Any:
    found = value_of(match[1], match[2][1:])
    for field in match[2].split(".")[1:]:
        if isinstance(found, dict) and field in found:
            found = found[field]
        elif isinstance(found, list) and field.isdigit() and int(field) < len(found):
            found = found[int(field)]
        else:
            raise MissingReference(
                phrase("item_lacks" if match[1] == ITEM else "result_lacks", reference=match[0], task=match[1], field=field)
            )
    return found


def _as_text(value: Any, empty: str) -> str:
    if value is None:
        return empty
    return value if isinstance(value, str) else json.dumps(value)
