"""What an item of a fan-out costs, beside the same plan written out, and beside a bare process pool."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from benchmarks.engine import durable, in_memory
from benchmarks.local_device import fan_out_s
from benchmarks.plans import fan_out, written_out
from benchmarks.timing import Taken, in_turns, taking

ITEMS = 10_000
PERFORMED = 1_000
"""Items that worker processes perform."""
PROCESSES = 2


def _pool() -> Taken:
    with ProcessPoolExecutor(PROCESSES) as pool:
        list(pool.map(abs, range(PROCESSES * 10)))  # warm
        with taking() as taken:
            list(pool.map(abs, range(PERFORMED)))
    return taken


def _local_device() -> Taken:
    return Taken(wall_s=asyncio.run(fan_out_s(PERFORMED, PROCESSES)))


def rows(*, quick: bool) -> Iterator[str]:
    """Rows of the table of figures."""
    count, repeats = (100, 1) if quick else (ITEMS, 5)
    for name, run in (("in memory", in_memory), ("durable", durable)):
        sides: dict[str, Callable[[], Taken]] = {"items": partial(run, fan_out(count)), "tasks": partial(run, written_out(count))}
        found = in_turns(sides, repeats)
        items, tasks = found["items"], found["tasks"]
        yield (
            f"| (a) an item of a fan-out of {count:,}, {name} | {items.wall_s / count * 1e6:,.0f} µs "
            f"(CPU {items.cpu_s / count * 1e6:,.0f}), {items.wall_s / tasks.wall_s:.2f} times the plan written out |"
        )
    each = in_turns({"pool": _pool, "device": _local_device}, repeats)
    ours, pool = (each[name].wall_s / PERFORMED * 1e6 for name in ("device", "pool"))
    yield (
        f"| (a) an item of a durable fan-out of {PERFORMED:,} on a local device with {PROCESSES} processes | {ours:,.0f} µs; "
        f"a bare process pool: {pool:,.0f} µs |"
    )
