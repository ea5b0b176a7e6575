from __future__ import annotations

import re
from typing import Any

import pytest

from asterism.constellation.model.batch import apply_edits
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.documents import parse_task
from asterism.constellation.model.edits import EditRefused, parse_action
from asterism.constellation.model.nesting import apply_on_fleet
from asterism.devices.model.environment import MAX_ENV_BYTES, MAX_FOLDER
from asterism.engine.kernel.profile import HERE, AgentProfile, ChildSpec, Fleet, Skill
from asterism.errors import InvalidInput

NO_PROCESS = "runs in a thread of the program; define it at the top level of a file"
FLEET: Fleet = {
    "box": AgentProfile(device_id="box", skills=(Skill(name="do"),)),
    "agent": AgentProfile(device_id="agent", kind="agent", natural_language=True, child=ChildSpec(machine="m", definition={})),
    HERE: AgentProfile(device_id=HERE, skills=(Skill(name="<__main__>:do"), Skill(name="jobs.py:do"))),
}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"env": {"A=B": ""}}, "task.env: 'A=B' cannot be the name of a variable; use letters, digits and _"),
        ({"env": {"": ""}}, "task.env: '' cannot be the name of a variable; use letters, digits and _"),
        ({"env": {"1A": ""}}, "task.env: '1A' cannot be the name of a variable; use letters, digits and _"),
        ({"env": {"A": "x\0y"}}, "task.env.A: contains a NUL character, which no variable may; remove it"),
        ({"env": {"A": "${b.path}"}}, "task.env.A: a reference ${…} can only stand in inputs; pass the value as an input"),
        ({"env": {"A": 1}}, "task.env[...]: Expected `str`, got `int`"),
        ({"env": {f"A{n}": "" for n in range(101)}}, "task.env: 101 variables; at most 100"),
        ({"env": {"A": "é" * (MAX_ENV_BYTES // 2)}}, f"task.env: {MAX_ENV_BYTES + 2} bytes; at most {MAX_ENV_BYTES}"),
        ({"folder": "x\0y"}, "task.folder: not the path of a folder; at most 4096 characters, without NUL"),
        ({"folder": "x" * (MAX_FOLDER + 1)}, "task.folder: not the path of a folder; at most 4096 characters, without NUL"),
    ],
)
def test_variables_and_folders_that_no_process_can_have_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{re.escape(told)}$"):
        parse_task({"task_id": "t", "device": "box", **given})


@pytest.mark.parametrize(
    ("task", "told"),
    [
        (
            {"device": "agent", "description": "go", "env": {"A": "b"}},
            "t: it cannot have its own env: the tasks of 'agent', a device of kind agent, are runs of their own",
        ),
        (
            {"device": HERE, "skill": "<__main__>:do", "folder": "x"},
            f"t: it cannot have its own folder: function <__main__>:do {NO_PROCESS}",
        ),
    ],
)
def test_a_task_without_a_process_of_its_own_is_refused(task: dict[str, Any], told: str) -> None:
    with pytest.raises(EditRefused, match=f"^{re.escape(told)}$"):
        apply_on_fleet(TaskConstellation(), [parse_action({"tool": "add_task", "parameters": {"task_id": "t", **task}})], FLEET)


def test_tasks_in_processes_have_variables_and_folders_and_edits_change_them() -> None:
    it = TaskConstellation()
    for task_id, more in (("a", {"device": "box", "skill": "do"}), ("b", {"device": HERE, "skill": "jobs.py:do"})):
        given = {"task_id": task_id, "env": {"MODE": "fast"}, "folder": "data", **more}
        apply_on_fleet(it, [parse_action({"tool": "add_task", "parameters": given})], FLEET)
    apply_edits(it, [parse_action({"tool": "update_task", "parameters": {"task_id": "a", "env": {}, "folder": "other"}})])
    assert [(task.env, task.folder) for task in it.in_order()] == [({}, "other"), ({"MODE": "fast"}, "data")]
    with pytest.raises(EditRefused, match="cannot be the name of a variable"):
        apply_edits(it, [parse_action({"tool": "update_task", "parameters": {"task_id": "a", "env": {"A-B": ""}}})])
