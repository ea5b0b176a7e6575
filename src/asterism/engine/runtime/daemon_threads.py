"""An executor for calls of foreign code that may block for ever."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any


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
