"""What is said to a child, and forks of trees: all of it goes through the root, and nothing is repeated silently."""

from __future__ import annotations

from typing import Any

import pytest

from asterism.constellation.machine.events import ConstellationSubmitted
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan
from asterism.engine.control.run_control import Cancel, Pause, Unpause
from asterism.errors import Refused
from tests.simulation.test_forks import FLEET, House, play

INNER = {
    "tasks": [
        {"task_id": "p", "device": "d", "skill": "once"},
        {"task_id": "q", "device": "d", "skill": "again", "requires_approval": True},
    ],
    "dependencies": [{"from": "p", "to": "q"}],
}
TREE: dict[str, Any] = {
    "tasks": [
        {"task_id": "a", "device": "d", "skill": "again"},
        {"task_id": "b", "constellation": INNER},
        {"task_id": "c", "device": "d", "skill": "again"},
    ],
    "dependencies": [{"from": "a", "to": "b"}, {"from": "b", "to": "c", "type": "UNCONDITIONAL"}],
}
CHILD = "origin.5.0"


async def waiting(house: House) -> None:
    """A tree that waits for its person."""
    first = ConstellationSubmitted(request="x", fleet=(FLEET,), plan=parse_plan(TREE))
    await house.runtime.submit(CONSTELLATION_AGENT, first, title="x", actor="ada", run_id="origin")
    assert (await house.runtime.drive("origin")).status == "waiting"


def test_to_drive_a_child_is_to_drive_its_root() -> None:
    async def scenario(house: House) -> None:
        await waiting(house)
        assert (await house.runtime.drive(CHILD)).run_id == "origin"
        (asked,) = await house.runtime.store.inquiries(root="origin")
        assert asked.run_id == CHILD
        await house.runtime.post_answer(asked.inquiry_id, "approve", actor="ada")
        row = await house.runtime.drive(CHILD)
        assert (row.run_id, row.outcome) == ("origin", "finished")

    play(scenario)


def test_a_command_to_a_child_gets_its_own_verdict_and_its_tree_goes_on() -> None:
    async def scenario(house: House) -> None:
        await waiting(house)
        assert await house.runtime.send(CHILD, Pause(), actor="ada") == "accepted"
        assert [(await house.runtime.store.run(run)).status for run in ("origin", CHILD)] == ["waiting", "paused"]
        assert await house.runtime.send(CHILD, Unpause(), actor="ada") == "accepted"
        assert await house.runtime.send(CHILD, Cancel(), actor="ada") == "accepted"
        root, child = await house.runtime.store.run("origin"), await house.runtime.store.run(CHILD)
        assert (root.outcome, child.outcome) == ("finished", "cancelled"), "what follows a cancelled task either way has handled it"
        assert house.performed("origin") == ["a", "c"]
        with pytest.raises(Refused, match="has ended already"):
            await house.runtime.send(CHILD, Cancel(), actor="ada")

    play(scenario)


def test_a_refused_answer_leaves_the_childs_question_open() -> None:
    async def scenario(house: House) -> None:
        await waiting(house)
        (asked,) = await house.runtime.store.inquiries(root="origin")
        row = await house.runtime.post_answer(asked.inquiry_id, "edit", actor="ada", value={"unknown": 1})
        await house.runtime.drive("origin")
        with pytest.raises(Refused, match="takes nothing"):
            await house.runtime.verdict(row.run_id, row.key)
        assert (await house.finish("origin")).outcome == "finished"

    play(scenario)


@pytest.mark.parametrize("at", range(1, 12))
def test_a_fork_of_a_tree_asks_before_it_runs_a_child_anew(at: int) -> None:
    async def scenario(house: House) -> None:
        origin = await house.origin(TREE)
        assert (origin.seq, origin.outcome) == (11, "finished")
        before = {run: await house.runtime.records(run) for run in ("origin", CHILD)}
        under_way = 5 <= at < [record.kind for record in before["origin"]].index("child_ended") + 1
        house.asked.clear()
        fork = await house.runtime.fork("origin", at, actor="bob")
        row = await house.finish(fork)
        assert row.outcome == "finished"
        told = [prompt for prompt in house.asked if "was under way when origin was forked" in prompt]
        assert len(told) == under_way
        children = [it for it in await house.runtime.store.runs(root=fork) if it.parent]
        assert len(children) == (at < [record.kind for record in before["origin"]].index("child_ended") + 1)
        assert {run: await house.runtime.records(run) for run in ("origin", CHILD)} == before

    play(scenario)


def test_a_fork_of_a_child_is_a_root() -> None:
    async def scenario(house: House) -> None:
        await house.origin(TREE)
        fork = await house.runtime.fork(CHILD, 4, actor="bob")
        row = await house.finish(fork)
        assert (row.root, row.parent, row.outcome) == (fork, "", "finished")
        assert (await house.runtime.store.run(CHILD)).root == "origin"

    play(scenario)


def test_a_fork_in_the_middle_of_a_cancel_leaves_the_children_of_its_origin_alone() -> None:
    async def scenario(house: House) -> None:
        await waiting(house)
        await house.runtime.send("origin", Cancel(), actor="ada")
        records = await house.runtime.records("origin")
        at = next(record.seq for record in records if record.kind == "cancel")
        fork = await house.runtime.fork("origin", at, actor="bob")
        assert (await house.runtime.drive(fork)).outcome == "cancelled"
        assert [row.run_id for row in await house.runtime.store.runs(root=fork)] == [fork]

    play(scenario)
