"""Constellations as programs define them: as plans, and refused where they cannot be one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from asterism import Constellation, InvalidInput, Param, RetryPolicy, skill
from asterism.constellation.documents import parse_plan
from asterism.constellations.plans import plan_text, rebase_plan
from tests.errands import count, download, fail, nightly, publish

ROOT = Path(__file__).parents[3]


def test_the_plan_has_a_task_for_each_call_and_a_dependency_for_each_value_that_flows() -> None:
    assert json.loads(plan_text(nightly.plan(ROOT))) == {
        "name": "nightly",
        "tasks": [
            {"task_id": "download", "device": "here", "skill": "tests.errands:download", "inputs": {"url": "http://x"}},
            {"task_id": "count", "device": "here", "skill": "tests.errands:count", "inputs": {"files": "${download}"}},
            {
                "task_id": "publish",
                "device": "here",
                "skill": "tests.errands:publish",
                "inputs": {"first": "${download.0}", "files": "${count.files}"},
            },
        ],
        "dependencies": [
            {"from": "download", "to": "count"},
            {"from": "download", "to": "publish"},
            {"from": "count", "to": "publish"},
        ],
    }


def test_a_plan_in_code_and_in_a_file_are_the_same_value() -> None:
    text = nightly.to_json()
    again = Constellation.from_json(text, folder=nightly.folder)
    assert again.to_json() == text
    assert again.plan() == nightly.plan() == parse_plan(json.loads(text))
    again.task(count, files=again["download"])
    assert [task.task_id for task in again.plan().tasks] == ["download", "count", "publish", "count_2"]


def test_sources_of_functions_follow_the_folder_that_they_count_from(tmp_path: Path) -> None:
    elsewhere = nightly.plan(tmp_path)
    assert elsewhere.tasks[0].skill == f"{ROOT}/tests.errands:download"
    assert rebase_plan(elsewhere, tmp_path, ROOT).tasks[0].skill == "tests.errands:download"
    assert rebase_plan(rebase_plan(elsewhere, tmp_path, ROOT), ROOT, tmp_path) == elsewhere


def test_a_task_takes_the_options_that_a_task_of_a_plan_file_has() -> None:
    plan = Constellation("all")
    first = plan.task(download, url="x", retry=RetryPolicy(max_attempts=3), timeout_s=5, priority=2, task_id="get")
    second = plan.task(fail, after=first, requires_approval=True, deadline_s=60)
    plan.task(count, files=["a"], even_if_failed=[second], condition={first: "size(result) > 1"})
    (get, failing, counting) = plan.plan().tasks
    assert (get.task_id, get.name, get.retry.max_attempts, get.timeout_s, get.priority) == ("get", "download", 3, 5, 2)
    assert (failing.requires_approval, failing.deadline_s, counting.inputs) == (True, 60, {"files": ["a"]})
    assert [(line.source, line.target, line.dependency_type, line.condition) for line in plan.plan().dependencies] == [
        ("get", "fail", "SUCCESS_ONLY", ""),
        ("fail", "count", "COMPLETION_ONLY", ""),
        ("get", "count", "CONDITIONAL", "size(result) > 1"),
    ]


def test_a_value_within_a_text_a_list_or_an_object_is_a_reference() -> None:
    plan = Constellation("deep")
    got = plan.task("fetch", device="web", url="x")
    plan.task("use", device="web", text=f"see {got['a']['b']}!", nested={"it": [got]})
    assert plan.plan().tasks[1].inputs == {"text": "see ${fetch.a.b}!", "nested": {"it": ["${fetch}"]}}
    assert [line.line_id for line in plan.plan().dependencies] == ["fetch->use"]


def test_a_skill_of_a_device_a_request_to_an_agent_and_a_constellation_are_tasks() -> None:
    inner = Constellation("inner")
    inner.task(count, files="${inputs.files}")
    plan = Constellation("outer")
    plan.task(download, device="laptop", url="x")
    plan.task("look up a heron", device="agent")
    plan.task(inner, files=["a"])
    (one, two, three) = plan.plan().tasks
    assert (one.device, one.skill) == ("laptop", "download")
    assert (two.device, two.skill, two.description, two.task_id) == ("agent", "", "look up a heron", "task")
    assert three.constellation is not None
    assert three.constellation["tasks"][0]["skill"] == f"{ROOT}/tests.errands:count"


@skill(name="greet_person")
def greet(device: str, name: str = "") -> str:
    return f"{device} {name}"


def test_an_argument_with_the_name_of_an_option_is_given_as_one_of_the_inputs() -> None:
    plan = Constellation("greeting")
    plan.task(greet, inputs={"device": "x"}, name="Ann")
    assert plan.plan().tasks[0].inputs == {"device": "x", "name": "Ann"}
    assert plan.plan().tasks[0].task_id == "greet_person"
    with pytest.raises(InvalidInput, match="parameter 'device' has the name of an option of task"):
        plan.task(greet, device="x")


def test_mistakes_are_refused_where_they_are_made() -> None:
    plan, other = Constellation("mine"), Constellation("other")
    got, foreign = plan.task(download, url="x"), other.task(download, url="x")
    with pytest.raises(InvalidInput, match=r"task count: count has no parameter 'file'; did you mean files"):
        plan.task(count, file=got)
    with pytest.raises(
        InvalidInput, match=r"count\.files: <Task \$\{download\} of constellation 'other'> belongs to another constellation"
    ):
        plan.task(count, files=foreign)
    with pytest.raises(InvalidInput, match="another task of constellation 'mine' has this id"):
        plan.task(count, files=[], task_id="download")
    with pytest.raises(InvalidInput, match="'fetch' names a skill; name its device, too"):
        plan.task("fetch")
    with pytest.raises(InvalidInput, match="a task is a function, a constellation or the name of a skill, not 3"):
        plan.task(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"task publish\.timeout_s: Expected `float` > 0.0"):
        plan.task(publish, timeout_s=-1)
    with pytest.raises(InvalidInput, match=r"count\.files is not JSON"):
        plan.task(count, files={object()})
    with pytest.raises(InvalidInput, match="a reference can name fields of letters, digits, _ and - only"):
        got["a b"]
    with pytest.raises(InvalidInput, match="constellation 'mine' has no task 'cont'; it has download"):
        plan["cont"]
    with pytest.raises(TypeError, match=r"\$\{download\} has no items before the task has run"):
        list(got)
    with pytest.raises(TypeError, match="no value before the task has run"):
        bool(got)
    with pytest.raises(InvalidInput, match=r"constellation 'none'\.tasks: there is nothing to do"):
        Constellation("none").plan()
    assert [task.task_id for task in plan.plan().tasks] == ["download"]


def test_two_functions_of_one_name_that_cannot_be_imported_are_refused() -> None:
    plan = Constellation("lambdas")
    first, second = (lambda: 1), (lambda: 2)
    plan.task(first)
    with pytest.raises(InvalidInput, match=r"two functions of this constellation are called <.*>:.*<lambda>@\d+; name them with def"):
        plan.task(second)


def test_parameters_and_handlers_are_written_as_in_a_plan_file() -> None:
    plan = Constellation("nightly", params={"url": str, "tries": Param(type="int", default=3)})
    got = plan.task(download, url=plan.params.url)
    told = plan.on_failure(fail, text=f"${{run.error}} after {plan.params['tries']} of {got}")
    plan.on_failure(fail, after=told)
    plan.finally_(count, files=got)
    assert json.loads(plan_text(plan.plan(ROOT))) == {
        "name": "nightly",
        "params": {"url": {}, "tries": {"type": "int", "default": 3}},
        "tasks": [{"task_id": "download", "device": "here", "skill": "tests.errands:download", "inputs": {"url": "${params.url}"}}],
        "dependencies": [{"from": "fail", "to": "fail_2"}],
        "on_failure": [
            {
                "task_id": "fail",
                "device": "here",
                "skill": "tests.errands:fail",
                "inputs": {"text": "${run.error} after ${params.tries} of ${download}"},
            },
            {"task_id": "fail_2", "name": "fail", "device": "here", "skill": "tests.errands:fail"},
        ],
        "finally": [{"task_id": "count", "device": "here", "skill": "tests.errands:count", "inputs": {"files": "${download}"}}],
    }
    assert Constellation.from_json(plan.to_json(), folder=plan.folder).plan() == plan.plan()
    with pytest.raises(AttributeError, match="constellation 'nightly' has no parameter 'ulr'; it has url, tries"):
        plan.params.ulr  # noqa: B018 - looking it up is the test


def test_a_task_has_variables_and_a_working_folder(tmp_path: Path) -> None:
    plan = Constellation("all")
    plan.task(download, url="x", env={"MODE": "fast"}, working_folder="data")
    plan.on_failure(count, files=[], env={"MODE": "slow"})
    plan.finally_(publish, first="", files=0, working_folder=tmp_path)
    assert [(task.env, task.folder) for task in plan.plan().tasks] == [
        ({"MODE": "fast"}, "data"),
        ({"MODE": "slow"}, ""),
        ({}, str(tmp_path)),
    ]
    assert Constellation.from_json(plan.to_json(), folder=plan.folder).plan() == plan.plan()


def test_an_option_that_a_parameter_has_the_name_of_is_not_taken_for_it() -> None:
    def deploy(env: str = "test") -> None:
        """Deploy."""

    plan = Constellation("deploy")
    with pytest.raises(InvalidInput, match=r"its parameter 'env' has the name of an option of task\(…\); give it as inputs=\{'env': …\}"):
        plan.task(deploy, env="prod")  # type: ignore[arg-type]
    assert plan.task(deploy, inputs={"env": "prod"}).task_id == "deploy"
    with pytest.raises(InvalidInput, match=r"task download\.env: Expected `object`, got `str`"):
        plan.task(download, url="x", env="prod")  # type: ignore[arg-type]
