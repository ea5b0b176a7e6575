"""What is opened once and closed at the end: connections to MCP servers and models, each entered and left in one task of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from asterism.runtime.driver import task_group

T = TypeVar("T")


class _Kept:
    """One thing that is open, or being opened, by a task of its own."""

    def __init__(self) -> None:
        self.opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.opened.add_done_callback(lambda it: it.cancelled() or it.exception())  # nobody need wait for it any more
        self.closing = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Close it; what is not open yet may never be, and is not waited for."""
        self.closing.set()
        if not self.opened.done():
            self.opened.set_exception(ConnectionError("it was closed before it was open"))
            if self.task:
                self.task.cancel()


class ResourcePool:
    """Opens things when they are first asked for, and keeps them.

    Args:
        group: in which each lives.
    """

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group: asyncio.TaskGroup = group
        self._kept: dict[Hashable, _Kept] = {}

    async def get(self, key: Hashable, opener: Callable[[], AbstractAsyncContextManager[T]]) -> T:
        """The open thing of that key; raises what opening it raises."""
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = _Kept()
            kept.task = self._group.create_task(self._keep(key, kept, opener), name=f"keeper of {key}")
        found: T = await asyncio.shield(kept.opened)
        return found

    def forget(self, key: Hashable) -> None:
        """Close the thing of that key; the next who asks has it opened anew."""
        if kept := self._kept.pop(key, None):
            kept.close()

    def close(self) -> None:
        """Close everything."""
        for key in tuple(self._kept):
            self.forget(key)

    async def _keep(self, key: Hashable, kept: _Kept, opener: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        try:
            async with opener() as opened:
                kept.opened.set_result(opened)
                await kept.closing.wait()
        except Exception as error:  # boundary: whoever asked for it is told
            if not kept.opened.done():
                kept.opened.set_exception(error)
        finally:
            if self._kept.get(key) is kept:
                del self._kept[key]


@contextlib.asynccontextmanager
async def open_resources() -> AsyncIterator[ResourcePool]:
    """A keeper; what it has opened is closed at the end."""
    async with task_group() as group:
        keeper = ResourcePool(group)
        try:
            yield keeper
        finally:
            keeper.close()
