"""A campaign: seed after seed of every profile, until the time is up or an invariant breaks."""

from __future__ import annotations

import collections
import itertools
import time
import traceback
from collections.abc import Sequence

import msgspec

from asterism.simulation.invariants import InvariantViolated
from tests.simulation.search.profiles import PIPELINE, PROFILES, has_pipeline, profile_of, setting_of

AGAIN_EVERY = 25
"""One run of so many is lived twice, and must leave the same journal."""


class Tally(msgspec.Struct, kw_only=True):
    """What a campaign did.

    Attributes:
        took_s, core_s: how long it took, and how much of a core's time.
        outcomes: how runs came out.
        counts: what happened in their worlds, and what was injected.
        left_out: profiles that need what is not installed.
        broken: the seed, the profile and the violation it stopped at.
    """

    runs: int = 0
    entries: int = 0
    took_s: float = 0.0
    core_s: float = 0.0
    outcomes: collections.Counter[str] = msgspec.field(default_factory=collections.Counter)
    counts: collections.Counter[str] = msgspec.field(default_factory=collections.Counter)
    left_out: tuple[str, ...] = ()
    broken: tuple[int, str, str] | None = None

    @property
    def per_minute(self) -> float:
        """Runs a minute of one core's time."""
        return self.runs / self.core_s * 60 if self.core_s else 0.0


def campaign(first: int, profiles: Sequence[str] = tuple(PROFILES), *, seconds: float | None = None, runs: int | None = None) -> Tally:
    """Live seeds from ``first`` on, each under its own of the profiles, until the time or the number is up, or one breaks."""
    tally = Tally(left_out=() if has_pipeline() else tuple(name for name in profiles if name in PIPELINE))
    there = [name for name in profiles if name not in tally.left_out]
    began, core = time.monotonic(), time.process_time()
    for seed in (itertools.count(first) if runs is None else range(first, first + runs)) if there else ():
        profile = profile_of(seed, there)
        if seconds is not None and time.monotonic() - began >= seconds:
            break
        try:
            live(seed, profile, tally)
        except Exception as error:  # boundary: whatever a world dies of is told with its seed
            told = str(error) if isinstance(error, InvariantViolated) else "".join(traceback.format_exception(error))
            tally.broken = (seed, profile, told)
            break
    tally.took_s, tally.core_s = time.monotonic() - began, time.process_time() - core
    return tally


def live(seed: int, profile: str, tally: Tally) -> None:
    """Live one world, and count what came of it.

    Raises:
        InvariantViolated: it broke.
    """
    world, ending = setting_of(profile, seed).play()
    if seed % AGAIN_EVERY == 0 and setting_of(profile, seed).play()[1].journal != ending.journal:
        raise InvariantViolated(10, f"seed {seed} of {profile} has two journals")
    tally.runs += 1
    tally.entries += world.checker.entries
    tally.outcomes[ending.outcome or ending.row.status] += 1
    tally.counts["through the pipeline"] += profile in PIPELINE
    tally.counts.update(world.counts)
    tally.counts.update(f"performance {performance.how}" for performance in world.ledger.performances)
    for record in ending.records:
        tally.counts[f"entry {record.kind}"] += 1
        tally.counts["noted"] += bool(record.note)
