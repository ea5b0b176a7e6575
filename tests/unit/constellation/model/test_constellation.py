from __future__ import annotations

import json
from typing import Any

import pytest

from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.line import DependencyType, Evaluation, TaskStarLine
from asterism.constellation.model.task import TaskStatus
from asterism.devices.model.attempt import TaskError
from asterism.engine.kernel.phrase import phrase
from asterism.errors import InvalidInput
from tests.support.constellations import action, constellation, edit, end, judge_all, lines, plan, ready, seed, tasks

# -- documents in ------------------------------------------------------------------------------------


def test_the_seeds_creation_reply_is_a_constellation() -> None:
    it = TaskConstellation.from_dict(seed("creation"))
    assert list(it.tasks) == ["task_001", "task_002", "task_003", "task_004"]
    assert it.lines["task_003->task_004"].condition == "accuracy > 0.95"
    assert it.validate_dag() == (True, [])
    assert ready(it) == ["task_001"]


def test_lists_and_objects_give_the_same_constellation() -> None:
    by_id = {
        "tasks": {task["task_id"]: task for task in tasks("a b")},
        "dependencies": {"a->b": lines("a>b")[0]},
    }
    assert TaskConstellation.from_dict(by_id).to_dict() == constellation("a b", "a>b").to_dict()


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (plan("a b c", "a>b b>c c>a"), "the plan has a cycle: a -> b -> c -> a"),
        (plan("a b c d", "a>b b>c c>b c>d"), "the plan has a cycle: b -> c -> b"),
        (plan("a", "a>a"), "dependency a->a: cycle: a -> a"),
        (plan("a", "a>b"), "dependency a->b: there is no task 'b'"),
        (plan("a", "b>a"), "dependency b->a: there is no task 'b'"),
        ({**plan("a b", "a>b"), "dependencies": [*lines("a>b"), {"id": "again", "from": "a", "to": "b"}]}, "a -> b is there already"),
        ({**plan("a b"), "dependencies": [{"from": "a", "to": "b", "type": "CONDITIONAL"}]}, "a condition is empty"),
        ({**plan("a b"), "dependencies": [{"from": "a", "to": "b", "condition": "x >"}]}, "'x >' does not parse"),
        (
            {**plan("a b"), "dependencies": [{"from": "a", "to": "b", "type": "SUCCESS_ONLY", "condition": "ok"}]},
            "a condition goes with type CONDITIONAL, not SUCCESS_ONLY",
        ),
        (
            {"tasks": [*tasks("a"), *tasks("b", inputs={"x": "${a.y}"})]},
            r'inputs refer to \$\{a…\}, but a is not upstream of it; add to the plan: "dependencies": \[{"from": "a", "to": "b"}\]$',
        ),
        ({"tasks": tasks("a", inputs={"x": "${a.y}"})}, "a is not upstream of it$"),
        ({"tasks": tasks("a", inputs={"x": "${nobody.y}"})}, "nobody is not upstream of it$"),
        (
            {"tasks": [*tasks("a", inputs={"x": "${b.y}"}), *tasks("b")], "dependencies": lines("a>b")},
            "b is not upstream of it$",  # the dependency would close a cycle
        ),
        (
            {**plan("a b c"), "dependencies": [{"from": "a", "to": "b", "condition": 'tasks["c"].result.x > 1'}]},
            'the condition of a->b asks about tasks\\["c"\\], but c is not upstream of it',
        ),
        ({**plan("a"), "version": 1}, "plan: unknown field 'version'"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_refused(document: Any, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        TaskConstellation.from_dict(document)


@pytest.mark.parametrize("text", ["", "{", "[1", "nul", "[" * 100_000])
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not JSON"):
        TaskConstellation.from_json(text)


def test_a_reference_may_go_upstream_by_any_way() -> None:
    document = plan("a b c", "a>b b>c:UNCONDITIONAL")
    document["tasks"][2]["inputs"] = {"x": "${a.y}"}
    assert TaskConstellation.from_dict(document).referring == {"c": {"a"}}


# -- documents out and back --------------------------------------------------------------------------


def lived_through() -> TaskConstellation:
    it = TaskConstellation.from_dict({"constellation_id": "c", "name": "n", **plan("a b c d e", "a>b a>c:UNCONDITIONAL c>d d>e")})
    end(it, "a", TaskStatus.FAILED)
    it.tasks["a"].error = TaskError(code="raised", message="boom")
    edit(it, action("remove_task", task_id="e"), action("update_task", task_id="d", inputs={"x": 1}, retry={"max_attempts": 2}))
    end(it, "c", TaskStatus.COMPLETED, {"rows": [1, 2]})
    it.tasks["c"].attempts, it.tasks["c"].started_at, it.tasks["c"].ended_at = 2, 5.0, 6.5
    it.version = 7
    it.generation = 1
    return it


def test_statuses_and_evaluations_survive_a_round_trip() -> None:
    it = lived_through()
    again = TaskConstellation.from_dict(it.to_dict())
    assert again.to_dict() == it.to_dict()
    assert again.tasks == it.tasks
    assert again.lines == it.lines
    assert again.lines["a->b"].verdict == Evaluation(satisfied=False, reason=phrase("task_is", task="a", status="FAILED"))
    assert (again.version, again.generation, again.constellation_id, again.name) == (7, 1, "c", "n")
    assert list(again.removed_tasks) == ["e"]
    assert list(again.removed_lines) == ["d->e"]


def test_a_restored_constellation_knows_ready_and_unsatisfiable_tasks() -> None:
    again = TaskConstellation.from_json(lived_through().to_json(indent=2))
    assert ready(again) == ["d"]
    assert again.is_unsatisfiable("b")
    assert again.validate_dag() == (True, [])


def test_json_goes_out_and_comes_back() -> None:
    it = constellation("a b", "a>b")
    assert TaskConstellation.from_json(it.to_json()).to_dict() == it.to_dict() == json.loads(it.to_json())


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"tasks": [{"task_id": "a"}, {"task_id": "a"}]}, "task_id 'a' is there twice"),
        ({"dependencies": [{"id": "x", "from": "a", "to": "z"}]}, "there is no task 'z'"),
        ({"dependencies": [{"id": "x", "from": "a", "to": "b"}, {"id": "y", "from": "b", "to": "a"}]}, "a cycle: a -> b -> a"),
        ({"dependencies": [{"id": "x", "from": "a", "to": "b", "type": "CONDITIONAL", "condition": "1 +"}]}, "does not parse"),
        ({"tasks": [{"task_id": "a", "status": "DANCING"}]}, "Invalid enum value 'DANCING'"),
        ({"colour": "red"}, "unknown field `colour`"),
    ],
)
def test_a_snapshot_that_was_changed_badly_is_refused(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        TaskConstellation.from_dict({**constellation("a b").to_dict(), **changed})


# -- validate_dag ------------------------------------------------------------------------------------


def test_validate_dag_reports_a_cycle_with_its_path() -> None:
    it = constellation("a b c d", "a>b b>c c>d")
    it.insert_line(TaskStarLine(line_id="d->b", source="d", target="b"))
    assert it.validate_dag() == (False, ["cycle: b -> c -> d -> b"])


def test_validate_dag_reports_a_dependency_without_an_end() -> None:
    it = constellation("a b", "a>b")
    it.lines["lost"] = TaskStarLine(line_id="lost", source="a", target="z")
    assert it.validate_dag() == (False, ["dependency lost: there is no task 'z'"])


def test_validate_dag_reports_a_wrong_count() -> None:
    it = constellation("a b", "a>b")
    it._open["b"] = 0
    assert it.validate_dag() == (False, ["task b: 0 open dependencies are counted, 1 are there"])


# -- ready, doomed -----------------------------------------------------------------------------------


def recomputed(it: TaskConstellation) -> list[str]:
    return [
        task.task_id
        for task in it.in_order()
        if task.editable and all(line.verdict is not None and line.verdict.satisfied for line in it.lines_in(task.task_id))
    ]


def test_the_ready_set_is_the_recomputed_one_after_every_step() -> None:
    it = constellation("a b c d e f", "a>b a>c:COMPLETION_ONLY b>d c>d:UNCONDITIONAL d>e c>f:result.x>1")
    seen = [ready(it)]
    for task_id, status, result in [
        ("a", TaskStatus.FAILED, None),
        ("c", TaskStatus.COMPLETED, {"x": 2}),
        ("b", TaskStatus.SKIPPED, None),
        ("f", TaskStatus.COMPLETED, None),
    ]:
        end(it, task_id, status, result)
        assert ready(it) == recomputed(it)
        assert it.validate_dag() == (True, [])
        seen.append(ready(it))
    assert seen == [["a"], ["c"], ["f"], ["f"], []]
    assert it.is_unsatisfiable("d")


class Counted(dict[str, Any]):
    """A dict that counts how often it was read."""

    reads = 0

    def __getitem__(self, key: str) -> Any:
        Counted.reads += 1
        return super().__getitem__(key)


@pytest.mark.parametrize("size", [100, 1000])
def test_a_completion_costs_its_out_degree_whatever_the_size(size: int) -> None:
    it = constellation(" ".join(f"t{number}" for number in range(size)), " ".join(f"t{number}>t{number + 1}" for number in range(size - 1)))
    it.tasks, it.lines, it._open = Counted(it.tasks), Counted(it.lines), Counted(it._open)
    it.dirty.clear()
    Counted.reads = 0
    it.tasks["t5"].status = TaskStatus.COMPLETED
    it.source_settled("t5")
    for line_id in tuple(it.unevaluated):
        it.set_evaluation(line_id, Evaluation(satisfied=True))
    assert list(it.dirty) == ["t6"]
    assert Counted.reads < 15


def test_readiness_is_checked_again_only_after_the_first_or_last_open_dependency() -> None:
    it = constellation("a b c", "a>c b>c")
    it.dirty.clear()
    it.set_evaluation("a->c", Evaluation(satisfied=True))
    assert it.dirty == {"c": False}
    it.set_evaluation("b->c", Evaluation(satisfied=True))
    assert it.dirty == {"c": True}


def test_readiness_is_checked_again_after_a_refused_dependency_and_its_removal() -> None:
    it = constellation("a b c", "a>c b>c")
    it.set_evaluation("a->c", Evaluation(satisfied=True))
    it.dirty.clear()
    it.set_evaluation("b->c", Evaluation(satisfied=False, reason="b is FAILED"))
    assert (it.dirty, it.is_ready("c"), it.is_unsatisfiable("c")) == ({"c": True}, False, True)
    it.dirty.clear()
    it.delete_line("b->c")
    assert (it.dirty, it.is_ready("c"), it.is_unsatisfiable("c")) == ({"c": True}, True, False)


def test_tasks_become_ready_in_the_order_in_which_their_dependencies_first_change() -> None:
    it = constellation("a b c d", "a>c b>c a>d")
    it.dirty.clear()
    for line_id in ("a->c", "a->d", "b->c"):
        it.set_evaluation(line_id, Evaluation(satisfied=True))
    assert list(it.dirty) == ["c", "d"]


def test_an_evaluation_waits_for_every_task_that_its_condition_names() -> None:
    it = constellation("a b c", "a>c b>c")
    edit(it, action("update_dependency", dependency_id="a->c", condition='tasks["b"].result.x > 1'))
    end(it, "a", result={"x": 0})
    assert not it.is_unsatisfiable("c")
    end(it, "b", result={"x": 2})
    assert it.lines["a->c"].verdict == Evaluation(satisfied=True)
    assert ready(it) == ["c"]


def test_a_dependency_on_a_settled_task_is_evaluated_at_once() -> None:
    it = constellation("a b")
    end(it, "a")
    edit(it, action("add_dependency", from_="a", to="b"))
    assert list(it.unevaluated) == ["a->b"]
    judge_all(it)
    assert it.lines["a->b"].verdict == Evaluation(satisfied=True)


# -- reading -----------------------------------------------------------------------------------------


def test_neighbours_ancestors_and_paths() -> None:
    it = constellation("a b c d", "a>b b>c a>d")
    assert (it.predecessors("c"), it.successors("a")) == (["b"], ["b", "d"])
    assert (it.ancestors("c"), it.descendants("a")) == ({"a", "b"}, {"b", "c", "d"})
    assert it.path("a", "c") == ["a", "b", "c"]
    assert it.path("c", "a") is None
    assert it.path("a", "a") == ["a"]
    assert it.cycle_through("c", "a") == ["c", "a", "b", "c"]
    assert it.cycle_through("d", "c") is None
    assert it.cycle_through("b", "b") == ["b", "b"]


def test_a_chain_of_20_000_tasks_needs_no_recursion() -> None:
    size = 20_000
    it = constellation(" ".join(f"t{number}" for number in range(size)), " ".join(f"t{number}>t{number + 1}" for number in range(size - 1)))
    assert it.validate_dag() == (True, [])
    assert len(it.descendants("t0")) == size - 1
    path = it.path("t0", f"t{size - 1}")
    assert path is not None
    assert len(path) == size
    assert it.cycle_through(f"t{size - 1}", "t0") is not None


def test_the_types_are_the_four() -> None:
    assert [str(kind) for kind in DependencyType] == ["UNCONDITIONAL", "SUCCESS_ONLY", "COMPLETION_ONLY", "CONDITIONAL"]
