"""A task group whose body raises its own error as it is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


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
