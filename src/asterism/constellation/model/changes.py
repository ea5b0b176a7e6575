"""The changes of an edit as before and after, for people who approve it and for views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from asterism.constellation.model.batch import line_spec_of, spec_of
from asterism.constellation.model.constellation import TaskConstellation

Part = Literal["task", "dependency"]
Written = Mapping[tuple[Part, str], Mapping[str, Any]]


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task or dependency before and after an edit.

    Attributes:
        part: ``task`` or ``dependency``.
        id: its id.
        ends: source and target of a dependency.
        before, after: its fields as in a plan; None if it does not exist. Of a part on both sides,
            only the fields that differ.
    """

    part: Part
    id: str
    ends: tuple[str, ...] = ()
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


def written(constellation: TaskConstellation) -> Written:
    """Return a constellation as plan fields by part and id, with resolved skills. O(n + e)."""
    found: dict[tuple[Part, str], dict[str, Any]] = {}
    for task in constellation.in_order():
        fields = msgspec.to_builtins(spec_of(task)) | {"skill": task.resolved_skill or task.skill}
        found["task", task.task_id] = {name: value for name, value in fields.items() if value not in ("", {})}
    for line in constellation.lines.values():
        found["dependency", line.line_id] = msgspec.to_builtins(line_spec_of(line))
    return found


def changes(before: Written, after: Written) -> list[Change]:
    """Return the changes between two constellations, in the order of ``before``; new parts last."""
    found = []
    for part, part_id in dict.fromkeys((*before, *after)):
        old, new = before.get((part, part_id)), after.get((part, part_id))
        if old == new:
            continue
        differing = [name for name in dict.fromkeys((*(old or ()), *(new or ()))) if (old or {}).get(name) != (new or {}).get(name)]
        ends = tuple((old or new or {})[end] for end in ("from", "to")) if part == "dependency" else ()
        found.append(Change(part=part, id=part_id, ends=ends, before=_of(old, differing), after=_of(new, differing)))
    return found


def _of(fields: Mapping[str, Any] | None, names: list[str]) -> dict[str, Any] | None:
    return None if fields is None else {name: fields[name] for name in names if name in fields}
