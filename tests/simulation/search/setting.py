"""Settings: worlds built from a seed and a profile, which can run any number of times."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from unittest import mock

import msgspec

from asterism.constellation.machine.events import RunOptions
from asterism.constellation.model.documents import PlanDocument
from asterism.conversation.python.children import as_child, constellation, flow
from asterism.devices.model.references import references
from asterism.devices.skills import source
from asterism.engine.control.children import StartChild, child_start
from asterism.engine.kernel.machine import StartRequest
from asterism.engine.kernel.profile import AgentProfile
from asterism.loop.python import ChildWorker
from asterism.loop.python import constellation as constellation_worker
from asterism.loop.python.definition import OrchestrationLoop
from asterism.testing.ending import Ending
from asterism.testing.people import Line
from asterism.testing.world import World
from tests.simulation.search import flow_shapes, shapes
from tests.simulation.search.loop_shapes import RandomLoop
from tests.simulation.search.shapes import likely
from tests.simulation.search.watched_world import WatchedWorld

CHILD_S = 900.0
"""Time limit of a child conversation whose parent handler has none, in seconds."""

Execution = tuple[World, Ending]


class Setting(msgspec.Struct, kw_only=True):
    """Arguments of a world and of its run.

    Attributes:
        seed: seed of the world.
        world: other arguments of the world.
        plan: plan of the run, or None to ask the planner.
        options: options of the run.
        forks: setting whose run is forked, and the fraction of its entries to copy; None for a new run.
    """

    seed: int
    world: dict[str, Any]
    plan: PlanDocument | None
    options: RunOptions
    forks: tuple[Setting, float] | None = None

    def execute(self) -> Execution:
        """Run the world.

        Raises:
            InvariantViolated: an invariant does not hold.
            RuntimeError: planning failed over a reply of the model.
        """
        # The journal would otherwise contain line numbers of these files in errors of a loop's functions.
        with mock.patch.object(source, "_is_user_code", return_value=False):
            return self._execute()

    def _execute(self) -> Execution:
        ending: Ending
        if self.forks is None:
            world = WatchedWorld(self.seed, **self.world)
            ending = world.run(self.plan, options=self.options)
        else:
            forked, fraction = self.forks
            _, origin = forked.execute()
            world = WatchedWorld(self.seed, **self.world, loops=forked.loops())
            ending = world.run_fork(origin, 1 + int(fraction * (len(origin.records) - 1)))
        for failure in getattr(self.world.get("planner"), "failures", ()):
            raise RuntimeError(failure)
        return world, ending

    def loops(self) -> list[OrchestrationLoop]:
        """Return new loops for a fork of the run; the functions count their calls, so they cannot be shared."""
        return []


class ImportSetting(Setting, kw_only=True):
    """An import of the run of another setting, as it stood after a fraction of its entries."""

    def _execute(self) -> Execution:
        if self.forks is None:
            raise ValueError("nothing to import")
        imported, fraction = self.forks
        _, origin = imported.execute()
        world = WatchedWorld(self.seed, **self.world)
        return world, world.run_import(origin, 1 + int(fraction * (len(origin.records) - 1)))


class MixedSetting(Setting, kw_only=True):
    """A plan with some tasks on devices that are loops or conversations."""

    def _execute(self) -> Execution:
        rng = random.Random(f"mixed:{self.seed}")
        loop = RandomLoop(rng, self.seed)
        talker = flow_shapes.agent(rng, self.seed)
        specs = {"writer": ("agent", loop.child().spec), "talker": ("flow", as_child(talker))}
        devices = [AgentProfile(device_id=name, kind=kind, natural_language=True, child=spec) for name, (kind, spec) in specs.items()]
        world = WatchedWorld(self.seed, **{**self.world, "fleet": [*self.world["fleet"], *devices], "loops": [loop.loop]})
        return world, world.run(self._with_runs_as_devices(rng, list(specs)), options=self.options)

    def _with_runs_as_devices(self, rng: random.Random, names: list[str]) -> PlanDocument | None:
        """Return the plan with some tasks, whose results no other task uses, moved to these devices."""
        if self.plan is None:
            return None
        asked = {source for spec in self.plan.tasks for source, _ in references(spec.inputs)}
        asked |= {line.source for line in self.plan.dependencies if line.condition}
        tasks = [
            msgspec.structs.replace(spec, device=rng.choice(names), skill="", inputs={}, when="")
            if spec.task_id not in asked and spec.constellation is None and likely(rng, 0.4)
            else spec
            for spec in self.plan.tasks
        ]
        return msgspec.structs.replace(self.plan, tasks=tuple(tasks))


class LoopSetting(Setting, kw_only=True):
    """A loop.

    Attributes:
        models: True to give it workers that are models with tools.
        children: True to give it workers that are a loop, a constellation and a conversation.
        plans: function from each drawn plan to the plan to use.
    """

    models: bool = False
    children: bool = False
    plans: Callable[[Any], Any] = lambda drawn: drawn

    def _execute(self) -> Execution:
        loop, *below = self.loops()
        world = WatchedWorld(self.seed, **self.world, loops=below)
        return world, world.run_loop(loop)

    def loops(self) -> list[OrchestrationLoop]:
        """Return the loop and its child loop."""
        rng = random.Random(f"loop:{self.seed}")
        inner = RandomLoop(rng, self.seed)
        below = {
            "inner": inner.child(),
            "stars": constellation_worker(shapes.plan(rng, self.world["fleet"], most=3), self.world["fleet"]),
            "talker": ChildWorker(as_child(flow_shapes.agent(rng, self.seed))),
        }
        loop = RandomLoop(rng, self.seed, models=self.models, children=below if self.children else None, plans=self.plans)
        return [loop.loop, inner.loop]


class FlowSetting(Setting, kw_only=True):
    """A conversation.

    Attributes:
        children: True to start a constellation, a loop or another conversation when it acts.
        bounded: True to limit the time of ``on_running``, as in ``flow_shapes.agent``.
        lines: lines after the first one; None for those that the seed draws.
    """

    children: bool = False
    bounded: bool = True
    lines: tuple[Line, ...] | None = None

    def _execute(self) -> Execution:
        agent, loop, drawn = self._drawn()
        world = WatchedWorld(self.seed, **self.world, loops=[loop.loop])
        return world, world.run_flow(agent, drawn if self.lines is None else (drawn[0], *self.lines))

    def loops(self) -> list[OrchestrationLoop]:
        """Return its child loop."""
        return [self._drawn()[1].loop]

    def drawn_lines(self) -> tuple[Line, ...]:
        """Return the drawn lines after the first one."""
        return tuple(self._drawn()[2][1:])

    def _drawn(self) -> tuple[type, RandomLoop, list[Line]]:
        rng = random.Random(f"flow:{self.seed}")
        inner, fleet = RandomLoop(rng, self.seed), self.world["fleet"]
        other = flow_shapes.agent(rng, self.seed, name="Other")
        plan = shapes.plan(rng, fleet, most=3)
        starts: tuple[Callable[[random.Random], StartChild], ...] = (
            lambda _: constellation(plan, fleet, request="simulated", options=self.options),
            lambda _: flow(other, "hello") if self.bounded else _with_time_limit(flow(other, "hello"), CHILD_S),
            lambda _: _loop_start(inner),
        )
        chosen = tuple(rng.sample(starts, rng.randint(1, 3))) if self.children else ()
        agent = flow_shapes.agent(rng, self.seed, children=chosen, bounded=self.bounded)
        return agent, inner, flow_shapes.lines(rng, agent)


def _with_time_limit(conversation: StartChild, limit_s: float) -> StartChild:
    """Return the child conversation with a time limit, as loops and constellations have one."""
    return msgspec.structs.replace(conversation, start=msgspec.structs.replace(conversation.start, budget_s=limit_s))


def _loop_start(loop: RandomLoop) -> StartChild:
    spec = loop.child().spec  # the world gives its folder
    return child_start(spec.machine, StartRequest(definition=spec.definition, request="simulated"), "simulated")
