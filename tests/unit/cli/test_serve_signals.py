"""Signals to a server."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import Any, cast

from asterism.cli import serve_command


class Expiring:
    """A server that gets SIGTERM while a timeout within it expires, which also cancels its task."""

    async def serve(self) -> None:
        task = asyncio.current_task()
        assert task
        await asyncio.sleep(0)  # the handlers are there
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        signal.raise_signal(signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            task.uncancel()

    def hurry(self) -> None:
        raise AssertionError("it is the first signal")


def test_a_signal_stops_a_server_also_while_a_timeout_expires(capsys: Any) -> None:
    asyncio.run(serve_command._until_stopped(cast("Any", Expiring())))
    assert "SIGTERM: stopping" in capsys.readouterr().err
