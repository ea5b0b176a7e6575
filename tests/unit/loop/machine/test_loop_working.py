"""Plans, steps, people, parallel work, stepping, and forks."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from asterism.engine.control.children import ChildEnded, EditedBy, StartChild
from asterism.engine.control.run_control import Answered, AskPerson, Forked, Imported, Pause, Verb
from asterism.engine.kernel.guards import DeviceGuards, Guards, SkillGuard
from asterism.engine.kernel.machine import Event, kind_of
from asterism.engine.kernel.permissions import ALL, ALL_BUT_LOCAL, Permission, Permissions
from asterism.engine.kernel.profile import ChildSpec
from asterism.errors import Refused
from asterism.loop.machine.effects import CallTool, MakePlan, Reflect, RunWorker
from asterism.loop.machine.events import WorkerEnded
from asterism.loop.machine.model import Finding, Later, Step, Strategy, ToolCall, WorkerProfile
from tests.support.loop_harness import WORKERS, Loop, steps

# -- planning ----------------------------------------------------------------------------------------


def test_an_invalid_plan_is_requested_again_with_the_reason() -> None:
    loop = Loop()
    loop.plans(Step(worker="ghost", intent="haunt"))
    (asked,) = loop.outstanding(MakePlan).values()
    assert (loop.state, asked.number) == ("PLANNING", 2)
    assert str(asked.feedback) == "step 'step_1': there is no worker 'ghost'; there are w, once, asks, model"
    loop.plans(*steps("a", "a"))
    assert loop.state == "FAILED"
    assert loop.memory.reason == "no plan can be had after 2 tries (max_calls): two steps are named 'a'"


def test_steps_without_ids_are_numbered_on_through_the_run() -> None:
    loop = Loop()
    loop.plans(Step(worker="w", intent="x"), Step(worker="w", intent="y"))
    assert loop.working() == ["step_1"]
    loop.ends("step_1")
    loop.says("replan")
    loop.plans(Step(worker="w", intent="z"))
    assert loop.working() == ["step_2"]


def test_an_empty_plan_is_reflected_on_and_continue_ends_it() -> None:
    loop = Loop()
    loop.plans()
    assert (loop.state, loop.states[-3:]) == ("REFLECTING", ["EXECUTING", "OBSERVING", "REFLECTING"])
    loop.says("continue")
    loop.answers_with("nothing to do")
    assert loop.state == "COMPLETE"


@pytest.mark.parametrize(
    "plan",
    [
        (Step(step_id="a", worker="w", intent="x", uses=("b",)), Step(step_id="b", worker="w", intent="y")),
        (Step(step_id="a", worker="w", intent="x", group="g"), Step(step_id="b", worker="w", intent="y", uses=("a",), group="g")),
    ],
)
def test_a_step_may_only_use_what_has_come_before_it(plan: tuple[Step, ...]) -> None:
    with pytest.raises(Refused, match="which is no step before it"):
        Loop(*plan)


def test_a_worker_sees_its_handoff_and_nothing_else() -> None:
    loop = Loop(*steps("a"), Step(step_id="b", worker="once", intent="write it", context={"tone": "dry"}, uses=("a",)))
    loop.ends("a", {"fact": 1})
    loop.says()
    (effect,) = loop.outstanding(RunWorker).values()
    handoff = effect.handoff
    assert (handoff.from_, handoff.to, handoff.intent) == ("supervisor", "once", "write it")
    assert (handoff.context, handoff.artifacts) == ({"tone": "dry"}, {"a": {"fact": 1}})


# -- one step ----------------------------------------------------------------------------------------


def test_a_step_begins_before_it_runs_and_observing_records_its_finding() -> None:
    loop = Loop(*steps("a"))
    claim = loop.entries[-1]
    assert [kind_of(effect) for effect in claim.effects] == ["run_worker"]
    assert claim.state == "EXECUTING"
    loop.take(loop.end_of("a", 42))
    assert (loop.entries[-1].state, loop.entries[-1].effects) == ("OBSERVING", ())


def test_a_step_that_needs_a_yes_waits_for_it_and_then_runs_once() -> None:
    loop = Loop(*steps("a:asks"))
    assert loop.state == "WAITING"
    (asked,) = loop.asked()
    assert asked.subject == {"step_id": "a", "worker": "asks", "intent": "a:asks", "context": {}}
    loop.answers("approve")
    assert (loop.state, loop.working()) == ("EXECUTING", ["a"])
    loop.ends("a")
    assert loop.states == ["EXECUTING", "WAITING", "EXECUTING", "OBSERVING", "REFLECTING"]


def test_an_approval_may_change_the_handoff() -> None:
    loop = Loop(*steps("a:asks"))
    loop.answers("edit", {"budget": 5})
    (effect,) = loop.outstanding(RunWorker).values()
    assert effect.handoff.context == {"budget": 5}


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        ({"intent": "book two"}, ("book two", {"budget": 3})),
        ({"context": {"seats": 2}}, ("book", {"budget": 3, "seats": 2})),
        ({"intent": "book two", "budget": 5}, ("book two", {"budget": 5})),
    ],
)
def test_an_edit_changes_what_was_shown_under_the_names_it_was_shown_by(edit: dict[str, Any], told: tuple[str, Any]) -> None:
    loop = Loop(Step(step_id="a", worker="asks", intent="book", context={"budget": 3}))
    loop.answers("edit", edit)
    (effect,) = loop.outstanding(RunWorker).values()
    assert (effect.handoff.intent, effect.handoff.context) == told
    loop.assert_replays()


@pytest.mark.parametrize("edit", [{"worker": "w"}, {"step_id": "b"}, {"artifacts": {}}, {"intent": 5}, {"context": [1]}])
def test_an_edit_of_what_cannot_be_edited_is_refused_and_nothing_runs(edit: dict[str, Any]) -> None:
    loop = Loop(*steps("a:asks"))
    with pytest.raises(Refused, match="an edit of a "):
        loop.answers("edit", edit)
    assert (len(loop.asked()), loop.working()) == (1, [])


def test_who_approves_a_step_is_shown_what_its_worker_is_handed_of_other_steps() -> None:
    loop = Loop(*steps("price"), Step(step_id="book", worker="asks", intent="book it", uses=("price",)))
    loop.ends("price", {"euros": 120})
    loop.says()
    (asked,) = loop.asked()
    assert asked.subject["artifacts"] == {"price": {"euros": 120}}


def test_a_denied_step_does_not_run_and_reflecting_sees_the_feedback() -> None:
    loop = Loop(*steps("a:asks"))
    loop.answers("reject", reason="too risky")
    assert (loop.state, loop.working()) == ("REFLECTING", [])
    (finding,) = loop.memory.latest_findings()
    assert (finding.status, str(finding.reason), finding.feedback, finding.failed) == ("denied", "me said no", "too risky", False)


def test_a_stale_answer_is_refused_and_simultaneous_ones_run_it_once() -> None:
    loop = Loop(*steps("a:asks"))
    answer = loop.answer("approve")
    loop.batch(answer, answer, answer)
    assert loop.working() == ["a"]
    assert [bool(entry.note) for entry in loop.entries if kind_of(entry.event) == "answered"] == [False, True, True]


def test_an_answer_that_a_question_does_not_take_leaves_it_open() -> None:
    loop = Loop(*steps("a:asks"))
    with pytest.raises(Refused, match="accepts approve, edit, reject, not respond"):
        loop.answers("respond", 1)
    assert len(loop.asked()) == 1


def test_a_question_that_expires_is_a_no() -> None:
    loop = Loop(*steps("a:asks"), inquiry_timeout_s=60)
    assert loop.memory.due_at() == 1060.0
    loop.wait_until(1060.0)
    loop.finish_cancellations()
    assert loop.state == "REFLECTING"
    assert str(loop.memory.latest_findings()[0].reason) == "nobody answered in time"
    loop.assert_replays()


def test_a_later_result_is_awaited_and_becomes_the_output() -> None:
    loop = Loop(*steps("a"))
    loop.batch(WorkerEnded(effect_id=loop.effect(RunWorker), later=Later(key="job-7")))
    assert loop.state == "WAITING"
    assert loop.asked()[0].subject["awaits"] == "job-7"
    loop.answers("respond", {"rows": 3})
    assert loop.state == "REFLECTING"
    assert loop.memory.latest_findings()[0].output == {"rows": 3}


@pytest.mark.parametrize(("verb", "works", "status"), [("approve", ["a"], None), ("respond", [], "ok"), ("reject", [], "denied")])
def test_a_step_that_may_have_finished_is_asked_about(verb: str, works: list[str], status: str | None) -> None:
    loop = Loop(*steps("a:once"))
    effect = loop.outstanding(RunWorker)[loop.effect(RunWorker)]
    loop.batch(effect.interrupted(loop.effect(RunWorker), "killed"))
    assert loop.state == "WAITING"
    loop.answers(verb, 1 if verb == "respond" else None)  # type: ignore[arg-type]
    assert loop.working() == works
    assert status is None or loop.memory.latest_findings()[0].status == status
    assert verb != "reject" or str(loop.memory.latest_findings()[0].reason) == (
        "it was interrupted, may have been carried out, and is not repeated: me said no"
    )


# -- parallel ----------------------------------------------------------------------------------------


def test_steps_of_one_group_run_together_and_are_reflected_on_once() -> None:
    loop = Loop(*steps("a", "b", group="g"), *steps("c"))
    assert (loop.state, loop.working()) == ("PARALLEL", ["a", "b"])
    loop.ends("b")
    assert (loop.state, list(loop.outstanding(Reflect))) == ("PARALLEL", [])
    loop.ends("a")
    assert loop.state == "REFLECTING"
    assert [finding.step_id for finding in loop.memory.latest_findings()] == ["a", "b"]
    loop.says()
    assert loop.working() == ["c"]


def test_five_at_once_one_fails_one_times_out_one_asks_and_one_reflection_sees_all() -> None:
    loop = Loop(*steps("a", "b", "c", "d", "e:asks", group="g"))
    assert (loop.state, loop.working()) == ("PARALLEL", ["a", "b", "c", "d"])
    loop.ends("a")
    loop.fails("b")
    loop.ends("c", None, status="timeout", reason="took longer than 5 s")
    assert loop.state == "PARALLEL"
    loop.ends("d")
    assert loop.state == "WAITING"
    loop.answers("reject")
    assert loop.state == "REFLECTING"
    assert [finding.status for finding in loop.memory.latest_findings()] == ["ok", "failed", "timeout", "ok", "denied"]
    assert loop.states == ["EXECUTING", "PARALLEL", "WAITING", "PARALLEL", "OBSERVING", "REFLECTING"]
    loop.assert_replays()


def test_parallel_work_is_bounded_and_the_other_steps_follow() -> None:
    loop = Loop(*steps("a", "b", "c", group="g"), max_parallel=2)
    assert loop.working() == ["a", "b"]
    loop.ends("a")
    assert loop.working() == ["b", "c"]


# -- one transition at a time ------------------------------------------------------------------------


def test_stepping_makes_one_transition_and_then_starts_nothing() -> None:
    loop = Loop(*steps("a"))
    loop.run.memory.paused = True
    loop.ends("a")
    seen = [loop.state]
    loop.step_once()
    seen.append(loop.state)
    assert loop.run.outstanding == {}
    loop.step_once()
    assert (loop.state, len(loop.outstanding(Reflect))) == ("REFLECTING", 1)
    loop.says("done")
    loop.answers_with()
    assert [*seen, loop.state] == ["OBSERVING", "REFLECTING", "COMPLETE"]


def test_a_group_is_entered_before_its_workers_start() -> None:
    loop = Loop()
    loop.batch(Pause())
    loop.plans(*steps("a", "b", group="g"))
    assert (loop.state, loop.run.outstanding) == ("EXECUTING", {})
    loop.step_once()
    assert (loop.state, loop.run.outstanding) == ("PARALLEL", {})
    loop.step_once()
    assert loop.working() == ["a", "b"]


# -- forks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("worker", "state"), [("w", "EXECUTING"), ("once", "WAITING")])
def test_a_fork_repeats_idempotent_work_and_asks_about_other_work(worker: str, state: str) -> None:
    loop = Loop(*steps(f"a:{worker}"))
    loop.batch(Forked(origin="o", seq=3, idle_s=10.0))
    loop.finish_cancellations()
    assert loop.state == state
    assert loop.memory.started_at == 1010.0
    assert len(loop.asked()) == (worker == "once")
    loop.assert_replays()


@pytest.mark.parametrize("may", [(Permission.VIEW, Permission.COMMAND), ALL])
def test_a_lifted_guard_holds_again_in_a_fork_by_somebody_who_is_no_admin(may: Permissions) -> None:
    """A4: it concerns the steps that were there, too; those were written under the lift."""
    loop = Loop(*steps("s:asks", "d"))
    loop.memory.guards = msgspec.structs.replace(loop.memory.guards, lifted=("w",))
    loop.take(Forked(origin="o", seq=3, idle_s=0.0), actor="bob", permissions=may)
    held = () if Permission.ADMIN in may else ("w",)
    assert (loop.memory.guards.of_plan, loop.memory.concerned_by["d"]) == (held, held)


def test_a_fork_asks_again_what_was_being_asked() -> None:
    loop = Loop(*steps("a:asks"))
    before = loop.effect(type(loop.asked()[0]))
    loop.batch(Forked(origin="o", seq=3, idle_s=0.0))
    loop.finish_cancellations()
    assert loop.state == "WAITING"
    assert len(loop.asked()) == 1
    assert loop.effect(type(loop.asked()[0])) != before


@pytest.mark.parametrize("answer", [("approve", None), ("edit", {"x": 2})])
def test_a_yes_that_a_step_has_used_is_not_the_yes_of_a_fork(answer: tuple[Verb, Any]) -> None:
    loop = Loop(Step(step_id="a", worker="w", intent="do a", requires_approval=True))
    loop.answers(*answer)
    assert loop.working() == ["a"]
    loop.batch(Forked(origin="o", seq=4, idle_s=0.0))
    loop.finish_cancellations()
    (asked,) = loop.asked()
    assert (loop.state, asked.verbs, asked.subject["context"]) == ("WAITING", ("approve", "edit", "reject"), answer[1] or {})
    loop.answers("approve")
    assert loop.working() == ["a"]
    loop.assert_replays()


def test_a_fork_asks_its_supervisor_again() -> None:
    loop = Loop()
    loop.batch(Forked(origin="o", seq=2, idle_s=0.0))
    loop.finish_cancellations()
    assert len(loop.outstanding(MakePlan)) == 1


def test_a_finding_carries_its_step_worker_and_attempt() -> None:
    loop = Loop(*steps("a"))
    loop.ends("a", 1)
    assert loop.memory.findings == [Finding(output=1, step_id="a", worker="w")]


@pytest.mark.parametrize(
    ("outcome", "reason", "told"), [("failed", "", "failed"), ("cancelled", "", "cancelled"), ("failed", "no route", "no route")]
)
def test_a_child_that_did_not_finish_is_a_failure_with_its_reason_or_how_it_ended(outcome: Any, reason: str, told: str) -> None:
    nested = WorkerProfile(name="nested", child=ChildSpec(machine="flow agent", definition={}))
    loop = Loop(*steps("a:nested"), workers=(nested,))
    loop.batch(ChildEnded(effect_id=loop.effect(StartChild), outcome=outcome, reason=reason))
    (finding,) = loop.memory.findings
    assert (finding.status, finding.reason) == ("failed", told)


def test_a_new_plan_does_not_drop_the_approval_that_the_first_plan_asked_for() -> None:
    """A1, of a loop: the worker of a guarded step is guarded for the rest of the run."""
    loop = Loop(*steps("a", requires_approval=True), *steps("b"))
    loop.answers("approve")
    loop.ends("a")
    loop.says()
    assert not loop.outstanding(AskPerson), "the submission wrote b without it"
    loop.ends("b")
    loop.says("replan")
    loop.plans(*steps("c"))
    assert [asked.subject["step_id"] for asked in loop.outstanding(AskPerson).values()] == ["c"]


def test_a_new_plan_does_not_reach_a_guarded_worker_as_an_alternative() -> None:
    """A1: "In a loop it guards the worker of its step", also for a later step that names it in ``alternatives``."""
    loop = Loop(*steps("a", requires_approval=True))
    loop.answers("approve")
    loop.ends("a")
    loop.says("replan")
    loop.plans(*steps("x:once", alternatives=("w",)))
    assert not loop.asked(), "once itself is not guarded"
    loop.fails("x")
    loop.says("continue", Strategy.RETRY_ELSEWHERE)
    assert ([asked.subject["worker"] for asked in loop.asked()], loop.working()) == (["w"], [])
    loop.answers("approve")
    assert loop.working() == ["x"]
    loop.assert_replays()


def test_a_submission_that_guards_a_worker_leaves_its_other_steps_with_this_alternative_as_written() -> None:
    loop = Loop(*steps("x:once", alternatives=("w",)), *steps("a", requires_approval=True))
    loop.fails("x")
    loop.says("continue", Strategy.RETRY_ELSEWHERE)
    assert (loop.asked(), loop.working()) == ([], ["x"])


def test_a_guard_concerns_what_a_step_of_a_later_plan_starts() -> None:
    """The given plan of a loop below has steps that the plan of this loop does not show."""
    child = WorkerProfile(name="sub", child=ChildSpec(machine="orchestration loop", definition={}))
    loop = Loop(*steps("a", requires_approval=True), workers=(WorkerProfile(name="w"), child))
    loop.answers("approve")
    loop.ends("a")
    loop.says("replan")
    loop.plans(Step(step_id="x", worker="sub", intent="go"))
    (start,) = loop.outstanding(StartChild).values()
    below = Loop(*steps("s"), guards=start.start.guards)
    assert ([asked.subject["step_id"] for asked in below.asked()], below.working()) == (["s"], [])


def test_a_run_below_a_loop_knows_the_guarded_worker_that_it_is() -> None:
    """Its guard bounds the fields of a conversation."""
    sub = WorkerProfile(name="sub", child=ChildSpec(machine="flow agent", definition={"agent": "x:Y"}))
    guards = Guards(submitter="me", devices={"sub": DeviceGuards(every=SkillGuard(no_options=("*",)))})
    loop = Loop(Step(step_id="x", worker="sub", intent="go"), workers=(sub,), guards=guards)
    (start,) = loop.outstanding(StartChild).values()
    assert start.start.guards.started_by == ("sub", "sub")


@pytest.mark.parametrize(("permissions", "edited"), [(ALL, "local"), (ALL_BUT_LOCAL, "foreign")])
def test_a_loop_reports_an_answer_that_edits_a_step(permissions: Permissions, edited: EditedBy) -> None:
    loop = Loop(*steps("a:asks"))
    loop.take(loop.answer("edit", {"intent": "other"}), permissions=permissions)
    assert loop.memory.edited == edited


def test_a_loop_reports_an_answer_that_edits_a_call() -> None:
    loop = Loop(*steps("a:model"))
    loop.replies("", ToolCall(call_id="1", tool="wipe", arguments={}, gate="destructive"))
    loop.take(loop.answer("edit", {"x": 1}), permissions=ALL_BUT_LOCAL)
    assert loop.memory.edited == "foreign"


def given_to_a_guarded_worker(*first: Step) -> Loop:
    """Two steps of the worker that the last step guards: one gets what comes of the first step, by way of another, and one does not."""
    uses = Step(step_id="later", worker="w", intent="x", uses=("between",))
    between = Step(step_id="between", worker="once", intent="x", uses=("a",))
    child = WorkerProfile(name="run", child=ChildSpec(machine="orchestration loop", definition={}))
    return Loop(*first, between, *steps("aside"), uses, *steps("g", requires_approval=True), workers=(*WORKERS, child))


def test_an_edit_of_a_step_concerns_the_steps_that_use_its_output() -> None:
    loop = given_to_a_guarded_worker(*steps("a:asks"))
    loop.answers("edit", {"intent": "EVIL"})
    for step_id in ("a", "between", "aside"):
        loop.ends(step_id)
        loop.says()
    assert ([asked.subject["step_id"] for asked in loop.asked()], loop.working()) == (["later"], [])
    loop.assert_replays()


@pytest.mark.parametrize("edited", ["", "local", "foreign"])
def test_an_edit_below_a_loop_concerns_what_uses_it_and_is_reported(edited: EditedBy) -> None:
    loop = given_to_a_guarded_worker(*steps("a:run"))
    loop.batch(ChildEnded(effect_id=loop.effect(StartChild), outcome="finished", result="found", edited=edited))
    loop.says()
    for step_id in ("between", "aside"):
        loop.ends(step_id)
        loop.says()
    assert (loop.memory.edited, len(loop.asked())) == (edited, bool(edited))


@pytest.mark.parametrize("copied", [Forked(origin="r0", seq=2, idle_s=0.0), Imported()])
def test_a_copy_asks_again_about_a_step_that_was_approved_and_had_not_begun(copied: Event) -> None:
    """A4: a fork, and a run from a file."""
    loop = Loop(*steps("a:asks"))
    (asked,) = loop.outstanding(AskPerson)
    loop.take(Answered(effect_id=asked, verb="approve"))
    loop.batch(copied)
    assert not loop.outstanding(RunWorker)
    assert len(loop.outstanding(AskPerson)) == 1


def test_a_guarded_tool_is_asked_about_each_time_and_is_never_trusted_for_the_rest() -> None:
    loop = Loop(*steps("a:model"), guards=Guards(plan_skills=("wipe",), submitter="me"))
    loop.replies("", ToolCall(call_id="1", tool="wipe", arguments={}))
    (asked,) = loop.outstanding(AskPerson)
    with pytest.raises(Refused, match="is guarded"):
        loop.take(Answered(effect_id=asked, verb="approve", value={"always": True}))
    loop.answers("approve")
    assert [call.tool for call in loop.outstanding(CallTool).values()] == ["wipe"]
