"""The status of runs, without driving them; simulations test the driving."""

from __future__ import annotations

from typing import Any

import msgspec

from asterism.engine.control.run_control import AskPerson, Cancel, Pause
from asterism.engine.runtime.run_status import opened_inquiries, status_of
from tests.support.constellation_harness import Agent
from tests.support.constellations import plan


def asking(**options: Any) -> Agent:
    return Agent({"tasks": [{"task_id": "a", "device": "d", "inputs": {"x": 1}, "requires_approval": True}]}, **options)


def test_a_run_that_works_is_active() -> None:
    assert status_of(Agent().run) == "active"
    assert status_of(Agent(plan("a")).run) == "active"


def test_a_run_that_only_people_can_advance_is_waiting() -> None:
    assert status_of(asking().run) == "waiting"


def test_a_run_with_a_question_and_work_is_active() -> None:
    agent = Agent({"tasks": [{"task_id": "a", "device": "d", "requires_approval": True}, {"task_id": "b", "device": "d"}]})
    assert status_of(agent.run) == "active"
    agent.ends("b")
    assert status_of(agent.run) == "waiting"


def test_a_run_with_a_question_and_a_backoff_is_active() -> None:
    agent = Agent(
        {
            "tasks": [
                {"task_id": "a", "device": "d", "requires_approval": True},
                {"task_id": "b", "device": "d", "retry": {"max_attempts": 2}},
            ]
        }
    )
    agent.ends("b", error="raised")
    assert status_of(agent.run) == "active"


def test_a_paused_run_has_status_paused() -> None:
    agent = asking()
    agent.take(Pause())
    assert status_of(agent.run) == "paused"


def test_a_run_has_ended_when_nothing_is_outstanding() -> None:
    agent = Agent(plan("a"))
    agent.take(Cancel())
    assert status_of(agent.run) == "active"
    agent.finish_cancellations()
    assert status_of(agent.run) == "ended"


def test_an_entry_opens_the_inquiries_that_it_asks() -> None:
    agent = asking(inquiry_timeout_s=30)
    rows = [row for entry in agent.entries for row in opened_inquiries(entry)]
    ((inquiry, ask),) = agent.outstanding(AskPerson).items()
    (row,) = rows
    assert (row.inquiry_id, row.run_id, row.prompt, row.verbs, row.risk) == (
        inquiry,
        "r",
        ask.prompt,
        ("approve", "edit", "reject"),
        "high",
    )
    assert (row.asked_at, row.expires_at) == (1000.0, 1030.0)
    assert msgspec.json.decode(row.subject) == {"task_id": "a", "device": "d", "arguments": {"x": 1}}
