"""Plan files, JSON or YAML: each problem is one error that names the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from asterism.constellation.model.documents import parse_plan
from asterism.constellation.planner import plan_yaml
from asterism.constellation.planner.plan_file import plan_path, read_plan
from asterism.errors import InvalidInput

YAML = """
defaults: &defaults
  device: desk
tasks:
  - {task_id: a, name: one}
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_yaml_and_json_say_the_same(tmp_path: Path) -> None:
    as_yaml = written(tmp_path, "plan.yaml", "tasks:\n  a: {name: one, device: desk}\n  b: {name: two}\ndependencies: [{from: a, to: b}]\n")
    as_json = written(
        tmp_path,
        "plan.json",
        '{"tasks": {"a": {"name": "one", "device": "desk"}, "b": {"name": "two"}}, "dependencies": [{"from": "a", "to": "b"}]}',
    )
    assert read_plan(as_yaml) == read_plan(as_json)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("plan.json", "{", "not JSON"),
        ("plan.yaml", "tasks: [", "not YAML: line "),
        ("plan.yaml", "tasks:\n  - task_id: a\n   name: b\n", "not YAML: line 3 column 4: did not find expected '-' indicator"),
        ("plan.json", '{"tasks": {"a": {}, "a": {}}}', "duplicate name 'a'"),
        ("plan.yml", "tasks:\n  a: {}\n  a: {}\n", "duplicate name 'a'"),
        ("plan.yaml", YAML, "unknown field 'defaults'"),
        ("plan.json", "[" * 100_000, "nested too deeply"),
        ("plan.json", '{"tasks": []}', "plan"),
        ("plan.yaml", "tasks: " + "[" * 100_000, "more than 200 levels of nested lists and objects"),
        ("plan.yaml", "tasks: [&a 1" + ", *a" * 21 + "]", "more than 20 aliases"),
        ("plan.yaml", "tasks:\n" + "- {}\n" * 20_001, "more than 20000 tasks in one plan"),
        ("plan.yaml", "name: x\nconstellation:\n  tasks:\n" + "".join(f"    t{i}: {{}}\n" for i in range(20_001)), "more than 20000 tasks"),
    ],
)
def test_an_invalid_plan_file_is_reported_with_its_name(tmp_path: Path, name: str, text: str, why: str) -> None:
    path = written(tmp_path, name, text)
    with pytest.raises(InvalidInput) as refused:
        read_plan(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert why in str(refused.value)


def test_seconds_in_words_and_text_that_is_no_json_are_told_with_what_is_allowed(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"timeout_s: Expected .*; it is a number of seconds, such as 60$"):
        read_plan(written(tmp_path, "plan.yaml", "tasks: {a: {timeout_s: 1m}}"))
    with pytest.raises(
        InvalidInput, match=r"not JSON: Expecting value: line 1 column 12 .*; JSON has its names and texts in double quotes"
    ):
        read_plan(written(tmp_path, "plan.json", '{"tasks": [,]}'))


@pytest.mark.parametrize("name", ["plan.json", "plan.yaml"])
def test_a_file_that_is_too_large_is_refused_without_reading_all_of_it(tmp_path: Path, name: str) -> None:
    with (path := tmp_path / name).open("wb") as file:
        file.truncate(10**8)
    with pytest.raises(InvalidInput) as refused:
        read_plan(path)
    assert str(refused.value) == f"{path}: a plan file may have at most 16 MiB; move large data to files that the tasks read"


def test_yaml_with_too_many_values_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_yaml, "MAX_VALUES", 100)
    with pytest.raises(InvalidInput, match="more than 100 names and values; write the plan as JSON"):
        read_plan(written(tmp_path, "plan.yaml", f"tasks: [{{inputs: {{tasks: {[1] * 100}}}}}]"))


def test_only_the_tasks_of_a_plan_count_as_tasks(tmp_path: Path) -> None:
    path = written(tmp_path, "plan.yaml", f"tasks:\n  a:\n    name: one\n    inputs:\n      tasks: {[1] * 20_001}\n")
    assert [task.task_id for task in read_plan(path).tasks] == ["a"]


def test_an_inherited_yaml_key_may_be_overridden(tmp_path: Path) -> None:
    text = "tasks:\n  - &first {task_id: a, name: one, device: desk}\n  - {<<: *first, task_id: b}\n"
    assert [task.name for task in read_plan(written(tmp_path, "plan.yaml", text)).tasks] == ["one", "one"]


@pytest.mark.parametrize("key", ["on", '"on"', "'on'", "? on\n", "true", "True", "!!bool on"])
def test_the_field_on_is_read_however_it_is_written(tmp_path: Path, key: str) -> None:
    text = f"tasks:\n  a:\n    retry:\n      max_attempts: 2\n      {key}: [raised]\n".replace("\n: ", "\n      : ")
    assert read_plan(written(tmp_path, "plan.yaml", text)).tasks[0].retry.on == ("raised",)


def test_a_plan_that_a_program_has_read_as_yaml_1_1_keeps_its_field_on(tmp_path: Path) -> None:
    plan = yaml.safe_load("tasks: {a: {retry: {max_attempts: 2, on: [raised]}}}")
    assert parse_plan(plan).tasks[0].retry.on == ("raised",)
    assert read_plan(written(tmp_path, "plan.yaml", yaml.safe_dump(plan))) == parse_plan(plan)
    with pytest.raises(
        InvalidInput, match=r'unknown field `true`; .*; the program that wrote the plan has read on as true: it must read "on"'
    ):
        read_plan(written(tmp_path, "plan.json", json.dumps(plan)))
    with pytest.raises(InvalidInput, match="in YAML, put a name such as on, yes or no in quotes"):
        parse_plan({"tasks": {"a": {"retry": {True: ["raised"], "on": ["timeout"]}}}})


@pytest.mark.parametrize("name", ["plan.yaml", "plan.json"])
def test_a_type_as_the_name_of_an_input_of_when_is_named(tmp_path: Path, name: str) -> None:
    text = '{"tasks": {"a": {"inputs": {"bytes": 3}, "when": "bytes > 2"}}}'
    with pytest.raises(InvalidInput, match=r"; bytes is a type there, so give the input another name$"):
        read_plan(written(tmp_path, name, text))


@pytest.mark.parametrize("name", ["plan.yaml", "plan.json"])
@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('{"tasks": {"a": {"skil": "x"}}}', "; did you mean skill?"),
        ('{"task": {"a": {}}, "tasks": {}}', "; did you mean tasks?"),
        ('{"tasks": {"a": {"retry": {"max_attempt": 2}}}}', "; did you mean max_attempts?"),
        ('{"tasks": {"a": {"xyz": "x"}}}', "folder, wait"),
    ],
)
def test_an_unknown_field_is_told_with_what_was_meant(tmp_path: Path, name: str, text: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_plan(written(tmp_path, name, text))
    assert str(refused.value).endswith(hint)


def test_text_is_a_request_and_a_plan_file_name_must_exist(tmp_path: Path) -> None:
    there = written(tmp_path, "plan.yaml", "tasks: {}")
    assert plan_path(str(there)) == there
    assert plan_path("count the files on desk") is None
    assert plan_path("write the result to out.json") is None
    assert plan_path("write the result to out.toml") is None
    with pytest.raises(InvalidInput, match=r"plan\.toml: a plan file is JSON or YAML"):
        plan_path("plan.toml")
    with pytest.raises(InvalidInput, match="there is no such plan file"):
        plan_path("missing.json")
    (folder := tmp_path / "folder.json").mkdir()
    with pytest.raises(InvalidInput, match="cannot be read: Is a directory"):
        read_plan(plan_path(str(folder)) or tmp_path)
