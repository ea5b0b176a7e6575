"""The AgentProfile of a device, and its skills.

Profiles are data and are journaled with the run, so that plans and live edits resolve their skills
without a device. ``asterism.devices`` performs the skills.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from asterism.engine.kernel.guards import DeviceGuards

JsonSchema = dict[str, Any]
JSON_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
"""The types of JSON Schema but ``null``, and the Python types of their values; see ``has_json_type``."""
HERE = "here"
"""Id of the device of a program's own functions, which no fleet declares."""


def has_json_type(value: Any, name: str) -> bool:
    """Return True if a value has this type of JSON Schema: a boolean is no number, and no value has a type of another name."""
    if value is None or isinstance(value, bool):
        return name == ("null" if value is None else "boolean")
    return isinstance(value, JSON_TYPES.get(name, ()))


class Skill(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One skill of a device.

    Attributes:
        name: name, unique on its device.
        description: one sentence for people, models and the ranker.
        parameters: JSON Schema (``type: object``) of the arguments.
        output: JSON Schema of the result; None if unknown.
        idempotent: True if it can safely be repeated under the same key after a crash.
        is_harmless: True if its server says so, and the fleet trusts that: it needs no approval as
            ``destructive``.
        tags: further words for it.
        examples: requests it would serve.
    """

    name: str
    description: str = ""
    parameters: JsonSchema = msgspec.field(default_factory=dict)
    output: JsonSchema | None = None
    idempotent: bool = False
    is_harmless: bool = False
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()

    def parameter_names(self) -> tuple[str, ...]:
        """Return the names of the arguments, in the order of the schema."""
        return tuple(self.parameters.get("properties", {}))

    def required_names(self) -> tuple[str, ...]:
        """Return the names of the arguments without a default."""
        return tuple(self.parameters.get("required", ()))

    def output_fields(self) -> frozenset[str] | None:
        """Return the names of the top-level result fields; None if unknown or open."""
        properties = (self.output or {}).get("properties")
        return frozenset(properties) if properties else None


class ChildSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to start the child runs that carry out the tasks of a device, or the steps of a worker.

    Attributes:
        machine: name of the child's machine.
        definition: definition prepared by the machine's package, as JSON
            (``engine.kernel.machine.StartRequest``).
        accepts: names of the inputs it accepts; None for all.
    """

    machine: str
    definition: dict[str, Any]
    accepts: tuple[str, ...] | None = None


class AgentProfile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A device as a planner knows it.

    Attributes:
        device_id: id, unique in the fleet.
        kind: ``local``, ``agent``, ``flow``, ``mcp``, ``a2a``, ``ssh``, or one of an installed package.
        description: one sentence.
        aliases: other names in requests.
        capabilities: words for its strengths.
        skills: its skills; empty for a device that accepts natural language.
        natural_language: True for agents, whose tasks need no skill.
        concurrency: number of attempts it runs at a time.
        metadata: anything else, for planner and people.
        child: the child run that carries out its tasks, if any.
        table: for a device that was declared in Python, its table, from which it is opened again;
            else empty.
        fleet: name of the fleet that declares it in Python; empty if its places belong to one process.
        reattach: True if the device finds an attempt again by its key or handle, after a crash of this
            program or a lost connection.
        file_bytes: bytes of a file that it can be handed at most; 0 for no files, None for any.
        grace_s: seconds that a lost device with ``reattach`` keeps its attempts.
        outlives_cancel: True if an attempt may go on after a cancel, which the device does not
            confirm, although it does not find the attempt again.
        guards: what the fleet guards on it.
    """

    device_id: str
    kind: str = "local"
    description: str = ""
    aliases: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    skills: tuple[Skill, ...] = ()
    natural_language: bool = False
    concurrency: int = 1
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    child: ChildSpec | None = None
    table: dict[str, Any] = msgspec.field(default_factory=dict)
    fleet: str = ""
    reattach: bool = False
    grace_s: float = 60.0
    file_bytes: int | None = None
    outlives_cancel: bool = False
    guards: DeviceGuards = DeviceGuards()

    def skill(self, name: str) -> Skill | None:
        """Return the skill of that name, or None."""
        for skill in self.skills:
            if skill.name == name:
                return skill
        return None


Fleet = dict[str, AgentProfile]
"""Profiles by device id, in the order of the fleet file."""


def skill_of(fleet: Fleet, device: str, name: str) -> Skill | None:
    """Return the skill of that name on a device of the fleet, or None."""
    profile = fleet.get(device)
    return profile.skill(name) if profile else None
