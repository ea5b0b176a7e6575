"""How often a model is asked, over real HTTP: ends that come together are one question, and no length of a run is too much."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from asterism.devices.port import Attempt
from asterism.testing.model_wire import ModelRequest
from asterism.testing.scripted_model import Answering, ModelAnswer
from tests.support.http_runs import Watch, creating, edit, ended, live, one_by_one, plan

pytestmark = pytest.mark.usefixtures("key")


def test_three_tasks_that_end_while_an_edit_is_decided_are_one_further_question() -> None:
    gate = asyncio.Event()

    async def work(attempt: Attempt) -> str:
        if attempt.task_id != "a":
            await gate.wait()
        return "done"

    def scripted(watch: Watch) -> Answering:
        async def script(request: ModelRequest) -> ModelAnswer:
            if not creating(request) and ended(request) == ["a"]:
                gate.set()
                await watch.ended("a", "b", "c", "d")
            return plan("a", "b", "c", "d") if creating(request) else edit()

        return script

    lived = live(scripted=scripted, work=work)
    assert lived.outcome == "finished"
    assert [question.batch for question in lived.questions] == [(), ("a",), ("b", "c", "d")]
    assert [sorted(ended(request)) for request in lived.requests[1:]] == [["a"], ["b", "c", "d"]]


def test_a_chain_of_forty_tasks_is_asked_about_forty_times_and_stops_at_no_budget_of_ours() -> None:
    ids = [f"t{number:02}" for number in range(40)]
    lived = live(one_by_one(creation=plan(*ids, lines=[f"{a}>{b}" for a, b in pairwise(ids)])))
    assert lived.outcome == "finished"
    assert set(lived.statuses().values()) == {"COMPLETED"}
    assert [question.batch for question in lived.questions] == [(), *((task_id,) for task_id in ids)]
    assert len(lived.requests) == 41


LAYERS, WIDTH = 50, 4


def wide_plan() -> dict[str, Any]:
    """200 tasks in 50 layers, 400 dependencies: each task on two of the layer before it, some on a third."""
    ids = [[f"t{layer:02}{place}" for place in range(WIDTH)] for layer in range(LAYERS)]
    pairs = [
        (ids[layer - 1][(place + step) % WIDTH], ids[layer][place])
        for layer in range(1, LAYERS)
        for place in range(WIDTH)
        for step in (0, 1)
    ]
    pairs += [(ids[layer - 1][2], ids[layer][0]) for layer in range(1, 9)]
    return plan(*(task_id for layer in ids for task_id in layer), lines=[f"{source}>{target}" for source, target in pairs])


def test_fifty_edits_of_two_hundred_tasks_with_four_hundred_dependencies_work() -> None:
    weaving = wide_plan()
    assert len(weaving["constellation"]["tasks"]) == 200
    assert len(weaving["constellation"]["dependencies"]) == 400
    edits: list[str] = []

    def script(request: ModelRequest) -> ModelAnswer:
        if creating(request):
            return weaving
        number = len(edits)
        if number < LAYERS:
            edits.append(f"x{number:02}")
            return edit(("add_task", {"task_id": edits[-1], "name": "extra", "device": "d"}))
        return edit()

    lived = live(script, limit_s=100)
    assert lived.outcome == "finished"
    assert len(edits) == LAYERS
    assert lived.performed() == dict.fromkeys([*(task["task_id"] for task in weaving["constellation"]["tasks"]), *edits], 1)
    assert max(len(request.text) for request in lived.requests) < 100_000
