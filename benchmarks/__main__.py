"""``python -m benchmarks``: measure what durability, starting, waiting and editing cost, print it, and write it to RESULTS.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping

from benchmarks import (
    a2a_device,
    at_once,
    console,
    editor,
    fan_out,
    fleet,
    lanes,
    local_device,
    loop,
    mcp_device,
    observed,
    restart,
    server_task,
    serving,
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


MODULES = (
    local_device, fan_out, lanes, restart, waiting, editor, loop, observed, startup,
    ssh_device, a2a_device, mcp_device, at_once, fleet, serving, server_task, console,
)  # fmt: skip
ROWS: Mapping[str, Callable[..., Iterable[str]]] = {
    "shapes": shapes.rows,
    **{module.__name__.rpartition(".")[2]: module.rows for module in MODULES},
}
"""What measures the rows of which name."""


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"measure only these, and write nothing: {', '.join(ROWS)}")
    parser.add_argument("--quick", action="store_true", help="one run of each, and nothing is written: to see that it works")
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in ROWS]:
        parser.error(f"there is no benchmark {unknown[0]!r}; choose from {', '.join(ROWS)}")
    if given.names:
        for name in given.names:
            _printed(ROWS[name](quick=given.quick))
        return 0
    written = [HEAD.format(machine=described()), shapes.HEAD]
    print(*written, sep="", end="")
    written += _printed(shapes.rows(quick=given.quick))
    written += [shapes.FOOT.format(yardstick=shapes.YARDSTICK), FIGURES]
    print(FIGURES, end="")
    for module in MODULES:
        written += _printed(module.rows(quick=given.quick))
    if not given.quick:
        write_timings("".join(written))
    return 0


def _printed(rows: Iterable[str]) -> list[str]:
    """Print each row as it is measured, and return the lines."""
    lines = []
    for row in rows:
        print(row, flush=True)
        lines.append(f"{row}\n")
    return lines


if __name__ == "__main__":
    sys.exit(main())
