"""Read a constellation of a Python file in a process of its own.

A server runs for years: there a file is read as it is now, what its import leaves behind is gone
afterwards, and an import that hangs ends at a limit. It does not see the secrets of the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys

import msgspec

from asterism.constellation.model.documents import PlanDocument
from asterism.constellation.python.goal import Goal, goal_of
from asterism.constellation.python.own_secrets import inherited
from asterism.errors import AsterismError, InvalidInput

LIMIT_S = 60.0
"""Seconds that the import may take."""
MAX_BYTES = 32 * 1024 * 1024
"""Bytes of a plan."""


class _Answer(msgspec.Struct):
    """What the process writes: the title and the plan, or why there is none."""

    title: str = ""
    plan: PlanDocument | None = None
    error: str = ""


async def read_goal(named: str) -> Goal:
    """Return the goal for a constellation in Python, read by a process of its own.

    Raises:
        InvalidInput: it does not exist, is invalid, or its import takes more than ``LIMIT_S``.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-B", "-m", __name__, named),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        limit=MAX_BYTES,
        env=inherited(),
    )
    try:
        async with asyncio.timeout(LIMIT_S):
            answer = await _answer(process)
    except TimeoutError:
        raise InvalidInput(f"{named}: its import took more than {LIMIT_S:.0f} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if answer.plan is None:
        raise InvalidInput(answer.error)
    return Goal(title=answer.title, request=answer.title, plan=answer.plan)


async def _answer(process: asyncio.subprocess.Process) -> _Answer:
    if process.stdout is None:
        raise AssertionError("the output is a pipe")
    text = bytearray()
    while part := await process.stdout.read(1 << 16):
        text += part
        if len(text) > MAX_BYTES:
            return _Answer(error=f"the plan has more than {MAX_BYTES} bytes")
    try:
        return msgspec.json.decode(bytes(text), type=_Answer)
    except msgspec.MsgspecError:
        return _Answer(error=f"the process that imports it ended with exit code {await process.wait()}")


def main(arguments: list[str]) -> None:
    """Write the answer for a name to standard output; what user code prints goes to standard error."""
    signal.alarm(round(LIMIT_S) + 10)  # the reader ends this process before, unless it was killed
    out = os.dup(1)
    os.dup2(2, 1)
    try:
        goal = goal_of(arguments[0])
        answer = _Answer(title=goal.title, plan=goal.plan)
    except AsterismError as error:
        answer = _Answer(error=str(error))
    with contextlib.suppress(BrokenPipeError), os.fdopen(out, "wb") as stream:  # as above
        stream.write(msgspec.json.encode(answer))


if __name__ == "__main__":
    main(sys.argv[1:])
