"""Handlers that are plain functions: each call runs in a thread of its own, so that it may block.

A thread cannot be stopped: after a timeout its function runs on, and nobody reads its result.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any


class _Threads(concurrent.futures.Executor):
    """An executor that starts a daemon thread for each call: one that hangs keeps neither others nor the end of the process waiting."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **more: Any) -> concurrent.futures.Future[Any]:
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        future.set_running_or_notify_cancel()  # it cannot be cancelled from now on

        def run() -> None:
            try:
                future.set_result(function(*args, **more))
            except BaseException as error:  # boundary: the future has it, as in a thread pool
                future.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return future


_THREADS = _Threads()


def in_thread(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Return a plain handler as an async one that runs it in a thread, with the context variables of the caller."""

    @functools.wraps(handler)
    async def run(agent: Any, message: Any) -> Any:
        call = functools.partial(contextvars.copy_context().run, handler, agent, message)
        result = await asyncio.get_running_loop().run_in_executor(_THREADS, call)
        return await result if inspect.isawaitable(result) else result  # of an async function in a plain wrapper

    return run
