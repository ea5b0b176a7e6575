"""Devices of fleet files, opened for tests."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from pathlib import Path

from asterism.devices.fleet.fleet_file import DeviceEntry, DeviceKind, FleetContext, Kinds, open_tables, read_fleet
from asterism.devices.kinds.registry import KINDS
from asterism.devices.port import Device
from asterism.devices.workers.pool import WorkerPool


@contextlib.asynccontextmanager
async def open_fleet(
    path: Path, kinds: Kinds = KINDS, *, pool: WorkerPool | None = None, every: bool = True, needed: Collection[str] | None = None
) -> AsyncIterator[dict[str, Device]]:
    """Open the devices of a fleet file; its workers are of the pool, or listed in the folder ``ledger`` next to it."""
    async with contextlib.AsyncExitStack() as stack:
        workers = pool if pool is not None else await stack.enter_async_context(WorkerPool(path.parent / "ledger"))
        context = FleetContext(path.parent, path.with_name("runs.db"), lambda: workers)
        async with open_tables(read_fleet(path, kinds), kinds, context, str(path), every=every, needed=needed) as devices:
            yield devices


def kind_of(open_one: Callable[[DeviceEntry], Awaitable[Device]], *, is_remote: bool = False) -> DeviceKind:
    """Return a kind whose devices are opened by a function."""

    @contextlib.asynccontextmanager
    async def opened(entry: DeviceEntry, _: FleetContext) -> AsyncIterator[Device]:
        yield await open_one(entry)

    return DeviceKind(DeviceEntry, opened, is_remote=is_remote)
