"""Programs that run constellations: functions in processes and threads, the result, and the handle of a run."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import asterism
from asterism import Constellation, InvalidInput, RunFailed, RunOptions
from asterism.constellation.python.app import App
from asterism.devices.dispatch.dispatcher import Dispatcher
from tests.support.errands import count, download, fail, nightly, publish

ROOT = Path(__file__).parents[4]


def within(scene: Callable[[App], Awaitable[None]], tmp_path: Path) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), asterism.open(tmp_path / "runs.db") as app:
            await scene(app)

    asyncio.run(main())


def test_a_run_returns_its_results_by_task(tmp_path: Path) -> None:
    async def scene(app: App) -> None:
        ended = await app.run(nightly)
        assert (ended.outcome, ended.summary, ended.errors, ended.inquiries) == ("finished", "3 tasks: 3 completed", {}, ())
        assert ended.results == {
            "download": ["http://x/0", "http://x/1", "http://x/2"],
            "count": {"files": 3},
            "publish": "http://x/0 and 2 more",
        }
        assert (ended.raise_for_outcome() is ended, ended.exit_code) == (True, 0)

    within(scene, tmp_path)


def test_a_script_runs_a_plan_file_of_functions_without_an_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plan.json").write_text(nightly.to_json(), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert asterism.run("plan.json", database="runs.db").results["count"] == {"files": 3}

    clashing = Constellation("clashing", params={"fleet": str})
    clashing.task(download, url=clashing.params.fleet)
    with pytest.raises(InvalidInput, match=r"parameter 'fleet' has the name of an option of asterism\.run"):
        asterism.run(clashing, fleet="x")

    async def in_a_loop() -> None:
        with pytest.raises(InvalidInput, match="cannot be called in a running event loop, as in a notebook; use: await app"):
            asterism.run(nightly)

    asyncio.run(in_a_loop())


def test_a_failed_run_raises_only_if_it_is_asked_to(tmp_path: Path) -> None:
    plan = Constellation("failing")
    plan.task(count, files=plan.task(fail, text="no paper"))

    async def scene(app: App) -> None:
        ended = await app.run(plan)
        assert (ended.outcome, ended.results) == ("failed", {})
        assert (ended.errors["fail"].code, ended.errors["fail"].message) == ("raised", "ValueError: no paper (errands.py:32)")
        assert (ended.errors["count"].code, ended.exit_code) == ("unsatisfied", 1)
        with pytest.raises(RunFailed, match=f"run {ended.run_id} is failed: fail .* is FAILED: ValueError: no paper"):
            ended.raise_for_outcome()
        limited = await app.run(plan, RunOptions(wall_limit_s=60))
        assert (await app.load(limited.run_id)).memory.options.wall_limit_s == 60

    within(scene, tmp_path)


def test_a_run_that_waits_for_a_person_goes_on_from_its_handle(tmp_path: Path) -> None:
    plan = Constellation("asking")
    plan.task(publish, first="a", files=2, requires_approval=True)

    async def scene(app: App) -> None:
        handle = await app.start(plan)
        waiting = await handle.result()
        assert (waiting.outcome, waiting.exit_code, [it.prompt for it in waiting.inquiries]) == (
            "waiting",
            3,
            ["Run publish on this computer?"],
        )
        with pytest.raises(RunFailed, match=r"is waiting: Run publish on this computer\?"):
            waiting.raise_for_outcome()
        fork = await handle.fork(1)
        assert (await fork.result()).outcome == "waiting"
        with pytest.raises(InvalidInput, match="not respond"):
            await handle.answer("respond", value=1)
        await handle.answer("edit", value={"first": "b", "files": 5}, reason="better", actor="ann")
        assert (await handle.result()).results == {"publish": "b and 4 more"}
        with pytest.raises(InvalidInput, match=f"run {handle.run_id} has 0 open questions"):
            await handle.answer("approve")
        await fork.cancel("not today")
        assert ((await fork.result()).outcome, (await fork.result()).reason) == ("cancelled", "cancelled by user: not today")

    within(scene, tmp_path)


def test_progress_has_every_entry_of_a_run(tmp_path: Path) -> None:
    async def scene(app: App) -> None:
        handle = await app.start(nightly)
        deltas = [delta async for delta in handle.progress()]
        assert [delta.seq for delta in deltas] == list(range(1, len(deltas) + 1))
        assert deltas[-1].put["run"]["outcome"] == "finished"
        assert "sent" in " ".join(delta.text for delta in deltas)
        assert [delta async for delta in app.run_of(handle.run_id).progress()] == deltas

    within(scene, tmp_path)


def test_a_paused_run_is_resumed_by_its_handle(tmp_path: Path) -> None:
    plan = Constellation("pausing")
    plan.task(publish, first="a", files=1, requires_approval=True)

    async def scene(app: App) -> None:
        handle = await app.start(plan)
        await handle.result()
        await handle.pause("later")
        assert (await handle.result()).outcome == "paused"
        await handle.resume()
        assert (await handle.result()).outcome == "waiting"

    within(scene, tmp_path)


def test_functions_that_only_this_process_has_are_performed_in_threads(tmp_path: Path) -> None:
    here = os.getpid(), threading.get_ident()

    def where(text: str, context: asterism.SkillContext) -> list[int]:
        context.progress(0.5, text)
        return [os.getpid(), threading.get_ident()]

    async def shout(text: str) -> str:
        await asyncio.sleep(0)
        return text.upper()

    plan = Constellation("threads")
    plan.task(shout, text=plan.task(lambda: "said"))
    plan.task(where, text="half")

    async def scene(app: App) -> None:
        handle = await app.start(plan)
        texts = [delta.text async for delta in handle.progress()]
        ended = await handle.result()
        assert ended.results["shout"] == "SAID"
        assert ended.results["where"][0] == here[0]
        assert ended.results["where"][1] != here[1]
        assert any("half" in text for text in texts)

    within(scene, tmp_path)


def test_a_thread_that_is_stopped_ends_its_attempt_and_occupies_its_place_until_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(Dispatcher.__init__.__kwdefaults__ or {}, "grace_s", 0.1)
    release = threading.Event()
    stopped: list[str] = []

    def block() -> None:
        release.wait(30)

    async def sleep() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            stopped.append("sleep")
            raise

    plan = Constellation("stuck")
    plan.task(block, timeout_s=0.5)
    plan.task(sleep, timeout_s=0.5)

    async def scene(app: App) -> None:
        ended = await app.run(plan)
        assert {name: error.code for name, error in ended.errors.items()} == {"block": "timeout", "sleep": "timeout"}
        assert "has not ended after" in ended.errors["block"].message
        assert "may still be running" in ended.errors["block"].message
        assert stopped == ["sleep"]

    began = time.monotonic()
    within(scene, tmp_path)
    assert time.monotonic() - began < 30
    release.set()


def test_a_run_waits_for_a_function_that_this_process_does_not_have(tmp_path: Path) -> None:
    def gone() -> str:
        return "found"

    plan = Constellation("waiting")
    task = plan.task(gone)
    source = plan.plan().tasks[0].skill
    from asterism.devices.workers import thread  # noqa: PLC0415 - its registry is cleared as by a restart

    async def scene(app: App) -> None:
        handle = await app.start(plan)
        thread._FUNCTIONS.clear()
        async for delta in handle.progress():
            if "cannot be imported, and this process has none of that name" in delta.text:
                thread.register(source, gone)
        assert (await handle.result()).results == {task.task_id: "found"}
        thread._FUNCTIONS.clear()
        with pytest.raises(InvalidInput, match=r"function <.*gone cannot be imported, and this process has none"):
            await app.start(plan)

    within(scene, tmp_path)


def test_parameters_are_given_by_name_and_handlers_change_no_outcome(tmp_path: Path) -> None:
    plan = Constellation("handled", params={"text": str})
    plan.task(fail, text=plan.params.text)
    plan.on_failure(publish, task_id="alert", first="${run.error}", files=2)
    plan.finally_(count, files=["a"])

    async def scene(app: App) -> None:
        ended = await app.run(plan, text="no paper")
        assert (ended.outcome, ended.results["count"]) == ("failed", {"files": 1})
        assert "tests.support.errands:fail) is FAILED: ValueError: no paper" in ended.results["alert"]
        with pytest.raises(InvalidInput, match=r"the plan needs text \(str\)"):
            await app.run(plan)
        with pytest.raises(InvalidInput, match="text: it is str, not int"):
            await app.run(plan, text=3)

    within(scene, tmp_path)


def test_a_request_in_words_and_a_goal_that_cannot_run_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    async def scene(app: App) -> None:
        plan = Constellation("elsewhere")
        plan.task(download, device="laptop", url="x")
        with pytest.raises(asterism.AsterismError, match="unknown device 'laptop'"):
            await app.run(plan)
        with pytest.raises(InvalidInput, match="there is no such plan file"):
            await app.run("none.json")
        with pytest.raises(asterism.RunNotFound):
            await app.run_of("none").result()
        assert await app.runs() == []

    within(scene, tmp_path)


@pytest.mark.parametrize("goal", [42, None, [], {"tasks": []}, download], ids=lambda goal: type(goal).__name__)
def test_what_is_no_goal_is_refused_with_what_is(goal: Any) -> None:
    with pytest.raises(InvalidInput, match="a run is of a Constellation, a request in words, the path of a plan file or a plan"):
        asterism.run(goal)


@pytest.mark.parametrize(
    ("arguments", "more", "why"),
    [
        (("",), {}, "the request is empty"),
        ((Path("notes.txt"),), {}, r"notes\.txt: not a plan file; its name ends in \.json, \.yaml or \.yml"),
        (("count words",), {"x": 1}, "a request in words has no parameters, so 'x' means nothing"),
        ((nightly, {"wall_limit_s": 3}), {}, r"options are RunOptions\(…\), not \{'wall_limit_s': 3\}"),
        ((nightly,), {"fleet": 42}, r"fleet: expected a fleet file or a Fleet\(…\), not 42"),
        ((nightly,), {"database": 42}, "database: expected the path of a file, not 42"),
        ((nightly,), {"depth": 2}, "the plan has no parameter 'depth'; it has none"),
    ],
)
def test_a_run_with_another_argument_is_refused_in_one_line(
    arguments: tuple[Any, ...], more: dict[str, Any], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASTERISM_DATABASE", str(tmp_path / "runs.db"))
    with pytest.raises(InvalidInput, match=why) as refused:
        asterism.run(*arguments, **more)
    assert "\n" not in str(refused.value)


def test_an_app_that_is_closed_or_of_another_event_loop_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with asterism.open(tmp_path / "runs.db") as app:
            with pytest.raises(InvalidInput, match="or open in another event loop"):
                await asyncio.to_thread(asyncio.run, app.run(nightly))
            handle = await app.start(nightly)
            await handle.result()
        for used in (app.run(nightly), app.start(nightly)):
            with pytest.raises(InvalidInput, match=r"this app is closed, .*; use it within its `async with asterism\.open"):
                await used
        with pytest.raises(InvalidInput, match="this runtime is closed"):
            await handle.result()
        with pytest.raises(asterism.AsterismError, match="this program has closed it"):
            await handle.cancel()

    asyncio.run(main())


@pytest.mark.parametrize("in_one_process", [True, False])
def test_a_run_waits_for_a_function_whose_file_was_moved(
    in_one_process: bool,  # noqa: FBT001 - a parameter of the test
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, moved = tmp_path / "jobs.py", tmp_path / "moved.py"
    file.write_text("def send() -> str:\n    return 'sent'\n", encoding="utf-8")
    plan = {"tasks": [{"task_id": "send", "device": "here", "skill": "jobs.py:send", "requires_approval": True}]}
    monkeypatch.chdir(tmp_path)

    async def asked(app: App) -> None:
        assert (await app.run(Constellation.from_plan(plan))).outcome == "waiting"
        file.rename(moved)
        if in_one_process:  # with a worker that has imported the file
            await answered(app)

    async def answered(app: App) -> None:
        handle = app.run_of((await app.runs())[0].run_id)
        await handle.answer("approve")
        async for delta in handle.progress():
            if "waits, as its function cannot be imported: there is no file jobs.py" in delta.text:
                moved.rename(file)
        ended = await handle.result()
        assert (ended.results, ended.errors) == ({"send": "sent"}, {})

    within(asked, tmp_path)
    if not in_one_process:
        within(answered, tmp_path)
