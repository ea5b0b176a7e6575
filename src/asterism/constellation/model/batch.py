"""Application of a batch of edits to a constellation, as a whole or not at all.

A repeated edit changes nothing and adds a note. An id that exists with different content is
refused. Each edit that would close a cycle is refused, with the path. An edit checks only the parts
that it touches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import msgspec

from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.documents import MAX_TASKS, LineSpec, PlanDocument, parse_task
from asterism.constellation.model.edits import (
    AddDependency,
    AddTask,
    Applied,
    BuildConstellation,
    Edit,
    EditRefused,
    RemoveDependency,
    RemoveTask,
    UpdateDependency,
    UpdateTask,
)
from asterism.constellation.model.line import DependencyType, TaskStarLine
from asterism.constellation.model.specs import line_of, task_of
from asterism.constellation.model.task import EDITABLE, TaskSpec, TaskStar
from asterism.devices.model.references import RESERVED
from asterism.engine.kernel.phrase import Phrase, phrase
from asterism.errors import InvalidInput

Check = Callable[[Applied], None]
"""A check of an applied batch; it raises EditRefused to undo the batch."""


def apply_edits(
    constellation: TaskConstellation,
    edits: Iterable[Edit],
    check: Check | None = None,
    *,
    partial: bool = False,
    restore_by_id: bool = False,
    extended: bool = True,
) -> Applied:
    """Apply a batch of edits, as a whole or not at all.

    Args:
        constellation: changed in place; its version grows by one if anything changed.
        edits: the edits, in order.
        check: final check with further knowledge (devices, skills); it may resolve the skills of
            touched tasks.
        partial: True if more edits of the same batch follow, so that references are not checked
            yet.
        restore_by_id: True repeats an error of earlier rules, so that their entries replay: a task
            that a refused batch removed and added again loses its skill.
        extended: False for entries of rules before reserved ids.

    Raises:
        EditRefused: an edit is invalid; the constellation is unchanged.
    """
    batch = _Batch(constellation, extended=extended)
    try:
        for edit in edits:
            batch.apply(edit)
        if not partial:
            batch.check_references()
        applied = batch.applied()
        if check:
            batch.save_skills(applied.tasks, by_id=restore_by_id)
            check(applied)
    except BaseException:  # boundary: whatever was raised, nothing of the batch may stay
        batch.roll_back()
        raise
    if applied.changed:
        constellation.version += 1
    return applied


_SKILL_FIELDS = {"name", "description", "device", "skill", "constellation", "wait"}
"""The fields of a task by which its skill is found."""


class _Batch:
    """A batch in progress: its changes so far, and how to undo them."""

    def __init__(self, constellation: TaskConstellation, *, extended: bool) -> None:
        self._it = constellation
        self._extended = extended
        self._undo: list[tuple[Callable[..., object], Any]] = []  # function and argument, which is cheaper than a closure
        self._tasks: dict[str, None] = {}
        self._lines: dict[str, None] = {}
        self._unlinked: dict[str, None] = {}
        self._removed_tasks: dict[str, None] = {}
        self._removed_lines: dict[str, None] = {}
        self._notes: list[Phrase] = []
        self._was_clean = not constellation.dirty

    def apply(self, edit: Edit) -> None:
        self._RULES[type(edit)](self, edit)

    def applied(self) -> Applied:
        return Applied(
            changed=bool(self._undo),
            tasks=tuple(task_id for task_id in self._tasks if task_id in self._it.tasks),
            lines=tuple(line_id for line_id in self._lines if line_id in self._it.lines),
            removed_tasks=tuple(self._removed_tasks),
            removed_lines=tuple(self._removed_lines),
            targets=tuple(task_id for task_id in {**self._unlinked, **self._targets()} if task_id in self._it.tasks),
            notes=tuple(self._notes),
        )

    def _targets(self) -> dict[str, None]:
        return dict.fromkeys([self._it.lines[line_id].target for line_id in self._lines if line_id in self._it.lines])

    def roll_back(self) -> None:
        for undo, argument in reversed(self._undo):
            undo(argument)
        if self._was_clean:
            self._it.dirty.clear()

    def save_skills(self, task_ids: Iterable[str], *, by_id: bool) -> None:
        """Let a roll back restore the skills of these tasks and of their nested plans: first, or ``by_id`` after all else."""
        saved = [(task := self._it.tasks[task_id], task.resolved_skill, task.constellation) for task_id in task_ids]

        def restore(_: None) -> None:
            for task, skill, nested in saved:
                found = self._it.tasks.get(task.task_id, task) if by_id else task
                found.resolved_skill = skill
                if not by_id:
                    task.constellation = nested

        self._undo.insert(0 if by_id else len(self._undo), (restore, None))

    def check_references(self) -> None:
        """Check that the references and conditions of touched parts name only ancestors."""
        touched = dict.fromkeys(task_id for task_id in self._tasks if task_id in self._it.tasks)
        lines = self._it.lines
        touched.update(self._targets())
        if self._unlinked:
            lost = {below for task_id in self._unlinked if task_id in self._it.tasks for below in (task_id, *self._it.descendants(task_id))}
            touched.update(dict.fromkeys(task_id for task_id in sorted(lost) if self._it.tasks[task_id].editable))
        for line_id in self._lines:
            if line_id in lines and (why := self._it.why_misplaced(lines[line_id])):
                raise EditRefused("bad_reference", line_id, why)
        for task_id in touched:
            if why := self._it.why_unresolvable(task_id, extended=self._extended):
                raise EditRefused("bad_reference", task_id, why)

    # -- one rule per edit -------------------------------------------------------------------------

    def _build(self, edit: BuildConstellation) -> None:
        if edit.plan.params:
            raise EditRefused("bad_content", "params", phrase("params_in_edit"))
        if edit.clear and self._it.tasks and not self._equals(edit.plan):
            started = [task.task_id for task in self._it.in_order() if not task.editable]
            if started:
                raise EditRefused("read_only", started[0], phrase("cleared_started", status=self._it.tasks[started[0]].status))
            for task_id in list(self._it.tasks):
                self._remove_task(RemoveTask(task_id=task_id))
        for task in edit.plan.tasks:
            self._add_task(AddTask(task=task))
        for line in edit.plan.dependencies:
            self._add_line(line, check_cycle=False)
        if cycle := self._it.cycle():
            raise EditRefused("cycle", " -> ".join(cycle), phrase("plan_cycle"))

    def _equals(self, plan: PlanDocument) -> bool:
        tasks, lines = self._it.tasks, self._it.lines
        return (
            len(tasks) - self._it.item_count == len(plan.tasks)
            and len(lines) == len(plan.dependencies)
            and all(spec.task_id in tasks and _same_task(tasks[spec.task_id], spec) for spec in plan.tasks)
            and all(spec.line_id in lines and _same_line(lines[spec.line_id], spec) for spec in plan.dependencies)
        )

    def _add_task(self, edit: AddTask) -> None:
        spec = edit.task
        existing = self._it.tasks.get(spec.task_id)
        if existing is not None:
            if not _same_task(existing, spec):
                raise EditRefused("different_content", spec.task_id, phrase("task_differs"))
            self._notes.append(phrase("there_already", edit="add_task", id=spec.task_id))
            return
        if self._extended and spec.task_id in RESERVED:
            raise EditRefused("bad_content", spec.task_id, phrase("reserved_id", task_id=spec.task_id))
        if len(self._it.tasks) - self._it.item_count >= MAX_TASKS:
            raise EditRefused("too_many", spec.task_id, phrase("too_many_tasks", most=MAX_TASKS))
        _check_role(spec)
        self._put_task(task_of(spec))

    def _remove_task(self, edit: RemoveTask) -> None:
        if edit.task_id not in self._it.tasks and edit.task_id in self._it.removed_tasks:
            self._notes.append(phrase("removed_already", edit="remove_task", id=edit.task_id))
            return
        task = self._editable(edit.task_id)
        for line in self._it.lines_out(task.task_id):
            self._editable(line.target)
        for line in (*self._it.lines_in(task.task_id), *self._it.lines_out(task.task_id)):
            self._drop_line(line)
        self._drop_task(task)

    def _update_task(self, edit: UpdateTask) -> None:
        task = self._known(edit.task_id)
        unknown = sorted(set(edit.changes) - set(TaskSpec.__struct_fields__[1:]))
        if unknown:
            why = phrase("unknown_field", fields=TaskSpec.__struct_fields__[1:])
            raise EditRefused("bad_content", f"{edit.task_id}.{unknown[0]}", why)
        try:
            spec = parse_task({**msgspec.to_builtins(spec_of(task)), **edit.changes}, edit.task_id)
        except InvalidInput as error:
            raise EditRefused("bad_content", edit.task_id, str(error)) from None
        if spec.role != task.role:
            raise EditRefused("bad_content", f"{edit.task_id}.role", phrase("role_fixed"))
        _check_role(spec)
        before = {field: getattr(task, field) for field in edit.changes}
        after = {field: getattr(spec, field) for field in edit.changes}
        if _to_json(before) == _to_json(after):
            self._notes.append(phrase("so_already", edit="update_task", id=edit.task_id))
            return
        self._editable(edit.task_id)
        if any(before[field] != after[field] for field in before.keys() & _SKILL_FIELDS):
            before["resolved_skill"], after["resolved_skill"] = task.resolved_skill, ""
        self._set_fields(task, before, after)

    def _add_dependency(self, edit: AddDependency) -> None:
        self._add_line(edit.dependency, check_cycle=True)

    def _add_line(self, spec: LineSpec, *, check_cycle: bool) -> None:
        line_id = spec.line_id
        existing = self._it.lines.get(line_id) or self._it.line_between(spec.source, spec.target)
        if existing is not None:
            if not _same_line(existing, spec):
                raise EditRefused("different_content", line_id, phrase("line_differs", line=existing.line_id))
            self._notes.append(phrase("there_already", edit="add_dependency", id=existing.line_id))
            return
        self._known(spec.source)
        self._editable(spec.target)
        if spec.source == spec.target:
            raise EditRefused("cycle", f"{spec.source} -> {spec.target}", phrase("self_cycle"))
        if check_cycle and (cycle := self._it.cycle_through(spec.source, spec.target)):
            raise EditRefused("cycle", " -> ".join(cycle), phrase("closes_cycle", source=spec.source, target=spec.target))
        self._place_line(self._line(spec))

    def _remove_dependency(self, edit: RemoveDependency) -> None:
        if edit.dependency_id not in self._it.lines and edit.dependency_id in self._it.removed_lines:
            self._notes.append(phrase("removed_already", edit="remove_dependency", id=edit.dependency_id))
            return
        line = self._known_line(edit.dependency_id)
        self._editable(line.target)
        self._drop_line(line)

    def _update_dependency(self, edit: UpdateDependency) -> None:
        line = self._known_line(edit.dependency_id)
        kind = edit.type or (DependencyType.CONDITIONAL if edit.condition else line.type)
        unchanged = line.condition if kind is DependencyType.CONDITIONAL else ""
        condition = unchanged if edit.condition is None else edit.condition
        spec = LineSpec(id=line.line_id, source=line.source, target=line.target, type=kind, condition=condition)
        if _same_line(line, spec):
            self._notes.append(phrase("so_already", edit="update_dependency", id=line.line_id))
            return
        self._editable(line.target)
        changed = self._line(spec)
        self._take_line(line)
        self._place_line(changed)

    _RULES: ClassVar[Mapping[type, Callable[..., None]]] = {
        BuildConstellation: _build,
        AddTask: _add_task,
        RemoveTask: _remove_task,
        UpdateTask: _update_task,
        AddDependency: _add_dependency,
        RemoveDependency: _remove_dependency,
        UpdateDependency: _update_dependency,
    }

    # -- lookups -----------------------------------------------------------------------------------

    def _known(self, task_id: str) -> TaskStar:
        task = self._it.tasks.get(task_id)
        if task is not None and not task.item_of:
            return task
        of, bracket, _ = task_id.partition("[")
        if bracket and of in self._it.tasks:
            raise EditRefused("read_only", task_id, phrase("is_item", of=of))
        raise EditRefused("unknown_task", task_id, phrase("no_such_task"))

    def _editable(self, task_id: str) -> TaskStar:
        task = self._known(task_id)
        if task.status not in EDITABLE:
            raise EditRefused("read_only", task_id, phrase("not_editable", status=task.status))
        return task

    def _known_line(self, line_id: str) -> TaskStarLine:
        line = self._it.lines.get(line_id)
        if line is None:
            raise EditRefused("unknown_dependency", line_id, phrase("no_such_dependency"))
        return line

    def _line(self, spec: LineSpec) -> TaskStarLine:
        try:
            return line_of(spec)
        except InvalidInput as error:
            raise EditRefused("bad_content", spec.line_id, str(error)) from None

    # -- changes, each with its undo ---------------------------------------------------------------

    def _put_task(self, task: TaskStar) -> None:
        constellation, task_id = self._it, task.task_id
        self._remove_tombstone(constellation.removed_tasks, task_id)
        constellation.insert_task(task)
        self._undo.append((constellation.delete_task, task_id))
        self._tasks[task_id] = None

    def _drop_task(self, task: TaskStar) -> None:
        constellation, task_id = self._it, task.task_id
        ordinal = constellation.ordinal(task_id)
        constellation.delete_task(task_id)
        self._removed_tasks[task_id] = None
        self._add_tombstone(constellation.removed_tasks, task_id)
        self._undo.append((lambda task: constellation.insert_task(task, ordinal), task))

    def _set_fields(self, task: TaskStar, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        self._write(task, after)
        self._undo.append((lambda task: self._write(task, before), task))
        self._tasks[task.task_id] = None

    def _write(self, task: TaskStar, fields: Mapping[str, Any]) -> None:
        for field, value in fields.items():
            setattr(task, field, value)
        if "join" in fields:
            self._it.dirty[task.task_id] = True
        self._it.inputs_changed(task.task_id)

    def _drop_line(self, line: TaskStarLine) -> None:
        self._take_line(line)
        self._unlinked[line.target] = None

    def _place_line(self, line: TaskStarLine) -> None:
        constellation, line_id = self._it, line.line_id
        if constellation.removed_lines:
            self._remove_tombstone(constellation.removed_lines, line_id)
        constellation.insert_line(line)
        self._undo.append((constellation.delete_line, line_id))
        self._lines[line_id] = None

    def _take_line(self, line: TaskStarLine) -> None:
        self._it.delete_line(line.line_id)
        self._removed_lines[line.line_id] = None
        self._add_tombstone(self._it.removed_lines, line.line_id)
        self._undo.append((self._it.insert_line, line))

    def _add_tombstone(self, tombstones: set[str], removed: str) -> None:
        if removed not in tombstones:
            tombstones.add(removed)
            self._undo.append((tombstones.discard, removed))

    def _remove_tombstone(self, tombstones: set[str], removed: str) -> None:
        if removed in tombstones:
            tombstones.discard(removed)
            self._undo.append((tombstones.add, removed))


def _check_role(spec: TaskSpec) -> None:
    if spec.role != "task" and spec.deadline_s is not None:
        raise EditRefused("bad_content", f"{spec.task_id}.deadline_s", phrase("handler_deadline"))


def spec_of(task: TaskStar) -> TaskSpec:
    """Return a task as a plan describes it."""
    return TaskSpec(**{field: getattr(task, field) for field in TaskSpec.__struct_fields__})


def line_spec_of(line: TaskStarLine) -> LineSpec:
    """Return a dependency as a plan describes it."""
    return LineSpec(id=line.line_id, source=line.source, target=line.target, type=line.type, condition=line.condition)


def _same_task(task: TaskStar, spec: TaskSpec) -> bool:
    existing = spec_of(task)
    if existing.constellation and spec.constellation:
        spec = msgspec.structs.replace(spec, constellation=_with_skills_of(existing.constellation, spec.constellation))
    return existing == spec and _to_json((existing.inputs, existing.constellation)) == _to_json((spec.inputs, spec.constellation))


def _with_skills_of(there: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return a nested plan as it would be there: a task that names no skill has the one that was resolved for it."""
    known = {task["task_id"]: task for task in there["tasks"]}
    tasks = [{"skill": known.get(task["task_id"], {}).get("skill", "")} | task for task in plan["tasks"]]
    for task in tasks:
        same = known.get(task["task_id"], {})
        if task.get("constellation") and same.get("constellation"):
            task["constellation"] = _with_skills_of(same["constellation"], task["constellation"])
    return {**plan, "tasks": [{name: it for name, it in task.items() if (name, it) != ("skill", "")} for task in tasks]}


def _to_json(value: Any) -> bytes:
    """Return a value as JSON to compare it by: in Python 1 == True, in JSON they differ."""
    return msgspec.json.encode(value, order="deterministic")


def _same_line(line: TaskStarLine, spec: LineSpec) -> bool:
    ends = (line.source, line.target, line.type, line.condition) == (spec.source, spec.target, spec.dependency_type, spec.condition)
    return ends and spec.id in ("", line.line_id)
