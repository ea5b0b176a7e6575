"""Run the tests of this folder repeatedly with new seeds, until the time is over or one of them fails.

``python -m tests.fuzz SECONDS [FIRST_SEED]``. Where atheris is installed, half of the time is its own, shared by the tests it can drive.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
import subprocess
import sys
import time

from tests.fuzz.guided import FOLDER, TESTS


def main(arguments: list[str]) -> int:
    try:
        seconds, first = float(arguments[0]), int(arguments[1]) if arguments[1:] else int(time.time())
    except (ValueError, IndexError):
        seconds, first = -1.0, 0
    if not 0 <= seconds < math.inf:
        print("python -m tests.fuzz SECONDS [FIRST_SEED]: both are numbers from 0 on; with 0 seconds one round is tried")
        return 2
    guided = seconds > 0 and importlib.util.find_spec("atheris") is not None
    end = time.monotonic() + (seconds / 2 if guided else seconds)
    for seed in itertools.count(first):
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", str(FOLDER), f"--hypothesis-seed={seed}"], check=False)
        if done.returncode:
            print(f"seed {seed}; again with: python -m tests.fuzz 0 {seed}")
            return 1
        if time.monotonic() >= end:
            print(f"{seed - first + 1} rounds from seed {first} on, and nothing found")
            break
    if guided:
        return _led(seconds / 2)
    print("atheris is not installed: nothing was led by the code that is reached (pip install atheris)")
    return 0


def _led(seconds: float) -> int:
    pairs = [(module, test) for module, tests in TESTS.items() for test in tests]
    each = str(max(1, round(seconds / len(pairs))))
    for module, test in pairs:
        print(f"{test}, {each} s", flush=True)
        if subprocess.run([sys.executable, "-m", "tests.fuzz.guided", module, test, each], check=False).returncode:
            print(f"again with: python -m pytest {FOLDER / module}.py -k {test}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
