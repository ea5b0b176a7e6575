"""A process that begins or resumes a run of a loop and, if told to, is killed right after entry N became durable, or inside a function.

usage: loop_owner.py DATABASE LOG new|resume[-once] DIE_AFTER DIE_IN
DIE_IN names a function; with = before it the process stops there, says so, and goes on with the next line of its input.
``-once``: its worker is not idempotent. Prints the answer, or the run's state.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asterism
from asterism.engine.kernel.journal import Entry
from asterism.loop.python import Handoff, LoopView, OrchestrationLoop, Worker

DATABASE, LOG, DIE_AFTER, DIE_IN = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[4]), sys.argv[5]
WHAT, _, ONCE = sys.argv[3].partition("-")


def did(name: str, key: str) -> None:
    """Write down what is done; die there if told to."""
    with LOG.open("a", encoding="utf-8") as log:
        log.write(f"{name} {key}\n")
    if name == DIE_IN:
        os.kill(os.getpid(), signal.SIGKILL)
    if f"={name}" == DIE_IN:
        print("there", flush=True)
        sys.stdin.readline()


async def plan(view: LoopView) -> Any:
    did("plan", view.key)
    return [{"step_id": n, "worker": "work", "intent": n, "uses": [] if n == "a" else ["a"]} for n in ("a", "b")]


async def work(handoff: Handoff) -> Any:
    did(f"work_{handoff.intent}", handoff.key)
    return [handoff.intent, handoff.artifacts]


async def reflect(view: LoopView) -> str:
    did("reflect", view.key)
    return "continue"


async def synthesize(view: LoopView) -> Any:
    did("synthesize", view.key)
    return [finding.output for finding in view.findings]


loop = OrchestrationLoop(plan=plan, workers={"work": Worker(work, idempotent=not ONCE)}, reflect=reflect, synthesize=synthesize)


class Killer:
    """Kills the process as soon as an entry is durable."""

    def appended(self, run_id: str, entries: Sequence[Entry]) -> None:
        if entries and entries[-1].seq >= DIE_AFTER > 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def trouble(self, run_id: str, message: str) -> None:
        print(message, file=sys.stderr)


async def main() -> None:
    async with asterism.open(DATABASE, observers=[Killer()]):
        ended = await (loop.run("go", run_id="r1") if WHAT == "new" else loop.resume("r1"))
        print(json.dumps(ended.answer) if ended.outcome == "finished" else ended.state)


asyncio.run(main())
