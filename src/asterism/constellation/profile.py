"""Who can do what: the AgentProfile of a device, and its skills.

Profiles are data and are journaled with the run, so that a plan or a live edit resolves its skills
without asking a device. Not here: how a device works (that is ``asterism.devices``).
"""

from __future__ import annotations

from typing import Any

import msgspec

JsonSchema = dict[str, Any]


class Skill(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing a device can do.

    Attributes:
        name: unique on its device.
        description: one sentence for people, models and the ranker.
        parameters: JSON Schema (``type: object``) of the arguments.
        output: JSON Schema of the result; None where it is not known.
        idempotent: may be performed again under the same key after a crash.
        tags: further words that name it.
        examples: requests it would serve.
    """

    name: str
    description: str = ""
    parameters: JsonSchema = msgspec.field(default_factory=dict)
    output: JsonSchema | None = None
    idempotent: bool = False
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()

    def parameter_names(self) -> tuple[str, ...]:
        """Names of the arguments, in the order of the schema."""
        return tuple(self.parameters.get("properties", {}))

    def required_names(self) -> tuple[str, ...]:
        """Names of the arguments that have no default."""
        return tuple(self.parameters.get("required", ()))

    def output_fields(self) -> frozenset[str] | None:
        """Names of the top-level result fields; None where the output is not known or is open."""
        properties = (self.output or {}).get("properties")
        return frozenset(properties) if properties else None


class ChildSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is started where something is carried out as a run of its own.

    Attributes:
        machine: name of the child's machine.
        definition: what its own package has prepared, as JSON (``kernel.start.StartRequest``).
        accepts: names of the inputs that are handed over to it; None for all.
    """

    machine: str
    definition: dict[str, Any]
    accepts: tuple[str, ...] | None = None


class AgentProfile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a planner may know about a device.

    Attributes:
        device_id: unique in the fleet.
        kind: ``local``, ``agent`` or ``flow``.
        description: one sentence.
        aliases: other names a request may use for it.
        capabilities: words that say what it is good at.
        skills: what it can do; empty for a device that takes natural language.
        natural_language: True for agents, whose tasks need no skill.
        concurrency: how many attempts it takes at a time.
        metadata: anything else, for planner and people.
        child: given where its tasks are carried out as runs of their own.
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

    def skill(self, name: str) -> Skill | None:
        """The skill of that name, or None."""
        for skill in self.skills:
            if skill.name == name:
                return skill
        return None


Fleet = dict[str, AgentProfile]
"""Profiles by device id, in the order of the fleet file."""


def skill_of(fleet: Fleet, device: str, name: str) -> Skill | None:
    """The skill of that name on a device of the fleet; None where there is none."""
    profile = fleet.get(device)
    return profile.skill(name) if profile else None
