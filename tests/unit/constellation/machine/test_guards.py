"""Guards of a constellation: nothing but an admin's lift weakens one, and an approval covers one request (findings A1 to A4, A7, A8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from asterism.constellation.machine.definition import first_event
from asterism.constellation.machine.events import ConstellationSubmitted, Edited, Retry, RunOptions
from asterism.constellation.machine.guarding import with_fleet
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan
from asterism.constellation.model.edits import EditRefused
from asterism.devices.model.attempt import DeviceFound, DeviceLost
from asterism.engine.control.children import StartChild
from asterism.engine.control.run_control import Answered, AskPerson, FleetGuarded, Forked, GuardLifted, Imported, Verb
from asterism.engine.kernel.guards import DeviceGuards, GuardedWork, Guards, SkillGuard, permit, with_report
from asterism.engine.kernel.machine import Event
from asterism.engine.kernel.permissions import ALL, LOWEST, Permission, Permissions
from asterism.engine.kernel.profile import AgentProfile, ChildSpec, Skill
from asterism.errors import Refused
from tests.support.constellation_harness import FLEET, Agent
from tests.support.constellations import action
from tests.support.machine_harness import MachineHarness


def task(task_id: str = "a", **more: Any) -> dict[str, Any]:
    return {"task_id": task_id, "device": "s", "skill": "once", "inputs": {"x": 1}, **more}


def plan(*tasks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"tasks": list(tasks), **more}


def guarded_fleet(**skills: SkillGuard) -> tuple[AgentProfile, ...]:
    return tuple(msgspec.structs.replace(it, guards=DeviceGuards(skills=skills)) if it.device_id == "s" else it for it in FLEET)


def behind(first: dict[str, Any], then: dict[str, Any], **options: Any) -> Agent:
    """A run in which ``then`` waits for the task ``first``, and the planner is asked when that has ended."""
    lines = [{"from": first["task_id"], "to": then["task_id"]}]
    return Agent(plan(first, then, dependencies=lines), replan="always", **options)


def starts(agent: Agent, task_id: str) -> bool:
    return agent.task(task_id).attempts > 0


# -- what may not weaken a guard -------------------------------------------------------------------


def test_a_planner_that_drops_the_flag_of_a_task_drops_no_approval() -> None:
    """A1."""
    agent = behind(task("a", skill="again"), task("wipe", requires_approval=True))
    agent.ends("a")
    agent.plans(action("update_task", task_id="wipe", requires_approval=False))
    assert not starts(agent, "wipe")
    assert agent.inquiry().subject["task_id"] == "wipe"


@pytest.mark.parametrize("device", ["s", "s2"])
def test_a_planner_that_puts_another_task_in_the_place_of_a_guarded_one_is_asked_about_it(device: str) -> None:
    """A1."""
    agent = behind(task("a", skill="again"), task("wipe", requires_approval=True))
    agent.ends("a")
    agent.plans(action("remove_task", task_id="wipe"), action("add_task", **task("wipe2", device=device)))
    assert not starts(agent, "wipe2")
    assert agent.inquiry().subject["task_id"] == "wipe2"


def test_a_new_generation_is_asked_about_what_the_first_plan_guarded() -> None:
    """A1."""
    agent = behind(task("a", skill="again"), task("wipe", requires_approval=True), max_restarts=1)
    agent.ends("a")
    agent.plans(status="START")
    agent.plans(plan=plan(task("b")))
    assert not starts(agent, "b")
    assert agent.inquiry().subject["task_id"] == "b"


def test_an_edit_from_outside_that_drops_the_flag_drops_no_approval() -> None:
    """A2."""
    agent = behind(task("a", skill="again"), task("wipe", requires_approval=True))
    agent.take(Edited(actions=(action("update_task", task_id="wipe", requires_approval=False),)))
    agent.ends("a")
    agent.plans()
    assert not starts(agent, "wipe")


def test_a_task_that_the_submission_wrote_without_the_flag_stays_as_written_until_it_is_changed() -> None:
    assert starts(Agent(plan(task("a", requires_approval=True), task("b"))), "b")


def test_a_changed_task_is_asked_about_as_a_new_one_is() -> None:
    agent = Agent(
        plan(task("first", skill="again"), task("wipe", requires_approval=True), task("b"), dependencies=[{"from": "first", "to": "b"}])
    )
    agent.take(Edited(actions=(action("update_task", task_id="b", description="other"),)))
    agent.ends("first")
    assert not starts(agent, "b")


def test_a_guard_of_the_fleet_asks_whatever_the_plan_says() -> None:
    agent = Agent(plan(task("a")), fleet=guarded_fleet(once=SkillGuard(approval=True)))
    assert not starts(agent, "a")
    agent.answers("approve")
    assert agent.attempt("a").approval


def test_a_device_that_reports_weaker_guards_weakens_none() -> None:
    agent = behind(task("a", skill="again"), task("b"), fleet=guarded_fleet(once=SkillGuard(approval=True)))
    agent.batch(DeviceFound(device="s", profile=FLEET[2]))
    agent.ends("a")
    agent.plans()
    assert not starts(agent, "b")


def test_a_device_that_reports_stricter_guards_is_asked_about() -> None:
    agent = behind(task("a", skill="again"), task("b"))
    agent.batch(DeviceFound(device="s", profile=guarded_fleet(once=SkillGuard(approval=True))[2]))
    agent.ends("a")
    agent.plans()
    assert not starts(agent, "b")


def test_a_nested_plan_gets_the_guards_as_they_stand() -> None:
    nested = {"task_id": "n", "constellation": plan(task("inner"))}
    agent = behind(task("a", skill="again"), task("wipe", requires_approval=True))
    agent.ends("a")
    agent.plans(action("add_task", **nested))
    (start,) = agent.outstanding(StartChild).values()
    assert start.start.guards.plan_skills == ("once",)
    below = Agent.__new__(Agent)

    MachineHarness.__init__(below, Agent.machine, first_event(start.start), 1000.0)
    assert not starts(below, "inner")


RUNS = AgentProfile(
    device_id="runs", kind="flow", natural_language=True, child=ChildSpec(machine="flow agent", definition={"agent": "x:Y"})
)
"""A device whose tasks are runs; what they start is not visible in the plan."""
STARTED = task("e", device="runs", skill="", inputs={}, description="do it")


def starting(*more: dict[str, Any]) -> Agent:
    """A run whose plan has guarded ``once``."""
    first = [task("first", skill="again"), task("wipe", requires_approval=True)]
    lines = [{"from": "first", "to": it["task_id"]} for it in (first[1], *more)]
    return Agent(plan(*first, *more, dependencies=lines), fleet=(*FLEET, RUNS), replan="always", max_restarts=1)


def added_by_a_client(agent: Agent) -> None:
    agent.take(Edited(actions=(action("add_task", **STARTED),)))
    agent.drain()


def added_by_a_planner(agent: Agent) -> None:
    agent.ends("first")
    agent.plans(action("add_task", **STARTED))


def planned_again(agent: Agent) -> None:
    agent.ends("first")
    agent.plans(status="START")
    agent.plans(plan=plan(STARTED))


@pytest.mark.parametrize("add", [added_by_a_client, added_by_a_planner, planned_again])
def test_a_guard_concerns_what_a_run_starts_that_was_added_after_it(add: Callable[[Agent], None]) -> None:
    """The plan that a handler or a loop starts has tasks that the plan of this run does not show."""
    agent = starting()
    add(agent)
    (start,) = agent.outstanding(StartChild).values()
    assert start.start.guards.concerning == ("once",)


@pytest.mark.parametrize("guard", [SkillGuard(no_options=("*",)), SkillGuard()])
def test_a_run_knows_the_guarded_device_whose_task_has_started_it(guard: SkillGuard) -> None:
    """Its guard bounds the fields of a conversation."""
    runs = msgspec.structs.replace(RUNS, guards=DeviceGuards(every=guard))
    (start,) = Agent(plan(STARTED), fleet=(*FLEET, runs)).outstanding(StartChild).values()
    found = start.start.guards
    assert (found.started_by, found.of("runs", "")) == (("runs", "") if guard != SkillGuard() else (), guard)


APPROVED = Guards(submitter="ada", is_approved=True)
"""The guards of a run that an approved task has started."""


def run_below(guards: Guards, *tasks: dict[str, Any], **more: Any) -> Agent:
    child = Agent.__new__(Agent)
    first = ConstellationSubmitted(request="x", fleet=FLEET, guards=guards, plan=parse_plan(plan(*tasks, **more)))
    MachineHarness.__init__(child, CONSTELLATION_AGENT, first, 1000.0)
    return child


@pytest.mark.parametrize("by", ["requires_approval", "approve_plan", ""])
def test_a_run_knows_that_its_start_was_approved_and_so_do_those_below(by: str) -> None:
    """A4: by an approval of the task, or of its plan."""
    nested = plan({"task_id": "m", "constellation": plan(task())})
    flagged = {"task_id": "n", "requires_approval": by == "requires_approval", "constellation": nested}
    agent = Agent(plan(flagged), approve_plan=by == "approve_plan")
    if by:
        agent.answers("approve")
    (start,) = agent.outstanding(StartChild).values()
    below = Agent.__new__(Agent)
    MachineHarness.__init__(below, CONSTELLATION_AGENT, first_event(start.start), 1000.0)
    if by == "approve_plan":
        below.answers("approve")
    (start_below,) = below.outstanding(StartChild).values()
    assert (start.start.guards.is_approved, start_below.start.guards.is_approved) == (bool(by), bool(by))


def test_a_run_whose_start_was_approved_is_not_forked_by_itself() -> None:
    """A4: an approval covers one attempt."""
    with pytest.raises(Refused, match="fork or retry run r, the root of its tree"):
        run_below(APPROVED, task()).take(Forked(origin="r.1.0.7.2", seq=1, idle_s=0.0))


@pytest.mark.parametrize("guards", [APPROVED, Guards(submitter="ada", approve_plan=True), Guards(submitter="ada", approve_edits=True)])
def test_a_retry_that_a_person_commands_is_asked_about_where_the_yes_was_to_more_than_the_task(guards: Guards) -> None:
    agent = run_below(guards, task(), task("z", skill="again"))
    if agent.question() is not None:
        agent.answers("approve")
    agent.ends("a", error="raised")
    agent.batch(Retry())
    assert agent.task("a").attempts == 0
    assert agent.inquiry().subject["task_id"] == "a"


@pytest.mark.parametrize("guards", [Guards(submitter="ada"), APPROVED, Guards(submitter="ada", approve_plan=True)])
def test_a_task_of_an_approved_run_asks_before_it_runs_on_another_device(guards: Guards) -> None:
    """A8: the yes was to the plan with the device that it names."""
    agent = run_below(guards, task(), task("b", skill="again"), dependencies=[{"from": "a", "to": "b"}])
    agent.batch(DeviceLost(device="s"), agent.end_of("a"))
    if guards != Guards(submitter="ada"):
        assert agent.task("b").attempts == 0
        assert (agent.inquiry().subject["task_id"], agent.inquiry().subject["device"]) == ("b", "s2")
        agent.answers("approve")
    assert agent.attempt("b").device_id == "s2"


def test_a_question_about_edits_is_asked_again_after_a_device_has_changed() -> None:
    """A1: a task without a skill gets the one that its words mean, of those that the device has at the yes."""
    agent = Agent(plan(task(skill="again")), replan="always", approve_edits=True)
    agent.ends("a")
    agent.plans(action("add_task", task_id="b", device="s", description="do it once", inputs={"x": 1}))
    (before,) = agent.memory.inquiries.values()
    agent.batch(vault("again", "twice"))
    (now,) = agent.memory.inquiries.values()
    assert before.subject["changes"][0]["after"]["skill"] == "once"
    assert now.subject["changes"] == [], "there is no such skill any more"


def test_a_guard_concerns_what_a_changed_task_starts_and_not_what_a_task_as_submitted_does() -> None:
    agent = starting(STARTED, {**STARTED, "task_id": "f"})
    agent.take(Edited(actions=(action("update_task", task_id="f", description="other"),)))
    agent.ends("first")
    agent.plans()
    starts = {agent.memory.attempts[effect].task_id: it.start.guards.concerning for effect, it in agent.outstanding(StartChild).items()}
    assert starts == {"e": (), "f": ("once",)}


def test_a_guard_concerns_what_a_task_of_a_nested_plan_starts() -> None:
    agent = starting()
    agent.take(Edited(actions=(action("add_task", task_id="n", constellation=plan(STARTED)),)))
    agent.drain()
    (nested,) = agent.outstanding(StartChild).values()
    below = Agent.__new__(Agent)
    MachineHarness.__init__(below, CONSTELLATION_AGENT, first_event(nested.start), 1000.0)
    (start,) = below.outstanding(StartChild).values()
    assert start.start.guards.concerning == ("once",)


def test_a_guard_concerns_what_a_run_starts_after_a_device_has_renamed_the_skill() -> None:
    agent = starting()
    agent.take(Edited(actions=(action("add_task", **STARTED), action("add_dependency", from_="first", to="e"))))
    changed = next(it for it in FLEET if it.device_id == "s")
    changed = msgspec.structs.replace(
        changed, skills=tuple(msgspec.structs.replace(it, name="twice") if it.name == "once" else it for it in changed.skills)
    )
    agent.batch(DeviceFound(device="s", profile=changed))
    agent.ends("first")
    agent.plans()
    (start,) = agent.outstanding(StartChild).values()
    below = start.start.guards
    assert permit(below, GuardedWork(device="s", skill="twice", concerned_by=below.concerning)).approval


def test_a_run_below_knows_the_skills_with_which_its_root_began() -> None:
    """A1: also if a device has renamed one before it began, and the run between is no constellation."""
    first = ConstellationSubmitted(
        request="x", fleet=(vault("again", "twice").profile or FLEET[0],), plan=parse_plan(plan(task(skill="twice"))),
        guards=with_report(Guards(plan_skills=("once",), concerning=("once",), submitter="ada"), "s", ["again", "once"]),
    )  # fmt: skip
    child = Agent.__new__(Agent)
    MachineHarness.__init__(child, CONSTELLATION_AGENT, first, 1000.0)
    assert not starts(child, "a")
    assert child.inquiry().subject["skill"] == "twice"


def test_functions_of_another_plan_are_no_other_names_of_those_of_the_first() -> None:
    guards = with_fleet(Guards(plan_skills=("f",)), {"here": AgentProfile(device_id="here", skills=(Skill(name="f"),))})
    assert not with_fleet(guards, {"here": AgentProfile(device_id="here", skills=(Skill(name="g"),))}).is_of_plan("here", "g")


def vault(*names: str) -> DeviceFound:
    """The device ``s``, which reports its skills ``again`` and ``once``, and copies of ``once`` with other names."""
    profile = guarded_fleet(once=SkillGuard(no_options=("x",)))[2]
    skills = {it.name: it for it in profile.skills}
    named = tuple(skills.get(name) or msgspec.structs.replace(skills["once"], name=name) for name in names)
    return DeviceFound(device="s", profile=msgspec.structs.replace(profile, skills=named))


@pytest.mark.parametrize(
    "reports",
    [
        [vault("again"), vault("again", "twice")],
        [vault("again", "once", "twice"), vault("again", "twice")],
        [vault("again", "other"), vault("again"), vault("again", "twice")],
        [DeviceLost(device="s", reason="gone", removed=True), vault("again", "twice")],
    ],
    ids=["dropped, then added", "added, then dropped", "by a third name", "removed, then back"],
)
def test_a_device_that_renames_a_guarded_skill_in_several_reports_lifts_no_guard(reports: list[Event]) -> None:
    """A1: "a device that renames or re-annotates its tools" lifts none, neither the fleet's nor a plan's."""
    agent = Agent(
        plan(task("first", skill="again"), task("wipe", requires_approval=True), dependencies=[{"from": "first", "to": "wipe"}]),
        fleet=guarded_fleet(once=SkillGuard(no_options=("x",))),
    )
    for report in reports:
        agent.batch(report)
    guards = agent.memory.guards
    assert guards.of("s", "twice").no_options == ("x",)
    assert guards.is_of_plan("s", "twice")
    assert not guards.is_of_plan("s", "again")


def test_a_device_that_drops_a_skill_and_has_it_again_is_guarded_as_before() -> None:
    agent = Agent(plan(task("wipe", requires_approval=True)), fleet=guarded_fleet(once=SkillGuard(no_options=("x",))))
    before = agent.memory.guards
    agent.batch(vault("once"))
    agent.batch(vault("again", "once"))
    assert agent.memory.guards.of("s", "again") == before.of("s", "again")
    assert agent.memory.guards.plan_skills == ("once",)


FLAGGED_ABOVE = Guards(plan_skills=("once",), submitter="ada")
"""The guards of a run in code below one whose plan has guarded ``once``."""


def begun_below(**more: Any) -> Agent:
    child = Agent.__new__(Agent)
    first = ConstellationSubmitted(request="x", fleet=FLEET, guards=FLAGGED_ABOVE, **more)
    MachineHarness.__init__(child, CONSTELLATION_AGENT, first, 1000.0)
    return child


def test_the_first_plan_of_a_planner_below_a_plan_with_a_guard_is_asked_about() -> None:
    """A1: "for tasks that are added or changed after the submission": nobody's submission wrote it."""
    agent = begun_below()
    agent.plans(plan=plan(task()))
    assert not starts(agent, "a")
    assert agent.inquiry().subject["task_id"] == "a"


def test_the_first_plan_of_a_planner_that_a_person_approves_is_no_submission() -> None:
    agent = begun_below(options=RunOptions(approve_plan=True))
    agent.plans(plan=plan(task()))
    agent.answers("approve")
    assert agent.task("a").concerned_by == ("once",)


@pytest.mark.parametrize("verb", ["approve", "edit"])
def test_a_plan_that_came_with_the_request_stays_as_written_until_an_answer_edits_it(verb: Verb) -> None:
    agent = begun_below(options=RunOptions(approve_plan=True), plan=parse_plan(plan(task())))
    value = plan(task(inputs={"x": 2})) if verb == "edit" else None
    agent.answers(verb, value)
    assert starts(agent, "a") == (verb == "approve")


def below(option: str, **more: Any) -> Agent:
    """A run that a handler starts in one whose options ask for approvals."""
    options: dict[str, Any] = {option: True}
    agent = Agent(plan(STARTED), fleet=(*FLEET, RUNS), **options)
    if option == "approve_plan":
        agent.answers("approve")
    (start,) = agent.outstanding(StartChild).values()
    child = Agent.__new__(Agent)
    first = ConstellationSubmitted(request="x", fleet=FLEET, guards=start.start.guards, **more)
    MachineHarness.__init__(child, CONSTELLATION_AGENT, first, 1000.0)
    return child


@pytest.mark.parametrize("option", ["approve_plan", "approve_edits"])
def test_a_planner_below_a_run_that_asks_for_approvals_is_asked_about(option: str) -> None:
    agent = below(option, options=RunOptions(replan="always"))
    agent.plans(plan=plan(task("a"), task("b"), dependencies=[{"from": "a", "to": "b"}]))
    assert agent.inquiry().subject["kind"] == "plan"
    agent.answers("approve")
    agent.ends("a")
    agent.plans(action("update_task", task_id="b", description="other"))
    assert starts(agent, "b") == (option == "approve_plan")


def test_a_plan_in_code_below_a_run_that_asks_for_approvals_is_not_asked_about() -> None:
    assert starts(below("approve_plan", plan=parse_plan(plan(task()))), "a")


def test_only_an_admin_lifts_a_guard_of_a_plan() -> None:
    agent = behind(task("a", skill="again"), task("wipe", requires_approval=True))
    lift = GuardLifted(name="once", reason="checked")
    with pytest.raises(Refused, match="only an admin"):
        agent.take(lift, permissions=(Permission.VIEW, Permission.EDIT))
    agent.take(lift, permissions=ALL)
    agent.ends("a")
    agent.plans()
    assert starts(agent, "wipe")


@pytest.mark.parametrize("may", [(Permission.VIEW, Permission.COMMAND), ALL])
def test_a_fork_by_somebody_who_is_no_admin_has_the_guards_that_were_lifted(may: Permissions) -> None:
    """A4, A5: an operator gains nothing by a copy of what an admin has lifted, nor for what was written under the lift."""
    agent = behind(task("a", skill="again"), task("wipe", requires_approval=True))
    agent.take(GuardLifted(name="once", reason="checked"), permissions=ALL)
    agent.take(Edited(actions=(action("add_task", task_id="late", device="s", skill="once"),)))
    agent.take(Edited(actions=(action("add_dependency", **{"from": "a", "to": "late"}),)))
    agent.take(Forked(origin="r0", seq=agent.run.seq, idle_s=0.0), actor="bob", permissions=may)
    agent.finish_cancellations()
    agent.ends("a")
    agent.plans()
    is_admin = Permission.ADMIN in may
    assert [bool(starts(agent, it)) for it in ("wipe", "late")] == [is_admin, is_admin]


def test_a_follow_up_by_somebody_who_is_no_admin_has_the_guards_that_were_lifted() -> None:
    """A5."""
    before = Guards(lifted=("once",), concerning=("once",))
    first = ConstellationSubmitted(request="do it", fleet=FLEET, plan=parse_plan(plan(task())), guards=before)
    for permissions, is_asked in ((LOWEST, True), (ALL, False)):
        agent = Agent.__new__(Agent)
        MachineHarness.__init__(agent, Agent.machine, first, 1000.0, permissions)
        assert bool(agent.outstanding(AskPerson)) is is_asked


# -- what is foreign -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [{"env": {"TAR_OPTIONS": "--checkpoint=1"}}, {"folder": "/"}, {"inputs": {"x": "${secret.KEY}"}}, {"env": {"A": "${secret.KEY}"}}],
)
def test_variables_folders_and_secrets_that_the_fleet_does_not_list_are_refused_to_models_and_clients(more: dict[str, Any]) -> None:
    """A3, A7."""
    with pytest.raises(EditRefused) as refused:
        Agent(plan(task(**more)), permissions=LOWEST)  # it came over the network
    assert refused.value.refusal.code == "guarded"
    agent = behind(task("a", skill="again"), task("b"))
    with pytest.raises(EditRefused, match="fleet file"):
        agent.take(Edited(actions=(action("update_task", task_id="b", **more),)), permissions=LOWEST)
    agent.ends("a")
    agent.plans(action("update_task", task_id="b", **more))
    assert agent.question() is not None, "the planner is told why"
    agent.plans(status="CONTINUE")
    assert agent.task("b").env == {}


def test_a_local_user_names_variables_folders_and_secrets_as_before() -> None:
    agent = behind(task("a", skill="again"), task("b"))
    agent.take(Edited(actions=(action("update_task", task_id="b", env={"TAR_OPTIONS": "-v"}, folder="x"),)))
    agent.ends("a")
    agent.plans()
    assert agent.attempt("b").env == {"TAR_OPTIONS": "-v"}


def test_what_the_fleet_lists_is_allowed_to_foreign_tasks() -> None:
    fleet = guarded_fleet(once=SkillGuard(task_env=("APP_*",), secrets=("KEY",), task_folder=True))
    agent = Agent(plan(task(env={"APP_MODE": "x"}, folder="f", inputs={"x": "${secret.KEY}"})), fleet=fleet, permissions=LOWEST)
    assert agent.attempt("a").env == {"APP_MODE": "x"}


def test_resolved_arguments_beyond_their_bounds_fail_the_task() -> None:
    fleet = guarded_fleet(once=SkillGuard(no_options=("x",)))
    first, then = task("a", skill="again"), task("b", inputs={"x": "${a.text}"})
    agent = Agent(plan(first, then, dependencies=[{"from": "a", "to": "b"}]), fleet=fleet)
    agent.ends("a", {"text": "--exec=sh"})
    assert (agent.task("b").status, agent.task("b").error and agent.task("b").error.code) == ("FAILED", "guarded")  # type: ignore[union-attr]


def test_an_edit_in_an_answer_stays_within_the_bounds() -> None:
    fleet = guarded_fleet(once=SkillGuard(approval=True, no_options=("x",)))
    agent = Agent(plan(task()), fleet=fleet)
    with pytest.raises(Refused, match="begins with -"):
        agent.answers("edit", {"x": "--force"})
    agent.answers("edit", {"x": "force"})
    assert agent.attempt("a").arguments == {"x": "force"}


# -- what an approval covers -----------------------------------------------------------------------


def test_an_approval_covers_the_instruction() -> None:
    """A8."""
    agent = Agent(plan(task(requires_approval=True, description="Summarize the inbox", retry={"max_attempts": 3, "backoff_s": 1})))
    assert agent.inquiry().subject["description"] == "Summarize the inbox"
    agent.answers("approve")
    agent.ends("a", error="raised")
    agent.take(Edited(actions=(action("update_task", task_id="a", description="Delete the inbox"),)))
    agent.wait_until(agent.now + 60)
    assert agent.task("a").attempts == 1
    assert agent.inquiry().subject["description"] == "Delete the inbox"


def test_an_approval_covers_the_results_that_are_handed_over() -> None:
    """A8."""
    first, then = task("a", skill="again"), {"task_id": "b", "device": "d", "description": "send it", "requires_approval": True}
    agent = Agent(plan(first, then, dependencies=[{"from": "a", "to": "b"}]))
    agent.ends("a", {"text": "hello"})
    assert agent.inquiry().subject["results"] == {"a": {"text": "hello"}}


def test_an_approval_covers_the_retries_of_its_own_policy() -> None:
    agent = Agent(plan(task(requires_approval=True, retry={"max_attempts": 2, "backoff_s": 1})))
    agent.answers("approve")
    agent.ends("a", error="raised")
    agent.wait_until(agent.now + 60)
    assert agent.task("a").attempts == 2


def test_a_retry_that_a_person_commands_asks_again() -> None:
    agent = Agent(plan(task(requires_approval=True), task("z", device="d", skill="")))
    agent.answers("approve")
    agent.ends("a", error="raised")
    agent.batch(Retry(tasks=("a",)))
    assert agent.task("a").attempts == 0
    assert agent.inquiry().subject["task_id"] == "a"


def test_a_fork_asks_again_for_an_approval_whose_work_has_not_begun() -> None:
    """A4."""
    agent = Agent(plan(task(requires_approval=True)))
    agent.take(agent.answer("approve"))  # the entry of the approval, before anything has begun
    agent.batch(Forked(origin="r0", seq=agent.run.seq, idle_s=0.0))
    assert not starts(agent, "a")
    assert agent.inquiry().subject["task_id"] == "a"


def test_an_import_asks_again_for_an_approval_whose_work_has_not_begun() -> None:
    """A4: nothing lifts a guard, not an import."""
    agent = Agent(plan(task(requires_approval=True)))
    agent.take(agent.answer("approve"))
    agent.batch(Imported())
    assert not starts(agent, "a")
    assert agent.inquiry().subject["task_id"] == "a"


def test_an_import_leaves_the_approval_of_an_attempt_that_has_begun() -> None:
    agent = Agent(plan(task(requires_approval=True)))
    agent.batch(agent.answer("approve"))
    agent.batch(Imported())
    assert not agent.outstanding(AskPerson)
    agent.ends("a")
    assert agent.state == "FINISH"


def test_an_import_voids_the_lift_of_a_guard() -> None:
    """A4: only the admin of this database lifts a guard here."""
    agent = behind(task("a", skill="again"), task("wipe", requires_approval=True))
    agent.take(GuardLifted(name="once", reason="checked"), permissions=ALL)
    agent.batch(Imported())
    assert (agent.memory.guards.lifted, "once" in agent.memory.guards.plan_skills) == ((), True)


def test_a_fork_takes_the_guards_of_the_present_fleet() -> None:
    agent = behind(task("a", skill="again"), task("b"))
    agent.batch(Forked(origin="r0", seq=agent.run.seq, idle_s=0.0, guards={"s": DeviceGuards(every=SkillGuard(approval=True))}))
    agent.finish_cancellations()
    assert agent.inquiry().subject["task_id"] == "a"


def test_an_approval_names_what_was_shown() -> None:
    agent = Agent(plan(task(requires_approval=True)))
    asked = next(iter(agent.outstanding(AskPerson)))
    with pytest.raises(Refused, match="another request"):
        agent.take(Answered(effect_id=asked, verb="approve", digest="0" * 64))
    with pytest.raises(Refused, match="another request"):
        agent.run.take(Answered(effect_id=asked, verb="approve"), at=agent.now, actor="me", permissions=ALL)
    assert not starts(agent, "a")


def test_the_next_run_of_a_session_inherits_the_guards_of_its_plan() -> None:
    first = ConstellationSubmitted(request="go on", fleet=FLEET, plan=None, guards=Guards(plan_skills=("once",), concerning=("once",)))

    agent = Agent.__new__(Agent)
    MachineHarness.__init__(agent, Agent.machine, msgspec.structs.replace(first, plan=parse_plan(plan(task("a")))), 1000.0)
    assert not starts(agent, "a")


def test_a_run_under_way_is_asked_about_what_the_present_fleet_file_guards() -> None:
    """A3: the fleet file became stricter while the run was killed."""
    agent = behind(task("a", skill="again"), task("b"))
    agent.batch(FleetGuarded(guards={"s": DeviceGuards(skills={"once": SkillGuard(approval=True)})}))
    agent.ends("a")
    agent.plans()
    assert not starts(agent, "b")
    assert agent.inquiry().subject["task_id"] == "b"


def test_a_present_fleet_file_with_weaker_guards_weakens_none_of_a_run_under_way() -> None:
    """A3."""
    agent = behind(task("a", skill="again"), task("b"), fleet=guarded_fleet(once=SkillGuard(approval=True)))
    before = agent.memory.guards
    agent.batch(FleetGuarded(guards={"s": DeviceGuards()}))
    assert agent.memory.guards == before


def test_a_fleet_may_bar_the_submitter_from_approving_also_in_a_run_under_way() -> None:
    """A6: the key of the fleet file reaches each run when a driver acquires it."""
    agent = behind(task("a", skill="again"), task("b", requires_approval=True))
    agent.batch(FleetGuarded(guards={}, submitter_may_approve=False))
    agent.ends("a")
    agent.plans()
    submitter = agent.run.submitters[0]
    with pytest.raises(Refused, match="has submitted this run and may not approve"):
        agent.run.take(agent.answer("approve"), at=agent.now, actor=submitter, permissions=ALL)
    agent.batch(FleetGuarded(guards={}))
    assert not agent.memory.guards.submitter_may_approve
