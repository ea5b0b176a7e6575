"""A goal as the whole work of a program: ``asterism.run``. A person at its terminal can interrupt and answer its run."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

from asterism.constellation.machine.events import RunOptions
from asterism.constellation.python.app import App
from asterism.constellation.python.goal import AnyGoal, goal_of
from asterism.constellation.python.handle import RunResult
from asterism.devices.skills.source import refuse_during_import
from asterism.errors import Interrupted, InvalidInput
from asterism.views.text.questions import answer_line
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

    at = _option(database)
    try:
        result = asyncio.run(main())
    except KeyboardInterrupt:
        run_id = "".join(started)
        _print(f"interrupted; nothing is lost. Resume with: asterism resume {run_id}{at}" if run_id else "interrupted before the run")
        raise Interrupted(run_id) from None
    if result.outcome == "waiting" and sys.stderr is not None and sys.stderr.isatty():
        _print(f"run {result.run_id} waits for a person: {plain('; '.join(it.prompt for it in result.inquiries), 1000)}")
        how = answer_line(result.inquiries[0], result.run_id) if len(result.inquiries) == 1 else "asterism inbox"
        _print(f"answer with: {how}{at}")
    return result


@contextlib.contextmanager
def interrupts_in_words(driven: Callable[[], Sequence[str]], database: Path | str | None) -> Iterator[None]:
    """Let a program that ends by Ctrl-C within an open app say in one line how to resume its runs, instead of a traceback.

    Args:
        driven: returns the ids of the runs that the app drives.
        database: database of the app, for the command that is printed; None for the default one.
    """
    try:
        yield
    except asyncio.CancelledError:  # asyncio.run raises KeyboardInterrupt once everything is closed
        runs = driven()
        resume = f"nothing is lost. Resume with: asterism resume{_only(runs)}{_option(database)}"
        sys.excepthook = _Hook(f"interrupted; {resume}" if runs else "interrupted")
        raise


class _Hook:
    """A ``sys.excepthook`` that prints a line for an interrupt that nobody has caught."""

    def __init__(self, line: str) -> None:
        self._line = line
        self.before: Callable[..., object] = sys.excepthook.before if isinstance(sys.excepthook, _Hook) else sys.excepthook

    def __call__(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if kind is KeyboardInterrupt:
            _print(self._line)
        else:
            self.before(kind, error, trace)


def _only(runs: Sequence[str]) -> str:
    """Return the run to resume; empty for several, which one command resumes."""
    return f" {runs[0]}" if len(runs) == 1 else ""


def _option(database: Path | str | None) -> str:
    return f" --database {shlex.quote(str(database))}" if database is not None else ""


def _print(line: str) -> None:
    if sys.stderr is not None:
        print(line, file=sys.stderr, flush=True)  # noqa: T201 - for a person
