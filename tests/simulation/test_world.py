"""The world as users see it: the example of its docstring, rejected plans, and the ending."""

from __future__ import annotations

import inspect
import textwrap
from typing import Any

import pytest

from asterism.constellation.model.edits import EditRefused
from asterism.errors import InvalidInput
from asterism.testing import world as module
from asterism.testing.world import World
from tests.simulation.demo_world import DEMO, demo, fleet_of, tasks


def test_the_example_of_the_docstring_runs() -> None:
    page = inspect.getdoc(module) or ""
    example = page.partition("::\n\n")[2].partition("\n\nThe invariants are checked")[0]
    found: dict[str, Any] = {}
    exec(compile(textwrap.dedent(example), "the docstring", "exec"), found)  # noqa: S102 - it is our own page
    assert found["ending"].outcome == "finished"
    assert [performance.status for performance in found["world"].performance_log.performances] == ["killed", "done"]


def test_the_ending_holds_the_journal_of_the_run() -> None:
    ending = demo().run(DEMO)
    assert ending.history[0] == "#1 constellation_submitted by user -> CONTINUE"
    assert ending.history[-1] == f"#{len(ending.records)} batch_ended by system -> FINISH"
    assert ending.journal.count(b"\n") == len(ending.records)
    assert ending.lasted_s == pytest.approx(70, abs=1)


@pytest.mark.parametrize(
    ("plan", "error"),
    [
        ({"tasks": tasks("a", device="nowhere")}, EditRefused),
        ({"tasks": []}, InvalidInput),
        ({"tasks": tasks("a", "b"), "dependencies": [{"from": "a", "to": "b"}, {"from": "b", "to": "a"}]}, EditRefused),
    ],
)
def test_an_invalid_plan_is_rejected_and_nothing_is_written(plan: dict[str, Any], error: type[Exception]) -> None:
    world = World(1, fleet=fleet_of("d"))
    with pytest.raises(error):
        world.run(plan)
    assert not world.database.runs
