"""``python -m examples.console.earlier SECONDS ARGUMENTS``: a command of Asterism whose clock is slow by so many seconds.

The run is a real one; only its date is earlier. So a site that is a minute old can show what was done last night.
"""

from __future__ import annotations

import sys

from asterism.cli import main
from asterism.engine.runtime.clock import SystemClock

SLOW_S = float(sys.argv.pop(1))
PUNCTUAL = SystemClock.now


def now(self: SystemClock) -> float:
    """Return the seconds since the epoch on the slow clock."""
    return PUNCTUAL(self) - SLOW_S


if __name__ == "__main__":
    SystemClock.now = now  # type: ignore[method-assign]
    sys.exit(main())
