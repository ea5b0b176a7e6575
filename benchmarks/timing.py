"""How a thing and its floor are measured: in turns, so that a busy moment of the machine meets both, and by their medians."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import msgspec


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """A thing beside its floor: the least that could do the same.

    Attributes:
        name, floor_name: in words.
        of: how many items one run of either handles; 1 for a thing that is not counted.
        ours_s, floor_s: seconds of each run, in the order measured.
    """

    name: str
    floor_name: str
    of: int
    ours_s: tuple[float, ...]
    floor_s: tuple[float, ...]

    @property
    def ours_median_s(self) -> float:
        """Median of ours, seconds."""
        return statistics.median(self.ours_s)

    @property
    def floor_median_s(self) -> float:
        """Median of the floor, seconds."""
        return statistics.median(self.floor_s)

    @property
    def ratio(self) -> float:
        """How many times the floor ours takes: the median over the pairs, so that a slow disk meets both sides of a quotient."""
        return statistics.median(ours / floor for ours, floor in zip(self.ours_s, self.floor_s, strict=True))

    @property
    def spread(self) -> float:
        """Slowest over fastest run of the floor: near 1 on a quiet machine, and far from it where the numbers mean little."""
        return max(self.floor_s) / min(self.floor_s)


def compare(name: str, ours: Callable[[], float], floor_name: str, floor: Callable[[], float], *, repeats: int, of: int = 1) -> Comparison:
    """Measure ours and the floor in turns, after one run of each that does not count.

    Args:
        name: of ours, in words.
        ours: one run; returns the seconds that count.
        floor_name: of the floor, in words.
        floor: one run of it, likewise.
        repeats: runs of each.
        of: items in one run.
    """
    floor(), ours()
    taken = [(floor(), ours()) for _ in range(repeats)]
    return Comparison(name=name, floor_name=floor_name, of=of, ours_s=tuple(o for _, o in taken), floor_s=tuple(f for f, _ in taken))
