"""``--record`` and ``--model replay:`` on the command line, with real processes before a model by a script."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from asterism.testing.model_wire import ModelRequest
from asterism.testing.scripted_model import ModelAnswer, ScriptedModel
from tests.end_to_end.desk import Desk
from tests.support.http_runs import creating, edit

REQUEST = "measure the text"
MEASURE = {"task_id": "t1", "name": "measure", "device": "desk", "inputs": {"accuracy": 0.9}}


def model(request: ModelRequest) -> ModelAnswer:
    if creating(request):
        return {"thought": "one task will do", "status": "CONTINUE", "constellation": {"tasks": [MEASURE]}}
    return edit(status="FINISH", result={"summary": "measured"})


def recorded(desk: Desk, recording: Path) -> str:
    """What a run says that is recorded, its model a script."""

    async def story() -> str:
        async with ScriptedModel(model) as scripted:
            process = await asyncio.create_subprocess_exec(
                *desk.argv("run", REQUEST, "--fleet", desk.fleet, "--model", "openai:gpt-4o", "--record", recording),
                env={**desk.environment(), "OPENAI_API_KEY": "sk-test-0123456789", "ASTERISM_MODEL_BASE_URL": scripted.openai_url},
                stdout=asyncio.subprocess.PIPE,
            )
            out, _ = await process.communicate()
            assert process.returncode == 0
            assert len(scripted.requests) == 2
            return out.decode()

    return asyncio.run(story())


@pytest.mark.slow
def test_a_recorded_run_runs_again_without_key_or_network_and_another_request_names_the_exchange(desk: Desk) -> None:
    recording = desk.folder / "exchanges.jsonl"
    assert "measured" in recorded(desk, recording)
    assert "sk-test" not in recording.read_text(encoding="utf-8")
    replay: list[str | Path] = ["--fleet", desk.fleet, "--model", "replay:exchanges.jsonl"]
    said = desk.do("run", REQUEST, *replay, cwd=desk.folder).stdout
    assert "planned 1 task" in said
    assert "measured" in said
    said = desk.do("run", "measure the book", *replay, code=1, cwd=desk.folder).stdout
    assert "exchange 1 does not match: it was recorded for 'measure the text', and the run asks 'measure the book'" in said


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--record", "new.jsonl"], "--record records the replies of a model; name one with --model"),
        (["--model", "openai:gpt-4o", "--record", "fleet.toml"], "--record fleet.toml: the file exists already"),
        (["--model", "openai:gpt-4o", "--record", "no/new.jsonl"], "there is no folder no"),
        (["--model", "replay:none.jsonl"], "No such file"),
        (["--model", "replay:fleet.toml"], "not a file that --record has written"),
        (["--model", "replay:fleet.toml", "--record", "new.jsonl"], "omit the backup model and the file to record"),
        (["--model", "replay:fleet.toml", "--backup-model", "openai:gpt-4o"], "a recording already has the replies of the backup model"),
    ],
)
def test_a_recording_that_cannot_be_meant_is_refused(desk: Desk, options: list[str], told: str) -> None:
    complaint = desk.do("run", REQUEST, "--fleet", desk.fleet, *options, code=2, cwd=desk.folder).stderr
    assert told in complaint
    assert complaint.count("\n") == 1
    assert not desk.database.exists()
    assert not (desk.folder / "new.jsonl").exists()
