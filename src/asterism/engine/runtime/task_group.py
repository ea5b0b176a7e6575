"""Groups of tasks, one that raises the own error of its body and one that works through items; and how no cancel is lost.

Also an executor for calls of foreign code that may block for ever.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, ParamSpec, TypeVar, cast

from asterism.errors import StoreUnavailable

P = ParamSpec("P")
T = TypeVar("T")


@contextlib.asynccontextmanager
async def task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Open a task group that raises an error of its own body outside of any exception group."""
    failure: Exception | None = None
    async with asyncio.TaskGroup() as group:
        try:
            yield group
        except Exception as error:  # boundary: raised again below, when the group has ended
            failure = error
    if failure is not None:
        raise failure


async def do_each(items: Iterable[T], work: Callable[[T], Awaitable[None]], *, at_once: int) -> None:
    """Do the work for each item, ``at_once`` at a time, in their order.

    A store that is unavailable ends one of the ``at_once`` workers; the others go on with what is left.

    Raises:
        StoreUnavailable: the first one of the work, when all workers have ended.
    """
    waiting = iter(items)
    failures: list[StoreUnavailable] = []

    async def work_on() -> None:
        for item in waiting:
            try:
                await work(item)
            except StoreUnavailable as error:
                failures.append(error)
                return

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work_on())
    if failures:
        raise failures[0]


def is_being_cancelled() -> bool:
    """Return True if this task is being cancelled, and not something that it waits for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


async def in_own_task(work: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do work in a task of its own; return its result, or raise its error, unless this task is cancelled meanwhile.

    The group does not see an error of the work, as it would raise that instead of the cancel. ``cancelling()`` is no help in
    the task of the work: before Python 3.13, a group that has failed there leaves it raised.
    """
    failures: list[Exception] = []

    async def done() -> T | None:
        try:
            return await work(*args, **kwargs)
        except Exception as error:  # boundary: raised again below, when the group has ended
            failures.append(error)
            return None

    async with asyncio.TaskGroup() as group:
        task = group.create_task(done())
    if failures:
        raise failures[0]
    return cast("T", task.result())


class DaemonThreads(concurrent.futures.Executor):
    """An executor that starts a daemon thread for each call: one that hangs keeps neither others nor the end of the process waiting."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **more: Any) -> concurrent.futures.Future[Any]:
        """Start a call."""
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        future.set_running_or_notify_cancel()  # it cannot be cancelled from now on

        def run() -> None:
            try:
                future.set_result(function(*args, **more))
            except BaseException as error:  # boundary: the future has it, as in a thread pool
                future.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return future


DAEMON_THREADS = DaemonThreads()
