"""What troubles the world of a loop or a conversation, part by part, so that a part can be left out. The rest is as its seed draws it."""

from __future__ import annotations

from typing import Any

import msgspec

from asterism.simulation.people import Line
from asterism.simulation.search.setting import FlowSetting, Setting

_LISTS = ("crashes", "happenings")
_CIRCUMSTANCES = ("people", "faults", "store", "drivers", "spacing")


class Part(msgspec.Struct, frozen=True):
    """A crash, a happening, a line, or another argument of the world; ``name`` is that argument."""

    name: str
    value: Any


class Trimmed(msgspec.Struct, frozen=True):
    """Such a world.

    Attributes:
        drawn: it as its seed has it.
        parts: what is left of its troubles.
    """

    drawn: Setting
    parts: tuple[Part, ...]

    def setting(self) -> Setting:
        """The world with these troubles only."""
        given = {part.name: part.value for part in self.parts if part.name in _CIRCUMSTANCES}
        listed = {name: [part.value for part in self.parts if part.name == name] for name in _LISTS}
        rest = {name: value for name, value in self.drawn.world.items() if name not in (*_LISTS, *_CIRCUMSTANCES)}
        changes: dict[str, Any] = {"world": {**rest, **given, **listed}}
        if isinstance(self.drawn, FlowSetting):
            changes["lines"] = tuple(part.value for part in self.parts if isinstance(part.value, Line))
        return msgspec.structs.replace(self.drawn, **changes)

    @property
    def told(self) -> list[str]:
        """What is left, one line for each."""
        return [f"{part.name}: {part.value}" for part in self.parts if part.name != "people"]


def trimmed(setting: Setting) -> Trimmed:
    """A world with all its troubles."""
    world = setting.world
    parts = [Part(name, item) for name in _LISTS for item in world.get(name, ())]
    parts += [Part(name, world[name]) for name in _CIRCUMSTANCES if name in world]
    if isinstance(setting, FlowSetting):
        parts += [Part("line", line) for line in setting.drawn_lines()]
    return Trimmed(setting, tuple(parts))
