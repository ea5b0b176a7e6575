"""Skills that behave and misbehave, for the tests of local devices. Imported by workers, never by a test."""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn, TypedDict

from asterism import SkillContext, skill


class Answer(TypedDict):
    answer: int


@skill(idempotent=True, tags=("reply",), examples=("what is the answer?",))
def answer(value: int = 42) -> Answer:
    """Give the answer."""
    return {"answer": value}


@skill
def pid() -> int:
    return os.getppid()  # the worker, of which each attempt is a copy


@skill
async def later(value: str) -> str:
    await asyncio.sleep(0)
    return value.upper()


@skill
def context_of(*, context: SkillContext) -> dict[str, Any]:
    return {"key": context.key, "attempt": context.attempt, "task_id": context.task_id, "results": context.results}


@skill
def talk(context: SkillContext) -> str:
    print("on stdout")
    print("on stderr", file=sys.stderr)
    context.progress(0.25, "a quarter")
    os.write(1, b'{"type":"done","result":0,"reusable":true}\n')
    return "said"


@skill(name="raise")
def complain() -> NoReturn:
    raise ValueError("no such luck")


@skill
def leave() -> NoReturn:
    sys.exit(3)


@skill(name="crash")
def exit_hard() -> NoReturn:
    os._exit(7)


@skill
def segfault() -> None:
    ctypes.string_at(0)


@skill
def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@skill
def wait(context: SkillContext) -> None:
    child = subprocess.Popen(["sleep", "1000"])
    context.progress(message=f"waiting {os.getpid()} {child.pid}")
    signal.pause()


@skill
def hold_the_interpreter(context: SkillContext) -> None:
    context.progress(message=f"waiting {os.getpid()}")
    re.match(r"(a+)+$", "a" * 60 + "b")  # exponential, and never lets another thread run


@skill
def leave_the_group(*, session: bool) -> int:
    own = {"start_new_session": True} if session else {"process_group": 0}
    return subprocess.Popen(["sleep", "1000"], **own).pid


@skill
def leave_a_child_behind(context: SkillContext) -> int:
    subprocess.run(["sh", "-c", 'sleep 1000 & echo "child $!"'], check=True)
    return os.getppid()


@skill
def flood(lines: int) -> int:
    line = "x" * 99 + "\n"
    for _ in range(lines // 1000):
        sys.stdout.write(line * 1000)
    sys.stdout.write("y" * 100_000_000)  # and one long line
    return lines


@skill
def progress_flood(context: SkillContext) -> None:
    for number in range(50_000):
        context.progress(number / 50_000)


@skill
def return_bytes(size: int) -> str:
    return "x" * size


@skill
def return_an_object() -> object:
    return object()


@skill
def return_nan() -> float:
    return float("nan")


@skill
def return_a_surrogate() -> str:
    return "\ud800"


@skill
def return_a_circle() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


@skill
def meet(folder: Path, mine: str, other: str) -> str:
    """Two attempts that only end if both run at once: each opens a fifo that the other must open too."""
    with (folder / mine).open("w") if mine < other else (folder / other).open("r"):
        return mine


@skill
def wander() -> str:
    here = str(Path.cwd())
    os.chdir("/")
    return here


@skill
def wrong_type() -> dict[str, int]:
    return {"x": "no"}  # type: ignore[dict-item]
