"""Loops whose models are asked over real HTTP, by the real client, of a model by a script."""

from __future__ import annotations

import asyncio

import pytest

from asterism.constellation.planner.model_choice import ModelChoice
from asterism.loop.python import LoopResult, ModelWorker, OrchestrationLoop
from asterism.testing.model_wire import Say
from asterism.testing.scripted_model import Fault, ScriptedModel


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def loop_over(url: str) -> OrchestrationLoop:
    model = ModelChoice(model="openai:gpt-4o", base_url=url, attempts=2, backoff_s=0.01)
    small = ModelChoice(model="openai:gpt-4o-mini", base_url=url)
    worker = ModelWorker(model, "You calculate.", tools=[double])
    return OrchestrationLoop(plan=[{"worker": "m", "intent": "double 21"}], workers={"m": worker}, reflect=small, synthesize=model)


async def run(*script: Say | Fault) -> tuple[LoopResult, ScriptedModel]:
    async with ScriptedModel(list(script)) as model:
        return await loop_over(model.openai_url).run("what is twice 21?"), model


def test_a_loop_of_models_calls_tools_reflects_and_answers_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    ended, model = asyncio.run(run(Say(calls=(("double", {"number": 21}),)), Say(text="42"), Say(text="Done."), Say(text="It is 42.")))
    assert (ended.state, ended.answer) == ("COMPLETE", "It is 42.")
    assert [(request.model, request.tools) for request in model.requests] == [
        ("gpt-4o", ["double"]),
        ("gpt-4o", ["double"]),
        ("gpt-4o-mini", []),
        ("gpt-4o", []),
    ]


def test_a_worker_that_is_a_model_is_told_its_handoff_and_nothing_of_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    _, model = asyncio.run(run(Say(text="42"), Say(text="done"), Say(text="It is 42.")))
    worker, reflection, _ = model.requests
    assert "double 21" in worker.text
    assert "what is twice 21?" not in worker.text
    assert "what is twice 21?" in reflection.text


def test_a_model_that_fails_for_a_moment_is_asked_again_and_the_step_does_not_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    ended, model = asyncio.run(run(Fault(status=503), Say(text="42"), Say(text="done"), Say(text="42!")))
    assert (ended.answer, [finding.status for finding in ended.findings], len(model.requests)) == ("42!", ["ok"], 4)


def test_a_model_that_cannot_be_had_fails_its_step_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    ended, _ = asyncio.run(run(Fault(status=401), Say(text="fail")))
    assert (ended.state, ended.findings[0].status) == ("FAILED", "failed")
    assert "openai:gpt-4o: the provider does not accept the key" in ended.reason


def test_models_that_are_only_named_are_found_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> LoopResult:
        async with ScriptedModel(["42", "done", "It is 42."]) as model:
            monkeypatch.setenv("ASTERISM_MODEL_BASE_URL", model.openai_url)
            steps, worker = [{"worker": "m", "intent": "double 21"}], ModelWorker("openai:gpt-4o", "You calculate.")
            loop = OrchestrationLoop(plan=steps, workers={"m": worker}, reflect="openai:gpt-4o", synthesize="openai:gpt-4o")
            return await loop.run("what is twice 21?")

    monkeypatch.setenv("OPENAI_API_KEY", "any")
    assert asyncio.run(story()).answer == "It is 42."


def test_a_key_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    loop = OrchestrationLoop(plan="openai:gpt-4o", workers={"m": ModelWorker("openai:gpt-4o", "You calculate.")})
    ended = asyncio.run(loop.run("x"))
    assert "model openai:gpt-4o needs a key: set OPENAI_API_KEY" in ended.reason
