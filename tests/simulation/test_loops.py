"""Orchestration loops whose processes die at every entry and inside every function: the end is that of an uninterrupted run."""

from __future__ import annotations

import asyncio
import collections
import re
from collections.abc import Callable
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from asterism.engine.ports.store import InquiryRow
from asterism.loop.machine.events import WorkerEnded
from asterism.loop.python import Finding, Handoff, Later, LoopOptions, LoopView, ModelWorker, OrchestrationLoop, Worker, tool
from asterism.testing.ending import Ending
from asterism.testing.people import Answer, Crash, ScheduledEvent, everyone_says
from asterism.testing.world import World

FUNCTIONS = {"plan": "make_plan", "reflect": "reflect", "synthesize": "synthesize", "critique": "critique"}
"""How the ledger names what a supervisor is asked."""


def worker(name: str, *, output: Any = None, lasts_s: float = 1.0, **more: Any) -> Worker:
    """A worker that takes its time and returns something."""

    async def work(handoff: Handoff) -> Any:
        await asyncio.sleep(lasts_s)
        return output if output is not None else {"by": name, "of": handoff.intent, "with": handoff.artifacts}

    return Worker(work, **more)


def supervising(says: Callable[[LoopView], Any]) -> Any:
    """A supervising function that takes its time."""

    async def supervise(view: LoopView) -> Any:
        await asyncio.sleep(1.0)
        return says(view)

    return supervise


def began(world: World) -> list[str]:
    """What was begun: the supervisor's functions, tools and workers by name."""
    names = {name: function for function, name in FUNCTIONS.items()}
    return [names.get(it.task_id, it.skill or it.device_id) for it in world.performance_log.performances]


def completed(world: World) -> list[str]:
    """Of that, what came to its end."""
    return [name for name, it in zip(began(world), world.performance_log.performances, strict=True) if it.status == "done"]


def keys(world: World) -> list[str]:
    return [it.key for it in world.performance_log.performances if it.status == "done"]


def states(ending: Ending) -> list[str]:
    return list(dict.fromkeys(record.state for record in ending.records))


def research_and_write(*, idempotent: bool = True) -> OrchestrationLoop:
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
        plan=supervising(plan),
        workers={name: worker(name, idempotent=idempotent) for name in ("look", "dig", "write")},
        reflect=supervising(reflect),
        synthesize=supervising(lambda view: {"text": view.output_of("text"), "better": view.critique}),
        critique=supervising(critique),
    )


WHOLE = World()
ENDED = WHOLE.run_loop(research_and_write())
ENTRIES = len(ENDED.records)
ANSWER = ENDED.memory.answer


def test_an_uninterrupted_run_does_each_step_once() -> None:
    assert ENDED.outcome == "finished"
    assert collections.Counter(completed(WHOLE)) == {
        "plan": 2,
        "look": 1,
        "dig": 2,
        "write": 1,
        "reflect": 3,
        "synthesize": 2,
        "critique": 2,
    }
    assert ANSWER["better"] == "longer, please"


@pytest.mark.parametrize("seq", range(1, ENTRIES + 1))
def test_a_run_dropped_after_any_entry_comes_to_the_same_end(seq: int) -> None:
    world = World(crashes=[Crash(entry=seq)])
    ending = world.run_loop(research_and_write())
    assert (ending.outcome, ending.memory.answer) == ("finished", ANSWER)
    assert world.counts["processes"] == (1 if seq == ENTRIES else 2)
    assert len(set(keys(world))) == len(keys(WHOLE))


@pytest.mark.parametrize("name", ["plan", "look", "dig", "write", "reflect", "synthesize", "critique"])
def test_a_run_dropped_inside_any_function_comes_to_the_same_end(name: str) -> None:
    world = World(crashes=[Crash(during=FUNCTIONS.get(name, name), after_s=0.5)])
    ending = world.run_loop(research_and_write())
    assert (ending.outcome, ending.memory.answer) == ("finished", ANSWER)
    assert collections.Counter(began(world)) - collections.Counter(began(WHOLE)) == {name: 2 if name == "dig" else 1}
    assert set(collections.Counter(keys(world)).values()) == {1}


@pytest.mark.parametrize("seed", range(20))
def test_a_run_dropped_again_and_again_comes_to_the_same_end(seed: int) -> None:
    within = [Crash(during=name, after_s=0.5) for name in ("look", "reflect", "synthesize")]
    world = World(seed, crashes=[*within, *(Crash(entry=entry) for entry in range(2 + seed % 3, ENTRIES, 3))])
    ending = world.run_loop(research_and_write())
    assert (ending.outcome, ending.memory.answer) == ("finished", ANSWER)


@pytest.mark.parametrize(("said", "runs"), [(Answer(verb="approve"), 2), (Answer(verb="respond", value={"by": "hand"}), 1)])
def test_a_worker_that_may_not_be_repeated_is_asked_about(said: Answer, runs: int) -> None:
    world = World(crashes=[Crash(during="look", after_s=0.5)], people=lambda _: [said])
    assert world.run_loop(research_and_write(idempotent=False)).outcome == "finished"
    assert began(world).count("look") == runs
    (asked,) = world.database.inquiries.values()
    assert asked.prompt == "look was interrupted in look (look around) and may have finished. Run it again?"


def test_without_a_person_such_a_run_waits_and_says_for_what() -> None:
    ending = World(crashes=[Crash(during="look", after_s=0.5)]).run_loop(research_and_write(idempotent=False))
    assert (ending.row.status, ending.row.state) == ("waiting", "WAITING")


# -- people, and results that come later ---------------------------------------------------------------


def one_step(worker: Worker) -> OrchestrationLoop:
    return OrchestrationLoop(plan=[{"step_id": "a", "worker": "w", "intent": "do it"}], workers={"w": worker})


@pytest.mark.parametrize("seq", range(2, 11))
def test_waiting_for_a_person_survives_a_restart_and_a_yes_runs_the_worker_once(seq: int) -> None:
    world = World(crashes=[Crash(entry=seq)], people=everyone_says("approve"))
    assert world.run_loop(one_step(worker("w", requires_approval=True, idempotent=True))).outcome == "finished"
    assert completed(world).count("w") == 1


def test_a_no_does_not_run_the_worker_and_the_answer_has_the_feedback() -> None:
    world = World(people=everyone_says("reject"))
    ending = world.run_loop(one_step(worker("w", requires_approval=True)))
    assert (ending.outcome, "w" in began(world)) == ("finished", False)
    assert ending.memory.findings[0].status == "denied"


def test_waiting_for_an_asynchronous_result_survives_a_restart() -> None:
    async def later(handoff: Handoff) -> Later:
        return Later(key="job-7", prompt="the print job")

    asked: list[InquiryRow] = []

    def arrives(inquiry: InquiryRow) -> list[Answer]:
        asked.append(inquiry)
        return [Answer(verb="respond", value={"pages": 3})]

    ending = World(crashes=[Crash(entry=4)], people=arrives).run_loop(one_step(Worker(later, idempotent=True)))
    assert (ending.outcome, ending.memory.answer) == ("finished", {"pages": 3})
    assert '"awaits":"job-7"' in asked[0].subject


# -- parallel ------------------------------------------------------------------------------------------


def five(seen: list[list[str]]) -> OrchestrationLoop:
    async def fails(handoff: Handoff) -> None:
        raise ValueError("no luck")

    async def reflect(view: LoopView) -> str:
        seen.append([f"{it.worker}:{it.status}" for it in view.latest])
        return "done"

    names = ("good", "fails", "hangs", "asks", "slow")
    return OrchestrationLoop(
        plan=[{"worker": name, "intent": "x", "group": "g"} for name in names],
        workers={
            "good": worker("good"),
            "fails": fails,
            "hangs": worker("hangs", lasts_s=10_000, timeout_s=60),
            "asks": worker("asks", requires_approval=True),
            "slow": worker("slow", lasts_s=30),
        },
        reflect=reflect,
    )


def test_five_workers_of_which_one_fails_one_hangs_and_one_asks_are_seen_by_one_reflection() -> None:
    seen: list[list[str]] = []
    ending = World(people=everyone_says("approve", after_s=100)).run_loop(five(seen))
    assert ending.outcome == "finished"
    assert seen == [["good:ok", "fails:failed", "hangs:timeout", "asks:ok", "slow:ok"]]
    assert states(ending) == ["EXECUTING", "PARALLEL", "WAITING", "OBSERVING", "REFLECTING", "COMPLETE"]
    reasons = {finding.worker: str(finding.reason) for finding in ending.memory.findings}
    assert re.fullmatch(r"ValueError: no luck \(test_loops.py:\d+\)", reasons["fails"])
    assert reasons["hangs"] == "hangs took longer than 60 s"


def test_a_cancel_while_five_are_at_work_stops_them_all() -> None:
    world = World(scheduled_events=[ScheduledEvent(at_s=20, what="cancel")])
    ending = world.run_loop(five([]))
    assert (ending.row.state, ending.outcome) == ("CANCELLED", "cancelled")
    assert {it.device_id for it in world.performance_log.performances if it.status == "killed"} == {"hangs", "slow"}
    cut = [str(entry.event.finding.reason) for entry in ending.entries if isinstance(entry.event, WorkerEnded) and entry.event.interrupted]
    assert cut == [f"it was stopped: {ending.memory.reason}"] * 2


def test_of_two_processes_that_resume_one_loop_one_goes_on_before_any_effect_of_the_other() -> None:
    world = World(scheduled_events=[ScheduledEvent(at_s=2.5, what="rival")])
    assert world.run_loop(research_and_write()).outcome == "finished"
    assert world.counts["run owned"] == 1
    assert began(world) == began(WHOLE)


# -- what comes back of a worker -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ({1, 2}, ""),
        (object(), "the result of w is not JSON: it contains an object of type object"),
        (Finding(status="failed", reason="said so"), "said so"),
    ],
)
def test_what_a_worker_returns_is_json_or_a_finding_or_else_it_failed(output: Any, reason: str) -> None:
    async def work(handoff: Handoff) -> Any:
        return output

    (finding,) = World().run_loop(one_step(Worker(work))).memory.findings
    assert finding.reason == reason


def test_bounds_of_a_loop_without_reflection_fail_it_by_the_step() -> None:
    async def work(handoff: Handoff) -> Any:
        raise OSError("disk full")

    loop = OrchestrationLoop(
        plan=[{"step_id": "a", "worker": "w", "intent": "x"}],
        workers={"w": work},
        options=LoopOptions(recovery=("retry",)),  # type: ignore[arg-type]
    )
    ending = World().run_loop(loop)
    assert (ending.outcome, ending.memory.steps) == ("failed", 2)
    assert ending.memory.reason.startswith("the reflection says fail after a: OSError: disk full")


# -- a worker that is a model --------------------------------------------------------------------------


def conversing() -> OrchestrationLoop:
    """A model that calls a harmless and a destructive tool at once, and then answers; it says the same to the same conversation."""

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        returned = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
        if returned:
            return ModelResponse(parts=[TextPart(content=", ".join(str(part.content) for part in returned))])
        return ModelResponse(parts=[ToolCallPart("look", {}, tool_call_id="1"), ToolCallPart("remove", {"path": "x"}, tool_call_id="2")])

    async def look() -> str:
        await asyncio.sleep(1.0)
        return "looked"

    async def remove(path: str) -> str:
        await asyncio.sleep(1.0)
        return f"removed {path}"

    tools = [tool(look, idempotent=True), tool(remove, idempotent=True, gate="destructive")]
    return OrchestrationLoop(
        plan=[{"step_id": "a", "worker": "m", "intent": "clean up"}],
        workers={"m": ModelWorker(FunctionModel(reply), "You clean up.", tools=tools)},
    )


@pytest.mark.parametrize("seq", range(2, 13))
def test_a_conversation_dropped_after_any_entry_goes_on_at_that_call(seq: int) -> None:
    world = World(crashes=[Crash(entry=seq)], people=everyone_says("approve"))
    ending = world.run_loop(conversing())
    assert (ending.outcome, ending.memory.answer) == ("finished", "looked, removed x")
    assert sorted(name for name in completed(world) if name in ("look", "remove")) == ["look", "remove"]
    (asked,) = world.database.inquiries.values()
    assert asked.subject == '{"tool":"remove","arguments":{"path":"x"}}'


def test_a_gate_that_is_not_opened_leaves_the_loop_confirming_and_the_tool_uncalled() -> None:
    world = World()
    ending = world.run_loop(conversing())
    assert (ending.row.status, ending.row.state) == ("waiting", "CONFIRMING")
    assert ("look" in began(world), "remove" in began(world)) == (True, False)


@pytest.mark.parametrize("name", ["look", "remove"])
def test_a_conversation_dropped_inside_a_tool_makes_that_call_again(name: str) -> None:
    world = World(crashes=[Crash(during=name, after_s=0.5)], people=everyone_says("approve"))
    ending = world.run_loop(conversing())
    assert (ending.outcome, ending.memory.answer) == ("finished", "looked, removed x")
    counts = collections.Counter(began(world))
    assert {"look": counts["look"], "remove": counts["remove"]} == {"look": 1, "remove": 1} | {name: 2}
