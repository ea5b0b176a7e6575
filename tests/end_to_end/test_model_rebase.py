"""An edit over real HTTP that comes too late: what it is about has started while the model thought."""

from __future__ import annotations

import asyncio

import pytest

from asterism.constellation.machine.events import Dispatch, PlanningFailed, RunOptions
from asterism.devices.port import Attempt
from asterism.testing.model_wire import ModelRequest
from asterism.testing.scripted_model import Answering, ModelAnswer
from tests.support.constellation_harness import refusal_in
from tests.support.http_runs import Lived, Watch, creating, edit, live, plan

pytestmark = pytest.mark.usefixtures("key")

PLAN = plan("a", "x", "y", "z", lines=["x>y", "y>z"])
TOO_LATE = edit(("add_task", {"task_id": "extra", "device": "d"}), ("update_task", {"task_id": "y", "description": "otherwise"}))
IN_TIME = edit(("update_task", {"task_id": "z", "description": "otherwise"}), thought="then z")


def run(*answers: ModelAnswer) -> Lived:
    """``a`` ends and is asked about; before the model answers that, ``x`` has ended and ``y`` has started. Then it answers in turn."""
    asked = asyncio.Event()
    watches: list[Watch] = []
    left = list(answers)

    async def work(attempt: Attempt) -> str:
        if attempt.task_id == "x":
            await asked.wait()
        if attempt.task_id == "y":
            await watches[0].answered(3)  # the constellation, what comes too late, and what comes of that
        return "done"

    def scripted(watch: Watch) -> Answering:
        watches.append(watch)

        async def script(request: ModelRequest) -> ModelAnswer:
            if creating(request):
                return PLAN
            asked.set()
            await watch.started("y")
            return left.pop(0) if left else edit()

        return script

    return live(scripted=scripted, work=work, options=RunOptions(replan="always", hold="none"))


def test_nothing_of_an_edit_that_comes_too_late_is_applied_and_the_next_one_is() -> None:
    lived = run(TOO_LATE, IN_TIME)
    assert lived.outcome == "finished"
    assert lived.statuses() == dict.fromkeys("axyz", "COMPLETED")
    assert lived.task("z").description == "otherwise"
    assert lived.task("y").description == ""
    dispatched = {effect.task_id: effect for entry in lived.entries for effect in entry.effects if isinstance(effect, Dispatch)}
    assert dispatched["y"].description == "y"
    assert dispatched["z"].description == "otherwise"
    assert lived.performed() == dict.fromkeys("axyz", 1)


def test_the_model_is_told_why_and_what_has_changed_meanwhile() -> None:
    lived = run(TOO_LATE, IN_TIME)
    again = next(request for request in lived.requests if "# Why your last answer could not be taken" in request.text)
    told = again.text.split("# Why your last answer could not be taken")[1]
    assert "y: it is RUNNING" in told
    assert "Nothing of this batch was applied" in told
    shown = again.text.split("# Constellation\n")[1].split("</device_output>")[0]
    assert '"task_id": "y"' in shown
    assert '"status": "RUNNING"' in shown
    assert "extra" not in shown
    refused = [question for question in lived.questions if question.feedback]
    assert [refusal_in(question).code for question in refused] == ["read_only"]


def test_a_model_that_never_is_in_time_is_dropped_in_bounded_questions() -> None:
    lived = run(*[TOO_LATE] * 5)
    assert lived.outcome == "finished"
    assert lived.statuses() == dict.fromkeys("axyz", "COMPLETED")
    assert lived.performed() == dict.fromkeys("axyz", 1)
    (dropped,) = lived.events(PlanningFailed)
    assert dropped.code == "read_only"
    assert "no usable reply in 4 attempts: actions[1] y: it is RUNNING" in dropped.reason
