"""Profiles: named sets of faults, each of which builds a world from a seed."""

from __future__ import annotations

import functools
import importlib.util
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from asterism.constellation.machine.events import ConstellationSubmitted, Edited, RaiseLimits, Retry, RunOptions
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.planner.model_choice import ModelChoice
from asterism.engine.control.run_control import Answered
from asterism.engine.control.usage import Usage
from asterism.engine.kernel.machine import Event, kind_of
from asterism.engine.kernel.packing import event_body
from asterism.engine.kernel.profile import AgentProfile
from asterism.engine.runtime.snapshots import INTERVAL_CHARS
from asterism.loop.machine.events import StepOnce
from asterism.testing.device import Faults
from asterism.testing.people import Crash, ScheduledEvent, StoreFaults, everyone_says
from asterism.testing.planner import Reply, ScriptedPlanner
from asterism.testing.program import FailingMoves, Program
from asterism.testing.remote import RemoteFaults
from tests.simulation.search import gate_shapes, shapes, wait_shapes
from tests.simulation.search.random_model import RandomModel
from tests.simulation.search.setting import FlowSetting, ImportSetting, LoopSetting, MixedSetting, Setting
from tests.simulation.search.shapes import likely

FaultInjector = Callable[[random.Random, Setting], None]


def _devices(rng: random.Random, setting: Setting) -> None:
    chances = {name: rng.choice((0.0, 0.05, 0.15)) for name in ("raised", "crashed", "hangs", "slow", "stubborn", "breaks")}
    chances |= {name: rng.choice((0.0, 0.05)) for name in ("breaks_on_cancel", "unserializable")}
    setting.world["faults"] = Faults(seed=setting.seed, **chances)
    names = [profile.device_id for profile in setting.world["fleet"]]
    for device in names if likely(rng, 0.1) else ():
        _schedule(setting, ScheduledEvent(at_s=round(rng.uniform(0, 30), 1), what="lose", device=device))
        _schedule(setting, ScheduledEvent(at_s=round(rng.uniform(30, 90), 1), what="find", device=device))
    for _ in range(rng.choice((0, 0, 1, 2))):
        device, at_s = rng.choice(names), round(rng.uniform(0, 60), 1)
        _schedule(setting, ScheduledEvent(at_s=at_s, what="lose", device=device))
        if likely(rng, 0.8):
            _schedule(setting, ScheduledEvent(at_s=at_s + rng.choice((0.0, 1.0, 50.0)), what="find", device=device))


def _crashes(rng: random.Random, setting: Setting) -> None:
    setting.world["crashes"] = [
        Crash(entry=rng.randint(2, 25), after_s=rng.choice((0.0, 0.0, 0.01, round(rng.uniform(0, 20), 2))))
        for _ in range(rng.randint(1, 4))
    ]
    setting.world["drivers"] = rng.choice((1, 1, 2))
    if likely(rng, 0.2):
        _schedule(setting, ScheduledEvent(at_s=round(rng.uniform(0, 60), 1), what="rival"))
    setting.world["interval_chars"] = rng.choice((1, 3_000, INTERVAL_CHARS))


def _remote(rng: random.Random, setting: Setting) -> None:
    """Let some devices be remote ones, with an unreliable network, and other sides that ask and forget."""
    fleet = [
        msgspec.structs.replace(it, kind="a2a", reattach=True, grace_s=rng.choice((0.0, 20.0, 60.0))) if likely(rng, 0.6) else it
        for it in setting.world["fleet"]
    ]
    setting.world["fleet"] = fleet
    chances = {name: rng.choice((0.0, 0.0, 0.05, 0.2)) for name in ("lost_request", "lost_reply", "slow", "wrong_handle", "chatter")}
    setting.world["remote_faults"] = RemoteFaults(seed=setting.seed, **chances, goes_on=(0.0, 0.5)[setting.seed % 2])
    asking = rng.choice((0.0, 0.2, 0.5))
    setting.world["questions"] = functools.partial(shapes.questions, setting.seed, asking)
    setting.world["people"] = shapes.helpful(setting.seed)
    for profile in fleet if likely(rng, 0.6) else ():
        for what, back in (("lose", "find"), ("mute", "unmute"), ("forget", "")):
            at_s = round(rng.uniform(0, 60), 1)
            if profile.reattach and likely(rng, 0.3):
                _schedule(setting, ScheduledEvent(at_s=at_s, what=what, device=profile.device_id))  # type: ignore[arg-type]
                if back and likely(rng, 0.9):
                    after_s = rng.choice((0.5, 5.0, 90.0))
                    _schedule(setting, ScheduledEvent(at_s=at_s + after_s, what=back, device=profile.device_id))  # type: ignore[arg-type]
    if likely(rng, 0.3):
        _schedule(setting, ScheduledEvent(at_s=round(rng.uniform(0, 60), 1), what="cancel"))


def _planner(rng: random.Random, setting: Setting) -> None:
    setting.world["planner"] = ScriptedPlanner(shapes.RandomPlanner(setting.seed, setting.world["fleet"]))
    _planner_options(rng, setting)


def _model(rng: random.Random, setting: Setting) -> None:
    """Use the whole pipeline as planner, with a random model."""
    from asterism.testing.pipeline import PipelinePlanner  # noqa: PLC0415 - heavy, and an extra

    model, backup = rng.sample(("openai:simulated", "anthropic:simulated"), 2)
    choice = ModelChoice(
        model=model,
        backup=rng.choice(("", backup, "openai:another")),
        timeout_s=rng.choice((5.0, 30.0, 120.0)),
        attempts=rng.choice((1, 2, 4)),
        max_wait_s=rng.choice((5.0, 60.0)),
        reprompts=rng.choice((0, 1, 3)),
    )
    script = RandomModel(setting.seed, setting.world["fleet"], trouble=rng.choice((0.0, 0.1, 0.4)), odd=rng.choice((0.0, 0.2, 0.5)))
    setting.world["planner"] = PipelinePlanner(script, choice)
    setting.world["program"] = Program(planner_timeout_s=None)
    if setting.plan and likely(rng, 0.2):  # longer than a prompt may be, so that the model must read more
        wordy = [msgspec.structs.replace(spec, name=f"{spec.task_id} " * rng.choice((100, 3_000))) for spec in setting.plan.tasks]
        setting.plan = msgspec.structs.replace(setting.plan, tasks=tuple(wordy))
    _planner_options(rng, setting)
    if likely(rng, 0.2):
        setting.options = msgspec.structs.replace(setting.options, max_tokens=rng.choice((150, 5_000, 400_000)))


def _planner_options(rng: random.Random, setting: Setting) -> None:
    """Choose when the planner is asked."""
    if likely(rng, 0.3):
        setting.plan = None
    setting.options = msgspec.structs.replace(
        setting.options,
        replan=rng.choice(("always", "when_needed")),
        hold=rng.choice(("successors", "none", "all")),
        max_asks=rng.choice((3, 20, 200)),
        max_reasks=rng.choice((0, 1, 3)),
        max_restarts=rng.choice((0, 1, 3)),
    )


def _people(rng: random.Random, setting: Setting) -> None:
    setting.world["people"] = shapes.people(setting.seed)
    setting.options = msgspec.structs.replace(setting.options, inquiry_timeout_s=rng.choice((None, 20.0, 200.0)))
    for what in ("pause", "unpause", "pause", "unpause", "cancel"):
        if likely(rng, 0.15 if what == "cancel" else 0.4):
            _schedule(setting, ScheduledEvent(at_s=round(rng.uniform(0, 90), 1), what=what))


def _decisions(rng: random.Random, setting: Setting) -> None:
    plans = shapes.RandomPlanner(setting.seed, setting.world["fleet"])
    setting.world["planner"] = ScriptedPlanner(lambda question: _with_usage(plans(question)))
    setting.options = msgspec.structs.replace(
        setting.options,
        approve_plan=likely(rng, 0.4),
        approve_edits=likely(rng, 0.7),
        max_tokens=rng.choice((None, 250, 1000)),
        max_cost_usd=rng.choice((None, None, 0.05)),
    )
    if likely(rng, 0.7):
        _schedule(setting, ScheduledEvent(at_s=round(rng.uniform(10, 90), 1), what="raise_limits"))


def _with_usage(reply: Reply) -> Reply:
    usage = Usage(model="simulated", requests=1, input_tokens=90, output_tokens=10, cost_usd=0.01)
    return msgspec.structs.replace(reply, proposal=msgspec.structs.replace(reply.proposal, usage=usage))


def _editors(rng: random.Random, setting: Setting) -> None:
    """Edit the live run, sometimes tasks that have started, and sometimes send the same edit twice."""
    planned = setting.plan or shapes.plan(rng, setting.world["fleet"], most=8)
    there = TaskConstellation.from_dict(msgspec.to_builtins(planned)).to_dict()
    for number in range(rng.randint(1, 4)):
        actions = tuple(shapes.edit(rng, setting.world["fleet"], there, wild=0.5) for _ in range(rng.choice((1, 1, 2, 3))))
        edit = ScheduledEvent(at_s=round(rng.uniform(0, 60), 1), what="edit", actions=actions, key=f"edit-{number}")
        _schedule(setting, edit)
        if likely(rng, 0.3):
            _schedule(setting, msgspec.structs.replace(edit, at_s=edit.at_s + rng.choice((0.0, 5.0))))


def _store(rng: random.Random, setting: Setting) -> None:
    setting.world["store"] = StoreFaults(
        fails=rng.choice((0.0, 0.1)), times=rng.choice((1, 3, 9)), lost_reply=rng.choice((0.0, 0.0, 0.05)), slow=rng.choice((0.0, 0.3))
    )  # fmt: skip


def _fencing(rng: random.Random, setting: Setting) -> None:
    for _ in range(rng.randint(1, 2)):
        _schedule(setting, ScheduledEvent(at_s=round(rng.uniform(0, 40), 1), what="fence"))


def _program(rng: random.Random, setting: Setting) -> None:
    names = [profile.device_id for profile in setting.world["fleet"]]
    setting.world["program"] = Program(
        queue_limit=rng.choice((0, 1, 2, 10_000)),
        unopened=(rng.choice(names),) if likely(rng, 0.3) else (),
        defects=rng.choice((0, 0, 30, 150)),
        observer_fails_after=rng.choice((0, 5, 30)),
        starts=likely(rng, 0.5),
    )


def _servers(rng: random.Random, setting: Setting) -> None:
    """Let several servers take what is due from one store; some are stopped, some are killed."""
    _crashes(rng, setting)
    setting.world["program"] = Program(serves=True)
    setting.world["drivers"] = rng.choice((1, 2, 3))
    events = setting.world.get("scheduled_events", ())
    setting.world["scheduled_events"] = [it for it in events if it.what != "fence"]  # servers look for dead owners themselves
    if likely(rng, 0.3):
        _store(rng, setting)


def _failing_moves(rng: random.Random, setting: Setting) -> None:
    """Let moves raise errors for commands that people send and resend; each kind of run gets every command of its machine."""
    setting.world["program"] = Program(
        failing=FailingMoves(seed=setting.seed, commands=rng.choice((0.1, 0.5, 0.9)), outcomes=rng.choice((0.0, 0.0, 0.01, 0.05)))
    )
    setting.world["resends"] = rng.choice((0, 1, 5))
    for what in ("pause", "unpause") * rng.choice((1, 2, 4)):
        _schedule(setting, ScheduledEvent(at_s=round(rng.uniform(0, 60), 1), what=what, run_id=rng.choice(("", "", "*"))))
    if likely(rng, 0.2):
        _crashes(rng, setting)
    if isinstance(setting, LoopSetting):
        _one_by_one(rng, setting)
    elif not isinstance(setting, FlowSetting) and likely(rng, 0.5):
        _planner(rng, setting)
        _decisions(rng, setting)
        _editors(rng, setting)


def _malformed_inbox(rng: random.Random, setting: Setting) -> None:
    """Write rows directly into the inbox: unreadable ones, late answers, and edits against a base version."""
    update = {"tool": "update_task", "parameters": {"task_id": "t0", "priority": 3}}
    events: tuple[Event, ...] = (
        ConstellationSubmitted(request="again", fleet=()),
        Answered(effect_id="sim-1:1.0", verb="approve"),
        Answered(effect_id="sim-1:3.0", verb="respond", value={"value": 0.1}),
        RaiseLimits(max_tokens=rng.choice((1, 500, 10**6))),
        RaiseLimits(max_cost_usd=rng.choice((0.01, 5.0))),
        Edited(actions=(update,) * 2_001),
        *(Edited(actions=(update,), base_version=version) for version in range(6)),
    )
    rows = [("Nonsense", "{}"), ("pause", "{"), ("pause", "[]"), ("answered", '{"effect_id": 7}'), ("cancel", '{"reason": "\\ud800"}')]
    rows += [(kind_of(event), event_body(event)) for event in events]
    for kind, body in rng.choices(rows, k=rng.randint(1, 6)):
        _schedule(setting, ScheduledEvent(at_s=round(rng.uniform(0, 60), 1), what="inbox_row", kind=kind, body=body))


def _trees(rng: random.Random, setting: Setting) -> None:
    if setting.plan is not None:
        setting.plan = shapes.nested(rng, setting.plan, setting.world["fleet"])
    setting.world["crashes"] = [
        Crash(entry=rng.randint(2, 15), after_s=rng.choice((0.0, 0.01, 3.0)), run_id="*") for _ in range(rng.choice((0, 1, 1, 3)))
    ]
    if likely(rng, 0.2):
        _schedule(
            setting,
            ScheduledEvent(at_s=round(rng.uniform(0, 60), 1), what=rng.choice(("cancel", "rival", "fence")), run_id=rng.choice(("", "*"))),
        )
    if likely(rng, 0.2):
        _schedule(setting, ScheduledEvent(at_s=round(rng.uniform(0, 60), 1), what=rng.choice(("cancel", "pause", "unpause")), run_id="*"))


def _forks(rng: random.Random, setting: Setting) -> None:
    """Fork the run of another setting; the fleet differs, but its devices have the same names."""
    setting.forks = setting_of(rng.choice(FORKED), setting.seed), rng.random()


def _below_and_renamed(setting: Setting, fleet: list[AgentProfile]) -> tuple[list[AgentProfile], list[AgentProfile]]:
    """Add devices with a planner and with conversations, and reports that rename skills; return the fleet without and with those."""
    rng = random.Random(f"gates below:{setting.seed}")
    if likely(rng, 0.3):
        fleet = [*fleet, gate_shapes.planning(fleet)]
    if likely(rng, 0.5):
        fleet = [*fleet, gate_shapes.conversing(rng)]
    setting.world["fleet"] = fleet
    known = list(fleet)
    for profile in fleet if likely(rng, 0.4) else ():
        if any(not skill.idempotent for skill in profile.skills):
            known.append(gate_shapes.renamed(profile))
            reports = gate_shapes.renaming(rng, profile)
            for event in (*reports, gate_shapes.use_of_renamed(profile, reports[-1].at_s + rng.choice((0.1, 10.0)))):
                _schedule(setting, event)
    return fleet, known


def _gates(rng: random.Random, setting: Setting) -> None:
    """Guard the fleet and the plan, and let planner, people and clients try to weaken that."""
    fleet = setting.world["fleet"] = gate_shapes.guarded(rng, setting.world["fleet"])
    fleet, known = _below_and_renamed(setting, fleet)
    setting.plan = gate_shapes.plan(rng, fleet, foreign=False)
    setting.world["planner"] = ScriptedPlanner(gate_shapes.Schemer(setting.seed, known))
    setting.world["people"] = gate_shapes.answers(setting.seed)
    setting.world["faults"] = Faults(seed=setting.seed, raised=rng.choice((0.0, 0.2, 0.5)), crashed=0.05, hangs=0.02, breaks=0.02)
    _planner_options(rng, setting)
    ids = [f"t{number}" for number in range(gate_shapes.MOST)]
    for event in gate_shapes.client_events(rng, known, ids):
        _schedule(setting, event)
    for number in range(rng.choice((0, 1, 3))):
        actions = (gate_shapes.attack(rng, known, ids, foreign=False),)
        _schedule(setting, ScheduledEvent(at_s=round(rng.uniform(0, 60), 1), what="edit", actions=actions, key=f"edit-{number}"))
    for _ in range(rng.choice((0, 1, 2))):
        at_s, pause_s = round(rng.choice((0.1, rng.uniform(0, 60))), 1), rng.choice((4.0, 20.0))
        _schedule(setting, ScheduledEvent(at_s=at_s, what="pause"))
        _schedule(setting, ScheduledEvent(at_s=at_s + pause_s, what="unpause"))
        for event in gate_shapes.late_changes(rng, ids) if likely(rng, 0.5) else ():  # of what was approved, and may not start yet
            _schedule(setting, msgspec.structs.replace(event, at_s=at_s + pause_s - 0.5))
    for device in [profile.device_id for profile in fleet if likely(rng, 0.1)]:
        at_s = round(rng.uniform(0, 60), 1)
        _schedule(setting, ScheduledEvent(at_s=at_s, what="lose", device=device))
        _schedule(setting, ScheduledEvent(at_s=at_s + 20.0, what="find", device=device))
    if likely(rng, 0.4):
        _crashes(rng, setting)
    if likely(rng, 0.3):  # what has failed before an approved task completes in a retry during that, and then the process dies
        setting.world["script"] = gate_shapes.first_short(setting.world["script"])
        setting.world |= {"faults": Faults(seed=setting.seed, raised=0.5), "people": everyone_says("approve")}
        for at_s in range(2, 60, rng.choice((4, 8))):
            _schedule(setting, gate_shapes.by_operator(Retry(), at_s))
            _schedule(setting, ScheduledEvent(at_s=at_s + rng.choice((1.5, 3.0)), what="crash"))


def _forks_of_gates(rng: random.Random, setting: Setting) -> None:
    """Fork a run with gates; the fleet that is present then may guard more."""
    origin = setting_of("gates", setting.seed)
    setting.world["fleet"] = [it for it in origin.world["fleet"] if it.skills]  # ``_gates`` adds the others
    _gates(rng, setting)
    if likely(rng, 0.7):
        setting.world["fleet"] = origin.world["fleet"]
    setting.world["scheduled_events"] = [msgspec.structs.replace(it, key="") for it in setting.world["scheduled_events"]]
    setting.forks = origin, rng.random()


def _imports_of_gates(rng: random.Random, setting: Setting) -> None:
    """Import a run with gates, and attack it there."""
    _forks_of_gates(rng, setting)
    setting.world["fleet"] = setting_of("gates", setting.seed).world["fleet"]


def _waits(rng: random.Random, setting: Setting) -> None:
    """Let tasks wait for times and events, with one or several processes that die."""
    if setting.plan is not None:
        setting.plan = wait_shapes.waiting(rng, setting.plan)
    # A server does not take up an imported run by itself.
    (_servers if likely(rng, 0.5) and not isinstance(setting, ImportSetting) else _crashes)(rng, setting)
    for event in wait_shapes.events(rng):
        _schedule(setting, event)
    if likely(rng, 0.1):
        _schedule(setting, ScheduledEvent(at_s=round(rng.uniform(0, 90), 1), what="cancel"))


def _copies_of_waits(rng: random.Random, setting: Setting) -> None:
    """Fork or import a run with waits."""
    setting.forks = setting_of("waits", setting.seed), rng.random()
    _waits(rng, setting)


def _fan_outs(rng: random.Random, setting: Setting) -> None:
    """Perform some tasks for each item of a list, and retry what has failed."""
    if setting.plan is not None:
        setting.plan = shapes.fanned_out(rng, setting.plan)
    setting.world["script"] = shapes.with_lists(setting.world["script"], setting.seed)
    for _ in range(rng.choice((0, 0, 1, 2))):
        tasks = rng.choice(((), ("t0",), ("t1[0]",), ("t2[1]", "t3[0]")))
        retry = ScheduledEvent(
            at_s=round(rng.uniform(0, 60), 1), what="inbox_row", kind=kind_of(Retry), body=event_body(Retry(tasks=tasks))
        )
        _schedule(setting, retry)


def _crashes_during(rng: random.Random, setting: Setting) -> None:
    """Crash the driver during a function of a loop or a conversation."""
    names = ("good", "once", "asks", "model", "reflect", "make_plan", "on_running", "on_running", "on_waiting_for_input", "write", "reach")
    for _ in range(rng.choice((0, 1, 2))):
        crash = Crash(during=rng.choice(names), after_s=rng.choice((0.0, 0.0, 0.5)), run_id=rng.choice(("", "*")))
        setting.world.setdefault("crashes", []).append(crash)


def _one_by_one(rng: random.Random, setting: Setting) -> None:
    """Step a loop one transition at a time for a while, and usually let it continue afterwards."""
    steps = sorted(round(rng.uniform(0, 60), 1) for _ in range(rng.choice((0, 0, 0, 2, 8))))
    for at_s in steps:
        _schedule(setting, ScheduledEvent(at_s=at_s, what="inbox_row", kind=kind_of(StepOnce), body=event_body(StepOnce())))
    if steps and likely(rng, 0.8):
        _schedule(setting, ScheduledEvent(at_s=steps[-1] + 5.0, what="unpause"))


def _schedule(setting: Setting, event: ScheduledEvent) -> None:
    setting.world.setdefault("scheduled_events", []).append(event)


FORKED = (
    "people",
    "planner",
    "decisions",
    "devices",
    "trees",
    "malformed inbox",
    "loops",
    "tools",
    "conversations",
    "storm of loops",
    "storm of conversations",
)
"""Profiles whose runs are forked."""

PROFILES: Mapping[str, tuple[FaultInjector, ...]] = {
    "calm": (),
    "devices": (_devices,),
    "crashes": (_crashes,),
    "planner": (_planner,),
    "people": (_people,),
    "decisions": (_planner, _people, _decisions),
    "store": (_store,),
    "edits": (_planner, _editors, _crashes),
    "fenced": (_fencing, _people),
    "trees": (_people, _trees),
    "forest": (_devices, _people, _editors, _store, _trees),
    "storm": (_devices, _crashes, _planner, _people, _editors, _store),
    "storm of decisions": (_devices, _crashes, _planner, _people, _decisions, _editors, _store),
    "forks": (_devices, _crashes, _planner, _people, _editors, _forks),
    "programs": (_devices, _program, _people, _editors, _trees),
    "malformed inbox": (_planner, _people, _decisions, _malformed_inbox, _store),
    "model": (_model,),
    "storm of models": (_devices, _crashes, _model, _people, _editors, _store),
    "loops": (_people, _crashes, _crashes_during, _one_by_one),
    "tools": (_people, _crashes, _crashes_during, _one_by_one),
    "conversations": (_crashes, _crashes_during),
    "storm of loops": (_devices, _people, _trees, _crashes_during, _store, _fencing, _one_by_one),
    "storm of conversations": (_devices, _people, _trees, _crashes_during, _store, _fencing),
    "mixed": (_devices, _people, _trees, _crashes_during),
    "failing moves": (_devices, _people, _trees, _failing_moves),
    "fan-outs": (_fan_outs, _devices, _people),
    "servers": (_devices, _people, _editors, _trees, _servers),
    "servers of any machine": (_devices, _people, _trees, _servers),
    "remote": (_remote,),
    "storm of remote devices": (_remote, _devices, _crashes, _store, _people),
    "storm of fan-outs": (_fan_outs, _devices, _crashes, _planner, _people, _editors, _store),
    "gates": (_gates,),
    "forks of gates": (_forks_of_gates,),
    "imports of gates": (_imports_of_gates,),
    "waits": (_waits,),
    "forks of waits": (_copies_of_waits,),
    "imports of waits": (_copies_of_waits,),
}
"""Fault injectors by name of the profile."""


def _of_any_machine(*, seed: int, **given: Any) -> Setting:
    """Return a run of any machine, usually with child runs."""
    rng = random.Random(f"machine:{seed}")
    loop, conversation = (
        functools.partial(LoopSetting, children=likely(rng, 0.7)),
        functools.partial(FlowSetting, children=likely(rng, 0.9)),
    )
    subjects: tuple[Callable[..., Setting], ...] = (
        Setting,
        MixedSetting,
        functools.partial(loop, models=likely(rng, 0.3)),
        functools.partial(conversation, bounded=False),
        functools.partial(conversation, bounded=False),
    )
    return rng.choice(subjects)(seed=seed, **given)


SUBJECTS: Mapping[str, Callable[..., Setting]] = {
    "loops": LoopSetting,
    "tools": functools.partial(LoopSetting, models=True),
    "conversations": FlowSetting,
    "storm of loops": functools.partial(LoopSetting, children=True),
    "storm of conversations": functools.partial(FlowSetting, children=True),
    "mixed": MixedSetting,
    "imports of gates": ImportSetting,
    "imports of waits": ImportSetting,
    "failing moves": _of_any_machine,
    "servers of any machine": _of_any_machine,
}
"""Kind of run by profile, where it is not a plan."""

SEED_NAMES = {"fenced": "robbed", "malformed inbox": "letters", "conversations": "talks", "storm of conversations": "storm of talks"}
"""Former names of profiles, which remain part of the random seed: a published seed must keep its world."""

PIPELINE = ("model", "storm of models")
"""Profiles with the whole pipeline as planner. They need the ``llm`` extra, and take ten times as long."""
PIPELINE_EVERY = 20
"""One seed in this many uses the pipeline."""


def has_pipeline() -> bool:
    """Return True if the packages of the pipeline are installed."""
    return all(importlib.util.find_spec(name) for name in ("pydantic_ai", "openai", "anthropic", "mcp"))


def profile_of(seed: int, profiles: Sequence[str]) -> str:
    """Return the profile of a seed among these profiles."""
    pipeline = [name for name in profiles if name in PIPELINE]
    port = [name for name in profiles if name not in PIPELINE]
    if pipeline and (not port or seed % PIPELINE_EVERY == 0):
        return pipeline[seed // (PIPELINE_EVERY if port else 1) % len(pipeline)]
    return port[seed % len(port)]


def setting_of(profile: str, seed: int) -> Setting:
    """Return the world of a seed under a profile."""
    rng = random.Random(f"{SEED_NAMES.get(profile, profile)}:{seed}")
    fleet = shapes.fleet(rng)
    setting = SUBJECTS.get(profile, Setting)(
        seed=seed,
        world={"fleet": fleet, "script": shapes.work(seed), "people": shapes.helpful(seed)},
        plan=shapes.plan(rng, fleet, most=rng.choice((4, 12, 12, 25))),
        options=RunOptions(wall_limit_s=rng.choice((100.0, 300.0, 900.0))),
    )
    for inject in PROFILES[profile]:
        inject(rng, setting)
    apart = random.Random(f"extended:{seed}")  # of its own, so that other seeds stay as they are
    if setting.plan is not None and likely(apart, 0.35):
        setting.plan = shapes.extended(apart, setting.plan, fleet)
        setting.options = msgspec.structs.replace(setting.options, finally_limit_s=apart.choice((20.0, 60.0, 300.0)))
    if isinstance(setting.world.get("planner"), ScriptedPlanner):
        program = setting.world.get("program", Program())
        setting.world["program"] = msgspec.structs.replace(program, planner_timeout_s=apart.choice((20.0, 600.0, 600.0)))
    return setting
