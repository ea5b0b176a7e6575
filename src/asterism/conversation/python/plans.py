"""The plan that a flow agent runs: where it comes from, and the check that the agent's fields fill its parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from asterism.constellation.machine.definition import ConstellationDefinition, first_event
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import PlanDocument, parse_plan
from asterism.constellation.model.edits import EditRefused
from asterism.constellation.model.nesting import check_plan
from asterism.constellation.model.parameters import PLACEHOLDERS, Param, missing_of
from asterism.constellation.planner.plan_file import SUFFIXES, read_plan
from asterism.constellation.requirements import fleet_with, missing_secrets, rebase_plan
from asterism.conversation.python.fields import MISSING, Field, fields_of
from asterism.devices.kinds.here import HereDevice
from asterism.devices.port import Device
from asterism.engine.control.children import event_data
from asterism.engine.kernel.machine import StartRequest
from asterism.engine.kernel.permissions import ALL
from asterism.engine.kernel.profile import Fleet
from asterism.engine.kernel.run import Run
from asterism.errors import InvalidInput, did_you_mean

_FILLED_BY: Mapping[str, frozenset[str]] = {
    "str": frozenset({"string"}),
    "int": frozenset({"integer"}),
    "float": frozenset({"number", "integer"}),
    "bool": frozenset({"boolean"}),
    "list": frozenset({"array"}),
    "dict": frozenset({"object"}),
}
"""The types of JSON Schema that fill a parameter, by its type."""
_JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}


class WrittenPlan(Protocol):
    """A plan that is written in Python: an ``asterism.Constellation``."""

    folder: Path

    def plan(self, folder: Path | None = None) -> PlanDocument:
        """Return the plan."""
        ...


PlanSource = PlanDocument | Mapping[str, Any] | WrittenPlan | Path | str
"""A plan, its JSON value, a constellation, or the path of a plan file."""


def plan_of(source: PlanSource, folder: Path) -> PlanDocument:
    """Return a plan, with absolute sources of its functions.

    Args:
        source: what the plan comes from.
        folder: base of the path of a plan file.

    Raises:
        InvalidInput: the plan is invalid, or its file cannot be read.
    """
    match source:
        case PlanDocument():
            return source
        case Mapping():
            return parse_plan(source)
        case str() | Path():
            path = folder / source
            if path.suffix.lower() not in SUFFIXES:
                raise InvalidInput(f"{source}: not a plan file; its name ends in {', '.join(SUFFIXES)}")
            return rebase_plan(read_plan(path), path.absolute().parent)
        case _ if callable(getattr(source, "plan", None)) and not isinstance(source, type):
            return rebase_plan(source.plan(), source.folder)
        case _:
            raise InvalidInput(f"a plan is a Constellation, the path of a plan file, or a plan, not {source!r}")


# -- the plan of an agent --------------------------------------------------------------------------


def check_params(agent: type, plan: PlanDocument) -> None:
    """Check that the fields of an agent fill the parameters of its plan.

    Raises:
        InvalidInput: a field is no parameter, or of another type; or a parameter is not filled. Names both.
    """
    fields: dict[str, Field] = fields_of(agent, Field)
    for name, field in fields.items():
        where = f"{agent.__name__}.{name}"
        if name not in plan.params:
            has = f"; its parameters are {', '.join(plan.params)}" if plan.params else "; it has no parameters"
            raise InvalidInput(f"{where}: the plan of the agent has no parameter {name!r}{did_you_mean(name, plan.params) or has}")
        _check_param(where, field, plan.params[name])
    if missing := missing_of(plan.params, fields):
        named = ", ".join(f"{name} ({plan.params[name].type})" for name in missing)
        raise InvalidInput(f"{agent.__name__}: its plan needs {named}; add an InputField of that name, or a default to the plan")


def _check_param(where: str, field: Field, param: Param) -> None:
    if field.secret:
        raise InvalidInput(f"{where}: a secret cannot fill a parameter, which the journal shows; use ${{secret.NAME}} in the plan")
    if param.type == "file":
        raise InvalidInput(f"{where}: a field cannot fill a parameter of type file; make it a str, and let a task open that path")
    if field.optional and field.default is MISSING and param.default is msgspec.UNSET:
        raise InvalidInput(f"{where}: the field may be skipped, and the parameter of the plan has no default; give it one")
    found = set(_json_types(field))
    if wrong := found - _FILLED_BY[param.type]:
        raise InvalidInput(f"{where}: the parameter of the plan is {param.type}, and the field gives a JSON {min(wrong)}")


def _json_types(field: Field) -> Iterator[str]:
    """Yield the types of JSON Schema of a field's values; none for one that is not defined yet, or may be anything."""
    try:
        (schema,), parts = msgspec.json.schema_components([field.constrained()], ref_template="{name}")
    except (InvalidInput, TypeError):
        return
    open_ = [schema]
    while open_:  # bounded by the schema
        part = open_.pop()
        open_ += part.get("anyOf", ())
        if (ref := part.get("$ref")) in parts:
            open_.append(parts.pop(ref))
        if "type" in part:
            yield part["type"]
        yield from (_JSON_TYPES[type(value)] for value in part.get("enum", ()) if type(value) in _JSON_TYPES)


def params_from(agent: Any) -> dict[str, Any]:
    """Return the parameters of an agent's plan that its fields have values for."""
    values = {name: getattr(agent, name) for name in agent.input_fields()}
    return {name: value for name, value in values.items() if value is not None}


# -- the devices of a plan -------------------------------------------------------------------------


async def on_fleet(start: StartRequest, fleet: Fleet, here: HereDevice | None) -> StartRequest:
    """Return the start of a constellation with the functions of its plan as skills, and on this fleet if it names no devices.

    Raises:
        InvalidInput: a function cannot be imported or performed; the text names it.
    """
    defined = start.defined_as(ConstellationDefinition)
    devices = await fleet_with(defined.plan, {it.device_id: it for it in defined.fleet} or fleet, here)
    defined = msgspec.structs.replace(defined, fleet=tuple(devices.values()))
    return msgspec.structs.replace(start, definition=event_data(defined))


async def check_on_fleet(agent: Any, fleet: Fleet, here: HereDevice | None, devices: Mapping[str, Device] | None = None) -> None:
    """Check that the plan of an agent, if it has one, can run on these devices.

    Args:
        agent: the class of the agent.
        fleet: profiles of the devices, by id.
        here: describes the functions that are tasks of the plan.
        devices: the opened devices, by id; the secrets of the plan are checked only with them.

    Raises:
        InvalidInput: a device, a skill, a function or a secret is missing, or the plan is invalid; names the agent.
    """
    plan: PlanDocument | None = agent.plan
    if plan is None:
        return
    check_params(agent, plan)
    rehearsed = msgspec.structs.replace(plan, params={name: _with_default(it) for name, it in plan.params.items()})
    try:
        profiles = await fleet_with(plan, fleet, here)
        check_plan(plan, profiles)
        start = StartRequest(definition=event_data(ConstellationDefinition(fleet=tuple(profiles.values()), plan=rehearsed)))
        Run(CONSTELLATION_AGENT, "plan").take(first_event(start), at=0.0, actor="", permissions=ALL)
    except (EditRefused, InvalidInput) as error:
        hint = "" if fleet else "; name the devices with --fleet, or asterism.open(fleet=…)"
        raise InvalidInput(f"the plan of {agent.__name__} cannot be run: {error}{hint}") from error
    if devices is not None and (reasons := missing_secrets(plan, devices)):
        raise InvalidInput(f"the plan of {agent.__name__} cannot be run: {'; '.join(reasons)}")


def _with_default(param: Param) -> Param:
    """Return a parameter with a value for a rehearsal, which reads none."""
    return msgspec.structs.replace(param, default=PLACEHOLDERS[param.type]) if param.default is msgspec.UNSET else param
