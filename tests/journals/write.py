"""Golden journals: runs as they were written once, which today's code must still be able to go on with.

``python -m tests.journals.write --anew NAME`` writes one of them anew (``--anew all``: every one). That is a
decision, not a repair: whoever has runs in a database has journals like these. Without ``--anew`` nothing is written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from asterism.constellation.documents import parse_plan
from asterism.machines.constellation_agent.events import RunOptions
from asterism.machines.constellation_agent.table import CONSTELLATION_AGENT
from asterism.machines.usage import Usage
from asterism.runtime.ports import PlannerQuestion, Proposal
from asterism.runtime.snapshots import load
from asterism.simulation.device import Behaviour
from asterism.simulation.ending import Ending
from asterism.simulation.people import Answer, Crash, Happening
from asterism.simulation.planner import ScriptedPlanner
from asterism.simulation.world import World
from tests.simulation.scenes import DEMO, demo, fleet_of, lines, says, tasks
from tests.simulation.test_decisions import ALL, approving, says_to_proposals
from tests.simulation.test_forks import House, play
from tests.simulation.test_live_edits import ADDED
from tests.simulation.test_replanning import SEEDS_EDIT
from tests.stars import action

FOLDER = Path(__file__).parent


def creation() -> Ending:
    """A planner makes the plan; the condition is not met, and the last task is skipped."""
    return demo(accuracy=0.92, planner=ScriptedPlanner([Proposal(plan=parse_plan(DEMO))])).run(
        None, request="train, and deploy if accuracy > 95%"
    )


def editing() -> Ending:
    """The seeds' story: 0.92, so the model is retrained and not deployed."""
    planner = ScriptedPlanner(lambda question: Proposal(actions=SEEDS_EDIT) if question.batch == ("task_003",) else Proposal())
    return demo(accuracy=0.92, planner=planner).run(DEMO, options=RunOptions(replan="when_needed"))


def retry() -> Ending:
    """Two attempts raise, the third returns."""
    world = World(
        1, fleet=fleet_of("d"), script=lambda attempt: Behaviour(breaks="" if attempt.number == 3 else "not yet", result=attempt.number)
    )
    return world.run({"tasks": tasks("a", retry={"max_attempts": 3, "backoff_s": 2})})


def interruption() -> Ending:
    """A process dies while a skill works that may not be repeated; a person has it run again."""
    return demo(idempotent=False, crashes=[Crash(entry=3, after_s=1)], people=says(Answer(verb="approve"))).run(DEMO)


def approval() -> Ending:
    """A yes after an hour, with other arguments; and a second one, which is stale."""
    people = says(Answer(verb="edit", value={"x": 2}, after_s=3600), Answer(verb="approve", after_s=3600.3, by="bob", past_the_desk=True))
    plan = {"tasks": [*tasks("a", requires_approval=True, inputs={"x": 1}), *tasks("b")], "dependencies": lines("a>b")}
    return World(1, fleet=fleet_of("d"), people=people).run(plan)


def restart() -> Ending:
    """The first constellation is thrown away for a second one."""

    def script(question: PlannerQuestion) -> Proposal:
        if question.mode == "CREATION":
            return Proposal(plan=parse_plan({"tasks": tasks("a", "b") if question.key.endswith(":3.0") else tasks("c")}))
        return Proposal(status="START" if "a" in question.batch else "CONTINUE", thought="from scratch")

    world = World(
        1,
        fleet=fleet_of("d"),
        planner=ScriptedPlanner(script),
        script=lambda attempt: Behaviour(duration_s=99 if attempt.task_id == "b" else 1),
    )
    return world.run(None, options=RunOptions(replan="always"))


def cancel() -> Ending:
    """Cancelled while two tasks run and a person is being asked."""
    world = World(1, fleet=fleet_of("d"), script={"do": Behaviour(duration_s=99)}, happenings=[Happening(at_s=10, what="cancel")])
    return world.run({"tasks": [*tasks("a", "b"), *tasks("c", requires_approval=True)]})


def nested() -> Ending:
    """A task that is a constellation with a question inside, paused and taken up again; the root's journal."""
    inner = {"tasks": [*tasks("p", inputs={"x": "${inputs.x}"}), *tasks("q", requires_approval=True)], "dependencies": lines("p>q")}
    plan = {"tasks": [{"task_id": "b", "inputs": {"x": 1}, "constellation": inner}, *tasks("c")], "dependencies": lines("b>c")}
    happenings = [Happening(at_s=2, what="pause"), Happening(at_s=20, what="unpause")]
    world = World(1, fleet=fleet_of("d"), people=says(Answer(verb="approve", after_s=60)), happenings=happenings)
    return world.run(plan)


def edits() -> Ending:
    """Somebody edits the run while it is under way: one edit is taken, one comes too late for its task."""
    happenings = [
        Happening(at_s=5, what="edit", key="one", actions=ADDED),
        Happening(at_s=15, what="edit", key="two", actions=(action("remove_task", task_id="b"),)),
    ]
    world = World(1, fleet=fleet_of("d"), script={"do": Behaviour(duration_s=10)}, happenings=happenings)
    return world.run({"tasks": tasks("a", "b"), "dependencies": lines("a>b")})


def consent() -> Ending:
    """A plan and an edit of it that a person has said yes to, while the process dies between the question and the answer."""
    crashes = [Crash(entry=4, after_s=0.5)]
    return World(1, fleet=fleet_of("d"), planner=approving(), people=says_to_proposals(Answer(verb="approve")), crashes=crashes).run(
        None, options=ALL
    )


def limits() -> Ending:
    """A model plans, with what it used and said; the run has used what it may, pauses itself, and is given more."""
    spent = Usage(model="m:x", requests=1, input_tokens=80, output_tokens=20, cost_usd=0.01)
    told: dict[str, Any] = {"usage": spent, "prompt": "what next?", "reply": "{}", "notes": ("asked twice",)}

    def script(question: PlannerQuestion) -> Proposal:
        plan = {"tasks": tasks("a", "b"), "dependencies": lines("a>b")} if question.mode == "CREATION" else None
        return Proposal(plan=parse_plan(plan) if plan else None, thought="because", **told)

    world = World(1, fleet=fleet_of("d"), planner=ScriptedPlanner(script), happenings=[Happening(at_s=1000, what="allow")])
    return world.run(None, options=RunOptions(replan="always", max_tokens=150))


def child() -> Ending:
    """The journal of the run below the one in ``nested``."""
    (below,) = nested().children
    return below


def fork() -> Ending:
    """A copy of a run, from where a task was under way that may not be repeated: a person is asked."""
    kept: list[Ending] = []

    async def scenario(house: House) -> None:
        await house.origin()
        row = await house.finish(await house.runtime.fork("origin", 5, machine=CONSTELLATION_AGENT, actor="bob", new="fork"))
        records = tuple(await house.runtime.records(row.run))
        run, _ = await load(house.runtime.store, CONSTELLATION_AGENT, row.run)
        kept.append(Ending(row=row, records=records, memory=run.memory, lasted_s=0.0))

    play(scenario)
    return kept[0]


GOLDEN: dict[str, Callable[[], Ending]] = {
    scene.__name__: scene
    for scene in (creation, editing, retry, interruption, approval, restart, cancel, nested, edits, consent, limits, child, fork)
}


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.jsonl"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.journals.write", description="Write golden journals anew.")
    parser.add_argument("--anew", choices=[*GOLDEN, "all"], help="which one; without it nothing is written")
    given = parser.parse_args(arguments)
    names = list(GOLDEN) if given.anew == "all" else [given.anew] if given.anew else []
    for name in names:
        path_of(name).write_bytes(GOLDEN[name]().journal)
        print(f"wrote {path_of(name).name}")
    if not names:
        print(f"nothing was written; --anew NAME, of {', '.join(GOLDEN)}, or --anew all")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
