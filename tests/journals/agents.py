"""Golden constellations: a scene for each thing that a constellation agent can go through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from asterism.constellation.machine.events import (
    AttemptAttached,
    AttemptBegun,
    AttemptEnded,
    AttemptLooked,
    AttemptQueued,
    AttemptStopped,
    Dispatch,
    Edited,
    LookAtAttempt,
    Retry,
    RunOptions,
    StopAttempt,
)
from asterism.constellation.machine.requests import round_of
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.documents import parse_plan
from asterism.constellation.planner.port import PlannerRequest, Proposal
from asterism.devices.model.attempt import DeviceFound, DeviceLost, DeviceQuestion, TaskError
from asterism.devices.port import Attempt
from asterism.engine.control.run_control import Cancel, FleetGuarded, Forked, GuardLifted, Imported, OwnershipAcquired, TransitionFailed
from asterism.engine.control.usage import Usage
from asterism.engine.control.waits import EventTaken
from asterism.engine.kernel import permissions
from asterism.engine.kernel.guards import DeviceGuards, SkillGuard
from asterism.engine.kernel.journal import Record
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.errors import Refused
from asterism.testing.device import Behaviour
from asterism.testing.ending import Ending
from asterism.testing.people import Answer, Crash, ScheduledEvent
from asterism.testing.planner import ScriptedPlanner
from asterism.testing.world import World
from tests.simulation.demo_world import DEMO, demo, fleet_of, lines, says, tasks
from tests.simulation.test_decisions import ALL, approving, says_to_proposals
from tests.simulation.test_forks import House, play
from tests.simulation.test_live_edits import ADDED
from tests.simulation.test_replanning import SEEDS_EDIT
from tests.support import constellations as stars
from tests.support.constellation_harness import Agent
from tests.support.constellations import action


def told(it: Agent) -> list[Record]:
    return [packer(CONSTELLATION_AGENT).pack(entry) for entry in it.entries]


def creation() -> Sequence[Record]:
    """A planner makes the plan; the condition is not met, and the last task is skipped."""
    return (
        demo(accuracy=0.92, planner=ScriptedPlanner([Proposal(plan=parse_plan(DEMO))]))
        .run(None, request="train, and deploy if accuracy > 95%")
        .records
    )


def editing() -> Sequence[Record]:
    """The seeds' story: 0.92, so the model is retrained and not deployed."""
    planner = ScriptedPlanner(lambda question: Proposal(actions=SEEDS_EDIT) if question.batch == ("task_003",) else Proposal())
    return demo(accuracy=0.92, planner=planner).run(DEMO, options=RunOptions(replan="when_needed")).records


def retry() -> Sequence[Record]:
    """Two attempts raise, the third returns."""
    world = World(
        1, fleet=fleet_of("d"), script=lambda attempt: Behaviour(breaks="" if attempt.number == 3 else "not yet", result=attempt.number)
    )
    return world.run({"tasks": tasks("a", retry={"max_attempts": 3, "backoff_s": 2})}).records


def interruption() -> Sequence[Record]:
    """A process dies while a skill works that may not be repeated; a person has it run again."""
    return demo(idempotent=False, crashes=[Crash(entry=3, after_s=1)], people=says(Answer(verb="approve"))).run(DEMO).records


def approval() -> Sequence[Record]:
    """A yes after an hour, with other arguments; and a second one, which is stale."""
    people = says(Answer(verb="edit", value={"x": 2}, after_s=3600), Answer(verb="approve", after_s=3600.3, by="bob", bypasses_client=True))
    plan = {"tasks": [*tasks("a", requires_approval=True, inputs={"x": 1}), *tasks("b")], "dependencies": lines("a>b")}
    return World(1, fleet=fleet_of("d"), people=people).run(plan).records


def restart() -> Sequence[Record]:
    """The first constellation is thrown away for a second one."""

    def script(question: PlannerRequest) -> Proposal:
        if question.mode == "CREATION":
            return Proposal(plan=parse_plan({"tasks": tasks("a", "b") if question.key.endswith(":3.0") else tasks("c")}))
        return Proposal(status="START" if "a" in question.batch else "CONTINUE", thought="from scratch")

    world = World(
        1,
        fleet=fleet_of("d"),
        planner=ScriptedPlanner(script),
        script=lambda attempt: Behaviour(duration_s=99 if attempt.task_id == "b" else 1),
    )
    return world.run(None, options=RunOptions(replan="always")).records


def cancel() -> Sequence[Record]:
    """Cancelled while two tasks run and a person is being asked."""
    world = World(
        1, fleet=fleet_of("d"), script={"do": Behaviour(duration_s=99)}, scheduled_events=[ScheduledEvent(at_s=10, what="cancel")]
    )
    return world.run({"tasks": [*tasks("a", "b"), *tasks("c", requires_approval=True)]}).records


def nested() -> Sequence[Record]:
    """The root's journal of a task that is a constellation."""
    return _nested().records


def _nested() -> Ending:
    """A task that is a constellation with a question inside, paused and taken up again."""
    inner = {"tasks": [*tasks("p", inputs={"x": "${inputs.x}"}), *tasks("q", requires_approval=True)], "dependencies": lines("p>q")}
    plan = {"tasks": [{"task_id": "b", "inputs": {"x": 1}, "constellation": inner}, *tasks("c")], "dependencies": lines("b>c")}
    scheduled_events = [ScheduledEvent(at_s=2, what="pause"), ScheduledEvent(at_s=20, what="unpause")]
    world = World(1, fleet=fleet_of("d"), people=says(Answer(verb="approve", after_s=60)), scheduled_events=scheduled_events)
    return world.run(plan)


def edits() -> Sequence[Record]:
    """Somebody edits the run while it is under way: one edit is taken, one comes too late for its task."""
    scheduled_events = [
        ScheduledEvent(at_s=5, what="edit", key="one", actions=ADDED),
        ScheduledEvent(at_s=15, what="edit", key="two", actions=(action("remove_task", task_id="b"),)),
    ]
    world = World(1, fleet=fleet_of("d"), script={"do": Behaviour(duration_s=10)}, scheduled_events=scheduled_events)
    return world.run({"tasks": tasks("a", "b"), "dependencies": lines("a>b")}).records


def consent() -> Sequence[Record]:
    """A plan and an edit of it that a person has said yes to, while the process dies between the question and the answer."""
    crashes = [Crash(entry=4, after_s=0.5)]
    return (
        World(1, fleet=fleet_of("d"), planner=approving(), people=says_to_proposals(Answer(verb="approve")), crashes=crashes)
        .run(None, options=ALL)
        .records
    )


def limits() -> Sequence[Record]:
    """A model plans, with what it used and said; the run has used what it may, pauses itself, and is given more."""
    spent = Usage(model="m:x", requests=1, input_tokens=80, output_tokens=20, cost_usd=0.01)
    told: dict[str, Any] = {"usage": spent, "prompt": "what next?", "reply": "{}", "notes": ("asked twice",)}

    def script(question: PlannerRequest) -> Proposal:
        plan = {"tasks": tasks("a", "b"), "dependencies": lines("a>b")} if question.mode == "CREATION" else None
        return Proposal(plan=parse_plan(plan) if plan else None, thought="because", **told)

    world = World(
        1, fleet=fleet_of("d"), planner=ScriptedPlanner(script), scheduled_events=[ScheduledEvent(at_s=1000, what="raise_limits")]
    )
    return world.run(None, options=RunOptions(replan="always", max_tokens=150)).records


def child() -> Sequence[Record]:
    """The journal of the run below the one in ``nested``."""
    (below,) = _nested().children
    return below.records


def fork() -> Sequence[Record]:
    """A copy of a run, from where a task was under way that may not be repeated: a person is asked."""
    kept: list[Record] = []

    async def scenario(house: House) -> None:
        await house.origin()
        row = await house.finish(await house.runtime.fork("origin", 5, actor="bob", new_id="fork"))
        kept.extend(await house.runtime.records(row.run_id))

    play(scenario)
    return kept


def devices() -> Sequence[Record]:
    """A device is lost while it works: another one stands in, what may not be repeated is asked about; then it is found."""
    skills = {"a": "again", "b": "once"}
    it = Agent({"tasks": [{"task_id": task_id, "device": "s", "skill": skill} for task_id, skill in skills.items()]})
    it.batch(DeviceLost(device="s", reason="gone"), it.end_of("a", error="device_lost"), it.end_of("b", error="device_lost"))
    it.answers("approve")
    it.answers("approve")  # on another device: that is something else
    it.ends("a")
    it.batch(DeviceFound(device="s"))
    it.ends("b")
    return told(it)


def refusals() -> Sequence[Record]:
    """An edit that cannot be, one that a person does not want, a planner that is not to be had, and an edit from outside refused."""
    it = Agent(stars.plan("a b", "a>b"), replan="always", approve_edits=True)
    it.ends("a", {"x": 1})
    it.plans(action("remove_task", task_id="a"))
    it.plans(action("update_task", task_id="b", priority=3))
    it.answers("reject", reason="leave it")
    it.planning_fails()
    it.take(Edited(actions=(action("add_task", task_id="c", device="d"),)))
    it.drain()
    it.ends("b", error="raised")
    it.ends("c")
    it.plans(status="FINISH", result={"summary": "as well as could be"})
    it.plans()
    return told(it)


def deadlines() -> Sequence[Record]:
    """Nobody answers, an attempt takes too long, a deadline passes, and then the whole run's time is over."""
    tasks = [
        {"task_id": "a", "device": "d", "requires_approval": True},
        {"task_id": "b", "device": "d", "timeout_s": 5.0},
        {"task_id": "c", "device": "d", "deadline_s": 70.0},
        {"task_id": "e", "device": "d"},
    ]
    it = Agent({"tasks": tasks}, inquiry_timeout_s=60.0, wall_limit_s=500.0)
    it.ends("b", error="timeout")
    it.wait_until(1060.0)
    it.finish_cancellations()
    it.ends("c", error="deadline")
    it.wait_until(1500.0)
    it.finish_cancellations()
    return told(it)


def waits() -> Sequence[Record]:
    """One task waits for a duration, one until a time that a task has found, and one too long; a fork waits again."""
    tasks = [
        {"task_id": "a", "device": "d"},
        {"task_id": "pause", "wait": {"for_s": 3600.0}},
        {"task_id": "morning", "wait": {"until": "${a.at}"}},
        {"task_id": "late", "wait": {"until": "2100-01-01T00:00:00Z"}, "timeout_s": 60.0},
        {"task_id": "b", "device": "d"},
    ]
    waiting = [{"from": source, "to": "b"} for source in ("pause", "morning")]
    late = {"from": "late", "to": "b", "type": "COMPLETION_ONLY"}
    it = Agent({"tasks": tasks, "dependencies": [{"from": "a", "to": "morning"}, *waiting, late]}, wall_limit_s=500.0)
    it.ends("a", result={"at": "1970-01-01T02:00:00+01:00"})
    it.wait_until(1060.0)
    it.finish_cancellations()
    it.batch(Forked(origin="o", seq=it.entries[-1].seq, idle_s=100.0))
    it.finish_cancellations()
    it.wait_until(3600.0)
    it.finish_cancellations()
    it.wait_until(4760.0)
    it.finish_cancellations()
    it.ends("b")
    return told(it)


def events() -> Sequence[Record]:
    """Two tasks wait for events: one gets its event, the other too late."""
    tasks = [
        {"task_id": "a", "device": "d"},
        {"task_id": "paid", "wait": {"event": "paid", "match": "event.number == number"}, "inputs": {"number": "${a}"}},
        {"task_id": "late", "wait": {"event": "sent"}, "timeout_s": 60.0},
        {"task_id": "b", "device": "d", "inputs": {"sum": "${paid.sum}"}},
    ]
    lines = [{"from": "a", "to": "paid"}, {"from": "paid", "to": "b"}, {"from": "late", "to": "b", "type": "COMPLETION_ONLY"}]
    it = Agent({"tasks": tasks, "dependencies": lines})
    it.ends("a", result=7)
    paid, late = (it.task(task_id).effect_id for task_id in ("paid", "late"))
    it.batch(EventTaken(effect_id=paid, event_id="e1", data={"number": 7, "sum": 3.5}))
    it.now = 1060.0
    it.drain()
    it.note(EventTaken(effect_id=late, event_id="e2"), "it does not wait any more")
    it.finish_cancellations()
    it.ends("b")
    return told(it)


def round_two() -> Sequence[Record]:
    """A second round of a session: its planner is told of the first one, and gives up."""
    first = Agent(stars.plan("a"))
    first.ends("a", {"x": 1})
    it = Agent(None, replan="always", earlier=(round_of("r0", first.memory),))
    it.plans(plan=stars.plan("b c", "b>c:x>1"), thought="as before")
    it.ends("b", {"x": 2})
    it.plans(status="FAIL", result={"summary": "it cannot be done"})
    it.finish_cancellations()
    return told(it)


def defect() -> Sequence[Record]:
    """A move of ours raised: it ends by name."""
    it = Agent(stars.plan("a b"))
    it.batch(TransitionFailed(effect_id=next(iter(it.run.outstanding)), event="attempt_ended", reason="KeyError: x"))
    it.finish_cancellations()
    return told(it)


def replaced() -> Sequence[Record]:
    """The planner wants to replace a task by one that its device cannot do; the task that is there keeps its skill (rules 2)."""
    b = {"task_id": "b", "device": "s", "name": "again"}
    it = Agent({"tasks": [{"task_id": "a", "device": "d"}, b], "dependencies": lines("a>b")}, replan="always")
    it.ends("a")
    it.plans(action("remove_task", task_id="b"), action("add_task", **b, inputs={"nonsense": 1}))
    it.plans()
    it.ends("b")
    it.plans()
    return told(it)


def mistyped() -> Sequence[Record]:
    """A person gives an argument of another type at an approval, which is refused (rules 3), and then one that is taken."""
    skill = Skill(name="count", parameters={"type": "object", "properties": {"times": {"type": "integer"}}})
    document = {"tasks": [{"task_id": "a", "device": "s", "skill": "count", "requires_approval": True}]}
    it = Agent(document, fleet=(AgentProfile(device_id="s", skills=(skill,)),))
    wrong = it.answer("edit", {"times": 0.5})
    try:
        it.take(wrong)
    except Refused as refused:  # as a driver does
        it.note(wrong, str(refused))
    it.answers("edit", {"times": 2})
    it.ends("a", {"counted": 2})
    return told(it)


def handlers() -> Sequence[Record]:
    """A plan with parameters, ``when`` and ``join: any`` fails, tells of it and cleans up (rules 4, journals of version 3)."""
    text = {"text": "${run.outcome} ${run.id}: ${run.error}", "why": "${b.error}"}
    document = {
        "params": {"word": {"type": "str", "default": "w"}},
        "tasks": [
            *tasks("a", "b", inputs={"x": "${params.word}"}),
            {"task_id": "c", "device": "d", "skill": "do", "join": "any"},
            {"task_id": "e", "device": "d", "skill": "do", "inputs": {"x": "${a.error}"}, "when": "x != null"},
            {"task_id": "f", "device": "d", "skill": "do"},
        ],
        "dependencies": stars.lines("a>c b>c a>e:COMPLETION_ONLY"),
        "on_failure": [{"task_id": "alert", "device": "d", "skill": "do", "inputs": {"x": text}}],
        "finally": [{"task_id": "clean", "device": "d", "skill": "do"}],
    }

    def script(attempt: Attempt) -> Behaviour:
        error = TaskError(code="raised", message="no luck") if attempt.task_id in "bf" else None
        return Behaviour(duration_s=5 if error else 10, error=error)

    return World(1, fleet=fleet_of("d"), script=script, crashes=[Crash(entry=8, after_s=0.5)]).run(document).records


def queue() -> Sequence[Record]:
    """Attempts wait for a device with one place, whose loss is asked about only where work had begun (rules 4)."""
    document = {"tasks": [{"task_id": name, "device": "s", "skill": "once"} for name in "abc"]}
    it = Agent(document, fleet=(AgentProfile(device_id="s", skills=(Skill(name="once"),)),))
    it.batch(it.end_of("a", {"x": 1}), AttemptBegun(of=it.task("b").effect_id))
    it.batch(DeviceLost(device="s", reason="unplugged"), it.end_of("b", error="device_lost"), it.end_of("c", error="device_lost"))
    it.batch(DeviceFound(device="s"))
    it.batch(AttemptQueued(of=it.task("c").effect_id))
    it.answers("respond", {"x": 2})
    it.batch(AttemptBegun(of=it.task("c").effect_id))
    it.ends("c", {"x": 3})
    return told(it)


def remote() -> Sequence[Record]:
    """A remote device reports a handle and asks; its skills change; what may still run at the end is named (journals of version 4)."""
    skills = (Skill(name="once"), Skill(name="more"))
    document = {"tasks": [{"task_id": name, "device": "far", "skill": "once"} for name in "abc"]}
    it = Agent(document, fleet=(AgentProfile(device_id="far", kind="a2a", skills=skills, reattach=True, concurrency=2),))
    it.batch(AttemptAttached(of=it.task("a").effect_id, handle="17"))
    it.take(OwnershipAcquired(epoch=2, owner="p", retried=tuple(it.outstanding(Dispatch))), actor="system")
    question = DeviceQuestion(prompt="Which one?", schema={"type": "string"}, risk="medium", state={"context": "c"})
    it.batch(AttemptEnded(effect_id=it.task("a").effect_id, question=question))
    it.answers("respond", "the left one")
    it.batch(DeviceFound(device="near", profile=AgentProfile(device_id="near", skills=skills[:1])))
    it.batch(DeviceLost(device="near", reason="it has left the fleet", removed=True))
    it.ends("b", error="timeout")
    it.batch(AttemptStopped(effect_id=next(iter(it.outstanding(StopAttempt)))))
    it.ends("c")
    it.batch(Cancel(reason="enough"))
    it.finish_cancellations()
    it.batch(AttemptStopped(effect_id=next(iter(it.outstanding(StopAttempt))), error="a may still run on far: no answer"))
    return told(it)


def cancelled_call() -> Sequence[Record]:
    """A device that confirms no cancel is asked what may still run (journals of version 5)."""
    document = {"tasks": [{"task_id": name, "device": "tools", "skill": "once"} for name in "ab"]}
    it = Agent(document, fleet=(AgentProfile(device_id="tools", kind="mcp", skills=(Skill(name="once"),), outlives_cancel=True),))
    it.batch(Cancel(reason="enough"))
    it.finish_cancellations()
    it.batch(AttemptStopped(effect_id=next(iter(it.outstanding(StopAttempt))), error="a may still run on tools: it is not confirmed"))
    return told(it)


def fan_out() -> Sequence[Record]:
    """A task for each item, at most two at once; one fails and is left out, and the process dies on the way."""
    each = {"items": "${a.files}", "max_concurrent": 2, "failed": "omit"}
    plan = {
        "tasks": [
            *tasks("a"),
            *tasks("b", inputs={"x": "${item}"}, for_each=each),
            *tasks("c", inputs={"x": "${b}", "y": "${b.failed}"}),
        ],
        "dependencies": lines("a>b", "b>c"),
    }

    def script(attempt: Attempt) -> Behaviour:
        if attempt.task_id == "a":
            return Behaviour(result={"files": ["p", "q", "r", "s"]})
        return Behaviour(duration_s=5, breaks="broken" if attempt.task_id == "b[1]" else "", result=attempt.task_id)

    return World(1, fleet=fleet_of("d"), script=script, crashes=[Crash(entry=7, after_s=1)]).run(plan).records


def retried() -> Sequence[Record]:
    """A failed item that a person has performed again while another one runs."""
    each = {"items": [1, 2, 3], "max_concurrent": 2}
    b = {"task_id": "b", "device": "d", "inputs": {"x": "${item}"}, "for_each": each}
    agent = Agent({"tasks": [b, {"task_id": "c", "device": "d"}], "dependencies": stars.lines("b>c")})
    agent.ends("b[0]", error="raised")
    agent.batch(Retry(tasks=("b[0]",)))
    for task_id in ("b[1]", "b[0]", "b[2]", "c"):
        agent.ends(task_id, task_id)
    return told(agent)


def rejected() -> Sequence[Record]:
    """A person rejects running an interrupted task again; a retry asks again, and nobody answers the second time (rules 5)."""
    once = {"task_id": "a", "device": "s", "skill": "once", "requires_approval": True}
    agent = Agent({"tasks": [once, {"task_id": "b", "device": "d"}]}, inquiry_timeout_s=60.0)
    agent.answers("approve")
    agent.ends("a", error="interrupted")
    agent.answers("reject", reason="not now")
    agent.batch(Retry(tasks=("a",)))
    agent.wait_until(1060.0)
    agent.finish_cancellations()
    agent.batch(Retry(tasks=("a",)))
    agent.answers("approve")
    agent.ends("a", {"x": 1})
    agent.ends("b")
    return told(agent)


def notified() -> Sequence[Record]:
    """A run that names the channel of its messages, and fails."""
    world = World(1, fleet=fleet_of("d"), script=lambda _: Behaviour(breaks="no luck"))
    return world.run({"tasks": tasks("a")}, options=RunOptions(notify=("phone",))).records


def named_failure() -> Sequence[Record]:
    """A person rejects a task, then another one fails; the alert names the failure (rules 6)."""
    alert = {"task_id": "alert", "device": "d", "inputs": {"text": "${run.error}"}}
    agent = Agent(
        {"tasks": [{"task_id": "a", "device": "d", "requires_approval": True}, {"task_id": "b", "device": "d"}], "on_failure": [alert]}
    )
    agent.answers("reject", reason="not now")
    agent.ends("b", error="raised")
    agent.ends("alert")
    return told(agent)


def guarded() -> Sequence[Record]:
    """A plan guards a skill, an edit drops the flag and is asked about all the same; an admin lifts the guard, and a copy asks again."""
    it = Agent({"tasks": [{"task_id": task, "device": "s", "skill": "once", "requires_approval": task == "a"} for task in ("a", "b")]})
    it.answers("approve")
    it.ends("a")
    it.batch(Edited(actions=({"tool": "add_task", "parameters": {"task_id": "c", "device": "s2", "skill": "once"}},)))
    it.batch(Forked(origin="r0", seq=it.run.seq, idle_s=60.0))
    it.finish_cancellations()
    it.take(GuardLifted(name="once", reason="checked by hand"), permissions=permissions.ALL)
    it.drain()
    it.answers("reject", reason="not there")
    it.answers("approve")
    it.ends("c")
    return told(it)


def finish_refused() -> Sequence[Record]:
    """The planner says FINISH over a failure, adds other work that cannot excuse it, and says FINISH until the run fails (rules 7)."""
    alert = {"task_id": "alert", "device": "d", "inputs": {"text": "${run.error}"}}
    document = {"tasks": [{"task_id": "a", "device": "s", "skill": "once"}], "on_failure": [alert]}
    it = Agent(document, replan="when_needed", max_reasks=1)
    it.ends("a", error="raised")
    it.plans(status="FINISH", result={"summary": "as well as could be"})
    it.plans(action("add_task", task_id="b", device="d"), action("add_dependency", from_="a", to="b", type="UNCONDITIONAL"))
    it.ends("b")
    it.plans(status="FINISH")
    it.plans(status="FINISH")
    it.ends("alert")
    return told(it)


def continued() -> Sequence[Record]:
    """An attempt goes on without an answer, a stop is tried again, and a restart excuses no failure (rules 7)."""
    document = {"tasks": [{"task_id": name, "device": "far", "skill": "once"} for name in "ab"]}
    profile = AgentProfile(device_id="far", kind="a2a", skills=(Skill(name="once"),), reattach=True, concurrency=2)
    it = Agent(document, fleet=(profile, AgentProfile(device_id="d", natural_language=True)), replan="always", max_reasks=1)
    it.batch(AttemptEnded(effect_id=it.task("a").effect_id, question=DeviceQuestion(prompt="Sign in", state={"task": "1"}, may_go_on=True)))
    it.now += 10
    it.drain()
    it.batch(AttemptLooked(effect_id=next(iter(it.outstanding(LookAtAttempt)))))
    it.now += 20
    it.drain()
    it.batch(AttemptLooked(effect_id=next(iter(it.outstanding(LookAtAttempt))), gone_on=True))
    it.finish_cancellations()
    it.batch(DeviceLost(device="far", reason="no route"), it.end_of("b", error="timeout"))
    it.batch(AttemptStopped(effect_id=next(iter(it.outstanding(StopAttempt))), error="b may still run on far: no route"))
    it.batch(DeviceFound(device="far"))
    it.batch(AttemptStopped(effect_id=next(iter(it.outstanding(StopAttempt)))))
    it.ends("a", 42)
    it.plans(status="START", thought="another way")
    it.finish_cancellations()
    it.plans(plan={"tasks": [{"task_id": "c", "device": "d"}]})
    it.ends("c")
    it.plans(status="FINISH")
    it.plans(status="FINISH")
    return told(it)


def stricter_fleet() -> Sequence[Record]:
    """The fleet file becomes stricter while a run is under way, and its next task is asked about."""
    tasks = [{"task_id": "a", "device": "s", "skill": "again"}, {"task_id": "b", "device": "s", "skill": "once"}]
    it = Agent({"tasks": tasks, "dependencies": [{"from": "a", "to": "b"}]})
    it.batch(FleetGuarded(guards={"s": DeviceGuards(skills={"once": SkillGuard(approval=True)})}))
    it.ends("a")
    it.answers("approve")
    it.ends("b")
    return told(it)


def imported() -> Sequence[Record]:
    """A run comes from a file with an approval that nothing has begun with, and with a lift: both are void (rules 7)."""
    it = Agent({"tasks": [{"task_id": "a", "device": "s", "skill": "once", "requires_approval": True}]})
    it.take(GuardLifted(name="once", reason="checked by hand"), permissions=permissions.ALL)
    it.take(it.answer("approve"))
    it.batch(Imported())
    it.answers("approve")
    it.ends("a")
    return told(it)


SCENES: tuple[Callable[[], Sequence[Record]], ...] = (
    creation, editing, retry, interruption, approval, restart, cancel, nested, edits, consent, limits, child, fork, devices, refusals,
    deadlines, waits, events, round_two, defect, replaced, mistyped, handlers, queue, remote, fan_out, retried, rejected, cancelled_call,
    notified, named_failure, guarded, finish_refused, continued, stricter_fleet, imported,
)  # fmt: skip
