"""The check of the names in the conditions of a plan that a person has written.

A condition whose source has no declared result may have any name, as it may be a field. A planner's
plan is not checked here: its conditions with other names are not met, and the reason says so.
"""

from __future__ import annotations

from collections.abc import Collection

from asterism.constellation.model.condition import Condition, InputCondition, type_names
from asterism.constellation.model.documents import LineSpec, PlanDocument
from asterism.constellation.model.edits import EditRefused
from asterism.constellation.model.task import TaskSpec
from asterism.devices.model.references import INPUTS, PARAMS
from asterism.errors import did_you_mean


def check_condition(line: LineSpec, plan: PlanDocument, fields: Collection[str] | None, where: str) -> None:
    """Check the names of a condition.

    Args:
        line: the dependency, whose condition parses.
        plan: its plan.
        fields: names of the fields of the source's result; None if they are not known.
        where: place, for the error.

    Raises:
        EditRefused: ``bad_reference``: a name is none of a field, a parameter or a task.
    """
    condition = Condition(line.condition)
    has_params = bool(plan.params)
    _check_params(line.condition, condition.params, plan, where)
    there = ", ".join((*sorted(fields or ()), "result", "status", "tasks", *((PARAMS,) if has_params else ())))
    ids = [task.task_id for task in plan.tasks]
    for name in sorted(condition.fields - set(fields or ()) - ({PARAMS} if has_params else set())):
        if fields is None and not (name in condition.selected and name in (*ids, PARAMS, INPUTS)):
            continue  # it may be a field
        if name in (PARAMS, INPUTS):
            hint = f"; {'the plan has no parameters' if name == PARAMS else 'declare params to use a value there'}"
            hint += f", and a field of that name is result.{name}"
        elif name in ids:
            hint = f"; the result of {name} is named " + ("result" if name == line.source else f'tasks["{name}"].result')
        else:
            hint = did_you_mean(name, fields or ())
        raise EditRefused("bad_reference", where, f"{line.condition!r} asks for {name!r}; there is {there}{hint}")


def check_when(task: TaskSpec, plan: PlanDocument, where: str) -> None:
    """Check the parameters in the ``when`` of a task; its run checks the names of the inputs.

    Raises:
        EditRefused: ``bad_reference``: the plan has no such parameter.
    """
    if PARAMS not in task.inputs and plan.params:
        _check_params(task.when, InputCondition(task.when).params, plan, where)


def _check_params(text: str, names: Collection[str], plan: PlanDocument, where: str) -> None:
    for name in sorted(names):
        if plan.params and name not in plan.params:
            there = did_you_mean(name, plan.params) or f"; there is {', '.join(plan.params)}"
            raise EditRefused("bad_reference", where, f"{text!r} asks for {PARAMS}.{name}{there}")


def check_types(text: str, where: str) -> None:
    """Check that no type of CEL stands where a field is meant.

    Raises:
        EditRefused: ``bad_content``.
    """
    for name in type_names(text):
        why = f"the condition {text!r}: {name} is a type in conditions; a field of that name is result.{name}"
        raise EditRefused("bad_content", where, why)
