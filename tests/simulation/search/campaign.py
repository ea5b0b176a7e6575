"""A campaign: run seed after seed of every profile, until the time is up or a world fails."""

from __future__ import annotations

import collections
import itertools
import time
import traceback
from collections.abc import Sequence

import msgspec

from asterism.testing.invariants import InvariantViolated
from tests.simulation.search.profiles import PIPELINE, PROFILES, has_pipeline, profile_of, setting_of

REPEATED_EVERY = 25
"""One seed in this many runs twice, and must produce the same journal."""


class Tally(msgspec.Struct, kw_only=True):
    """Result of a campaign.

    Attributes:
        runs, entries: number of runs and of checked entries.
        took_s, core_s: seconds of wall time and of processor time.
        outcomes: number of runs by outcome.
        counts: number of events and injected faults by kind.
        left_out: profiles that need an extra that is not installed.
        failure: seed, profile and error of the failed world.
    """

    runs: int = 0
    entries: int = 0
    took_s: float = 0.0
    core_s: float = 0.0
    outcomes: collections.Counter[str] = msgspec.field(default_factory=collections.Counter)
    counts: collections.Counter[str] = msgspec.field(default_factory=collections.Counter)
    left_out: tuple[str, ...] = ()
    failure: tuple[int, str, str] | None = None

    @property
    def per_minute(self) -> float:
        """Return the runs per minute of processor time."""
        return self.runs / self.core_s * 60 if self.core_s else 0.0


def campaign(first: int, profiles: Sequence[str] = tuple(PROFILES), *, seconds: float | None = None, runs: int | None = None) -> Tally:
    """Run seeds from ``first`` on, each under one of the profiles, until the time or number is up or a world fails."""
    tally = Tally(left_out=() if has_pipeline() else tuple(name for name in profiles if name in PIPELINE))
    there = [name for name in profiles if name not in tally.left_out]
    began, core = time.monotonic(), time.process_time()
    for seed in (itertools.count(first) if runs is None else range(first, first + runs)) if there else ():
        profile = profile_of(seed, there)
        if seconds is not None and time.monotonic() - began >= seconds:
            break
        try:
            run_seed(seed, profile, tally)
        except Exception as error:  # boundary: every error of a world is reported with its seed
            text = str(error) if isinstance(error, InvariantViolated) else "".join(traceback.format_exception(error))
            tally.failure = (seed, profile, text)
            break
    tally.took_s, tally.core_s = time.monotonic() - began, time.process_time() - core
    return tally


def run_seed(seed: int, profile: str, tally: Tally) -> None:
    """Run one world and add its counts to the tally.

    Raises:
        InvariantViolated: an invariant does not hold.
    """
    world, ending = setting_of(profile, seed).execute()
    if seed % REPEATED_EVERY == 0 and setting_of(profile, seed).execute()[1].journal != ending.journal:
        raise InvariantViolated(10, f"seed {seed} of {profile} gives two different journals")
    tally.runs += 1
    tally.entries += world.checker.entries
    tally.outcomes[ending.outcome or ending.row.status] += 1
    tally.counts["through the pipeline"] += profile in PIPELINE
    tally.counts.update(world.counts)
    tally.counts.update(f"performance {performance.status}" for performance in world.performance_log.performances)
    for record in ending.records:
        tally.counts[f"entry {record.kind}"] += 1
        tally.counts["noted"] += bool(record.note)
