"""Shrinking: reduce a failing seed to the shortest scenario with the same failure (delta debugging)."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from asterism.testing.invariants import InvariantViolated
from tests.simulation.search.profiles import setting_of
from tests.simulation.search.reduced_setting import ReducedSetting, record_setting
from tests.simulation.search.scenario import Scenario, record_scenario
from tests.simulation.search.setting import Setting

MAX_WORLDS = 1500
"""Maximum number of worlds run to shrink one scenario."""

T = TypeVar("T")


class Failure(msgspec.Struct, frozen=True):
    """Failure of a world: ``kind`` is the number of the invariant or the name of the error."""

    kind: str
    description: tuple[str, ...]


class Shrunk(msgspec.Struct, frozen=True, kw_only=True):
    """A shrunk scenario.

    Attributes:
        scenario: the scenario.
        failure: its failure.
        parts: number of parts before shrinking.
        worlds: number of worlds run.
    """

    scenario: Scenario | ReducedSetting
    failure: Failure
    parts: int
    worlds: int

    @property
    def description(self) -> list[str]:
        """Return the lines of the scenario and of its failure."""
        return [*self.scenario.description, *self.failure.description]


def find_failure(setting: Setting) -> Failure | None:
    """Run a world and return its failure, or None."""
    try:
        setting.execute()
    except InvariantViolated as violated:
        return Failure(str(violated.number), (f"violates invariant {violated.number}: {violated.finding}", *violated.history))
    except Exception as error:  # boundary: every error of a world is reported
        return Failure(type(error).__name__, tuple("".join(traceback.format_exception_only(error)).splitlines()))
    return None


def record(setting: Setting, execute: Callable[[Setting], object]) -> Scenario | ReducedSetting:
    """Run a world with ``execute`` and record its parts: all of a plan's world, otherwise faults and planned steps."""
    return record_scenario(setting, execute) if type(setting) is Setting else record_setting(setting, execute)


def shrink(profile: str, seed: int) -> Shrunk | None:
    """Return the shortest scenario with the failure of a seed; None if the seed or its recorded scenario does not fail."""
    failures: list[Failure | None] = []
    scenario = record(setting_of(profile, seed), lambda setting: failures.append(find_failure(setting)))
    failure, worlds = failures[0], 1
    parts: Sequence[Any] = scenario.parts

    def reduced(parts: Sequence[object]) -> Scenario | ReducedSetting:
        return msgspec.structs.replace(scenario, parts=tuple(parts))

    def breaks(parts: Sequence[object]) -> bool:
        nonlocal worlds, failure
        if worlds >= MAX_WORLDS:
            return False
        worlds += 1
        again = find_failure(reduced(parts).setting())
        if failure is None or again is None or again.kind != failure.kind:
            return False
        failure = again
        return True

    if not breaks(parts) or failure is None:
        return None
    return Shrunk(scenario=reduced(smallest_failing(parts, breaks)), failure=failure, parts=len(scenario.parts), worlds=worlds)


def smallest_failing(parts: Sequence[T], breaks: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return a subset that still fails, of which no single part can be removed. ``breaks`` must be true of all parts."""
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
