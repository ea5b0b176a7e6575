"""Recordings of exchanges with a model."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

from asterism.constellation.planner.model_choice import ModelChoice
from asterism.constellation.planner.recording import NotRecorded, Recorder, Recording, prompt_of, response_of
from asterism.errors import InvalidInput

KEY = "sk-0123456789"
GPT = "openai:gpt-4o"
CHOICE = ModelChoice(model=GPT, backup="anthropic:claude-test", base_url="http://localhost:1/v1", reprompts=2)


def prompt(text: str) -> list[ModelMessage]:
    return [ModelRequest(parts=[SystemPromptPart("You plan."), UserPromptPart(text)], run_id="r-1")]


def answer(text: str) -> ModelResponse:
    usage = RequestUsage(input_tokens=7, output_tokens=3)
    return ModelResponse(parts=[TextPart(text)], usage=usage, model_name="gpt-4o", provider_url="http://localhost:1/v1")


def recorder(path: Path) -> Recorder:
    return Recorder(path, CHOICE, lambda text: text.replace(KEY, "[key]"))


def recorded(folder: Path) -> Path:
    path = folder / "exchanges.jsonl"
    writing = recorder(path)
    writing.write(GPT, prompt("plan the launch"), answer("three tasks"))
    writing.write(GPT, prompt("what now?"), code="overloaded", reason="openai:gpt-4o: the provider is overloaded", requests=2)
    writing.write("anthropic:claude-test", prompt("what now?"), answer("go on"))
    return path


def test_a_recorded_answer_is_replayed_with_its_usage(tmp_path: Path) -> None:
    recording = Recording(recorded(tmp_path))
    response = response_of(recording.next_exchange(GPT, prompt("plan the launch")))
    assert response.parts == [TextPart("three tasks")]
    assert (response.usage.input_tokens, response.usage.output_tokens) == (7, 3)
    failed = recording.next_exchange(GPT, prompt("what now?"))
    assert (failed.response, failed.code, failed.requests) == (None, "overloaded", 2)
    assert failed.reason == "openai:gpt-4o: the provider is overloaded"
    assert response_of(recording.next_exchange("anthropic:claude-test", prompt("what now?"))).parts == [TextPart("go on")]


def test_a_recording_names_the_models_without_their_urls(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    assert Recording(path).choice == ModelChoice(model=GPT, backup="anthropic:claude-test", reprompts=2)
    assert "localhost" not in path.read_text(encoding="utf-8")


def test_only_the_user_may_read_a_recording(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        path = recorded(tmp_path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600


def test_no_key_is_written(tmp_path: Path) -> None:
    path = tmp_path / "exchanges.jsonl"
    recorder(path).write(GPT, prompt(f"my key is {KEY}"), answer(f"so it is {KEY}"))
    text = path.read_text(encoding="utf-8")
    assert KEY not in text
    assert text.count("[key]") == 2


def test_an_exchange_is_found_by_its_prompt_whatever_the_order_and_answers_once(tmp_path: Path) -> None:
    recording = Recording(recorded(tmp_path))
    assert recording.next_exchange("anthropic:claude-test", prompt("what now?")).number == 3
    assert recording.next_exchange(GPT, prompt("plan the launch")).number == 1
    with pytest.raises(NotRecorded):
        recording.next_exchange(GPT, prompt("plan the launch"))


def test_an_unrecorded_prompt_is_reported_with_the_expected_exchange(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    with pytest.raises(NotRecorded) as told:
        Recording(path).next_exchange(GPT, prompt("plan the lunch"))
    assert str(told.value) == (
        f"recording {path}: exchange 1 does not match: it was recorded for 'plan the launch', and the run asks 'plan the lunch'"
    )


def test_a_prompt_longer_than_the_recorded_one_does_not_match(tmp_path: Path) -> None:
    with pytest.raises(NotRecorded, match=r"exchange 1 does not match: it was recorded for '\(nothing\)', and the run asks 'quickly'"):
        Recording(recorded(tmp_path)).next_exchange(GPT, prompt("plan the launch\nquickly"))


def test_a_used_up_recording_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NotRecorded, match="none of its 3 exchanges with openai:other is left, and the run asks for one more"):
        Recording(recorded(tmp_path)).next_exchange("openai:other", prompt("plan the launch"))


def test_times_and_ids_make_no_difference_but_calls_and_reprompts_do() -> None:
    def messages(run_id: str, call: str, told: str) -> list[ModelMessage]:
        return [
            ModelRequest(parts=[UserPromptPart("plan")], run_id=run_id, instructions="Be brief."),
            ModelResponse(parts=[ToolCallPart("final_result", {"a": 1}, tool_call_id=call)]),
            ModelRequest(parts=[ToolReturnPart("final_result", told, call, outcome="retried")]),
        ]

    assert prompt_of(messages("r-1", "c-1", "no such device")) == prompt_of(messages("r-2", "c-2", "no such device"))
    assert prompt_of(messages("r-1", "c-1", "no such device")) != prompt_of(messages("r-1", "c-1", "no such skill"))
    assert ("instructions", "Be brief.") in prompt_of(messages("r-1", "c-1", ""))


def test_a_recording_is_continued_without_its_cut_off_line(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    with path.open("ab") as file:
        file.write(b'{"number":4,"model":"openai:g')
    assert len(Recording(path).exchanges) == 3
    recorder(path).write(GPT, prompt("more"), answer("less"))
    assert [exchange.number for exchange in Recording(path).exchanges] == [1, 2, 3, 4]


def test_a_file_that_is_no_recording_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear Ada,\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match="not a file that --record has written"):
        recorder(path)
    with pytest.raises(InvalidInput, match="not a file that --record has written"):
        Recording(path)
    assert path.read_text(encoding="utf-8") == "Dear Ada,\n"


def test_a_file_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        Recording(tmp_path / "none.jsonl")
    with pytest.raises(InvalidInput, match="there is no folder"):
        recorder(tmp_path / "none" / "exchanges.jsonl")
