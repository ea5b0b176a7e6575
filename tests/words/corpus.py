"""Requests in words with the plan that a person would expect, and how the planner's plan compares.

    python -m tests.words.corpus [FILE…] [--all]

The conventions of a file stand at its head. ``requests.yaml`` was written by somebody who knew the
fleets, and nothing of the planner.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import msgspec
import yaml

from asterism.devices.workers.pool import WorkerPool
from asterism.engine.kernel.profile import Fleet, skill_of
from asterism.errors import InvalidInput
from asterism.words.planner.planner import plan_offline
from tests.support.fleets import open_fleet

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent
_REFERENCE = re.compile(r"\$\{([\w-]+)\.(\w+)\}")

Outcome = Literal["placed", "refused", "asked", "wrong"]
"""``placed`` as expected; ``refused`` as expected; ``asked``: a placeable request was refused."""


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request over a fleet file, with the expected plan, or the reason why there is none."""

    request: str
    fleet: str
    expect: dict[str, Any] | None = None
    refuse: str = ""
    note: str = ""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What the planner made of a request: the outcome, its refusal or plan in words, and the advice of a refusal."""

    request: Request
    outcome: Outcome
    text: str
    advice: str = ""


def read(path: Path) -> list[Request]:
    """Return the requests of a file."""
    return msgspec.convert(yaml.safe_load(path.read_text()), list[Request])


@cache
def fleet_of(path: str) -> Fleet:
    """Return the profiles of a fleet file."""

    async def profiles() -> Fleet:
        with TemporaryDirectory() as folder:
            async with WorkerPool(Path(folder) / "ledger") as pool, open_fleet(ROOT / path, pool=pool) as devices:
                return {device_id: device.profile for device_id, device in devices.items()}

    return asyncio.run(profiles())


def check(request: Request) -> Result:
    """Plan a request, and compare the plan with what is expected."""
    fleet = fleet_of(request.fleet)
    try:
        plan = plan_offline(request.request, fleet)
    except InvalidInput as refusal:
        outcome: Outcome = "asked" if request.expect else "refused"
        return Result(request=request, outcome=outcome, text=str(refusal), advice=getattr(refusal, "advice", ""))
    text = str(plan["thought"]) + " " + repr([task.get("inputs", {}) for task in plan["tasks"]])
    if request.expect is None:
        return Result(request=request, outcome="wrong", text=text)
    given, expected = _Normal.of_plan(plan, fleet), _Normal.of_expected(request.expect, fleet)
    return Result(request=request, outcome="placed" if given.same(expected) else "wrong", text=text)


class _Normal(msgspec.Struct, frozen=True):
    """A plan in a form that can be compared.

    Attributes:
        tasks: by id, (device or "any", skill, arguments in a normal form).
        lines: (source, target) -> condition in a normal form; with those that follow from others.
    """

    tasks: dict[str, tuple[str, str, dict[str, str]]]
    lines: dict[tuple[str, str], str]

    @classmethod
    def of_plan(cls, plan: Mapping[str, Any], fleet: Fleet) -> _Normal:
        """Return the normal form of a plan document; a field of the only step before is passed on by name."""
        lines = {(line["from"], line["to"]): _condition(line.get("condition", "")) for line in plan["dependencies"]}
        tasks: dict[str, tuple[str, str, dict[str, Any]]] = {}
        for task in plan["tasks"]:
            skill = skill_of(fleet, task["device"], task.get("skill") or task["name"])
            inputs = dict(task.get("inputs", {}))
            before = [source for (source, target), condition in lines.items() if target == task["task_id"] and condition != "failed"]
            for name in skill.parameter_names() if skill else ():
                givers = [source for source in before if name in _fields(tasks[source], fleet)]
                if name not in inputs and len(givers) == 1:
                    inputs[name] = f"${{{givers[0]}.{name}}}"
            tasks[task["task_id"]] = (task["device"], skill.name if skill else task["name"], inputs)
        return cls(_resolved(tasks, fleet), _closed(lines))

    @classmethod
    def of_expected(cls, expected: Mapping[str, Any], fleet: Fleet) -> _Normal:
        """Return the normal form of an expected plan."""
        tasks = {
            task["id"]: (next(device for device in fleet if skill_of(fleet, device, task["skill"])), task["skill"], task["arguments"])
            if task["device"] == "any"
            else (task["device"], task["skill"], task["arguments"])
            for task in expected["tasks"]
        }
        lines = {(after[0], after[1]): _condition(after[2] if len(after) > 2 else "") for after in expected["after"]}
        return cls(_resolved(tasks, fleet), _closed(lines))

    def same(self, other: _Normal) -> bool:
        """Return True if the plans have the same tasks in the same order, whatever their ids."""
        if len(self.tasks) != len(other.tasks):
            return False
        return any(self._same(other, pairs) for pairs in _pairings(list(self.tasks), list(other.tasks)))

    def _same(self, other: _Normal, pairs: Mapping[str, str]) -> bool:
        def renamed(text: str) -> str:
            return _REFERENCE.sub(lambda found: f"${{{pairs[found[1]]}.{found[2]}}}", text)

        for ours, theirs in pairs.items():
            device, skill, arguments = self.tasks[ours]
            if (device, skill) != other.tasks[theirs][:2] or {k: renamed(v) for k, v in arguments.items()} != other.tasks[theirs][2]:
                return False
        return {(pairs[source], pairs[target]): condition for (source, target), condition in self.lines.items()} == other.lines


def _pairings(ours: list[str], theirs: list[str]) -> Iterator[dict[str, str]]:
    return (dict(zip(ours, order, strict=True)) for order in permutations(theirs))  # of five tasks at most


def _fields(task: tuple[str, str, Mapping[str, Any]], fleet: Fleet) -> frozenset[str]:
    skill = skill_of(fleet, task[0], task[1])
    return (skill.output_fields() if skill else None) or frozenset()


def _resolved(tasks: Mapping[str, tuple[str, str, Mapping[str, Any]]], fleet: Fleet) -> dict[str, tuple[str, str, dict[str, str]]]:
    """Replace a field that a task hands on unchanged by its origin, and drop arguments left to their default."""

    def origin(value: Any) -> str:
        found = _REFERENCE.fullmatch(value) if isinstance(value, str) else None
        if found is None or found[2] not in tasks[found[1]][2] or found[2] not in _fields(tasks[found[1]], fleet):
            return repr(float(value)) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
        return origin(tasks[found[1]][2][found[2]])

    normal = {}
    for task_id, (device, name, arguments) in tasks.items():
        skill = skill_of(fleet, device, name)
        schemas = skill.parameters.get("properties", {}) if skill else {}
        given = {key: origin(value) for key, value in arguments.items()}
        defaults = {key: origin(schema["default"]) for key, schema in schemas.items() if "default" in schema}
        normal[task_id] = (device, name, {key: value for key, value in given.items() if defaults.get(key) != value})
    return normal


def _condition(text: str) -> str:
    text = text.replace("result.", "").replace(" ", "").strip("()")
    text = re.sub(r"^(\w+)==true$", r"\1", text)
    text = re.sub(r"^(\w+)==false$", r"!\1", text)
    return "failed" if text in ('status=="FAILED"', "failed") else re.sub(r"(\d+\.\d*?)0+\b", r"\1", text)


def _closed(lines: dict[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    """Add the lines that follow from others, without a condition of their own."""
    closed = dict(lines)
    while new := {(a, d): "" for a, b in closed for c, d in closed if b == c and (a, d) not in closed}:
        closed |= new
    return closed


def main(arguments: list[str]) -> None:
    """Print the figures, and each request that is not as expected (``--all``: every one)."""
    paths = [Path(one) for one in arguments if not one.startswith("--")] or [FOLDER / "requests.yaml"]
    for path in paths:
        results = [check(request) for request in read(path)]
        counts = Counter(result.outcome for result in results)
        for result in results:
            if "--all" in arguments or result.outcome in ("asked", "wrong"):
                print(f"{result.outcome}: {result.request.request}\n    {result.text}")
        placeable = sum(result.request.expect is not None for result in results)
        share = f"{counts['placed']} of {placeable} placeable placed ({100 * counts['placed'] / max(1, placeable):.0f} %)"
        print(f"{path.name}: {len(results)} requests, {counts['wrong']} placed wrongly, {share}")


if __name__ == "__main__":
    main(sys.argv[1:])
