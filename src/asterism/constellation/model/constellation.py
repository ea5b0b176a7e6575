"""TaskConstellation: a live DAG of tasks, with the readiness of each task kept up to date.

It counts the open dependencies of each task in O(out-degree) per change. Checked changes are made in ``edits`` and
``batch``; the task lifecycle machine moves tasks between states; the constellation agent starts them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from asterism.constellation.model.documents import LineSpec, parse_plan
from asterism.constellation.model.graph import find_cycle, find_path, reached
from asterism.constellation.model.line import Evaluation, TaskStarLine, named_by
from asterism.constellation.model.specs import WrittenConstellation, line_of, task_of
from asterism.constellation.model.task import SETTLED, TaskStar
from asterism.devices.model.references import INDEX, INPUTS, ITEM, PARAMS, RUN, SECRET, references
from asterism.engine.kernel.phrase import Phrase, phrase
from asterism.errors import InvalidInput


class ConstellationSnapshot(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A constellation as data, which preserves every order, unlike ``to_dict``.

    Attributes:
        tasks: tasks in the order of creation.
        lines: dependencies in the order of insertion, in which a task's dependencies are listed.
    """

    constellation_id: str
    name: str
    version: int
    generation: int
    tasks: list[TaskStar]
    lines: list[TaskStarLine]
    removed_tasks: list[str] = []
    removed_lines: list[str] = []
    unevaluated: list[str] = []
    dirty: list[str] = []


class TaskConstellation:
    """A DAG of tasks.

    Attributes:
        constellation_id: unique among the constellations of a run.
        name: name for people.
        version: grows by one with each batch of edits that changed something.
        generation: number of restarts before it.
        tasks: tasks by id, including items of tasks with ``for_each``; changed only by edits and machines.
        item_count: number of items among the tasks.
        lines: dependencies by id.
        removed_tasks, removed_lines: ids that edits have removed.
        unevaluated: ids of dependencies that can be evaluated and have no result yet.
        dirty: ids of tasks whose dependencies have changed, in order; True if their readiness may
            have changed, too.
        referring: for each task with references in its inputs, the ids they name.
    """

    def __init__(self, constellation_id: str = "", name: str = "", *, generation: int = 0) -> None:
        self.constellation_id = constellation_id
        self.name = name
        self.version = 0
        self.generation = generation
        self.tasks: dict[str, TaskStar] = {}
        self.item_count = 0
        self.lines: dict[str, TaskStarLine] = {}
        self.removed_tasks: set[str] = set()
        self.removed_lines: set[str] = set()
        self.unevaluated: dict[str, None] = {}
        self.dirty: dict[str, bool] = {}
        self._out: dict[str, dict[str, str]] = {}
        self._in: dict[str, dict[str, str]] = {}
        self._open: dict[str, int] = {}
        self._refused: dict[str, int] = {}
        self.referring: dict[str, frozenset[str]] = {}
        self._named_in: dict[str, dict[str, None]] = {}
        self._ordinals: dict[str, int] = {}
        self._next_ordinal = 0

    # -- reading -----------------------------------------------------------------------------------

    def lines_out(self, task_id: str) -> list[TaskStarLine]:
        """Return the dependencies whose source is the task."""
        return [self.lines[line] for line in self._out[task_id].values()]

    def lines_in(self, task_id: str) -> list[TaskStarLine]:
        """Return the dependencies whose target is the task."""
        return [self.lines[line] for line in self._in[task_id].values()]

    def line_between(self, source: str, target: str) -> TaskStarLine | None:
        """Return the dependency from source to target; None if there is none."""
        found = self._out.get(source, {}).get(target)
        return self.lines[found] if found is not None else None

    def predecessors(self, task_id: str) -> list[str]:
        """Return the ids of the direct predecessors, in the order of the dependencies."""
        return list(self._in[task_id])

    def successors(self, task_id: str) -> list[str]:
        """Return the ids of the direct successors."""
        return list(self._out[task_id])

    def is_ready(self, task_id: str) -> bool:
        """Return True if the dependencies of the task that it waits for are satisfied: all, or any."""
        unsatisfied = self._open[task_id]
        return not unsatisfied or (self.tasks[task_id].join == "any" and unsatisfied < len(self._in[task_id]))

    def is_unsatisfiable(self, task_id: str) -> bool:
        """Return True if a dependency of the task can no longer be satisfied; with ``join: any``, if none can."""
        refused = self._refused[task_id]
        return refused > 0 and (self.tasks[task_id].join == "all" or refused == len(self._in[task_id]))

    def ordinal(self, task_id: str) -> int:
        """Return the position in the order of creation, which breaks ties."""
        return self._ordinals[task_id]

    def in_order(self) -> list[TaskStar]:
        """Return the tasks of the plan in the order of creation, without items."""
        tasks = self.tasks
        return [tasks[task_id] for task_id in sorted(tasks, key=self._ordinals.__getitem__) if not tasks[task_id].item_of]

    def in_order_with_items(self) -> list[TaskStar]:
        """Return all tasks in the order of creation."""
        return [self.tasks[task_id] for task_id in sorted(self.tasks, key=self._ordinals.__getitem__)]

    def ancestors(self, task_id: str) -> set[str]:
        """Return the ids of all tasks upstream."""
        return reached(self._in, task_id)

    def descendants(self, task_id: str) -> set[str]:
        """Return the ids of all tasks downstream."""
        return reached(self._out, task_id)

    def path(self, start: str, end: str) -> list[str] | None:
        """Return a path from start to end, including both; None if there is none. O(n + e)."""
        return find_path(self._out, start, end)

    # -- changing: primitives for edits and machines -----------------------------------------------

    def insert_task(self, task: TaskStar, ordinal: int | None = None) -> None:
        """Insert a task; its id must be new. An item waits until it is released."""
        self.tasks[task.task_id] = task
        self._out[task.task_id] = {}
        self._in[task.task_id] = {}
        self._open[task.task_id] = self._refused[task.task_id] = 0
        self._ordinals[task.task_id] = self._next_ordinal if ordinal is None else ordinal
        self._next_ordinal = max(self._next_ordinal, self._ordinals[task.task_id] + 1)
        if task.item_of:
            self.item_count += 1
            return
        self.inputs_changed(task.task_id)
        self.dirty[task.task_id] = True

    def delete_task(self, task_id: str) -> None:
        """Delete a task without dependencies."""
        self.item_count -= bool(self.tasks[task_id].item_of)
        tables: tuple[dict[str, Any], ...] = (self.tasks, self._out, self._in, self._open, self._refused, self._ordinals)
        for table in tables:
            del table[task_id]
        self.referring.pop(task_id, None)
        self.dirty.pop(task_id, None)

    def insert_line(self, line: TaskStarLine) -> None:
        """Insert a dependency; both ends exist, the pair is free, and no cycle is closed."""
        line_id, source, target = line.line_id, line.source, line.target
        self.lines[line_id] = line
        self._out[source][target] = line_id
        self._in[target][source] = line_id
        if line.condition:
            for named in named_by(line):
                self._named_in.setdefault(named, {})[line_id] = None
        if line.verdict is not None:
            self._count(line, +1)
            return
        was = self._open[target]
        self._open[target] = was + 1
        self.dirty[target] = not was or self.dirty.get(target, False) or self.tasks[target].join == "any"
        if self.tasks[source].status in SETTLED:
            self._mark_unevaluated(line)

    def delete_line(self, line_id: str) -> None:
        """Delete a dependency."""
        line = self.lines.pop(line_id)
        del self._out[line.source][line.target]
        del self._in[line.target][line.source]
        self._count(line, -1)
        for named in named_by(line):
            del self._named_in[named][line_id]
        self.unevaluated.pop(line_id, None)

    def inputs_changed(self, task_id: str) -> None:
        """Update the task ids that the task's inputs refer to; for an item, those of its task hold."""
        if self.tasks[task_id].item_of:
            return
        self.referring.pop(task_id, None)
        if referred := frozenset(source for source, _ in references(self.tasks[task_id].referring_values) if source != INPUTS):
            self.referring[task_id] = referred

    def awaiting(self, task_id: str) -> tuple[str, ...]:
        """Return the ids of the dependencies that may be evaluated once the task has ended.

        The task is their source, or their condition names it.
        """
        return (*self._out[task_id].values(), *self._named_in.get(task_id, ()))

    def source_settled(self, task_id: str) -> None:
        """Mark the dependencies that can be evaluated now that a task has ended."""
        lines = self.lines
        for line_id in self.awaiting(task_id):
            if (line := lines[line_id]).verdict is None:
                if line.condition:
                    self._mark_unevaluated(line)
                else:
                    self.unevaluated[line_id] = None

    def _mark_unevaluated(self, line: TaskStarLine) -> None:
        """Mark a dependency with an ended source if all tasks in its condition have ended."""
        if line.condition:
            for task_id in (line.source, *named_by(line)):
                task = self.tasks.get(task_id)
                if task is not None and not task.settled:
                    return
        self.unevaluated[line.line_id] = None

    def set_evaluation(self, line_id: str, verdict: Evaluation) -> None:
        """Record the evaluation of a dependency that has none. O(1)."""
        line = self.lines[line_id]
        target = line.target
        line.verdict = verdict
        if verdict.satisfied:
            now = self._open[target] - 1
            self._open[target] = now
            self.dirty[target] = not now or self.dirty.get(target, False) or self.tasks[target].join == "any"
        else:
            self._refused[target] += 1
            self.dirty[target] = True
        self.unevaluated.pop(line_id, None)

    def reopen_line(self, line_id: str) -> None:
        """Forget the evaluation of a dependency, because its source or its target is to run again. O(1)."""
        line = self.lines[line_id]
        self._count(line, -1)
        line.verdict = None
        self._count(line, +1)
        self.unevaluated.pop(line_id, None)
        if self.tasks[line.source].settled:
            self._mark_unevaluated(line)

    def _count(self, line: TaskStarLine, step: int) -> None:
        """Count a dependency that is added or removed; one without a verdict is counted where it is added."""
        target, verdict = line.target, line.verdict
        changed = self.dirty.get(target, False) or self.tasks[target].join == "any"
        if verdict is None or not verdict.satisfied:
            if verdict is not None:
                self._refused[target] += step
                changed = True
            was = self._open[target]
            self._open[target] = now = was + step
            changed = changed or not was or not now
        # Marked either way: the order in which tasks become ready is the order of the first marks.
        self.dirty[target] = changed

    # -- checking --------------------------------------------------------------------------------

    def why_not_joined(self, source: str, target: str) -> str:
        """Return the reason why no dependency can join two tasks, cycles apart; empty if one can."""
        for end in (source, target):
            if end not in self.tasks:
                return f"there is no task {end!r}"
        if source == target:
            return f"cycle: {source} -> {source}"
        return f"{source} -> {target} is there already, as {found.line_id!r}" if (found := self.line_between(source, target)) else ""

    def cycle_through(self, source: str, target: str) -> list[str] | None:
        """Return the cycle that a dependency would close, from source to source; else None."""
        return [source, *back] if (back := self.path(target, source)) else None

    def cycle(self) -> list[str] | None:
        """Return a cycle of the graph as a path; None if there is none. O(n + e)."""
        return find_cycle(self.tasks, lambda task_id: self._out[task_id])

    def why_misplaced(self, line: TaskStarLine) -> Phrase | None:
        """Return why a dependency joins a handler to a task of another role; None if it does not."""
        return None if self.tasks[line.source].role == self.tasks[line.target].role else phrase("misplaced")

    def why_unresolvable(self, task_id: str, *, extended: bool = True, advises: bool = False) -> Phrase | None:
        """Return the reference to a task that is not upstream, and what to add; a handler may refer to every task."""
        is_handler, has_items = self.tasks[task_id].role != "task", self.tasks[task_id].for_each is not None
        wanted = [(source, "") for source in sorted(self.referring.get(task_id, ()))]
        for line in self.lines_in(task_id) if self._named_in else ():
            wanted += [(source, line.line_id) for source in named_by(line)]
        if not wanted:
            return None
        upstream = self.ancestors(task_id)
        for source, line_id in wanted:
            known, is_run = source in self.tasks, extended and source == RUN
            is_item = extended and not known and source in (ITEM, INDEX)
            is_other = (is_item and has_items) or (extended and not known and source in (PARAMS, SECRET))
            if source in upstream or (is_handler and (known or is_run)) or is_other:
                continue  # names of parameters, and of the run, are checked with the fleet
            if is_item:
                return phrase("unresolvable", source=source, line=line_id, problem="no_item")
            if is_run and not known:
                return phrase("unresolvable", source=source, line=line_id, problem="no_end")
            advice = advises and known and source != task_id and not is_handler and not self.cycle_through(source, task_id)
            problem = "unknown" if is_handler else "not_upstream"
            return phrase("unresolvable", source=source, line=line_id, problem=problem, target=task_id if advice else "")
        return None

    # -- snapshots ---------------------------------------------------------------------------------

    snapshot_type: ClassVar[type[msgspec.Struct]] = ConstellationSnapshot

    def to_snapshot(self) -> ConstellationSnapshot:
        """Return the constellation as data, which shares its tasks and dependencies: encode it before they change."""
        return ConstellationSnapshot(
            constellation_id=self.constellation_id,
            name=self.name,
            version=self.version,
            generation=self.generation,
            tasks=self.in_order_with_items(),
            lines=list(self.lines.values()),
            removed_tasks=sorted(self.removed_tasks),
            removed_lines=sorted(self.removed_lines),
            unevaluated=list(self.unevaluated),
            dirty=list(self.dirty),
        )

    @classmethod
    def from_snapshot(cls, snapshot: ConstellationSnapshot) -> TaskConstellation:
        """Return the constellation of a snapshot, without checks: it was checked when it was made."""
        it = cls(snapshot.constellation_id, snapshot.name, generation=snapshot.generation)
        it.version = snapshot.version
        for task in snapshot.tasks:
            it.insert_task(task)
        for line in snapshot.lines:
            it.insert_line(line)
        it.removed_tasks, it.removed_lines = set(snapshot.removed_tasks), set(snapshot.removed_lines)
        it.unevaluated = dict.fromkeys(snapshot.unevaluated)
        it.dirty = dict.fromkeys(snapshot.dirty, True)
        return it

    # -- documents ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return the whole constellation as JSON data, including states and evaluations, without items."""
        return {
            "constellation_id": self.constellation_id,
            "name": self.name,
            "version": self.version,
            "generation": self.generation,
            "tasks": [msgspec.to_builtins(task) for task in self.in_order()],
            "dependencies": [
                msgspec.to_builtins(line)
                for task in self.in_order()
                for line in sorted(self.lines_out(task.task_id), key=lambda line: self._ordinals[line.target])
            ],
            "removed_tasks": sorted(self.removed_tasks),
            "removed_dependencies": sorted(self.removed_lines),
        }

    def shown(self) -> dict[str, Any]:
        """Return :meth:`to_dict` with errors and reasons in words."""
        found = self.to_dict()
        for task in found["tasks"]:
            if error := self.tasks[task["task_id"]].error:
                task["error"] = {"code": error.code, "message": error.words}
        for line in found["dependencies"]:
            if verdict := self.lines[line["id"]].verdict:
                line["verdict"] = {"satisfied": verdict.satisfied, "reason": str(verdict.reason)}
        return found

    def to_json(self, indent: int | None = None) -> str:
        """Return :meth:`to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent)

    @classmethod
    def from_dict(cls, value: Any) -> TaskConstellation:
        """Return a constellation from the data of :meth:`to_dict`, or from a written plan.

        Skills and devices are not resolved here; a run resolves them against its fleet.

        Raises:
            InvalidInput: the value is not a plan, or it has a cycle, an unknown task, a duplicate
                id, a condition that does not parse, or a reference to a task that is not upstream.
        """
        if isinstance(value, Mapping) and "generation" in value:
            return _restored(cls, value)
        plan = parse_plan(value)
        constellation = cls(plan.constellation_id, plan.name)
        for spec in plan.tasks:
            constellation.insert_task(task_of(spec))
        for spec_of_line in plan.dependencies:
            if unjoined := constellation.why_not_joined(spec_of_line.source, spec_of_line.target):
                raise InvalidInput(f"dependency {spec_of_line.line_id}: {unjoined}")
            constellation.insert_line(line := line_of(spec_of_line))
            if why := constellation.why_misplaced(line):
                raise InvalidInput(f"dependency {line.line_id}: {why}")
        if cycle := constellation.cycle():
            raise InvalidInput(f"the plan has a cycle: {' -> '.join(cycle)}; a task cannot wait for itself")
        for task_id in constellation.tasks:
            if why := constellation.why_unresolvable(task_id, advises=True):
                raise InvalidInput(f"task {task_id}: {why}")
        return constellation

    @classmethod
    def from_json(cls, text: str) -> TaskConstellation:
        """Return a constellation from JSON text; see :meth:`from_dict`.

        Raises:
            InvalidInput: also if the text is not JSON.
        """
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"not JSON: {error}") from None
        return cls.from_dict(value)

    def validate_dag(self) -> tuple[bool, list[str]]:
        """Check the whole graph. O(n + e).

        Returns:
            ``(ok, errors)``; an error about a cycle has its path.
        """
        errors = [
            f"dependency {line.line_id}: there is no task {end!r}"
            for line in self.lines.values()
            for end in (line.source, line.target)
            if end not in self.tasks
        ]
        if cycle := self.cycle():
            errors.append(f"cycle: {' -> '.join(cycle)}")
        for task_id in self.tasks:
            unsatisfied = sum(1 for line in self.lines_in(task_id) if line.verdict is None or not line.verdict.satisfied)
            if unsatisfied != self._open[task_id]:
                errors.append(f"task {task_id}: {self._open[task_id]} open dependencies are counted, {unsatisfied} are there")
        return not errors, errors


def _restored(cls: type[TaskConstellation], value: Mapping[str, Any]) -> TaskConstellation:
    """Return a constellation from the data of ``to_dict``, including states and evaluations."""
    try:
        found = msgspec.convert(value, WrittenConstellation)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"constellation: {error}") from None
    constellation = cls(found.constellation_id, found.name, generation=found.generation)
    for task in found.tasks:
        if task.task_id in constellation.tasks:
            raise InvalidInput(f"constellation: task_id {task.task_id!r} is there twice; ids are unique")
        constellation.insert_task(task)
    for line in found.dependencies:
        if why := constellation.why_not_joined(line.source, line.target):
            raise InvalidInput(f"dependency {line.line_id}: {why}")
        line_of(LineSpec(id=line.line_id, source=line.source, target=line.target, type=line.type, condition=line.condition))
        constellation.insert_line(line)
    if cycle := constellation.cycle():
        raise InvalidInput(f"the constellation has a cycle: {' -> '.join(cycle)}")
    constellation.version = found.version
    constellation.removed_tasks = set(found.removed_tasks)
    constellation.removed_lines = set(found.removed_dependencies)
    return constellation
