"""Profiles: kinds of trouble, each of which makes a world of a seed."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping

import msgspec

from asterism.constellation.constellation import TaskConstellation
from asterism.machines.constellation_agent.events import RunOptions
from asterism.machines.usage import Usage
from asterism.runtime.snapshots import SPACING
from asterism.simulation import shapes
from asterism.simulation.device import Faults
from asterism.simulation.people import Crash, Happening, StoreTrouble
from asterism.simulation.planner import Reply, ScriptedPlanner
from asterism.simulation.setting import FlowSetting, LoopSetting, MixedSetting, Setting
from asterism.simulation.shapes import likely

Trouble = Callable[[random.Random, Setting], None]


def _devices(rng: random.Random, setting: Setting) -> None:
    chances = {name: rng.choice((0.0, 0.05, 0.15)) for name in ("raised", "crashed", "hangs", "slow", "stubborn", "breaks")}
    setting.world["faults"] = Faults(seed=setting.seed, **chances)
    names = [profile.device_id for profile in setting.world["fleet"]]
    for _ in range(rng.choice((0, 0, 1, 2))):
        device, at_s = rng.choice(names), round(rng.uniform(0, 60), 1)
        _happen(setting, Happening(at_s=at_s, what="lose", device=device))
        if likely(rng, 0.8):
            _happen(setting, Happening(at_s=at_s + rng.choice((0.0, 1.0, 50.0)), what="find", device=device))


def _crashes(rng: random.Random, setting: Setting) -> None:
    setting.world["crashes"] = [
        Crash(entry=rng.randint(2, 25), after_s=rng.choice((0.0, 0.0, 0.01, round(rng.uniform(0, 20), 2))))
        for _ in range(rng.randint(1, 4))
    ]
    setting.world["drivers"] = rng.choice((1, 1, 2))
    if likely(rng, 0.2):
        _happen(setting, Happening(at_s=round(rng.uniform(0, 60), 1), what="rival"))
    setting.world["spacing"] = rng.choice((1, 3_000, SPACING))


def _planner(rng: random.Random, setting: Setting) -> None:
    setting.world["planner"] = ScriptedPlanner(shapes.RandomPlanner(setting.seed, setting.world["fleet"]))
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
            _happen(setting, Happening(at_s=round(rng.uniform(0, 90), 1), what=what))


def _decisions(rng: random.Random, setting: Setting) -> None:
    plans = shapes.RandomPlanner(setting.seed, setting.world["fleet"])
    setting.world["planner"] = ScriptedPlanner(lambda question: _counted(plans(question)))
    setting.options = msgspec.structs.replace(
        setting.options,
        approve_plan=likely(rng, 0.4),
        approve_edits=likely(rng, 0.7),
        max_tokens=rng.choice((None, 250, 1000)),
    )
    if likely(rng, 0.7):
        _happen(setting, Happening(at_s=round(rng.uniform(10, 90), 1), what="allow"))


def _counted(reply: Reply) -> Reply:
    usage = Usage(model="simulated", requests=1, input_tokens=90, output_tokens=10)
    return msgspec.structs.replace(reply, proposal=msgspec.structs.replace(reply.proposal, usage=usage))


def _editors(rng: random.Random, setting: Setting) -> None:
    """Somebody edits the live run, now and then with what has started meanwhile, and now and then sends the same twice."""
    planned = setting.plan or shapes.plan(rng, setting.world["fleet"], most=8)
    there = TaskConstellation.from_dict(msgspec.to_builtins(planned)).to_dict()
    for number in range(rng.randint(1, 4)):
        actions = tuple(shapes.edit(rng, setting.world["fleet"], there, wild=0.5) for _ in range(rng.choice((1, 1, 2, 3))))
        edit = Happening(at_s=round(rng.uniform(0, 60), 1), what="edit", actions=actions, key=f"edit-{number}")
        _happen(setting, edit)
        if likely(rng, 0.3):
            _happen(setting, msgspec.structs.replace(edit, at_s=edit.at_s + rng.choice((0.0, 5.0))))


def _store(rng: random.Random, setting: Setting) -> None:
    setting.world["store"] = StoreTrouble(
        fails=rng.choice((0.0, 0.1)), times=rng.choice((1, 3, 9)), lost_word=rng.choice((0.0, 0.0, 0.05)), slow=rng.choice((0.0, 0.3))
    )  # fmt: skip


def _robbers(rng: random.Random, setting: Setting) -> None:
    for _ in range(rng.randint(1, 2)):
        _happen(setting, Happening(at_s=round(rng.uniform(0, 40), 1), what="rob"))


def _trees(rng: random.Random, setting: Setting) -> None:
    if setting.plan is not None:
        setting.plan = shapes.nested(rng, setting.plan, setting.world["fleet"])
    setting.world["crashes"] = [
        Crash(entry=rng.randint(2, 15), after_s=rng.choice((0.0, 0.01, 3.0)), run="*") for _ in range(rng.choice((0, 1, 1, 3)))
    ]
    if likely(rng, 0.2):
        _happen(setting, Happening(at_s=round(rng.uniform(0, 60), 1), what=rng.choice(("cancel", "rival", "rob"))))


def _deaths(rng: random.Random, setting: Setting) -> None:
    """The driver dies in the middle of what a loop or a conversation does."""
    names = ("good", "once", "asks", "model", "Reflect", "MakePlan", "on_running", "on_running", "on_waiting_for_input", "write", "reach")
    for _ in range(rng.choice((0, 1, 2))):
        crash = Crash(during=rng.choice(names), after_s=rng.choice((0.0, 0.0, 0.5)), run=rng.choice(("", "*")))
        setting.world.setdefault("crashes", []).append(crash)


def _happen(setting: Setting, happening: Happening) -> None:
    setting.world.setdefault("happenings", []).append(happening)


PROFILES: Mapping[str, tuple[Trouble, ...]] = {
    "calm": (),
    "devices": (_devices,),
    "crashes": (_crashes,),
    "planner": (_planner,),
    "people": (_people,),
    "decisions": (_planner, _people, _decisions),
    "store": (_store,),
    "edits": (_planner, _editors, _crashes),
    "robbed": (_robbers, _people),
    "trees": (_people, _trees),
    "forest": (_devices, _people, _editors, _store, _trees),
    "storm": (_devices, _crashes, _planner, _people, _editors, _store),
    "storm of decisions": (_devices, _crashes, _planner, _people, _decisions, _editors, _store),
    "loops": (_people, _crashes, _deaths),
    "tools": (_people, _crashes, _deaths),
    "talks": (_crashes, _deaths),
    "storm of loops": (_devices, _people, _trees, _deaths, _store, _robbers),
    "storm of talks": (_devices, _people, _trees, _deaths, _store, _robbers),
    "mixed": (_devices, _people, _trees, _deaths),
}
"""By name: what troubles a world of that profile."""

SUBJECTS: Mapping[str, Callable[..., Setting]] = {
    "loops": LoopSetting,
    "tools": functools.partial(LoopSetting, models=True),
    "talks": FlowSetting,
    "storm of loops": functools.partial(LoopSetting, children=True),
    "storm of talks": functools.partial(FlowSetting, children=True),
    "mixed": MixedSetting,
}
"""By profile: what is lived, where it is not a plan."""


def setting_of(profile: str, seed: int) -> Setting:
    """The world of a seed under a profile."""
    rng = random.Random(f"{profile}:{seed}")
    fleet = shapes.fleet(rng)
    setting = SUBJECTS.get(profile, Setting)(
        seed=seed,
        world={"fleet": fleet, "script": shapes.work(seed), "people": shapes.helpful(seed)},
        plan=shapes.plan(rng, fleet, most=rng.choice((4, 12, 12, 25))),
        options=RunOptions(wall_limit_s=rng.choice((100.0, 300.0, 900.0))),
    )
    for trouble in PROFILES[profile]:
        trouble(rng, setting)
    return setting
