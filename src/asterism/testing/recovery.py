"""Crash test of a run: it runs once undisturbed, then once for each entry of its journal with a crash at that entry."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

from asterism.testing.ending import Ending
from asterism.testing.people import Crash
from asterism.testing.world import World


def killed_at_every_entry(world: Callable[[Sequence[Crash]], World], run: Callable[[World], Ending], *, after_s: float = 0.0) -> Ending:
    """Crash a run after each of its entries and those of its child runs, and compare each ending with the undisturbed one.

    The comparison covers state, status, outcome, result and the performed effects. An effect counts once, however
    often it was started. A handler of a flow agent counts under the name of its first start: after a crash, it
    continues in the state that it had reached::

        killed_at_every_entry(
            lambda crashes: World(7, machines=[REGISTRATION], crashes=crashes),
            lambda world: world.run_machine(COPIER, Copy(files=("a", "b"))),
        )

    Args:
        world: returns a new world with these crashes, otherwise the same one each time.
        run: runs something in the world.
        after_s: virtual seconds from the entry to the crash; 0 crashes before the effects of the entry are performed.

    Returns:
        The undisturbed ending.

    Raises:
        AssertionError: an ending differs, or an entry was never reached; the message names the entry.
        InvariantViolated: as in ``World.run``, with a note that names the entry.
    """
    undisturbed = world(())
    ending = run(undisturbed)
    expected = _end_of(undisturbed, ending)
    for below in (ending, *ending.children):
        for entry in range(2, len(below.records) + 1):  # the client writes the first entry
            where = f"killed after entry {entry} of run {below.row.run_id} ({below.row.machine})"
            crashed = world([Crash(entry=entry, run_id=below.row.run_id if below.row.parent else "", after_s=after_s)])
            try:
                found = run(crashed)
            except Exception as error:  # boundary: raised again with a note that names the entry
                error.add_note(where)
                raise
            if not after_s and not crashed.counts["crashed"]:
                raise AssertionError(f"{where}: the entry was never reached; return the same world each time")
            for name, value in _end_of(crashed, found).items():
                if value != expected[name]:
                    history = "".join(f"\n  {line}" for line in found.history)
                    raise AssertionError(f"{where}: {name} is {value!r}, but {expected[name]!r} without a crash{history}")
    return ending


def _end_of(world: World, ending: Ending) -> dict[str, Any]:
    """Return the compared parts of an ending, by name."""
    names = dict[str, str]()
    for it in world.performance_log.performances:
        names.setdefault(it.key, " ".join(filter(None, (it.task_id, it.device_id, it.skill))))
    done = {it.key for it in world.performance_log.performances if it.status == "done"}
    return {
        "state": ending.row.state,
        "status": ending.row.status,
        "outcome": ending.outcome,
        "result": ending.memory.result(),
        "performed": dict(sorted(collections.Counter(names[key] for key in done).items())),
    }
