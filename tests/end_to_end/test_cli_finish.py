"""I1: a model that says FINISH over a failed task, on the command line, with real processes before a model by a script."""

from __future__ import annotations

import asyncio
import json

import pytest

from asterism.testing.model_wire import ModelRequest
from asterism.testing.scripted_model import ModelAnswer, ScriptedModel
from tests.end_to_end.desk import Desk
from tests.support.http_runs import edit

PLAN = {
    "tasks": [{"task_id": "a", "device": "desk", "skill": "fail"}],
    "on_failure": [{"task_id": "alert", "device": "desk", "skill": "measure", "inputs": {"accuracy": 0.1}}],
}


def finish(request: ModelRequest) -> ModelAnswer:
    """The reply of the shipped example, whatever has ended."""
    return edit(status="FINISH", thought="All tasks completed successfully.", result={"summary": "all done"})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "ended", "performed", "requests"),
    [([], (1, "failed"), ["alert"], 4), (["--accept-failed"], (0, "finished"), [], 1)],
    ids=["by default", "accepted"],
)
def test_a_model_finishes_a_run_over_a_failed_task_only_if_its_user_accepts_that(
    desk: Desk, flags: list[str], ended: tuple[int, str], performed: list[str], requests: int
) -> None:
    plan = desk.folder / "plan.json"
    plan.write_text(json.dumps(PLAN), encoding="utf-8")

    async def story() -> tuple[int | None, str, int]:
        async with ScriptedModel(finish) as scripted:
            process = await asyncio.create_subprocess_exec(
                *desk.argv("run", plan, "--fleet", desk.fleet, "--model", "openai:gpt-4o", *flags),
                env={**desk.environment(), "OPENAI_API_KEY": "sk-test-0123456789", "ASTERISM_MODEL_BASE_URL": scripted.openai_url},
                stdout=asyncio.subprocess.PIPE,
            )
            out, _ = await process.communicate()
            return process.returncode, out.decode(), len(scripted.requests)

    returncode, said, asked = asyncio.run(story())
    assert (returncode, desk.runs()[0]["outcome"], asked) == (*ended, requests), said
    assert desk.performed() == performed
    assert ("a (fail) is FAILED" in said) is (ended[0] == 1)
