from __future__ import annotations

import re
from typing import Any

import pytest

from asterism.constellation.model.batch import apply_edits
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.documents import MAX_NESTED, parse_plan, parse_task
from asterism.constellation.model.edits import AddTask, Applied, BuildConstellation, Edit, EditRefused, RemoveTask, UpdateTask, parse_action
from asterism.constellation.model.nesting import apply_on_fleet, check_applied, check_plan, nested_plan
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.errors import InvalidInput

OUTPUT = {"type": "object", "properties": {"v": {}}}
SKILL = Skill(name="do", description="does it", parameters={"type": "object", "properties": {"x": {}}}, output=OUTPUT)
VAULT = {"vault": AgentProfile(device_id="vault", skills=(Skill(name="delete"), Skill(name="keep")))}
FLEET = {"d": AgentProfile(device_id="d", skills=(SKILL,))}
INNER: dict[str, Any] = {"tasks": [{"task_id": "p", "device": "d", "skill": "do", "inputs": {"x": "${inputs.x}"}}]}


def outer(inner: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"tasks": [{"task_id": "b", "inputs": {"x": 1}, "constellation": inner, **more}]}


def deep(levels: int) -> dict[str, Any]:
    found = INNER
    for _ in range(levels - 1):
        found = {"tasks": [{"task_id": "b", "inputs": {"x": 1}, "constellation": found}]}
    return found


def built(plan: dict[str, Any]) -> TaskConstellation:
    it = TaskConstellation()

    def check(applied: Applied) -> None:
        check_applied(applied, it, FLEET, lambda path, words, profile: "")

    apply_edits(it, [BuildConstellation(plan=parse_plan(plan))], check)
    return it


def refused(plan: dict[str, Any]) -> tuple[str, str]:
    with pytest.raises(EditRefused) as error:
        built(plan)
    return error.value.refusal.code, error.value.refusal.what


def test_a_nested_plan_is_stored_in_one_spelling() -> None:
    spelled = {"constellation": {"tasks": {"p": {"device": "d", "skill": "do"}}, "dependencies": None}}
    assert parse_task({"task_id": "b", "constellation": spelled}).constellation == {
        "tasks": [{"task_id": "p", "device": "d", "skill": "do"}]
    }


def test_a_nested_task_comes_back_from_a_document_and_from_an_edit() -> None:
    it = built(outer(INNER))
    again = TaskConstellation.from_dict(it.to_dict())
    assert again.to_dict() == it.to_dict()
    assert nested_plan(again.tasks["b"]) == parse_plan(INNER)
    changed = parse_action({"tool": "update_task", "parameters": {"task_id": "b", "constellation": {"tasks": [{"task_id": "z"}]}}})
    apply_edits(it, [changed])
    assert it.tasks["b"].constellation == {"tasks": [{"task_id": "z"}]}
    assert apply_edits(it, [parse_action({"tool": "update_task", "parameters": {"task_id": "b", "constellation": INNER}})]).changed
    assert it.tasks["b"].constellation == again.tasks["b"].constellation
    assert not apply_edits(it, [parse_action({"tool": "update_task", "parameters": {"task_id": "b", "constellation": INNER}})]).changed


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (
            {"constellation": INNER, "device": "d"},
            r"task.device: not for a task with a constellation; set it in the tasks of the constellation",
        ),
        (
            {"constellation": INNER, "skill": "do"},
            r"task.skill: not for a task with a constellation; set it in the tasks of the constellation",
        ),
        (
            {"constellation": INNER, "env": {"A": "b"}},
            r"task.env: not for a task with a constellation; set it in the tasks of the constellation",
        ),
        (
            {"constellation": INNER, "folder": "x"},
            r"task.folder: not for a task with a constellation; set it in the tasks of the constellation",
        ),
        ({"constellation": {"tasks": []}}, r"task.constellation.tasks: there is nothing to do"),
        ({"constellation": []}, r"task.constellation: expected an object"),
        ({"constellation": {"tasks": [{"task_id": "p", "timeout_s": -1}]}}, r"task.constellation.tasks\[0\].timeout_s"),
    ],
)
def test_an_invalid_nested_plan_is_refused_with_its_place(task: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        parse_task({"task_id": "b", **task})


def test_the_inputs_of_a_nested_plan_take_a_name_that_no_task_may_have() -> None:
    with pytest.raises(InvalidInput, match=r"'inputs' is reserved"):
        parse_task({"task_id": "inputs"})


def test_so_many_constellations_may_be_within_each_other_and_no_more() -> None:
    assert built(deep(MAX_NESTED)).tasks
    with pytest.raises(InvalidInput, match=f"more than {MAX_NESTED} constellations within each other"):
        parse_plan(deep(MAX_NESTED + 1))


@pytest.mark.parametrize(
    ("inner", "code", "what"),
    [
        ({"tasks": [{"task_id": "p", "device": "nowhere"}]}, "unknown_device", "b/p"),
        ({"tasks": [{"task_id": "p", "device": "d", "skill": "fly"}]}, "unknown_skill", "b/p"),
        ({"tasks": [{"task_id": "p", "device": "d", "skill": "do", "inputs": {"y": 1}}]}, "unknown_argument", "b/p.inputs.y"),
        ({"tasks": [{"task_id": "p", "device": "d", "skill": "do", "inputs": {"x": "${inputs.y}"}}]}, "bad_reference", "b/p"),
        ({"tasks": [{"task_id": "p", "device": "d", "skill": "do", "inputs": {"x": "${other.v}"}}]}, "bad_reference", "b/p"),
        ({"tasks": INNER["tasks"], "dependencies": [{"from": "p", "to": "p"}]}, "cycle", "b/p -> p"),
        ({"tasks": [{"task_id": "n", "constellation": {"tasks": [{"task_id": "p", "device": "?"}]}}]}, "unknown_device", "b/n/p"),
    ],
)
def test_what_is_wrong_inside_is_refused_before_anything_starts_with_the_way_to_it(inner: dict[str, Any], code: str, what: str) -> None:
    assert refused(outer(inner)) == (code, what)


def test_only_what_is_given_can_be_referred_to_and_outermost_nothing_is() -> None:
    assert refused(INNER) == ("bad_reference", "p")


def test_what_follows_a_nested_task_may_ask_for_what_it_reports_and_nothing_else() -> None:
    def after(reference: str) -> dict[str, Any]:
        following = {"task_id": "c", "device": "d", "skill": "do", "inputs": {"x": reference}}
        return {"tasks": [*outer(INNER)["tasks"], following], "dependencies": [{"from": "b", "to": "c"}]}

    assert built(after("${b.results.p.v}")).tasks
    assert refused(after("${b.accuracy}")) == ("bad_reference", "c")


def test_words_find_skills_inside_under_a_name_with_the_way_to_it() -> None:
    asked: list[str] = []
    it = TaskConstellation()

    def match(path: str, words: str, profile: Any) -> str:
        asked.append(path)
        return "do"

    plan = parse_plan(outer({"tasks": [{"task_id": "p", "name": "do something", "device": "d"}]}))
    apply_edits(it, [BuildConstellation(plan=plan)], lambda applied: check_applied(applied, it, FLEET, match))
    assert asked == ["b/p"]


def edited(task_id: str, name: str = "do", **more: Any) -> list[Edit]:
    """Edits that replace a task by another one of its id."""
    return [RemoveTask(task_id=task_id), AddTask(task=parse_task({"task_id": task_id, "device": "d", "name": name, **more}))]


def of_two() -> TaskConstellation:
    it = TaskConstellation()
    plan = {"tasks": [{"task_id": "a", "device": "d", "skill": "do"}, {"task_id": "b", "device": "d", "name": "do"}]}
    apply_on_fleet(it, [BuildConstellation(plan=parse_plan(plan))], FLEET)
    return it


BAD: dict[str, Any] = {"inputs": {"nonsense": 1}}
REPLACED = {
    "removed and added": edited("b", **BAD),
    "built anew": [
        BuildConstellation(plan=parse_plan({"tasks": [{"task_id": "a", "device": "d"}, {"task_id": "b", "device": "d", **BAD}]}))
    ],
    "updated": [UpdateTask(task_id="b", changes={"device": "d", "skill": "do", **BAD})],
}


@pytest.mark.parametrize("edits", REPLACED.values(), ids=REPLACED)
def test_a_task_that_a_refused_batch_has_replaced_has_its_skill_again(edits: list[Edit]) -> None:
    it = of_two()
    before, there = it.to_dict(), dict(it.tasks)
    with pytest.raises(EditRefused):
        apply_on_fleet(it, edits, FLEET)
    assert it.tasks["b"].resolved_skill == "do"
    assert it.to_dict() == before
    assert all(it.tasks[task_id] is task for task_id, task in there.items())


def test_by_earlier_rules_such_a_task_loses_its_skill_so_that_their_entries_replay() -> None:
    it = of_two()
    with pytest.raises(EditRefused):
        apply_on_fleet(it, edited("b", **BAD), FLEET, restore_by_id=True)
    assert it.tasks["b"].resolved_skill == ""


def test_a_batch_over_which_something_fails_is_undone_as_one_that_is_refused() -> None:
    it = of_two()
    before = it.to_dict()

    def match(path: str, words: str, profile: AgentProfile) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        apply_on_fleet(it, [RemoveTask(task_id="a"), *edited("b", name="something else")], FLEET, match)
    assert it.to_dict() == before


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"name": "delet"}, "a: vault has no skill 'delet'; did you mean delete?"),
        ({"name": "", "description": "delete it"}, "a: it names no skill of vault; nearest: delete, keep"),
        ({"name": "paint"}, "a: vault has no skill 'paint'; nearest: delete, keep"),
        ({"device": "", "constellation": {"tasks": [{"task_id": "p", "name": "kep", "device": "vault"}]}}, "a/p: vault has no skill 'kep'"),
    ],
)
def test_a_plan_of_a_person_names_its_skills_exactly(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(EditRefused, match=f"^{re.escape(why)}"):
        check_plan(parse_plan({"tasks": [{"task_id": "a", "name": "keep", "device": "vault", **changed}]}), VAULT)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ({"from": "a", "to": "poser"}, "dependency a->poser: to: there is no task 'poser'; did you mean poster?"),
        ({"id": "last", "from": "x", "to": "a"}, "dependency last: from: there is no task 'x'"),
        (
            {"from": "a", "to": "poster", "condition": "words > > 3"},
            "dependency a->poster: the condition 'words > > 3' does not parse: '>' at",
        ),
        ({"from": "a", "to": "poster", "condition": "words = 3"}, "dependency a->poster: the condition 'words = 3' does not parse: '=' at"),
        ({"from": "a", "to": "poster", "condition": "a and b"}, "dependency a->poster: the condition 'a and b' does not parse: 'and' at"),
        ({"from": "a", "to": "poster", "condition": "a >"}, "dependency a->poster: the condition 'a >' does not parse: it ends too early"),
        (
            {"from": "a", "to": "poster", "condition": "(a"},
            "dependency a->poster: the condition '(a' does not parse: ')' is missing at its end",
        ),
    ],
)
def test_a_plan_of_a_person_is_told_which_dependency_is_wrong(line: dict[str, str], why: str) -> None:
    both = [{"task_id": task_id, "name": "keep", "device": "vault"} for task_id in ("a", "poster")]
    with pytest.raises(EditRefused, match=f"^{re.escape(why)}"):
        check_plan(parse_plan({"tasks": both, "dependencies": [line]}), VAULT)
    check_plan(parse_plan({"tasks": both, "dependencies": [{"from": "a", "to": "poster", "condition": "words > 3"}]}), VAULT)


def test_an_edit_of_something_else_keeps_the_skill_that_was_found_by_words() -> None:
    def profile(name: str) -> dict[str, AgentProfile]:
        skills = (Skill(name=name, description="read the monthly report"), Skill(name="look", description="look at the sky"))
        return {"vault": AgentProfile(device_id="vault", skills=skills)}

    it = TaskConstellation()
    task = parse_task({"task_id": "z", "name": "monthly", "description": "read the monthly report", "device": "vault"})
    apply_on_fleet(it, [AddTask(task=task)], profile("read_report"))
    apply_on_fleet(it, [UpdateTask(task_id="z", changes={"priority": 7})], profile("wipe_everything"))
    assert it.tasks["z"].resolved_skill == "read_report"
    changes = {"description": "look at the sky"}
    with pytest.raises(EditRefused):
        apply_on_fleet(it, [UpdateTask(task_id="z", changes=changes), RemoveTask(task_id="none")], profile("wipe_everything"))
    assert it.tasks["z"].resolved_skill == "read_report"
    apply_on_fleet(it, [UpdateTask(task_id="z", changes=changes)], profile("wipe_everything"))
    assert it.tasks["z"].resolved_skill == "look"
