"""The schema of journals: each kind of event and effect with its fields on disk, their types and defaults, without a name of Python's.

``schema-N.json`` is what a program of ``SCHEMA_VERSION`` N writes and reads. ``python -m tests.journals.schema`` writes the file of
today's version where there is none; it never changes one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect

from asterism.app.bootstrap import FORMS
from asterism.constellation.machine.definition import ConstellationDefinition
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.conversation.machine.events import FlowDefinition
from asterism.conversation.machine.table import FLOW_AGENT
from asterism.engine.kernel.journal import SCHEMA_VERSION, Record
from asterism.engine.kernel.machine import Effect, Event, Machine, kind_of
from asterism.engine.kernel.packing import Body
from asterism.loop.machine.events import LoopDefinition
from asterism.loop.machine.table import ORCHESTRATION_LOOP

FOLDER = Path(__file__).parent
DEFINITIONS: dict[str, type[msgspec.Struct]] = {
    CONSTELLATION_AGENT.name: ConstellationDefinition,
    ORCHESTRATION_LOOP.name: LoopDefinition,
    FLOW_AGENT.name: FlowDefinition,
}
"""What the definition in a request to start a run is read as: in an event or effect it is any JSON."""
BOUNDS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length")
WORDS: dict[type[inspect.Type], str] = {
    inspect.AnyType: "any",
    inspect.NoneType: "null",
    inspect.BoolType: "bool",
    inspect.IntType: "int",
    inspect.FloatType: "float",
    inspect.StrType: "str",
}
MACHINES = tuple(form.machine for form in FORMS.values())


def path_of(version: int) -> Path:
    return FOLDER / f"schema-{version}.json"


def schema(machines: Iterable[Machine[Any]] = MACHINES) -> dict[str, Any]:
    """Return the schema of the records of these machines, by the classes of today."""
    return {
        "record": {**_fields(Record, ()), "body": {"type": _fields(Body, ())}},
        "machines": {machine.name: _machine(machine) for machine in machines},
    }


def differences(before: Any, after: Any, where: str = "") -> Iterator[str]:
    """Yield a line for each place where two schemas differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from differences(before.get(key), after.get(key), f"{where} > {key}" if where else key)
    elif before != after:
        yield f"{where}: {json.dumps(before)} became {json.dumps(after)}"


def main() -> None:
    """Write the file of today's version where there is none."""
    path = path_of(SCHEMA_VERSION)
    if path.exists():
        print(f"{path.name} is recorded and stays as it is; another form of entries is another SCHEMA_VERSION")
    else:
        path.write_text(_text(schema(), 5) + "\n", encoding="utf-8")
        print(f"wrote {path.name}")


def _text(value: Any, depth: int) -> str:
    """JSON with a line for each field of a kind, and what is deeper in that line."""
    if not depth or not isinstance(value, dict) or "type" in value:
        return json.dumps(value, sort_keys=True, ensure_ascii=False)
    items = [f"{json.dumps(key)}: {_text(value[key], depth - 1)}" for key in sorted(value)]
    return "{\n" + ",\n".join(items) + "\n}" if items else "{}"


def _machine(machine: Machine[Any]) -> dict[str, Any]:
    definition = {"definition": _fields(DEFINITIONS[machine.name], ())} if machine.starts else {}
    states = sorted(str(state) for state in machine.states)
    return {"states": states, "events": _kinds(machine.events), "effects": _kinds(machine.effects), **definition}


def _kinds(kinds: Iterable[type[Event | Effect]]) -> dict[str, Any]:
    return {kind_of(kind): _fields(kind, ()) for kind in kinds}


def _fields(kind: type[Any], within: tuple[type[Any], ...]) -> dict[str, Any]:
    found = inspect.type_info(kind)
    assert isinstance(found, inspect.StructType)
    assert kind not in within, f"{kind} holds itself: give its description a name"
    return {field.encode_name: _field(field, (*within, kind)) for field in found.fields}


def _field(field: inspect.Field, within: tuple[type[Any], ...]) -> dict[str, Any]:
    described = {"type": _type(field.type, within)}
    if field.required:
        return described
    default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    if default is msgspec.NODEFAULT:  # msgspec.UNSET
        return {**described, "default": "absent"}
    return {**described, "default": msgspec.to_builtins(default)}


def _type(found: inspect.Type, within: tuple[type[Any], ...]) -> Any:
    described: Any
    match found:
        case inspect.StructType() if found.cls in within:
            described = {"enclosing": within[::-1].index(found.cls)}
        case inspect.Metadata():  # a description
            described = _type(found.type, within)
        case inspect.StructType():
            tag: Mapping[str, Any] = {} if found.tag is None else {"tag": found.tag}
            described = {**tag, "fields": _fields(found.cls, within), "closed": found.forbid_unknown_fields}
        case inspect.EnumType():
            described = {"one of": sorted(item.value for item in found.cls)}
        case inspect.LiteralType():
            described = {"one of": sorted(found.values)}
        case inspect.UnionType():
            described = {"any of": sorted((_type(it, within) for it in found.types), key=json.dumps)}
        case inspect.DictType():
            described = {"object of": _type(found.value_type, within)}
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType():
            described = {"list of": _type(found.item_type, within)}
        case _:
            bounds = {name: bound for name in BOUNDS if (bound := getattr(found, name, None)) is not None}
            described = {WORDS[type(found)]: bounds} if bounds else WORDS[type(found)]
    return described


if __name__ == "__main__":
    main()
