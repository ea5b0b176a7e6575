"""Mutation testing: ``python -m tests.mutations --seed 13 --count 200 --results FILE``.

Draws changes of the core at random, makes one at a time in a copy of the working tree, and runs the tests: those that reach the line
first, then, for what survives them, those of ``make test`` that run the code in processes of their own, where nobody sees which lines
they reach; all of it where no test is seen to reach the line. A run that hangs counts as caught. Results are appended to the file, one
JSON object a line, the last of a mutation being the one that counts; a run that was cut short goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

from coverage import CoverageData

from tests.mutations.operators import Mutation, mutations

ROOT = Path(__file__).parents[2]
TARGETS = ("kernel", "machines", "runtime", "stores", "devices/dispatcher.py")
IN_PROCESS = ("tests/unit", "tests/journals", "tests/properties", "tests/contracts", "tests/simulation")
"""Tests that run the code in their own process, where coverage sees which lines they reach."""
FIRST_TIMEOUT_S = 300
REST_TIMEOUT_S = 1200
CAUGHT, HUNG, SURVIVED = "caught", "hung", "survived"


class Bench:
    """A copy of the working tree in which one mutation at a time is made.

    Args:
        folder: where the copy is made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=True)
        for name in filter(None, listed.stdout.decode().split("\0")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_file():
                shutil.copy2(ROOT / name, folder / name)
        for sign in (("init", "-q"), ("add", "-A")):  # some tests ask git which files there are
            subprocess.run(["git", *sign], cwd=folder, check=True, capture_output=True)

    def run(self, *arguments: str, timeout_s: float) -> tuple[str, str]:
        """Run pytest; return how it went, and what it said last."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", *arguments]
        with subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        ) as process:
            try:
                said, _ = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                return HUNG, ""
        named = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return SURVIVED if process.returncode == 0 else CAUGHT, (named or said.splitlines() or [""])[0][:200]

    def reached(self, data: Path) -> dict[str, dict[int, list[str]]]:
        """Return by file and line the tests that reach it, as pytest takes them; run them once where the data are not there yet."""
        if not data.exists():
            self._measure(data)
        covered = CoverageData(basename=str(data))
        covered.read()
        found: dict[str, dict[int, list[str]]] = {}
        for name in covered.measured_files():
            by_line = covered.contexts_by_lineno(name)
            path = name[name.rindex("src/asterism/") :]
            found[path] = {line: sorted(filter(None, map(_node, tests))) for line, tests in by_line.items()}
        return found

    def _measure(self, data: Path) -> None:
        settings, fresh = self.folder / ".mutations.rc", self.folder / ".mutations.coverage"
        settings.write_text(f"[run]\ndynamic_context = test_function\nsource = src/asterism\ndata_file = {fresh}\n", encoding="utf-8")
        arguments = ("coverage", "run", f"--rcfile={settings}", "-m", "pytest", "-q", "-m", "not slow", *OPTIONS, *IN_PROCESS)
        how, said = self.run(*arguments, timeout_s=3600)
        if how != SURVIVED:
            raise SystemExit(f"the tests fail without a mutation: {said}")
        shutil.copy2(fresh, data)

    def judge(self, mutation: Mutation, tests: Sequence[str], stage: str) -> dict[str, Any]:
        """Apply a mutation, run the tests that reach it or the rest, and undo it."""
        place, began = self.folder / mutation.path, time.monotonic()
        sound = place.read_text(encoding="utf-8")
        place.write_text(mutation.source, encoding="utf-8")
        try:
            if stage == REST:
                left_out = [f"--ignore={folder}" for folder in IN_PROCESS] if tests else []
                how, said = self.run("pytest", "-x", "-q", "-n", "2", "-m", "not slow", *left_out, *OPTIONS, timeout_s=REST_TIMEOUT_S)
            elif tests:
                chosen = self.folder / ".mutations.tests"
                chosen.write_text("\n".join(tests), encoding="utf-8")
                how, said = self.run("pytest", "-x", "-q", *OPTIONS, f"@{chosen}", timeout_s=FIRST_TIMEOUT_S)
            else:
                how, said = SURVIVED, "no test is seen to reach it"
        finally:
            place.write_text(sound, encoding="utf-8")
        seconds = round(time.monotonic() - began, 1)
        return {"name": mutation.name, "stage": stage, "how": how, "by": said, "reached_by": len(tests), "seconds": seconds}


FIRST, REST = "first", "rest"
OPTIONS = ("-p", "no:cacheprovider", "--timeout", "60", "--tb", "no")


def _node(context: str) -> str:
    """The node id of a test, from the name of its function with the module before it."""
    module, _, function = context.rpartition(".")
    path = module.replace(".", "/") + ".py"
    return f"{path}::{function}" if (ROOT / path).is_file() else ""


def drawn(seed: int, count: int) -> list[Mutation]:
    """Return this number of random mutations of the targets."""
    sources: list[Path] = []
    for target in TARGETS:
        place = ROOT / "src" / "asterism" / target
        sources += sorted(place.rglob("*.py")) if place.is_dir() else [place]
    every = [mutation for source in sources for mutation in mutations(source, ROOT)]
    return random.Random(seed).sample(every, min(count, len(every)))


def told(results: Iterable[dict[str, Any]]) -> str:
    """Return the number of detected mutations, and the names of the others."""
    listed = list(results)
    survivors = [it["name"] for it in listed if it["how"] == SURVIVED]
    return "\n".join([f"{len(listed) - len(survivors)} of {len(listed)} caught", *(f"survived: {name}" for name in survivors)])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description="Change the core at random, and see which tests notice.")
    parser.add_argument("--seed", type=int, default=13, help="seed of the draw (13)")
    parser.add_argument("--count", type=int, default=200, help="number of mutations (200)")
    parser.add_argument("--workers", type=int, default=2, help="number of parallel workers (2)")
    parser.add_argument("--results", type=Path, required=True, help="file to append results to")
    parser.add_argument("--list", action="store_true", help="list the mutations without running them")
    given = parser.parse_args(arguments)
    chosen = drawn(given.seed, given.count)
    if given.list:
        print("\n".join(mutation.name for mutation in chosen))
        return 0
    lines = given.results.read_text(encoding="utf-8").splitlines() if given.results.exists() else []
    results: dict[str, dict[str, Any]] = {it["name"]: it for it in map(json.loads, lines)}
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        benches: Queue[Bench] = Queue()
        for number in range(given.workers):
            benches.put(Bench(Path(folder) / str(number)))
        first = benches.get()
        reached = first.reached(given.results.with_suffix(".coverage"))
        benches.put(first)

        def judge(mutation: Mutation, stage: str) -> dict[str, Any]:
            bench = benches.get()
            try:
                return bench.judge(mutation, reached.get(mutation.path, {}).get(mutation.line, []), stage)
            finally:
                benches.put(bench)

        with ThreadPoolExecutor(given.workers) as pool, given.results.open("a", encoding="utf-8") as kept:
            for stage in (FIRST, REST):
                due = [it for it in chosen if _is_due(results.get(it.name), stage)]
                for result in pool.map(judge, due, [stage] * len(due)):
                    results[result["name"]] = result
                    print(json.dumps(result), file=kept, flush=True)
                    print(f"{stage:5} {result['how']:8} {result['seconds']:6.1f} s  {result['name']}", flush=True)
    print(told(results[mutation.name] for mutation in chosen))
    return 0


def _is_due(result: dict[str, Any] | None, stage: str) -> bool:
    """Return True if a mutation with this last result is still to run in a stage."""
    if result is None:
        return stage == FIRST
    return stage == REST and result["stage"] == FIRST and result["how"] == SURVIVED


if __name__ == "__main__":
    sys.exit(main())
