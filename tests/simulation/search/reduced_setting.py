"""A setting of a loop or a conversation with its faults and planned steps listed one by one, so that any can be removed.

The seed draws the rest.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import msgspec

from asterism.errors import InvalidInput
from asterism.loop.machine.model import Step
from asterism.loop.python.performers import steps_of
from asterism.testing.people import Line
from tests.simulation.search.scenario import MAX_LINE, describe
from tests.simulation.search.setting import FlowSetting, LoopSetting, Setting

_LISTS = ("crashes", "scheduled_events")
_WORLD_ARGUMENTS = ("people", "faults", "store", "drivers", "interval_chars", "program", "resends")


class Part(msgspec.Struct, frozen=True):
    """A step of a plan, a crash, a scheduled event, a line or another argument; ``name`` is that plan or argument."""

    name: str
    value: Any


class ReducedSetting(msgspec.Struct, frozen=True):
    """A setting reduced to some of its parts.

    Attributes:
        original: the setting as the seed draws it.
        parts: remaining steps, lines, faults and other arguments.
    """

    original: Setting
    parts: tuple[Part, ...]

    def setting(self) -> Setting:
        """Return the setting with only these parts."""
        given = {part.name: part.value for part in self.parts if part.name in _WORLD_ARGUMENTS}
        listed = {name: [part.value for part in self.parts if part.name == name] for name in _LISTS}
        rest = {name: value for name, value in self.original.world.items() if name not in (*_LISTS, *_WORLD_ARGUMENTS)}
        changes: dict[str, Any] = {"world": {**rest, **given, **listed}}
        if isinstance(self.original, FlowSetting):
            changes["lines"] = tuple(part.value for part in self.parts if isinstance(part.value, Line))
        if isinstance(self.original, LoopSetting):
            numbers = itertools.count(1)
            changes["plans"] = lambda _: self._plan(next(numbers))
        return msgspec.structs.replace(self.original, **changes)

    def _plan(self, number: int) -> Any:
        """Return the remaining steps of plan ``number`` (from 1), or the invalid reply in its place."""
        said = [part.value for part in self.parts if part.name == _plan(number)]
        return said if all(isinstance(step, Step) for step in said) else said[0]

    @property
    def description(self) -> list[str]:
        """Return one line for each part; for a loop also its options."""
        bounds = [f"options: {describe(self.original.loops()[0].options)}"] if isinstance(self.original, LoopSetting) else []
        return bounds + [f"{part.name}: {describe(part.value)}"[:MAX_LINE] for part in self.parts if part.name != "people"]


def record_setting(setting: Setting, execute: Callable[[Setting], object]) -> ReducedSetting:
    """Run a world with ``execute`` and record its plans and faults."""
    plans: list[Any] = []

    def look(drawn: Any) -> Any:
        plans.append(drawn)
        return drawn

    execute(msgspec.structs.replace(setting, plans=look) if isinstance(setting, LoopSetting) else setting)
    world = setting.world
    parts = [Part(_plan(number), step) for number, said in enumerate(plans, 1) for step in _steps(said)]
    parts += [Part(name, item) for name in _LISTS for item in world.get(name, ())]
    parts += [Part(name, world[name]) for name in _WORLD_ARGUMENTS if name in world]
    if isinstance(setting, FlowSetting):
        parts += [Part("line", line) for line in setting.drawn_lines()]
    return ReducedSetting(setting, tuple(parts))


def _plan(number: int) -> str:
    return f"plan {number}"


def _steps(said: Any) -> list[Any]:
    """Return the steps of a plan, or the invalid reply."""
    try:
        return list(steps_of(said))
    except InvalidInput:
        return [said]
