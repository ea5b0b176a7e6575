"""Handlers that are plain functions: each call runs in a thread of its own, so that it may block.

A thread cannot be stopped: after a timeout its function runs on, and nobody reads its result.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Callable
from typing import Any

from asterism.engine.runtime.daemon_threads import DAEMON_THREADS


def in_thread(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Return a plain handler as an async one that runs it in a thread, with the context variables of the caller."""

    @functools.wraps(handler)
    async def run(agent: Any, message: Any) -> Any:
        call = functools.partial(contextvars.copy_context().run, handler, agent, message)
        result = await asyncio.get_running_loop().run_in_executor(DAEMON_THREADS, call)
        return await result if inspect.isawaitable(result) else result  # of an async function in a plain wrapper

    return run
