"""``python -m benchmarks``: measure what durability and starting cost, print it, and write it to RESULTS.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import partial

from benchmarks.chain import chain_plan, durable_chain_s, memory_chain_s
from benchmarks.floors import durable_floor_s, memory_floor_s
from benchmarks.loop import durable_loop_s, has_langgraph, langgraph_loop_s
from benchmarks.machine import described
from benchmarks.results import write_timings
from benchmarks.startup import bare_help_s, help_s
from benchmarks.timing import Comparison, compare

LENGTHS = (100, 1000)
LOOP_STEPS = 100
CHAIN_REPEATS = 15
START_REPEATS = 25

HEAD = """# Results

Written by `make bench`; medians; a run and its floor took turns, and the ratio is the median over these pairs.
{machine}.

| | floor | Asterism | a task | times the floor | slowest / fastest floor |
|---|--:|--:|--:|--:|--:|
"""

FOOT = """
- **Durable chain**: tasks that do nothing, each waiting for the one before it, from submitting the plan to FINISH, through runtime, driver,
  dispatcher and a fresh SQLite file. Each end is on the disk before the next task starts. The floor does the same with one row
  per task and no journal: standard library `sqlite3`, WAL, `synchronous = FULL`, one writer thread with group commit.
- **In-memory chain**: the same over the in-memory store, beside a bare chain of `asyncio` tasks. This floor does next to nothing, so
  read the time of a task rather than the ratio.
- **Durable loop**: an orchestration loop whose workers do nothing; each step is claimed, observed and reflected on, in two commits. The
  floor is that of the durable chain. Where LangGraph is installed, it takes the floor's place once, with its SQLite checkpointer and
  `durability="sync"`: a ratio below 1 says that Asterism takes less.
- **`asterism --help`**: the whole process, beside a cyclopts app with one command.
"""


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one run of each, and nothing is written: to see that it works")
    quick = parser.parse_args().quick
    rows = []
    head = HEAD.format(machine=described())
    print(head, end="")
    for comparison in measured(1 if quick else CHAIN_REPEATS, 1 if quick else START_REPEATS):
        rows.append(row(comparison))
        print(rows[-1], flush=True)
    if not quick:
        write_timings(head + "\n".join(rows) + "\n" + FOOT)
    return 0


def measured(chain_repeats: int, start_repeats: int) -> Iterator[Comparison]:
    """Every comparison, as it is made."""
    for length in LENGTHS:
        plan = chain_plan(length)
        yield compare(
            f"durable chain, {length:,} tasks",
            partial(durable_chain_s, plan),
            "one row per task",
            partial(durable_floor_s, length),
            repeats=chain_repeats,
            of=length,
        )
    for length in LENGTHS:
        plan = chain_plan(length)
        yield compare(
            f"in-memory chain, {length:,} tasks",
            partial(memory_chain_s, plan),
            "asyncio tasks",
            partial(memory_floor_s, length),
            repeats=chain_repeats,
            of=length,
        )
    yield compare(
        f"durable loop, {LOOP_STEPS} steps",
        partial(durable_loop_s, LOOP_STEPS),
        "one row per step",
        partial(durable_floor_s, LOOP_STEPS),
        repeats=chain_repeats,
        of=LOOP_STEPS,
    )
    if has_langgraph():
        yield compare(
            f"durable loop, {LOOP_STEPS} steps, beside LangGraph",
            partial(durable_loop_s, LOOP_STEPS),
            "LangGraph, SQLite, sync",
            partial(langgraph_loop_s, LOOP_STEPS),
            repeats=chain_repeats,
            of=LOOP_STEPS,
        )
    yield compare("`asterism --help`", help_s, "bare cyclopts app", bare_help_s, repeats=start_repeats)


def row(comparison: Comparison) -> str:
    """A comparison as a row of the table."""
    a_task = f"{comparison.ours_median_s / comparison.of * 1e6:,.0f} µs" if comparison.of > 1 else ""
    return (
        f"| {comparison.name} | {comparison.floor_median_s * 1000:,.1f} ms | {comparison.ours_median_s * 1000:,.1f} ms "
        f"| {a_task} | {comparison.ratio:.2f} | {comparison.spread:.2f} |"
    )


if __name__ == "__main__":
    sys.exit(main())
