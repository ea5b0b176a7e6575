"""What is peculiar about the program that drives the runs of a world: how it was installed, built and started."""

from __future__ import annotations

import enum
import random
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from asterism.devices.dispatcher import DEFAULT_QUEUE_LIMIT
from asterism.kernel.journal import Entry
from asterism.kernel.machine import EffectResult, Event, Machine, StepContext, kind_of
from asterism.kernel.packing import event_body
from asterism.machines.children import ChildEnded
from asterism.machines.constellation_agent.events import AttemptEnded, Edited, Planned
from asterism.machines.run_control import Answered, EffectCancelled, TransitionFailed, Unpause
from asterism.simulation import given

_BREAKABLE = (Answered, ChildEnded, Edited, Planned, AttemptEnded, Unpause, EffectCancelled)
"""Events that a defect may be in the way of. Outcomes and commands: over anything else the program would end."""


class FailingMoves(msgspec.Struct, frozen=True, kw_only=True):
    """Defects in moves, by chance, drawn for each place in a journal: a command that is sent again may be taken.

    Attributes:
        seed: of the chances.
        commands: chance that a move fails over a command or a message, which is then refused.
        outcomes: chance that it fails over the outcome of an effect, an answer included, which ends the run.
    """

    seed: int = 0
    commands: float = 0.0
    outcomes: float = 0.0

    def __post_init__(self) -> None:
        for chance in (self.commands, self.outcomes):
            given.chances("failing moves", [chance])

    def befall(self, event: Event, context: StepContext) -> bool:
        """Whether a move fails over this event; over what is neither a command nor an outcome the program would end."""
        is_outcome = isinstance(event, EffectResult) and not isinstance(event, TransitionFailed)
        chance = self.outcomes if is_outcome else self.commands if event.from_outside else 0.0
        drawn = random.Random(f"{self.seed}:{context.run_id}:{context.seq}:{kind_of(event)}")
        return bool(chance) and not context.replayed and drawn.random() < chance


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """What is peculiar about a program.

    Attributes:
        queue_limit: how many attempts may wait for one device.
        unopened: devices of the fleet that it cannot open.
        defects: of how many thousand events a move of its machine fails over one; 0 for a sound machine.
        failing: defects over commands, messages and outcomes of every kind.
        deaf_after: entries after which whoever watches it fails; 0 for never.
        starts: it drives in the background, as a server does.
    """

    queue_limit: int = DEFAULT_QUEUE_LIMIT
    unopened: tuple[str, ...] = ()
    defects: int = 0
    failing: FailingMoves = FailingMoves()
    deaf_after: int = 0
    starts: bool = False

    def machine(self, sound: Machine[Any]) -> Machine[Any]:
        """A machine as this program has it."""
        is_sound = not (self.defects or self.failing.commands or self.failing.outcomes)
        return sound if is_sound else _Flawed(sound, self._is_fatal)

    def _is_fatal(self, event: Event, context: StepContext) -> bool:
        hashed = isinstance(event, _BREAKABLE) and zlib.crc32(event_body(event).encode()) % 1000 < self.defects
        return hashed or self.failing.befall(event, context)


class _Flawed(Machine[Any]):
    """A machine whose moves fail over some events."""

    def __init__(self, sound: Machine[Any], is_fatal: Callable[[Event, StepContext], bool]) -> None:
        vars(self).update(vars(sound))
        self._is_fatal = is_fatal

    def step(self, state: enum.StrEnum, memory: Any, event: Event, context: StepContext) -> enum.StrEnum | None:
        if self._is_fatal(event, context):
            raise RuntimeError("simulated: a defect in the move")
        return super().step(state, memory, event, context)


class Watcher:
    """``Observer``: counts what it is told, until it fails.

    Attributes:
        heard: entries.
        troubles: what was said aloud.
    """

    def __init__(self, deaf_after: int) -> None:
        self.heard = 0
        self.troubles: list[str] = []
        self._deaf_after = deaf_after

    def appended(self, run_id: str, entries: Sequence[Entry]) -> None:  # noqa: ARG002 - whose does not matter
        self.heard += len(entries)
        if self._deaf_after and self.heard >= self._deaf_after:
            raise RuntimeError("simulated: the watcher failed")

    def trouble(self, run_id: str, message: str) -> None:
        self.troubles.append(f"{run_id}: {message}")
