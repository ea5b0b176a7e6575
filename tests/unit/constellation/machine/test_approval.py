"""Plans and edits that a person has to approve: what is shown is what runs, what waits is held, and no answer is no yes."""

from __future__ import annotations

from typing import Any

import pytest

from asterism.constellation.machine.events import ConstellationSubmitted, Dispatch, Edited, RunOptions
from asterism.constellation.model.documents import parse_plan
from asterism.constellation.view.proposals import proposal_lines
from asterism.engine.control.run_control import Answered, AskPerson, Cancel, CancelEffect, Forked
from asterism.engine.kernel.data import MAX_BYTES
from asterism.engine.kernel.permissions import LOWEST, Permission
from asterism.engine.kernel.phrase import words_of
from asterism.errors import Refused
from tests.support.constellation_harness import FLEET, Agent, agent_of_rules, memory_of, refusal_in, retried
from tests.support.constellations import action, plan
from tests.support.machine_harness import MachineHarness

A = action


def planned(**options: Any) -> Agent:
    """An agent whose plan of a and b waits for a yes."""
    agent = Agent(approve_plan=True, **options)
    agent.plans(plan=plan("a b", "a>b"), thought="two steps", result={"summary": "both"})
    return agent


def edited(*actions: dict[str, Any], status: str = "CONTINUE", **options: Any) -> Agent:
    """An agent whose edit about a waits for a yes; b depends on a, c does not."""
    agent = Agent(plan("a b c", "a>b"), replan="always", approve_edits=True, **options)
    agent.ends("a")
    agent.plans(*(actions or (A("update_task", task_id="b", priority=7),)), status=status, thought="sooner")
    return agent


# -- a plan ------------------------------------------------------------------------------------------


def test_nothing_of_a_plan_runs_before_a_yes() -> None:
    agent = planned()
    assert (agent.state, agent.memory.schedule) == ("START", None)
    ask = agent.inquiry()
    assert ask.verbs == ("approve", "edit", "reject")
    assert ask.subject["kind"] == "plan"
    assert [task["task_id"] for task in ask.subject["plan"]["tasks"]] == ["a", "b"]
    assert ask.subject["thought"] == "two steps"
    agent.answers("approve")
    assert (agent.state, agent.running()) == ("CONTINUE", ["a"])
    assert agent.memory.result()["summary"] == "both"
    assert memory_of(agent.replayed()) == memory_of(agent.run)


def test_a_plan_that_was_given_is_approved_too() -> None:
    agent = Agent(plan("a"), approve_plan=True)
    assert agent.state == "START"
    agent.answers("approve")
    assert agent.running() == ["a"]


def test_a_rejected_plan_that_came_with_the_request_fails_the_run() -> None:
    agent = Agent(plan("a"), approve_plan=True)
    agent.answers("reject", reason="no")
    assert (agent.state, agent.memory.code, agent.memory.reason) == ("FAIL", "rejected", "the plan was not approved: me said no: no")


def test_the_skills_that_were_found_are_part_of_what_is_shown() -> None:
    agent = Agent({"tasks": [{"task_id": "t", "device": "s", "description": "does it once"}]}, approve_plan=True)
    assert agent.inquiry().subject["plan"]["tasks"][0]["skill"] == "once"
    agent.answers("approve")
    assert agent.attempt("t").skill == "once"


def test_the_values_that_a_plan_takes_by_name_are_part_of_what_is_shown() -> None:
    """A8: the parameters and inputs of a run decide what its tasks do; the plan has only their names and defaults."""
    document = parse_plan(plan("a") | {"params": {"x": {"type": "str", "default": "safe"}}})
    first = ConstellationSubmitted(
        request="do it", fleet=FLEET, plan=document, params={"x": "other"}, inputs={"v": 1}, options=RunOptions(approve_plan=True)
    )
    agent = Agent.__new__(Agent)
    MachineHarness.__init__(agent, Agent.machine, first, 1000.0)
    subject = agent.inquiry().subject
    assert (subject["params"], subject["inputs"]) == ({"x": "other"}, {"v": 1})
    assert {'params: {"x": "other"}', 'inputs: {"v": 1}'} <= {*proposal_lines(subject)}


def test_a_fork_asks_again_about_each_task_of_an_approved_plan_that_has_not_completed() -> None:
    """A4: the yes to a plan, or to edits, was given for the work of one run."""
    agent = planned(replan="never")
    agent.take(agent.answer("approve"))  # the entry of the yes, before anything has begun
    agent.batch(Forked(origin="r0", seq=agent.run.seq, idle_s=0.0))
    assert (agent.outstanding(Dispatch), agent.inquiry().subject["task_id"]) == ({}, "a")
    agent.answers("approve")
    agent.ends("a")
    assert agent.inquiry().subject["task_id"] == "b"
    agent.answers("approve")
    agent.ends("b", error="raised")
    assert agent.state == "FAIL"
    again = retried(agent)
    assert (again.outstanding(Dispatch), again.inquiry().subject["task_id"]) == ({}, "b")


def test_a_fork_asks_again_about_each_task_of_approved_edits() -> None:
    """A4."""
    agent = edited(A("add_task", task_id="paid", device="s", skill="once"))
    agent.take(agent.answer("approve"))
    agent.batch(Forked(origin="r0", seq=agent.run.seq, idle_s=0.0))
    agent.finish_cancellations()
    assert not agent.outstanding(Dispatch)
    assert "paid" in {asked.subject["task_id"] for asked in agent.outstanding(AskPerson).values()}


def test_a_plan_that_cannot_be_carried_out_is_not_shown_to_anybody() -> None:
    agent = Agent(approve_plan=True)
    agent.plans(plan=plan("a b", "a>b b>a"))
    assert not agent.outstanding(AskPerson)
    question = agent.question()
    assert question is not None
    assert "cycle" in str(question.feedback)


def test_a_rejection_goes_to_the_planner_with_its_reason_and_with_what_was_rejected() -> None:
    agent = planned()
    agent.answers("reject", reason="too slow")
    question = agent.question()
    assert question is not None
    assert tuple(map(str, question.rejections)) == ("me said no: too slow",)
    assert str(question.feedback).startswith('me said no: too slow. What was rejected: {"tasks":[{"task_id":"a"')
    agent.plans(plan=plan("c"))
    agent.answers("reject", reason="still too slow")
    question = agent.question()
    assert question is not None
    assert tuple(map(str, question.rejections)) == ("me said no: too slow", "me said no: still too slow")


def test_rejections_are_bounded_like_other_reasks_and_then_the_run_fails() -> None:
    agent = planned(max_reasks=1)
    agent.answers("reject")
    agent.plans(plan=plan("c"))
    agent.answers("reject", reason="enough")
    assert (agent.state, agent.memory.code, agent.memory.reason) == ("FAIL", "rejected", "the plan was not approved: me said no: enough")


def test_a5_what_is_too_large_to_be_shown_whole_is_rejected_and_never_approved() -> None:
    agent = Agent(plan("a", inputs={"x": "y" * (MAX_BYTES + 1)}), approve_plan=True)
    (asked,) = agent.outstanding(AskPerson)
    with pytest.raises(Refused, match=r"more than 1,048,576 bytes, .* hand over a file"):
        agent.answers("approve")
    assert list(agent.outstanding(AskPerson)) == [asked]
    agent.answers("reject")
    assert agent.state == "FAIL"


def test_a_plan_is_edited_by_hand_as_a_whole() -> None:
    agent = planned()
    agent.answers("edit", value=plan("x y"))
    assert agent.running() == ["x", "y"]


def test_an_edit_of_a_plan_by_a_sender_who_may_not_edit_is_refused_and_the_question_stays_open() -> None:
    """A6: who may only answer would otherwise replace the whole plan; a run under earlier rules takes the answer as before."""
    may_answer = (Permission.VIEW, Permission.ANSWER)
    agent = planned()
    (asked,) = agent.outstanding(AskPerson)
    by_hand = Answered(effect_id=asked, verb="edit", value=plan("c"))
    with pytest.raises(Refused, match=r"bob may not edit .* the permission edit"):
        agent.take(by_hand, actor="bob", permissions=may_answer)
    with pytest.raises(Refused, match=r"eve may not approve .* the permission answer"):
        agent.take(Answered(effect_id=asked, verb="approve"), actor="eve", permissions=LOWEST)
    assert list(agent.outstanding(AskPerson)) == [asked]
    agent.take(by_hand, actor="bob", permissions=(*may_answer, Permission.EDIT))
    assert agent.state == "CONTINUE"
    earlier = agent_of_rules(6)(approve_plan=True)
    earlier.plans(plan=plan("a"))
    earlier.take(Answered(effect_id=asked, verb="approve"), permissions=LOWEST)
    assert earlier.state == "CONTINUE"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"tasks": []}, "an edit must be the whole plan: plan.tasks: there is nothing to do"),
        ({"x": 3}, "an edit must be the whole plan: plan: expected an object with tasks"),
        (plan("x", device="mars"), "this edit is invalid: x: unknown device 'mars'"),
        (plan("x y", "x>y y>x"), "this edit is invalid: x -> y -> x: the plan has a cycle"),
    ],
)
def test_a_bad_edit_by_hand_is_refused_and_the_question_stays_open(value: dict[str, Any], why: str) -> None:
    agent = planned()
    before = memory_of(agent.run)
    with pytest.raises(Refused) as refused:
        agent.take(agent.answer("edit", value=value))
    assert str(refused.value).startswith(why)
    assert memory_of(agent.run) == before
    agent.answers("approve")
    assert agent.running() == ["a"]


def test_a_question_about_a_plan_that_expires_is_a_no() -> None:
    agent = planned(inquiry_timeout_s=30)
    agent.wait_until(1029)
    assert agent.state == "START"
    agent.wait_until(1030)
    assert (agent.state, agent.memory.code, agent.memory.reason) == (
        "FAIL",
        "rejected",
        "the plan was not approved: nobody answered in time",
    )
    agent.finish_cancellations()
    assert agent.run.ended


def test_a_cancelled_run_asks_no_more() -> None:
    agent = planned()
    agent.batch(Cancel())
    (withdrawal,) = agent.outstanding(CancelEffect).values()
    assert withdrawal.effect_id in agent.outstanding(AskPerson)
    agent.finish_cancellations()
    assert agent.run.ended


def test_each_generation_is_approved_for_itself() -> None:
    agent = Agent(approve_plan=True, replan="always")
    agent.plans(plan=plan("a"))
    agent.answers("approve")
    agent.ends("a")
    agent.plans(status="START", thought="anew")
    agent.plans(plan=plan("b"))
    assert (agent.state, agent.running()) == ("START", [])
    agent.answers("approve")
    assert agent.running() == ["b"]


# -- edits -------------------------------------------------------------------------------------------


def test_an_edit_waits_for_a_yes_and_the_hold_with_it() -> None:
    agent = edited()
    ask = agent.inquiry()
    assert ask.subject["kind"] == "edits"
    assert ask.subject["changes"] == [{"part": "task", "id": "b", "before": {}, "after": {"priority": 7}}]
    assert ask.subject["actions"] == [A("update_task", task_id="b", priority=7)]
    assert agent.running() == ["c"], "b waits for the decision"
    agent.answers("approve")
    assert (agent.running(), agent.task("b").priority) == (["b", "c"], 7)
    assert memory_of(agent.replayed()) == memory_of(agent.run)


def test_a_reply_that_changes_nothing_needs_no_yes() -> None:
    agent = edited(A("update_task", task_id="b", device="d"))
    assert not agent.outstanding(AskPerson)
    assert "b" in agent.running()


def test_edits_that_undo_each_other_are_neither_asked_about_nor_made() -> None:
    agent = edited(A("add_task", task_id="n", device="d"), A("remove_task", task_id="n"))
    assert not agent.outstanding(AskPerson)
    assert agent.constellation.version == 1
    assert "b" in agent.running()


def test_before_and_after_of_what_is_added_and_removed() -> None:
    agent = edited(A("add_task", task_id="n", device="d2"), A("add_dependency", from_="a", to="n"), A("remove_task", task_id="b"))
    assert [(it["part"], it["id"], "before" in it, "after" in it) for it in agent.inquiry().subject["changes"]] == [
        ("task", "b", True, False),
        ("dependency", "a->b", True, False),
        ("task", "n", False, True),
        ("dependency", "a->n", False, True),
    ]


def test_a_rejected_edit_goes_back_to_the_planner_and_is_dropped_when_the_bound_is_reached() -> None:
    agent = edited(max_reasks=1)
    agent.answers("reject", reason="b is fine")
    question = agent.question()
    assert question is not None
    assert (question.batch, tuple(map(str, question.rejections))) == (("a",), ("me said no: b is fine",))
    assert agent.running() == ["c"]
    agent.plans(A("update_task", task_id="b", priority=8))
    agent.answers("reject", reason="again no")
    assert agent.running() == ["b", "c"]
    assert agent.task("b").priority == 0
    dropped = [words_of(entry.side_effects["dropped"]) for entry in agent.entries if "dropped" in entry.side_effects]
    assert dropped == ["the edit was not approved: me said no: again no"]


def test_an_edit_is_changed_by_hand() -> None:
    agent = edited()
    agent.answers("edit", value={"actions": [A("update_task", task_id="b", priority=1)]})
    assert agent.task("b").priority == 1


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"x": 1}, "an edit must be {"),
        ({"actions": [A("remove_task", task_id="a")]}, "this edit is invalid: a: it is COMPLETED"),
        ({"actions": [A("fly")]}, "this edit is invalid: action: unknown tool 'fly'"),
    ],
)
def test_a_bad_change_by_hand_is_refused_and_the_question_stays_open(value: dict[str, Any], why: str) -> None:
    agent = edited()
    with pytest.raises(Refused) as refused:
        agent.take(agent.answer("edit", value=value))
    assert str(refused.value).startswith(why)
    agent.answers("approve")
    assert agent.task("b").priority == 7


def test_an_approved_edit_that_no_longer_applies_is_refused_and_the_planner_asked_again() -> None:
    agent = Agent(plan("a b c", "c>b"), replan="when_needed", approve_edits=True)
    agent.ends("a", {"replan": True})
    agent.plans(A("update_task", task_id="b", priority=7))
    agent.ends("c")
    assert agent.running() == ["b"], "nothing holds it"
    agent.answers("approve")
    question = agent.question()
    assert question is not None
    assert (refusal_in(question).code, refusal_in(question).what, agent.task("b").priority) == ("read_only", "b", 0)
    assert str(question.feedback).endswith("Since you were asked: c is COMPLETED, b is RUNNING.")


def test_what_is_said_yes_to_is_rebased_on_what_has_happened_meanwhile() -> None:
    agent = edited()
    agent.ends("c")
    agent.answers("approve")
    assert agent.task("b").priority == 7
    question = agent.question()
    assert question is not None
    assert question.batch == ("c",), "the next batch comes after the decision"


def test_a_question_about_an_edit_that_expires_drops_it_and_the_run_goes_on() -> None:
    agent = edited(inquiry_timeout_s=30)
    agent.wait_until(1030)
    assert (agent.running(), agent.task("b").priority) == (["b", "c"], 0)
    agent.finish_cancellations()
    agent.ends("b")
    assert agent.question() is not None


def test_a_restart_needs_a_yes_too() -> None:
    agent = edited(status="START")
    ask = agent.inquiry()
    assert (ask.subject["kind"], ask.verbs) == ("restart", ("approve", "reject"))
    assert agent.running() == ["c"]
    agent.answers("approve")
    assert (agent.state, len(agent.memory.archive)) == ("START", 1)


def test_finish_is_checked_when_the_edit_is_approved() -> None:
    agent = Agent(plan("a b", "a>b"), replan="always", approve_edits=True)
    agent.ends("a")
    agent.plans(A("remove_task", task_id="b"), status="FINISH")
    assert agent.state == "CONTINUE"
    agent.answers("approve")
    assert agent.state == "FINISH"


def test_a_reply_that_gives_up_asks_no_person() -> None:
    agent = edited(status="FAIL")
    assert (agent.state, agent.outstanding(AskPerson)) == ("FAIL", {})


def test_a_run_that_waits_for_a_yes_alone_does_not_stir() -> None:
    agent = edited()
    agent.ends("c")
    assert not agent.memory.has_pending_work()


def test_a_fork_asks_again_about_a_proposal_that_awaited_approval() -> None:
    agent = planned()
    agent.batch(Forked(origin="o", seq=3, idle_s=10))
    agent.finish_cancellations()
    (ask,) = agent.outstanding(AskPerson).values()
    assert ask.subject["kind"] == "plan"
    agent.answers("approve")
    assert agent.running() == ["a"]


# -- a plan that changes meanwhile -------------------------------------------------------------------


def test_a_plan_after_a_restart_is_asked_about_where_edits_are() -> None:
    """A1: the yes to planning anew has shown no plan."""
    agent = edited(status="START", max_restarts=1)
    agent.answers("approve")
    agent.finish_cancellations()
    agent.plans(plan=plan("x"))
    assert agent.running() == []
    assert agent.inquiry().subject["kind"] == "plan"
    agent.answers("approve")
    assert agent.running() == ["x"]
    assert memory_of(agent.replayed()) == memory_of(agent.run)


def test_a_question_about_edits_is_asked_again_after_an_edit_of_the_plan() -> None:
    """A8: a yes to the earlier question would apply what was shown to a task that is another one now."""
    agent = edited()
    early = agent.answer("approve")
    agent.take(Edited(actions=(A("update_task", task_id="b", priority=3),)))
    with pytest.raises(Refused, match="asked again"):
        agent.take(early)
    agent.batch()
    agent.finish_cancellations()
    agent.take(early)
    assert agent.task("b").priority == 3, "the earlier question is closed"
    asked = agent.inquiry()
    assert asked.prompt.startswith("The plan was edited")
    assert [(it["before"], it["after"]) for it in asked.subject["changes"]] == [({"priority": 3}, {"priority": 7})]
    agent.answers("approve")
    assert agent.task("b").priority == 7
    assert memory_of(agent.replayed()) == memory_of(agent.run)


def test_edits_that_another_edit_has_made_impossible_are_the_planners_to_mend_after_a_yes() -> None:
    agent = edited()
    agent.batch(Edited(actions=(A("remove_task", task_id="b"),)))
    agent.finish_cancellations()
    agent.answers("approve")
    question = agent.question()
    assert question is not None
    assert "b" in str(question.feedback)
