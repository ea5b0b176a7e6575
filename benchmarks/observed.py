"""What telemetry costs where nobody collects it: the durable chain with the observer and without it, in turns."""

from __future__ import annotations

import time
from functools import partial

from asterism.telemetry.observer import Telemetry
from benchmarks.engine import durable
from benchmarks.plans import chain
from benchmarks.timing import Taken, in_turns

LENGTH = 500


def rows(*, quick: bool) -> list[str]:
    """Rows of the table of figures."""
    plan = chain(LENGTH)

    def watched() -> Taken:
        telemetry = Telemetry(lambda _: None, time.time)
        try:
            return durable(plan, observers=[telemetry])
        finally:
            telemetry.close()

    found = in_turns({"plain": partial(durable, plan), "watched": watched}, 1 if quick else 15)
    plain, with_it = found["plain"], found["watched"]
    told = f"{with_it.times(plain) - 1:+.1%} time, {with_it.cpu_s / plain.cpu_s - 1:+.1%} processor"
    return [f"| telemetry without an SDK, on the durable chain of {LENGTH} | {told} |"]
