"""Orchestration loops whose processes die at every entry and inside every function: the end is that of an uninterrupted run."""

from __future__ import annotations

import asyncio
import collections
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from asterism.errors import RunOwned
from asterism.loops import Finding, Handoff, Later, LoopOptions, LoopView, ModelWorker, OrchestrationLoop, Worker, tool
from asterism.machines.control import Cancel
from asterism.runtime.ports import InquiryRow
from asterism.runtime.runtime import Runtime
from asterism.simulation.loop import run as run_in_virtual_time
from asterism.stores.memory import MemoryStore
from tests.simulation.loop_world import LoopWorld


def research_and_write(world: LoopWorld, *, idempotent: bool = True) -> OrchestrationLoop:
    """Two plans, one of them with a parallel group, and a criticised answer."""

    def plan(view: LoopView) -> Any:
        if not view.findings:
            return [{"step_id": "look", "worker": "look", "intent": "look around"}]
        return [
            [
                {"step_id": "left", "worker": "dig", "intent": "left", "uses": ["look"]},
                {"step_id": "right", "worker": "dig", "intent": "right", "uses": ["look"]},
            ],
            {"step_id": "text", "worker": "write", "intent": "write", "uses": ["left", "right"]},
        ]

    def reflect(view: LoopView) -> str:
        return "replan" if len(view.findings) == 1 else "continue"

    def critique(view: LoopView) -> str:
        return "OK" if view.critique else "longer, please"

    return OrchestrationLoop(
        plan=world.supervising("plan", plan),
        workers={name: world.worker(name, idempotent=idempotent) for name in ("look", "dig", "write")},
        reflect=world.supervising("reflect", reflect),
        synthesize=world.supervising("synthesize", lambda view: {"text": view.output_of("text"), "better": view.critique}),
        critique=world.supervising("critique", critique),
    )


def uninterrupted() -> LoopWorld:
    world = LoopWorld()
    assert world.run(research_and_write(world)).outcome == "finished"
    return world


WHOLE = uninterrupted()
ENTRIES = len(WHOLE.records)
ANSWER = WHOLE.replayed().memory.answer


def test_an_uninterrupted_run_does_each_step_once() -> None:
    assert collections.Counter(name for name, _ in WHOLE.completed) == {
        "plan": 2,
        "look": 1,
        "dig": 2,
        "write": 1,
        "reflect": 3,
        "synthesize": 2,
        "critique": 2,
    }
    assert ANSWER["better"] == "longer, please"
    WHOLE.assert_sound()


@pytest.mark.parametrize("seq", range(1, ENTRIES + 1))
def test_a_run_dropped_after_any_entry_comes_to_the_same_end(seq: int) -> None:
    world = LoopWorld(die_at=(seq,))
    assert world.run(research_and_write(world)).outcome == "finished"
    assert world.replayed().memory.answer == ANSWER
    assert world.processes == (1 if seq == ENTRIES else 2)
    assert len({key for _, key in world.completed}) == len(WHOLE.completed)
    world.assert_sound()


@pytest.mark.parametrize("name", ["plan", "look", "dig", "write", "reflect", "synthesize", "critique"])
def test_a_run_dropped_inside_any_function_comes_to_the_same_end(name: str) -> None:
    world = LoopWorld(die_in=(name,))
    assert world.run(research_and_write(world)).outcome == "finished"
    assert world.replayed().memory.answer == ANSWER
    again = {it[0] for it, count in collections.Counter(world.began).items() if count > 1}
    assert again == {name}
    assert set(collections.Counter(world.completed).values()) == {1}
    world.assert_sound()


@pytest.mark.parametrize("seed", range(20))
def test_a_run_dropped_again_and_again_comes_to_the_same_end(seed: int) -> None:
    world = LoopWorld(seed=seed, die_at=tuple(range(2 + seed % 3, ENTRIES, 3)), die_in=("look", "reflect", "synthesize"))
    assert world.run(research_and_write(world)).outcome == "finished"
    assert world.replayed().memory.answer == ANSWER
    world.assert_sound()


@pytest.mark.parametrize(("said", "runs"), [(("approve", None), 2), (("respond", {"by": "hand"}), 1)])
def test_a_worker_that_may_not_be_repeated_is_asked_about(said: tuple[str, Any], runs: int) -> None:
    world = LoopWorld(die_in=("look",), people=lambda _: said)
    assert world.run(research_and_write(world, idempotent=False)).outcome == "finished"
    assert [name for name, _ in world.began].count("look") == runs
    (asked,) = world.memory.inquiries.values()
    assert asked.prompt == "look was interrupted in look (look around) and may have finished. Run it again?"
    world.assert_sound()


def test_without_a_person_such_a_run_waits_and_says_for_what() -> None:
    world = LoopWorld(die_in=("look",))
    row = world.run(research_and_write(world, idempotent=False))
    assert (row.status, row.state) == ("waiting", "WAITING")


# -- people, and results that come later ---------------------------------------------------------------


def one_step(worker: Worker) -> OrchestrationLoop:
    return OrchestrationLoop(plan=[{"step_id": "a", "worker": "w", "intent": "do it"}], workers={"w": worker})


@pytest.mark.parametrize("seq", range(2, 11))
def test_waiting_for_a_person_survives_a_restart_and_a_yes_runs_the_worker_once(seq: int) -> None:
    world = LoopWorld(die_at=(seq,), people=lambda _: ("approve", None))
    assert world.run(one_step(world.worker("w", requires_approval=True, idempotent=True))).outcome == "finished"
    assert len(world.completed) == 1
    world.assert_sound()


def test_a_no_does_not_run_the_worker_and_the_answer_has_the_feedback() -> None:
    world = LoopWorld(people=lambda _: ("reject", None))
    row = world.run(one_step(world.worker("w", requires_approval=True)))
    assert (row.outcome, world.began) == ("finished", [])
    assert world.replayed().memory.findings[0].status == "denied"


def test_waiting_for_an_asynchronous_result_survives_a_restart() -> None:
    async def later(handoff: Handoff) -> Later:
        return Later(key="job-7", prompt="the print job")

    asked: list[InquiryRow] = []

    def arrives(inquiry: InquiryRow) -> tuple[Any, Any]:
        asked.append(inquiry)
        return ("respond", {"pages": 3})

    world = LoopWorld(die_at=(4,), people=arrives)
    row = world.run(one_step(Worker(later, idempotent=True)))
    assert (row.outcome, world.replayed().memory.answer) == ("finished", {"pages": 3})
    assert '"awaits":"job-7"' in asked[0].subject


# -- parallel ------------------------------------------------------------------------------------------


def five(world: LoopWorld, seen: list[list[str]]) -> OrchestrationLoop:
    async def fails(handoff: Handoff) -> None:
        raise ValueError("no luck")

    async def reflect(view: LoopView) -> str:
        seen.append([f"{it.worker}:{it.status}" for it in view.latest])
        return "done"

    names = ("good", "fails", "hangs", "asks", "slow")
    return OrchestrationLoop(
        plan=[{"worker": name, "intent": "x", "group": "g"} for name in names],
        workers={
            "good": world.worker("good"),
            "fails": fails,
            "hangs": world.worker("hangs", lasts_s=10_000, timeout_s=60),
            "asks": world.worker("asks", requires_approval=True),
            "slow": world.worker("slow", lasts_s=30),
        },
        reflect=reflect,
    )


def test_five_workers_of_which_one_fails_one_hangs_and_one_asks_are_seen_by_one_reflection() -> None:
    seen: list[list[str]] = []
    world = LoopWorld(people=lambda _: ("approve", None))
    assert world.run(five(world, seen)).outcome == "finished"
    assert seen == [["good:ok", "fails:failed", "hangs:timeout", "asks:ok", "slow:ok"]]
    states = list(dict.fromkeys(record.state for record in world.records))
    assert states == ["EXECUTING", "PARALLEL", "WAITING", "OBSERVING", "REFLECTING", "COMPLETE"]
    reasons = {finding.worker: finding.reason for finding in world.replayed().memory.findings}
    assert (reasons["fails"], reasons["hangs"]) == ("ValueError: no luck", "hangs took longer than 60 s")
    world.assert_sound()


def test_a_cancel_while_five_are_at_work_stops_them_all() -> None:
    world = LoopWorld()
    loop = five(world, [])

    async def scene() -> Any:
        async with asyncio.TaskGroup() as group:
            driving = group.create_task(world.play(loop))
            await asyncio.sleep(20)
            store = MemoryStore(world.memory, name="person")
            await Runtime(store, world._driver(store), world.clock).send("r", Cancel(reason="enough"), actor="ada")
            await store.close()
        return driving.result()

    row = run_in_virtual_time(scene())
    assert (row.state, row.outcome) == ("CANCELLED", "cancelled")
    assert world.completed == [("good", world.completed[0][1])]
    world.assert_sound()


def test_of_two_processes_that_resume_one_loop_one_goes_on_before_any_effect_of_the_other() -> None:
    world = LoopWorld()
    loop = research_and_write(world)

    async def scene() -> list[tuple[str, str]]:
        async with asyncio.TaskGroup() as group:
            driving = group.create_task(world.play(loop))
            await asyncio.sleep(2.5)
            before = list(world.began)
            store = MemoryStore(world.memory, name="rival")
            with pytest.raises(RunOwned), loop.here():
                await world._driver(store).drive("r")
            await store.close()
            assert world.began == before
        assert driving.result().outcome == "finished"
        return world.completed

    assert collections.Counter(run_in_virtual_time(scene())) == dict.fromkeys(world.completed, 1)


# -- what comes back of a worker -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "reason"),
    [({1, 2}, ""), (object(), "the result of w is not JSON: a object"), (Finding(status="failed", reason="said so"), "said so")],
)
def test_what_a_worker_returns_is_json_or_a_finding_or_else_it_failed(output: Any, reason: str) -> None:
    async def work(handoff: Handoff) -> Any:
        return output

    world = LoopWorld()
    world.run(one_step(Worker(work)))
    (finding,) = world.replayed().memory.findings
    assert finding.reason == reason


def test_bounds_of_a_loop_without_reflection_fail_it_by_the_step() -> None:
    async def work(handoff: Handoff) -> Any:
        raise OSError("disk full")

    world = LoopWorld()
    loop = OrchestrationLoop(
        plan=[{"step_id": "a", "worker": "w", "intent": "x"}],
        workers={"w": work},
        options=LoopOptions(recovery=("retry",)),  # type: ignore[arg-type]
    )
    row = world.run(loop)
    memory = world.replayed().memory
    assert (row.outcome, memory.steps) == ("failed", 2)
    assert memory.reason == "the reflection says fail after a: OSError: disk full"


# -- a worker that is a model --------------------------------------------------------------------------


def conversing(world: LoopWorld) -> OrchestrationLoop:
    """A model that calls a harmless and a destructive tool at once, and then answers; it says the same to the same conversation."""

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        returned = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        if returned:
            return ModelResponse(parts=[TextPart(content=", ".join(str(part.content) for part in returned))])
        return ModelResponse(parts=[ToolCallPart("look", {}, tool_call_id="1"), ToolCallPart("remove", {"path": "x"}, tool_call_id="2")])

    async def look() -> str:
        await world.does("look", "look")
        return "looked"

    async def remove(path: str) -> str:
        await world.does("remove", path)
        return f"removed {path}"

    tools = [tool(look, idempotent=True), tool(remove, idempotent=True, gate="destructive")]
    return OrchestrationLoop(
        plan=[{"step_id": "a", "worker": "m", "intent": "clean up"}],
        workers={"m": ModelWorker(FunctionModel(reply), "You clean up.", tools=tools)},
    )


@pytest.mark.parametrize("seq", range(2, 13))
def test_a_conversation_dropped_after_any_entry_goes_on_at_that_call(seq: int) -> None:
    world = LoopWorld(die_at=(seq,), people=lambda _: ("approve", None))
    row = world.run(conversing(world))
    assert (row.outcome, world.replayed().memory.answer) == ("finished", "looked, removed x")
    assert sorted(name for name, _ in world.completed) == ["look", "remove"]
    (asked,) = world.memory.inquiries.values()
    assert asked.subject == '{"tool":"remove","arguments":{"path":"x"}}'


def test_a_gate_that_is_not_opened_leaves_the_loop_confirming_and_the_tool_uncalled() -> None:
    world = LoopWorld()
    row = world.run(conversing(world))
    assert (row.status, row.state) == ("waiting", "CONFIRMING")
    assert [name for name, _ in world.began] == ["look"]


@pytest.mark.parametrize("name", ["look", "remove"])
def test_a_conversation_dropped_inside_a_tool_makes_that_call_again(name: str) -> None:
    world = LoopWorld(die_in=(name,), people=lambda _: ("approve", None))
    assert world.run(conversing(world)).outcome == "finished"
    assert world.replayed().memory.answer == "looked, removed x"
    assert collections.Counter(it for it, _ in world.began) == {"look": 1, "remove": 1} | {name: 2}
