"""Misbehaving user code: the run continues or names the reason; nothing hangs or crashes."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from asterism.engine.kernel.run import Run
from asterism.engine.runtime.resources import open_resources
from asterism.errors import InvalidInput
from asterism.loop.machine.effects import CallTool
from asterism.loop.machine.memory import LoopMemory
from asterism.loop.machine.model import WorkerProfile
from asterism.loop.machine.table import ORCHESTRATION_LOOP
from asterism.loop.python import Handoff, LoopOptions, LoopResult, LoopView, ModelWorker, OrchestrationLoop, Worker, tool
from asterism.loop.python.performers import loop_performers
from tests.unit.loop.python.test_tools import Script, run

PLAN = [{"step_id": "a", "worker": "w", "intent": "x"}]


async def waits_for_what_was_cancelled(_: Any) -> None:
    other = asyncio.ensure_future(asyncio.sleep(9))
    other.cancel()
    await other


async def exits(_: Any) -> None:
    raise SystemExit(3)


async def works(_: Handoff) -> str:
    return "found"


def ended(loop: OrchestrationLoop, **more: Any) -> LoopResult:
    async def scene() -> LoopResult:
        async with asyncio.timeout(30):
            return await loop.run("x", **more)

    return asyncio.run(scene())


@pytest.mark.parametrize("worker", [waits_for_what_was_cancelled, exits])
def test_a_person_is_asked_about_a_worker_that_was_cancelled_or_abandoned(worker: Any) -> None:
    result = ended(OrchestrationLoop(plan=PLAN, workers={"w": worker}))
    assert result.state == "WAITING"
    assert "may have finished" in result.waiting[0].prompt


@pytest.mark.parametrize("synthesize", [waits_for_what_was_cancelled, exits])
def test_a_supervising_function_that_was_cancelled_or_abandoned_has_failed(synthesize: Any) -> None:
    result = ended(OrchestrationLoop(plan=PLAN, workers={"w": works}, synthesize=synthesize))
    assert result.state == "FAILED"
    assert result.reason.startswith("synthesis failed 2 times")


@pytest.mark.parametrize("name", ["wall_limit_s", "inquiry_timeout_s"])
@pytest.mark.parametrize("limit", [math.inf, math.nan, -1.0, "soon"])
def test_an_invalid_limit_starts_no_run(name: str, limit: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^options: |cannot start this"):
        ended(OrchestrationLoop(plan=PLAN, workers={"w": works}, options=LoopOptions(**{name: limit})))


@pytest.mark.parametrize("context", [{"a": object()}, {"a": "\ud800"}, {"a": math.nan}])
def test_a_context_that_is_not_json_starts_no_run(context: Any) -> None:
    async def plan(view: LoopView) -> Any:
        return PLAN

    with pytest.raises(InvalidInput, match="cannot start this"):
        ended(OrchestrationLoop(plan=plan, workers={"w": works}), context=context)


def test_no_worker_may_have_the_name_of_the_person() -> None:
    with pytest.raises(InvalidInput, match="'user' is the name of the person"):
        OrchestrationLoop(plan=PLAN, workers={"user": works})


def test_a_run_is_not_resumed_by_a_loop_that_now_requires_approval() -> None:
    async def scene() -> None:
        before = OrchestrationLoop(plan=PLAN, workers={"w": works}, definition="m:loop")
        run = await before.submit("x")
        now = OrchestrationLoop(plan=PLAN, workers={"w": Worker(works, requires_approval=True)}, definition="m:loop")
        await now.resume(run)

    with pytest.raises(InvalidInput, match=r"worker w now requires approval, but run .* was started before that"):
        asyncio.run(scene())


def called(memory: LoopMemory, *, confirmed: bool) -> Any:
    effect = CallTool(step_id="a", worker="m", call_id="c", tool="pay", arguments={}, confirmed=confirmed)
    run = Run(ORCHESTRATION_LOOP, "r")
    run.memory, run.outstanding = memory, {"r:1.0": effect}
    loop = OrchestrationLoop(
        plan=[{"worker": "m", "intent": "x"}], workers={"m": ModelWorker("x", "y", tools=[tool(pay, gate="destructive")])}
    )

    async def scene() -> Any:
        async with open_resources() as keeper:
            caller = loop_performers(lambda name, folder: loop, keeper)[CallTool]
            return (await caller.perform("r:1.0", run.request("r:1.0"), lambda _: None)).result  # type: ignore[attr-defined]

    return asyncio.run(scene())


def pay() -> str:
    return "paid"


def test_a_call_that_now_requires_approval_is_not_made_without_it() -> None:
    memory = LoopMemory(workers={"m": WorkerProfile(name="m", converses=True)})
    assert called(memory, confirmed=False)["status"] == "denied"
    assert called(memory, confirmed=True) == "paid"
    memory.trusted["m:pay"] = None
    assert called(memory, confirmed=False) == "paid"


def test_a_bounded_number_of_calls_of_one_reply_is_made() -> None:
    made: list[int] = []

    def count(number: int) -> int:
        made.append(number)
        return number

    class Many(Script):
        async def _reply(self, messages: Any, info: Any) -> Any:
            said: Any = await super()._reply(messages, info)
            return type(said)(parts=said.parts * 150) if len(messages) == 1 else said

    assert run(Many({"count": {"number": 1}}, "done"), count).state == "COMPLETE"
    assert len(made) == 100
