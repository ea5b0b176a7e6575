"""Streams of a conversation: every status and report on the way to an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from asterism.conversation.machine.events import AgentStatus, HandlerReported
from asterism.conversation.python.agent_state import AgentResult
from asterism.engine.kernel.journal import Entry

STREAMED = 1000
"""Events buffered for a slow reader; older ones are dropped."""


class StreamEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A status or report on the way to an answer; the last event has the result."""

    kind: Literal["status", "report", "result"]
    status: AgentStatus
    text: str = ""
    result: AgentResult | None = None


class StreamWatcher:
    """``Observer`` that puts durable entries into a stream.

    Args:
        run: returns the id of the streamed run; empty before it starts.
        events: queue of the stream, with ``STREAMED`` events at most.
        state: state of the run before; empty before it starts.
    """

    def __init__(self, run: Callable[[], str], events: asyncio.Queue[StreamEvent | None], state: str) -> None:
        self._run = run
        self._events = events
        self._state = state

    def appended(self, run_id: str, entries: Sequence[Entry]) -> None:
        """Add the events of new entries."""
        if run_id != self._run():
            return
        for entry in entries:
            if self._events.qsize() >= STREAMED:
                self._events.get_nowait()
            status = AgentStatus(entry.state)
            if isinstance(entry.event, HandlerReported):
                self._events.put_nowait(StreamEvent(kind="report", status=status, text=entry.event.text))
            elif entry.state != self._state:
                self._state = entry.state
                self._events.put_nowait(StreamEvent(kind="status", status=status))

    def trouble(self, run_id: str, message: str) -> None:
        """Ignore warnings; a stream does not carry them."""
