"""How a run with handlers, parameters, conditions over inputs and joins is shown."""

from __future__ import annotations

from typing import Any

import msgspec

from asterism.constellation.form import FORM
from asterism.constellation.machine.events import ConstellationSubmitted
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan
from asterism.constellation.view.graph import mermaid_flowchart
from asterism.constellation.view.metrics import measure
from asterism.constellation.view.show import ShownConstellation, task_status_words
from asterism.constellation.view.task_details import metric_lines
from asterism.constellation.view.task_lines import plan_lines
from asterism.devices.model.attempt import TaskError
from asterism.engine.control.run_control import BatchEnded, OwnershipAcquired
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.profile import Skill
from asterism.engine.kernel.run import Run
from asterism.engine.ports.store import RunRow
from asterism.views.text.history import HistoryLine, why_lines
from asterism.views.text.show import read_tree, show_data, show_lines
from tests.unit.views.text.test_history import WORK, Written, unread

DESK = {"device": "desk", "skill": "work"}
PLAN: dict[str, Any] = {
    "params": {"url": "str", "keep": {"type": "int", "default": 7}},
    "tasks": [
        {"task_id": "a", **DESK, "inputs": {"url": "${params.url}"}},
        {"task_id": "b", **DESK},
        {"task_id": "lost", **DESK},
        {"task_id": "first", **DESK, "join": "any"},
        {"task_id": "rare", **DESK, "inputs": {"n": "${params.keep}"}, "when": "n > 10"},
    ],
    "dependencies": [{"from": "a", "to": "first"}, {"from": "b", "to": "first"}],
    "on_failure": [{"task_id": "alert", **DESK}],
    "finally": [{"task_id": "clean", **DESK}],
}
BROKEN = TaskError(code="raised", message="it broke")


class Scene(Written):
    """The plan above, submitted with a value."""

    def __init__(self) -> None:
        self.run = Run(CONSTELLATION_AGENT, "r")
        self.entries = []
        any_argument = Skill(name="work", parameters={"additionalProperties": True})
        desk = msgspec.structs.replace(WORK, skills=(any_argument,))
        params = {"url": "https://x", "keep": 7}
        self.at(0, ConstellationSubmitted(request="views", fleet=(desk,), plan=parse_plan(PLAN), params=params), "ada")
        self.at(0, OwnershipAcquired(epoch=1, owner="me"))
        self.at(0, BatchEnded())

    def read(self) -> tuple[ShownConstellation, list[HistoryLine]]:
        history = unread()
        return history, history.read(self.entries)


def failed() -> Scene:
    scene = Scene()
    scene.end(1, "a")
    scene.end(2, "b", BROKEN)
    scene.end(2, "lost", BROKEN)
    scene.end(3, "first")
    return scene


def to_the_end(scene: Scene, *handlers: str) -> Scene:
    for number, handler in enumerate(handlers):
        scene.end(4 + number, handler)
    return scene


def standing(scene: Scene, task_id: str) -> str:
    return task_status_words(scene.read()[0], task_id)


def test_handlers_are_marked_and_counted_apart() -> None:
    scene = failed()
    history, lines = scene.read()
    drawn = {str(line).split()[1]: str(line) for line in history.status_lines(110, 80) if len(str(line).split()) > 1}
    assert ["on failure" in drawn["alert"], "finally" in drawn["clean"], "finally" in drawn["a"]] == [True, True, False]
    assert history.summary() == "2 of 5 done, 2 failed, 1 skipped; handlers: 1 running"
    assert str(lines[0].text) == "submitted with a plan of 5 tasks and 2 handlers: views (url=https://x keep=7)"
    assert str(metric_lines(measure(history, 110))[0]).startswith("  5 tasks and 2 handlers, 5 attempts;")
    assert "<br/>on failure" in mermaid_flowchart(history.constellation)
    assert [word for word in ("on failure", "finally") if word in "\n".join(map(str, plan_lines(history.constellation)))] == [
        "on failure",
        "finally",
    ]
    scene.end(4, "alert")
    assert scene.read()[0].summary() == "2 of 5 done, 2 failed, 1 skipped; handlers: 1 done, 1 running"
    scene.end(5, "clean")
    history, _ = scene.read()
    assert history.summary() == "2 of 5 done, 2 failed, 1 skipped; handlers: 2 done"


def test_show_has_the_values_of_the_parameters() -> None:
    scene = to_the_end(failed(), "alert", "clean")
    pack = packer(CONSTELLATION_AGENT).pack
    records = [pack(entry) for entry in scene.entries]
    row = RunRow(
        run_id="r",
        machine=CONSTELLATION_AGENT.name,
        root="r",
        status="ended",
        state="FAIL",
        outcome="failed",
        seq=len(records),
        title="views",
    )
    tree = read_tree("r", [(row, records)], lambda _: FORM)
    shown = [str(line) for line in show_lines(tree, 110, lambda at, _: f"{at:g}")]
    assert "parameters url=https://x keep=7" in shown
    assert any(line.split()[:4] == ["alert", "completed", "on", "failure"] for line in shown)
    assert show_data(tree, 110)["params"] == {"url": "https://x", "keep": 7}


def test_the_clocks_of_an_interrupted_run_stop_at_its_last_entry() -> None:
    scene = failed()
    pack = packer(CONSTELLATION_AGENT).pack
    records = [pack(entry) for entry in scene.entries]
    row = RunRow(run_id="r", machine=CONSTELLATION_AGENT.name, root="r", status="active", state="CONTINUE", seq=len(records), title="v")

    def shown(owner: str, now: float) -> list[str]:
        tree = read_tree("r", [(msgspec.structs.replace(row, owner=owner), records)], lambda _: FORM)
        return [str(line) for line in show_lines(tree, now, lambda at, _: f"{at:g}")]

    last_at = scene.entries[-1].at
    assert f"interrupted: no process has worked on it since {last_at:g}" in shown("", 9000)
    assert shown("", 9000) == shown("", last_at)
    assert shown("driver", 9000) != shown("driver", last_at)
    assert not any("interrupted" in line for line in shown("driver", 9000))


def test_why_says_the_arguments_that_a_task_started_with() -> None:
    history, lines = failed().read()
    told = [str(line) for line in why_lines("a", "", history.events_of("a", lines), lambda at, _: f"{at:g}")]
    assert "      arguments: url=https://x" in told
    assert standing(failed(), "rare") == "SKIPPED: n > 10 is false: n is 7"


def test_why_of_a_join_says_which_dependency_admitted_it_and_which_results_it_got() -> None:
    said = standing(failed(), "first")
    assert said == "COMPLETED: admitted by a->first; got the results of a; a->first is satisfied; b->first is not satisfied: b is FAILED"


def test_why_of_a_handler_says_why_it_ran_or_did_not() -> None:
    scene = to_the_end(failed(), "alert", "clean")
    reason = "the run failed: lost (work) is FAILED: it broke"
    assert [standing(scene, it) for it in ("alert", "clean")] == [f"COMPLETED: {reason}"] * 2
    scene = Scene()
    for at, task in enumerate(("a", "b", "lost", "first"), 1):
        scene.end(at, task)
    to_the_end(scene, "clean")
    assert [standing(scene, it) for it in ("alert", "clean")] == ["SKIPPED: the run did not fail", "COMPLETED: the run finished"]
    assert [standing(Scene(), it) for it in ("alert", "clean")] == [
        "runs if the run fails",
        "runs at the end of the run",
    ]
