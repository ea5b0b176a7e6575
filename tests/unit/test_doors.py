"""The table of doors and guards in ``docs/security.md``: each door tries to get around each guard, and the page says what comes of it.

``python -m tests.unit.test_doors`` writes the table into the page.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from mcp import Client as McpClient

from asterism.cli.edit_command import _EDITOR as EDITOR
from asterism.constellation.machine.definition import ConstellationDefinition, first_event
from asterism.constellation.machine.events import ConstellationSubmitted, Edited, Retry, RunOptions
from asterism.constellation.machine.requests import attempt_request
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan
from asterism.constellation.model.edits import EditRefused
from asterism.constellation.planner.editor import editor_server, tools
from asterism.constellation.planner.live_run import LiveRun
from asterism.constellation.python.goal import goal_of
from asterism.constellation.python.scheduled import submit_scheduled, written
from asterism.conversation.machine.events import AgentStatus, AgentView, ChildRequested, MessageReceived, RunningEntered
from asterism.devices.model.attempt import DeviceFound
from asterism.devices.port import Attempt
from asterism.engine.control.children import StartChild
from asterism.engine.control.run_control import Answered, AskPerson, FleetGuarded, Forked, GuardLifted, Imported, Verb
from asterism.engine.kernel.guards import DeviceGuards, Guards, SkillGuard, inherited
from asterism.engine.kernel.machine import Event, StartRequest
from asterism.engine.kernel.permissions import ALL, ALL_BUT_LOCAL, Permission
from asterism.engine.kernel.profile import AgentProfile, ChildSpec, Skill
from asterism.engine.ports.schedules import Schedule
from asterism.engine.ports.tokens import ROLES, Role, TokenRow
from asterism.errors import InvalidInput, Refused
from asterism.loop.machine.model import Step, WorkerProfile
from asterism.service.schedules.firing import started
from tests.support.api_server import Server
from tests.support.constellation_harness import Agent
from tests.support.constellations import action
from tests.support.loop_harness import Loop, steps
from tests.support.machine_harness import MachineHarness
from tests.unit.conversation.machine.test_flow_agent import Talk
from tests.unit.service.test_resources import play

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
GUARDS = ("fleet's approval", "plan's approval", "bounds", "`secrets`", "`task_env`", "`task_folder`", "lift")
FLEET, PLAN, BOUNDS, SECRETS, ENV, FOLDER, LIFT = GUARDS
ODD: dict[str, dict[str, Any]] = {
    BOUNDS: {"inputs": {"x": "--force"}},
    SECRETS: {"inputs": {"x": "${secret.KEY}"}},
    ENV: {"env": {"TAR_OPTIONS": "--checkpoint=1"}},
    FOLDER: {"folder": "/"},
}
"""What a task has that its guard forbids."""
ASKS, REFUSED, ALLOWED, NONE = "asks", "refused", "allowed", "not offered"

Door = Callable[[str], str]
DOORS: dict[str, Door] = {}
"""What a door makes of an attempt to get around a guard, by the name of the door."""


def door(name: str) -> Callable[[Door], Door]:
    def listed(function: Door) -> Door:
        DOORS[name] = function
        return function

    return listed


# -- a run, and what is tried ----------------------------------------------------------------------


def fleet(guard: str) -> tuple[AgentProfile, ...]:
    """One device, whose skill `once` has the guard."""
    skills = tuple(
        Skill(name=name, description="works", parameters={"type": "object", "properties": {"x": {}}}, idempotent=name == "again")
        for name in ("once", "again")
    )
    guarded = SkillGuard(approval=guard == FLEET, no_options=("x",))
    return (AgentProfile(device_id="s", skills=skills, guards=DeviceGuards(skills={"once": guarded}), concurrency=10),)


def task(task_id: str = "odd", guard: str = "", **more: Any) -> dict[str, Any]:
    return {"task_id": task_id, "device": "s", "skill": "once", "inputs": {"x": "1"}, **ODD.get(guard, {}), **more}


def plan(*tasks: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"tasks": list(tasks), **more}


def guarded_plan(guard: str) -> dict[str, Any]:
    """A task that runs, and one that waits for it; the plan has guarded that one, if the plan's guard is tried."""
    wipe = task("wipe", requires_approval=guard in (PLAN, LIFT))
    return plan(task("first", skill="again"), wipe, dependencies=[{"from": "first", "to": "wipe"}])


def running(guard: str, **more: Any) -> Agent:
    return Agent(guarded_plan(guard), fleet=fleet(guard), replan="always", **more)


def above(guard: str) -> Guards:
    """What a run inherits from one that a plan has guarded, if the plan's guard is tried."""
    return inherited(running(guard).memory.guards)


def submitted(first: ConstellationSubmitted, permissions: tuple[Permission, ...] = ALL) -> Agent:
    agent = Agent.__new__(Agent)
    MachineHarness.__init__(agent, CONSTELLATION_AGENT, first, 1000.0, permissions)
    return agent


def came_of(agent: Agent, task_id: str = "odd") -> str:
    """What has come of a task that no guard lets begin unseen."""
    there = agent.constellation.tasks.get(task_id) if agent.memory.schedule else None
    if any(asked.subject.get("task_id") == task_id for asked in agent.outstanding(AskPerson).values()):
        return ASKS
    if there is None or (there.error is not None and there.error.code == "guarded"):
        return REFUSED
    assert there.attempts, there
    return ALLOWED


def unless_refused(tries: Callable[[], str]) -> str:
    try:
        return tries()
    except (Refused, EditRefused, InvalidInput):
        return REFUSED


def one_of(results: Iterable[str]) -> str:
    """The result that all ways through a door have."""
    (result,) = set(results)
    return result


def without_lift() -> str:
    """No document and no edit has a word for a lift."""
    there: dict[str, Any]
    for there in ({"guards": {"lifted": ["once"]}}, {"lifted": ["once"]}, {"concerning": []}):
        with pytest.raises(InvalidInput):
            parse_plan(plan(task(), **there))
    agent = running(LIFT)
    with pytest.raises((InvalidInput, Refused)):
        agent.take(Edited(actions=({"tool": "lift_guard", "parameters": {"name": "once"}},)))
    return NONE


EDITS: dict[str, Callable[[str], tuple[dict[str, Any], ...]]] = {
    "odd": lambda guard: (action("remove_task", task_id="wipe"), action("add_task", **task("odd", guard))),
    "wipe": lambda guard: (action("update_task", **{**task("wipe", guard, description="other"), "requires_approval": False}),),
    "new": lambda guard: (action("build_constellation", config=plan(task("new", guard)), clear=False),),
}
"""Ways to edit around a guard, by the task that is left."""


# -- a planner -------------------------------------------------------------------------------------


@door("a planner's first plan, after a run with guards")
def first_plan(guard: str) -> str:
    agent = submitted(ConstellationSubmitted(request="go on", fleet=fleet(guard), guards=above(guard)))
    agent.plans(plan=plan(task("odd", guard)))
    return without_lift() if guard == LIFT else came_of(agent)


@door("a planner's `START`: a new generation")
def new_generation(guard: str) -> str:
    agent = running(guard, max_restarts=1)
    agent.ends("first")
    agent.plans(status="START")
    agent.plans(plan=plan(task("odd", guard)))
    return without_lift() if guard == LIFT else came_of(agent)


@door("a planner's edit: update, another task in its place, a plan in addition")
def planner_edit(guard: str) -> str:
    def edited(task_id: str) -> str:
        agent = running(guard)
        agent.ends("first")
        agent.plans(*EDITS[task_id](guard))
        if task_id == "wipe" and agent.question() is not None:
            return REFUSED  # the planner has to try again
        return came_of(agent, task_id)

    return without_lift() if guard == LIFT else one_of(edited(it) for it in EDITS)


@door("a handler of failure that a planner adds")
def failure_handler(guard: str) -> str:
    agent = running(guard)
    agent.ends("first", error="raised")
    agent.plans(action("add_task", **task("odd", guard, role="on_failure")))
    if agent.question() is not None:
        agent.plans(status="FAIL")
    return without_lift() if guard == LIFT else came_of(agent)


@door("a planner's task in words on a device that accepts them")
def in_words(guard: str) -> str:
    said: dict[str, Any] = {"device": "d", "skill": "", "inputs": {}}
    (profile,) = fleet(guard)
    own = (AgentProfile(device_id="d", natural_language=True, guards=DeviceGuards(every=profile.guards.of("once"))), profile)
    wipe = task("wipe", **said, requires_approval=guard == PLAN)
    given = plan(task("first", skill="again"), wipe, dependencies=[{"from": "first", "to": "wipe"}])
    agent = Agent(given, fleet=own, replan="always")
    agent.ends("first")
    agent.plans(action("add_task", **{**task("odd"), **said, **ODD.get(guard, {}), "description": "Delete the inbox"}))
    return without_lift() if guard == LIFT else came_of(agent)


@door("a value that comes at run time: a parameter, a result, an item")
def late_value(guard: str) -> str:
    """In a plan from the network. A reference to a secret in such a value stays a text."""
    odd = ODD.get(guard, {}).get("inputs", {}).get("x", "1")

    def tried(value: str, *, items: str = "", **more: Any) -> str:
        more |= {"for_each": {"items": items}} if items else {}
        tasks = (task("first", skill="again"), task("odd", inputs={"x": value}, **more))
        given = parse_plan(plan(*tasks, dependencies=[{"from": "first", "to": "odd"}], params={"p": "str"}))
        agent = submitted(
            ConstellationSubmitted(request="x", fleet=fleet(guard), plan=given, params={"p": odd}, guards=above(guard)), ALL_BUT_LOCAL
        )
        agent.ends("first", {"text": odd, "items": [odd]})
        came = came_of(agent, "odd[0]" if items else "odd")
        if guard == SECRETS and came == ALLOWED:
            request = attempt_request(agent.memory, "r", "r:1.0", agent.attempt("odd[0]" if items else "odd"))
            assert (request.arguments, request.secrets) == ({"x": odd}, ())
            return NONE
        return came

    if guard in (ENV, FOLDER):
        return unless_refused(lambda: tried("1", **({"env": {"A": "${first.text}"}} if guard == ENV else {"folder": "${first.text}"})))
    return (
        without_lift()
        if guard == LIFT
        else one_of([tried("${params.p}"), tried("${first.text}"), tried("${item}", items="${first.items}")])
    )


# -- a person at the computer of the database ------------------------------------------------------


def edit_of_a_plan(guard: str, permissions: tuple[Permission, ...]) -> str:
    """An answer with another plan to the question about one that came with the request."""
    first = ConstellationSubmitted(
        request="x",
        fleet=fleet(guard),
        plan=parse_plan(guarded_plan(guard)),
        options=RunOptions(approve_plan=True),
        guards=above(guard),
    )
    agent = submitted(first)
    agent.take(agent.answer("edit", plan(task("odd", guard))), permissions=permissions)
    agent.drain()
    return came_of(agent)


def edit_of_edits(guard: str, permissions: tuple[Permission, ...]) -> str:
    """An answer with other edits to the question about those of a planner."""
    agent = running(guard, approve_edits=True)
    agent.ends("first")
    agent.plans(action("add_task", **task("other", skill="again")))
    agent.take(agent.answer("edit", {"actions": list(EDITS["odd"](guard))}), permissions=permissions)
    agent.drain()
    return came_of(agent)


def edit_of_a_task(guard: str, permissions: tuple[Permission, ...]) -> str:
    """An answer with other arguments to the question about a task: arguments alone, and as they are."""
    if guard not in (BOUNDS, SECRETS):
        return NONE
    agent = Agent(plan(task("odd", requires_approval=True)), fleet=fleet(guard))
    agent.take(agent.answer("edit", ODD[guard]["inputs"]), permissions=permissions)
    return came_of(agent)


@door("`asterism answer` with an edit of a plan that came with the request")
def cli_answer_to_a_plan(guard: str) -> str:
    return without_lift() if guard == LIFT else unless_refused(lambda: edit_of_a_plan(guard, ALL))


@door("`asterism answer` with an edit of a planner's edits")
def cli_answer_to_edits(guard: str) -> str:
    return without_lift() if guard == LIFT else unless_refused(lambda: edit_of_edits(guard, ALL))


@door("`asterism answer` with an edit of a task's arguments")
def cli_answer_to_a_task(guard: str) -> str:
    return without_lift() if guard == LIFT else unless_refused(lambda: edit_of_a_task(guard, ALL))


def listing(guard: str) -> tuple[AgentProfile, ...]:
    """The fleet before it had the guard."""
    listed = SkillGuard(secrets=("KEY",), task_env=("TAR_OPTIONS",), task_folder=True)
    return tuple(msgspec.structs.replace(it, guards=DeviceGuards(skills={"once": listed})) for it in fleet(guard))


def ended(guard: str, permissions: tuple[Permission, ...] = ALL) -> Agent:
    """A run whose task has what the guard forbids, from the time before the fleet had it; it has failed."""
    fields = {**task("odd", guard), "requires_approval": guard == PLAN}
    agent = Agent(plan(fields, task("z", skill="again")), fleet=listing(guard), permissions=permissions)
    if guard == PLAN:
        agent.answers("approve")
    return agent


def forked_on(agent: Agent, guard: str) -> Forked:
    return Forked(origin="r0", seq=agent.run.seq, idle_s=0.0, guards={it.device_id: it.guards for it in fleet(guard)})


def forked(agent: Agent, guard: str, *then: Any) -> str:
    agent.batch(forked_on(agent, guard), *then)
    agent.finish_cancellations()
    return came_of(agent)


def gone_on(guard: str, events: Callable[[Agent], Sequence[Event]], *, approved: bool = True) -> str:
    """What comes of a task that has not begun, by these events of a run that began before the fleet had the guard.

    ``approved``: the plan's guard has had its answer.
    """
    if guard == LIFT:
        return without_lift()
    fields = {**task("odd", guard), "requires_approval": guard == PLAN}
    given = plan(task("first", skill="again"), fields, dependencies=[{"from": "first", "to": "odd"}])
    agent = Agent(given, fleet=listing(guard), permissions=ALL_BUT_LOCAL)
    if guard == PLAN:
        agent.ends("first")
        agent.batch(*([agent.answer("approve")] if approved else []), *events(agent))
        return came_of(agent)
    agent.batch(*events(agent))
    agent.finish_cancellations()
    agent.ends("first")
    return came_of(agent)


@door("`fork` on the present fleet, also where the copied part has the approval")
def fork(guard: str) -> str:
    return gone_on(guard, lambda agent: [forked_on(agent, guard)])


@door("`resume` of a run under a fleet file that has become stricter")
def resumed(guard: str) -> str:
    present = {it.device_id: it.guards for it in fleet(guard)}
    return gone_on(guard, lambda agent: [FleetGuarded(guards=present)], approved=False)


@door("`asterism import` on the present fleet, also where the file has the approval, or a lift")
def imported(guard: str) -> str:
    present = {it.device_id: it.guards for it in fleet(guard)}
    if guard != LIFT:
        return gone_on(guard, lambda agent: [Imported(), FleetGuarded(guards=present)])
    agent = running(LIFT)
    agent.take(GuardLifted(name="once", reason="checked"), permissions=ALL)
    agent.batch(Imported(), Edited(actions=(action("add_task", **task()),)))
    return came_of(agent)


@door("`retry` of an ended run")
def retry(guard: str) -> str:
    agent = ended(guard, ALL_BUT_LOCAL)
    agent.ends("odd", error="raised")
    return without_lift() if guard == LIFT else forked(agent, guard, Retry(tasks=("odd",)))


@door("`retry` of a task of a run under way")
def retry_live(guard: str) -> str:
    agent = ended(guard, ALL_BUT_LOCAL)
    agent.ends("odd", error="raised")
    if guard == LIFT:
        return without_lift()
    agent.batch(DeviceFound(device="s", profile=fleet(guard)[0]), Retry(tasks=("odd",)))
    return came_of(agent)


@door("`follow` after a run with guards")
def follow_up(guard: str) -> str:
    """By the local user."""

    def tried() -> str:
        given = parse_plan(plan(task("odd", guard)))
        return came_of(submitted(ConstellationSubmitted(request="x", fleet=fleet(guard), plan=given, guards=above(guard))))

    return without_lift() if guard == LIFT else unless_refused(tried)


# -- devices, and runs below -----------------------------------------------------------------------


def found(guard: str, name: str) -> str:
    """A task of a planner after the device has reported other guards, and its skill under this name."""
    (profile,) = fleet(guard)
    weaker = SkillGuard(secrets=("KEY",), task_env=("TAR_OPTIONS",), task_folder=True)
    skills = tuple(msgspec.structs.replace(it, name=name, is_harmless=True) if it.name == "once" else it for it in profile.skills)
    agent = running(guard)
    agent.batch(DeviceFound(device="s", profile=msgspec.structs.replace(profile, skills=skills, guards=DeviceGuards(every=weaker))))
    agent.ends("first")
    agent.plans(action("add_task", **task("odd", guard, skill=name)))
    return without_lift() if guard == LIFT else came_of(agent)


@door("a device that annotates a tool otherwise, and reports weaker guards")
def annotated(guard: str) -> str:
    return found(guard, "once")


@door("a device that renames a tool")
def renamed(guard: str) -> str:
    return found(guard, "twice")


@door("a nested plan of a planner")
def nested(guard: str) -> str:
    agent = running(guard)
    agent.ends("first")
    agent.plans(action("add_task", task_id="n", constellation=plan(task("odd", guard))))
    if guard == LIFT:
        return without_lift()
    starts = list(agent.outstanding(StartChild).values())
    return came_of(submitted(first_event(starts[0].start))) if starts else came_of(agent, "n")


def child_of(guard: str) -> ChildSpec:
    """A plan as the code of a worker or handler has it."""
    defined = ConstellationDefinition(fleet=fleet(guard), plan=parse_plan(plan(task("odd", guard))))
    return ChildSpec(machine=CONSTELLATION_AGENT.name, definition=msgspec.to_builtins(defined))


def within(guard: str) -> Guards:
    """What a run on a device gets that a planner adds to a run after its plan has guarded something."""
    device = AgentProfile(device_id="runs", kind="flow", natural_language=True, child=child_of(""))
    agent = Agent(guarded_plan(guard), fleet=(*fleet(guard), device), replan="always")
    agent.ends("first")
    agent.plans(action("add_task", task_id="n", device="runs", description="x"))
    (start,) = agent.outstanding(StartChild).values()
    return start.start.guards


@door("a loop whose worker is a plan in code, in a follow-up or within one run")
def loop_child(guard: str) -> str:
    if guard == LIFT:
        return without_lift()

    def tried(guards: Guards) -> str:
        profile = WorkerProfile(name="plan", child=child_of(guard))
        loop = Loop(Step(step_id="a", worker="plan", intent="x"), workers=(profile,), guards=guards)
        (start,) = loop.outstanding(StartChild).values()
        return unless_refused(lambda: came_of(submitted(first_event(start.start))))

    return one_of([tried(above(guard)), tried(within(guard))])


@door("a loop's planner: another step for a guarded worker")
def loop_plan(guard: str) -> str:
    """A step has neither variables nor folder, and its worker is code."""
    if guard != PLAN:
        return NONE
    loop = Loop(*steps("a", requires_approval=True))
    loop.answers("approve")
    loop.ends("a")
    loop.says("replan")
    loop.plans(*steps("odd"))
    assert [it.subject["step_id"] for it in loop.asked()] == ["odd"]
    return REFUSED if loop.working() else ASKS


@door("a conversation whose handler starts a plan in code, in a follow-up or within one run")
def conversation_child(guard: str) -> str:
    if guard == LIFT:
        return without_lift()

    def tried(guards: Guards) -> str:
        talk, spec = Talk(guards=guards), child_of(guard)
        talk.entered(AgentStatus.RUNNING)
        request = StartRequest(definition=spec.definition, request="x", inputs={})
        talk.take(ChildRequested(effect_id=talk.memory.handler_effect, key="k", start=StartChild(machine=spec.machine, start=request)))
        (start,) = [it for it in talk.run.outstanding.values() if isinstance(it, StartChild)]
        return unless_refused(lambda: came_of(submitted(first_event(start.start))))

    return one_of([tried(above(guard)), tried(within(guard))])


def answered_otherwise(guard: str, verb: Verb, says: Callable[[Talk, dict[str, Any]], object]) -> str:
    """What a plan in code comes to in a conversation of a guarded device, after an answer has changed a field of its request."""
    desk = DeviceGuards(every=SkillGuard(approval=guard == FLEET, no_options=("x",)))
    device = AgentProfile(device_id="desk", kind="flow", natural_language=True, child=child_of(""), guards=desk)
    given = plan(task("wipe", requires_approval=guard == PLAN), task("n", device="desk", skill="", description="x"))
    agent = Agent(given, fleet=(*fleet(""), device))
    if guard == FLEET:
        agent.answers("approve")
    (start,) = agent.outstanding(StartChild).values()
    guards = msgspec.structs.replace(start.start.guards, submitter_may_approve=verb != "edit")  # else it asks for an approval of its own
    talk = Talk(guards=guards, values=start.start.inputs, requires_approval=verb == "edit")
    asks = AgentStatus.WAITING_FOR_APPROVAL if verb == "edit" else AgentStatus.WAITING_FOR_INPUT
    talk.handled(asks, view=AgentView(fields=start.start.inputs))
    fields = {"x": "--force" if guard == BOUNDS else "2"}
    try:
        says(talk, fields)
    except Refused:
        return REFUSED
    entered = RunningEntered(effect_id=talk.memory.handler_effect, transitions=(AgentStatus.RUNNING,), view=AgentView(fields=fields))
    talk.take(entered, actor="agent")
    if talk.memory.code == "guarded":
        return REFUSED
    spec = child_of("")
    request = StartRequest(definition=spec.definition, request="x", inputs={})
    talk.take(ChildRequested(effect_id=talk.memory.handler_effect, key="k", start=StartChild(machine=spec.machine, start=request)))
    (below,) = [it for it in talk.run.outstanding.values() if isinstance(it, StartChild)]
    return came_of(submitted(first_event(below.start)))


@door("an answer or a message in a conversation of a guarded device: another value of a field of its request")
def conversation_answer(guard: str) -> str:
    """By name and in words. A reference to a secret in a field is a text, and no field is a variable or a folder."""
    if guard in (SECRETS, ENV, FOLDER):
        return NONE
    ways: dict[Verb, tuple[Callable[[Talk, dict[str, Any]], object], ...]] = {
        "respond": (
            lambda talk, fields: talk.answer(value=fields),
            lambda talk, fields: talk.answer(value=fields["x"]),
            lambda talk, fields: talk.take(MessageReceived(values=fields, inquiry_id=talk.memory.open_question)),
            lambda talk, fields: talk.take(MessageReceived(text=fields["x"], inquiry_id=talk.memory.open_question)),
        ),
        "edit": (lambda talk, fields: talk.answer("edit", fields),),
    }
    return without_lift() if guard == LIFT else one_of(answered_otherwise(guard, verb, says) for verb in ways for says in ways[verb])


# -- over the network ------------------------------------------------------------------------------

Tries = Callable[[Server, str], Awaitable[str]]


def served(guard: str, tries: Tries) -> str:
    """What comes of a try at a server with the guard."""
    results: list[str] = []

    async def scenario(server: Server) -> None:
        async with asyncio.timeout(20):
            results.append(await tries(server, guard))

    with tempfile.TemporaryDirectory() as folder:
        play(Path(folder), scenario, fleet=fleet(guard), work=work)
    return results[0]


RELEASED: set[str] = set()
"""Runs whose first task may end."""


async def work(attempt: Attempt) -> str:
    while attempt.task_id == "first" and attempt.run_id not in RELEASED:  # noqa: ASYNC110 - it is set from the test
        await asyncio.sleep(0.01)
    return "done"


async def came_of_run(server: Server, run_id: str, task_id: str = "odd") -> str:
    while (await server.store.run(run_id)).status != "ended":
        if any(json.loads(it.subject).get("task_id") == task_id for it in await server.store.inquiries(root=run_id)):
            return ASKS
        await asyncio.sleep(0.01)
    there = (await server.runtime.load(run_id)).memory.constellation.tasks.get(task_id)
    return REFUSED if there is None or (there.error and there.error.code == "guarded") else ALLOWED


async def lift_over_http(server: Server) -> str:
    """Another than an admin lifts no guard; a submission has no word for it."""
    run_id = (await server.runtime.start(parse_plan(guarded_plan(LIFT)))).run_id
    http = await server.client("operator,approver")
    body = {"command": "lift_guard", "name": "once", "reason": "x"}
    assert (await http.post(f"/api/runs/{run_id}/commands", json=body)).status_code == 403
    return REFUSED


@door("HTTP: submit")
def http_submit(guard: str) -> str:
    async def tries(server: Server, guard: str) -> str:
        http = await server.client("operator")
        if guard == LIFT:
            more = {"guards": {"lifted": ["once"]}, "lifted": ["once"]}
            answers = [await http.post("/api/runs", json={"plan": plan(task()), name: value}) for name, value in more.items()]
            assert {it.status_code for it in answers} == {422}
            return without_lift()
        made = await http.post("/api/runs", json={"plan": plan(task("odd", guard))})
        return REFUSED if made.status_code == 409 else await came_of_run(server, made.json()["run_id"])

    return NONE if guard == PLAN else served(guard, tries)


async def edited_by(server: Server, guard: str, edit: Callable[[str, dict[str, Any]], Awaitable[bool]]) -> str:
    """What comes of the three edits by a client that returns whether one was accepted."""
    results = []
    for task_id, actions in EDITS.items():
        run_id = (await server.runtime.start(parse_plan(guarded_plan(guard)))).run_id
        while not (await server.runtime.load(run_id)).memory.attempts:  # noqa: ASYNC110 - the run is driven elsewhere
            await asyncio.sleep(0.01)
        accepted = [await edit(run_id, it) for it in actions(guard)]
        RELEASED.add(run_id)
        results.append(await came_of_run(server, run_id, task_id) if all(accepted) else REFUSED)
    return one_of(results)


@door("HTTP: edit")
def http_edit(guard: str) -> str:
    async def tries(server: Server, guard: str) -> str:
        http = await server.client("operator")

        async def edit(run_id: str, made: dict[str, Any]) -> bool:
            answer = await http.post(f"/api/runs/{run_id}/commands", json={"command": "edit", "actions": [made]})
            assert answer.status_code in (200, 409), answer.text
            return answer.status_code == 200

        return await lift_over_http(server) if guard == LIFT else await edited_by(server, guard, edit)

    return served(guard, tries)


@door("MCP: `asterism mcp edit`")
def mcp_edit(guard: str) -> str:
    async def tries(server: Server, guard: str) -> str:
        async def edit(run_id: str, made: dict[str, Any]) -> bool:
            async def rouse() -> None:
                """The server drives the run."""

            live = LiveRun(server.runtime.acting_with(EDITOR), CONSTELLATION_AGENT, run_id, actor="mcp", rouse=rouse)
            async with McpClient(editor_server(live)) as client:
                return not (await client.call_tool(made["tool"], made["parameters"])).is_error

        if guard == LIFT:
            assert not any("lift" in it.name for it in tools())
            return without_lift()
        return await edited_by(server, guard, edit)

    return served(guard, tries)


def over_http(guard: str, tries: Callable[[str, tuple[Permission, ...]], str]) -> str:
    roles: tuple[Role, ...] = ("operator", "approver")
    may = TokenRow(token_id="t", hash="", name="n", roles=roles, created_at=0.0).permissions  # noqa: S106 - an id
    return served(guard, lambda server, _: lift_over_http(server)) if guard == LIFT else unless_refused(lambda: tries(guard, may))


@door("HTTP: answer with an edit of a plan")
def http_answer_to_a_plan(guard: str) -> str:
    return over_http(guard, edit_of_a_plan)


@door("HTTP: answer with an edit of a planner's edits")
def http_answer_to_edits(guard: str) -> str:
    return over_http(guard, edit_of_edits)


@door("HTTP: answer with an edit of a task's arguments")
def http_answer_to_a_task(guard: str) -> str:
    return over_http(guard, edit_of_a_task)


@door("HTTP: an answer or a message in words that names no request, or another one")
def http_unseen(guard: str) -> str:
    if guard not in (FLEET, PLAN):
        return NONE
    agent = Agent(plan(task("odd", requires_approval=guard == PLAN)), fleet=fleet(guard))
    talk = Talk()
    talk.handled(AgentStatus.WAITING_FOR_APPROVAL)
    asked, spoken = next(iter(agent.outstanding(AskPerson))), talk.memory.open_question
    for digest in ("", "0" * 64):
        for run, event in (
            (agent.run, Answered(effect_id=asked, verb="approve", digest=digest)),
            (talk.run, Answered(effect_id=spoken, verb="respond", value="yes", digest=digest)),
            (talk.run, MessageReceived(text="yes", inquiry_id=spoken, digest=digest)),
        ):
            with pytest.raises(Refused, match="another request than this answer names"):
                run.take(event, at=agent.now, actor="ada", permissions=ROLES["approver"])
    assert (came_of(agent), talk.handler) == (ASKS, "")
    return REFUSED


async def fired(server: Server, schedule: Schedule) -> str:
    firing = started(schedule, server.runtime.clock.now())
    try:
        await submit_scheduled(server.runtime, schedule, firing)
    except EditRefused:
        return REFUSED
    return await came_of_run(server, firing.run_id)


@door("HTTP: add a schedule")
def http_schedule(guard: str) -> str:
    async def tries(server: Server, guard: str) -> str:
        http = await server.client("operator")
        given = {"name": "n", "cron": "@daily", "plan": plan(task("odd", guard))}
        if guard == LIFT:
            assert (await http.post("/api/schedules", json={**given, "guards": {"lifted": ["once"]}})).status_code == 422
            return without_lift()
        added = await http.post("/api/schedules", json=given)
        if added.status_code == 422 and "begins with -" in added.text:
            return REFUSED
        assert added.status_code == 201, added.text
        [schedule] = await server.store.schedules()
        return await fired(server, schedule)

    return NONE if guard == PLAN else served(guard, tries)


@door("HTTP: pause, replace or remove another's schedule")
def http_other_schedule(guard: str) -> str:
    async def tries(server: Server, guard: str) -> str:
        ada, bob = await server.client("operator", name="ada"), await server.client("operator", name="bob")
        given = {"name": "n", "cron": "@daily", "plan": guarded_plan(guard)}
        assert (await ada.post("/api/schedules", json=given)).status_code == 201
        tried = [
            await bob.post("/api/schedules/n/commands", json={"command": "pause"}),
            await bob.post("/api/schedules", json={**given, "plan": plan(task())}),
            await bob.delete("/api/schedules/n"),
        ]
        assert [it.status_code for it in tried] == [403, 422, 403]
        return REFUSED

    return served(guard, tries) if guard == PLAN else NONE


@door("`asterism schedule add`")
def cli_schedule(guard: str) -> str:
    async def tries(server: Server, guard: str) -> str:
        goal = written(goal_of(parse_plan(plan(task("odd", guard)))))
        return await fired(
            server, Schedule(name="n", cron="@daily", zone="UTC", what=goal, next_at=0.0, created_at=0.0, actor="ada", permissions=ALL)
        )

    return NONE if guard == PLAN else without_lift() if guard == LIFT else served(guard, tries)


# -- the page --------------------------------------------------------------------------------------


def table(page: str) -> dict[str, dict[str, str]]:
    """The table of the page, by door and guard."""
    rows = re.findall(r"^\| (.+) \|$", page.partition("| door |")[2].partition("\n\n")[0], re.MULTILINE)
    return {name: dict(zip(GUARDS, cells, strict=True)) for name, *cells in (row.split(" | ") for row in rows)}


@pytest.mark.parametrize("name", DOORS)
def test_a_door_lets_through_what_no_guard_forbids(name: str) -> None:
    """So that no cell below is refused for another reason than its guard."""
    assert DOORS[name]("") in (ALLOWED, NONE)


def test_the_page_has_the_doors_that_are_tried() -> None:
    assert list(table(PAGE.read_text(encoding="utf-8"))) == list(DOORS)


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("name", DOORS)
def test_a_door_keeps_a_guard_as_the_page_says(name: str, guard: str) -> None:
    """A1 to A4, A7: the table of ``docs/security.md``, cell by cell."""
    assert DOORS[name](guard) == table(PAGE.read_text(encoding="utf-8"))[name][guard]


def main() -> None:
    lines = [f"| door | {' | '.join(GUARDS)} |", "|---" * (len(GUARDS) + 1) + "|"]
    lines += [f"| {name} | {' | '.join([tried(guard) for guard in GUARDS])} |" for name, tried in DOORS.items()]
    page = PAGE.read_text(encoding="utf-8")
    old = re.search(r"\| door \|.*?\n\n", page, re.DOTALL)
    assert old
    PAGE.write_text(page.replace(old[0], "\n".join(lines) + "\n\n"), encoding="utf-8")


if __name__ == "__main__":
    main()
