"""Constellations as programs define them: tasks, and the values that flow between them.

    nightly = Constellation("nightly")
    files = nightly.task(download, url="https://…")
    nightly.task(publish, first=files[0], requires_approval=True)

A definition is a plan: ``plan()`` is the value that a plan file of the same tasks has.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from asterism.constellation.batch import line_spec_of, spec_of
from asterism.constellation.constellation import TaskConstellation
from asterism.constellation.documents import LineSpec, PlanDocument, TaskSpec, parse_line, parse_plan, parse_task
from asterism.constellation.line import DependencyType
from asterism.constellation.profile import HERE
from asterism.constellation.references import INPUTS, RESERVED, references
from asterism.constellation.task import Join, RetryPolicy
from asterism.devices import thread
from asterism.devices.function_source import is_importable, rebase, source_of
from asterism.devices.skill import skill_name
from asterism.errors import InvalidInput
from asterism.kernel.data import as_json, round_trip
from asterism.planner.plan_file import as_written

_KEY = re.compile(r"[A-Za-z0-9_-]+")
_MAX_ID = 60


class Reference:
    """A value that a task will return, as an input of a later task.

    ``files["url"]`` is a field of it, ``files[0]`` an item. In a text it is a reference, too:
    ``f"{files['url']}.bak"``.
    """

    def __init__(self, constellation: Constellation, task_id: str, path: tuple[str, ...] = ()) -> None:
        self.constellation = constellation
        self.task_id = task_id
        self.path = path

    def __getitem__(self, key: str | int) -> Reference:
        """Return a field or an item of the value."""
        if not _KEY.fullmatch(str(key)):
            raise InvalidInput(
                f"{self}[{key!r}]: a reference can name fields of letters, digits, _ and - only; pass the whole value instead"
            )
        return Reference(self.constellation, self.task_id, (*self.path, str(key)))

    def __str__(self) -> str:
        return "${" + ".".join((self.task_id, *self.path)) + "}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self} of constellation {self.constellation.name!r}>"

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self} has no value before the task has run; use when= or condition= to decide by it")

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self} has no items before the task has run")


class Task(Reference):
    """A task of a constellation. As an input of another task, it is its whole result."""


Tasks = Task | Iterable[Task]


class Constellation:
    """A plan that is written in Python. ``asterism.open()`` runs it: ``await app.run(nightly)``.

    Args:
        name: its name, for people.
        folder: base of relative sources of functions in its plan; by default the folder of the file that makes it.
    """

    def __init__(self, name: str, *, folder: Path | None = None) -> None:
        caller = inspect.currentframe()
        file = caller.f_back.f_globals.get("__file__", "") if caller and caller.f_back else ""
        self.name = name
        self.folder = folder or (Path(file).absolute().parent if file else Path.cwd())
        self._tasks: dict[str, TaskSpec] = {}
        self._lines: dict[str, LineSpec] = {}
        self._functions: dict[str, Callable[..., Any]] = {}

    def task(
        self,
        what: Callable[..., Any] | Constellation | str,
        /,
        *,
        device: str = "",
        task_id: str = "",
        after: Tasks = (),
        even_if_failed: Tasks = (),
        condition: Mapping[Task, str] = {},
        when: str = "",
        join: Join = "all",
        requires_approval: bool = False,
        timeout_s: float | None = None,
        deadline_s: float | None = None,
        retry: RetryPolicy = RetryPolicy(),  # noqa: B008 - immutable
        priority: int = 0,
        inputs: Mapping[str, Any] = {},
        **more: Any,
    ) -> Task:
        """Add a task.

        A task that occurs in the inputs must complete before this one starts.

        Args:
            what: a function; the name of a skill of the device; a request in words to an agent; or a constellation that
                carries the task out.
            device: id of a device of the fleet; a function without one runs in a process of its own here.
            task_id: its id; by default the name of the function or skill, with a number if it is in use.
            after: tasks that must complete first, although no input uses them.
            even_if_failed: tasks that must complete or fail first.
            condition: by task, a condition over its result (CEL) that must hold.
            when: a condition over its own inputs by name (CEL); if it does not hold, the task is skipped.
            join: ``any`` to start with the first of its dependencies that is satisfied.
            requires_approval: True if a person must approve it, with its exact arguments.
            timeout_s: time limit of one attempt, in seconds.
            deadline_s: time limit from the start of the run, in seconds.
            retry: its retry policy.
            priority: higher goes first on a busy device.
            inputs: arguments that have the name of another parameter of this method.
            more: all other arguments, by name.

        Returns:
            The task, to use in the inputs of later ones.

        Raises:
            InvalidInput: an argument is invalid, or a function has no parameter of this name.
        """
        called = _described(what, device)
        task_id = task_id or self._free_id(called["name"])
        values = self._values(task_id, what, called, {**inputs, **more})
        limits = {"timeout_s": timeout_s, "deadline_s": deadline_s, "retry": round_trip(retry), "priority": priority}
        gates = {"when": when, "join": join, "requires_approval": requires_approval}
        spec = parse_task({**called, "task_id": task_id, "inputs": values, **limits, **gates}, f"task {task_id}")
        self._depend(task_id, values, self._known(after), self._known(even_if_failed), condition)
        is_named = spec.skill and spec.name == task_id
        self._tasks[task_id] = msgspec.structs.replace(spec, name="") if is_named else spec
        return Task(self, task_id)

    def __getitem__(self, task_id: str) -> Task:
        """Return a task by its id.

        Raises:
            InvalidInput: there is none.
        """
        if task_id not in self._tasks:
            raise InvalidInput(f"constellation {self.name!r} has no task {task_id!r}; it has {', '.join(self._tasks) or 'none'}")
        return Task(self, task_id)

    # -- as a plan ---------------------------------------------------------------------------------

    def plan(self, folder: Path | None = None) -> PlanDocument:
        """Return the plan.

        Args:
            folder: base of relative sources of functions in it; by default that of this constellation.

        Raises:
            InvalidInput: there is no task.
        """
        tasks = [_rebased(spec, self.folder, folder or self.folder) for spec in self._tasks.values()]
        whole = {"name": self.name, "tasks": round_trip(tasks), "dependencies": round_trip(list(self._lines.values()))}
        return parse_plan(whole, f"constellation {self.name!r}")

    def to_json(self) -> str:
        """Return the plan as the text of a plan file in the folder of this constellation."""
        return plan_text(self.plan())

    @classmethod
    def from_plan(cls, plan: PlanDocument | Mapping[str, Any], *, folder: Path | None = None) -> Constellation:
        """Return the constellation of a plan.

        Args:
            plan: the plan, or its JSON value.
            folder: base of relative sources of functions in it; by default the current folder.

        Raises:
            InvalidInput: the plan is invalid.
        """
        document = plan if isinstance(plan, PlanDocument) else parse_plan(plan)
        made = cls(document.name, folder=folder or Path.cwd())
        made._tasks = {spec.task_id: _rebased(spec, made.folder, None) for spec in document.tasks}
        made._lines = {line.line_id: line for line in document.dependencies}
        return made

    @classmethod
    def from_json(cls, text: str, *, folder: Path | None = None) -> Constellation:
        """Return the constellation of the text of a plan file; raises as ``from_plan``."""
        try:
            value = json.loads(text)
        except ValueError as error:
            raise InvalidInput(f"not JSON: {error}") from error
        return cls.from_plan(value, folder=folder)

    # -- within ------------------------------------------------------------------------------------

    def _free_id(self, name: str) -> str:
        wanted = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")[:_MAX_ID] or "task"
        numbered = (f"{wanted}_{number}" for number in range(2, len(self._tasks) + 3))
        return next(it for it in (wanted, *numbered) if it not in self._tasks and it not in (INPUTS, *RESERVED))

    def _values(
        self, task_id: str, what: Callable[..., Any] | Constellation | str, called: Mapping[str, Any], given: Mapping[str, Any]
    ) -> Any:
        """Return the inputs of a new task as JSON."""
        if task_id in self._tasks:
            raise InvalidInput(f"task {task_id}: another task of constellation {self.name!r} has this id")
        if not isinstance(what, str | Constellation):
            _check_names(task_id, what, given)
            self._keep(called["skill"], what)
        return {name: as_json(self._written(value, f"{task_id}.{name}"), f"{task_id}.{name}") for name, value in given.items()}

    def _keep(self, source: str, function: Callable[..., Any]) -> None:
        """Make a function that only this process has known to its device."""
        if is_importable(source):
            return
        if self._functions.setdefault(source, function) is not function:
            raise InvalidInput(
                f"two functions of this constellation are called {source}; name them with def, or pass what differs as an input"
            )
        thread.register(source, function)

    def _written(self, value: Any, where: str) -> Any:
        """Return a value with its references as text."""
        match value:
            case Reference():
                if value.constellation is not self:
                    raise InvalidInput(f"{where}: {value!r} belongs to another constellation")
                return str(value)
            case Mapping():
                return {key: self._written(item, where) for key, item in value.items()}
            case list() | tuple():
                return [self._written(item, where) for item in value]
            case _:
                return value

    def _known(self, tasks: Tasks) -> list[str]:
        listed = [tasks] if isinstance(tasks, Task) else list(tasks)
        for task in listed:
            if not isinstance(task, Task):
                raise InvalidInput(f"{task!r} is not a task; pass what task(…) has returned")
            self._written(task, task.task_id)
        return [task.task_id for task in listed]

    def _depend(self, task_id: str, values: Any, after: list[str], even_if_failed: list[str], condition: Mapping[Task, str]) -> None:
        conditions = dict(zip(self._known(condition), condition.values(), strict=True))
        used = [source for source, _ in references(values) if source in self._tasks]
        for source in dict.fromkeys((*used, *after, *even_if_failed, *conditions)):
            line = {"from": source, "to": task_id}
            if source in conditions:
                line["condition"] = conditions[source]
            elif source in even_if_failed:
                line["type"] = DependencyType.COMPLETION_ONLY.value
            spec = parse_line(line, f"task {task_id}")
            self._lines[spec.line_id] = spec


_OPTIONS = frozenset(name for name, it in inspect.signature(Constellation.task).parameters.items() if it.kind is it.KEYWORD_ONLY)


def plan_text(plan: PlanDocument) -> str:
    """Return a plan as the text of a plan file."""
    value = msgspec.to_builtins(plan)
    value["tasks"] = [{name: it for name, it in task.items() if (name, it) != ("retry", {})} for task in value.get("tasks", ())]
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def plan_of(constellation: TaskConstellation, name: str) -> PlanDocument:
    """Return the plan of the constellation of a run, with the skills that its tasks have now.

    Raises:
        InvalidInput: the run has no plan yet.
    """
    if not constellation.tasks:
        raise InvalidInput("this run has no plan yet")
    return PlanDocument(
        name=name,
        tasks=tuple(msgspec.structs.replace(spec_of(task), skill=task.resolved_skill or task.skill) for task in constellation.in_order()),
        dependencies=tuple(as_written(line_spec_of(line)) for line in constellation.lines.values()),
    )


def sources_of(plan: PlanDocument) -> Iterator[str]:
    """Yield the sources of all functions of a plan, and of the plans in it."""
    for spec in plan.tasks:
        if spec.constellation is not None:
            yield from sources_of(msgspec.convert(spec.constellation, PlanDocument))
        elif spec.device == HERE:
            yield spec.skill or spec.name


def devices_of(plan: PlanDocument) -> Iterator[str]:
    """Yield the device of every task of a plan, and of the plans in it."""
    for spec in plan.tasks:
        if spec.constellation is None:
            yield spec.device
        else:
            yield from devices_of(msgspec.convert(spec.constellation, PlanDocument))


def rebase_plan(plan: PlanDocument, old: Path, new: Path | None = None) -> PlanDocument:
    """Return a plan whose functions have sources relative to another folder, or absolute ones."""
    return msgspec.structs.replace(plan, tasks=tuple(_rebased(spec, old, new) for spec in plan.tasks))


def _rebased(spec: TaskSpec, old: Path, new: Path | None) -> TaskSpec:
    if spec.constellation is not None:
        nested = rebase_plan(msgspec.convert(spec.constellation, PlanDocument), old, new)
        return msgspec.structs.replace(spec, constellation=round_trip(nested))
    if spec.device == HERE:
        return msgspec.structs.replace(spec, skill=rebase(spec.skill or spec.name, old, new))
    return spec


def _described(what: Callable[..., Any] | Constellation | str, device: str) -> dict[str, Any]:
    """Return the fields of a task that say what it does."""
    match what:
        case Constellation():
            if device:
                raise InvalidInput(f"constellation {what.name!r} runs on the devices of its tasks; leave out device={device!r}")
            return {"name": what.name, "constellation": round_trip(rebase_plan(what.plan(), what.folder))}
        case str():
            if not device:
                raise InvalidInput(f"{what!r} names a skill; name its device, too: device=…")
            return {"device": device, "name": what} if " " not in what.strip() else {"device": device, "name": "", "description": what}
        case _ if not inspect.isfunction(what):
            raise InvalidInput(f"a task is a function, a constellation or the name of a skill, not {what!r}")
        case _:
            name = skill_name(what)
            return {"name": name, "device": device or HERE, "skill": name if device else source_of(what)}


def _check_names(task_id: str, function: Callable[..., Any], given: Mapping[str, Any]) -> None:
    takes = inspect.signature(function).parameters
    for name, parameter in takes.items():
        if name in _OPTIONS and name not in given and parameter.default is parameter.empty:
            raise InvalidInput(
                f"task {task_id}: its parameter {name!r} has the name of an option of task(…); give it as inputs={{{name!r}: …}}"
            )
    if unknown := [name for name in given if name not in takes]:
        raise InvalidInput(f"task {task_id}: {skill_name(function)} has no parameter {unknown[0]!r}; it has {', '.join(takes) or 'none'}")
