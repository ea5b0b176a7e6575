"""The story the project began with, over real HTTP: four tasks, an accuracy that is too low, an edit, an end."""

from __future__ import annotations

import json
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from asterism.constellation.machine.events import AskPlanner, Planned
from asterism.constellation.planner import processor
from asterism.devices.port import Attempt
from asterism.testing.model_wire import Say
from tests.support.constellations import seed
from tests.support.http_runs import SEED_FLEET, Lived, edit, ended, live, one_by_one

pytestmark = pytest.mark.usefixtures("key")

CREATED, EDITED = seed("creation"), seed("editing")
FINISHED = edit(status="FINISH", thought="All tasks completed successfully.", result={"summary": "retrained, not deployed"})


def said(reply: dict[str, Any], *, input_tokens: int) -> Say:
    """As models like to: in a fence, with words around it."""
    return Say(text=f"Here it is:\n```json\n{json.dumps(reply, indent=2)}\n```", input_tokens=input_tokens, output_tokens=200)


async def work(attempt: Attempt) -> Any:
    return {"accuracy": 0.92} if attempt.skill == "evaluate" else {"done": attempt.skill}


def story(**choice: Any) -> Lived:
    return live(
        one_by_one(creation=said(CREATED, input_tokens=1000), task_003=said(EDITED, input_tokens=1500), task_005=FINISHED),
        fleet=SEED_FLEET,
        work=work,
        **choice,
    )


def test_the_whole_story_is_told_by_its_journal() -> None:
    lived = story()
    assert (lived.outcome, lived.row.state) == ("finished", "FINISH")
    assert lived.statuses() == dict.fromkeys(("task_001", "task_002", "task_003", "task_005"), "COMPLETED")
    assert list(lived.memory.constellation.lines) == ["task_001->task_002", "task_002->task_003", "task_003->task_005"]
    assert lived.performed() == {"task_001": 1, "task_002": 1, "task_003": 1, "task_005": 1}
    assert lived.memory.summary == {"summary": "retrained, not deployed"}

    assert [question.batch for question in lived.questions] == [(), ("task_001",), ("task_002",), ("task_003",), ("task_005",)]
    created, _, _, edited, finished = lived.events(Planned)
    assert created.thought == CREATED["thought"]
    assert edited.thought == EDITED["thought"]
    assert [action["tool"] for action in edited.actions] == ["add_task", "add_dependency", "remove_task"]
    assert (created.usage.input_tokens, edited.usage.input_tokens, edited.usage.output_tokens) == (1000, 1500, 200)
    assert edited.usage.cost_usd == pytest.approx(1500 * 2.5e-6 + 200 * 10e-6)
    assert json.loads(edited.reply[edited.reply.index("{") : edited.reply.rindex("}") + 1]) == EDITED
    assert "0.92" in edited.prompt
    assert finished.status == "FINISH"


@pytest.mark.parametrize(
    ("model", "wire", "variable"),
    [
        ("openai:gpt-4o", "chat", "OPENAI_API_KEY"),
        ("anthropic:claude-sonnet-5", "messages", "ANTHROPIC_API_KEY"),
        ("ollama:llama4", "chat", "OLLAMA_API_KEY"),
    ],
)
def test_it_is_the_same_story_whoever_the_provider_is(monkeypatch: pytest.MonkeyPatch, model: str, wire: str, variable: str) -> None:
    monkeypatch.setenv(variable, "sk-test-0123456789abcdef")
    lived = story(model=model)
    assert (lived.outcome, len(lived.requests)) == ("finished", 5)
    assert {(request.wire, request.model) for request in lived.requests} == {(wire, model.partition(":")[2])}
    edited = lived.events(Planned)[3]
    assert (edited.thought, edited.usage.model, edited.usage.input_tokens) == (EDITED["thought"], model, 1500)
    assert "sk-test" not in lived.journal


def test_the_states_are_those_of_the_story() -> None:
    states = [entry.state for entry in story().entries]
    assert [state for at, state in enumerate(states) if at == 0 or states[at - 1] != state] == ["START", "CONTINUE", "FINISH"]


def test_the_model_sees_what_it_needs_in_both_modes() -> None:
    lived = story()
    creation, _, _, editing, _ = [request.messages for request in lived.requests]
    assert "Now: CREATION." in creation[0]
    assert all(f'"{device}"' in creation[1] for device in ("laptop", "gpu_server", "test_server", "prod_server"))
    assert "Now: EDITING." in editing[0]
    assert ended(lived.requests[3]) == ["task_003"]
    assert "Weave it" in editing[1]


def test_each_of_the_four_phases_is_a_span(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(processor, "_tracer", provider.get_tracer("test"))
    lived = story()
    names = [span.name.split()[-1] for span in exporter.get_finished_spans()]
    assert names == ["context_provision", "llm_interaction", "action_execution", "memory_update"] * len(lived.events(Planned))
    assert "0.92" not in str([dict(span.attributes or {}) for span in exporter.get_finished_spans()])


def test_each_question_names_the_version_that_its_answer_is_written_against() -> None:
    lived = story()
    asked = [effect.base_version for entry in lived.entries for effect in entry.effects if isinstance(effect, AskPlanner)]
    assert asked == sorted(asked)
    assert asked[-1] > asked[1]
