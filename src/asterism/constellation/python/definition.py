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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from asterism.constellation.model.documents import LineSpec, PlanDocument, as_file, parse_line, parse_plan, parse_task
from asterism.constellation.model.fan_out import FailedItems
from asterism.constellation.model.line import DependencyType
from asterism.constellation.model.parameters import parse_params
from asterism.constellation.model.task import Join, RetryPolicy, TaskSpec
from asterism.constellation.planner.plan_file import plan_text
from asterism.constellation.python.reference import Params, Reference, Task
from asterism.constellation.requirements import rebase_plan, rebase_task
from asterism.devices.model.references import INPUTS, ITEM, RESERVED, references
from asterism.devices.skills.skill import skill_name
from asterism.devices.skills.source import is_importable, source_of
from asterism.devices.workers import thread
from asterism.engine.kernel.data import as_json, round_trip
from asterism.engine.kernel.profile import HERE
from asterism.errors import InvalidInput, did_you_mean

NOT_A_TASK = "pass what task(…) has returned"
_MAX_ID = 60


Tasks = Task | Iterable[Task]


class Each:
    """The items of a list, as an input of a task that is performed for each of them; ``each`` makes it.

    ``each(files)["url"]`` is a field of the item.
    """

    def __init__(self, items: Any, max_concurrent: int | None, failed: FailedItems, path: tuple[str, ...] = ()) -> None:
        self.items = items
        self.max_concurrent = max_concurrent
        self.failed = failed
        self.path = path

    def __getitem__(self, key: str | int) -> Each:
        """Return a field of the item."""
        return Each(self.items, self.max_concurrent, self.failed, (*self.path, str(key)))

    @property
    def reference(self) -> str:
        """Return the reference to the item, or to its field."""
        return "${" + ".".join((ITEM, *self.path)) + "}"

    def __str__(self) -> NoReturn:
        raise TypeError("each(…) is a whole input; write ${item} in a text, beside an input that is each(…)")

    def __iter__(self) -> NoReturn:
        raise TypeError("each(…) has no items before the run has the list")


def each(items: Any, /, *, max_concurrent: int | None = None, failed: FailedItems = "stop") -> Any:
    """Return the items of a list, as an input: its task is performed once for each of them.

    The result of the task is the list of their results, in order, and ``parts["failed"]`` refers to the failed items.

    Args:
        items: a task that returns a list, a field of its result, a parameter, or a list.
        max_concurrent: number of items that may be under way at once; None for no limit.
        failed: ``stop`` to fail the task after the first failed item, ``omit`` to leave failed items out.
    """
    return Each(items, max_concurrent, failed)


def each_in(value: Any) -> Iterator[Each]:
    """Yield every ``Each`` in the inputs of a task."""
    match value:
        case Each():
            yield value
        case Mapping():
            for item in value.values():
                yield from each_in(item)
        case list() | tuple():
            for item in value:
                yield from each_in(item)
        case _:
            pass


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


class Constellation:
    """A plan that is written in Python. ``asterism.open()`` runs it: ``await app.run(nightly)``.

    Args:
        name: its name, for people.
        params: its parameters, with their types (``str``, ``int``, ``float``, ``bool``, ``list``, ``dict`` or ``"file"``),
            or as a ``Param`` with a default; ``app.run(nightly, url=…)`` gives their values. Of ``list[str]`` only the
            list is checked.
        folder: base of relative sources of functions in its plan; by default the folder of the file that makes it.
    """

    def __init__(self, name: str, *, params: Mapping[str, Any] = {}, folder: Path | str | None = None) -> None:
        caller = inspect.currentframe()
        file = caller.f_back.f_globals.get("__file__", "") if caller and caller.f_back else ""
        if not isinstance(name, str):
            raise InvalidInput(f"a constellation has a text as its name, not {name!r}")
        self.name = name
        self.folder = Path(folder) if folder else Path(file).absolute().parent if file else Path.cwd()
        self._params = parse_params(params)
        self.params = Params(self, self._params)
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
        env: Mapping[str, str] = {},
        working_folder: Path | str = "",
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
            priority: on a busy device, higher goes first among the tasks of its run; runs take turns.
            env: environment variables of its process, over those of its device.
            working_folder: its working folder; a relative path counts from that of its device.
            inputs: arguments that have the name of another parameter of this method.
            more: all other arguments, by name.

        Returns:
            The task, to use in the inputs of later ones.

        Raises:
            InvalidInput: an argument is invalid, or a function has no parameter of this name.
        """
        limits = {"timeout_s": timeout_s, "deadline_s": deadline_s, "retry": round_trip(retry), "priority": priority}
        process = {"env": env, "folder": str(working_folder)}
        fields = {"task_id": task_id, "when": when, "join": join, "requires_approval": requires_approval, **limits, **process}
        check_conditions(condition)
        self._known((*_listed(after), *_listed(even_if_failed), *condition))
        task = self._add(what, device, fields, arguments_of(inputs, more))
        self._depend(task.task_id, self._known(after), self._known(even_if_failed), condition)
        return task

    def wait(
        self,
        task_id: str,
        /,
        *,
        for_s: float | None = None,
        until: str | datetime | Reference = "",
        event: str = "",
        match: str = "",
        inputs: Mapping[str, Any] = {},
        after: Tasks = (),
        timeout_s: float | None = None,
    ) -> Task:
        """Add a task that waits. While a run only waits, no process drives it, and its time limit stands still.

        Args:
            task_id: its id.
            for_s: seconds to wait.
            until: time to wait until: with its offset, or what a task has returned.
            event: name of an event to wait for; its data are the result.
            match: condition (CEL) over the data, as ``event``, and the inputs by name.
            inputs: values for ``match``.
            after: tasks that must complete first.
            timeout_s: limit of the wait, in seconds; after it the task fails.

        Raises:
            InvalidInput: not exactly one of ``for_s``, ``until`` and ``event`` is given, or an argument is invalid.
        """
        time = until.isoformat() if isinstance(until, datetime) else self._written(until, task_id)
        what = {"for_s": for_s, "until": time, "event": event, "match": match}
        values = {name: self._value(value, f"{task_id}.{name}") for name, value in inputs.items()}
        self._add_spec(parse_task({"task_id": task_id, "wait": what, "timeout_s": timeout_s, "inputs": values}, f"task {task_id}"))
        self._depend(task_id, self._known(after))
        return Task(self, task_id)

    def on_failure(
        self,
        what: Callable[..., Any] | Constellation | str,
        /,
        *,
        device: str = "",
        task_id: str = "",
        after: Tasks = (),
        when: str = "",
        timeout_s: float | None = None,
        retry: RetryPolicy = RetryPolicy(),  # noqa: B008 - immutable
        env: Mapping[str, str] = {},
        working_folder: Path | str = "",
        inputs: Mapping[str, Any] = {},
        **more: Any,
    ) -> Task:
        """Add a task that runs if the run has failed, when all other tasks are settled.

        It changes neither the outcome nor the reason. Its inputs may refer to every task, and to ``${run.error}``,
        ``${run.outcome}`` and ``${run.id}``. Arguments and errors are those of ``task``.
        """
        process = {"env": env, "folder": str(working_folder)}
        fields = {"task_id": task_id, "when": when, "timeout_s": timeout_s, "retry": round_trip(retry), "role": "on_failure", **process}
        task = self._add(what, device, fields, arguments_of(inputs, more))
        self._depend(task.task_id, self._known(after))
        return task

    def finally_(
        self,
        what: Callable[..., Any] | Constellation | str,
        /,
        *,
        device: str = "",
        task_id: str = "",
        after: Tasks = (),
        when: str = "",
        timeout_s: float | None = None,
        retry: RetryPolicy = RetryPolicy(),  # noqa: B008 - immutable
        env: Mapping[str, str] = {},
        working_folder: Path | str = "",
        inputs: Mapping[str, Any] = {},
        **more: Any,
    ) -> Task:
        """Add a task that runs at the end in any case, also after a cancel; otherwise as ``on_failure``."""
        process = {"env": env, "folder": str(working_folder)}
        fields = {"task_id": task_id, "when": when, "timeout_s": timeout_s, "retry": round_trip(retry), "role": "finally", **process}
        task = self._add(what, device, fields, arguments_of(inputs, more))
        self._depend(task.task_id, self._known(after))
        return task

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
            InvalidInput: there is no task, or the name of a function means another one by now.
        """
        for source, function in self._functions.items():
            if is_importable(source) and source_of(function) != source:
                raise InvalidInput(f"{source} is another function by now; give each function a name of its own")
        tasks = [rebase_task(spec, self.folder, folder or self.folder) for spec in self._tasks.values()]
        lines = list(self._lines.values())
        whole = {"name": self.name, "params": round_trip(self._params), "tasks": round_trip(tasks), "dependencies": round_trip(lines)}
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
        made = cls(document.name, params=document.params, folder=folder or Path.cwd())
        made._tasks = {spec.task_id: rebase_task(spec, made.folder) for spec in document.tasks}
        made._lines = {line.line_id: line for line in document.dependencies}
        return made

    @classmethod
    def from_json(cls, text: str, *, folder: Path | None = None) -> Constellation:
        """Return the constellation of the text of a plan file; raises as ``from_plan``."""
        try:
            value = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidInput(f"not JSON: {error}") from error
        return cls.from_plan(value, folder=folder)

    # -- within ------------------------------------------------------------------------------------

    def _free_id(self, name: str) -> str:
        wanted = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")[:_MAX_ID] or "task"
        numbered = (f"{wanted}_{number}" for number in range(2, len(self._tasks) + 3))
        return next(it for it in (wanted, *numbered) if it not in self._tasks and it not in (INPUTS, *RESERVED))

    def _add(
        self, what: Callable[..., Any] | Constellation | str, device: str, fields: Mapping[str, Any], given: Mapping[str, Any]
    ) -> Task:
        """Add a task without its dependencies."""
        if what is self:
            raise InvalidInput(f"constellation {self.name!r} cannot be a task of itself")
        called = _described(what, device)
        task_id = fields["task_id"] or self._free_id(called["name"])
        if not isinstance(what, str | Constellation):
            check_names(task_id, what, given, _OPTIONS, [name for name, value in fields.items() if value])
            self._keep(called["skill"], what)
        values = {name: self._value(value, f"{task_id}.{name}") for name, value in given.items()}
        whole = {**called, **fields, "task_id": task_id, "inputs": values, "for_each": self._for_each(given, task_id)}
        spec = parse_task(whole, f"task {task_id}")
        is_named = spec.skill and spec.name == task_id
        self._add_spec(msgspec.structs.replace(spec, name="") if is_named else spec)
        return Task(self, task_id)

    def _add_spec(self, spec: TaskSpec) -> None:
        if spec.task_id in self._tasks:
            raise InvalidInput(f"task {spec.task_id}: another task of constellation {self.name!r} has this id")
        self._tasks[spec.task_id] = spec

    def _for_each(self, given: Mapping[str, Any], task_id: str) -> dict[str, Any] | None:
        found = [
            {
                "items": as_json(self._written(it.items, f"{task_id}.each"), task_id),
                "max_concurrent": it.max_concurrent,
                "failed": it.failed,
            }
            for it in each_in(given)
        ]
        if any(one != found[0] for one in found):
            raise InvalidInput(f"task {task_id}: its inputs have each(…) of two lists; a task is performed for the items of one")
        return found[0] if found else None

    def _keep(self, source: str, function: Callable[..., Any]) -> None:
        """Remember a function by its source; make one that only this process has known to its device."""
        if ":" not in source:  # a skill of a declared device
            return
        if self._functions.setdefault(source, function) is not function:
            raise InvalidInput(
                f"two functions of this constellation are called {source}; name them with def, or pass what differs as an input"
            )
        if not is_importable(source):
            thread.register(source, function)

    def _value(self, value: Any, where: str) -> Any:
        """Return an input as JSON, with its references as text."""
        try:
            return as_json(self._written(value, where), where)
        except RecursionError:
            raise InvalidInput(f"{where}: a value contains itself, or has too many lists and objects within each other") from None
        except InvalidInput as error:
            allowed = "; an input is a text, a number, a bool, None, a list or a dict of these, or what task(…) has returned"
            raise InvalidInput(f"{error}{allowed if ' is not JSON: ' in str(error) else ''}") from None

    def _written(self, value: Any, where: str) -> Any:
        """Return a value with its references as text."""
        match value:
            case Reference():
                if value.constellation is not self:
                    raise InvalidInput(f"{where}: {value!r} belongs to another constellation")
                return str(value)
            case Each():
                return value.reference
            case Mapping():
                return {key: self._written(item, where) for key, item in value.items()}
            case list() | tuple():
                return [self._written(item, where) for item in value]
            case _:
                return value

    def _known(self, tasks: Tasks) -> list[str]:
        for task in _listed(tasks):
            if not isinstance(task, Task):
                raise InvalidInput(f"{task!r} is not a task; {NOT_A_TASK}")
            self._written(task, task.task_id)
        return [task.task_id for task in _listed(tasks)]

    def _depend(self, task_id: str, after: list[str], even_if_failed: Sequence[str] = (), condition: Mapping[Task, str] = {}) -> None:
        conditions = {task.task_id: text for task, text in condition.items()}
        role = self._tasks[task_id].role
        named = [source for source, _ in references(self._tasks[task_id].referring_values) if source in self._tasks]
        used = [source for source in named if self._tasks[source].role == role]  # a handler refers to other tasks without waiting
        for source in dict.fromkeys((*used, *after, *even_if_failed, *conditions)):
            line = {"from": source, "to": task_id}
            if source in conditions:
                line["condition"] = conditions[source]
            elif source in even_if_failed:
                line["type"] = DependencyType.COMPLETION_ONLY.value
            spec = parse_line(line, f"task {task_id}")
            self._lines[spec.line_id] = spec


_OPTIONS = frozenset(name for name, it in inspect.signature(Constellation.task).parameters.items() if it.kind is it.KEYWORD_ONLY)


def _listed(tasks: Any) -> list[Task]:
    return list(tasks) if isinstance(tasks, Iterable) and not isinstance(tasks, Task | str) else [tasks]


def _described(what: Callable[..., Any] | Constellation | str, device: str) -> dict[str, Any]:
    """Return the fields of a task that say what it does."""
    match what:
        case Constellation():
            if device:
                raise InvalidInput(f"constellation {what.name!r} runs on the devices of its tasks; leave out device={device!r}")
            return {"name": what.name, "constellation": as_file(rebase_plan(what.plan(), what.folder))}
        case str():
            if not device:
                raise InvalidInput(f"{what!r} names a skill; name its device, too: device=…")
            return {"device": device, "name": what} if " " not in what.strip() else {"device": device, "name": "", "description": what}
        case _ if not inspect.isfunction(what):
            raise InvalidInput(f"a task is a function, a constellation or the name of a skill, not {what!r}")
        case _:
            name = skill_name(what)
            return {"name": name, "device": device or HERE, "skill": name if device else source_of(what)}
