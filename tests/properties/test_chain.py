"""A chain of 2,000 tasks: nothing recurses, nothing costs the square of its length."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import pytest

from asterism.constellation.model.analysis import critical_path, parallel_width
from asterism.constellation.model.constellation import TaskConstellation
from asterism.engine.control.run_control import Cancel
from tests.support.constellation_harness import Agent, memory_of
from tests.support.constellations import action, edit, end, plan, ready

SIZE = 2000
IDS = [f"t{number}" for number in range(SIZE)]
CHAIN = plan(" ".join(IDS), " ".join(f"{low}>{high}" for low, high in itertools.pairwise(IDS)))


@pytest.fixture(autouse=True)
def a_shallow_stack() -> Iterator[None]:
    depth, limit = 0, sys.getrecursionlimit()
    frame = sys._getframe()
    while frame.f_back:
        frame, depth = frame.f_back, depth + 1
    sys.setrecursionlimit(depth + 150)
    yield
    sys.setrecursionlimit(limit)


def test_it_builds_edits_and_settles() -> None:
    it = TaskConstellation.from_dict(CHAIN)
    assert it.validate_dag() == (True, [])
    assert critical_path(it) == (float(SIZE), IDS)
    assert parallel_width(it) == 1
    edit(it, action("remove_dependency", dependency_id="t999->t1000"), action("add_dependency", from_="t1999", to="t0"))
    assert ready(it) == ["t1000"]
    edit(it, action("remove_dependency", dependency_id="t1999->t0"), action("add_dependency", from_="t999", to="t1000"))
    for task_id in IDS:
        assert it.is_ready(task_id)
        end(it, task_id)
    assert ready(it) == []
    assert TaskConstellation.from_json(it.to_json()).to_dict() == it.to_dict()


def test_the_agent_runs_it_edits_it_and_replays_it() -> None:
    agent = Agent(CHAIN, replan="when_needed")
    for task_id in IDS[:-1]:
        agent.ends(task_id, {"replan": task_id == "t1000"})
        if agent.question():
            agent.plans(action("add_task", task_id="more", device="d"), action("add_dependency", from_="t1999", to="more"))
    agent.ends("t1999")
    agent.ends("more")
    agent.plans()
    assert agent.state == "FINISH"
    assert memory_of(agent.replayed()) == memory_of(agent.run)


def test_a_failure_at_its_head_skips_it_to_the_end() -> None:
    agent = Agent(CHAIN)
    agent.ends("t0", error="raised")
    assert agent.state == "FAIL"
    assert agent.memory.result()["skipped"] == SIZE - 1


def test_cancel_settles_all_of_it() -> None:
    agent = Agent(CHAIN)
    agent.take(Cancel())
    agent.finish_cancellations()
    assert agent.run.ended
    assert agent.memory.result()["cancelled"] == SIZE


def test_a_replacement_of_the_whole_is_one_edit() -> None:
    it = TaskConstellation.from_dict(CHAIN)
    before = it.to_dict()
    assert edit(it, action("build_constellation", config=plan("a b", "a>b"))).changed
    assert list(it.tasks) == ["a", "b"]
    assert len(it.removed_tasks) == SIZE
    assert before["version"] + 1 == it.version
