"""Edits against guards and approvals: what an edit affects is asked about again, and gets no secret of others (A1, A7, A8)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from asterism.constellation.machine.definition import first_event
from asterism.constellation.machine.events import Dispatch, Edited, Retry
from asterism.constellation.machine.requests import attempt_request
from asterism.constellation.model.edits import EditRefused
from asterism.devices.model.attempt import DeviceLost, request_shown
from asterism.engine.control.children import ChildEnded, EditedBy, StartChild
from asterism.engine.control.run_control import Cancel, Forked, Pause, Unpause
from asterism.engine.kernel.guards import DeviceGuards, SkillGuard, digest_of
from asterism.engine.kernel.permissions import ALL, ALL_BUT_LOCAL, LOWEST, Permissions
from asterism.errors import Refused
from tests.support.constellation_harness import FLEET, Agent, retried
from tests.support.constellations import action
from tests.support.machine_harness import MachineHarness

ADDED = action("add_task", task_id="zz", device="s", skill="again", inputs={"x": 1})
RETRY = {"max_attempts": 6, "backoff_s": 0, "on": ["raised"]}


def task(task_id: str = "a", **more: Any) -> dict[str, Any]:
    return {"task_id": task_id, "device": "s", "skill": "once", "inputs": {"x": 1}, **more}


def plan(*tasks: dict[str, Any], after: str = "", **more: Any) -> dict[str, Any]:
    """Tasks; ``after`` has dependencies, such as ``a>b b>c``."""
    lines = [dict(zip(("from", "to"), line.split(">"), strict=True)) for line in after.split()]
    return {"tasks": list(tasks), "dependencies": lines, **more}


def edits(agent: Agent, *actions: dict[str, Any], **more: Any) -> None:
    agent.take(Edited(actions=actions), **more)
    agent.batch()


def depends(source: str, target: str) -> dict[str, Any]:
    return action("add_dependency", **{"from": source, "to": target})


def approved_and_paused(**more: Any) -> Agent:
    agent = Agent(plan(task(requires_approval=True, **more)))
    agent.take(Pause())
    agent.answers("approve")
    return agent


# -- one yes, one request --------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"retry": RETRY}, {"priority": 7}, {"timeout_s": 5}])
def test_an_edit_of_an_approved_task_voids_its_approval(change: dict[str, Any]) -> None:
    """A8: the question shows no retry policy, so the yes holds for the one that the task had."""
    agent = approved_and_paused()
    edits(agent, action("update_task", task_id="a", **change))
    agent.batch(Unpause())
    assert agent.task("a").attempts == 0
    agent.answers("approve")
    assert agent.task("a").attempts == 1


@pytest.mark.parametrize("by_planner", [False, True])
def test_an_edit_during_the_backoff_of_an_approved_task_voids_its_approval(*, by_planner: bool) -> None:
    """A8."""
    first = task(requires_approval=True, retry={"max_attempts": 2, "backoff_s": 60})
    agent = Agent(plan(first, task("other", skill="again")), replan="always", hold="none")
    agent.answers("approve")
    agent.ends("a", error="raised")
    longer = action("update_task", task_id="a", retry=RETRY)
    if by_planner:
        agent.ends("other")
        agent.plans(longer)
    else:
        edits(agent, longer)
    agent.wait_until(agent.now + 120)
    assert agent.task("a").attempts == 1
    assert agent.inquiry().prompt.startswith("Run a"), "it has failed, and was not interrupted"


def test_data_that_was_approved_is_no_approval_of_the_secret_that_it_looks_like() -> None:
    """A8: both are shown alike."""
    agent = Agent(
        plan(task(inputs={"x": "${params.t}"}, requires_approval=True), params={"t": {"type": "str", "default": "${secret.KEY}"}})
    )
    agent.take(Pause())
    agent.answers("approve")
    edits(agent, action("update_task", task_id="a", inputs={"x": "${secret.KEY}"}))
    agent.batch(Unpause())
    assert agent.task("a").attempts == 0


def test_a_yes_is_to_the_results_that_the_question_showed_and_not_to_those_of_a_retry_since() -> None:
    """A8; found by the search (imports of gates, seed 40001675)."""
    agent = Agent({
        "tasks": [task("a"), task("b", requires_approval=True)],
        "dependencies": [{"from": "a", "to": "b", "type": "COMPLETION_ONLY"}],
    })  # fmt: skip
    agent.ends("a", error="raised")
    assert "results" not in agent.inquiry().subject
    agent.batch(Retry(tasks=("a",)))
    agent.ends("a", {"found": "something else"})
    agent.answers("approve")
    assert agent.task("b").attempts == 0
    assert agent.inquiry().subject["results"] == {"a": {"found": "something else"}}
    agent.answers("approve")
    assert agent.task("b").attempts == 1


@pytest.mark.parametrize("more", [{}, {"join": "any"}, {"for_each": {"items": [1]}}])
def test_an_attempt_gets_the_results_that_were_there_when_it_began_also_after_a_restart(more: dict[str, Any]) -> None:
    """A predecessor that had failed completes after the yes, while the attempt waits for its device."""
    tasks = (task("first", skill="again"), {"task_id": "a", "device": "d", "requires_approval": True, **more})
    agent = Agent(plan(*tasks, dependencies=[{"from": "first", "to": "a", "type": "COMPLETION_ONLY"}]))
    agent.ends("first", error="raised")
    agent.answers("approve")
    agent.batch(Retry(tasks=("first",)))
    agent.ends("first", {"pay": "others"})
    (effect, attempt), *_ = agent.outstanding(Dispatch).items()
    request = attempt_request(agent.memory, "r", effect, attempt)
    assert (request.results, request.approval) == ({}, digest_of(request_shown(request)))


def test_after_a_no_to_another_device_a_retry_asks_again_about_work_that_may_have_finished() -> None:
    """A8; found by the search (forks of gates, seed 51001182)."""
    agent = Agent(plan(task("a")))
    agent.ends("a", error="interrupted")
    agent.take(DeviceLost(device="s"))
    agent.answers("approve")
    assert agent.inquiry().subject["device"] == "s2"
    agent.answers("reject")
    agent = retried(agent)
    assert not agent.outstanding(Dispatch)
    assert agent.inquiry().subject["device"] == "s2"


@pytest.mark.parametrize("how", ["deadline", "cancel"])
def test_a_repetition_that_was_approved_and_has_not_begun_is_asked_about_in_a_retry(how: str) -> None:
    """Found by the search (forks of gates, seed 20095): the work may have finished."""
    agent = Agent(plan(task("a", deadline_s=50.0), task("z", skill="again")))
    agent.ends("a", error="interrupted")
    agent.batch(Pause(), agent.answer("approve"))
    if how == "deadline":
        agent.now += 60.0
        agent.batch(Unpause())
        agent.batch(Retry(tasks=("a",)))
    else:
        agent.take(Cancel())
        agent = retried(agent)
        agent.batch(Unpause())
    assert "a" not in [it.task_id for it in agent.outstanding(Dispatch).values()]
    assert agent.inquiry().kind == "interruption"


@pytest.mark.parametrize("more", [{"inputs": {"x": "${secret.KEY}"}}, {"env": {"A": "1"}}, {"folder": "sub"}, {}])
def test_what_was_written_for_a_lost_device_goes_to_another_one_only_after_a_yes(more: dict[str, Any]) -> None:
    agent = Agent(plan(task("first", skill="again"), task("a", **more), dependencies=[{"from": "first", "to": "a"}]))
    agent.take(DeviceLost(device="s"))
    agent.ends("first")
    if more:
        assert not agent.outstanding(Dispatch)
        assert agent.inquiry().subject["device"] == "s2"
        agent.answers("approve")
    assert [it.device_id for it in agent.outstanding(Dispatch).values()] == ["s2"]


def test_an_edit_that_changes_nothing_leaves_an_approval() -> None:
    agent = approved_and_paused(priority=7)
    edits(agent, action("update_task", task_id="a", priority=7))
    agent.batch(Unpause())
    assert agent.task("a").attempts == 1


# -- what an edit of other tasks changes -----------------------------------------------------------


def test_a_task_that_gets_other_arguments_by_a_dependency_is_asked_about_as_a_changed_one() -> None:
    """A1: it takes its argument by name from the tasks before it."""
    agent = Agent(plan(task("hold", skill="again"), task("later", inputs={}), task("flagged", requires_approval=True), after="hold>later"))
    edits(agent, action("add_task", **task("zz", skill="again")), depends("zz", "later"))
    agent.ends("zz", {"x": "EVIL"})
    agent.ends("hold")
    assert agent.task("later").attempts == 0


def test_a_task_that_loses_a_dependency_is_asked_about_as_a_changed_one() -> None:
    """A1: it would take the argument from another task."""
    tasks = task("good", skill="again"), task("hold", skill="again"), task("later", inputs={}), task("flagged", requires_approval=True)
    agent = Agent(plan(*tasks, after="good>later hold>later"))
    edits(agent, action("remove_dependency", dependency_id="good->later"))
    agent.ends("hold", {"x": "EVIL"})
    assert agent.task("later").attempts == 0


@pytest.mark.parametrize("between", [False, True])
def test_a_task_is_asked_about_after_an_edit_of_one_whose_result_reaches_it(*, between: bool) -> None:
    """A1: it refers to the changed task, also by one between them."""
    tasks = [task("hold", skill="again"), task("src", skill="again"), task("flagged", requires_approval=True)]
    tasks += [task("mid", skill="again", inputs={"x": "${src.x}"})] if between else []
    source = "mid" if between else "src"
    after = "hold>src src>mid mid>later" if between else "hold>src src>later"
    agent = Agent(plan(*tasks, task("later", inputs={"x": f"${{{source}.x}}"}), after=after))
    edits(agent, action("update_task", task_id="src", inputs={"x": "EVIL"}))
    for ended in ("hold", "src", *(["mid"] if between else [])):
        agent.ends(ended, {"x": "EVIL"})
    assert agent.task("later").attempts == 0


def test_a_handler_is_asked_about_after_an_edit_of_a_task_that_it_refers_to() -> None:
    """A1: a handler has no dependency on it."""
    handler = task("h", inputs={"x": "${src.x}"}, role="finally")
    flagged = task("flagged", requires_approval=True)
    agent = Agent(plan(task("hold", skill="again"), task("src", skill="again"), handler, flagged, after="hold>src"))
    edits(agent, action("update_task", task_id="src", inputs={"x": "EVIL"}))
    assert agent.task("h").concerned_by == ("once",)


def test_a_task_is_asked_about_after_an_answer_that_edits_one_whose_result_reaches_it() -> None:
    """A1: "for tasks that are added or changed after the submission"; the answer changes what ``later`` gets."""
    first, later = task("g", skill="again", requires_approval=True), task("later", inputs={"x": "${g.x}"})
    agent = Agent(plan(first, later, task("flagged", requires_approval=True), after="g>later"))
    agent.batch(agent.answer("edit", {"x": "EVIL"}))
    agent.ends("g", {"x": "EVIL"})
    assert agent.task("later").attempts == 0
    assert agent.inquiry().subject["task_id"] == "flagged"


def test_an_answer_that_edits_a_task_concerns_what_the_task_starts() -> None:
    """A1: "for tasks that are added or changed after the submission"; a run below gets the edited arguments."""
    agent = Agent(plan(task("g", requires_approval=True)))
    assert agent.task("g").concerned_by == ()
    agent.batch(agent.answer("edit", {"x": "EVIL"}))
    assert agent.task("g").concerned_by == ("once",)
    assert agent.task("g").attempts == 1, "the answer approves the task itself"


def test_an_answer_that_edits_an_item_concerns_what_the_item_starts() -> None:
    agent = Agent(plan(task("g", inputs={"x": "${item}"}, for_each=[1, 2], requires_approval=True)))
    agent.batch(agent.answer("edit", {"x": "EVIL"}))
    assert [agent.task(it).concerned_by for it in ("g[0]", "g[1]")] == [("once",), ()]


def test_an_answer_that_edits_an_item_changes_the_tasks_after_all_items() -> None:
    """A1: "for tasks that are added or changed after the submission"; ``later`` gets the results of all items."""
    each = task("g", inputs={"x": "${item}"}, for_each=[1, 2], requires_approval=True)
    later = task("later", inputs={"x": "${g.0}"})
    agent = Agent(plan(each, later, after="g>later"))
    agent.batch(agent.answer("edit", {"x": "EVIL"}))
    assert agent.inquiry().subject["task_id"] == "g[1]"
    assert agent.task("later").concerned_by == ("once",)


def test_a_handler_that_refers_to_the_end_of_the_run_is_asked_about_after_every_edit() -> None:
    """A1: "for tasks that are added or changed after the submission"; the text of the error comes from an added task."""
    handler = task("h", inputs={"x": "${run.error}"}, role="on_failure")
    agent = Agent(plan(task("hold", skill="again"), handler, task("flagged", requires_approval=True)))
    edits(agent, ADDED)
    assert agent.task("h").concerned_by == ("once",)


def test_an_edit_elsewhere_leaves_a_task_as_it_was_written() -> None:
    agent = Agent(plan(task("hold", skill="again"), task("later"), task("flagged", requires_approval=True), after="hold>later"))
    edits(agent, action("add_task", **task("zz", skill="again")), depends("hold", "zz"))
    agent.ends("hold")
    assert agent.task("later").attempts == 1


# -- foreign values next to a secret ---------------------------------------------------------------


def test_an_edit_in_an_answer_from_another_computer_gets_no_secret_of_a_local_plan() -> None:
    """A7."""
    agent = Agent(plan(task(inputs={"x": "good.example", "y": "${secret.KEY}"}, requires_approval=True)))
    to_evil = agent.answer("edit", {"x": "evil.example"})
    with pytest.raises(Refused, match="the secret KEY"):
        agent.take(to_evil, permissions=ALL_BUT_LOCAL)
    agent.batch(to_evil)
    assert agent.attempt("a").arguments["x"] == "evil.example", "a local user may"


def test_an_edit_in_an_answer_from_another_computer_makes_the_task_foreign() -> None:
    """A7."""
    listed = tuple(msgspec.structs.replace(it, guards=DeviceGuards(every=SkillGuard(secrets=("KEY",)))) for it in FLEET)
    agent = Agent(plan(task(inputs={"x": "good.example", "y": "${secret.KEY}"}, requires_approval=True)), fleet=listed)
    agent.take(agent.answer("edit", {"x": "other.example"}), permissions=ALL_BUT_LOCAL)
    assert agent.task("a").is_foreign


def secret_behind_hold() -> Agent:
    to_start = task("hold", skill="again"), task("a", inputs={"y": "${secret.KEY}"}), task("b", env={"MODE": "x"})
    return Agent(plan(*to_start, after="hold>a hold>b"))


def test_a_client_gives_no_value_to_a_local_task_with_a_secret_by_a_dependency() -> None:
    """A7: the task takes an argument by name from the tasks before it."""
    agent = secret_behind_hold()
    with pytest.raises(EditRefused, match="the secret KEY") as refused:
        edits(agent, ADDED, depends("zz", "a"), permissions=ALL_BUT_LOCAL)
    assert (refused.value.refusal.code, refused.value.refusal.what) == ("guarded", "a")
    edits(agent, ADDED, depends("zz", "a"))
    agent.ends("zz", {"x": "local.example"})
    agent.ends("hold")
    assert agent.attempt("a").arguments["x"] == "local.example", "a local user may"


def test_a_model_gives_no_value_to_a_local_task_with_a_secret_by_a_dependency() -> None:
    """A7."""
    tasks = [task("hold", skill="again"), task("then", skill="again"), task("a", inputs={"y": "${secret.KEY}"})]
    agent = Agent(plan(*tasks, after="hold>then then>a"), replan="always")
    agent.ends("hold")
    agent.plans(ADDED, depends("zz", "a"))
    question = agent.question()
    assert question is not None
    assert str(question.feedback).startswith("a: it may not use the secret KEY")
    assert "zz" not in agent.constellation.tasks


def test_a_model_gives_values_to_a_local_task_without_a_secret() -> None:
    """Its variables are the local user's, as before."""
    agent = Agent(plan(task("hold", skill="again"), task("b", env={"MODE": "x"}), after="hold>b"), replan="always", hold="all")
    agent.ends("hold")
    agent.plans(ADDED, depends("zz", "b"))
    assert not agent.task("b").is_foreign


def test_an_answer_from_another_computer_gives_no_value_to_a_later_local_task_with_a_secret() -> None:
    """A7: "No list of which skill or device may have which secret": the task refers to what the answer edits."""
    first, then = task("g", skill="again", requires_approval=True), task("a", inputs={"x": "${g.x}", "y": "${secret.KEY}"})
    agent = Agent(plan(first, then, after="g>a"))
    to_evil = agent.answer("edit", {"x": "evil.example"})
    with pytest.raises(Refused, match=r"a: .*the secret KEY"):
        agent.take(to_evil, permissions=ALL_BUT_LOCAL)
    assert agent.task("g").inputs == {"x": 1}
    agent.batch(to_evil)
    agent.ends("g", {"x": "local.example"})
    assert agent.attempt("a").arguments["x"] == "local.example", "a local user may"


def test_a_client_gives_no_value_to_a_local_handler_with_a_secret_by_the_end_of_the_run() -> None:
    """A7: "No list of which skill or device may have which secret": the text of the error would go out with it."""
    handler = task("h", inputs={"x": "${run.error}", "y": "${secret.KEY}"}, role="on_failure")
    agent = Agent(plan(task("hold", skill="again"), handler))
    with pytest.raises(EditRefused, match="the secret KEY"):
        edits(agent, ADDED, permissions=ALL_BUT_LOCAL)
    edits(agent, ADDED)
    assert not agent.task("h").is_foreign, "a local user may"


def child_of(agent: Agent) -> Agent:
    """The child run that the agent's only nested plan has started."""
    (start,) = agent.outstanding(StartChild).values()
    below = Agent.__new__(Agent)
    MachineHarness.__init__(below, Agent.machine, first_event(start.start), 1000.0)
    return below


def child_ends(agent: Agent, edited: EditedBy) -> None:
    (effect_id,) = agent.outstanding(StartChild)
    agent.batch(ChildEnded(effect_id=effect_id, outcome="finished", result={"results": {"in": {"x": "EVIL"}}}, edited=edited))


@pytest.mark.parametrize(("permissions", "edited"), [(ALL, "local"), (ALL_BUT_LOCAL, "foreign")])
def test_a_child_run_reports_an_edit_of_its_plan_or_of_a_run_below(permissions: Permissions, edited: EditedBy) -> None:
    """A1, A7."""
    below = child_of(Agent(plan(nested())))
    assert below.memory.edited == ""
    edits(below, ADDED, permissions=permissions)
    assert below.memory.edited == edited
    above = Agent(plan(nested()))
    child_ends(above, edited)
    assert above.memory.edited == edited


def test_a_child_run_reports_an_answer_that_edits_arguments() -> None:
    """A7."""
    below = child_of(Agent(plan(nested(requires_approval=True))))
    below.take(below.answer("edit", {"x": "EVIL"}), permissions=ALL_BUT_LOCAL)
    assert below.memory.edited == "foreign"


@pytest.mark.parametrize("edited", ["", "local", "foreign"])
def test_a_task_is_asked_about_after_an_edit_of_the_child_run_whose_result_reaches_it(edited: EditedBy) -> None:
    """A1: "for tasks that are added or changed after the submission"."""
    later = task("later", inputs={"x": "${outer.results.in.x}"})
    agent = Agent(plan(nested(), later, task("flagged", requires_approval=True), after="outer>later"))
    child_ends(agent, edited)
    assert agent.task("later").attempts == (0 if edited else 1)


@pytest.mark.parametrize("edited", ["", "local"])
def test_an_edit_of_a_child_run_concerns_what_its_task_starts_in_a_retry(edited: EditedBy) -> None:
    """A1."""
    agent = Agent(plan(nested(), task("flagged", requires_approval=True)))
    (effect_id,) = agent.outstanding(StartChild)
    agent.batch(ChildEnded(effect_id=effect_id, outcome="failed", edited=edited))
    assert agent.task("outer").concerned_by == (("once",) if edited else ())


def test_copies_of_copies_name_no_guard_twice() -> None:
    agent = Agent(plan(task("flagged", requires_approval=True)))
    agent.memory.guards = msgspec.structs.replace(agent.memory.guards, plan_skills=(), lifted=("once",))
    for _ in range(2):
        agent.take(Forked(origin="o", seq=1, idle_s=0.0), permissions=LOWEST)
        agent.memory.guards = msgspec.structs.replace(agent.memory.guards, plan_skills=(), lifted=("once",))
    assert agent.task("flagged").concerned_by == ("once",)


@pytest.mark.parametrize("edited", ["", "local", "foreign"])
def test_an_edit_of_a_child_run_over_the_network_gets_no_secret_of_a_local_task(edited: EditedBy) -> None:
    """A7: "No list of which skill or device may have which secret"."""
    later = task("later", inputs={"x": "${outer.results.in.x}", "y": "${secret.KEY}"})
    agent = Agent(plan(nested(), later, after="outer>later"))
    child_ends(agent, edited)
    error = agent.task("later").error
    assert (error.code if error else "") == ("guarded" if edited == "foreign" else "")


# -- nested plans ----------------------------------------------------------------------------------

IN_WORDS = {"task_id": "in", "device": "s", "name": "once_more", "description": "does it once"}


def nested(**more: Any) -> dict[str, Any]:
    return {"task_id": "outer", "constellation": {"tasks": [{**IN_WORDS, **more}]}}


def skills_of(agent: Agent) -> list[str]:
    (start,) = agent.outstanding(StartChild).values()
    return [it["skill"] for it in start.start.definition["plan"]["tasks"]]


def test_a_nested_task_in_words_is_guarded_as_the_skill_that_it_resolves_to() -> None:
    """A1."""
    agent = Agent(plan(task("a", skill="again"), task("wipe", requires_approval=True)), replan="always")
    agent.ends("a")
    agent.plans(action("add_task", **nested()))
    assert skills_of(agent) == ["once"]
    assert agent.task("outer").concerned_by == ("once",)


def test_a_nested_task_in_words_that_asks_for_approval_guards_the_skill_that_it_resolves_to() -> None:
    """A1."""
    agent = Agent(replan="always")
    agent.plans(plan=plan(task("a", skill="again"), nested(requires_approval=True)))
    assert agent.memory.guards.plan_skills == ("once",)
    agent.ends("a")
    agent.plans(action("add_task", **task("b")))
    assert agent.task("b").attempts == 0


def test_a_question_about_a_plan_or_edits_shows_the_skills_of_nested_tasks() -> None:
    """A8."""
    agent = Agent(replan="always", approve_edits=True, approve_plan=True)
    agent.plans(plan=plan(task("a", skill="again"), nested()))
    (shown,) = [it["constellation"] for it in agent.inquiry().subject["plan"]["tasks"] if it["task_id"] == "outer"]
    assert shown["tasks"][0]["skill"] == "once"
    agent.answers("approve")
    agent.ends("a")
    agent.plans(action("add_task", **{**nested(), "task_id": "second"}))
    (changed,) = agent.inquiry().subject["changes"]
    assert changed["after"]["constellation"]["tasks"][0]["skill"] == "once"


def test_a_planner_that_repeats_a_nested_task_in_words_changes_nothing() -> None:
    agent = Agent(replan="always")
    first = plan(task("a", skill="again"), nested())
    agent.plans(plan=first)
    agent.ends("a")
    before = agent.constellation.version
    agent.plans(plan=first)
    assert (agent.question(), agent.constellation.version) == (None, before)
