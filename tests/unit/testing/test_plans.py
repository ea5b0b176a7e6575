"""Plans of Python functions in a world: their fleet, their script and their parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

from asterism import Constellation, Param, each
from asterism.conversation.python import StandardAgent
from asterism.devices.port import Attempt
from asterism.errors import InvalidInput
from asterism.testing.device import Behaviour
from asterism.testing.plans import fleet_of, script_of
from asterism.testing.world import World
from tests.support import errands


def shout(text: str, times: int) -> str:
    return text.upper() * times


PUBLISHED = {"publish": Behaviour(duration_s=60, result="sent")}


def test_the_functions_of_a_plan_are_called_and_replaced_by_name() -> None:
    world = World(7, fleet=fleet_of(errands.nightly), script=script_of(errands.nightly, PUBLISHED))
    ending = world.run(errands.nightly)
    assert (ending.outcome, ending.task("count").result, ending.task("publish").result) == ("finished", {"files": 3}, "sent")
    (here,) = fleet_of(errands.nightly.plan())
    assert [skill.idempotent for skill in here.skills] == [True, False, False]


def test_a_function_that_fails_fails_its_task() -> None:
    plan = Constellation("plan")
    plan.task(errands.fail, text="no paper")
    error = World(7, fleet=fleet_of(plan), script=script_of(plan)).run(plan).task("fail").error
    assert error is not None
    assert (error.code, "no paper" in error.words) == ("raised", True)


def test_one_item_of_a_list_fails_and_the_others_call_the_function() -> None:
    def broken(attempt: Attempt) -> Behaviour | None:
        return Behaviour(breaks="no paper") if attempt.arguments["url"] == "b" else None

    plan = Constellation("plan", params={"urls": list[str]})
    plan.task(errands.download, url=each(plan.params.urls, failed="omit"))
    ending = World(7, fleet=fleet_of(plan), script=script_of(plan, {"download": broken})).run(plan, params={"urls": ["a", "b", "c"]})
    assert (ending.outcome, ending.task("download").result) == ("finished", [["a/0", "a/1", "a/2"], ["c/0", "c/1", "c/2"]])


def test_a_behaviour_for_only_some_attempts_of_an_async_function_fails_the_others() -> None:
    script = script_of(errands.nightly, {"publish": lambda _: None})
    error = World(7, fleet=fleet_of(errands.nightly), script=script).run(errands.nightly).task("publish").error
    assert error is not None
    assert "is async, and a script cannot await it; return a Behaviour for each attempt" in error.words


def test_relative_sources_count_from_the_folder_of_the_constellation(tmp_path: Path) -> None:
    (tmp_path / "greetings_of_plans.py").write_text("def greet() -> str:\n    return 'hello'\n", encoding="utf-8")
    written = {"tasks": [{"task_id": "greet", "device": "here", "skill": "greetings_of_plans.py:greet"}]}
    plan = Constellation.from_plan(written, folder=tmp_path)
    assert World(7, fleet=fleet_of(plan), script=script_of(plan)).run(plan).task("greet").result == "hello"
    with pytest.raises(InvalidInput, match=rf"^there is no file greetings_of_plans\.py \(searched from the folder {Path.cwd()}\)$"):
        fleet_of(written)  # a plan has no folder of its own


def test_a_flow_agent_finds_the_functions_of_its_plan_with_the_fleet_of_the_constellation(tmp_path: Path) -> None:
    (tmp_path / "pages_of_plans.py").write_text(
        "def count() -> int:\n    return 3\n\n\ndef publish() -> str:\n    raise OSError\n", encoding="utf-8"
    )
    tasks = [{"task_id": name, "device": "here", "skill": f"pages_of_plans.py:{name}"} for name in ("count", "publish")]
    constellation = Constellation.from_plan({"tasks": tasks}, folder=tmp_path)

    class Report(StandardAgent):
        plan = constellation

    for given in (constellation, Report.plan):
        world = World(7, fleet=fleet_of(given), script=script_of(given, PUBLISHED))
        ending = world.run_flow(Report, ["report"])
        (child,) = ending.children
        assert (ending.outcome, child.task("count").result, child.task("publish").result) == ("finished", 3, "sent")
    world = World(7, fleet=fleet_of(constellation), script=script_of(constellation, PUBLISHED))
    assert str(tmp_path) not in world.run(constellation).journal.decode(), "the journal is the same in every folder"


def test_an_async_function_and_an_unknown_name_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r":publish is async, and a script cannot await it; give it a Behaviour$"):
        script_of(errands.nightly)
    with pytest.raises(InvalidInput, match=r"^behaviours: unknown 'publsh'; known: 'download', 'count', 'publish'$"):
        script_of(errands.nightly, {"publsh": Behaviour()})


def test_the_parameters_of_a_plan_are_checked() -> None:
    plan = Constellation("plan", params={"text": str, "times": Param(type="int", default=2)})
    plan.task(shout, text=plan.params.text, times=plan.params.times)
    for given, why in (
        ({"text": 3}, r"^params\.text: it is str, not int$"),
        ({"txt": "a"}, r"^the plan has no parameter 'txt'; did you mean text\?$"),
        ({"times": 3}, r"^the plan needs text \(str\)$"),
    ):
        with pytest.raises(InvalidInput, match=why):
            World(7, fleet=fleet_of(plan)).run(plan, params=given)
    world = World(7, fleet=fleet_of(plan), script=script_of(plan))
    assert world.run(plan, params={"text": "a"}).task("shout").result == "AA"
    with pytest.raises(InvalidInput, match=r"^the plan has no parameter 'text'; it has none$"):
        World(7).run(request="in words", params={"text": "a"})


def test_a_world_without_the_functions_of_its_plan_says_what_it_needs() -> None:
    with pytest.raises(InvalidInput, match=r"fleet=fleet_of\(plan\), script=script_of\(plan\)"):
        World(1).run(errands.nightly)
