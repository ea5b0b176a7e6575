"""What troubles the world of a loop or a conversation, and what a loop plans, part by part, so that a part can be left out.

The rest is as its seed draws it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import msgspec

from asterism.errors import InvalidInput
from asterism.loops.performers import steps_of
from asterism.machines.orchestration_loop.model import Step
from asterism.simulation.people import Line
from tests.simulation.search.setting import FlowSetting, LoopSetting, Setting
from tests.simulation.search.story import MAX_LINE, words

_LISTS = ("crashes", "happenings")
_CIRCUMSTANCES = ("people", "faults", "store", "drivers", "spacing", "program", "resends")


class Part(msgspec.Struct, frozen=True):
    """A step of a plan, a crash, a happening, a line, or another argument of the world; ``name`` is that plan or argument."""

    name: str
    value: Any


class Trimmed(msgspec.Struct, frozen=True):
    """Such a world.

    Attributes:
        drawn: it as its seed has it.
        parts: what is left of its plans and troubles.
    """

    drawn: Setting
    parts: tuple[Part, ...]

    def setting(self) -> Setting:
        """The world with these plans and troubles only."""
        given = {part.name: part.value for part in self.parts if part.name in _CIRCUMSTANCES}
        listed = {name: [part.value for part in self.parts if part.name == name] for name in _LISTS}
        rest = {name: value for name, value in self.drawn.world.items() if name not in (*_LISTS, *_CIRCUMSTANCES)}
        changes: dict[str, Any] = {"world": {**rest, **given, **listed}}
        if isinstance(self.drawn, FlowSetting):
            changes["lines"] = tuple(part.value for part in self.parts if isinstance(part.value, Line))
        if isinstance(self.drawn, LoopSetting):
            numbers = itertools.count(1)
            changes["plans"] = lambda _: self._plan(next(numbers))
        return msgspec.structs.replace(self.drawn, **changes)

    def _plan(self, number: int) -> Any:
        """What is left of the plan of that number, from 1; or what was said in its place."""
        said = [part.value for part in self.parts if part.name == _plan(number)]
        return said if all(isinstance(step, Step) for step in said) else said[0]

    @property
    def told(self) -> list[str]:
        """What is left, one line for each; of a loop its bounds, too."""
        bounds = [f"options: {words(self.drawn.loops()[0].options)}"] if isinstance(self.drawn, LoopSetting) else []
        return bounds + [f"{part.name}: {words(part.value)}"[:MAX_LINE] for part in self.parts if part.name != "people"]


def trimmed(setting: Setting, lived: Callable[[Setting], object]) -> Trimmed:
    """Have a world lived, and write down what it planned, and all its troubles."""
    plans: list[Any] = []

    def look(drawn: Any) -> Any:
        plans.append(drawn)
        return drawn

    lived(msgspec.structs.replace(setting, plans=look) if isinstance(setting, LoopSetting) else setting)
    world = setting.world
    parts = [Part(_plan(number), step) for number, said in enumerate(plans, 1) for step in _steps(said)]
    parts += [Part(name, item) for name in _LISTS for item in world.get(name, ())]
    parts += [Part(name, world[name]) for name in _CIRCUMSTANCES if name in world]
    if isinstance(setting, FlowSetting):
        parts += [Part("line", line) for line in setting.drawn_lines()]
    return Trimmed(setting, tuple(parts))


def _plan(number: int) -> str:
    return f"plan {number}"


def _steps(said: Any) -> list[Any]:
    """The steps of a plan, or what is none."""
    try:
        return list(steps_of(said))
    except InvalidInput:
        return [said]
