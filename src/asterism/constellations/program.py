"""A goal as the whole work of a program: ``asterism.run``. A person at its terminal can interrupt and answer its run."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from asterism.constellations.app import App
from asterism.constellations.goal import AnyGoal, goal_of
from asterism.constellations.handle import RunResult
from asterism.devices.source import refuse_during_import
from asterism.errors import Interrupted, InvalidInput
from asterism.machines.constellation_agent.events import RunOptions
from asterism.views.words import plain


def run_program(
    given: AnyGoal,
    options: RunOptions | None,
    params: Mapping[str, Any],
    opened: Callable[[], AbstractAsyncContextManager[App]],
    database: Path | str | None,
) -> RunResult:
    """Run a goal in an app that is opened for it.

    It prints to standard error how to resume it after Ctrl-C, and at a terminal how to answer it.

    Args:
        given: the goal, as of ``App.run``.
        options: options of the run.
        params: values of the parameters of its plan.
        opened: opens the app.
        database: database of the app, for the commands that are printed; None for the default one.

    Raises:
        InvalidInput: in a running event loop, or as ``App.run``.
        Interrupted: Ctrl-C; the run can be resumed.
    """
    refuse_during_import()
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop()
        raise InvalidInput("asterism.run cannot be called in a running event loop, as in a notebook; use: await app.run(…)")

    goal, started = goal_of(given, params), list[str]()
    if goal.plan and (taken := goal.plan.params.keys() & {"database", "fleet"}):
        raise InvalidInput(f"parameter {min(taken)!r} has the name of an option of asterism.run; rename it, or use: await app.run(…)")

    async def main() -> RunResult:
        async with opened() as app:
            handle = await app.start(goal, options)
            started.append(handle.run_id)
            return await handle.result()

    at = f" --database {shlex.quote(str(database))}" if database is not None else ""
    try:
        result = asyncio.run(main())
    except KeyboardInterrupt:
        run_id = "".join(started)
        _print(f"interrupted; nothing is lost. Resume with: asterism resume {run_id}{at}" if run_id else "interrupted before the run")
        raise Interrupted(run_id) from None
    if result.outcome == "waiting" and sys.stderr is not None and sys.stderr.isatty():
        _print(f"run {result.run_id} waits for a person: {plain('; '.join(it.prompt for it in result.inquiries), 1000)}")
        _print(f"answer with: asterism inbox{at}")
    return result


def _print(line: str) -> None:
    if sys.stderr is not None:
        print(line, file=sys.stderr, flush=True)  # noqa: T201 - for a person
