"""(a) What a task costs, by the shape of the plan: durable and in memory, beside the two floors over the same plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from asterism.constellation.model.documents import PlanDocument
from benchmarks.engine import durable, in_memory
from benchmarks.floors import durable_floor, memory_floor
from benchmarks.plans import chain, fan, layered
from benchmarks.timing import Taken, in_turns

YARDSTICK = 300
"""Tasks of the floor's chain that is measured in every turn, whatever the shape."""

HEAD = """
## (a) A task that does nothing

| | floor, in memory | in memory | CPU, in memory | floor, durable | durable | CPU, durable \
| ratio to its floor | ratio to the floor's chain | spread |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|
"""

FOOT = """
Times are microseconds a task, from submitting the plan to FINISH. All figures of a row were
measured alternately.

- **durable**: through runtime, driver, run executor and dispatcher to a fresh SQLite file, over a
  device that returns at once in this process. The results that a task depends on are on the disk
  before it starts.
- **floor, durable**: a task group over the same plan that keeps the same promise with one row per
  task, no journal, no ownership and no replay: standard library `sqlite3`, WAL,
  `synchronous = FULL`, one writer thread with group commit.
- **floor, in memory**: a plain `asyncio.TaskGroup` over the same plan, without storage. It does
  next to nothing: compare times, not ratios.
- **CPU**: processor time of the column before it, all threads of the process together.
- **ratio to its floor**: *durable*, divided by *floor, durable*; the median over the measurements.
- **ratio to the floor's chain**: the same, divided by a task of the durable floor's chain of
  {yardstick}, which pays one fsync for each task. A wide plan shares its fsyncs, so this ratio can
  be far below 1.
- **spread**: slowest divided by fastest run of the floor's chain during this row. Above 2, the
  computer was too busy for reliable durable columns.
"""


class Shape(msgspec.Struct, frozen=True):
    """A plan, how many runs of it at once, and how often it is measured."""

    name: str
    plan: PlanDocument
    repeats: int
    copies: int = 1


def shapes() -> list[Shape]:
    """All that are measured."""
    return [
        Shape("chain of 100", chain(100), 21),
        Shape("chain of 1,000", chain(1000), 9),
        Shape("chain of 10,000", chain(10_000), 3),
        Shape("fan-out 1 → 1,000 → 1", fan(1000), 11),
        Shape("layers, 10 x 100, each waits for 2", layered(10, 100, 2), 11),
        Shape("layers, 10 x 100, each waits for all 100", layered(10, 100, 100), 3),
        Shape("500 runs of a chain of 10", chain(10), 7, 500),
    ]


def rows(*, quick: bool) -> Iterator[str]:
    """A row of the table for each shape, as it is measured."""
    yardstick = chain(YARDSTICK)
    for shape in shapes():
        sides: dict[str, Callable[[], Taken]] = {
            "yardstick": partial(durable_floor, yardstick),
            "memory floor": partial(_all_of, memory_floor, shape),
            "memory": partial(in_memory, shape.plan, shape.copies),
            "durable floor": partial(durable_floor, shape.plan, shape.copies),
            "durable": partial(durable, shape.plan, shape.copies),
        }
        found = in_turns(sides, 1 if quick else shape.repeats)
        count = len(shape.plan.tasks) * shape.copies
        ours, memory = found["durable"], found["memory"]
        each = [found["memory floor"].wall_s, memory.wall_s, memory.cpu_s, found["durable floor"].wall_s, ours.wall_s, ours.cpu_s]
        chain_s = found["yardstick"]
        ratios = [f"{ours.times(found['durable floor']):.2f}", f"{ours.times(chain_s) * YARDSTICK / count:.2f}", f"{chain_s.spread:.1f}"]
        yield f"| {' | '.join([shape.name, *(f'{seconds / count * 1e6:,.0f}' for seconds in each), *ratios])} |"


def _all_of(measure: Callable[[PlanDocument], Taken], shape: Shape) -> Taken:
    takes = [measure(shape.plan) for _ in range(shape.copies)]
    return Taken(sum(take.wall_s for take in takes), sum(take.cpu_s for take in takes))
