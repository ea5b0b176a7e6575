"""The shapes that are measured. Every task does nothing, on the device ``idle``."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import msgspec

from asterism.constellation.model.documents import LineSpec, PlanDocument
from asterism.constellation.model.fan_out import ForEach
from asterism.constellation.model.task import TaskSpec


def chain(length: int) -> PlanDocument:
    """Tasks in a line, each waiting for the one before it."""
    names = [f"t{number}" for number in range(length)]
    return _plan(names, itertools.pairwise(names))


def fan(width: int) -> PlanDocument:
    """One task, then many at once, then one that waits for all of them."""
    middle = [f"t{number}" for number in range(width)]
    return _plan(["first", *middle, "last"], [*(("first", name) for name in middle), *((name, "last") for name in middle)])


def fan_out(width: int) -> PlanDocument:
    """One task, then one for each item of a list, then one that waits for all of them."""
    items = TaskSpec(task_id="items", name="take", device="idle", inputs={"x": "${item}"}, for_each=ForEach(items=list(range(width))))
    whole = _plan(["first", "last"], [("first", "items"), ("items", "last")])
    return msgspec.structs.replace(whole, tasks=(*whole.tasks, items))


def written_out(width: int) -> PlanDocument:
    """The same with a task for each item."""
    names = [f"items-{number}" for number in range(width)]
    items = [TaskSpec(task_id=name, name="take", device="idle", inputs={"x": number}) for number, name in enumerate(names)]
    whole = _plan(["first", "last"], [*(("first", name) for name in names), *((name, "last") for name in names)])
    return msgspec.structs.replace(whole, tasks=(*whole.tasks, *items))


def layered(layers: int, width: int, degree: int) -> PlanDocument:
    """Layers of tasks, each of which waits for so many tasks of the layer before it."""
    names = [[f"t{layer}-{place}" for place in range(width)] for layer in range(layers)]
    arrows = [
        (above[(place + step) % width], name)
        for above, layer in itertools.pairwise(names)
        for place, name in enumerate(layer)
        for step in range(degree)
    ]
    return _plan([name for layer in names for name in layer], arrows)


def _plan(names: Iterable[str], arrows: Iterable[tuple[str, str]]) -> PlanDocument:
    return PlanDocument(
        tasks=tuple(TaskSpec(task_id=name, name="nothing", device="idle") for name in names),
        dependencies=tuple(LineSpec(source=source, target=target) for source, target in arrows),
    )
