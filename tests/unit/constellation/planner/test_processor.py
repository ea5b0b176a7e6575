"""The planner with a model: its phases, its retries, and the end after bad replies."""

from __future__ import annotations

import dataclasses
import json
import logging
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import exceptions as trouble
from pydantic_ai.messages import ModelResponse, ToolCallPart

import asterism
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.documents import parse_plan
from asterism.constellation.model.task import TaskStatus
from asterism.constellation.planner import processor
from asterism.constellation.planner.model_conversation import ModelConversation
from asterism.constellation.planner.port import PlannerRequest, PlanningUnavailable, Proposal
from asterism.constellation.planner.processor import (
    ConstellationAgentProcessor,
    ConstellationProcessorContext,
    ConstellationStrategyFactory,
    ContextNames,
    ProcessingPhase,
    run_phase,
    update_memory,
)
from asterism.constellation.planner.prompter import ConstellationPrompterFactory
from asterism.engine.control.usage import Usage
from asterism.engine.kernel.profile import AgentProfile
from asterism.testing import loop
from tests.support.constellation_harness import FLEET
from tests.support.constellations import SEVEN, action, constellation, plan, seed
from tests.support.fake_models import FakeModel, access

PROFILES = {profile.device_id: profile for profile in FLEET}
CREATED = {"thought": "two", "status": "CONTINUE", "constellation": plan("a b", "a>b")}


def edited(*actions: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"thought": "because", "status": "CONTINUE", "actions": list(actions), **fields}


def creation(**fields: Any) -> PlannerRequest:
    return PlannerRequest(**{"key": "r:1.0", "mode": "CREATION", "request": "make it so", "fleet": PROFILES, **fields})


def editing(it: TaskConstellation | None = None, **fields: Any) -> PlannerRequest:
    if it is None:
        it = constellation("a b", "a>b")
        it.tasks["a"].status = TaskStatus.COMPLETED
    return creation(mode="EDITING", constellation=it.to_dict(), batch=("a",), **fields)


def propose(question: PlannerRequest, *models: FakeModel, **choice: Any) -> Proposal:
    return loop.run(ConstellationAgentProcessor(access(*models, **choice)).propose(question))


def in_vain(question: PlannerRequest, *models: FakeModel, **choice: Any) -> PlanningUnavailable:
    with pytest.raises(PlanningUnavailable) as caught:
        propose(question, *models, **choice)
    return caught.value


# -- good replies -------------------------------------------------------------------------------------------


def test_a_plan_is_proposed_with_its_usage_and_exchange() -> None:
    told = FakeModel({**CREATED, "observation": "o", "result": {"summary": "s"}})
    found = propose(creation(), told)
    assert (found.thought, found.observation, found.status, found.result) == ("two", "o", "CONTINUE", {"summary": "s"})
    assert found.plan == parse_plan(CREATED)
    assert found.actions == ()
    assert found.usage == Usage(model="openai:first", requests=1, input_tokens=100, output_tokens=20)
    assert "make it so" in found.prompt
    assert json.loads(found.reply)["thought"] == "two"
    assert found.notes == ()


@pytest.mark.parametrize("parameters", [plan("a"), {**plan("a"), "clear": True}, {"config": plan("a")}])
def test_a_plan_may_be_given_as_a_build_action(parameters: dict[str, Any]) -> None:
    found = propose(creation(), FakeModel(edited(action("build_constellation", **parameters))))
    assert found.plan == parse_plan(plan("a"))
    assert found.actions == ()


def test_edits_are_proposed_as_they_were_written() -> None:
    actions = [action("add_task", task_id="c", device="d"), action("add_dependency", from_="a", to="c"), action("remove_task", task_id="b")]
    found = propose(editing(), FakeModel(edited(*actions, status="CONTINUE")))
    assert found.actions == tuple(actions)
    assert found.plan is None


def test_references_of_a_new_task_may_precede_its_dependency() -> None:
    actions = [
        action("add_task", task_id="c", device="s", skill="once", inputs={"x": "${a.y}"}),
        action("add_dependency", from_="a", to="c"),
    ]
    assert len(propose(editing(), FakeModel(edited(*actions))).actions) == 2


def test_a_constellation_in_editing_is_merged() -> None:
    found = propose(editing(), FakeModel({"thought": "t", "status": "CONTINUE", "constellation": plan("c")}))
    assert found.plan == parse_plan(plan("c"))


@pytest.mark.parametrize("status", ["START", "CONTINUE", "FINISH", "FAIL"])
def test_a_status_alone_is_proposed(status: str) -> None:
    found = propose(editing(), FakeModel({"thought": "t", "status": status}))
    assert (found.status, found.actions, found.plan) == (status, (), None)


def test_giving_up_in_creation_needs_no_plan() -> None:
    found = propose(creation(), FakeModel({"thought": "nobody can", "status": "FAIL"}))
    assert (found.status, found.thought, found.plan) == ("FAIL", "nobody can", None)


def test_a_proposal_changes_nothing() -> None:
    it = constellation("a b", "a>b")
    before = it.to_dict()
    propose(editing(it), FakeModel(edited(action("remove_task", task_id="b"))))
    assert it.to_dict() == before


# -- bad replies -------------------------------------------------------------------------------------------------


CYCLE = {"thought": "t", "status": "CONTINUE", "constellation": plan("a b", "a>b b>a")}
NO_DEVICE = {"thought": "t", "status": "CONTINUE", "constellation": {"tasks": [{"task_id": "a", "device": "mars"}]}}


@pytest.mark.parametrize(
    ("bad", "told_as"),
    [
        ("", "the reply is empty"),
        ('{"thought": "x', "broken or cut off"),
        ({"status": "CONTINUE"}, "missing 'thought'"),
        ({"thought": "x"}, "missing 'status'"),
        ({"thought": "x", "status": "MAYBE"}, "unknown status 'MAYBE'"),
        ({"thought": "x", "status": "CONTINUE"}, "missing 'constellation'"),
        (edited(action("run_shell", command="rm")), "unknown tool 'run_shell'"),
        (CYCLE, "a -> b -> a"),
        (NO_DEVICE, "unknown device 'mars'"),
    ],
)
def test_a_refused_reply_is_answered_with_the_reason_and_an_example(bad: Any, told_as: str) -> None:
    told = FakeModel(bad, CREATED)
    found = propose(creation(), told)
    assert found.plan is not None
    assert told_as in told.last()
    assert '"status": "CONTINUE", "constellation": {"tasks":' in told.last()
    assert told_as in found.notes[0]
    assert found.usage.requests == 2
    assert found.usage.tokens == 240


@pytest.mark.parametrize(
    ("bad", "told_as"),
    [
        (action("update_task", task_id="a", name="x"), "is COMPLETED"),
        (action("remove_task", task_id="nobody"), "nobody"),
        (action("add_task", task_id="c", device="mars"), "unknown device 'mars'"),
        (action("add_task", task_id="c", device="s", skill="fly"), "no skill 'fly'"),
        (action("add_task", task_id="c", device="d", inputs={"x": "${zz.y}"}), "zz"),
        (action("add_dependency", from_="b", to="b"), "b -> b"),
    ],
)
def test_a_refusal_of_the_draft_goes_to_the_model_before_a_proposal(bad: dict[str, Any], told_as: str) -> None:
    told = FakeModel(edited(action("add_task", task_id="ok", device="d"), bad), edited())
    found = propose(editing(), told)
    assert found.actions == ()
    assert told_as in told.last()
    assert "nothing was done" in told.last()


def test_after_its_reprompts_the_backup_is_asked_from_the_beginning() -> None:
    first, backup = FakeModel(*["no"] * 4), FakeModel("no", CREATED)
    found = propose(creation(), first, backup)
    assert found.plan is not None
    assert found.usage == Usage(model="openai:backup", requests=6, input_tokens=600, output_tokens=120)
    assert len(backup.asked[0]) == 1
    assert "asking openai:backup instead" in found.notes


def test_after_both_models_fail_planning_is_unavailable_for_both_reasons() -> None:
    found = in_vain(creation(), FakeModel(*["no"] * 4), FakeModel(*["no"] * 4))
    assert found.code == "invalid_reply"
    assert found.usage.requests == 8
    for name in ("openai:first", "openai:backup"):
        assert f"{name}: no usable reply in 4 attempts: the reply holds no JSON object" in str(found)


@pytest.mark.parametrize("reprompts", [0, 1, 3])
def test_the_number_of_reprompts_is_a_setting(reprompts: int) -> None:
    assert in_vain(creation(), FakeModel(*["no"] * 9), reprompts=reprompts).usage.requests == reprompts + 1


def test_a_cycle_at_creation_fails_in_the_end_and_is_named() -> None:
    found = in_vain(creation(), FakeModel(*[CYCLE] * 4))
    assert found.code == "cycle"
    assert "a -> b -> a" in str(found)


def test_unread_replies_and_refused_ones_count_together() -> None:
    assert in_vain(creation(), FakeModel("no", CYCLE, "no", NO_DEVICE, CREATED)).code == "unknown_device"


def test_a_refused_reply_is_shown_again_only_in_part() -> None:
    told = FakeModel("no" * 100_000, CREATED)
    propose(creation(), told)
    assert len(told.text()) < 60_000


# -- unavailable models --------------------------------------------------------------------------------------------


def down() -> Exception:
    return trouble.ModelConnectionError("m", "refused")


def test_an_unreachable_model_is_replaced_by_its_backup() -> None:
    found = propose(creation(), FakeModel(*[down()] * 4), FakeModel(CREATED))
    assert found.plan is not None
    assert found.usage.model == "openai:backup"
    assert found.usage.requests == 5
    assert sum("retried after" in note for note in found.notes) == 3


def test_without_a_backup_planning_is_unavailable() -> None:
    found = in_vain(creation(), FakeModel(*[down()] * 4))
    assert (found.code, found.usage.requests) == ("unreachable", 4)
    assert str(found).startswith("openai:first: the provider is unreachable")


def test_a_model_that_fails_during_a_conversation_is_replaced() -> None:
    assert propose(creation(), FakeModel("no", *[down()] * 4), FakeModel(CREATED)).plan is not None


def test_a_placeholder_key_is_not_removed_from_text() -> None:
    assert propose(creation(), FakeModel({**CREATED, "thought": "any"}), keys=["any"]).thought == "any"


def test_no_key_reaches_a_model_or_comes_back() -> None:
    told = FakeModel({**CREATED, "thought": "the key is hush-hush"})
    found = propose(creation(request="use hush-hush"), told, keys=["hush-hush"])
    assert "hush" not in told.text() + found.prompt + found.thought + found.reply


# -- bounds -----------------------------------------------------------------------------------------------------------


def test_a_budget_ends_the_reprompts() -> None:
    found = in_vain(creation(budget_left=Usage(input_tokens=200, cost_usd=9.0)), FakeModel(*["no"] * 9))
    assert (found.code, found.usage.tokens) == ("budget", 240)


def test_a_large_constellation_can_be_read_by_tool() -> None:
    big = constellation(" ".join(f"t{number}" for number in range(1000)), description="x" * 300)
    big.tasks["t0"].status = TaskStatus.COMPLETED
    calls = [
        ToolCallPart("read_tasks", {"offset": 990}, "1"),
        ToolCallPart("run_shell", {"command": "rm"}, "2"),
        ToolCallPart("read_tasks", {"offset": "x"}, "3"),
    ]
    told = FakeModel(ModelResponse(parts=calls), edited())
    propose(editing(big), told)
    assert told.offered[0] == ["read_tasks"]
    first, second, third = (str(part.content) for part in told.asked[1][-1].parts)  # type: ignore[union-attr]
    assert first.splitlines()[1].startswith('{"task_id": "t990"')
    assert "there is no tool 'run_shell'" in second
    assert third == "offset is a number"


def test_endless_reading_of_tasks_ends() -> None:
    big = constellation(" ".join(f"t{number}" for number in range(1000)), description="x" * 300)
    again = ModelResponse(parts=[ToolCallPart("read_tasks", {}, "1")])
    assert "without replying" in str(in_vain(editing(big), FakeModel(*[again] * 30)))


def test_reading_everything_at_once_is_bounded() -> None:
    big = constellation(" ".join(f"t{number}" for number in range(1000)), description="x" * 300)
    told = FakeModel(ModelResponse(parts=[ToolCallPart("read_tasks", {}, str(number)) for number in range(100)]), edited())
    propose(editing(big), told)
    assert len(told.text()) < 500_000
    assert told.last() == "you have read enough; reply now"


def test_each_request_carries_the_key_of_its_question() -> None:
    told = FakeModel("no", CREATED)
    propose(creation(key="run-7:3.0"), told)
    assert told.keys == ["run-7:3.0/1", "run-7:3.0/2"]


def test_a_long_refusal_is_cut() -> None:
    told = FakeModel(edited(action("x" * 100_000)), CREATED)
    found = propose(creation(), told)
    assert len(told.last()) < 10_000
    assert len(found.notes[0]) < 3_000


def test_a_small_constellation_needs_no_tool_and_offers_none() -> None:
    told = FakeModel(ModelResponse(parts=[ToolCallPart("run_shell", {}, "1")]), edited())
    propose(editing(), told)
    assert told.offered[0] == []
    assert "the reply is empty" in told.last()


# -- phases ---------------------------------------------------------------------------------------------------------------


def test_a_mode_has_four_phases_and_differs_in_its_actions_alone() -> None:
    creating, editing = (ConstellationStrategyFactory.create_all_strategies(mode) for mode in ("CREATION", "EDITING"))
    assert list(creating) == list(editing) == ["context_provision", "llm_interaction", "action_execution", "memory_update"]
    assert [phase for phase in ProcessingPhase if creating[phase] is not editing[phase]] == ["action_execution"]


def test_a_mode_that_does_not_exist_is_refused_as_by_the_other_factory() -> None:
    with pytest.raises(ValueError, match="'DREAMING' is not a valid WeavingMode"):
        ConstellationStrategyFactory.create_all_strategies("DREAMING")


def context() -> ConstellationProcessorContext:
    asked = creation()
    talk = ModelConversation(access(FakeModel()), asked.key)
    return ConstellationProcessorContext(
        question=asked, prompter=ConstellationPrompterFactory.create_prompter("CREATION"), conversation=talk
    )


def test_a_phase_puts_its_values_into_the_context() -> None:
    shared = context()
    made = ConstellationStrategyFactory.create_all_strategies("CREATION")
    result = loop.run(run_phase(ProcessingPhase.CONTEXT_PROVISION, made[ProcessingPhase.CONTEXT_PROVISION], shared))
    assert result == asterism.ProcessingResult(phase=ProcessingPhase.CONTEXT_PROVISION)
    assert shared.constellation.tasks == {}
    assert [tool.name for tool in shared.tools] == [*SEVEN]


def test_a_phase_without_its_dependencies_is_refused() -> None:
    made = ConstellationStrategyFactory.create_all_strategies("CREATION")
    with pytest.raises(LookupError, match="no phase has provided 'tools'"):
        loop.run(run_phase(ProcessingPhase.LLM_INTERACTION, made[ProcessingPhase.LLM_INTERACTION], context()))


def test_a_phase_that_does_not_provide_what_it_declares_is_refused() -> None:
    @asterism.provides(ContextNames.CONSTELLATION, ContextNames.TOOLS)
    async def half(context: ConstellationProcessorContext) -> None:
        context.constellation = TaskConstellation()

    with pytest.raises(LookupError, match="no phase has provided 'tools'"):
        loop.run(run_phase(ProcessingPhase.CONTEXT_PROVISION, half, context()))


def test_one_argument_replaces_a_strategy_or_adds_to_one() -> None:
    async def trusting(context: ConstellationProcessorContext) -> None:
        context.execution_result = None

    async def signed(context: ConstellationProcessorContext) -> None:
        await update_memory(context)
        context.memory_item["reply"] += " -- checked"

    own = {ProcessingPhase.ACTION_EXECUTION: trusting, ProcessingPhase.MEMORY_UPDATE: signed}
    proposal = loop.run(ConstellationAgentProcessor(access(FakeModel(CYCLE)), own).propose(creation()))
    assert proposal.plan is not None
    assert proposal.notes == ()
    assert proposal.reply.endswith("} -- checked")


def test_every_key_is_a_field_of_the_context() -> None:
    assert set(ContextNames) <= {field.name for field in dataclasses.fields(ConstellationProcessorContext)}


def phases_of(caplog: pytest.LogCaptureFixture, question: PlannerRequest, *models: FakeModel) -> list[str]:
    with caplog.at_level(logging.DEBUG):
        propose(question, *models)
    return [record.getMessage() for record in caplog.records if record.name == "asterism.constellation.planner"]


def test_a_refused_action_asks_the_model_again(caplog: pytest.LogCaptureFixture) -> None:
    seen = phases_of(caplog, creation(), FakeModel(CYCLE, CREATED))
    phases = ["context_provision", *["llm_interaction", "action_execution"] * 2, "memory_update"]
    assert seen == [f"r:1.0: {phase} done" for phase in phases]


def breaks(monkeypatch: pytest.MonkeyPatch, strategy: str) -> None:
    async def broken(*_: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(processor, strategy, broken)


def test_an_error_in_memory_update_is_noted_and_the_proposal_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    breaks(monkeypatch, "update_memory")
    found = propose(creation(), FakeModel(CREATED))
    assert found.plan is not None
    assert found.notes == ("memory_update failed: RuntimeError: a bug",)
    assert found.prompt == ""


def test_an_error_in_the_draft_is_noted_and_only_the_table_validates(monkeypatch: pytest.MonkeyPatch) -> None:
    breaks(monkeypatch, "execute_plan")
    found = propose(creation(), FakeModel(CYCLE))
    assert found.plan is not None
    assert found.notes == ("action_execution failed: RuntimeError: a bug",)


def test_an_error_in_a_required_phase_makes_planning_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    breaks(monkeypatch, "ask_model")
    found = in_vain(creation(), FakeModel(CREATED))
    assert (found.code, str(found)) == ("broken", "planning failed: RuntimeError: a bug")


# -- spans ------------------------------------------------------------------------------------------------------------------


def test_each_phase_is_a_span_without_the_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(processor, "_tracer", provider.get_tracer("test"))
    propose(creation(request="SECRET"), FakeModel({**CREATED, "thought": "SECRET"}))
    with pytest.raises(PlanningUnavailable):
        propose(creation(request="SECRET"), FakeModel(*["SECRET"] * 4))
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == [*map(str, ProcessingPhase), "context_provision", "llm_interaction"]
    assert [span.status.is_ok for span in spans] == [True] * 5 + [False]
    assert dict(spans[1].attributes or {}) == {
        "asterism.kind": "phase",
        "asterism.effect_id": "r:1.0",
        "asterism.mode": "CREATION",
        "asterism.model": "openai:first",
        "asterism.tokens.input": 100,
        "asterism.tokens.output": 20,
    }
    assert "SECRET" not in "".join(span.to_json() for span in spans)


def test_the_log_names_each_phase_without_the_prompt(caplog: pytest.LogCaptureFixture) -> None:
    told = phases_of(caplog, creation(request="SECRET"), FakeModel({"thought": "SECRET", "status": "SECRET"}, CREATED))
    assert told == [f"r:1.0: {phase} done" for phase in ProcessingPhase]
    assert "SECRET" not in caplog.text


# -- the seed's example --------------------------------------------------------------------------------------------------------


def test_the_seeds_replies_are_accepted() -> None:
    devices = ("laptop", "gpu_server", "test_server", "prod_server")
    fleet = {name: AgentProfile(device_id=name, natural_language=True) for name in devices}
    assert propose(creation(fleet=fleet), FakeModel(seed("creation"))).plan == parse_plan(seed("creation"))
    it = TaskConstellation.from_dict(seed("creation"))
    for task_id in ("task_001", "task_002", "task_003"):
        it.tasks[task_id].status = TaskStatus.COMPLETED
    it.tasks["task_003"].result = {"accuracy": 0.92}
    told = FakeModel(seed("editing"))
    found = propose(editing(it, fleet=fleet), told)
    assert [action["tool"] for action in found.actions] == ["add_task", "add_dependency", "remove_task"]
    assert '{"accuracy": 0.92}' in told.text()
