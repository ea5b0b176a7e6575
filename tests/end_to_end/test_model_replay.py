"""A run whose exchanges with its model are recorded over real HTTP, and that runs again from them without any model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from asterism.constellation.machine.events import Planned
from asterism.constellation.planner.model_choice import choose_model
from asterism.devices.port import Attempt
from asterism.engine.kernel.machine import kind_of
from asterism.errors import InvalidInput
from asterism.testing.model_wire import ModelRequest
from asterism.testing.scripted_model import DROP, HANG, Fault, ModelAnswer
from tests.support.http_runs import Lived, creating, edit, ended, live, plan

PLAN = plan("a", "b", lines=["a>b"])
ADD = edit(("add_task", {"task_id": "c", "name": "c", "device": "d"}), thought="one more")


def model(request: ModelRequest) -> ModelAnswer:
    return PLAN if creating(request) else ADD if ended(request) == ["a"] else edit()


def replayed(recording: Path, **more: Any) -> Lived:
    """The run again, with a model behind it that would fail the test if it were asked."""
    lived = live([], model=f"replay:{recording}", **more)
    assert lived.requests == []
    return lived


def told(lived: Lived) -> list[tuple[Any, ...]]:
    """What its journal says of its planning, without times and ids."""
    return [
        (it.thought, it.status, it.actions, it.reply, it.prompt, it.usage.input_tokens, it.usage.cost_usd, it.usage.requests, it.notes)
        for it in lived.events(Planned)
    ]


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return tmp_path / "exchanges.jsonl"


def test_a_recorded_run_runs_again_without_a_model_or_a_key(recording: Path, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = live(model, record=str(recording))
    assert len(recording.read_text(encoding="utf-8").splitlines()) == 1 + len(first.requests)
    monkeypatch.delenv("OPENAI_API_KEY")
    again = replayed(recording)
    assert (again.outcome, again.statuses()) == (first.outcome, first.statuses()) == ("finished", dict.fromkeys("abc", "COMPLETED"))
    assert told(again) == told(first)


def test_no_key_and_no_address_is_in_a_recording(recording: Path, key: str) -> None:
    async def work(attempt: Attempt) -> str:
        return f"my key is {key}"

    lived = live(model, work=work, record=str(recording))
    text = recording.read_text(encoding="utf-8")
    assert key not in text
    assert "127.0.0.1" not in text
    assert "authorization" not in text.lower()
    assert lived.outcome == "finished"


def test_what_went_wrong_on_the_way_goes_wrong_again_without_the_wait(recording: Path, key: str) -> None:
    script: list[ModelAnswer] = [Fault(status=500), {"thought": ""}, PLAN, HANG, Fault(status=500), edit()]
    first = live(script, record=str(recording), timeout_s=2, attempts=2)
    again = replayed(recording)
    assert [kind_of(it) for it in first.answers] == ["planned", "planning_failed", "planned"]
    assert told(again) == told(first)
    assert [getattr(it, "reason", "") for it in again.answers] == [getattr(it, "reason", "") for it in first.answers]
    assert again.lasted_s < first.lasted_s


def test_the_backup_answers_again_where_it_did(recording: Path, key: str) -> None:
    first = live(lambda _: DROP, backup=[PLAN, edit(), edit()], record=str(recording))
    again = replayed(recording)
    assert (again.outcome, told(again)) == ("finished", told(first))
    assert again.backup_requests == []


def test_a_run_that_asks_something_else_fails_and_names_the_exchange(recording: Path, key: str) -> None:
    live(model, record=str(recording))

    async def work(attempt: Attempt) -> str:
        return "another result"

    again = replayed(recording, work=work)
    assert (again.outcome, again.row.state) == ("failed", "FAIL")
    assert f"recording {recording}: exchange 2 does not match: it was recorded for" in again.reason
    assert "another result" in again.reason


def test_a_run_that_asks_for_more_than_was_recorded_fails_and_says_so(recording: Path, key: str) -> None:
    live(model, record=str(recording))
    lines = recording.read_text(encoding="utf-8").splitlines(keepends=True)
    recording.write_text("".join(lines[:-1]), encoding="utf-8")
    again = replayed(recording)
    assert again.outcome == "failed"
    assert "exchanges with openai:gpt-4o is left, and the run asks for one more" in again.reason


def test_a_recording_is_of_exchanges_in_words(recording: Path, key: str) -> None:
    live(model, record=str(recording))
    heading, first, *_ = [json.loads(line) for line in recording.read_text(encoding="utf-8").splitlines()]
    assert heading["exchanges_of"]["model"] == "openai:gpt-4o"
    assert (first["number"], first["model"], [role for role, _ in first["prompt"]]) == (
        1,
        "openai:gpt-4o",
        ["system-prompt", "user-prompt"],
    )


def test_a_recording_is_neither_recorded_nor_a_backup() -> None:
    with pytest.raises(InvalidInput, match="omit the backup model and the file to record"):
        choose_model(model="replay:x", record="y")
    with pytest.raises(InvalidInput, match="cannot be a backup"):
        choose_model(model="openai:gpt-4o", backup="replay:x")
