"""A flow agent as a device of a fleet: each task is a conversation of its own, whose questions reach the constellation."""

from __future__ import annotations

import asyncio
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

AGENTS = """
from asterism.conversation.python import AgentStatus, InputField, StandardAgent, flowagent

@flowagent(description="Order lunch", requires_approval=True)
class Lunch(StandardAgent):
    dish = InputField("Which dish?")
    people: int = InputField("For how many?")

    async def on_running(self, msg):
        return self.make_result(AgentStatus.COMPLETED, "Ordered.", data={"order": f"{self.dish} for {self.people}"})

class Other(StandardAgent):
    pass
"""
FLEET = """
[[devices]]
id = "canteen"
kind = "flow"
flow = "flow_of_test.py:Lunch"
"""
PLAN = {
    "tasks": [
        {"task_id": "eat", "description": "lunch for the team", "device": "canteen", "inputs": {"people": 3}},
        {"task_id": "more", "description": "and again", "device": "canteen", "inputs": {"people": 1, "dish": "${eat.order}"}},
    ],
    "dependencies": [{"from": "eat", "to": "more"}],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flow_of_test.py").write_text(AGENTS, encoding="utf-8")
    (tmp_path / "fleet.toml").write_text(FLEET, encoding="utf-8")
    return tmp_path


async def begun(runtime: Runtime, folder: Path) -> str:
    async with open_devices(folder / "fleet.toml", folder / "other.db") as (fleet, _):
        first = ConstellationSubmitted(request="x", fleet=tuple(fleet.values()), plan=parse_plan(PLAN))
    return await runtime.submit(CONSTELLATION_AGENT, first, title="x", actor="me")


def test_a_task_is_a_conversation_that_does_not_ask_for_given_fields(folder: Path) -> None:
    async def scene() -> list[Any]:
        asked: list[str] = []
        run = ""
        for verb, value in (("respond", "soup"), ("approve", None), ("reject", None), ("", None)):
            async with asterism.open(folder / "runs.db", fleet=folder / "fleet.toml") as runtime:  # a process for each answer
                run = run or await begun(runtime, folder)
                await runtime.drive(run)
                for inquiry in await runtime.store.inquiries(root=run):
                    asked.append(inquiry.prompt)
                    await runtime.post_answer(inquiry.inquiry_id, verb, actor="ann", value=value)  # type: ignore[arg-type]
        async with asterism.open(folder / "runs.db", fleet=folder / "fleet.toml") as runtime:
            children = [child for child in await runtime.runs() if child.parent]
            row = await runtime.store.run(run)
            return [asked, row.status, row.outcome, sorted((child.machine, child.title, child.outcome) for child in children)]

    asked, status, outcome, children = asyncio.run(scene())
    assert asked == [
        "Which dish?",
        "Order lunch (dish: soup, people: 3). Go ahead? (yes/no)",
        "Order lunch (dish: soup for 3, people: 1). Go ahead? (yes/no)",
    ]
    assert (status, outcome) == ("ended", "failed")
    assert children == [("flow agent", "eat", "finished"), ("flow agent", "more", "cancelled")]


def test_a_cancel_of_the_constellation_reaches_the_conversation(folder: Path) -> None:
    async def scene() -> set[str]:
        async with asterism.open(folder / "runs.db", fleet=folder / "fleet.toml") as runtime:
            run = await begun(runtime, folder)
            await runtime.drive(run)
            await runtime.send(run, Cancel(reason="enough"), actor="ann")
            return {row.outcome for row in await runtime.runs()}

    assert asyncio.run(scene()) == {"cancelled"}


def test_its_profile_describes_the_agent(folder: Path) -> None:
    async def profile() -> Any:
        async with open_devices(folder / "fleet.toml", folder / "other.db") as (fleet, _):
            return fleet["canteen"]

    found = asyncio.run(profile())
    assert (found.kind, found.natural_language, found.description) == ("flow", True, "Order lunch")


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("flow_of_test.py:Nobody", r"flow_of_test\.py has no flow agent Nobody; an agent is a subclass of StandardAgent"),
        ("flow_of_test.py", r"has 2 agents; name one: flow_of_test\.py:Lunch"),
        ("gone.py:Lunch", r"there is no file gone\.py"),
    ],
)
def test_a_fleet_with_an_unknown_agent_is_one_error(folder: Path, named: str, why: str) -> None:
    async def opened() -> None:
        (folder / "fleet.toml").write_text(FLEET.replace("flow_of_test.py:Lunch", named), encoding="utf-8")
        async with open_devices(folder / "fleet.toml", folder / "other.db", every=True):
            pass

    with pytest.raises(InvalidInput, match=rf"devices\[0\] \(canteen\)\..*{why}"):
        asyncio.run(opened())
