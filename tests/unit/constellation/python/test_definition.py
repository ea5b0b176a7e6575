"""Constellations as programs define them: as plans, and refused where they cannot be one."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from asterism import Constellation, InvalidInput, Param, RetryPolicy, each, skill
from asterism.constellation.machine.events import ConstellationSubmitted
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan
from asterism.constellation.model.fan_out import ForEach
from asterism.constellation.model.task import TaskSpec
from asterism.constellation.planner.plan_file import plan_of, plan_text
from asterism.constellation.requirements import rebase_plan
from asterism.engine.kernel.permissions import ALL
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.engine.kernel.run import Run
from tests.support.errands import count, download, fail, nightly, publish

ROOT = Path(__file__).parents[4]


def test_the_plan_has_a_task_for_each_call_and_a_dependency_for_each_value_that_flows() -> None:
    assert json.loads(plan_text(nightly.plan(ROOT))) == {
        "name": "nightly",
        "tasks": [
            {"task_id": "download", "device": "here", "skill": "tests.support.errands:download", "inputs": {"url": "http://x"}},
            {"task_id": "count", "device": "here", "skill": "tests.support.errands:count", "inputs": {"files": "${download}"}},
            {
                "task_id": "publish",
                "device": "here",
                "skill": "tests.support.errands:publish",
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
    assert elsewhere.tasks[0].skill == f"{ROOT}/tests.support.errands:download"
    assert rebase_plan(elsewhere, tmp_path, ROOT).tasks[0].skill == "tests.support.errands:download"
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
    assert three.constellation["tasks"][0]["skill"] == f"{ROOT}/tests.support.errands:count"


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


class Page:
    """A type that is none of JSON's."""


@pytest.mark.parametrize(
    ("params", "why"),
    [
        (
            {"a": set[int]},
            r"params\.a: set\[int\] is no type of a parameter; it is one of str, .*, dict, file, or a Param",
        ),
        ({"a": int | None}, r"params\.a: int \| None is no type of a parameter"),
        ({"a": Page}, r"params\.a: <class '.*Page'> is no type of a parameter"),
        ({"a": {"type": set}}, r"params\.a: .*'set'.* is no type of a parameter"),
        (
            {"a": dt.date},
            r"params\.a: <class 'datetime\.date'> is no type of a parameter; write str, as its values are text in JSON; it is one of str, ",
        ),
        ({"a": dt.timedelta}, r"params\.a: <class 'datetime\.timedelta'> is no type of a parameter; write str"),
        ({"a": Decimal}, r"params\.a: <class 'decimal\.Decimal'> is no type of a parameter; write str"),
        ({"a": 3}, r"params\.a: 3 is no type of a parameter"),
        ({"a": None}, r"params\.a: None is no type of a parameter"),
        (["a"], "params: expected an object of names and types, got list"),
        ({"a": Param(type="dict", default=object())}, r"params\.a\.default: <object .*> is object, which JSON does not have"),
        ({1: int}, "params: 1 is no name of a parameter"),
    ],
)
def test_a_parameter_of_another_type_is_refused_with_the_types_that_there_are(params: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        Constellation("typed", params=params)


def test_types_of_python_are_types_of_parameters() -> None:
    given: dict[str, Any] = {
        "urls": list[str],
        "sizes": {"type": dict[str, int], "default": {"a": 1}},
        "day": Param(type=str, default="today"),  # type: ignore[arg-type]
        "report": "file",
    }
    declared = Constellation("typed", params=given)._params
    assert {name: it.type for name, it in declared.items()} == {"urls": "list", "sizes": "dict", "day": "str", "report": "file"}
    assert declared["sizes"].default == {"a": 1}


def test_an_unknown_parameter_is_invalid_input_and_no_attribute() -> None:
    params = Constellation("typed", params={"url": str}).params
    with pytest.raises(InvalidInput, match="constellation 'typed' has no parameter 'ulr'; it has url"):
        params["ulr"]
    assert not hasattr(params, "ulr")


def endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"after": None}, r"None is not a task; pass what task\(…\) has returned"),
        ({"after": "download"}, "'download' is not a task"),
        ({"after": 3}, "3 is not a task"),
        ({"even_if_failed": ["download"]}, "'download' is not a task"),
        ({"condition": "files > 3"}, "condition: expected a dict of conditions by task, .*, got 'files > 3'"),
        ({"inputs": ["x"]}, "inputs: expected a dict of arguments by name, got list"),
        ({"inputs": {"url": "x"}, "url": "y"}, "argument 'url' is given twice, by its name and in inputs="),
        (
            {"url": Path("x")},
            r"download\.url is not JSON: .* of type PosixPath; an input is a text, a number, a bool, None, a list or a dict",
        ),
        ({"url": endless()}, r"download\.url: a value contains itself, or has too many lists and objects within each other"),
        ({"timeout_s": "1m"}, r"task download\.timeout_s: Expected .*; it is a number of seconds, such as 60"),
        ({"task_id": "a b"}, "'a b' is not usable; letters, digits, _ and -"),
    ],
)
def test_an_option_of_another_type_is_refused_in_one_line(options: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as refused:
        Constellation("mine").task(download, **options)
    assert "\n" not in str(refused.value)


def test_a_constellation_is_no_task_of_itself_and_has_a_text_as_its_name() -> None:
    plan = Constellation("mine", folder="jobs")
    with pytest.raises(InvalidInput, match="constellation 'mine' cannot be a task of itself"):
        plan.task(plan)
    with pytest.raises(InvalidInput, match="a constellation has a text as its name, not 3"):
        Constellation(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="not JSON"):
        Constellation.from_json(None)  # type: ignore[arg-type]
    assert plan.folder == Path("jobs")


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
        "params": {"url": {"type": "str"}, "tries": {"type": "int", "default": 3}},
        "tasks": [{"task_id": "download", "device": "here", "skill": "tests.support.errands:download", "inputs": {"url": "${params.url}"}}],
        "dependencies": [{"from": "fail", "to": "fail_2"}],
        "on_failure": [
            {
                "task_id": "fail",
                "device": "here",
                "skill": "tests.support.errands:fail",
                "inputs": {"text": "${run.error} after ${params.tries} of ${download}"},
            },
            {"task_id": "fail_2", "name": "fail", "device": "here", "skill": "tests.support.errands:fail"},
        ],
        "finally": [{"task_id": "count", "device": "here", "skill": "tests.support.errands:count", "inputs": {"files": "${download}"}}],
    }
    assert Constellation.from_json(plan.to_json(), folder=plan.folder).plan() == plan.plan()
    with pytest.raises(AttributeError, match="constellation 'nightly' has no parameter 'ulr'; it has url, tries"):
        plan.params.ulr  # noqa: B018 - looking it up is the test


def test_each_makes_a_task_for_each_item_of_a_list() -> None:
    plan = Constellation("fan-out", params={"pages": list})
    files = plan.task(download, url=each(plan.params.pages, max_concurrent=2))
    parts = plan.task(publish, first=each(files, failed="omit")["name"], files=each(files, failed="omit")["size"])
    plan.task(count, files=parts["failed"])
    (get, put, counting) = plan.plan().tasks
    assert get.for_each == ForEach(items="${params.pages}", max_concurrent=2)
    assert put.inputs == {"first": "${item.name}", "files": "${item.size}"}
    assert put.for_each == ForEach(items="${download}", failed="omit")
    assert counting.inputs == {"files": "${publish.failed}"}
    assert [line.line_id for line in plan.plan().dependencies] == ["download->publish", "publish->count"]
    assert Constellation.from_json(plan.to_json(), folder=plan.folder).plan() == plan.plan()


def test_each_takes_a_list_whose_parts_may_be_results() -> None:
    plan = Constellation("lists")
    files = plan.task(download, url="x")
    plan.task(publish, first=each([1, files[0]]), files=files)
    (_, put) = plan.plan().tasks
    assert put.for_each == ForEach(items=[1, "${download.0}"])
    assert [line.line_id for line in plan.plan().dependencies] == ["download->publish"]
    with pytest.raises(InvalidInput, match="10001 items; at most 10000"):
        plan.task(publish, first=each([0] * 10_001), files=1)


def test_each_that_cannot_be_an_input_is_refused() -> None:
    plan = Constellation("odd")
    files = plan.task(download, url="x")
    with pytest.raises(InvalidInput, match="its inputs have each"):
        plan.task(publish, first=each(files), files=each([1, 2]))
    with pytest.raises(InvalidInput, match="is not a list"):
        plan.task(publish, first=each("files"), files=1)
    with pytest.raises(TypeError, match=r"write \$\{item\} in a text"):
        plan.task(publish, first=f"{each(files)}.txt", files=1)
    with pytest.raises(TypeError, match="has no items before"):
        list(each(files))


EVERY_FIELD: dict[str, Any] = {
    "name": "whole",
    "params": {
        "day": "str",
        "tries": {"type": "int", "default": 3, "description": "attempts"},
        **{kind: kind for kind in ("float", "bool", "list", "dict")},
    },
    "tasks": [
        {"task_id": "a", "device": "desk", "skill": "work", "inputs": {"day": "${params.day}"}, "tips": ["gently"], "deadline_s": 9.0},
        {"task_id": "b", "name": "B", "description": "is b", "device": "desk", "skill": "work", "priority": 3, "timeout_s": 2.5},
        {
            "task_id": "c",
            "device": "desk",
            "skill": "work",
            "inputs": {"n": "${a.n}"},
            "when": "n > 1",
            "join": "any",
            "requires_approval": True,
            "env": {"LEVEL": "3"},
            "folder": "sub",
            "retry": {"max_attempts": 3, "backoff_s": 2.0, "max_backoff_s": 5.0, "on": ["raised", "timeout"]},
        },
        {
            "task_id": "each",
            "device": "desk",
            "skill": "work",
            "for_each": {"items": "${params.list}", "max_concurrent": 2, "failed": "omit"},
            "inputs": {"file": "${item}"},
        },
        {"task_id": "pause", "wait": {"for_s": 60.0}},
        {
            "task_id": "inner",
            "inputs": {"day": "mon"},
            "constellation": {
                "params": {"day": "str"},
                "tasks": [{"task_id": "x", "device": "desk", "skill": "work", "inputs": {"day": "${params.day}"}}],
                "finally": [{"task_id": "y", "device": "desk", "skill": "work"}],
            },
        },
    ],
    "dependencies": [
        {"from": "a", "to": "each"},
        {"from": "a", "to": "c", "condition": "n > 0"},
        {"id": "late", "from": "b", "to": "c", "type": "COMPLETION_ONLY"},
        {"from": "inner", "to": "c", "type": "UNCONDITIONAL"},
    ],
    "on_failure": [{"task_id": "alert", "device": "desk", "skill": "work", "inputs": {"text": "${run.error}"}}],
    "finally": [{"task_id": "clean", "device": "desk", "skill": "work", "when": "true", "inputs": {}}],
}


def test_every_field_of_a_plan_survives_a_file_a_constellation_and_a_run() -> None:
    plan = parse_plan(EVERY_FIELD)
    text = plan_text(plan)
    assert parse_plan(json.loads(text)) == plan
    assert Constellation.from_json(text).to_json() == text
    assert {field for task in plan.tasks for field in msgspec.to_builtins(task)} == {*TaskSpec.__struct_fields__}
    assert json.loads(text)["params"]["day"] == {"type": "str"}
    assert json.loads(text)["tasks"][-1]["constellation"] == {
        **EVERY_FIELD["tasks"][-1]["constellation"],
        "params": {"day": {"type": "str"}},
    }

    run = Run(CONSTELLATION_AGENT, "r")
    desk = AgentProfile(device_id="desk", skills=(Skill(name="work", parameters={"additionalProperties": True}),))
    params = {"day": "mon", "tries": 3, "float": 0.5, "bool": True, "list": [], "dict": {}}
    run.take(ConstellationSubmitted(request="x", fleet=(desk,), plan=plan, params=params), at=0.0, actor="", permissions=ALL)
    assert plan_text(plan_of(run.memory.constellation, "whole", plan.params)) == text


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
