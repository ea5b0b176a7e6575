"""Explore small worlds exhaustively: the rows of the table in docs/results/reliability.md, by name.

``python -m tests.simulation.explore NAME…`` prints each row in the format of the table, and each of its worlds when
it is done; without a name it lists the rows. A row may take many minutes.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from asterism.constellation.machine.events import RunOptions
from asterism.constellation.model.documents import parse_plan
from tests.simulation.exploration.small_flows import FlowSpace
from tests.simulation.exploration.small_loops import LoopSpace, small_steps
from tests.simulation.exploration.small_remote import RemoteSpace
from tests.simulation.exploration.small_run import Budget, SmallRun
from tests.simulation.exploration.small_worlds import AgentSpace, small_edits, small_plans, with_handlers
from tests.simulation.exploration.space import Explored, Explorer

ALWAYS = RunOptions(replan="always")
FOUR = Budget(edits=1, failures=1, crashes=1, cancels=1)
FIVE = msgspec.structs.replace(FOUR, pauses=1)
WORDS = Budget(live_edits=1, crashes=1, cancels=1, pauses=1)
GROUPS = ("-", "--", "aa", "---", "aa-", "-aa", "aaa", "----", "aa--", "-aa-", "--aa", "aabb", "aaa-", "-aaa", "aaaa")

Spaces = Callable[[], Iterable[SmallRun[Any]]]


def agents(
    tasks: int, budget: Budget, *, idempotent: bool = True, concurrency: int = 8, options: RunOptions = ALWAYS, **each: Any
) -> list[AgentSpace]:
    """Return a space for each plan of this many tasks, fewest interleavings first; ``each`` are fields of every task."""
    plans = reversed(small_plans(tasks, **each))
    return [AgentSpace(plan, budget, options=options, idempotent=idempotent, concurrency=concurrency, edits=small_edits) for plan in plans]


def fan_outs(budget: Budget) -> list[AgentSpace]:
    """Return a space for each way to treat failed items: two items, one or both at once, and a task after them."""
    ways = [{"items": [1, 2], "failed": failed, "max_concurrent": most} for failed in ("stop", "omit") for most in (1, None)]
    work = {"device": "d", "skill": "work"}
    documents = [
        {"tasks": [{"task_id": "a", **work, "for_each": each}, {"task_id": "b", **work}], "dependencies": [{"from": "a", "to": "b"}]}
        for each in ways
    ]
    return [AgentSpace(parse_plan(document), budget, options=RunOptions()) for document in documents]


def remote(tasks: int, budget: Budget, *, concurrency: int = 8) -> list[RemoteSpace]:
    """Return a space for each plan of this many tasks on a remote device; the budget of edits counts its questions."""
    plans = reversed(small_plans(tasks))
    return [RemoteSpace(plan, budget, idempotent=False, concurrency=concurrency) for plan in plans]


def loop(groups: str, budget: Budget, *, critiques: bool = False, **steps: Any) -> list[LoopSpace]:
    """Return a loop with a step for each character: equal letters run in parallel, a dash alone; ``steps`` is for ``small_steps``."""
    return [LoopSpace(small_steps(len(groups), groups=groups, **steps), budget, critiques=critiques)]


def flow(fields: int, budget: Budget, **given: bool) -> list[FlowSpace]:
    """Return a conversation that collects this many fields."""
    return [FlowSpace(fields, budget, **given)]


def handled(tasks: int, budget: Budget) -> list[AgentSpace]:
    """Return a space for each plan of this many tasks with a handler of each kind."""
    return [AgentSpace(with_handlers(plan), budget) for plan in reversed(small_plans(tasks))]


ROWS: Mapping[str, Spaces] = {
    "agent-2": lambda: agents(2, FIVE),
    "agent-2-yes": lambda: agents(2, FOUR, requires_approval=True),
    "agent-2-consent": lambda: agents(2, FOUR, options=RunOptions(replan="always", approve_plan=True, approve_edits=True)),
    "agent-2-once": lambda: agents(2, Budget(edits=1, failures=1, crashes=1), idempotent=False),
    "agent-1-handlers": lambda: handled(1, Budget(failures=2, crashes=1, cancels=2, pauses=1)),
    "agent-2-handlers": lambda: handled(2, Budget(failures=2, crashes=1, cancels=2, pauses=1)),
    "agent-2-queue": lambda: agents(2, Budget(edits=1, failures=1, crashes=1, cancels=1), idempotent=False, concurrency=1),
    "agent-3-queue": lambda: agents(3, Budget(failures=1, crashes=1), idempotent=False, concurrency=1),
    "agent-1-remote": lambda: remote(1, Budget(edits=2, failures=2, crashes=2, cancels=2, pauses=1)),
    "agent-2-remote": lambda: remote(2, Budget(edits=1, failures=1, crashes=1, cancels=1)),
    "agent-2-remote-queue": lambda: remote(2, Budget(edits=1, failures=1, crashes=1, cancels=1), concurrency=1),
    "agent-fan-out": lambda: fan_outs(Budget(failures=1, crashes=1, cancels=1)),
    "agent-3-edit": lambda: agents(3, Budget(edits=1)),
    "agent-3": lambda: agents(3, FOUR),
    "agent-3-edits": lambda: agents(3, Budget(edits=2)),
    "agent-3-all": lambda: agents(3, msgspec.structs.replace(FOUR, edits=2)),
    "agent-4-edit": lambda: agents(4, Budget(edits=1)),
    "agent-4": lambda: agents(4, FOUR),
    **{f"loop-{groups}": lambda groups=groups: loop(groups, FOUR if len(groups) < 4 else Budget(edits=1, crashes=1)) for groups in GROUPS},  # type: ignore[misc]
    "loop-model": lambda: loop("-", FIVE, workers=["model"]),
    "loop-child": lambda: loop("-", FIVE, workers=["child"]),
    "loop-model-child": lambda: loop("aa", Budget(failures=1, crashes=1, cancels=1), workers=["model", "child"]),
    **{f"flow-{fields}": lambda fields=fields: flow(fields, FOUR) for fields in (1, 2, 3)},  # type: ignore[misc]
    **{f"flow-{fields}-yes": lambda fields=fields: flow(fields, FOUR, approval=True) for fields in (1, 2, 3)},  # type: ignore[misc]
    "flow-1-child": lambda: flow(1, FOUR, child=True),
    "flow-1-child-pause": lambda: flow(1, msgspec.structs.replace(FIVE, edits=0), child=True),
    "flow-3-words": lambda: flow(3, WORDS),
    "flow-2-yes-words": lambda: flow(2, WORDS, approval=True),
}


def total(parts: Iterable[Explored]) -> Explored:
    """Return the sum of several explorations, with the first violation and the first stuck path."""
    found = Explored()
    for part in parts:
        for name in ("states", "moves", "ends", "cut"):
            setattr(found, name, getattr(found, name) + getattr(part, name))
        cycle = -1 in (found.interleavings, part.interleavings)
        found.interleavings = -1 if cycle else found.interleavings + part.interleavings
        if found.violation is None:
            found.violation, found.path = part.violation, part.path
        found.stuck = found.stuck or part.stuck
    return found


def table_row(name: str, found: Explored, seconds: float) -> str:
    orders = f"{found.interleavings:,}" if found.interleavings >= 0 else "in a circle"
    worlds = [name, f"{found.states:,}", f"{found.moves:,}", orders, f"{found.cut:,}", str(int(found.violation is not None))]
    bad = f" {found.violation or 'stuck'} after: {', '.join(found.path or found.stuck)}" if found.violation or found.stuck else ""
    return f"| {' | '.join(worlds)} | {seconds:.0f} s{bad}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.explore", description="Explore small worlds exhaustively.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"rows: {', '.join(ROWS)}, or all")
    parser.add_argument("--most", type=int, default=5_000_000, help="maximum states to explore in one world (5,000,000)")
    given = parser.parse_args(arguments)
    if not given.names:
        print("\n".join(ROWS))
    if unknown := [name for name in given.names if name not in (*ROWS, "all")]:
        parser.error(f"unknown row {', '.join(unknown)}; run without a name to list all rows")
    sound = True
    for name in ROWS if given.names == ["all"] else given.names:
        parts: list[Explored] = []
        started = time.process_time()
        for number, space in zip(itertools.count(1), ROWS[name](), strict=False):
            before = time.process_time()
            parts.append(Explorer(space, most=given.most).explore())
            print(table_row(f"{name}, world {number}", parts[-1], time.process_time() - before), flush=True)
        found = total(parts)
        sound = sound and found.is_sound
        print(table_row(name, found, time.process_time() - started), flush=True)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
