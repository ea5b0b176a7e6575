"""Fan-outs in whole worlds: killed at every entry, each item's effect counted by its key."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from asterism.constellation.machine.events import Dispatch
from asterism.devices.port import Attempt
from asterism.testing.device import Behaviour
from asterism.testing.people import Crash
from asterism.testing.world import World
from tests.simulation.demo_world import fleet_of, lines, tasks

PLAN: dict[str, Any] = {
    "tasks": [
        *tasks("a"),
        *tasks("b", inputs={"x": "${item}"}, for_each={"items": "${a.files}", "max_concurrent": 2, "failed": "omit"}),
        *tasks("c", inputs={"x": "${b}"}),
    ],
    "dependencies": lines("a>b", "b>c"),
}


def script(attempt: Attempt) -> Behaviour:
    if attempt.task_id == "a":
        return Behaviour(result={"files": list(range(5))})
    return Behaviour(duration_s=2, breaks="broken" if attempt.task_id == "b[3]" else "", result=attempt.task_id)


@pytest.mark.parametrize("entry", range(1, 18))
def test_a_run_killed_at_any_entry_performs_each_item_under_one_key(entry: int) -> None:
    ending = World(1, fleet=fleet_of("d"), script=script, crashes=[Crash(entry=entry, after_s=0.5)]).run(PLAN)
    assert ending.memory.outcome() == "finished"
    assert ending.memory.constellation.tasks["b"].result == ["b[0]", "b[1]", "b[2]", "b[4]"]
    keys = Counter(effect.task_id for it in ending.entries for effect in it.effects if isinstance(effect, Dispatch))
    assert keys == Counter(["a", "c", *(f"b[{number}]" for number in range(5))])
