"""What was decided about a constellation, and how one task came about, read from the journal."""

from __future__ import annotations

from asterism.constellation.form import FORM
from asterism.constellation.machine.events import Edited
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.view.plan_history import PlanDecision, PlanHistory, decision_words, usage_words
from asterism.constellation.view.show import ShownConstellation, task_status_words
from asterism.engine.control.usage import Usage
from asterism.engine.kernel.run import Run
from asterism.views.text.history import HistoryLine, PartEvent
from asterism.views.view import unread_view
from tests.support.constellation_harness import Agent
from tests.support.constellations import action as A  # noqa: N812 - as in the tests of the machine
from tests.support.constellations import plan

USED = Usage(model="m:x", requests=1, input_tokens=1200, output_tokens=34, cost_usd=0.005)


def read(agent: Agent) -> tuple[ShownConstellation, list[HistoryLine]]:
    history = ShownConstellation(unread_view(FORM, "r"))
    return history, history.read(agent.entries)


def decisions(agent: Agent) -> list[PlanDecision]:
    return read(agent)[0].decisions


def reasons(agent: Agent, task_id: str) -> list[PartEvent]:
    history, lines = read(agent)
    return history.events_of(task_id, lines)


def texts(agent: Agent, task_id: str) -> list[str]:
    return [line for reason in reasons(agent, task_id) for line in (reason.text, *reason.because)]


def status_words(agent: Agent, task_id: str) -> str:
    return task_status_words(read(agent)[0], task_id)


def edited() -> Agent:
    """Return the shape of the seeds' story: the result of a adds n and removes b."""
    agent = Agent(replan="always")
    agent.plans(plan=plan("a b", "a>b:x>1"), thought="two steps", usage=USED)
    agent.ends("a", {"x": 0})
    agent.plans(
        A("add_task", task_id="n", device="d2"), A("add_dependency", from_="a", to="n"), A("remove_task", task_id="b"), thought="retrain"
    )  # fmt: skip
    return agent


def test_the_decisions_are_those_of_a_history_that_replays_by_itself() -> None:
    agent = edited()
    alone = PlanHistory(Run(CONSTELLATION_AGENT, "r", performs=False))
    alone.read(agent.entries)
    assert alone.decisions == decisions(agent)
    assert [decision.seq for decision in read(agent)[0].later_decisions] == [decision.seq for decision in alone.decisions]


def test_a_submitted_plan_is_the_first_decision_and_not_a_later_one() -> None:
    history, _ = read(Agent(plan("a b", "a>b")))
    assert [decision.what for decision in history.decisions] == ["submitted with the request: 2 tasks"]
    assert history.later_decisions == []


def test_each_decision_has_its_thought_its_changes_and_its_usage() -> None:
    created, changed = decisions(edited())
    assert decision_words(created) == [
        "asked, answered after 0.00 s: CONTINUE, 3 changes",
        "thought: two steps",
        "+ task a  device=d",
        "+ task b  device=d",
        "+ dependency a->b  type=CONDITIONAL condition=x>1",
        "1,200 + 34 tokens, $0.0050, 1 request, m:x",
    ]
    assert decision_words(changed) == [
        "asked about a, answered after 0.00 s: CONTINUE, 4 changes",
        "thought: retrain",
        "- task b",
        "- dependency a->b",
        "+ task n  device=d2",
        "+ dependency a->n  type=SUCCESS_ONLY",
    ]


def test_a_rejected_answer_changes_nothing_and_the_next_one_shows_the_feedback() -> None:
    agent = Agent(plan("a b", "a>b"), replan="always")
    agent.ends("a")
    agent.plans(A("remove_task", task_id="never"))
    agent.plans(A("update_task", task_id="b", priority=2))
    given, refused, taken = decisions(agent)
    assert given.what == "submitted with the request: 2 tasks"
    assert (refused.what, refused.changed) == ("CONTINUE, no change", ())
    words = decision_words(taken)
    assert words[1].startswith("feedback: never: there is no such task")
    assert words[2] == "~ task b  priority: none → 2"


def test_an_approved_plan_has_the_thought_of_the_planner() -> None:
    agent = Agent(approve_plan=True)
    agent.plans(plan=plan("a"), thought="one step")
    agent.take(agent.answer("approve"), actor="ada")
    asked, approved = decisions(agent)
    assert (asked.what, asked.changed) == ("CONTINUE, waiting for approval", ())
    assert (approved.what, approved.actor, approved.thought) == ("approved, 1 change", "ada", "one step")


def test_dropped_edits_and_failed_planning_are_listed() -> None:
    agent = Agent(plan("a b", "a>b"), replan="always", max_reasks=0)
    agent.ends("a")
    agent.plans(A("remove_task", task_id="never"))
    agent.ends("b")
    agent.planning_fails(reason="no model")
    *_, dropped, failed = decisions(agent)
    assert dropped.remarks[0].startswith("never: there is no such task. Nothing of this batch was applied")
    assert failed.what == "no answer: no model"


def test_problems_on_the_way_to_an_answer_are_listed() -> None:
    agent = Agent()
    agent.plans(plan=plan("a"), notes=("m:x: reply refused: missing 'thought' field",))
    assert "m:x: reply refused: missing 'thought' field" in decision_words(decisions(agent)[0])


def test_usage_without_a_price_and_no_usage() -> None:
    assert usage_words(Usage()) == ""
    assert usage_words(Usage(requests=2, input_tokens=5)) == "5 + 0 tokens, 2 requests"


# -- why -------------------------------------------------------------------------------------------------


def test_why_explains_who_added_a_task_on_which_event_and_why_it_ran() -> None:
    agent = edited()
    assert texts(agent, "n") == [
        "added by an edit: CONTINUE, 4 changes",
        "the planner was asked about a",
        "thought: retrain",
        "+ task n  device=d2",
        "+ dependency a->n  type=SUCCESS_ONLY",
        "started on d2",
    ]
    assert status_words(agent, "n") == "RUNNING: a->n is satisfied"
    assert reasons(agent, "n")[0].actor == "me"


def test_why_explains_the_event_behind_an_approved_edit() -> None:
    agent = Agent(plan("a b", "a>b"), replan="always", approve_edits=True)
    agent.ends("a")
    agent.plans(A("add_task", task_id="n", device="d2"), thought="one more")
    agent.take(agent.answer("approve"), actor="ada")
    assert texts(agent, "n")[:4] == [
        "added by an edit: approved, 1 change",
        "the planner was asked about a",
        "thought: one more",
        "+ task n  device=d2",
    ]


def test_why_names_the_actor_of_an_external_edit_once() -> None:
    agent = Agent(plan("a b", "a>b"))
    edit = Edited(actions=(A("add_task", task_id="n", device="d2"),))
    agent.take(edit, actor="ada by mcp", key="1")
    agent.take(edit, actor="ada by mcp", key="2")
    (told,) = [reason for reason in reasons(agent, "n") if reason.actor == "ada by mcp"]
    assert told.text == "added by an edit: external edit, 1 change"


def test_why_explains_a_removed_task() -> None:
    agent = edited()
    assert [reason.text for reason in reasons(agent, "b")] == [
        "added with the plan: CONTINUE, 3 changes",
        "removed by an edit: CONTINUE, 4 changes",
    ]
    assert "thought: retrain" in texts(agent, "b")
    assert status_words(agent, "b") == "no longer in the plan"


def test_why_explains_later_changes_of_a_task() -> None:
    agent = Agent(plan("a b c", "a>b"), replan="always")
    agent.ends("a")
    agent.plans(A("update_task", task_id="b", priority=2), A("add_dependency", from_="c", to="b"), thought="c first")
    assert [reason.text for reason in reasons(agent, "b")] == [
        "added with the plan: submitted with the request: 3 tasks",
        "changed by an edit: CONTINUE, 2 changes",
    ]
    assert "~ task b  priority: none → 2" in texts(agent, "b")
    assert status_words(agent, "b") == "waits for c (RUNNING)"


def test_why_separates_the_events_of_earlier_plans() -> None:
    agent = Agent(replan="always")
    agent.plans(plan=plan("a"), thought="first")
    agent.ends("a", 1)
    agent.plans(status="START", thought="anew")
    agent.plans(plan=plan("a"), thought="second")
    told = reasons(agent, "a")
    assert [(reason.generation, reason.text) for reason in told] == [
        (0, "added with the plan: CONTINUE, 1 change"),
        (0, "started on d"),
        (0, "completed: 1"),
        (1, "added with the plan: CONTINUE, 1 change"),
        (1, "started on d"),
    ]


def test_why_explains_why_a_task_does_not_start_yet() -> None:
    agent = Agent(plan("a b c", "a>b a>c:x>1"), replan="always")
    agent.ends("a", {"x": 0})
    assert status_words(agent, "b") == "ready, but held until a change of the plan is decided"
    assert status_words(agent, "c") == "cannot start (a->c is not satisfied: x>1 is false: x is 0), but may still be edited"


def test_why_of_an_unknown_task_is_empty() -> None:
    assert reasons(edited(), "zzz") == []


def test_why_shows_the_question_that_a_task_waits_for() -> None:
    tasks = plan("a")
    tasks["tasks"][0]["requires_approval"] = True
    assert status_words(Agent(tasks), "a") == "waits for a person: Run a on d?"
