"""Values of user code: the journal stores them, or an error names them; the process survives."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from asterism.loop.python import Finding, Handoff, Later, LoopResult, LoopView, OrchestrationLoop, Step

HALF = "\ud800"
"""A lone surrogate, as a file name may contain."""
PLAN = [{"step_id": "a", "worker": "w", "intent": "x"}]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"in": value}
    return value


async def work(handoff: Handoff) -> str:
    return "fine"


def run(**parts: Any) -> LoopResult:
    return asyncio.run(OrchestrationLoop(**({"plan": PLAN, "workers": {"w": work}} | parts)).run("x"))


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (nested(101), "the result of w: more than 100 lists and objects within each other"),
        (Finding(status="failed", reason=HALF), "a journal cannot hold it: 'utf-8' codec"),
        (Finding(feedback=5), "a journal cannot hold it: Expected `str`, got `int` - at `$.finding.feedback`"),  # type: ignore[arg-type]
        (Later(key=HALF), "a journal cannot hold it: 'utf-8' codec"),
        (OSError(f"no file {HALF}.txt"), r"OSError: no file \ud800.txt"),
    ],
)
def test_a_worker_with_an_invalid_result_fails_and_the_loop_continues(output: Any, reason: str) -> None:
    async def odd(handoff: Handoff) -> Any:
        if isinstance(output, Exception):
            raise output
        return output

    async def reflect(view: LoopView) -> str:
        return "continue"

    ended = run(workers={"w": odd}, reflect=reflect)
    assert (ended.state, ended.findings[0].status) == ("COMPLETE", "failed")
    assert str(ended.findings[0].reason).startswith(reason)


@pytest.mark.parametrize("part", ["plan", "reflect", "synthesize", "critique"])
def test_a_supervisor_with_an_invalid_result_fails_the_loop_by_name(part: str) -> None:
    async def odd(view: LoopView) -> Any:
        return [Step(worker="w", intent=HALF)] if part == "plan" else HALF

    ended = run(**{part: odd})
    assert ended.state == "FAILED"
    assert "failed 2 times (max_calls)" in ended.reason or "no plan can be had after 2 tries" in ended.reason


def test_a_plan_whose_context_is_too_deep_is_refused_by_its_step() -> None:
    async def plan(view: LoopView) -> Any:
        return [{"worker": "w", "intent": "x", "context": nested(101)}]

    assert "step 1 of the plan: its context: more than 100 lists and objects" in run(plan=plan).reason


def test_a_failed_worker_is_reported_with_its_line_and_its_trace_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fails(handoff: Handoff) -> Any:
        raise OSError("foggy")

    caplog.set_level("INFO", "asterism.loop.python")
    line = fails.__code__.co_firstlineno + 1
    assert run(workers={"w": fails}).findings[0].reason == f"OSError: foggy (test_json.py:{line})"
    assert f"line {line}, in fails" in caplog.text


@pytest.mark.parametrize("part", ["plan", "reflect", "synthesize", "critique"])
def test_a_failed_supervisor_is_reported_with_its_line(part: str) -> None:
    async def fails(view: LoopView) -> Any:
        raise OSError("foggy")

    assert "OSError: foggy (test_json.py:" in run(**{part: fails}).reason
