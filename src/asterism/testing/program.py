"""Properties of the program that drives the runs of a world: its limits, its defects, its observer."""

from __future__ import annotations

import enum
import random
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from asterism.constellation.machine.events import AttemptEnded, Edited, Planned
from asterism.constellation.planner.port import PLANNER_TIMEOUT_S
from asterism.devices.dispatch.dispatcher import DEFAULT_QUEUE_LIMIT
from asterism.engine.control.children import ChildEnded
from asterism.engine.control.run_control import Answered, EffectCancelled, TransitionFailed, Unpause
from asterism.engine.kernel.journal import Entry
from asterism.engine.kernel.machine import EffectResult, Event, Machine, StepContext, kind_of
from asterism.engine.kernel.packing import event_body
from asterism.testing import validation

_BREAKABLE = (Answered, ChildEnded, Edited, Planned, AttemptEnded, Unpause, EffectCancelled)
"""Events for which a move may raise an error: results and commands. An error for another event would end the program."""


class FailingMoves(msgspec.Struct, frozen=True, kw_only=True):
    """Random defects in moves, drawn for each place in a journal, so that a resent command may be accepted.

    Attributes:
        seed: seed of the draws.
        commands: chance that a move raises an error for a command or a message, which is then refused.
        outcomes: chance that a move raises an error for an effect result, an answer included, which ends the run.
    """

    seed: int = 0
    commands: float = 0.0
    outcomes: float = 0.0

    def __post_init__(self) -> None:
        for chance in (self.commands, self.outcomes):
            validation.check_chances("failing moves", [chance])

    def fails_on(self, event: Event, context: StepContext) -> bool:
        """Return True if the move raises an error for this event: a command or an effect result, never another event."""
        is_result = isinstance(event, EffectResult) and not isinstance(event, TransitionFailed)
        chance = self.outcomes if is_result else self.commands if event.from_outside else 0.0
        drawn = random.Random(f"{self.seed}:{context.run_id}:{context.seq}:{kind_of(event)}")
        return bool(chance) and not context.replayed and drawn.random() < chance


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """Properties of the program that all processes of a world run.

    Attributes:
        queue_limit: number of attempts that may wait for one device.
        unopened: devices of the fleet that the program cannot open.
        defects: of 1,000 events, the number for which a move raises an error; 0 for none.
        failing: random defects for commands, messages and effect results of every kind.
        observer_fails_after: number of entries after which the observer raises an error; 0 for never.
        planner_timeout_s: seconds for one answer of the planner, as in ``asterism.open``; None for no limit.
        starts: True to drive runs in the background.
        serves: True for servers: each process drives whatever is due, until it is stopped or killed.
    """

    queue_limit: int = DEFAULT_QUEUE_LIMIT
    unopened: tuple[str, ...] = ()
    defects: int = 0
    failing: FailingMoves = FailingMoves()
    observer_fails_after: int = 0
    planner_timeout_s: float | None = PLANNER_TIMEOUT_S
    starts: bool = False
    serves: bool = False

    def machine(self, sound: Machine[Any]) -> Machine[Any]:
        """Return a machine with the defects of this program."""
        is_sound = not (self.defects or self.failing.commands or self.failing.outcomes)
        return sound if is_sound else _DefectiveMachine(sound, self._fails_on)

    def _fails_on(self, event: Event, context: StepContext) -> bool:
        hashed = isinstance(event, _BREAKABLE) and zlib.crc32(event_body(event).encode()) % 1000 < self.defects
        return hashed or self.failing.fails_on(event, context)


class _DefectiveMachine(Machine[Any]):
    """A machine whose moves raise an error for some events."""

    def __init__(self, sound: Machine[Any], fails_on: Callable[[Event, StepContext], bool]) -> None:
        vars(self).update(vars(sound))
        self._fails_on = fails_on

    def step(self, state: enum.StrEnum, memory: Any, event: Event, context: StepContext) -> enum.StrEnum | None:
        if self._fails_on(event, context):
            raise RuntimeError("simulated: a defect in the move")
        return super().step(state, memory, event, context)


class CountingObserver:
    """``Observer`` that counts entries, and may fail after some.

    Attributes:
        entries: number of observed entries.
        warnings: observed warnings.
    """

    def __init__(self, fails_after: int) -> None:
        self.entries = 0
        self.warnings: list[str] = []
        self._fails_after = fails_after

    def appended(self, run_id: str, entries: Sequence[Entry]) -> None:  # noqa: ARG002 - counts all runs together
        self.entries += len(entries)
        if self._fails_after and self.entries >= self._fails_after:
            raise RuntimeError("simulated: the observer failed")

    def trouble(self, run_id: str, message: str) -> None:
        self.warnings.append(f"{run_id}: {message}")
