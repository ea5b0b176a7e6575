"""(d) What one edit costs on a large constellation, and whether the ten-thousandth costs more than the first."""

from __future__ import annotations

import random
import time

from asterism.constellation.model.batch import apply_edits
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.documents import LineSpec
from asterism.constellation.model.edits import AddDependency, AddTask, BuildConstellation, Edit, RemoveDependency, RemoveTask, UpdateTask
from asterism.constellation.model.task import TaskSpec
from benchmarks.plans import layered

EDITS = 10_000
GRAPH = layered(100, 100, 3)
PART = 5
"""The first and the last fifth are compared."""


def _edits(rng: random.Random, number: int, tasks: list[str]) -> list[Edit]:
    """Four edits: a task comes below another one, is changed, and goes again with what it waited for."""
    name, above = f"n{number}", rng.choice(tasks)
    line = LineSpec(source=above, target=name)
    return [
        AddTask(task=TaskSpec(task_id=name, name="nothing", device="idle")),
        AddDependency(dependency=line),
        UpdateTask(task_id=name, changes={"priority": number}),
        *([RemoveDependency(dependency_id=line.line_id)] if number % 2 else [RemoveTask(task_id=name)]),
    ]


def edits_us(count: int) -> list[float]:
    """Microseconds of each of so many edits, each a batch of its own."""
    it, rng = TaskConstellation(), random.Random(1)
    apply_edits(it, [BuildConstellation(plan=GRAPH)])
    tasks = list(it.tasks)
    edits = [edit for number in range(count // 4) for edit in _edits(rng, number, tasks)]
    taken = []
    for edit in edits:
        started = time.perf_counter()
        apply_edits(it, [edit])
        taken.append((time.perf_counter() - started) * 1e6)
    return taken


def rows(*, quick: bool) -> list[str]:
    """Rows of the table of figures."""
    taken = edits_us(400 if quick else EDITS)
    part = len(taken) // PART
    first, last = sum(taken[:part]) / part, sum(taken[-part:]) / part
    told = f"{sum(taken) / len(taken):.1f} µs (first fifth {first:.1f}, last fifth {last:.1f})"
    return [f"| (d) {len(taken):,} edits of a constellation of {len(GRAPH.tasks):,} tasks, each a batch of its own: one edit | {told} |"]
