"""The kinds of devices that perform attempts."""

from __future__ import annotations

import contextlib
from pathlib import Path

from asterism.devices.fleet.fleet_file import DeviceKind
from asterism.devices.kinds.a2a.kind import a2a_kind
from asterism.devices.kinds.local import local_kind
from asterism.devices.kinds.mcp.kind import open_mcp_kind
from asterism.devices.kinds.ssh.device import ssh_kind
from asterism.devices.workers.pool import WorkerPool


async def device_kinds(pool: WorkerPool, stack: contextlib.AsyncExitStack, database: Path) -> dict[str, DeviceKind]:
    """Return the kinds by name; the stack closes what their devices keep open."""
    mcp = await stack.enter_async_context(open_mcp_kind(database))
    return {"local": local_kind(pool), "ssh": ssh_kind(stack), "mcp": mcp, "a2a": a2a_kind(stack)}
