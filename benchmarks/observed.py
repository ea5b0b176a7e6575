"""What telemetry costs where nobody collects it: a chain with the observer and without it, in turns."""

from __future__ import annotations

import time
from functools import partial

from asterism.service.telemetry.observer import Telemetry
from benchmarks.engine import durable, in_memory
from benchmarks.plans import chain
from benchmarks.timing import Taken, in_turns

LENGTH = 500


def rows(*, quick: bool) -> list[str]:
    """Rows of the table of figures."""
    plan = chain(LENGTH)

    def watched() -> Taken:
        telemetry = Telemetry(lambda _: None, time.time)
        try:
            return in_memory(plan, observers=[telemetry])
        finally:
            telemetry.close()

    found = in_turns({"plain": partial(in_memory, plan), "watched": watched, "durable": partial(durable, plan)}, 1 if quick else 15)
    more_s = found["watched"].least_cpu_s - found["plain"].least_cpu_s
    told = (
        f"{more_s / LENGTH * 1e6:+.1f} µs a task, {more_s / found['durable'].least_cpu_s:+.1%} of the processor time of the durable chain"
    )
    return [f"| telemetry without an SDK, on a chain of {LENGTH} in memory (where it can be seen) | {told} |"]
