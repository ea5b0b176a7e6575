"""The public API of loops: run, resume, step, stream, answer, deliver; in memory and in an opened runtime."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import asterism
from asterism.errors import InvalidInput, Refused, RunNotFound
from asterism.loop.python import Finding, Handoff, Later, LoopOptions, LoopView, OrchestrationLoop, State, Step, Worker, resume
from asterism.loop.python.definition import definition_of, find_loop
from asterism.testing.world import World


async def plan(view: LoopView) -> Sequence[Any]:
    return [{"step_id": "look", "worker": "look", "intent": view.request}, Step(worker="tell", intent="tell it", uses=("look",))]


async def look(handoff: Handoff) -> dict[str, str]:
    """Look at something.

    This is not for the planner.
    """
    return {"seen": handoff.intent}


async def tell(handoff: Handoff) -> str:
    return f"I saw {handoff.artifacts['look']['seen']}."


SEES = OrchestrationLoop(plan=plan, workers={"look": look, "tell": tell})
APPROVED = OrchestrationLoop(plan=[{"worker": "look", "intent": "x"}], workers={"look": Worker(look, requires_approval=True)})


def test_a_loop_runs_in_memory_by_default() -> None:
    ended = asyncio.run(SEES.run("a heron"))
    assert (ended.state, ended.outcome, ended.answer) == (State.COMPLETE, "finished", "I saw a heron.")
    assert [(finding.step_id, finding.worker) for finding in ended.findings] == [("look", "look"), ("step_2", "tell")]


def test_a_loop_runs_in_the_opened_runtime_and_its_run_is_there_afterwards(tmp_path: Path) -> None:
    async def scene() -> tuple[str, str]:
        async with asterism.open(tmp_path / "runs.db"):
            ended = await SEES.run("a heron")
        async with asterism.open(tmp_path / "runs.db") as runtime:
            row = await runtime.store.run(ended.run_id)
            return row.machine, row.outcome

    assert asyncio.run(scene()) == ("orchestration loop", "finished")


def test_a_loop_that_waits_is_answered_and_resumed_by_another_runtime(tmp_path: Path) -> None:
    async def scene() -> list[str]:
        async with asterism.open(tmp_path / "runs.db"):
            waits = await APPROVED.run("x")
        async with asterism.open(tmp_path / "runs.db"):
            (asked,) = waits.waiting
            await APPROVED.answer(asked.inquiry_id, "approve")
            with pytest.raises(Refused, match="answered already"):
                await APPROVED.answer(asked.inquiry_id, "reject")
            ended = await resume(waits.run_id)
            return [waits.state, waits.outcome, ended.state, ended.answer["seen"]]

    assert asyncio.run(scene()) == ["WAITING", "", "COMPLETE", "x"]


def test_one_resume_processes_several_answers() -> None:
    loop = OrchestrationLoop(
        plan=[[{"worker": "look", "intent": "left"}, {"worker": "look", "intent": "right"}]],
        workers={"look": Worker(look, requires_approval=True)},
    )

    async def scene() -> tuple[int, list[Finding]]:
        waits = await loop.run("x")
        await loop.answer(waits.waiting[0].inquiry_id, "approve")
        await loop.answer(waits.waiting[1].inquiry_id, "reject", reason="not that way")
        return len(waits.waiting), list((await loop.resume()).findings)

    asked, (left, right) = asyncio.run(scene())
    assert asked == 2
    assert (left.status, right.status, right.feedback) == ("ok", "denied", "not that way")


def test_a_result_that_comes_later_is_delivered_by_its_key() -> None:
    async def order(handoff: Handoff) -> Later:
        return Later(key=f"order-{handoff.intent}")

    loop = OrchestrationLoop(plan=[{"worker": "order", "intent": "7"}], workers={"order": order})

    async def scene() -> Any:
        waits = await loop.run("x")
        assert waits.state == State.WAITING
        with pytest.raises(Refused, match="waits for no result 'order-8'"):
            await loop.deliver("order-8", 1)
        await loop.deliver("order-7", {"parcels": 2})
        return (await loop.resume()).answer

    assert asyncio.run(scene()) == {"parcels": 2}


def test_step_once_makes_one_transition_and_stream_all_of_them() -> None:
    async def scene() -> tuple[list[str], list[str]]:
        await SEES.submit("a heron")
        first = [await SEES.step_once(), await SEES.step_once()]
        rest = [transition async for transition in SEES.stream()]
        assert await SEES.step_once() is None
        return [f"{it.source}>{it.target}" for it in first if it], [it.target for it in rest]

    first, rest = asyncio.run(scene())
    assert first == ["PLANNING>EXECUTING", "EXECUTING>OBSERVING"]
    assert rest == ["REFLECTING", "EXECUTING", "OBSERVING", "REFLECTING", "COMPLETE"]


def test_a_stream_that_is_left_early_leaves_the_run_paused() -> None:
    began: list[str] = []

    async def work(handoff: Handoff) -> str:
        began.append(handoff.intent)
        return handoff.intent

    loop = OrchestrationLoop(plan=[{"worker": "w", "intent": "1"}, {"worker": "w", "intent": "2"}], workers={"w": work})

    async def scene() -> str:
        async for transition in loop.stream("x"):
            if transition.target == State.OBSERVING:
                break
        assert began == ["1"]
        return (await loop.resume()).state

    assert asyncio.run(scene()) == "COMPLETE"
    assert began == ["1", "2"]


# -- definitions -----------------------------------------------------------------------------------------


def test_a_run_names_where_its_definition_is_found_again() -> None:
    assert SEES.definition == f"{__name__}:SEES"
    assert definition_of(SEES.definition, ".") is SEES


def test_a_loop_without_a_name_is_resumed_only_by_its_object() -> None:
    loop = OrchestrationLoop(plan=[{"worker": "look", "intent": "x"}], workers={"look": Worker(look, requires_approval=True)})

    async def scene() -> str:
        waits = await loop.run("x")
        await loop.answer(waits.waiting[0].inquiry_id, "approve")
        with pytest.raises(InvalidInput, match=r"cannot be found .* it has no name at module level .*resume the run with the loop"):
            await resume(waits.run_id)
        return (await loop.resume()).state

    assert asyncio.run(scene()) == "COMPLETE"


@pytest.mark.parametrize(
    ("definition", "why"),
    [
        ("no.such.module:loop", r"no\.such\.module does not import: ModuleNotFoundError"),
        ("missing.py:loop", r"there is no file missing\.py"),
        (f"{__name__}:nothing", "has no nothing$"),
        (f"{__name__}:InvalidInputt", "has no InvalidInputt; did you mean InvalidInput\\?$"),
        ("nosuch:loop", r"No module named 'nosuch'; name a file \(folder/file\.py\), or a module that is installed$"),
        (f"{__name__}:look", "is not an OrchestrationLoop but a function"),
        ("words", "write module:name or file.py:name"),
    ],
)
def test_a_missing_definition_is_reported_in_one_line(definition: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=why) as raised:
        find_loop(definition, tmp_path)
    assert "\n" not in str(raised.value)


def test_a_loop_is_found_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "tides.py").write_text(
        "from asterism.loop.python import OrchestrationLoop\n"
        "async def w(handoff): return 1\n"
        "loop = OrchestrationLoop(plan=[{'worker': 'w', 'intent': 'x'}], workers={'w': w})\n",
        encoding="utf-8",
    )
    found = find_loop("tides.py:loop", tmp_path)
    assert asyncio.run(found.run("x")).answer == 1


def test_a_run_of_another_loop_is_refused() -> None:
    async def scene() -> None:
        waits = await APPROVED.run("x")
        other = OrchestrationLoop(plan=plan, workers={"tell": tell})
        with pytest.raises(InvalidInput, match=r"this loop lacks its workers look"):
            await other.resume(waits.run_id)
        with pytest.raises(RunNotFound):
            await other.resume("nothing")

    asyncio.run(scene())


def test_a_loop_that_started_no_run_is_reported() -> None:
    fresh = OrchestrationLoop(plan=plan, workers={"look": look})
    with pytest.raises(InvalidInput, match="this loop has started no run"):
        asyncio.run(fresh.resume())


# -- what is written wrong -------------------------------------------------------------------------------


def test_a_function_that_is_not_async_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="a worker must be an async function of one argument, not <lambda>, which is not async"):
        OrchestrationLoop(plan=plan, workers={"w": lambda handoff: handoff})  # type: ignore[dict-item, return-value]
    with pytest.raises(InvalidInput, match="reflect must be an async function of one argument"):
        OrchestrationLoop(plan=plan, workers={"look": look}, reflect=lambda view: "done")  # type: ignore[return-value]


def test_workers_and_options_of_a_wrong_type_are_refused_with_the_right_form() -> None:
    with pytest.raises(InvalidInput, match=r"workers must be a mapping from names, as .*, not a list"):
        OrchestrationLoop(plan=plan, workers=[look])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"options must be .*, not a dict"):
        OrchestrationLoop(plan=plan, workers={"look": look}, options={"max_steps": 3})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ("a plan", "a plan is a list of steps, not a str"),
        ([{"intent": "x"}], r"step 1 of the plan: .*worker"),
        ([{"worker": "look", "intent": "x", "when": 1}], r"step 1 of the plan: .*when"),
        ([{"worker": "ghost", "intent": "x"}], "there is no worker 'ghost'; there are look"),
    ],
)
def test_an_invalid_plan_fails_the_run_with_the_reason(made: Any, why: str) -> None:
    async def plans(view: LoopView) -> Any:
        return made

    ended = asyncio.run(OrchestrationLoop(plan=plans, workers={"look": look}).run("x"))
    assert ended.state == State.FAILED
    assert ended.reason.startswith("no plan can be had after 2 tries (max_calls): ")
    assert re.search(why, ended.reason)


def test_the_planner_sees_the_workers() -> None:
    seen: list[tuple[str, str]] = []

    async def plans(view: LoopView) -> list[Step]:
        seen.extend((worker.name, worker.description) for worker in view.workers)
        return []

    asyncio.run(OrchestrationLoop(plan=plans, workers={"look": look, "tell": tell}).run("x"))
    assert seen == [("look", "Look at something."), ("tell", "")]


def test_a_reflection_sees_the_request_the_plan_the_findings_and_the_budget() -> None:
    views: list[LoopView] = []

    async def reflect(view: LoopView) -> str:
        views.append(view)
        return "continue"

    asyncio.run(OrchestrationLoop(plan=plan, workers={"look": look, "tell": tell}, reflect=reflect).run("a heron"))
    first, second = views
    assert (first.request, len(first.plan), first.done, [it.output for it in first.latest]) == ("a heron", 2, 1, [{"seen": "a heron"}])
    assert (second.done, len(second.findings), second.signals.steps_left) == (2, 2, 498)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (LoopOptions(max_steps=0), "options: Expected `int` >= 1 - at `$.max_steps`"),
        (LoopOptions(wall_limit_s=-1), "options: Expected `float` > 0.0 - at `$.wall_limit_s`"),
        (LoopOptions(recovery=("pray",)), "options: Invalid "),  # type: ignore[arg-type]
    ],
)
def test_invalid_options_are_refused_when_the_loop_is_defined(options: LoopOptions, words: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(words)):
        OrchestrationLoop(plan=[], workers={}, options=options)


@pytest.mark.parametrize(
    ("said", "told"), [("failed", "failed"), (None, "no text but NoneType"), (5, "no text but int"), (["fail"], "no text but list")]
)
def test_an_unknown_reflection_continues_and_is_recorded(said: Any, told: str) -> None:
    async def look(handoff: Handoff) -> None:
        raise ValueError("nothing to see")

    async def reflect(view: LoopView) -> Any:
        return said

    ending = World(7).run_loop(OrchestrationLoop(plan=[{"worker": "look", "intent": "it"}], workers={"look": look}, reflect=reflect))
    assert (ending.outcome, ending.memory.answer) == ("finished", None)
    assert f'\\"reply\\":\\"{told}\\"' in ending.journal.decode()


def test_what_workers_and_planning_functions_return_can_be_written_with_positions() -> None:
    assert Later("parcel-1") == Later(key="parcel-1")
    assert Finding("found") == Finding(output="found")
    assert Step("searcher", "search") == Step(worker="searcher", intent="search")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"plan": []}, "the plan is empty; give steps, an async function that returns steps, or a model"),
        ({"plan": None}, "the plan is empty; give steps, an async function that returns steps, or a model"),
        ({"plan": "make one"}, "plan: "),
        ({"plan": "openai:x", "reflect": "done"}, "reflect: "),
    ],
)
def test_a_plan_or_model_that_cannot_work_is_refused_where_the_loop_is_defined(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{said}"):
        OrchestrationLoop(workers={}, **given)


def test_a_program_pauses_and_cancels_a_run() -> None:
    async def scene() -> list[str]:
        loop = OrchestrationLoop(plan=[{"worker": "w", "intent": "x"}], workers={"w": work})
        await loop.submit("x")
        await loop.pause()
        states = [(await loop.resume()).outcome]
        await loop.submit("y")
        await loop.cancel(reason="enough")
        with pytest.raises(Refused):
            await loop.cancel()
        return [*states, (await loop.resume()).outcome]

    assert asyncio.run(scene()) == ["finished", "cancelled"]


async def work(_: Handoff) -> str:
    return "done"
