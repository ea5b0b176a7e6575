"""A run that is frozen and thawed after every entry goes on as if nothing had been."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from asterism.kernel.run import Run, packer
from asterism.kernel.snapshot import freeze, thaw
from asterism.machines.constellation_agent.memory import AgentMemory
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.simulation.profiles import PROFILES, setting_of
from tests.agents import memory_of


def whole(run: Run[AgentMemory]) -> Any:
    """All of it, every order included, but for the story, which is for people."""
    it = run.memory.constellation
    orders = [
        (task_id, it.predecessors(task_id), it.successors(task_id), it.is_ready(task_id), it.is_doomed(task_id)) for task_id in it.tasks
    ]
    graph = [sorted(orders), list(it.unjudged), list(it.restless), sorted(it.referring().items()), it.validate_dag()]
    every = {**memory_of(run), "story": [], "graph": graph, "outstanding in order": list(run.outstanding)}
    return msgspec.json.decode(msgspec.json.encode(every))


@pytest.mark.parametrize("profile", PROFILES)
def test_a_run_thawed_at_every_entry_does_what_it_would_have_done(profile: str) -> None:
    for seed in range(12):
        _, ending = setting_of(profile, seed).play()
        unpack = packer(CONSTELLATION_AGENT).unpack
        straight: Run[AgentMemory] = Run(CONSTELLATION_AGENT, ending.row.run)
        thawed: Run[AgentMemory] = Run(CONSTELLATION_AGENT, ending.row.run)
        for record in ending.records:
            straight.replay([unpack(record)])
            thawed.replay([unpack(record)])  # raises where it asks for other effects than the journal has
            snapshot = freeze(thawed, "these")
            assert snapshot is not None
            again = thaw(CONSTELLATION_AGENT, snapshot, "these")
            assert again is not None
            assert whole(again) == whole(straight), f"{profile} {seed}, entry {record.seq}"
            thawed = again
