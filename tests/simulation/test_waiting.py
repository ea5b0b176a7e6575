"""What waiting for a model costs: the aims of benchmarks/planning.py, on a few of its DAGs."""

from __future__ import annotations

import statistics

from asterism.constellation.machine.events import Hold
from benchmarks.planning import DAGS, Dag, dag, live


def wide(count: int) -> list[Dag]:
    return [it for it in map(dag, range(DAGS)) if it.is_wide()][:count]


def test_asking_when_needed_costs_nothing_where_nothing_asks() -> None:
    for it in map(dag, range(4)):
        never = live(it, "never", "successors", 1.0, asks=False)
        needed = live(it, "when_needed", "successors", 1.0, asks=False)
        assert needed.ratio <= 1.05 * never.ratio
        assert (never.calls, needed.calls) == (0, 1)


def test_holding_successors_only_is_faster_than_holding_all_where_there_is_something_else_to_do() -> None:
    def mean(hold: Hold) -> float:
        return statistics.mean(live(it, "always", hold, 1.0, asks=False).ratio for it in wide(4))

    assert mean("all") >= 1.3 * mean("successors")
