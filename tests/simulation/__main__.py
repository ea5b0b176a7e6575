"""``python -m tests.simulation``: search for violated invariants."""

from __future__ import annotations

import argparse
import contextlib
import logging
import math
import shlex
import sys
import textwrap

from tests.simulation.search.campaign import Tally, campaign
from tests.simulation.search.profiles import PROFILES, setting_of
from tests.simulation.search.shrinking import shrink


def main(arguments: list[str] | None = None) -> int:
    """Run seeds until the time or the number is up; return 0 if none failed, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Search for violated invariants, seed after seed.")
    parser.add_argument("--seconds", type=_seconds, help="seconds to search (60, or until --runs are done)")
    parser.add_argument("--runs", type=_runs, help="number of seeds to run (no limit)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--profile", choices=sorted(PROFILES), action="append", help="profile; may be repeated (all)")
    parser.add_argument("--one", type=int, metavar="SEED", help="run this one seed under --profile and print its journal")
    given = parser.parse_args(arguments)
    profiles = tuple(given.profile or PROFILES)
    if given.one is None:
        seconds = given.seconds or (None if given.runs else 60.0)
        return _report(campaign(given.seed, profiles, seconds=seconds, runs=given.runs))
    return max(_one(given.one, profile) for profile in profiles)


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < (seconds := float(text)) < math.inf:
            return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")


def _runs(text: str) -> int:
    with contextlib.suppress(ValueError):
        if (runs := int(text)) > 0:
            return runs
    raise argparse.ArgumentTypeError(f"{text!r} is not an integer of at least 1")


def _one(seed: int, profile: str) -> int:
    tally = campaign(seed, (profile,), runs=1)
    if tally.runs:
        _, ending = setting_of(profile, seed).execute()
        for run in (ending, *ending.children):
            print("\n".join(run.history), end="\n\n")
    return _report(tally)


def _report(tally: Tally) -> int:
    print(f"{tally.runs} runs, {tally.entries} entries in {tally.took_s:.1f} s: {tally.per_minute:.0f} runs a minute on one core")
    print("outcomes:", ", ".join(f"{count} {outcome}" for outcome, count in sorted(tally.outcomes.items())))
    if tally.left_out:
        print(f"left out: {', '.join(tally.left_out)}; they need an extra: pip install 'asterism-engine[llm]'")
    for line in _counted(tally):
        print(textwrap.fill(line, 120, subsequent_indent="  "))
    if tally.failure is None:
        return 0
    seed, profile, text = tally.failure
    again = f"python -m tests.simulation --profile {shlex.quote(profile)} --one {seed}"
    print(f"\nseed {seed}, profile {profile}: {text}\n\nagain: {again}", file=sys.stderr)
    if shrunk := shrink(profile, seed):
        lines = "".join(f"\n  {line}" for line in shrunk.description)
        print(f"\nshortest scenario ({shrunk.parts} parts before, {shrunk.worlds} worlds run):{lines}", file=sys.stderr)
    return 1


def _counted(tally: Tally) -> list[str]:
    """Return one line each for the events, the performances and the entries."""
    lines: dict[str, list[str]] = {"happened": [], "performances": [], "entries": []}
    for what, count in sorted(tally.counts.items()):
        kind, _, name = what.partition(" ")
        title = {"performance": "performances", "entry": "entries"}.get(kind, "happened")
        if count:
            lines[title].append(f"{count} {what if title == 'happened' else name}")
    return [f"{title}: {', '.join(counted)}" for title, counted in lines.items()]


if __name__ == "__main__":
    logging.getLogger("asterism").setLevel(logging.CRITICAL)  # simulated user code fails all the time
    sys.exit(main())
