"""Random plans with tasks that wait, and the events that are sent to them."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import msgspec

from asterism.constellation.model.documents import PlanDocument
from asterism.constellation.model.task import TaskSpec
from asterism.constellation.model.wait import Wait
from asterism.devices.model.references import references
from asterism.engine.ports.events import Deliver
from asterism.testing.clock import EPOCH
from tests.simulation.search.shapes import likely
from tests.simulation.search.watched_world import SentEvent

NAMES = ("paid", "sent")
LAST_S = 40.0
"""The last second in which events are sent."""


def waiting(rng: random.Random, outer: PlanDocument) -> PlanDocument:
    """Return the plan with waits in place of some tasks whose results no other task uses, and of a nested plan."""
    used = {source for spec in outer.tasks for source, _ in references(spec.inputs)}
    used |= {line.source for line in outer.dependencies if line.condition}
    tasks = [_wait(rng, spec) if spec.task_id not in used and likely(rng, 0.6) else spec for spec in outer.tasks]
    if likely(rng, 0.3):
        inner = [_document(_wait(rng, TaskSpec(task_id=f"i{number}"))) for number in range(rng.randint(1, 3))]
        tasks.append(TaskSpec(task_id="inner", constellation={"tasks": inner}))
    return msgspec.structs.replace(outer, tasks=tuple(tasks))


def _wait(rng: random.Random, spec: TaskSpec) -> TaskSpec:
    kept = TaskSpec(task_id=spec.task_id, join=spec.join, priority=spec.priority)
    if likely(rng, 0.3):
        wait = Wait(for_s=round(rng.uniform(0.1, 60), 1)) if likely(rng, 0.6) else Wait(until=_time(rng.uniform(-10, 100)))
        return msgspec.structs.replace(kept, wait=wait, timeout_s=rng.choice((None, None, 20.0)))
    match = rng.choice(("", "event.n == n", "event.n == n"))
    inputs = {"n": rng.randrange(3)} if match else {}
    wait = Wait(event=rng.choice(NAMES), match=match)
    return msgspec.structs.replace(kept, wait=wait, inputs=inputs, timeout_s=rng.choice((5.0, 60.0, 200.0)))


def _time(after_s: float) -> str:
    return datetime.fromtimestamp(round(EPOCH + after_s), UTC).isoformat()


def _document(spec: TaskSpec) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(spec))
    return found


def events(rng: random.Random) -> list[SentEvent]:
    """Return events, some of them sent twice, and some by a process that dies before it has compared them."""
    found = []
    for number in range(rng.randint(1, 10)):
        deliver: Deliver = rng.choice(("all", "all", "one"))
        sent = SentEvent(
            at_s=round(rng.uniform(0, LAST_S), 1),
            what="inbox_row",
            kind=rng.choice(NAMES),
            key=f"e{number}",
            data={"n": rng.randrange(3), "value": round(rng.random(), 2)},
            deliver=deliver,
            keep_s=rng.choice((10.0, 100.0, 86_400.0)),
            sender_dies=likely(rng, 0.2),
        )
        found += [sent] * rng.choice((1, 1, 1, 2))
    return found
