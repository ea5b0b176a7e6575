from __future__ import annotations

from typing import Any

import pytest

from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.edits import EditRefused
from asterism.constellation.model.resolution import arguments_of, check_line, check_task, fallback_devices, predecessor_results, skill_for
from asterism.constellation.model.task import TaskStar, TaskStatus
from asterism.devices.model.references import MissingReference
from asterism.engine.kernel.profile import AgentProfile, Fleet, Skill
from tests.support.constellations import end, lines
from tests.support.example_fleets import digits

FLEET = digits()


def task(**fields: Any) -> TaskStar:
    return TaskStar(task_id="t", **fields)


# -- which skill -------------------------------------------------------------------------------------


def never(words: str, profile: AgentProfile) -> str:
    raise AssertionError(words)


def test_a_named_skill_is_used() -> None:
    assert skill_for(task(device="laptop", skill="download_mnist"), FLEET, never) == "download_mnist"


def test_the_skill_of_the_same_name_is_used() -> None:
    assert skill_for(task(device="gpu_server", name="train_cnn"), FLEET, never) == "train_cnn"


def test_else_the_one_clear_match_of_its_words() -> None:
    assert skill_for(task(device="prod_server", name="publish_model", description="Deploy the model"), FLEET) == "deploy"


def test_an_agent_needs_no_skill() -> None:
    fleet: Fleet = {"agent": AgentProfile(device_id="agent", natural_language=True)}
    assert skill_for(task(device="agent", description="do it"), fleet, never) == ""


@pytest.mark.parametrize(
    ("fields", "code", "told"),
    [
        ({"device": "mars"}, "unknown_device", "unknown device 'mars'; the fleet has laptop, gpu_server, test_server, prod_server"),
        ({}, "unknown_device", "it names no device; the fleet has laptop"),
        ({"device": "laptop", "skill": "fly"}, "unknown_skill", "laptop has no skill 'fly'; nearest: download_mnist"),
        ({"device": "laptop", "name": "bake_a_cake"}, "unknown_skill", "no skill of laptop clearly fits 'bake a cake'; nearest:"),
    ],
)
def test_a_task_that_nothing_can_do_is_refused(fields: dict[str, Any], code: str, told: str) -> None:
    with pytest.raises(EditRefused, match=told) as raised:
        skill_for(task(**fields), FLEET)
    assert (raised.value.refusal.code, raised.value.refusal.what) == (code, "t")


def test_an_empty_fleet_says_so() -> None:
    with pytest.raises(EditRefused, match="the fleet has no device"):
        skill_for(task(device="laptop"), {})


# -- what is checked against the skills --------------------------------------------------------------


def pipeline(**inputs: Any) -> TaskConstellation:
    it = TaskConstellation.from_dict(
        {
            "tasks": [
                {"task_id": "get", "name": "download_mnist", "device": "laptop"},
                {"task_id": "fit", "name": "train_cnn", "device": "gpu_server", "inputs": inputs},
            ],
            "dependencies": lines("get>fit"),
        }
    )
    for one in it.tasks.values():
        one.resolved_skill = skill_for(one, FLEET)
    return it


def test_an_argument_that_the_skill_does_not_take_is_refused() -> None:
    it = pipeline(colour="red")
    with pytest.raises(EditRefused, match="train_cnn takes dataset, epochs, learning_rate") as raised:
        check_task(it.tasks["fit"], it, FLEET)
    assert (raised.value.refusal.code, raised.value.refusal.what) == ("unknown_argument", "fit.inputs.colour")


def test_a_reference_to_a_field_that_the_source_does_not_return_is_refused() -> None:
    it = pipeline(dataset="${get.file}")
    with pytest.raises(EditRefused, match="the result of get has no 'file'; it has dataset") as raised:
        check_task(it.tasks["fit"], it, FLEET)
    assert raised.value.refusal.code == "bad_reference"


def test_a_condition_over_a_field_that_the_source_does_not_return_is_refused() -> None:
    it = pipeline()
    it.lines["get->fit"].condition = "accuracy > 0.5 && samples > 1"
    with pytest.raises(EditRefused, match="asks for 'accuracy', the result of get has dataset") as raised:
        check_line(it.lines["get->fit"], it, FLEET)
    assert (raised.value.refusal.code, raised.value.refusal.what) == ("bad_reference", "get->fit")


def test_what_is_right_passes() -> None:
    it = pipeline(dataset="${get.dataset}", epochs=3)
    it.lines["get->fit"].condition = "samples > 1"
    check_task(it.tasks["fit"], it, FLEET)
    check_line(it.lines["get->fit"], it, FLEET)


def test_nothing_is_checked_where_the_output_is_not_known() -> None:
    fleet = {device: AgentProfile(device_id=device, natural_language=True) for device in ("laptop", "gpu_server")}
    it = pipeline(anything="${get.any}")
    for one in it.tasks.values():
        one.resolved_skill = ""
    check_task(it.tasks["fit"], it, fleet)


# -- arguments ---------------------------------------------------------------------------------------


def test_references_are_filled_in() -> None:
    it = pipeline(dataset="${get.dataset}", epochs="${get.samples}")
    end(it, "get", result={"dataset": "/d", "samples": 7})
    assert arguments_of(it.tasks["fit"], it, FLEET) == {"dataset": "/d", "epochs": 7}


def test_missing_arguments_come_by_name_from_preceding_results() -> None:
    it = pipeline(epochs=1)
    end(it, "get", result={"dataset": "/d", "epochs": 99, "noise": 0.5})
    assert arguments_of(it.tasks["fit"], it, FLEET) == {"epochs": 1, "dataset": "/d"}


def test_of_several_that_have_it_the_task_added_last_counts() -> None:
    it = TaskConstellation.from_dict(
        {
            "tasks": [{"task_id": task_id, "device": "d"} for task_id in ("a", "b", "c")],
            "dependencies": lines("b>c a>c"),
        }
    )
    fleet = {"d": AgentProfile(device_id="d", skills=(Skill(name="s", parameters={"properties": {"x": {}}}),))}
    it.tasks["c"].resolved_skill = "s"
    end(it, "a", result={"x": "from a"})
    end(it, "b", result={"x": "from b"})
    assert list(predecessor_results(it.tasks["c"], it)) == ["a", "b"]
    assert arguments_of(it.tasks["c"], it, fleet) == {"x": "from b"}


@pytest.mark.parametrize("status", [TaskStatus.FAILED, TaskStatus.SKIPPED, TaskStatus.CANCELLED])
def test_a_reference_to_a_source_without_a_result_is_missing(status: TaskStatus) -> None:
    it = pipeline(dataset="${get.dataset}")
    end(it, "get", status)
    with pytest.raises(MissingReference, match="get ended without a result"):
        arguments_of(it.tasks["fit"], it, FLEET)


def test_the_result_of_a_failed_predecessor_is_not_carried() -> None:
    it = pipeline()
    end(it, "get", TaskStatus.FAILED, {"dataset": "/half"})
    assert predecessor_results(it.tasks["fit"], it) == {}


def test_a_stand_in_has_the_same_skill() -> None:
    both = Skill(name="s")
    fleet = {name: AgentProfile(device_id=name, skills=(both,)) for name in "abc"} | {"d": AgentProfile(device_id="d")}
    assert fallback_devices(task(device="b", resolved_skill="s"), fleet) == ["a", "c"]
    assert fallback_devices(task(device="b"), fleet) == []
