"""The fair queue before a busy device.

Runs take turns; within a run, higher priority goes first, then what was issued or arrived earlier.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from collections import OrderedDict
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
_Order = tuple[int, int, int, int]


class Ticket(NamedTuple):
    """The place of an item in the queue, to remove it.

    ``order`` is greatest for the item that is served first, and unique in its queue.
    """

    run_id: str
    order: _Order


class FairQueue(Generic[T]):
    """A queue that is fair to all runs; the caller bounds it.

    Adding, taking and removing are O(log n), apart from one move in memory.
    """

    def __init__(self) -> None:
        self._size = 0
        self._arrivals = itertools.count()
        self._last_run = ""
        # By run, the next run first; the best item of a run is last in its list.
        self._waiting: OrderedDict[str, list[tuple[_Order, T]]] = OrderedDict()

    def __len__(self) -> int:
        return self._size

    def add(self, run_id: str, priority: int, issued: tuple[int, int], item: T) -> Ticket:
        """Add an item and return its ticket."""
        seq, index = issued
        order = (priority, -seq, -index, -next(self._arrivals))
        insort(self._waiting.setdefault(run_id, []), (order, item))
        self._size += 1
        return Ticket(run_id, order)

    def first(self) -> T:
        """Return the next item. IndexError if there is none."""
        if not self._waiting:
            raise IndexError("an empty queue has no next item")
        if len(self._waiting) > 1 and self._last_run in self._waiting:
            # A run that emptied its share and came back may be first again, though it was served
            # last.
            self._waiting.move_to_end(self._last_run)
        return next(iter(self._waiting.values()))[-1][1]

    def take(self) -> T:
        """Remove and return the next item. IndexError if there is none."""
        self.first()
        run_id, items = self._waiting.popitem(last=False)
        _, item = items.pop()
        if items:
            self._waiting[run_id] = items
        self._last_run = run_id
        self._size -= 1
        return item

    def remove(self, ticket: Ticket) -> None:
        """Remove the item of a ticket, which must be in the queue."""
        items = self._waiting[ticket.run_id]
        del items[bisect_left(items, (ticket.order,))]
        if not items:
            del self._waiting[ticket.run_id]
        self._size -= 1

    def clear(self) -> list[T]:
        """Remove and return all items; the order of runs is undefined."""
        items = [item for waiting in self._waiting.values() for _, item in reversed(waiting)]
        self._waiting.clear()
        self._size = 0
        return items
