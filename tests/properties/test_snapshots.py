"""A run that is frozen and thawed after every entry goes on as if nothing had been."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from asterism.constellation.machine.memory import ConstellationMemory
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.run import Run
from asterism.engine.kernel.snapshot import restore_snapshot, take_snapshot
from asterism.testing.checks.checker import FORMS
from asterism.testing.invariants import difference
from tests.simulation.search.profiles import PROFILES, setting_of
from tests.support.constellation_harness import memory_of


def whole(run: Run[Any]) -> Any:
    """All of it, every order included, but for the story, which is for people."""
    if not isinstance(run.memory, ConstellationMemory):
        return list(run.outstanding)  # the rest is compared by itself
    it = run.memory.constellation
    orders = [
        (task_id, it.predecessors(task_id), it.successors(task_id), it.is_ready(task_id), it.is_unsatisfiable(task_id))
        for task_id in it.tasks
    ]
    graph = [sorted(orders), list(it.unevaluated), list(it.dirty), sorted(it.referring.items()), it.validate_dag()]
    every = {**memory_of(run), "story": [], "graph": graph, "outstanding in order": list(run.outstanding)}
    return msgspec.json.decode(msgspec.json.encode(every))


@pytest.mark.parametrize("profile", PROFILES)
def test_a_run_restored_at_every_entry_does_the_same(profile: str) -> None:
    for seed in range(12):
        _, ending = setting_of(profile, seed).execute()
        form = FORMS[ending.row.machine]
        machine, facts = form.machine, form.checks(form.machine, "r", float).facts  # type: ignore[operator]
        unpack = packer(machine).unpack
        straight: Run[Any] = Run(machine, ending.row.run_id)
        thawed: Run[Any] = Run(machine, ending.row.run_id)
        for record in ending.records:
            straight.replay([unpack(record)])
            thawed.replay([unpack(record)])  # raises where it asks for other effects than the journal has
            snapshot = take_snapshot(thawed, "these")
            assert snapshot is not None
            again = restore_snapshot(machine, snapshot, "these")
            assert again is not None
            assert (difference(again, straight, facts), whole(again)) == ("", whole(straight)), f"{profile} {seed}, entry {record.seq}"
            thawed = again
