from __future__ import annotations

from typing import Any

import pytest

from asterism.constellation.machine.events import AskPlanner, Edited, Planned, Retry
from asterism.constellation.machine.memory import NotPlanning
from asterism.constellation.machine.requests import previous_rounds_of
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import PlanDocument
from asterism.engine.control.run_control import CancelEffect, Pause, Unpause
from asterism.engine.kernel.phrase import words_of
from tests.support.constellation_harness import Agent, agent_of_rules, memory_of, refusal_in
from tests.support.constellations import action, plan

A = action


def asked(agent: Agent) -> AskPlanner:
    found = agent.question()
    assert found is not None
    return found


# -- creation ----------------------------------------------------------------------------------------


def test_a_proposed_constellation_starts_running() -> None:
    agent = Agent()
    agent.plans(plan=plan("a b", "a>b"), result={"summary": "two tasks"})
    assert (agent.state, agent.running()) == ("CONTINUE", ["a"])
    assert agent.constellation.constellation_id == "r-g0"
    assert agent.memory.result()["summary"] == "two tasks"


def test_a_plan_that_cannot_be_carried_out_is_asked_for_again_with_the_reason() -> None:
    agent = Agent()
    agent.plans(plan=plan("a b", "a>b b>a"))
    question = asked(agent)
    assert agent.state == "START"
    assert question.number == 2
    assert str(question.feedback) == "a -> b -> a: the plan has a cycle; a task cannot wait for itself"
    assert refusal_in(question).code == "cycle"


@pytest.mark.parametrize("reply", [{}, {"plan": None}, {"status": "FINISH"}])
def test_a_reply_without_a_constellation_is_refused(reply: dict[str, Any]) -> None:
    agent = Agent()
    agent.plans(**reply)
    assert str(asked(agent).feedback) == "reply: it holds no constellation"


def test_an_empty_constellation_is_no_constellation() -> None:
    agent = Agent()
    agent.batch(Planned(effect_id=next(iter(agent.run.outstanding)), plan=PlanDocument()))
    assert str(asked(agent).feedback) == "reply: it holds no constellation"


def test_asking_again_is_bounded() -> None:
    agent = Agent(max_reasks=2)
    for _ in range(3):
        agent.plans(plan=plan("a", "a>z"))
    assert agent.state == "FAIL"
    assert agent.memory.asks == 3
    assert (agent.memory.code, agent.memory.reason) == ("unknown_task", "no usable plan: z: there is no such task")


def test_planning_that_cannot_be_had_fails_the_creation() -> None:
    agent = Agent()
    agent.planning_fails("planning", "no model answers")
    assert (agent.state, agent.memory.code, agent.memory.reason) == ("FAIL", "planning", "no model answers")
    assert agent.run.ended


def test_a_planner_may_give_up() -> None:
    agent = Agent()
    agent.plans(status="FAIL", thought="impossible")
    assert (agent.state, agent.memory.code, agent.memory.reason) == ("FAIL", "planner", "impossible")


def test_nothing_is_asked_while_paused() -> None:
    agent = Agent(plan("a"), replan="always")
    agent.take(Pause())
    agent.ends("a")
    assert agent.question() is None
    agent.batch(Unpause())
    assert asked(agent).batch == ("a",)


# -- when it is asked again ----------------------------------------------------------------------------


def test_two_completions_in_one_batch_are_one_question() -> None:
    agent = Agent(plan("a b c", "a>c b>c"), replan="always")
    agent.batch(agent.end_of("a", 1), agent.end_of("b", 2))
    assert asked(agent).batch == ("a", "b")
    assert agent.statuses() == {"a": "COMPLETED", "b": "COMPLETED", "c": "PENDING"}


def test_what_ends_while_the_planner_thinks_is_the_next_batch() -> None:
    agent = Agent(plan("a b c"), replan="always")
    agent.ends("a")
    agent.ends("b")
    agent.ends("c")
    assert asked(agent).batch == ("a",)
    agent.plans()
    assert asked(agent).batch == ("b", "c")
    agent.plans()
    assert agent.state == "FINISH"


def test_never_means_never() -> None:
    agent = Agent(plan("a b", "a>b"), replan="never")
    agent.ends("a", error="raised")
    assert agent.question() is None
    assert agent.state == "FAIL"


@pytest.mark.parametrize(
    ("arrows", "result", "error", "wanted"),
    [
        ("a>b", None, None, False),
        ("a>b", {"x": 1}, None, False),
        ("a>b", {"replan": False}, None, False),
        ("a>b", {"replan": True}, None, True),
        ("a>b", None, "raised", True),
        ("a>b:x>1", {"x": 2}, None, False),
        ("a>b:x>1", {"x": 1}, None, True),
    ],
)
def test_when_needed_means_a_failure_a_false_condition_or_a_result_that_asks(arrows: str, result: Any, error: Any, *, wanted: bool) -> None:
    agent = Agent(plan("a b", arrows), replan="when_needed")
    agent.ends("a", result, error)
    assert (agent.question() is not None) is wanted


def test_when_needed_asks_at_the_end_about_what_it_was_not_asked_about() -> None:
    agent = Agent(plan("a b", "a>b"), replan="when_needed")
    agent.ends("a")
    agent.ends("b")
    assert asked(agent).batch == ("a", "b")
    agent.plans()
    assert agent.state == "FINISH"


def test_a_run_that_is_paused_at_its_end_is_not_asked_about_until_it_goes_on() -> None:
    agent = Agent(plan("a"), replan="when_needed")
    agent.take(Pause())
    agent.ends("a")
    assert agent.question() is None
    assert agent.state == "CONTINUE"
    agent.batch(Unpause())
    assert asked(agent).batch == ("a",)


def test_a_planner_that_has_just_answered_is_not_asked_again_at_the_end() -> None:
    agent = Agent(plan("a"), replan="always")
    agent.ends("a")
    agent.plans()
    assert agent.state == "FINISH"
    assert agent.memory.asks == 1


def test_questions_are_bounded_in_all() -> None:
    agent = Agent(plan("a b c d", "a>b b>c c>d"), replan="always", max_asks=2)
    for task_id in "abcd":
        agent.ends(task_id)
        if agent.question():
            agent.plans()
    assert agent.memory.asks == 2
    assert agent.state == "FINISH"


# -- what is held meanwhile ----------------------------------------------------------------------------


@pytest.mark.parametrize(("hold", "started"), [("successors", ["d"]), ("none", ["c", "d"]), ("all", [])])
def test_hold_says_what_waits_for_the_answer(hold: str, started: list[str]) -> None:
    # c waits for a, which is asked about; d waits for nothing but becomes free to start only now.
    agent = Agent(plan("a b c d", "a>c b>d"), replan="when_needed", hold=hold)
    agent.batch(agent.end_of("a", {"replan": True}), agent.end_of("b"))
    assert asked(agent).batch == ("a",)
    assert agent.running() == started
    agent.plans()
    assert agent.running() == ["c", "d"]


def test_the_next_batch_holds_its_successors_too() -> None:
    agent = Agent(plan("a b c", "b>c"), replan="always")
    agent.ends("a")
    agent.ends("b")
    assert asked(agent).batch == ("a",)
    assert agent.running() == []
    agent.plans()
    assert agent.running() == []
    agent.plans()
    assert agent.running() == ["c"]


def test_an_edit_that_cannot_be_had_releases_the_hold_and_the_run_goes_on() -> None:
    agent = Agent(plan("a b c", "a>b:x>1 a>c"), replan="when_needed")
    agent.ends("a", {"x": 1})
    assert agent.statuses() == {"a": "COMPLETED", "b": "WAITING_DEPENDENCY", "c": "PENDING"}
    agent.planning_fails()
    assert agent.statuses() == {"a": "COMPLETED", "b": "SKIPPED", "c": "RUNNING"}


# -- edits -----------------------------------------------------------------------------------------------


def test_what_can_never_start_stays_editable_until_the_planner_has_answered() -> None:
    agent = Agent(plan("a b c", "a>b:x>1 b>c"), replan="when_needed")
    agent.ends("a", {"x": 1})
    assert agent.statuses() == {"a": "COMPLETED", "b": "WAITING_DEPENDENCY", "c": "WAITING_DEPENDENCY"}
    agent.plans(A("update_dependency", dependency_id="a->b", condition="x > 0"))
    assert agent.running() == ["b"]
    agent.ends("b")
    assert agent.running() == ["c"]


def test_only_after_the_answer_it_is_skipped_and_that_propagates() -> None:
    agent = Agent(plan("a b c", "a>b:x>1 b>c"), replan="when_needed")
    agent.ends("a", {"x": 1})
    agent.plans()
    assert agent.statuses() == {"a": "COMPLETED", "b": "SKIPPED", "c": "SKIPPED"}
    reasons = [task.error.words for task in agent.constellation.in_order() if task.error]
    assert reasons == ["x>1 is false: x is 1", "b is SKIPPED"]
    assert agent.state == "FINISH"


def test_where_the_planner_is_not_asked_it_is_skipped_at_once() -> None:
    agent = Agent(plan("a b c", "a>b:x>1 b>c"))
    agent.ends("a", {"x": 1})
    assert agent.statuses() == {"a": "COMPLETED", "b": "SKIPPED", "c": "SKIPPED"}
    assert agent.state == "FINISH"


def test_an_edit_written_against_an_older_version_is_rebased() -> None:
    agent = Agent(plan("a b c d", "a>c"), replan="always")
    agent.ends("a")
    version = asked(agent).base_version
    agent.ends("b")
    agent.plans(A("add_task", task_id="e", device="d"), A("add_dependency", from_="c", to="e"))
    assert agent.constellation.version == version + 1
    assert agent.statuses()["e"] == "WAITING_DEPENDENCY"


def test_an_edit_of_what_has_started_meanwhile_is_refused_and_asked_for_again() -> None:
    agent = Agent(plan("a b c", "b>c"), replan="when_needed")
    agent.ends("a", {"replan": True})
    reply = agent.reply(A("add_task", task_id="n", device="d"), A("update_task", task_id="c", name="new"))
    agent.ends("b")
    assert agent.running() == ["c"]
    agent.batch(reply)
    question = asked(agent)
    assert "n" not in agent.constellation.tasks
    assert question.batch == ("a",)
    assert (refusal_in(question).code, refusal_in(question).what) == ("read_only", "c")
    assert str(question.feedback).startswith("c: it is RUNNING;")
    assert "Nothing of this batch was applied; the constellation is at version 1." in str(question.feedback)


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (A("add_task", task_id="n", device="mars"), "unknown_device"),
        (A("add_task", task_id="n", device="s", skill="fly"), "unknown_skill"),
        (A("add_task", task_id="n", device="s", skill="once", inputs={"z": 1}), "unknown_argument"),
        (A("add_task", task_id="n", device="d", inputs={"z": "${b.x}"}), "bad_reference"),
        (A("fly"), "unknown_edit"),
        (A("remove_task"), "bad_content"),
        (A("add_dependency", from_="b", to="a"), "read_only"),
    ],
)
def test_every_refusal_reaches_the_planner_with_its_code(edit: dict[str, Any], code: str) -> None:
    agent = Agent(plan("a b", "a>b"), replan="always")
    agent.ends("a")
    before = agent.constellation.to_dict()
    agent.plans(A("update_task", task_id="b", name="new", device="d2"), edit)
    assert refusal_in(asked(agent)).code == code
    assert agent.constellation.to_dict() == before


def test_an_edit_that_is_refused_again_and_again_is_dropped_and_the_journal_says_so() -> None:
    agent = Agent(plan("a b", "a>b"), replan="always", max_reasks=1)
    agent.ends("a")
    agent.plans(A("remove_task", task_id="never"))
    agent.plans(A("remove_task", task_id="never"))
    assert agent.question() is None
    assert agent.running() == ["b"]
    dropped = [words_of(entry.side_effects["dropped"]) for entry in agent.entries if "dropped" in entry.side_effects]
    assert len(dropped) == 1
    assert dropped[0].startswith("never: there is no such task")
    assert memory_of(agent.replayed()) == memory_of(agent.run)


def test_a_skill_is_looked_up_for_what_an_edit_changes() -> None:
    agent = Agent(plan("a b", "a>b"), replan="always")
    agent.ends("a")
    agent.plans(A("update_task", task_id="b", device="s", skill="again"))
    assert agent.attempt("b").skill == "again"


def test_a_refused_edit_leaves_the_looked_up_skill_as_it_was() -> None:
    agent = Agent(
        {
            "tasks": [*plan("a")["tasks"], {"task_id": "b", "device": "s", "skill": "once"}],
            "dependencies": [{"from": "a", "to": "b"}],
        },
        replan="always",
    )
    agent.ends("a")
    agent.plans(A("update_task", task_id="b", skill="again"), A("add_task", task_id="n", device="s", skill="fly"))
    assert (agent.task("b").skill, agent.task("b").resolved_skill) == ("once", "once")


# -- the proposed status ---------------------------------------------------------------------------------


def test_finish_is_accepted_when_no_work_is_left() -> None:
    agent = Agent(plan("a"), replan="always")
    agent.ends("a")
    agent.plans(status="FINISH", result={"summary": "all well"})
    assert (agent.state, agent.memory.outcome()) == ("FINISH", "finished")
    assert agent.memory.result() == {
        "summary": "all well", "total_tasks": 1, "completed": 1, "failed": 0, "skipped": 0, "cancelled": 0,
    }  # fmt: skip


# I1: FINISH over a failure


ONCE = {"tasks": [{"task_id": "a", "device": "s", "skill": "once"}]}
FINISH_REFUSED = (
    "FINISH is refused: no task handles the end of a (FAILED). "
    "Add a task that performs the same skill and depends on it (UNCONDITIONAL), or FAIL."
)


def failed(document: dict[str, Any] | None = None, **options: Any) -> Agent:
    """A run whose task ``a`` has failed, and whose planner is asked about it."""
    agent = Agent(document or ONCE, replan="when_needed", **options)
    agent.ends("a", error="raised")
    return agent


def handler(device: str, skill: str = "") -> list[dict[str, Any]]:
    """Edits that add ``h``, which waits for the end of ``a``."""
    return [
        A("add_task", task_id="h", device=device, skill=skill),
        A("add_dependency", **{"from": "a", "to": "h", "type": "UNCONDITIONAL"}),
    ]


def outcome_after_h(agent: Agent) -> str:
    """Let ``h`` complete, and the planner say FINISH as often as it is asked."""
    agent.ends("h")
    while agent.question() is not None:
        agent.plans(status="FINISH")
    return agent.memory.outcome()


def test_finish_over_a_failure_is_refused_with_the_task_named_and_then_fails_the_run() -> None:
    alert = {"task_id": "alert", "device": "d", "inputs": {"text": "${run.error}"}}
    agent = failed({**ONCE, "on_failure": [alert]}, max_reasks=2)
    for _ in range(2):
        agent.plans(status="FINISH", result={"summary": "good enough"})
        assert (agent.state, str(asked(agent).feedback)) == ("CONTINUE", FINISH_REFUSED)
    agent.plans(status="FINISH")
    assert agent.running() == ["alert"]
    agent.ends("alert")
    assert (agent.state, agent.memory.code, agent.memory.reason) == ("FAIL", "task_failed", "a (once) is FAILED: a: raised")


def test_finish_over_a_failure_is_accepted_where_the_submission_accepts_failures() -> None:
    agent = failed(accept_failed=True)
    agent.plans(status="FINISH", result={"summary": "good enough"})
    assert (agent.state, agent.memory.outcome(), agent.memory.result()["failed"]) == ("FINISH", "finished", 1)


def test_failures_are_accepted_only_by_a_finish() -> None:
    agent = failed(accept_failed=True)
    agent.plans(status="CONTINUE")
    assert (agent.state, agent.memory.code) == ("FAIL", "task_failed")


def test_a_run_of_earlier_rules_finishes_over_a_failure() -> None:
    agent = agent_of_rules(6)(plan("a"), replan="always")
    agent.ends("a", error="raised")
    agent.plans(status="FINISH")
    assert agent.state == "FINISH"


@pytest.mark.parametrize(
    ("device", "skill", "options", "outcome"),
    [
        ("s", "again", {}, "failed"),
        ("d", "", {}, "failed"),
        ("s2", "once", {}, "finished"),
        ("s", "again", {"accept_failed": True}, "finished"),
    ],
)
def test_a_handler_added_after_the_failure_handles_it_only_with_the_same_skill(
    device: str, skill: str, options: dict[str, Any], outcome: str
) -> None:
    agent = failed(**options)
    agent.plans(*handler(device, skill))
    assert outcome_after_h(agent) == outcome


def test_a_described_task_is_performed_again_only_by_its_own_device() -> None:
    for device, outcome in (("d", "finished"), ("d2", "failed")):
        agent = failed(plan("a"))
        agent.plans(*handler(device))
        assert outcome_after_h(agent) == outcome


def test_a_handler_that_was_there_before_the_failure_handles_it() -> None:
    agent = Agent(plan("z a", ""), replan="always")
    agent.ends("z")
    agent.plans(*handler("d2"))
    agent.ends("a", error="raised")
    agent.plans()
    assert outcome_after_h(agent) == "finished"


@pytest.mark.parametrize(
    "edits",
    [
        [A("add_dependency", **{"from": "a", "to": "h", "type": "UNCONDITIONAL"})],
        [A("update_dependency", dependency_id="a->h", type="UNCONDITIONAL")],
        [A("update_task", task_id="h", join="any")],
        [
            A(
                "build_constellation",
                clear=False,
                tasks=[{"task_id": "h", "device": "d2"}],
                dependencies=[{"from": "a", "to": "h", "type": "COMPLETION_ONLY"}],
            )
        ],
    ],
    ids=["dependency", "type", "join", "plan"],
)
def test_no_edit_of_a_planner_makes_an_earlier_task_a_handler_of_a_failure(edits: list[dict[str, Any]]) -> None:
    arrows = "z>h a>h" if edits[0]["tool"].startswith("update") else "z>h"
    tasks = [{"task_id": task_id, "device": "d2" if task_id == "h" else "d"} for task_id in ("z", "a", "h")]
    agent = Agent({**plan("z a h", arrows), "tasks": tasks}, replan="always")
    agent.ends("a", error="raised")
    agent.plans(*edits)
    agent.ends("z")
    agent.plans()
    assert agent.running() == ["h"]
    assert outcome_after_h(agent) == "failed"


def test_a_handler_that_a_person_adds_after_the_failure_handles_it() -> None:
    agent = failed(plan("a"))
    agent.batch(Edited(actions=tuple(handler("d2"))))
    agent.plans()
    assert outcome_after_h(agent) == "finished"


def restarted(document: dict[str, Any], **options: Any) -> Agent:
    """A run whose planner has answered the failure of ``a`` with START and another plan, whose task has completed."""
    agent = failed(max_reasks=1, **options)
    agent.plans(status="START", thought="another way")
    agent.plans(plan=document)
    agent.ends(document["tasks"][0]["task_id"])
    return agent


def test_a_restart_over_a_failure_excuses_it_only_where_the_new_plan_does_the_same_work() -> None:
    """I1: START and a plan of one harmless task made a failed run end as finished."""
    agent = restarted(plan("z"))
    agent.plans(status="FINISH")
    assert str(asked(agent).feedback) == FINISH_REFUSED.replace(" and depends on it (UNCONDITIONAL)", "")
    agent.plans(status="FINISH")
    assert (agent.state, agent.memory.code, agent.memory.reason) == ("FAIL", "task_failed", "a (once) is FAILED: a: raised")
    assert memory_of(agent.replayed()) == memory_of(agent.run)
    same_work = {"tasks": [{"task_id": "z", "device": "s2", "skill": "once"}]}
    for document, options in ((same_work, {}), (plan("z"), {"accept_failed": True})):
        agent = restarted(document, **options)
        agent.plans(status="FINISH")
        assert agent.memory.outcome() == "finished"


def test_a_second_restart_excuses_no_failure_that_the_first_has_dropped() -> None:
    """I1."""
    agent = restarted(plan("z"))
    agent.plans(status="START")
    agent.plans(plan=plan("y"))
    assert [task.task_id for task in agent.memory.dropped] == ["a"]


def test_a_run_of_earlier_rules_drops_a_failure_by_a_restart() -> None:
    agent = agent_of_rules(6)(plan("a"), replan="always")
    agent.ends("a", error="raised")
    agent.plans(status="START")
    agent.plans(plan=plan("z"))
    agent.ends("z")
    agent.plans(status="FINISH")
    assert agent.state == "FINISH"


def test_a_planners_handler_of_a_failure_handles_a_later_one_of_the_retried_task() -> None:
    agent = failed(plan("a z"))
    agent.plans(*handler("d2"), A("add_dependency", **{"from": "z", "to": "h", "type": "UNCONDITIONAL"}))
    agent.batch(Retry(tasks=("a",)))
    agent.ends("a", error="raised")
    agent.plans()
    agent.ends("z")
    assert outcome_after_h(agent) == "finished"


def test_finish_may_remove_what_has_not_started() -> None:
    agent = Agent(plan("a b", "a>b"), replan="always")
    agent.ends("a")
    agent.plans(A("remove_task", task_id="b"), status="FINISH")
    assert agent.state == "FINISH"


@pytest.mark.parametrize(
    ("ids", "arrows", "told"),
    [
        ("a b", "", "FINISH is refused: b still running. Remove those tasks, or CONTINUE."),
        ("a b", "a>b", "FINISH is refused: b can still start. Remove those tasks, or CONTINUE."),
    ],
)
def test_finish_is_refused_while_something_runs_or_can_start(ids: str, arrows: str, told: str) -> None:
    agent = Agent(plan(ids, arrows), replan="always")
    agent.ends("a")
    agent.plans(status="FINISH")
    assert agent.state == "CONTINUE"
    assert str(asked(agent).feedback) == told
    assert asked(agent).batch == ("a",)


def test_finish_is_refused_when_a_task_ended_after_the_question() -> None:
    agent = Agent(plan("a b"), replan="always")
    agent.ends("a")
    reply = agent.reply(status="FINISH")
    agent.batch(agent.end_of("b"), reply)
    assert str(asked(agent).feedback).startswith("FINISH is refused: a task has ended since you were asked.")
    assert asked(agent).batch == ("a", "b")


def test_a_finish_that_stays_refused_counts_as_continue() -> None:
    agent = Agent(plan("a b", "a>b"), replan="always", max_reasks=2)
    agent.ends("a")
    for _ in range(3):
        assert agent.state == "CONTINUE"
        agent.plans(status="FINISH")
    assert agent.question() is None
    assert agent.running() == ["b"]


def test_the_planner_may_fail_the_run() -> None:
    agent = Agent(plan("a b"), replan="always")
    agent.ends("a")
    agent.plans(status="FAIL", thought="hopeless")
    assert (agent.state, agent.memory.code, agent.memory.reason) == ("FAIL", "planner", "hopeless")
    assert agent.statuses() == {"a": "COMPLETED", "b": "CANCELLED"}
    agent.finish_cancellations()
    assert agent.run.ended


# -- restart -----------------------------------------------------------------------------------------------


def test_a_restart_archives_settles_and_plans_again() -> None:
    agent = Agent(plan("a b"), replan="always")
    agent.ends("a")
    agent.plans(status="START", thought="another way")
    assert agent.state == "START"
    assert agent.memory.schedule is None
    assert [it["generation"] for it in agent.memory.archive] == [0]
    assert agent.memory.archive[0]["tasks"][1]["status"] == "CANCELLED"
    assert agent.question() is None, "what runs is settled first"
    agent.finish_cancellations()
    assert asked(agent).mode == "CREATION"
    agent.plans(plan=plan("a c", "a>c"))
    assert (agent.state, agent.running()) == ("CONTINUE", ["a"])
    assert (agent.constellation.generation, agent.constellation.constellation_id) == (1, "r-g1")
    assert memory_of(agent.replayed()) == memory_of(agent.run)


def test_an_attempt_cancelled_by_a_restart_does_not_touch_the_task_of_that_name_in_the_next() -> None:
    agent = Agent(plan("a b"), replan="always")
    agent.ends("a")
    late = agent.end_of("b", result="late")
    agent.plans(status="START")
    (withdrawal,) = agent.outstanding(CancelEffect)
    agent.take(late)
    agent.finish_cancellations()
    assert withdrawal not in agent.run.outstanding
    agent.plans(plan=plan("b"))
    agent.take(late)
    assert agent.task("b").status == "RUNNING"


def test_restarts_are_bounded() -> None:
    agent = Agent(plan("a"), replan="always", max_restarts=2)
    for _ in range(2):
        agent.ends("a")
        agent.plans(status="START")
        agent.plans(plan=plan("a"))
    agent.ends("a")
    agent.plans(status="START")
    assert (agent.state, agent.memory.code) == ("FAIL", "restarts")
    assert len(agent.memory.archive) == 2


def test_the_planner_gets_the_reason_of_a_restart_also_after_a_refusal() -> None:
    agent = Agent(plan("a"), replan="always")
    agent.ends("a", {"found": 1})
    agent.plans(status="START", thought="another way")
    assert not isinstance(agent.memory.planning, NotPlanning)
    assert agent.memory.open_request.reason == "another way"
    agent.plans(plan=plan("a", "a>z"))
    assert agent.memory.open_request.reason == "another way"
    (before,) = previous_rounds_of(agent.memory)
    assert (before["generation"], before["tasks"]) == (0, [{"task_id": "a", "device": "d", "status": "COMPLETED", "result": {"found": 1}}])


# -- a constellation in answer to a question for edits ---------------------------------------------------


def test_a_constellation_in_editing_is_merged_into_what_is_there() -> None:
    agent = Agent(plan("a b", "a>b"), replan="always")
    agent.ends("a")
    agent.plans(A("add_dependency", from_="b", to="n"), plan=plan("b n"))
    assert agent.statuses() == {"a": "COMPLETED", "b": "RUNNING", "n": "WAITING_DEPENDENCY"}
    assert memory_of(agent.replayed()) == memory_of(agent.run)


def test_one_that_does_not_fit_is_refused_in_words() -> None:
    agent = Agent(plan("a b", "a>b"), replan="always")
    agent.ends("a")
    agent.plans(plan={"tasks": [{"task_id": "b", "device": "d2"}]})
    assert str(asked(agent).feedback).startswith("b: a task of that id is there with different content")


def test_a_restart_does_not_take_the_constellation_that_comes_with_it() -> None:
    agent = Agent(plan("a"), replan="always")
    agent.ends("a")
    agent.plans(status="START", plan=plan("z"))
    assert agent.state == "START"
    assert [[*map(words_of, entry.side_effects["notes"])] for entry in agent.entries if "notes" in entry.side_effects] == [
        ["the plan is ignored: a restart asks for a new one"]
    ]


def test_a_restart_records_the_notes_of_its_edits_beside_its_own() -> None:
    """B9: the second list of notes of one step was lost."""
    agent = Agent(plan("a"), replan="always")
    agent.ends("a")
    agent.plans({"tool": "add_task", "parameters": plan("a")["tasks"][0]}, status="START", plan=plan("z"))
    assert [[*map(words_of, entry.side_effects["notes"])] for entry in agent.entries if "notes" in entry.side_effects] == [
        ["the plan is ignored: a restart asks for a new one", "add_task a: it is there already"]
    ]


def test_a_refusal_lists_tasks_that_moved_since_the_request() -> None:
    agent = Agent(plan("a b c", "b>c"), replan="when_needed")
    agent.ends("a", {"replan": True})
    reply = agent.reply(A("update_task", task_id="c", name="new"))
    agent.ends("b")
    agent.batch(reply)
    assert str(asked(agent).feedback).endswith(" Since you were asked: b is COMPLETED, c is RUNNING.")


def test_a_refusal_of_edits_wrong_from_the_start_lists_no_moved_tasks() -> None:
    agent = Agent(plan("a b c", "a>b"), replan="always", hold="none")
    agent.ends("a")
    agent.plans(A("remove_task", task_id="b"))
    assert str(asked(agent).feedback).endswith("the constellation is at version 1.")


# -- a refused batch that replaces a task ------------------------------------------------------------


def replaced(rules: int) -> Agent:
    """A run whose planner wants to replace ``b``, by arguments that its skill does not take."""
    first = {"task_id": "b", "device": "s", "name": "again"}
    document = {"tasks": [{"task_id": "a", "device": "d"}, first], "dependencies": [{"from": "a", "to": "b"}]}
    agent = agent_of_rules(rules)(document, replan="always")
    agent.ends("a")
    agent.plans(A("remove_task", task_id="b"), A("add_task", **first, inputs={"nonsense": 1}))
    assert asked(agent).feedback is not None
    agent.plans()
    return agent


def test_a_task_that_a_refused_batch_has_replaced_runs_with_the_skill_that_it_had() -> None:
    agent = replaced(CONSTELLATION_AGENT.rules)
    assert agent.attempt("b").skill == "again"
    assert memory_of(agent.replayed()) == memory_of(agent.run)


def test_a_run_in_which_such_a_task_has_lost_its_skill_by_the_first_rules_is_replayed() -> None:
    agent = replaced(rules=1)
    assert agent.attempt("b").skill == ""
    assert memory_of(agent.replayed(CONSTELLATION_AGENT)) == memory_of(agent.run)
