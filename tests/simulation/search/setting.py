"""Settings: what a seed and a profile make, ready to be lived, as often as one likes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from unittest import mock

import msgspec

from asterism.constellation.documents import PlanDocument
from asterism.constellation.profile import AgentProfile
from asterism.constellation.references import references
from asterism.devices import source
from asterism.flows.children import as_child, constellation, flow
from asterism.kernel.start import StartRequest
from asterism.loops import ChildWorker
from asterism.loops import constellation as constellation_worker
from asterism.loops.definition import OrchestrationLoop
from asterism.machines.children import StartChild, child_start
from asterism.machines.constellation_agent.events import RunOptions
from asterism.simulation.ending import Ending
from asterism.simulation.people import Line
from asterism.simulation.world import World
from tests.simulation.search import flow_shapes, shapes
from tests.simulation.search.loop_shapes import RandomLoop
from tests.simulation.search.shapes import likely

CHILD_S = 900.0
"""Time of a conversation below one whose handler has none."""

Life = tuple[World, Ending]


class Setting(msgspec.Struct, kw_only=True):
    """What a seed and a profile make: the arguments of a world and of its run.

    Attributes:
        forks: in place of a run of its own a copy of this one's, up to that fraction of its entries.
    """

    seed: int
    world: dict[str, Any]
    plan: PlanDocument | None
    options: RunOptions
    forks: tuple[Setting, float] | None = None

    def play(self) -> Life:
        """Live it.

        Raises:
            InvariantViolated: the world found what must never be.
            RuntimeError: planning broke over what a model said.
        """
        # An error of a loop's functions is journaled with its line of user code; a line of these files would change with them.
        with mock.patch.object(source, "_is_user_code", return_value=False):
            return self._play()

    def _play(self) -> Life:
        ending: Ending
        if self.forks is None:
            world = World(self.seed, **self.world)
            ending = world.run(self.plan, options=self.options)
        else:
            forked, fraction = self.forks
            _, origin = forked.play()
            world = World(self.seed, **self.world, loops=forked.loops())
            ending = world.run_fork(origin, 1 + int(fraction * (len(origin.records) - 1)))
        for told in getattr(self.world.get("planner"), "broken", ()):
            raise RuntimeError(told)
        return world, ending

    def loops(self) -> list[OrchestrationLoop]:
        """The loops that a fork of its run needs, made anew with its agents: they remember how often they were asked."""
        return []


class MixedSetting(Setting, kw_only=True):
    """A plan, some of whose tasks loops and conversations carry out."""

    def _play(self) -> Life:
        rng = random.Random(f"mixed:{self.seed}")
        loop = RandomLoop(rng, self.seed)
        talker = flow_shapes.agent(rng, self.seed)
        specs = {"writer": ("agent", loop.child().spec), "talker": ("flow", as_child(talker))}
        devices = [AgentProfile(device_id=name, kind=kind, natural_language=True, child=spec) for name, (kind, spec) in specs.items()]
        world = World(self.seed, **{**self.world, "fleet": [*self.world["fleet"], *devices], "loops": [loop.loop]})
        return world, world.run(self._carried_out(rng, list(specs)), options=self.options)

    def _carried_out(self, rng: random.Random, names: list[str]) -> PlanDocument | None:
        """The plan, with some of the tasks whose results nobody asks for on those devices."""
        if self.plan is None:
            return None
        asked = {source for spec in self.plan.tasks for source, _ in references(spec.inputs)}
        asked |= {line.source for line in self.plan.dependencies if line.condition}
        tasks = [
            msgspec.structs.replace(spec, device=rng.choice(names), skill="", inputs={})
            if spec.task_id not in asked and spec.constellation is None and likely(rng, 0.4)
            else spec
            for spec in self.plan.tasks
        ]
        return msgspec.structs.replace(self.plan, tasks=tuple(tasks))


class LoopSetting(Setting, kw_only=True):
    """A loop.

    Attributes:
        models: some of its workers are models with tools.
        children: some of its workers are a loop, a constellation, a conversation.
        plans: is given each plan that its seed draws for it, and gives the one that is taken.
    """

    models: bool = False
    children: bool = False
    plans: Callable[[Any], Any] = lambda drawn: drawn

    def _play(self) -> Life:
        loop, *below = self.loops()
        world = World(self.seed, **self.world, loops=below)
        return world, world.run_loop(loop)

    def loops(self) -> list[OrchestrationLoop]:
        """It, and the one below it."""
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
        children: when it acts, it starts a constellation, a loop, another conversation.
        bounded: it has a time for ``on_running``, as ``flow_shapes.agent``.
        lines: what is said to it after the first word; as the seed draws it where this is None.
    """

    children: bool = False
    bounded: bool = True
    lines: tuple[Line, ...] | None = None

    def _play(self) -> Life:
        agent, loop, drawn = self._drawn()
        world = World(self.seed, **self.world, loops=[loop.loop])
        return world, world.run_flow(agent, drawn if self.lines is None else (drawn[0], *self.lines))

    def loops(self) -> list[OrchestrationLoop]:
        """The one below it."""
        return [self._drawn()[1].loop]

    def drawn_lines(self) -> tuple[Line, ...]:
        """What the seed has said to it."""
        return tuple(self._drawn()[2][1:])

    def _drawn(self) -> tuple[type, RandomLoop, list[Line]]:
        rng = random.Random(f"flow:{self.seed}")
        inner, fleet = RandomLoop(rng, self.seed), self.world["fleet"]
        other = flow_shapes.agent(rng, self.seed, name="Other")
        plan = shapes.plan(rng, fleet, most=3)
        starts: tuple[Callable[[random.Random], StartChild], ...] = (
            lambda _: constellation(plan, fleet, request="simulated", options=self.options),
            lambda _: flow(other, "hello") if self.bounded else _timed(flow(other, "hello"), CHILD_S),
            lambda _: _started(inner),
        )
        chosen = tuple(rng.sample(starts, rng.randint(1, 3))) if self.children else ()
        agent = flow_shapes.agent(rng, self.seed, children=chosen, bounded=self.bounded)
        return agent, inner, flow_shapes.lines(rng, agent)


def _timed(conversation: StartChild, limit_s: float) -> StartChild:
    """The same, with a limit on its time, as loops and constellations have one."""
    return msgspec.structs.replace(conversation, start=msgspec.structs.replace(conversation.start, budget_s=limit_s))


def _started(loop: RandomLoop) -> StartChild:
    spec = loop.child().spec  # its folder is the world's
    return child_start(spec.machine, StartRequest(definition=spec.definition, request="simulated"), "simulated")
