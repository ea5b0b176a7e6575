"""The tests of this folder, again and again with new seeds, until the time is over or one of them fails.

``python -m tests.fuzz SECONDS [FIRST_SEED]``
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from pathlib import Path


def main(arguments: list[str]) -> int:
    seconds, first = float(arguments[0]), int(arguments[1]) if arguments[1:] else int(time.time())
    end = time.monotonic() + seconds
    for seed in itertools.count(first):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", str(Path(__file__).parent), f"--hypothesis-seed={seed}"], check=False
        )
        if done.returncode:
            print(f"seed {seed}; again with: python -m tests.fuzz 0 {seed}")
            return 1
        if time.monotonic() >= end:
            print(f"{seed - first + 1} rounds from seed {first} on, and nothing found")
            break
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
