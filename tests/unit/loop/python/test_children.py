"""Nested loops and constellations, and loops as devices: questions go up, answers and cancels down."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import asterism
from asterism.app.bootstrap import open_devices
from asterism.constellation.machine.events import ConstellationSubmitted
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan
from asterism.engine.control.run_control import Cancel
from asterism.engine.runtime.runtime import Runtime
from asterism.errors import InvalidInput
from asterism.loop.python import Handoff, OrchestrationLoop, Worker, constellation, resume
from asterism.loop.python.definition import memory_of

SKILLS = """
from asterism import skill
@skill(idempotent=True)
def count_words(text: str) -> dict[str, int]:
    return {"words": len(text.split())}
"""
LOOPS = """
import asyncio
from asterism.loop.python import OrchestrationLoop, Worker
async def hang(handoff):
    await asyncio.Event().wait()
async def work(handoff):
    return {"did": handoff.intent}
async def plan(view):
    return [{"worker": "w", "intent": view.request, "context": view.context}]
free = OrchestrationLoop(plan=plan, workers={"w": Worker(work, idempotent=True)})
hangs = OrchestrationLoop(plan=plan, workers={"w": hang})
asking = OrchestrationLoop(plan=plan, workers={"w": Worker(work, requires_approval=True, description="Does it.")})
"""
FLEET = """
[[devices]]
id = "desk"
skills = ["skills.py:count_words"]
[[devices]]
id = "agent"
kind = "agent"
loop = "loops_of_test.py:asking"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"skills.py": SKILLS, "loops_of_test.py": LOOPS, "fleet.toml": FLEET}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def inner(**more: Any) -> OrchestrationLoop:
    async def work(handoff: Handoff) -> Any:
        return {"of": handoff.intent, "with": handoff.context}

    async def plan(view: Any) -> Any:
        return [{"worker": "w", "intent": view.request, "context": view.context}]

    return OrchestrationLoop(plan=plan, workers={"w": Worker(work, **more)})


def outer(worker: Any) -> OrchestrationLoop:
    steps = [{"step_id": "a", "worker": "deep", "intent": "dig", "context": {"depth": 3}}]
    return OrchestrationLoop(plan=steps, workers={"deep": worker})


def test_a_worker_may_be_a_loop_and_its_answer_is_the_finding() -> None:
    ended = asyncio.run(outer(inner()).run("x"))
    assert (ended.state, ended.answer) == ("COMPLETE", {"of": "dig", "with": {"depth": 3}})


def test_a_question_of_a_child_makes_its_loop_wait_and_the_answer_moves_both(tmp_path: Path) -> None:
    loop = outer(inner(requires_approval=True))

    async def scene() -> list[Any]:
        async with asterism.open(tmp_path / "runs.db") as runtime:
            waits = await loop.run("x")
            (asked,) = waits.waiting
            await loop.answer(asked.inquiry_id, "approve")
            ended = await loop.resume(waits.run_id)
            return [waits.state, (await runtime.store.run(asked.run_id)).parent == waits.run_id, ended.state]

    assert asyncio.run(scene()) == ["WAITING", True, "COMPLETE"]


def test_a_cancel_goes_down_to_the_child(tmp_path: Path) -> None:
    loop = outer(inner(requires_approval=True))

    async def scene() -> list[str]:
        async with asterism.open(tmp_path / "runs.db") as runtime:
            waits = await loop.run("x")
            with loop.here():
                await runtime.send(waits.run_id, Cancel(reason="enough"), actor="ada")
            return sorted(f"{row.state} {row.outcome}" for row in await runtime.runs())

    assert asyncio.run(scene()) == ["CANCELLED cancelled", "CANCELLED cancelled"]


@pytest.mark.parametrize(("children", "state"), [(1, "EXECUTING"), (3, "PARALLEL")])
def test_a_cancel_stops_working_children(tmp_path: Path, children: int, state: str) -> None:
    at_work, stopped = asyncio.Semaphore(0), []

    async def work(handoff: Handoff) -> None:
        at_work.release()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(handoff.intent)

    below = OrchestrationLoop(plan=[{"worker": "w", "intent": "dig"}], workers={"w": Worker(work)})
    loop = OrchestrationLoop(plan=[[{"worker": "deep", "intent": "dig"}] * children], workers={"deep": below})

    async def scene() -> tuple[str, set[tuple[str, str]], int]:
        async with asterism.open(tmp_path / "runs.db") as runtime:
            run = await loop.submit("x")
            async with asyncio.TaskGroup() as group:
                group.create_task(loop.resume(run))
                for _ in range(children):
                    await at_work.acquire()
                before = (await runtime.store.run(run)).state
                await runtime.send(run, Cancel(reason="enough"), actor="ada")
            rows = await runtime.runs()
            return before, {(row.state, row.outcome) for row in rows}, len(rows)

    assert asyncio.run(scene()) == (state, {("CANCELLED", "cancelled")}, 1 + children)
    assert len(stopped) == children


def test_a_worker_may_be_a_constellation(folder: Path) -> None:
    async def scene() -> Any:
        plan = {"tasks": [{"task_id": "c", "name": "count_words", "device": "desk", "inputs": {"text": "one two three"}}]}
        files = (folder / "runs.db", folder / "other.db")
        async with (
            asterism.open(files[0], fleet=folder / "fleet.toml"),
            open_devices(folder / "fleet.toml", files[1]) as (fleet, _),
        ):
            return await outer(constellation(plan, fleet.values())).run("x")

    ended = asyncio.run(scene())
    assert ended.state == "COMPLETE"
    assert ended.answer["results"] == {"c": {"words": 3}}


def test_a_loop_is_a_device_whose_questions_reach_the_constellation_and_whose_answer_is_the_result(folder: Path) -> None:
    plan = {
        "tasks": [
            {"task_id": "count", "name": "count_words", "device": "desk", "inputs": {"text": "one two"}},
            {"task_id": "talk", "description": "say something nice", "device": "agent", "inputs": {"tone": "warm"}},
        ],
        "dependencies": [{"from": "count", "to": "talk"}],
    }

    async def scene() -> list[Any]:
        async with asterism.open(folder / "runs.db", fleet=folder / "fleet.toml") as runtime:
            async with open_devices(folder / "fleet.toml", folder / "other.db") as (fleet, _):
                first = ConstellationSubmitted(request="x", fleet=tuple(fleet.values()), plan=parse_plan(plan))
            run = await runtime.submit(CONSTELLATION_AGENT, first, title="x", actor="me")
            waits = await runtime.drive(run)
            (asked,) = await runtime.store.inquiries(root=run)
            await runtime.post_answer(asked.inquiry_id, "approve", actor="ada")
            ended = await runtime.drive(run)
            child = next(row for row in await runtime.runs() if row.parent)
            return [waits.status, json.loads(asked.subject), ended.outcome, child.machine, child.outcome, child.title]

    status, subject, outcome, *child = asyncio.run(scene())
    assert (status, outcome) == ("waiting", "finished")
    assert subject["context"] == {"tone": "warm", "results": {"count": {"words": 2}}}
    assert child == ["orchestration loop", "finished", "talk"]


async def talked(runtime: Runtime, folder: Path, **task: Any) -> str:
    """Run a constellation whose only task is the agent's, until it ends or waits."""
    async with open_devices(folder / "fleet.toml", folder / "other.db") as (fleet, _):
        plan = parse_plan({"tasks": [{"task_id": "talk", "description": "say something nice", "device": "agent", **task}]})
        run = await runtime.submit(
            CONSTELLATION_AGENT, ConstellationSubmitted(request="x", fleet=tuple(fleet.values()), plan=plan), title="x", actor="me"
        )
    await runtime.drive(run)
    return run


def test_a_cancel_of_the_constellation_reaches_the_loop_that_is_its_device(folder: Path) -> None:
    async def scene() -> list[str]:
        async with asterism.open(folder / "runs.db", fleet=folder / "fleet.toml") as runtime:
            run = await talked(runtime, folder)
            await runtime.send(run, Cancel(reason="enough"), actor="ada")
            return sorted(f"{row.state} {row.outcome}" for row in await runtime.runs())

    assert asyncio.run(scene()) == ["CANCELLED cancelled", "FAIL cancelled"]


@pytest.mark.parametrize("bound", ["timeout_s", "deadline_s"])
def test_the_timeout_of_a_task_bounds_the_loop_that_is_its_device(folder: Path, bound: str) -> None:
    (folder / "fleet.toml").write_text(FLEET.replace("asking", "hangs"), encoding="utf-8")

    async def scene() -> tuple[str, str, str]:
        async with asterism.open(folder / "runs.db", fleet=folder / "fleet.toml") as runtime:
            run = await talked(runtime, folder, **{bound: 0.2})
            child = next(row for row in await runtime.runs() if row.parent)
            return (await runtime.store.run(run)).outcome, child.status, (await memory_of(runtime, child.run_id)).code

    assert asyncio.run(scene()) == ("failed", "ended", "wall_limit")


def test_the_profile_of_an_agent_device_describes_its_loop(folder: Path) -> None:
    async def profile() -> Any:
        async with open_devices(folder / "fleet.toml", folder / "other.db") as (fleet, _):
            return fleet["agent"]

    found = asyncio.run(profile())
    assert (found.kind, found.natural_language, found.description) == ("agent", True, "Does it.")


def test_a_fleet_with_a_missing_agent_is_refused_in_one_line(folder: Path) -> None:
    async def opened() -> None:
        (folder / "fleet.toml").write_text(FLEET.replace("asking", "nobody"), encoding="utf-8")
        async with open_devices(folder / "fleet.toml", folder / "other.db", every=True):
            pass

    with pytest.raises(InvalidInput, match=r"devices\[1\] \(agent\)\.the loop loops_of_test\.py:nobody cannot be found"):
        asyncio.run(opened())


def test_a_tree_of_loops_is_resumed_by_its_root(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(folder))
    (folder / "tree_of_test.py").write_text(
        "from asterism.loop.python import OrchestrationLoop\nfrom loops_of_test import asking\n"
        "root = OrchestrationLoop(plan=[{'worker': 'deep', 'intent': 'dig'}], workers={'deep': asking})\n",
        encoding="utf-8",
    )

    async def scene() -> list[Any]:
        import tree_of_test  # type: ignore[import-not-found]  # noqa: PLC0415

        async with asterism.open(folder / "runs.db") as runtime:
            waits = await tree_of_test.root.run("x")
            (asked,) = await runtime.store.inquiries(root=waits.run_id)
            await tree_of_test.root.answer(asked.inquiry_id, "approve")
        async with asterism.open(folder / "runs.db"):
            ended = await resume(waits.run_id)
        return [waits.state, ended.state, ended.answer]

    assert asyncio.run(scene()) == ["WAITING", "COMPLETE", {"did": "dig"}]
