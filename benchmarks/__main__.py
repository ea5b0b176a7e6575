"""``python -m benchmarks``: measure what durability, starting, waiting and editing cost, print it, and write it to RESULTS.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from itertools import chain

from benchmarks import (
    a2a_device,
    editor,
    fan_out,
    lanes,
    local_device,
    loop,
    mcp_device,
    observed,
    restart,
    shapes,
    ssh_device,
    startup,
    waiting,
)
from benchmarks.machine import described
from benchmarks.results import write_timings

HEAD = """# Results

*Results.* Written by `make bench`: medians. All figures of one row were measured alternately, so a
busy moment affected all of them. [Performance](../docs/performance.md) explains the figures.
{machine}.
"""

FIGURES = """
## Other figures

| | |
|---|--:|
"""


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one run of each, and nothing is written: to see that it works")
    quick = parser.parse_args().quick
    written = [HEAD.format(machine=described()), shapes.HEAD]
    print(*written, sep="", end="")
    written += _printed(shapes.rows(quick=quick))
    written += [shapes.FOOT.format(yardstick=shapes.YARDSTICK), FIGURES]
    print(FIGURES, end="")
    written += _printed(_figures(quick=quick))
    if not quick:
        write_timings("".join(written))
    return 0


def _figures(*, quick: bool) -> Iterator[str]:
    measured = (
        local_device.rows, fan_out.rows, lanes.rows, restart.rows, waiting.rows, editor.rows, loop.rows, observed.rows, startup.rows,
        ssh_device.rows, a2a_device.rows, mcp_device.rows,
    )  # fmt: skip
    return chain.from_iterable(rows(quick=quick) for rows in measured)


def _printed(rows: Iterable[str]) -> Iterator[str]:
    for row in rows:
        print(row, flush=True)
        yield f"{row}\n"


if __name__ == "__main__":
    sys.exit(main())
