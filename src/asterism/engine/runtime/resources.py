"""A pool of connections to MCP servers and models: each is opened once, and closed at the end.

One task per connection both enters and exits it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from asterism.engine.runtime.task_group import task_group

T = TypeVar("T")


class _Resource:
    """A resource that a task of its own opens and holds."""

    def __init__(self) -> None:
        self.opened: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.opened.add_done_callback(lambda it: it.cancelled() or it.exception())  # marks the exception as retrieved if no caller waits
        self.closing = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Close the resource; an opening in progress is cancelled."""
        self.closing.set()
        if not self.opened.done():
            self.opened.set_exception(ConnectionError("closed before it was open"))
            if self.task:
                self.task.cancel()


class ResourcePool:
    """Opens resources on first use and holds them.

    Args:
        group: task group that owns the tasks of the resources.
    """

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group: asyncio.TaskGroup = group
        self._resources: dict[Hashable, _Resource] = {}

    async def get(self, key: Hashable, opener: Callable[[], AbstractAsyncContextManager[T]]) -> T:
        """Return the resource of a key, opening it if necessary; raises the opener's errors."""
        resource = self._resources.get(key)
        if resource is None:
            resource = self._resources[key] = _Resource()
            resource.task = self._group.create_task(self._hold(key, resource, opener), name=f"resource {key}")
        found: T = await asyncio.shield(resource.opened)
        return found

    def forget(self, key: Hashable) -> None:
        """Close the resource of a key; the next ``get`` opens another."""
        if resource := self._resources.pop(key, None):
            resource.close()

    def close(self) -> None:
        """Close all resources."""
        for key in tuple(self._resources):
            self.forget(key)

    async def _hold(self, key: Hashable, resource: _Resource, opener: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        try:
            async with opener() as opened:
                resource.opened.set_result(opened)
                await resource.closing.wait()
        except Exception as error:  # boundary: the callers of `get` receive it
            if not resource.opened.done():
                resource.opened.set_exception(error)
        finally:
            if self._resources.get(key) is resource:
                del self._resources[key]


@contextlib.asynccontextmanager
async def open_resources() -> AsyncIterator[ResourcePool]:
    """Open a pool, and close its resources at the end."""
    async with task_group() as group:
        pool = ResourcePool(group)
        try:
            yield pool
        finally:
            pool.close()
