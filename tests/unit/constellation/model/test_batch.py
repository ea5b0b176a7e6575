from __future__ import annotations

from typing import Any

import pytest

from asterism.constellation.model.batch import apply_edits
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.edits import Applied, EditRefused, RemoveDependency, RemoveTask, UpdateTask, parse_action
from asterism.constellation.model.task import TaskStatus
from tests.support.constellations import action, constellation, edit, end, judge_all, plan, ready, seed, shape, tasks

A = action


def small() -> TaskConstellation:
    """``a`` is done, ``b`` runs, the rest waits; ``x`` and ``c->x`` were removed."""
    it = constellation("a b c d x", "a>b a>c b>d c>d c>x")
    end(it, "a", result={"rows": 1})
    it.tasks["b"].status = TaskStatus.RUNNING
    edit(it, A("remove_task", task_id="x"))
    return it


def build(document: dict[str, Any], **more: Any) -> dict[str, Any]:
    return A("build_constellation", config=document, **more)


def refuse(it: TaskConstellation, *actions: dict[str, Any]) -> None:
    """Apply the batch with a last look that refuses it."""

    def check(_: Applied) -> None:
        raise EditRefused("unavailable", "batch", "refused by the last look")

    with pytest.raises(EditRefused, match="refused by the last look"):
        apply_edits(it, [parse_action(one) for one in actions], check)


APPLIED = [
    A("add_task", task_id="e", device="d", inputs={"n": 1}),
    A("remove_task", task_id="d"),
    A("update_task", task_id="d", name="new", tips="mind", inputs={"x": "${a.rows}"}, priority=3, timeout_s=5, requires_approval=True),
    A("update_task", task_id="c", retry={"max_attempts": 4}),
    A("add_dependency", from_="b", to="c", type="COMPLETION_ONLY"),
    A("add_dependency", id="mine", from_="a", to="d", condition="rows > 0"),
    A("remove_dependency", dependency_id="c->d"),
    A("update_dependency", dependency_id="c->d", type="UNCONDITIONAL"),
    A("update_dependency", dependency_id="a->c", condition="rows > 5"),
    build(plan("e f", "e>f"), clear=False),
    A("add_task", task_id="x", device="d"),
]


# -- applied, idempotent, rolled back -----------------------------------------------------------------------


@pytest.mark.parametrize("one", APPLIED, ids=lambda one: one["tool"])
def test_an_edit_is_applied_and_the_version_grows(one: dict[str, Any]) -> None:
    it = small()
    before, version = shape(it), it.version
    assert edit(it, one).changed
    assert shape(it) != before
    assert it.version == version + 1
    assert it.validate_dag() == (True, [])


@pytest.mark.parametrize("one", APPLIED, ids=lambda one: one["tool"])
def test_the_same_edit_again_changes_nothing_and_says_so(one: dict[str, Any]) -> None:
    it = small()
    edit(it, one)
    before = it.to_dict()
    again = edit(it, one)
    assert not again.changed
    assert again.notes
    assert it.to_dict() == before


@pytest.mark.parametrize("one", APPLIED, ids=lambda one: one["tool"])
def test_an_edit_that_the_last_look_refuses_leaves_no_trace(one: dict[str, Any]) -> None:
    it = small()
    before = it.to_dict()
    refuse(it, one)
    judge_all(it)
    assert it.to_dict() == before
    assert it.validate_dag() == (True, [])


def test_a_refused_batch_is_rolled_back_as_a_whole() -> None:
    it = constellation("a b c", "a>b b>c", inputs={"n": 1})
    before = it.to_dict()
    refuse(
        it,
        A("add_task", task_id="d", device="d"),
        A("add_dependency", from_="c", to="d"),
        A("update_task", task_id="b", name="new"),
        A("update_dependency", dependency_id="a->b", type="UNCONDITIONAL"),
        A("remove_task", task_id="b"),
        A("update_task", task_id="d", inputs={"x": "${c.y}"}),
    )
    assert it.to_dict() == before


def test_the_edited_parts_are_reported() -> None:
    it = small()
    applied = edit(
        it, A("add_task", task_id="e", device="d"), A("add_dependency", from_="d", to="e"), A("update_task", task_id="c", name="n")
    )
    assert (applied.tasks, applied.lines, applied.notes) == (("e", "c"), ("d->e",), ())
    assert edit(it, A("add_task", task_id="f"), A("remove_task", task_id="f")).tasks == ()


@pytest.mark.parametrize(
    ("one", "note"),
    [
        (A("add_task", task_id="d", device="d"), "add_task d: it is there already"),
        (A("remove_task", task_id="x"), "remove_task x: it was removed already"),
        (A("update_task", task_id="d", device="d"), "update_task d: it is so already"),
        (A("update_task", task_id="a", device="d"), "update_task a: it is so already"),
        (A("add_dependency", from_="a", to="b"), "add_dependency a->b: it is there already"),
        (A("remove_dependency", dependency_id="c->x"), "remove_dependency c->x: it was removed already"),
        (A("update_dependency", dependency_id="a->b", type="SUCCESS_ONLY"), "update_dependency a->b: it is so already"),
    ],
)
def test_what_is_so_already_is_said_even_of_what_has_started(one: dict[str, Any], note: str) -> None:
    applied = edit(small(), one)
    assert applied == Applied(notes=applied.notes)
    assert [*map(str, applied.notes)] == [note]


# -- refused -------------------------------------------------------------------------------------------

REFUSED = [
    (A("add_task", task_id="d", device="other"), "different_content", "d"),
    (A("remove_task", task_id="never"), "unknown_task", "never"),
    (A("remove_task", task_id="a"), "read_only", "a"),
    (A("remove_task", task_id="b"), "read_only", "b"),
    (A("update_task", task_id="never", name="n"), "unknown_task", "never"),
    (A("update_task", task_id="b", name="n"), "read_only", "b"),
    (A("update_task", task_id="d", colour="red"), "bad_content", "d.colour"),
    (A("update_task", task_id="d", status="COMPLETED"), "bad_content", "d.status"),
    (A("update_task", task_id="d", timeout_s=-1), "bad_content", "d"),
    (A("update_task", task_id="d", inputs={"x": "${never.y}"}), "bad_reference", "d"),
    (A("update_task", task_id="c", inputs={"x": "${d.y}"}), "bad_reference", "c"),
    (A("add_dependency", from_="never", to="d"), "unknown_task", "never"),
    (A("add_dependency", from_="a", to="never"), "unknown_task", "never"),
    (A("add_dependency", from_="a", to="b", type="UNCONDITIONAL"), "different_content", "a->b"),
    (A("add_dependency", id="other", from_="a", to="b"), "different_content", "other"),
    (A("add_dependency", id="c->d", from_="a", to="d"), "different_content", "c->d"),
    (A("add_dependency", from_="c", to="b"), "read_only", "b"),
    (A("add_dependency", from_="c", to="c"), "cycle", "c -> c"),
    (A("add_dependency", from_="d", to="c"), "cycle", "d -> c -> d"),
    (A("add_dependency", from_="a", to="d", condition="1 +"), "bad_content", "a->d"),
    (A("add_dependency", from_="a", to="d", type="CONDITIONAL"), "bad_content", "a->d"),
    (A("add_dependency", from_="a", to="d", type="SUCCESS_ONLY", condition="ok"), "bad_content", "a->d"),
    (A("add_dependency", from_="a", to="d", condition='tasks["never"].status == "FAILED"'), "bad_reference", "d"),
    (A("remove_dependency", dependency_id="never"), "unknown_dependency", "never"),
    (A("remove_dependency", dependency_id="a->b"), "read_only", "b"),
    (A("update_dependency", dependency_id="never", type="UNCONDITIONAL"), "unknown_dependency", "never"),
    (A("update_dependency", dependency_id="a->b", type="UNCONDITIONAL"), "read_only", "b"),
    (A("update_dependency", dependency_id="c->d", condition="x >"), "bad_content", "c->d"),
    (A("update_dependency", dependency_id="c->d", type="CONDITIONAL"), "bad_content", "c->d"),
    (A("update_dependency", dependency_id="c->d", type="SUCCESS_ONLY", condition="x > 1"), "bad_content", "c->d"),
    (build(plan("e f")), "read_only", "a"),
    (build(plan("e f", "e>f f>e"), clear=False), "cycle", "e -> f -> e"),
    (build(plan("d e"), clear=False), None, None),
    (build(plan("d", device="other"), clear=False), "different_content", "d"),
]


@pytest.mark.parametrize(("one", "code", "what"), REFUSED, ids=lambda it: it["tool"] if isinstance(it, dict) else str(it))
def test_an_edit_is_refused_by_code_and_changes_nothing(one: dict[str, Any], code: str | None, what: str | None) -> None:
    it = small()
    if code is None:
        edit(it, one)
        return
    before, order = it.to_dict(), (list(it.tasks), ready(it), dict(it.unevaluated))
    with pytest.raises(EditRefused) as raised:
        edit(it, A("add_task", task_id="x", device="d"), A("remove_dependency", dependency_id="b->d"), one)
    refusal = raised.value.refusal
    assert (refusal.code, refusal.what) == (code, what)
    assert refusal.why
    assert str(raised.value) == f"{refusal.what}: {refusal.why}"
    assert it.to_dict() == before
    assert (sorted(it.tasks), ready(it), it.unevaluated) == (sorted(order[0]), *order[1:])
    assert it.validate_dag() == (True, [])


def test_a_refused_batch_leaves_the_tombstones_in_their_order() -> None:
    it = constellation("a b c", "a>b a>c")
    edit(it, A("remove_task", task_id="b"), A("remove_task", task_id="c"))
    before = it.to_dict()
    with pytest.raises(EditRefused):
        edit(it, A("add_task", task_id="b"), A("add_dependency", from_="a", to="b"), A("remove_task", task_id="never"))
    assert it.to_dict() == before
    assert before["removed_tasks"] == ["b", "c"]


def test_a_last_look_that_refuses_undoes_everything() -> None:
    it = small()
    before = it.to_dict()

    def check(applied: Applied) -> None:
        assert applied.tasks == ("e",)
        raise EditRefused("unknown_device", "e", "no such device")

    with pytest.raises(EditRefused, match="no such device"):
        apply_edits(it, [RemoveTask(task_id="d"), parse_action(A("add_task", task_id="e"))], check)
    assert it.to_dict() == before


def test_a_cycle_is_refused_per_edit_with_its_path() -> None:
    it = constellation("a b c d", "a>b b>c c>d")
    with pytest.raises(EditRefused, match="d -> b -> c -> d: d -> b would close this cycle"):
        edit(it, A("add_dependency", from_="d", to="b"), A("remove_dependency", dependency_id="b->c"))
    edit(it, A("remove_dependency", dependency_id="b->c"), A("add_dependency", from_="d", to="b"))
    assert it.path("c", "b") == ["c", "d", "b"]


def test_references_are_checked_for_the_batch_and_not_for_each_edit() -> None:
    it = constellation("a b")
    edit(it, A("update_task", task_id="b", inputs={"x": "${a.y}"}), A("add_dependency", from_="a", to="b"))
    assert it.referring == {"b": {"a"}}


def test_a_dependency_that_a_reference_needs_cannot_be_removed() -> None:
    document = plan("a b c d", "a>b b>c b>d")
    document["tasks"][2]["inputs"] = {"x": "${a.y}"}
    for one in (A("remove_dependency", dependency_id="a->b"), A("remove_task", task_id="b"), A("remove_task", task_id="a")):
        it = TaskConstellation.from_dict(document)
        with pytest.raises(EditRefused, match="a is not upstream of it") as raised:
            edit(it, one)
        assert (raised.value.refusal.code, raised.value.refusal.what) == ("bad_reference", "c")


def test_a_task_that_a_condition_asks_about_cannot_be_removed() -> None:
    it = constellation("a b c", "a>b b>c")
    edit(it, A("update_dependency", dependency_id="b->c", condition='tasks["a"].result.x > 1'))
    with pytest.raises(EditRefused, match='asks about tasks\\["a"\\], but a is not upstream'):
        edit(it, A("remove_task", task_id="a"))


def test_true_and_one_are_different_content() -> None:
    it = constellation("a", inputs={"flag": 1})
    assert edit(it, A("update_task", task_id="a", inputs={"flag": True})).changed
    assert it.tasks["a"].inputs["flag"] is True
    with pytest.raises(EditRefused, match="different content"):
        edit(it, A("add_task", task_id="a", device="d", inputs={"flag": 1}))


def test_a_default_that_is_spelled_out_is_the_same_content() -> None:
    it = constellation("a")
    assert not edit(it, A("add_task", task_id="a", device="d", retry={}, tips=[], inputs={}, requires_approval=False)).changed


def test_a_task_whose_successor_has_settled_cannot_be_removed() -> None:
    it = constellation("a b c", "a>c b>c")
    end(it, "a", TaskStatus.FAILED)
    end(it, "c", TaskStatus.SKIPPED)
    with pytest.raises(EditRefused) as raised:
        edit(it, A("remove_task", task_id="b"))
    assert (raised.value.refusal.code, raised.value.refusal.what) == ("read_only", "c")


def test_a_dependency_may_be_edited_while_its_source_runs() -> None:
    it = small()
    assert edit(it, A("update_dependency", dependency_id="b->d", type="UNCONDITIONAL")).changed
    assert edit(it, A("remove_dependency", dependency_id="b->d")).changed


def test_an_edited_dependency_is_evaluated_again() -> None:
    it = small()
    assert not it.is_unsatisfiable("c")
    edit(it, A("update_dependency", dependency_id="a->c", condition="rows > 5"))
    assert it.lines["a->c"].verdict is None
    assert list(it.unevaluated) == ["a->c"]


@pytest.mark.parametrize("status", [it for it in TaskStatus if it not in (TaskStatus.PENDING, TaskStatus.WAITING_DEPENDENCY)])
def test_only_tasks_that_have_not_started_may_be_edited(status: TaskStatus) -> None:
    it = constellation("a")
    it.tasks["a"].status = status
    for one in (A("update_task", task_id="a", name="n"), A("remove_task", task_id="a")):
        with pytest.raises(EditRefused, match=f"it is {status}; only PENDING and WAITING_DEPENDENCY tasks may be edited"):
            edit(it, one)


# -- build_constellation -------------------------------------------------------------------------------


def test_clear_puts_a_plan_in_place_of_what_is_there() -> None:
    it = constellation("a b", "a>b")
    edit(it, build(plan("b c", "b>c", name="new")))
    assert (list(it.tasks), list(it.lines)) == (["b", "c"], ["b->c"])
    assert it.tasks["b"].name == "new"
    assert list(it.removed_tasks) == ["a"]


def test_clear_is_the_default_and_false_merges() -> None:
    it = constellation("a b", "a>b")
    edit(it, build(plan("b c", "b>c"), clear=False))
    assert (list(it.tasks), list(it.lines)) == (["a", "b", "c"], ["a->b", "b->c"])


def test_clear_with_the_plan_that_is_there_changes_nothing_though_it_runs() -> None:
    it = constellation("a b", "a>b")
    it.tasks["a"].status = TaskStatus.RUNNING
    assert not edit(it, build(plan("a b", "a>b"))).changed


def test_a_refused_clear_leaves_everything_there() -> None:
    it = constellation("a b", "a>b:ok", name="old")
    before = it.to_dict()
    refuse(it, build(plan("b c", "b>c", name="new")))
    assert it.to_dict() == before


def test_a_constellation_has_a_greatest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asterism.constellation.model.batch.MAX_TASKS", 3)
    it = constellation("a b c")
    with pytest.raises(EditRefused, match="at most 3 tasks") as raised:
        edit(it, A("add_task", task_id="d"))
    assert raised.value.refusal.code == "too_many"


# -- the seeds' example ----------------------------------------------------------------------------------


def test_the_seeds_editing_example_applies_verbatim_and_only_once() -> None:
    it = TaskConstellation.from_dict(seed("creation"))
    for task_id in ("task_001", "task_002"):
        end(it, task_id)
    end(it, "task_003", result={"accuracy": 0.92})
    assert it.is_unsatisfiable("task_004")
    first = edit(it, *seed("editing")["actions"])
    assert first.changed
    assert list(it.tasks) == ["task_001", "task_002", "task_003", "task_005"]
    assert sorted(it.lines) == ["task_001->task_002", "task_002->task_003", "task_003->task_005"]
    before = it.to_dict()
    again = edit(it, *seed("editing")["actions"])
    assert not again.changed
    assert it.to_dict() == before
    assert tuple(map(str, again.notes)) == (
        "add_task task_005: it is there already",
        "add_dependency task_003->task_005: it is there already",
        "remove_task task_004: it was removed already",
    )


def test_a_task_may_be_removed_and_added_again() -> None:
    it = constellation("a b", "a>b")
    edit(it, A("remove_task", task_id="b"))
    edit(it, A("add_task", **tasks("b")[0]), A("add_dependency", from_="a", to="b"))
    assert not it.removed_tasks
    assert shape(it) == shape(constellation("a b", "a>b"))


def test_a_refused_batch_leaves_a_clean_constellation_clean() -> None:
    it = TaskConstellation.from_dict({"tasks": [{"task_id": "a"}, {"task_id": "b"}], "dependencies": [{"from": "a", "to": "b"}]})
    it.dirty.clear()
    with pytest.raises(EditRefused):
        apply_edits(it, [RemoveDependency(dependency_id="a->b"), RemoveTask(task_id="never")])
    assert not it.dirty
    assert not it.unevaluated


@pytest.mark.parametrize("changes", [{"priority": "\ud800"}, {"retry": {"max_attempts": "\ud800"}}, {"name": "\ud800"}])
def test_half_a_character_in_an_edit_that_a_program_has_made_is_refused_and_the_batch_undone(changes: dict[str, Any]) -> None:
    it = small()
    before = it.to_dict()
    with pytest.raises(EditRefused) as raised:
        apply_edits(it, [RemoveTask(task_id="d"), UpdateTask(task_id="c", changes=changes)])
    assert raised.value.refusal.code == "bad_content"
    assert it.to_dict() == before
