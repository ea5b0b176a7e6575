"""Tasks, dependencies and plans as people and models write them, in all documented spellings.

Only parsing, without a graph. Errors name the place (``tasks[2].timeout_s``) and the allowed
values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, TypeVar, get_args

import msgspec

from asterism.constellation.model.condition import InputCondition, syntax_error
from asterism.constellation.model.fan_out import FailedItems, ForEach, as_for_each, check_for_each
from asterism.constellation.model.line import DependencyType
from asterism.constellation.model.parameters import Param, parse_params
from asterism.constellation.model.task import Join, RetryPolicy, Role, TaskSpec
from asterism.constellation.model.wait import Wait, check_wait
from asterism.devices.model.attempt import ErrorCode
from asterism.devices.model.environment import check_process
from asterism.devices.model.references import INPUTS
from asterism.engine.kernel.data import check_encodable, check_json, round_trip
from asterism.errors import InvalidInput

MAX_TASKS = 20_000
"""Number of tasks of one constellation."""
MAX_NESTED = 5
"""Nesting depth of constellations, including the outermost."""

T = TypeVar("T")

HANDLERS: tuple[Role, ...] = ("on_failure", "finally")
"""Roles of the tasks that run when the rest is settled, in this order."""
SCHEMA_KEY = "$schema"
"""Key that names the JSON Schema of the plan, for editors; its value is ignored."""
_PLAN_FIELDS = ("tasks", "dependencies", "constellation_id", "name", "params", *HANDLERS)
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")


class LineSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A dependency as in a plan or an edit, as the schemas for editors and planners describe it."""

    id: Annotated[str, msgspec.Meta(description="Unique id; by default from->to.")] = ""
    source: Annotated[str, msgspec.Meta(description="Id of the task waited for.")] = msgspec.field(name="from")
    target: Annotated[str, msgspec.Meta(description="Id of the task that waits.")] = msgspec.field(name="to")
    type: Annotated[
        DependencyType | None,
        msgspec.Meta(description="How the end of the task waited for is judged: SUCCESS_ONLY unless a condition is given."),
    ] = None
    condition: Annotated[
        str, msgspec.Meta(description="CEL over the fields of its result, such as: accuracy > 0.95. Makes the dependency CONDITIONAL.")
    ] = ""

    @property
    def line_id(self) -> str:
        """Return the id; by default ``from->to``."""
        return self.id or f"{self.source}->{self.target}"

    @property
    def dependency_type(self) -> DependencyType:
        """Return the type; by default CONDITIONAL with a condition, else SUCCESS_ONLY."""
        return self.type or (DependencyType.CONDITIONAL if self.condition else DependencyType.SUCCESS_ONLY)


class PlanDocument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A whole plan, as a planner proposes it or a plan file holds it.

    Tasks and dependencies are in the order written; those of ``on_failure`` and ``finally`` are among the tasks, by their role.
    """

    constellation_id: Annotated[str, msgspec.Meta(description="Optional id.")] = ""
    name: Annotated[str, msgspec.Meta(description="Optional name, for people.")] = ""
    tasks: Annotated[tuple[TaskSpec, ...], msgspec.Meta(description="The tasks.")] = ()
    dependencies: Annotated[tuple[LineSpec, ...], msgspec.Meta(description="Which task waits for which.")] = ()
    params: Annotated[dict[str, Param], msgspec.Meta(description="Its parameters, of a plan that is submitted.")] = msgspec.field(
        default_factory=dict
    )

    def all_tasks(self) -> Iterator[TaskSpec]:
        """Yield its tasks, and those of the plans in them."""
        for spec in self.tasks:
            yield spec
            if spec.constellation is not None:
                yield from msgspec.convert(spec.constellation, PlanDocument).all_tasks()


def parse_task(value: Any, where: str = "task", *, depth: int = 1) -> TaskSpec:
    """Return a task from JSON, of a constellation at this nesting depth.

    Raises:
        InvalidInput: unknown field, wrong type, unusable id; names ``where``.
    """
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{where}: expected an object with task_id, name, device, …; got {type(value).__name__}")
    given = dict(value)
    if isinstance(given.get("tips"), str):
        given["tips"] = [given["tips"]] if given["tips"] else []
    if given.get("constellation") is not None:
        given["constellation"] = _nested(given, where, depth + 1)
    if isinstance(given.get("retry"), Mapping) and "on" not in given["retry"]:
        given["retry"] = {"on" if key is True else key: item for key, item in given["retry"].items()}  # YAML 1.1 reads on as true
    if "for_each" in given:
        given["for_each"] = as_for_each(given["for_each"])
    spec = _convert(given, TaskSpec, where)
    if spec.task_id == INPUTS:
        raise InvalidInput(
            f"{where}.task_id: {INPUTS!r} is reserved: ${{{INPUTS}.…}} refers to the inputs of a nested constellation; choose another id"
        )
    if not _ID.fullmatch(spec.task_id):
        raise InvalidInput(f"{where}.task_id: {spec.task_id!r} is not usable; letters, digits, _ and -, 64 at most")
    check_json(spec.inputs, f"{where}.inputs")
    if spec.when:
        _check_when(spec.when, f"{where}.when")
    if spec.for_each is not None:
        check_json(spec.for_each.items, f"{where}.for_each.items")
        check_for_each(spec.for_each, f"{where}.for_each")
    if spec.wait is not None:
        check_wait(spec.wait, given, where)
    if spec.env or spec.folder:
        check_process(spec.env, spec.folder, f"{where}.")
    return spec


def _check_when(text: str, where: str) -> None:
    try:
        InputCondition(text)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {syntax_error(text, over_inputs=True) or error}") from None


def _nested(task: Mapping[str, Any], where: str, depth: int) -> dict[str, Any]:
    """Return a task's nested plan as data, with all spellings unified."""
    if depth > MAX_NESTED:
        raise InvalidInput(f"{where}.constellation: more than {MAX_NESTED} constellations within each other")
    if odd := [field for field in ("device", "skill", "env", "folder") if task.get(field)]:
        raise InvalidInput(f"{where}.{odd[0]}: not for a task with a constellation; set it in the tasks of the constellation")
    plan = parse_plan(task["constellation"], f"{where}.constellation", depth=depth)
    as_journaled: dict[str, Any] = round_trip(plan)
    return as_journaled


def parse_line(value: Any, where: str = "dependency") -> LineSpec:
    """Return a dependency from JSON: ``id``, ``from``, ``to``, ``type``, ``condition``.

    Raises:
        InvalidInput: as for :func:`parse_task`.
    """
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{where}: expected an object with from, to, type, condition; got {type(value).__name__}")
    given = {_LINE_SPELLINGS.get(key, key): item for key, item in value.items()}
    return _convert(given, LineSpec, where)


_LINE_SPELLINGS = {"dependency_id": "id", "line_id": "id", "from_task_id": "from", "to_task_id": "to", "dependency_type": "type"}


def parse_plan(value: Any, where: str = "plan", *, depth: int = 1) -> PlanDocument:
    """Return a plan from JSON: tasks and dependencies as lists or as objects by id.

    The plan may also stand under the key ``constellation``. ``depth`` is 1 for the outermost plan.

    Raises:
        InvalidInput: as for :func:`parse_task`; also duplicate ids, no task but handlers, or more
            than ``MAX_TASKS``.
    """
    if isinstance(value, Mapping) and isinstance(value.get("constellation"), Mapping):
        value = value["constellation"]
    if not isinstance(value, Mapping) or "tasks" not in value:
        raise InvalidInput(f"{where}: expected an object with tasks and dependencies")
    if unknown := sorted(set(value) - {SCHEMA_KEY, *_PLAN_FIELDS}, key=str):
        raise InvalidInput(f"{where}: unknown field {unknown[0]!r}; a plan has {', '.join(_PLAN_FIELDS)}")
    listed = {"tasks": _listed(value["tasks"], "task_id", f"{where}.tasks")}
    for role in HANDLERS:
        listed[role] = _listed(value.get(role) or (), "task_id", f"{where}.{role}")
    if (count := sum(map(len, listed.values()))) > MAX_TASKS:
        raise InvalidInput(f"{where}.tasks: {count} tasks; at most {MAX_TASKS}")
    tasks = tuple(
        parse_task(item if part == "tasks" else _handler(item, part, f"{where}.{part}[{key}]"), f"{where}.{part}[{key}]", depth=depth)
        for part, items in listed.items()
        for key, item in items
    )
    dependencies = _listed(value.get("dependencies") or (), "id", f"{where}.dependencies")
    lines = tuple(parse_line(item, f"{where}.dependencies[{key}]") for key, item in dependencies)
    _refuse_duplicates([task.task_id for task in tasks], f"{where}.tasks", "task_id")
    _refuse_duplicates([line.line_id for line in lines], f"{where}.dependencies", "id")
    if not tasks:
        raise InvalidInput(f"{where}.tasks: there is nothing to do; a plan needs a task")
    if all(task.role != "task" for task in tasks):
        raise InvalidInput(
            f"{where}.tasks: there are only handlers ({tasks[0].role}: {tasks[0].task_id}), which run after tasks; add a task"
        )
    return PlanDocument(
        constellation_id=_text(value, "constellation_id", where),
        name=_text(value, "name", where),
        tasks=tasks,
        dependencies=lines,
        params=parse_params(value.get("params") or {}, f"{where}.params"),
    )


def _handler(item: Any, role: str, where: str) -> Any:
    """Return an item of ``on_failure`` or ``finally`` with its role."""
    if not isinstance(item, Mapping):
        return item  # parse_task refuses it
    if item.get("role", role) != role:
        raise InvalidInput(f"{where}.role: {item['role']!r} stands under {role}; they must agree")
    return {**item, "role": role}


def as_file(plan: PlanDocument) -> dict[str, Any]:
    """Return a plan as its file has it: handlers under ``on_failure`` and ``finally``, parameters with their types."""
    value: dict[str, Any] = msgspec.to_builtins(plan)
    if plan.params:
        value["params"] = {name: {"type": plan.params[name].type, **it} for name, it in value["params"].items()}
    groups: dict[str, list[dict[str, Any]]] = {"tasks": [], "on_failure": [], "finally": []}
    for task in value.pop("tasks", ()):
        role = task.pop("role", "task")
        if task.get("constellation") is not None:
            task["constellation"] = as_file(msgspec.convert(task["constellation"], PlanDocument))
        groups["tasks" if role == "task" else role].append({name: it for name, it in task.items() if (name, it) != ("retry", {})})
    lines = {"dependencies": lines} if (lines := value.pop("dependencies", ())) else {}
    return {**value, "tasks": groups.pop("tasks"), **lines, **{role: tasks for role, tasks in groups.items() if tasks}}


def _text(value: Mapping[str, Any], key: str, where: str) -> str:
    found = value.get(key) or ""
    if not isinstance(found, str):
        raise InvalidInput(f"{where}.{key}: expected text, got {type(found).__name__}")
    if not found.isprintable():
        raise InvalidInput(f"{where}.{key}: {found[:40]!r} has characters that cannot be shown")
    return found


def _listed(value: Any, id_field: str, where: str) -> list[tuple[object, Any]]:
    """Return the items, each with its key or index; the keys of an object become the items' ids."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if isinstance(item, Mapping) and item.get(id_field, key) != key:
                raise InvalidInput(f"{where}[{key}].{id_field}: {item[id_field]!r} stands under the name {key!r}; they must agree")
        return [(key, {id_field: key, **item} if isinstance(item, Mapping) else item) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return list(enumerate(value))
    raise InvalidInput(f"{where}: expected a list or an object, got {type(value).__name__}")


def _refuse_duplicates(ids: list[str], where: str, field: str) -> None:
    seen: set[str] = set()
    for item in ids:
        if item in seen:
            raise InvalidInput(f"{where}: {field} {item!r} is there twice; ids are unique")
        seen.add(item)


def _convert(value: Any, kind: type[T], where: str) -> T:
    try:
        found = msgspec.convert(value, kind)
    except (RecursionError, TypeError, UnicodeError) as error:
        raise InvalidInput(f"{where}: cannot be written as JSON ({error})") from None
    except msgspec.ValidationError as error:
        message, _, at = " ".join(str(error).splitlines()).partition(" - at `$")  # a field's name may have several lines
        place = at.rstrip("`")
        raise InvalidInput(f"{where}{place}: {message}{_allowed(message, place, kind)}") from None
    check_encodable(found, where)
    return found


_IN_SECONDS = (".timeout_s", ".deadline_s", ".backoff_s", ".max_backoff_s")
_CHOICES: Mapping[str, Iterable[str]] = {
    ".type": DependencyType,
    ".join": get_args(Join),
    ".role": get_args(Role),
    ".for_each": get_args(FailedItems),
}


def _allowed(message: str, place: str, kind: type) -> str:
    """Return the allowed values at a place, for an error."""
    if "unknown field" in message:
        parts: dict[str, type] = {".retry": RetryPolicy, ".for_each": ForEach, ".wait": Wait}
        within: Any = next((it for name, it in parts.items() if place.startswith(name)), kind)
        return f"; its fields are {', '.join(field.encode_name for field in msgspec.structs.fields(within))}"
    if "enum value" in message:
        values = next((values for field, values in _CHOICES.items() if place.startswith(field)), get_args(ErrorCode))
        return f"; it is one of {', '.join(values)}"
    if place.endswith(_IN_SECONDS):
        return "; it is a number of seconds, such as 60"
    return "; in YAML, put a name such as on, yes or no in quotes" if "`key`" in place or "`key`" in message else ""
