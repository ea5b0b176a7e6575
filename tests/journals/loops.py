"""Golden loops: a scene for each thing that a loop can go through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from asterism.engine.control.children import ChildBlocked, ChildEnded, ChildSignaled, SignalChild, StartChild
from asterism.engine.control.run_control import (
    Answered,
    AskPerson,
    Cancel,
    FleetGuarded,
    Forked,
    GuardLifted,
    Imported,
    Pause,
    TransitionFailed,
    Unpause,
)
from asterism.engine.kernel.guards import DeviceGuards, Guards, SkillGuard
from asterism.engine.kernel.journal import Record
from asterism.engine.kernel.machine import kind_of
from asterism.engine.kernel.packing import packer
from asterism.engine.kernel.permissions import ALL
from asterism.engine.kernel.profile import ChildSpec
from asterism.loop.machine.effects import AskModel, RunWorker
from asterism.loop.machine.events import WorkerEnded
from asterism.loop.machine.model import Later, Strategy, ToolCall, WorkerProfile
from asterism.loop.machine.table import ORCHESTRATION_LOOP
from asterism.loop.python import Handoff, LoopView, OrchestrationLoop, Worker
from asterism.testing.people import Crash, everyone_says
from asterism.testing.world import World
from tests.simulation.test_loops import research_and_write
from tests.support.loop_harness import Loop, steps


def told(loop: Loop) -> list[Record]:
    return [packer(ORCHESTRATION_LOOP).pack(entry) for entry in loop.entries]


def finish(loop: Loop) -> Sequence[Record]:
    loop.says("done")
    loop.answers_with("so")
    return told(loop)


def loop() -> Sequence[Record]:
    """Two plans, steps at once, a critique, and a process that dies three times."""
    deaths = [*(Crash(during=name, after_s=0.5) for name in ("look", "dig")), Crash(entry=9)]
    return World(1, crashes=deaths, people=everyone_says("approve")).run_loop(research_and_write(idempotent=False), "go").records


def loop_child() -> Sequence[Record]:
    """A worker that is a loop, with a question below: the parent's journal."""

    async def work(handoff: Handoff) -> Any:
        return {"of": handoff.intent}

    async def plan(view: LoopView) -> Any:
        return [{"worker": "w", "intent": view.request}]

    below = OrchestrationLoop(plan=plan, workers={"w": Worker(work, requires_approval=True)})
    above = OrchestrationLoop(plan=[{"step_id": "a", "worker": "deep", "intent": "dig"}], workers={"deep": below})
    return World(1, people=everyone_says("approve")).run_loop(above, "go").records


def loop_below() -> Sequence[Record]:
    """Pause, unpause and cancel go down to a worker that is a run."""
    spec = ChildSpec(machine="orchestration loop", definition={})
    it = Loop(*steps("a:deep"), workers=(WorkerProfile(name="deep", child=spec),))
    below = it.effect(StartChild)
    for command in (Pause(), Unpause(), Cancel(reason="enough")):
        it.batch(command)
        it.batch(*(ChildSignaled(effect_id=key) for key in it.outstanding(SignalChild)))
        if not it.run.machine.is_terminal(it.state):
            it.batch(ChildBlocked(effect_id=below, blocked=isinstance(command, Pause)))
    it.batch(ChildEnded(effect_id=below, outcome="cancelled", code="cancelled", reason="enough"))
    return told(it)


def loop_gates() -> Sequence[Record]:
    """A model calls tools: one is denied, one is confirmed with other arguments, one is refused by a person, one fails."""
    it = Loop(*steps("a:model"))
    calls = [
        ToolCall(call_id="1", tool="read", denied="not on its list"),
        ToolCall(call_id="2", tool="remove", arguments={"path": "x"}, gate="destructive"),
        ToolCall(call_id="3", tool="send", gate="external"),
        ToolCall(call_id="4", tool="look", idempotent=True),
    ]
    it.replies("let me see", *calls, raw=[{"kind": "response"}], tokens=7)
    it.returns("4", "looked")
    it.answers("edit", {"path": "y"})
    it.answers("reject", reason="not by mail")
    it.returns("2", {"error": "not there"})
    it.replies("it is so", tokens=3)
    return finish(it)


def loop_model() -> Sequence[Record]:
    """A model that cannot be had, then one whose call may have been made: a person has it made again."""
    it = Loop(*steps("a:model"), max_attempts=2)
    it.batch(it.run.outstanding[it.effect(AskModel)].interrupted(it.effect(AskModel), "its owner died"))
    it.says("continue", Strategy.RETRY)
    it.replies("let me see", ToolCall(call_id="1", tool="send"))
    effect = next(key for key, asked in it.run.outstanding.items() if kind_of(asked) == "call_tool")
    it.batch(it.run.outstanding[effect].interrupted(effect, "its owner died"))
    it.answers("approve")
    it.returns("1", "sent")
    it.replies("it is so")
    return finish(it)


def loop_later() -> Sequence[Record]:
    """A result that comes later; and a step that a person approves with another handoff."""
    it = Loop(*steps("a", "b:asks"))
    it.batch(WorkerEnded(effect_id=it.effect(RunWorker), later=Later(key="job-7", prompt="the print job")))
    it.answers("respond", {"pages": 3})
    it.says()
    it.answers("edit", {"intent": "less"})
    it.ends("b")
    return finish(it)


def loop_ladder() -> Sequence[Record]:
    """A step fails: tried again, tried by another worker, asked about, and given up."""
    it = Loop(*steps("a:once", alternatives=("w",)), max_attempts=5)
    for strategy in (Strategy.RETRY, Strategy.RETRY_ELSEWHERE):
        it.fails("a")
        it.says("continue", strategy)
    it.fails("a")
    it.says("continue", Strategy.ASK_USER)
    it.answers("respond", "leave it")
    it.says("fail", Strategy.GIVE_UP)
    return told(it)


def loop_bound() -> Sequence[Record]:
    """Plans that cannot be used, one that can, and one replan too many."""
    it = Loop(max_replans=1)
    it.plans(*steps("a:nobody"))
    it.plans(*steps("a"))
    it.ends("a")
    it.says("replan")
    it.plans(*steps("b"))
    it.fails("b")
    it.says("replan")
    return told(it)


def loop_cancel() -> Sequence[Record]:
    """Paused, taken one step on, unpaused, and cancelled while two are at work."""
    it = Loop(*steps("a"), *steps("b", "c:once", group="g"))
    it.batch(Pause(reason="lunch"))
    it.ends("a")
    it.step_once()
    it.batch(Unpause())
    it.says()
    it.batch(Cancel(reason="enough"))
    it.finish_cancellations()
    return told(it)


def loop_fork() -> Sequence[Record]:
    """A copy of a run in the middle of a step that may have been done: a person says it is."""
    it = Loop(*steps("a:once"))
    it.batch(Forked(origin="r0", seq=2, idle_s=60.0))
    it.finish_cancellations()
    it.answers("respond", "it is done")
    return finish(it)


def loop_defect() -> Sequence[Record]:
    """A move of ours raised: it ends by name."""
    it = Loop(*steps("a"))
    it.batch(TransitionFailed(effect_id=it.effect(RunWorker), event="worker_ended", reason="KeyError: x"))
    it.finish_cancellations()
    return told(it)


def loop_guarded() -> Sequence[Record]:
    """A loop below a run whose plan guards a worker: each step of it is asked about until an admin lifts the guard."""
    it = Loop(*steps("a", "b"), guards=Guards(plan_skills=("w",), submitter="me", concerning=("w",)))
    it.answers("approve")
    it.ends("a")
    it.take(GuardLifted(name="w", reason="seen"), permissions=ALL)
    it.says()
    it.ends("b")
    return finish(it)


def loop_stricter() -> Sequence[Record]:
    """The fleet file becomes stricter while a loop is under way."""
    it = Loop(*steps("a"), guards=Guards(submitter="me"))
    it.take(FleetGuarded(guards={"s": DeviceGuards(every=SkillGuard(approval=True))}))
    it.ends("a")
    return finish(it)


def loop_imported() -> Sequence[Record]:
    """A loop comes from a file with an approved step that has not begun."""
    it = Loop(*steps("a:asks"))
    it.take(Answered(effect_id=it.effect(AskPerson), verb="approve"))
    it.batch(Imported())
    it.answers("approve")
    it.ends("a")
    return finish(it)


SCENES: tuple[Callable[[], Sequence[Record]], ...] = (
    loop, loop_child, loop_below, loop_gates, loop_model, loop_later, loop_ladder, loop_bound, loop_cancel, loop_fork, loop_defect,
    loop_guarded, loop_stricter, loop_imported,
)  # fmt: skip
