"""Whether a run survives being killed: it is run once undisturbed, then once for each entry of its journal, with a crash there."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

from asterism.simulation.ending import Ending
from asterism.simulation.people import Crash
from asterism.simulation.world import World


def killed_at_every_entry(world: Callable[[Sequence[Crash]], World], run: Callable[[World], Ending], *, after_s: float = 0.0) -> Ending:
    """Kill a run after each of its entries, and after each entry of the runs below it, and see that it ends as it does undisturbed.

    The end is the state, the status, the outcome, the result, and what was performed, each effect counted once however often it was
    begun::

        killed_at_every_entry(
            lambda crashes: World(7, machines=[REGISTRATION], crashes=crashes),
            lambda world: world.run_machine(COPIER, Copy(files=("a", "b"))),
        )

    Args:
        world: makes a fresh world with these crashes, the same one each time.
        run: runs something in it.
        after_s: virtual seconds from the entry to the crash; 0 kills before what the entry asks for is performed.

    Returns:
        The undisturbed ending.

    Raises:
        AssertionError: the end is another one, or the entry never came; it names the entry.
        InvariantViolated: as ``World.run``, with a note that names the entry.
    """
    undisturbed = world(())
    ending = run(undisturbed)
    expected = _end_of(undisturbed, ending)
    for below in (ending, *ending.children):
        for entry in range(2, len(below.records) + 1):  # the first is written by whoever submits the run
            where = f"killed after entry {entry} of run {below.row.run_id} ({below.row.machine})"
            crashed = world([Crash(entry=entry, run_id=below.row.run_id if below.row.parent else "", after_s=after_s)])
            try:
                found = run(crashed)
            except Exception as error:  # boundary: raised again, with the entry that it is about
                error.add_note(where)
                raise
            if not after_s and not crashed.counts["crashed"]:
                raise AssertionError(f"{where}: the entry never came; make the same world each time")
            for name, value in _end_of(crashed, found).items():
                if value != expected[name]:
                    story = "".join(f"\n  {line}" for line in found.history)
                    raise AssertionError(f"{where}: {name} is {value!r}, and {expected[name]!r} undisturbed{story}")
    return ending


def _end_of(world: World, ending: Ending) -> dict[str, Any]:
    """Return how a run came out, by what it is called."""
    done = {it.key: (it.task_id, it.device_id, it.skill) for it in world.ledger.performances if it.how == "done"}
    return {
        "state": ending.row.state,
        "status": ending.row.status,
        "outcome": ending.outcome,
        "result": ending.memory.result(),
        "what was performed": dict(sorted(collections.Counter(" ".join(filter(None, what)) for what in done.values()).items())),
    }
