"""User code that does what it should not: the run goes on, or says by name why not; nothing hangs, and nothing brings the process down."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from asterism.errors import InvalidInput
from asterism.loops import Handoff, LoopOptions, LoopResult, LoopView, OrchestrationLoop

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
        async with asyncio.timeout(5):
            return await loop.run("x", **more)

    return asyncio.run(scene())


@pytest.mark.parametrize("worker", [waits_for_what_was_cancelled, exits])
def test_of_a_worker_that_was_cancelled_or_left_a_person_is_asked(worker: Any) -> None:
    result = ended(OrchestrationLoop(plan=PLAN, workers={"w": worker}))
    assert result.state == "WAITING"
    assert "may have finished" in result.waiting[0].prompt


@pytest.mark.parametrize("synthesize", [waits_for_what_was_cancelled, exits])
def test_a_supervising_function_that_was_cancelled_or_left_has_failed(synthesize: Any) -> None:
    result = ended(OrchestrationLoop(plan=PLAN, workers={"w": works}, synthesize=synthesize))
    assert result.state == "FAILED"
    assert result.reason.startswith("synthesis failed 2 times")


@pytest.mark.parametrize("name", ["wall_limit_s", "inquiry_timeout_s"])
@pytest.mark.parametrize("limit", [math.inf, math.nan, -1.0, "soon"])
def test_a_limit_that_is_no_number_begins_no_run(name: str, limit: Any) -> None:
    loop = OrchestrationLoop(plan=PLAN, workers={"w": works}, options=LoopOptions(**{name: limit}))
    with pytest.raises(InvalidInput, match="is to begin with cannot be used"):
        ended(loop)


@pytest.mark.parametrize("context", [{"a": object()}, {"a": "\ud800"}, {"a": math.nan}])
def test_a_context_that_is_not_json_begins_no_run(context: Any) -> None:
    async def plan(view: LoopView) -> Any:
        return PLAN

    with pytest.raises(InvalidInput, match="is to begin with cannot be used"):
        ended(OrchestrationLoop(plan=plan, workers={"w": works}), context=context)
