"""JSON Schemas (2020-12) of plan, fleet and loop files, for editors.

They are made from the types that the readers convert to, and describe the readers' own checks in
addition. A schema cannot express some checks: that an id is unique, that a dependency names a task,
the syntax of a condition, or that a file exists. The reader still makes those.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

import msgspec

from asterism.app.bootstrap import device_kinds
from asterism.constellation.model.documents import HANDLERS, MAX_TASKS, SCHEMA_KEY, LineSpec
from asterism.constellation.model.fan_out import MAX_ITEMS
from asterism.constellation.model.parameters import Param, ParamType
from asterism.constellation.model.task import TaskSpec
from asterism.devices.kinds.local import LocalEntry
from asterism.devices.kinds.ssh.device import SshEntry
from asterism.devices.model.environment import MAX_FOLDER, MAX_VARIABLES
from asterism.devices.model.references import INPUTS
from asterism.engine.kernel.profile import HERE, AgentProfile
from asterism.engine.ports.events import Hook
from asterism.engine.ports.notices import Channel
from asterism.errors import InvalidInput
from asterism.loop.python.server import McpServer
from asterism.loop.python.toml import LoopDocument, WorkerTable
from asterism.loop.python.worker import ModelWorker

Json = dict[str, Any]
FileKind = Literal["plan", "fleet", "loop"]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ID = "^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$"
_REFERENCE = r"^\$\{[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\}$"
_NO_NUL = r"^[^\x00]*$"
_ENV: Json = {
    "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
    "maxProperties": MAX_VARIABLES,
    "additionalProperties": {
        "type": "string",
        "pattern": _NO_NUL,
        "not": {"pattern": r"\$\{(?!secret\.)[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\}"},
    },
}
_FOLDER: Json = {"pattern": _NO_NUL, "maxLength": MAX_FOLDER}
_GIVEN: Json = {"minLength": 1}
_IN_FILES = {"True": "true", "None": "null"}


def schema_of(kind: FileKind, installed: Sequence[str] = ()) -> Json:
    """Return the JSON Schema of a kind of file.

    A device of an installed package's kind may have any keys, unless the kind is among ``installed``:
    its package is imported for them.

    Raises:
        InvalidInput: there is no such kind of device, or its package cannot be imported.
    """
    body = _plan() if kind == "plan" else _loop() if kind == "loop" else _fleet(installed)
    return {"$schema": _DIALECT, "title": f"Asterism {kind} file", **body}


# -- plans ------------------------------------------------------------------------------------------


def _plan() -> Json:
    defs = _definitions(TaskSpec, LineSpec, Param)
    task = defs.pop("TaskSpec")
    _refine_task(task)
    named = {**task, "required": []}
    line = _line(defs.pop("LineSpec"))
    param = defs["Param"]
    param["allOf"] = [
        {"if": _of("type", name, default="str"), "then": {"properties": {"default": {"type": written}}}}
        for name, written in zip(get_args(ParamType), ("string", "integer", "number", "boolean", "array", "object", "object"), strict=True)
    ]
    parts: Json = {
        SCHEMA_KEY: {"description": "URL or path of this schema, for editors."},
        "tasks": _listed("task", "named_task", ["array", "object"]),
        "dependencies": _listed("dependency", "dependency", ["array", "object", "null"]),
        **{role: _listed(role, f"named_{role}", ["array", "object", "null"]) for role in HANDLERS},
        "constellation_id": {"type": ["string", "null"], "description": "Id of the plan within its run."},
        "name": {"type": ["string", "null"], "description": "Title of its runs."},
        "params": {
            "type": ["object", "null"],
            "propertyNames": {"pattern": _ID},
            "additionalProperties": {
                "if": {"type": "string"},
                "then": {"enum": list(get_args(ParamType))},
                "else": {"$ref": "#/$defs/Param"},
            },
        },
    }
    body = {
        "type": "object",
        "required": ["tasks"],
        "properties": parts,
        "additionalProperties": False,
        "anyOf": [
            {"required": [part], "properties": {part: {"type": ["array", "object"], "minItems": 1, "minProperties": 1}}}
            for part in ("tasks", *HANDLERS)
        ],
    }
    handlers = {
        f"{prefix}{role}": {"$ref": f"#/$defs/{prefix}task", "properties": {"role": {"const": role}}}
        for role in HANDLERS
        for prefix in ("", "named_")
    }
    more = {"task": task, "named_task": named, **handlers, "dependency": line, "nested": _unwrapped(), "plan": body}
    return {**_unwrapped(), "$defs": {**defs, **more}}


def _unwrapped() -> Json:
    """Return the schema of a plan that may also stand under the key ``constellation``."""
    body = {"$ref": "#/$defs/plan"}
    wrapped = {"required": ["constellation"], "properties": {"constellation": {"type": "object"}}}
    return {"type": "object", "if": wrapped, "then": {"properties": {"constellation": body}}, "else": body}


def _listed(item: str, named: str, types: list[str]) -> Json:
    """Return the schema of a list of items, or of an object of them by id."""
    return {
        "type": types,
        "items": {"$ref": f"#/$defs/{item}"},
        "additionalProperties": {"$ref": f"#/$defs/{named}"},
        "maxItems": MAX_TASKS,
        "maxProperties": MAX_TASKS,
    }


def _refine_task(task: Json) -> None:
    fields = task["properties"]
    fields["task_id"] |= {"pattern": _ID, "not": {"const": INPUTS}}
    fields["tips"] = {**fields["tips"], "type": ["array", "string"]}
    fields["env"] |= _ENV
    fields["folder"] |= _FOLDER
    fields["constellation"] = {
        "description": "A nested plan, whose run is this task.",
        "if": {"type": "object"},
        "then": {"$ref": "#/$defs/nested"},
        "else": {"type": "null"},
    }
    items: Json = {"maxItems": MAX_ITEMS}
    fields["for_each"] = {
        "description": "A list, or a reference to one: the task runs once for each item.",
        "type": ["array", "string", "object", "null"],
        "pattern": _REFERENCE,
        **items,
        "if": {"type": "object"},
        "then": {
            "$ref": "#/$defs/ForEach",
            "properties": {"items": {"type": ["array", "string"], "pattern": _REFERENCE, **items}},
        },
    }
    empty: Json = {name: {"maxLength": 0} for name in ("device", "skill", "folder")}
    task["if"] = {"required": ["constellation"], "properties": {"constellation": {"type": "object"}}}
    task["then"] = {"properties": {**empty, "env": {"maxProperties": 0}}}


def _line(line: Json) -> Json:
    """Return the schema of a dependency, in the spellings that the reader accepts."""
    spellings = {"id": ("dependency_id", "line_id"), "from": ("from_task_id",), "to": ("to_task_id",), "type": ("dependency_type",)}
    fields = line["properties"]
    others = {other: fields[name] for name, names in spellings.items() for other in names}
    needed = [{"anyOf": [{"required": [name]} for name in (required, *spellings[required])]} for required in line["required"]]
    return {**line, "properties": {**fields, **others}, "required": [], "allOf": needed}


# -- fleets -----------------------------------------------------------------------------------------


def _fleet(installed: Sequence[str]) -> Json:
    kinds = device_kinds()
    if unknown := [name for name in installed if name not in kinds]:
        raise InvalidInput(f"unknown kind {unknown[0]!r}; allowed: {', '.join(sorted(kinds))}")
    tables = {name: kinds[name].entry for name in dict.fromkeys((*kinds.built_in, *installed))}
    defs = _definitions(*tables.values(), Channel, Hook)
    for kind, table in tables.items():
        shown = defs[table.__name__]
        _describe(shown, AgentProfile)
        shown["properties"]["id"] |= {"not": {"const": HERE}, "description": "Id, unique in the fleet."}
        shown["properties"]["kind"] = {"const": kind}
    local, command = defs["LocalEntry"]["properties"], defs["CommandEntry"]["properties"]
    for entry in (LocalEntry, SshEntry):
        defs[entry.__name__]["properties"]["env"] |= _ENV
    local["folder"] |= _FOLDER
    program = {"minLength": 1, "not": {"pattern": r"(^|[^{])\{[A-Za-z_]\w*\}"}}
    command["argv"] |= {"minItems": 1, "prefixItems": [{"type": "string", "pattern": _NO_NUL, **program}]}
    command["argv"]["items"] = {"type": "string", "pattern": _NO_NUL}
    choices = [{"if": _of("kind", kind, default="local"), "then": {"$ref": f"#/$defs/{table.__name__}"}} for kind, table in tables.items()]
    device = {"type": "object", "properties": {"kind": {"enum": list(kinds)}}, "required": ["id"], "allOf": choices}
    return {
        "type": "object",
        "required": ["devices"],
        "properties": {
            "name": {"type": "string", "description": "Name by which processes know the fleet; by default that of the file."},
            "submitter_may_approve": {"type": "boolean", "description": "False if who has submitted a run may not approve in it."},
            "devices": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/device"}},
            "notify": {"type": "array", "items": {"$ref": "#/$defs/Channel"}},
            "hooks": {"type": "array", "items": {"$ref": "#/$defs/Hook"}},
        },
        "additionalProperties": False,
        "$defs": {"device": device, **defs},
    }


# -- loops ------------------------------------------------------------------------------------------


def _loop() -> Json:
    defs = _definitions(LoopDocument, WorkerTable)
    worker, server = defs["WorkerTable"], defs["ServerTable"]
    _describe(worker, ModelWorker)
    _describe(server, McpServer)
    worker["if"] = {"required": ["function"], "properties": {"function": _GIVEN}}
    worker["else"] = {"required": ["instructions"], "properties": {"instructions": _GIVEN}}
    defs["WithinTable"]["properties"]["arguments"]["minItems"] = 1
    filled = {"command": {"minItems": 1}, "url": _GIVEN}
    server["oneOf"] = [{"required": [name], "properties": {name: one}} for name, one in filled.items()]
    document = defs.pop("LoopDocument")
    document["properties"]["workers"] |= {"minProperties": 1, "additionalProperties": {"$ref": "#/$defs/WorkerTable"}}
    document["anyOf"] = [
        {"required": ["model"], "properties": {"model": _GIVEN}},
        {"required": ["plan"], "properties": {"plan": _GIVEN}},
        {"required": ["steps"], "properties": {"steps": {"minItems": 1}}},
    ]
    document["if"] = document["anyOf"][0]
    modelled = {"anyOf": [{"required": [name], "properties": {name: _GIVEN}} for name in ("function", "model")]}
    document["else"] = {"properties": {"workers": {"additionalProperties": modelled}}}
    return {**document, "title": "Asterism loop file", "$defs": defs}


# -- both -------------------------------------------------------------------------------------------


def _of(field: str, value: str, *, default: str) -> Json:
    """Return a schema of the objects whose field has this value, or lacks it where the value is the default."""
    return {"properties": {field: {"const": value}}, **({} if value == default else {"required": [field]})}


def _definitions(*kinds: type[msgspec.Struct]) -> dict[str, Json]:
    """Return the schemas of these types and of those that they use, by name, with the texts of their docstrings."""
    _, found = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    types = {kind.__name__: kind for kind in _reached(kinds)}
    for name, shown in found.items():
        shown.pop("title", None)
        shown.pop("description", None)
        if name in types:
            _describe(shown, *types[name].__mro__)
    return found


def _reached(kinds: Iterable[type[msgspec.Struct]]) -> list[type[msgspec.Struct]]:
    """Return these types and the struct types of their fields."""
    found: list[type[msgspec.Struct]] = []
    waiting: list[Any] = [msgspec.inspect.type_info(kind) for kind in kinds]
    while waiting:
        info = waiting.pop()
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls in found:
                continue
            found.append(info.cls)
            waiting += [field.type for field in info.fields]
        for part in ("types", "item_types"):
            waiting += getattr(info, part, ())
        waiting += [it for part in ("type", "item_type", "key_type", "value_type") if (it := getattr(info, part, None))]
    return found


def _describe(shown: Json, *documented: type) -> None:
    """Add the texts of the ``Attributes`` sections of these classes to the properties that have none."""
    for kind in documented:
        for name, text in _attributes(kind).items():
            if name in shown.get("properties", {}):
                shown["properties"][name].setdefault("description", text)


def _attributes(kind: type) -> dict[str, str]:
    """Return the text of each attribute that a class documents, by its name in files."""
    section = re.split(r"^Attributes:\n", inspect.cleandoc(kind.__doc__ or ""), maxsplit=1, flags=re.MULTILINE)[1:]
    lines = re.split(r"^(?=\S)", section[0], maxsplit=1, flags=re.MULTILINE)[0] if section else ""
    written = {it.name: it.encode_name for it in msgspec.structs.fields(kind)} if issubclass(kind, msgspec.Struct) else {}
    found: dict[str, str] = {}
    for names, text in re.findall(r"^    (\w[\w, ]*): (.*(?:\n {5,}.*)*)", lines, re.MULTILINE):
        sentence = re.sub("True|None", lambda it: _IN_FILES[it[0]], " ".join(text.split()).replace("``", "`"))
        found |= {written.get(name, name): sentence[:1].upper() + sentence[1:] for name in names.split(", ")}
    return found
