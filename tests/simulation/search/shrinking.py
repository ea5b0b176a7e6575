"""Shrinking: from a seed that breaks something to the shortest story that breaks the same (delta debugging)."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from asterism.simulation.invariants import InvariantViolated
from tests.simulation.search.profiles import setting_of
from tests.simulation.search.setting import Setting
from tests.simulation.search.story import Story, story_of
from tests.simulation.search.trimmed import Trimmed, trimmed

MAX_LIVES = 1500
"""Worlds that are lived to shrink one story; when they are used up, it is as short as it got."""

T = TypeVar("T")


class Break(msgspec.Struct, frozen=True):
    """How a world broke: ``kind`` is the invariant's number or the error's name; the rest is for people."""

    kind: str
    told: tuple[str, ...]


class Shrunk(msgspec.Struct, frozen=True, kw_only=True):
    """A story as short as it could be made.

    Attributes:
        story: it.
        broke: how it breaks.
        parts: what it was made of at first, in number.
        lives: worlds that were lived to get there.
    """

    story: Story | Trimmed
    broke: Break
    parts: int
    lives: int

    @property
    def told(self) -> list[str]:
        """The story, and how it ends."""
        return [*self.story.told, *self.broke.told]


def how_it_breaks(setting: Setting) -> Break | None:
    """Live a world, and say how it broke; None if it did not."""
    try:
        setting.play()
    except InvariantViolated as violated:
        return Break(str(violated.number), (f"breaks invariant {violated.number}: {violated.words}", *violated.story))
    except Exception as error:  # boundary: whatever a world dies of is told
        return Break(type(error).__name__, tuple("".join(traceback.format_exception_only(error)).splitlines()))
    return None


def told_of(setting: Setting, lived: Callable[[Setting], object]) -> Story | Trimmed:
    """Have a world lived, and write down what it was made of: a plan's all of it, another's troubles, and what a loop planned."""
    return story_of(setting, lived) if type(setting) is Setting else trimmed(setting, lived)


def shrink(profile: str, seed: int) -> Shrunk | None:
    """The shortest story that breaks what a seed breaks; None where it breaks nothing, or not when its story is told again."""
    broke: list[Break | None] = []
    story = told_of(setting_of(profile, seed), lambda setting: broke.append(how_it_breaks(setting)))
    first, lives = broke[0], 1
    parts: Sequence[Any] = story.parts

    def told(parts: Sequence[object]) -> Story | Trimmed:
        return msgspec.structs.replace(story, parts=tuple(parts))

    def breaks(parts: Sequence[object]) -> bool:
        nonlocal lives, first
        if lives >= MAX_LIVES:
            return False
        lives += 1
        again = how_it_breaks(told(parts).setting())
        if first is None or again is None or again.kind != first.kind:
            return False
        first = again
        return True

    if not breaks(parts) or first is None:
        return None
    return Shrunk(story=told(fewest(parts, breaks)), broke=first, parts=len(story.parts), lives=lives)


def fewest(parts: Sequence[T], breaks: Callable[[Sequence[T]], bool]) -> list[T]:
    """As few of the parts as still break it: none of those left can be left out alone. ``breaks`` is true of all of them together."""
    left, size = list(parts), max(1, len(parts) // 2)
    while True:
        before, at = len(left), 0
        while at < len(left):
            without = left[:at] + left[at + size :]
            if breaks(without):
                left = without
            else:
                at += size
        if size == 1 and len(left) == before:
            return left
        size = max(1, size // 2)
