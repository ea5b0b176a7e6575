"""Plan files: JSON or YAML, each thing wrong with one is one error that names the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from asterism.errors import InvalidInput
from asterism.planner.plan_file import plan_path, read_plan

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
        ("plan.yaml", "tasks: [", "not YAML"),
        ("plan.json", '{"tasks": {"a": {}, "a": {}}}', "'a' is there twice"),
        ("plan.yml", "tasks:\n  a: {}\n  a: {}\n", "'a' is there twice"),
        ("plan.yaml", YAML, "unknown field 'defaults'"),
        ("plan.json", "[" * 100_000, "within each other"),
        ("plan.json", '{"tasks": []}', "plan"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(tmp_path: Path, name: str, text: str, why: str) -> None:
    path = written(tmp_path, name, text)
    with pytest.raises(InvalidInput) as refused:
        read_plan(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert why in str(refused.value)


def test_an_inherited_yaml_key_may_be_overridden(tmp_path: Path) -> None:
    text = "tasks:\n  - &first {task_id: a, name: one, device: desk}\n  - {<<: *first, task_id: b}\n"
    assert [task.name for task in read_plan(written(tmp_path, "plan.yaml", text)).tasks] == ["one", "one"]


def test_words_are_a_request_and_a_name_that_ends_as_a_plan_must_be_there(tmp_path: Path) -> None:
    there = written(tmp_path, "plan.yaml", "tasks: {}")
    assert plan_path(str(there)) == there
    assert plan_path("count the files on desk") is None
    assert plan_path("write the result to out.json") is None
    with pytest.raises(InvalidInput, match="there is no such plan file"):
        plan_path("missing.json")
    (folder := tmp_path / "folder.json").mkdir()
    with pytest.raises(InvalidInput, match="cannot be read: Is a directory"):
        read_plan(plan_path(str(folder)) or tmp_path)
