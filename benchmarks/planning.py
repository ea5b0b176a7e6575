"""``python -m benchmarks.planning``: what waiting for a model costs a run, in virtual time; its section of RESULTS.md.

Fifty random DAGs on one device, under every hold and replan, with a model that takes 0, 0.1 and 1 times as long as a task.
The lower bound of each is max(critical path, work / width): no schedule is shorter. A run lasts to the end of its last task.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import sys
from collections.abc import Iterator, Sequence

import msgspec

from asterism.constellation.form import FORM
from asterism.constellation.machine.events import AskPlanner, ConstellationSubmitted, Dispatch, Hold, Replan, RunOptions
from asterism.constellation.machine.table import CONSTELLATION_AGENT
from asterism.constellation.model.analysis import critical_path
from asterism.constellation.model.constellation import TaskConstellation
from asterism.constellation.model.documents import LineSpec, PlanDocument
from asterism.constellation.model.task import TaskSpec
from asterism.constellation.planner.port import Planner, Proposal
from asterism.constellation.python.performers import AttemptPerformer, PlannerPerformer
from asterism.devices.dispatch.dispatcher import Dispatcher
from asterism.devices.port import Attempt
from asterism.engine.kernel.profile import AgentProfile, Skill
from asterism.engine.runtime.driver import Driver
from asterism.engine.runtime.form import by_name
from asterism.engine.runtime.runtime import Runtime
from asterism.stores.memory import MemoryStore
from asterism.testing.clock import EPOCH, WorldClock
from asterism.testing.device import Behaviour, FakeDevice, PerformanceLog, Script
from asterism.testing.loop import run as run_in_virtual_time
from asterism.testing.planner import Reply, ScriptedPlanner
from benchmarks.results import write_waiting

DAGS = 50
WIDTH = 4
"""Tasks that the device does at a time."""
MEAN_S = 10.0
LATENCIES = (0.0, 0.1, 1.0)
HOLDS: tuple[Hold, ...] = ("successors", "none", "all")
ASKING = 0.1
"""Share of the tasks whose result asks for a new look at the plan, where any does."""
FLEET = (AgentProfile(device_id="d", concurrency=WIDTH, skills=(Skill(name="do", idempotent=True),)),)

HEAD = f"""
Written by `python -m benchmarks.planning`, in virtual time, so the same on every computer. It runs
{DAGS} random DAGs of 20 to 60 tasks on one device that does {WIDTH} tasks at once. *makespan* is
the time to the end of the last task. It is divided by its *lower bound*, max(critical path,
work / width): no schedule is shorter. Figures are means over the DAGs. *wide* are the {{wide}} DAGs
that occupy the whole device: their work / width is at least 1.5 times their critical path. *calls*
are requests to the model.
"""
FOOT = """
- **No result asks for a new plan**: `when_needed` then asks the model once, after the last task.
- **One result in ten asks for a new plan**: it has `replan: true`. `always` would ask the model as
  often as above.
- `successors` and a slow model: a task waits twice, for the open request, and then for the request
  about its own predecessors. If there are other tasks to run meanwhile, it is much faster than
  `all`, which starts nothing while one request follows another.
- `none` never waits: a task that an edit would change may have started before the edit arrives;
  then the edit is refused and requested again.
"""


class Dag(msgspec.Struct, frozen=True):
    """A random DAG: its plan, how long each task takes, which of them ask for a new plan."""

    plan: PlanDocument
    seconds: dict[str, float]
    asking: frozenset[str]

    def longest_s(self) -> float:
        """The critical path."""
        return critical_path(self.constellation(), self.seconds)[0]

    def work_s(self) -> float:
        """All its work, shared by all slots of the device."""
        return sum(self.seconds.values()) / WIDTH

    def is_wide(self) -> bool:
        """Whether there is mostly something else to do while one task waits."""
        return self.work_s() >= 1.5 * self.longest_s()

    def constellation(self) -> TaskConstellation:
        """As a constellation."""
        return TaskConstellation.from_dict(msgspec.to_builtins(self.plan))


class Lived(msgspec.Struct, frozen=True):
    """One run: how many times its lower bound it took, and how often the model was asked."""

    ratio: float
    calls: int
    wide: bool


def dag(seed: int) -> Dag:
    """The DAG of a seed."""
    rng = random.Random(seed)
    ids = [f"t{number}" for number in range(rng.randint(20, 60))]
    reach = rng.choice((8, 20, 60, 60))  # how far back a task may look: near is narrow, far is wide
    pairs = {
        (rng.choice(ids[max(0, at - reach) : at]), task_id) for at, task_id in enumerate(ids) if at for _ in range(rng.choice((0, 1, 1, 2)))
    }
    return Dag(
        PlanDocument(
            tasks=tuple(TaskSpec(task_id=task_id, device="d", skill="do") for task_id in ids),
            dependencies=tuple(LineSpec(source=source, target=target) for source, target in sorted(pairs)),
        ),
        {task_id: round(rng.uniform(0.5, 1.5) * MEAN_S, 1) for task_id in ids},
        frozenset(task_id for task_id in ids if rng.random() < ASKING),
    )


def live(it: Dag, replan: Replan, hold: Hold, latency: float, *, asks: bool) -> Lived:
    """One run."""

    def script(attempt: Attempt) -> Behaviour:
        return Behaviour(duration_s=it.seconds[attempt.task_id], result={"replan": asks and attempt.task_id in it.asking})

    planner = ScriptedPlanner(lambda _: Reply(after_s=latency * MEAN_S, proposal=Proposal()))
    first = ConstellationSubmitted(request="x", fleet=FLEET, plan=it.plan, options=RunOptions(replan=replan, hold=hold))
    took_s = run_in_virtual_time(_last_end_s(first, planner, script))
    return Lived(took_s / max(it.longest_s(), it.work_s()), len(planner.questions), it.is_wide())


async def _last_end_s(first: ConstellationSubmitted, planner: Planner, script: Script) -> float:
    """Seconds to the end of the last task, over everything but a disk and real devices."""
    clock = WorldClock()
    device = FakeDevice(FLEET[0], PerformanceLog(clock.now), script)
    store = MemoryStore()
    async with Dispatcher({"d": device}, clock.now) as dispatcher:
        driver = Driver(
            store=store,
            clock=clock,
            forms=by_name([FORM.performed_by({Dispatch: AttemptPerformer(dispatcher), AskPlanner: PlannerPerformer(planner)})]),
        )
        async with driver.opened():
            runtime = Runtime(store, driver, clock)
            run = await runtime.submit(CONSTELLATION_AGENT, first, title="x", actor="benchmark")
            row = await runtime.drive(run)
            if row.outcome != "finished":
                raise RuntimeError(f"a run ended {row.outcome or row.status}, so its time means nothing")
            ends = [record.at for record in await runtime.records(run) if record.kind == "attempt_ended"]
    return max(ends) - EPOCH


def rows(dags: Sequence[Dag], *, asks: bool) -> Iterator[tuple[Replan, Hold | None, float, list[Lived]]]:
    """Every replan, hold and latency, over the DAGs; ``never`` once, because neither of the others matters to it."""
    yield "never", None, 0.0, [live(it, "never", "successors", 0.0, asks=asks) for it in dags]
    replans: tuple[Replan, ...] = ("when_needed",) if asks else ("when_needed", "always")  # who always asks need not be asked to
    for replan, hold, latency in itertools.product(replans, HOLDS, LATENCIES):
        yield replan, hold, latency, [live(it, replan, hold, latency, asks=asks) for it in dags]


def table(dags: Sequence[Dag], *, asks: bool) -> Iterator[str]:
    """The lines of a table, as they are made."""
    yield "| replan | hold | a call ÷ mean task | makespan ÷ lower bound | of wide DAGs | calls a run |"
    yield "|---|---|--:|--:|--:|--:|"
    for replan, hold, latency, lived in rows(dags, asks=asks):
        wide = [one.ratio for one in lived if one.wide]
        cells = (
            f"`{replan}`",
            f"`{hold}`" if hold else "",
            f"{latency:g}" if hold else "",
            f"{statistics.mean(one.ratio for one in lived):.2f}",
            f"{statistics.mean(wide):.2f}" if wide else "",
            f"{statistics.mean(one.calls for one in lived):.1f}",
        )
        yield f"| {' | '.join(cells)} |"


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planning", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three DAGs, and nothing is written: to see that it works")
    quick = parser.parse_args().quick
    dags = [dag(seed) for seed in range(3 if quick else DAGS)]
    lines = []
    for name, asks in (("No result asks for a new plan", False), ("One result in ten asks for a new plan", True)):
        lines += ["", f"### {name}", ""]
        for line in table(dags, asks=asks):
            lines.append(line)
            print(line, flush=True)
    if not quick:
        head = HEAD.format(wide=sum(it.is_wide() for it in dags))
        write_waiting(head + "\n".join(lines) + "\n" + FOOT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
