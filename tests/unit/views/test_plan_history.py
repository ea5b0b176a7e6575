"""What was decided about a constellation, and how one task came about, read from the journal."""

from __future__ import annotations

from asterism.cli.reasons import Reason, reasons_for, standing_of
from asterism.cli.stories.constellation_story import ConstellationStory
from asterism.machines.constellation_agent.events import Edited
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.machines.usage import Usage
from asterism.views.plan_history import PlanDecision, PlanHistory, decision_words, usage_words
from tests.agents import Agent
from tests.stars import action as A  # noqa: N812 - as in the tests of the machine
from tests.stars import plan

USED = Usage(model="m:x", requests=1, input_tokens=1200, output_tokens=34, cost_usd=0.005)


def decisions(agent: Agent) -> list[PlanDecision]:
    return PlanHistory(CONSTELLATION_AGENT, "r").read(agent.entries)


def reasons(agent: Agent, task_id: str) -> list[Reason]:
    return reasons_for(task_id, decisions(agent), ConstellationStory(CONSTELLATION_AGENT, "r").read(agent.entries))


def texts(agent: Agent, task_id: str) -> list[str]:
    return [line for reason in reasons(agent, task_id) for line in (reason.text, *reason.because)]


def standing(agent: Agent, task_id: str) -> str:
    story = ConstellationStory(CONSTELLATION_AGENT, "r")
    story.read(agent.entries)
    return standing_of(story, task_id)


def edited() -> Agent:
    """The shape of the seeds' story: what a returns has n added and b removed."""
    agent = Agent(replan="always")
    agent.plans(plan=plan("a b", "a>b:x>1"), thought="two steps", usage=USED)
    agent.ends("a", {"x": 0})
    agent.plans(
        A("add_task", task_id="n", device="d2"), A("add_dependency", from_="a", to="n"), A("remove_task", task_id="b"), thought="retrain"
    )  # fmt: skip
    return agent


def test_each_answer_is_told_with_its_thought_its_changes_and_what_it_used() -> None:
    created, changed = decisions(edited())
    assert decision_words(created) == [
        "asked, answers after 0.00 s: CONTINUE, 3 changes",
        "thought: two steps",
        "+ task a  device=d",
        "+ task b  device=d",
        "+ dependency a->b  type=CONDITIONAL condition=x>1",
        "1,200 + 34 tokens, $0.0050, 1 request, m:x",
    ]
    assert decision_words(changed) == [
        "asked about a, answers after 0.00 s: CONTINUE, 4 changes",
        "thought: retrain",
        "- task b",
        "- dependency a->b",
        "+ task n  device=d2",
        "+ dependency a->n  type=SUCCESS_ONLY",
    ]


def test_a_refused_answer_changes_nothing_and_the_next_one_says_what_was_told() -> None:
    agent = Agent(plan("a b", "a>b"), replan="always")
    agent.ends("a")
    agent.plans(A("remove_task", task_id="never"))
    agent.plans(A("update_task", task_id="b", priority=2))
    given, refused, taken = decisions(agent)
    assert given.what == "the plan came with the request: 2 tasks"
    assert (refused.what, refused.changed) == ("CONTINUE, no change", ())
    words = decision_words(taken)
    assert words[1].startswith("told before: never: there is no such task")
    assert words[2] == "~ task b  priority: nothing → 2"


def test_what_a_person_approved_is_told_with_the_planners_thought() -> None:
    agent = Agent(approve_plan=True)
    agent.plans(plan=plan("a"), thought="one step")
    agent.take(agent.answer("approve"), actor="ada")
    asked, approved = decisions(agent)
    assert (asked.what, asked.changed) == ("CONTINUE, which a person is asked to approve", ())
    assert (approved.what, approved.actor, approved.thought) == ("approved, 1 change", "ada", "one step")


def test_dropped_edits_and_planning_that_could_not_be_had_are_told() -> None:
    agent = Agent(plan("a b", "a>b"), replan="always", max_reasks=0)
    agent.ends("a")
    agent.plans(A("remove_task", task_id="never"))
    agent.ends("b")
    agent.planning_fails(reason="no model")
    *_, dropped, failed = decisions(agent)
    assert dropped.remarks[0].startswith("never: there is no such task. Nothing of this batch was applied")
    assert failed.what == "no answer: no model"


def test_what_went_wrong_on_the_way_to_an_answer_is_told() -> None:
    agent = Agent()
    agent.plans(plan=plan("a"), notes=("m:x: reply refused: missing 'thought' field",))
    assert "m:x: reply refused: missing 'thought' field" in decision_words(decisions(agent)[0])


def test_usage_without_a_price_or_without_anything() -> None:
    assert usage_words(Usage()) == ""
    assert usage_words(Usage(requests=2, input_tokens=5)) == "5 + 0 tokens, 2 requests"


# -- why -------------------------------------------------------------------------------------------------


def test_why_tells_who_added_a_task_on_which_event_with_which_thought_and_why_it_ran() -> None:
    agent = edited()
    assert texts(agent, "n") == [
        "added by an edit: CONTINUE, 4 changes",
        "the planner was asked about a",
        "thought: retrain",
        "+ task n  device=d2",
        "+ dependency a->n  type=SUCCESS_ONLY",
        "started on d2",
    ]
    assert standing(agent, "n") == "RUNNING: a->n is satisfied"
    assert reasons(agent, "n")[0].actor == "me"


def test_why_tells_on_which_event_an_edit_came_that_a_person_approved() -> None:
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


def test_why_tells_who_edited_a_plan_from_outside_and_says_it_once() -> None:
    agent = Agent(plan("a b", "a>b"))
    edit = Edited(actions=(A("add_task", task_id="n", device="d2"),))
    agent.take(edit, actor="ada by mcp", key="1")
    agent.take(edit, actor="ada by mcp", key="2")
    (told,) = [reason for reason in reasons(agent, "n") if reason.actor == "ada by mcp"]
    assert told.text == "added by an edit: from outside, 1 change"


def test_why_tells_of_a_task_that_was_removed() -> None:
    agent = edited()
    assert [reason.text for reason in reasons(agent, "b")] == [
        "added with the plan: CONTINUE, 3 changes",
        "removed by an edit: CONTINUE, 4 changes",
    ]
    assert "thought: retrain" in texts(agent, "b")
    assert standing(agent, "b") == "it is not in the plan any more"


def test_why_tells_what_changed_a_task_since() -> None:
    agent = Agent(plan("a b c", "a>b"), replan="always")
    agent.ends("a")
    agent.plans(A("update_task", task_id="b", priority=2), A("add_dependency", from_="c", to="b"), thought="c first")
    assert [reason.text for reason in reasons(agent, "b")] == [
        "added with the plan: the plan came with the request: 3 tasks",
        "changed by an edit: CONTINUE, 2 changes",
    ]
    assert "~ task b  priority: nothing → 2" in texts(agent, "b")
    assert standing(agent, "b") == "waits for c (RUNNING)"


def test_why_tells_of_earlier_plans_and_keeps_them_apart() -> None:
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


def test_why_tells_why_a_task_does_not_start_yet() -> None:
    agent = Agent(plan("a b c", "a>b a>c:x>1"), replan="always")
    agent.ends("a", {"x": 0})
    assert standing(agent, "b") == "could start, and is held until a change of the plan is decided"
    assert standing(agent, "c") == "cannot start (a->c is not satisfied: x>1 is false: x is 0), and may still be changed"


def test_why_of_a_task_that_never_was_is_nothing() -> None:
    assert reasons(edited(), "zzz") == []


def test_why_tells_what_a_person_is_asked_before_a_task_goes_on() -> None:
    tasks = plan("a")
    tasks["tasks"][0]["requires_approval"] = True
    assert standing(Agent(tasks), "a") == "waits for a person: Run a on d?"
