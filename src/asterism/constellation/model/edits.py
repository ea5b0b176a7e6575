"""The seven edits of a constellation, as data, for planners and people.

``batch`` applies them. Every refusal has a code, which a model can read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from asterism.constellation.model.documents import LineSpec, PlanDocument, parse_line, parse_plan, parse_task
from asterism.constellation.model.line import DependencyType
from asterism.constellation.model.task import TaskSpec
from asterism.engine.kernel.data import check_encodable
from asterism.engine.kernel.phrase import Phrase, Text, phrase
from asterism.engine.kernel.refusal import CodedRefusal
from asterism.errors import InvalidInput

RefusalCode = Literal[
    "cycle",
    "unknown_task",
    "unknown_dependency",
    "unknown_device",
    "unknown_skill",
    "unknown_argument",
    "bad_argument",
    "unknown_edit",
    "read_only",
    "different_content",
    "bad_content",
    "bad_reference",
    "too_many",
    "no_constellation",
    "ended",
    "guarded",
    "unavailable",
]


MAX_EDITS = 1000
"""Number of edits in one batch from outside."""


class EditRefused(CodedRefusal):
    """A batch of edits was refused, and none of them was applied; ``refusal`` is the first refusal."""

    def __init__(self, code: RefusalCode, what: str, why: Text, index: int | None = None) -> None:
        super().__init__(code, what, why, index)


class BuildConstellation(msgspec.Struct, frozen=True, kw_only=True, tag_field="tool", tag="build_constellation"):
    """Build a constellation from a whole plan.

    With ``clear`` the plan replaces the current constellation, else it is merged into it.
    """

    plan: PlanDocument
    clear: bool = True


class AddTask(msgspec.Struct, frozen=True, kw_only=True, tag_field="tool", tag="add_task"):
    """Add a task."""

    task: TaskSpec


class RemoveTask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="tool", tag="remove_task"):
    """Remove a task and its dependencies."""

    task_id: str


class UpdateTask(msgspec.Struct, frozen=True, kw_only=True, tag_field="tool", tag="update_task"):
    """Change fields of a task: those of ``TaskSpec`` except its id."""

    task_id: str
    changes: dict[str, Any]


class AddDependency(msgspec.Struct, frozen=True, kw_only=True, tag_field="tool", tag="add_dependency"):
    """Add a dependency."""

    dependency: LineSpec


class RemoveDependency(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="tool", tag="remove_dependency"):
    """Remove a dependency."""

    dependency_id: str


class UpdateDependency(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="tool", tag="update_dependency"):
    """Change the type or the condition of a dependency; a condition alone makes it CONDITIONAL."""

    dependency_id: str
    type: DependencyType | None = None
    condition: str | None = None


Edit = BuildConstellation | AddTask | RemoveTask | UpdateTask | AddDependency | RemoveDependency | UpdateDependency


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an applied batch.

    Attributes:
        changed: False if no edit changed anything.
        tasks: ids of added or changed tasks.
        lines: ids of added or changed dependencies.
        removed_tasks, removed_lines: ids of removed ones, including those added again.
        targets: ids of the tasks whose dependencies were added, changed or removed.
        notes: edits that changed nothing.
    """

    changed: bool = False
    tasks: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    removed_tasks: tuple[str, ...] = ()
    removed_lines: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    notes: tuple[Phrase, ...] = ()


def parse_actions(actions: Sequence[Any]) -> list[Edit]:
    """Return the edits of a batch from outside, each as ``parse_action`` returns it.

    Raises:
        EditRefused: too many edits, or the first that is invalid, with its index.
    """
    if len(actions) > MAX_EDITS:
        raise EditRefused("too_many", "actions", phrase("too_many_edits", count=len(actions), most=MAX_EDITS))
    edits: list[Edit] = []
    for index, action in enumerate(actions):
        try:
            edits.append(parse_action(action))
        except EditRefused as refused:
            raise _at(refused, index, len(actions)) from None
    return edits


def with_index(refused: EditRefused, count: int, attempt: Callable[[int], object]) -> EditRefused:
    """Return the refusal of a batch with the index of the edit that causes it, found by binary search.

    An edit causes the refusal if the batch up to it is refused for the same reason, and the batch
    before it is not.

    Args:
        refused: the refusal of the whole batch.
        count: number of edits in the batch.
        attempt: applies that many of the first edits to a copy; raises EditRefused.
    """
    good, bad = 0, count
    while bad - good > 1:
        number = (good + bad) // 2
        try:
            attempt(number)
        except EditRefused as again:
            good, bad = (good, number) if again.refusal == refused.refusal else (number, bad)
        else:
            good = number
    return _at(refused, bad - 1, count)


def _at(refused: EditRefused, index: int, count: int) -> EditRefused:
    return refused.replaced(index=index if count > 1 else None)


def parse_action(value: Any, where: str = "action") -> Edit:
    """Return an edit from JSON: ``{"tool": …, "parameters": {…}}``.

    ``function`` and ``action`` are accepted for ``tool``, ``arguments`` for ``parameters``.

    Raises:
        EditRefused: unknown tool, or invalid parameters.
    """
    if not isinstance(value, Mapping):
        raise EditRefused("bad_content", where, phrase("no_edit", given=type(value).__name__))
    tool = next((value[key] for key in ("tool", "function", "action") if isinstance(value.get(key), str)), "")
    given: Any = next((value[key] for key in ("parameters", "arguments") if key in value), {})
    if tool not in _PARSERS:
        raise EditRefused("unknown_edit", where, phrase("unknown_tool", tool=tool, tools=list(_PARSERS)))
    if not isinstance(given, Mapping):
        raise EditRefused("bad_content", where, phrase("parameters_type", tool=tool, given=type(given).__name__))
    try:
        check_encodable(given, "parameters")
        return _PARSERS[tool](dict(given))
    except (InvalidInput, msgspec.ValidationError) as error:
        raise EditRefused("bad_content", where, f"{tool}: {error}") from None


def _parse_build(given: dict[str, Any]) -> Edit:
    clear = given.pop("clear", given.pop("clear_existing", True))
    if not isinstance(clear, bool):
        raise InvalidInput(f"clear is true or false, not {clear!r}")
    return BuildConstellation(plan=parse_plan(given.get("config", given)), clear=clear)


def _parse_update(given: dict[str, Any]) -> Edit:
    task_id = given.pop("task_id", "")
    if not isinstance(task_id, str) or not task_id:
        raise InvalidInput("task_id is missing")
    return UpdateTask(task_id=task_id, changes=given)


_PARSERS: Mapping[str, Callable[[dict[str, Any]], Edit]] = {
    "build_constellation": _parse_build,
    "add_task": lambda given: AddTask(task=parse_task(given)),
    "remove_task": lambda given: msgspec.convert(given, RemoveTask),
    "update_task": _parse_update,
    "add_dependency": lambda given: AddDependency(dependency=parse_line(given)),
    "remove_dependency": lambda given: msgspec.convert(given, RemoveDependency),
    "update_dependency": lambda given: msgspec.convert(given, UpdateDependency),
}
