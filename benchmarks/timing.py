"""How things are measured: in turns, so that a busy moment of the machine meets all of them, and by their medians."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import msgspec


class Taken(msgspec.Struct):
    """Seconds of one measurement: by the clock, and of the processor (all threads of this process)."""

    wall_s: float = 0.0
    cpu_s: float = 0.0


class Side(msgspec.Struct, frozen=True):
    """One of the things that were measured in turns, over all its turns."""

    takes: tuple[Taken, ...]

    @property
    def wall_s(self) -> float:
        """The median."""
        return statistics.median(take.wall_s for take in self.takes)

    @property
    def cpu_s(self) -> float:
        """The median."""
        return statistics.median(take.cpu_s for take in self.takes)

    @property
    def least_cpu_s(self) -> float:
        """The least: what is left when nobody disturbs; for differences too small for medians."""
        return min(take.cpu_s for take in self.takes)

    @property
    def spread(self) -> float:
        """Slowest over fastest: near 1 on a quiet machine, and far from it where the numbers mean little."""
        return max(take.wall_s for take in self.takes) / min(take.wall_s for take in self.takes)

    def times(self, other: Side) -> float:
        """How many times the other's time this one takes: the median over the turns, so that a slow disk meets both sides."""
        return statistics.median(ours.wall_s / theirs.wall_s for ours, theirs in zip(self.takes, other.takes, strict=True))


@contextmanager
def taking() -> Iterator[Taken]:
    """Measure what happens inside."""
    gc.collect()
    taken = Taken()
    wall, cpu = time.perf_counter(), time.process_time()
    yield taken
    taken.wall_s, taken.cpu_s = time.perf_counter() - wall, time.process_time() - cpu


def in_turns(sides: Mapping[str, Callable[[], Taken]], repeats: int) -> dict[str, Side]:
    """Measure each of them once in every turn, after one turn that does not count."""
    for measure in sides.values():
        measure()
    turns = [{name: measure() for name, measure in sides.items()} for _ in range(repeats)]
    return {name: Side(tuple(turn[name] for turn in turns)) for name in sides}
