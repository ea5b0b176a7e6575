"""Exhaustive exploration: every interleaving of a small world, by its states.

A machine is pure, so the possible histories of a run form a graph of states and moves. The explorer visits the whole
graph once, state by state, and checks each move as the world checks each entry. It uses no randomness: within its
bounds it covers every case that a random search may miss.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, Protocol, TypeVar

import msgspec

from asterism.testing.invariants import InvariantViolated

S = TypeVar("S")

NO_END = "no end can be reached from the start"


class Space(Protocol[S]):
    """States to explore, and the moves between them."""

    def start(self) -> S:
        """Return the initial state."""
        ...

    def moves(self, state: S) -> Iterable[tuple[str, Callable[[], S]]]:
        """Yield each move from a state: its name, and a function that returns the next state without changing this one.

        Raises:
            InvariantViolated: by that function, if an invariant does not hold.
        """
        ...

    def key(self, state: S) -> Hashable:
        """Return a key that is equal for states with the same possible moves."""
        ...

    def is_end(self, state: S) -> bool:
        """Return True if the run may stay in this state for ever."""
        ...


class Explored(msgspec.Struct, kw_only=True):
    """Result of an exploration.

    Attributes:
        states, moves: number of different states and moves; a move without a change is not counted.
        interleavings: number of paths from the start to an end; -1 if the graph has a cycle.
        ends: number of end states.
        cut: number of states not explored because the limit was reached.
        violation: the first invariant found violated, and ``path`` the moves that led there.
        stuck: moves to a state from which no end can be reached; empty if there is none.
    """

    states: int = 0
    moves: int = 0
    interleavings: int = 0
    ends: int = 0
    cut: int = 0
    violation: InvariantViolated | None = None
    path: tuple[str, ...] = ()
    stuck: tuple[str, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Return True if no invariant is violated, every state can reach an end, and nothing was cut."""
        return self.violation is None and not self.stuck and not self.cut


class _Map:
    """The explored graph, by number of the state."""

    def __init__(self) -> None:
        self.numbers: dict[Hashable, int] = {}
        self.after: list[list[int]] = []
        self.came_from: list[tuple[int, str]] = []
        self.ends: list[int] = []

    def path(self, number: int) -> tuple[str, ...]:
        moves: list[str] = []
        while number:
            number, move = self.came_from[number]
            moves.append(move)
        return tuple(reversed(moves))

    def add(self, key: Hashable, came_from: tuple[int, str]) -> int:
        number = self.numbers[key] = len(self.after)
        self.after.append([])
        self.came_from.append(came_from)
        return number


class Explorer(Generic[S]):
    """Explores a space; visits each state once.

    Args:
        space: what to explore.
        most: maximum number of states to explore; the rest count as cut.
    """

    def __init__(self, space: Space[S], *, most: int = 1_000_000) -> None:
        self._space = space
        self._most = most

    def explore(self) -> Explored:
        """Explore the space up to the limit, or up to the first violation."""
        space, seen, found = self._space, _Map(), Explored()
        start = space.start()
        stack = [(seen.add(space.key(start), (0, "")), start)]
        while stack:  # bounded: each state is pushed once, and at most ``most`` are explored
            number, state = stack.pop()
            found.states += 1
            if space.is_end(state):
                seen.ends.append(number)
            elif found.states > self._most:
                found.cut += 1
                seen.ends.append(number)  # not known to be stuck
                continue
            for name, take in space.moves(state):
                try:
                    after = take()
                except InvariantViolated as violated:
                    found.violation, found.path = violated, (*seen.path(number), name)
                    return found
                key = space.key(after)
                there = seen.numbers.get(key)
                if there == number:
                    continue
                if there is None:
                    there = seen.add(key, (number, name))
                    stack.append((there, after))
                seen.after[number].append(there)
                found.moves += 1
        found.ends = len(seen.ends) - found.cut
        found.stuck = _stuck(seen)
        found.interleavings = _interleavings(seen)
        return found


def _stuck(seen: _Map) -> tuple[str, ...]:
    """Return the moves to the first state from which no end can be reached; empty if there is none."""
    before: list[list[int]] = [[] for _ in seen.after]
    for number, targets in enumerate(seen.after):
        for target in targets:
            before[target].append(number)
    reaches = [False] * len(seen.after)
    stack = list(seen.ends)
    while stack:
        number = stack.pop()
        if not reaches[number]:
            reaches[number] = True
            stack += before[number]
    return next((seen.path(number) or (NO_END,) for number, good in enumerate(reaches) if not good), ())


def _interleavings(seen: _Map) -> int:
    """Return the number of paths from the start to an end, counted backwards; -1 if the graph has a cycle."""
    waiting = [len(targets) for targets in seen.after]
    before: list[list[int]] = [[] for _ in seen.after]
    for number, targets in enumerate(seen.after):
        for target in targets:
            before[target].append(number)
    ends = set(seen.ends)
    ways = [int(number in ends and not seen.after[number]) for number in range(len(seen.after))]
    ready = [number for number, count in enumerate(waiting) if not count]
    done = 0
    while ready:
        number = ready.pop()
        done += 1
        for source in before[number]:
            ways[source] += ways[number]
            waiting[source] -= 1
            if not waiting[source]:
                ready.append(source)
    return ways[0] if done == len(seen.after) else -1
