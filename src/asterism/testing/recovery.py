"""Crash test of a run: it runs once undisturbed, then once for each entry of its journal with a crash at that entry."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable, Iterator, Sequence
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
    for crash, where in crash_points(ending, after_s=after_s):
        crashed = world([crash])
        with noted(where):
            run(crashed)
        check_recovered(undisturbed, crashed, crash, where)
    return ending


def crash_points(ending: Ending, *, after_s: float = 0.0) -> Iterator[tuple[Crash, str]]:
    """Yield a crash after each entry of a run and of its child runs, and its place in words."""
    for below in (ending, *ending.children):
        for entry in range(2, len(below.records) + 1):  # the client writes the first entry
            crash = Crash(entry=entry, run_id=below.row.run_id if below.row.parent else "", after_s=after_s)
            yield crash, f"killed after entry {entry} of run {below.row.run_id} ({below.row.machine})"


@contextlib.contextmanager
def noted(where: str) -> Iterator[None]:
    """Add a note with the place of the crash to an error of the body."""
    try:
        yield
    except Exception as error:  # boundary: raised again with a note that names the entry
        error.add_note(where)
        raise


def check_recovered(undisturbed: World, crashed: World | None, crash: Crash, where: str) -> None:
    """Check that a world with a crash has ended like the one without.

    Raises:
        AssertionError: as in ``killed_at_every_entry``.
    """
    ending = crashed.ending if crashed else None
    if crashed is None or ending is None or not (crash.after_s or crashed.counts["crashed"]):
        raise AssertionError(f"{where}: the entry was never reached; return the same world each time")
    expected = _end_of(undisturbed)
    for name, value in _end_of(crashed).items():
        if value != expected[name]:
            history = "".join(f"\n  {line}" for line in ending.history)
            raise AssertionError(f"{where}: {name} is {value!r}, but {expected[name]!r} without a crash{history}")


def _end_of(world: World) -> dict[str, Any]:
    """Return the compared parts of the ending of a world, by name."""
    if (ending := world.ending) is None:
        return {}
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
