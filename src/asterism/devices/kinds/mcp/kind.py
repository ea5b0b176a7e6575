"""The kind ``mcp``: the tools of an MCP server as the skills of a device.

The SDK is an extra, and is imported when such a device is opened.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import msgspec

from asterism.devices.attempts.processes import WorkerLedger, workers_folder
from asterism.devices.fleet.fleet_file import DeviceKind, FleetContext
from asterism.devices.kinds.mcp.server import McpEntry
from asterism.devices.skills.command import program_path
from asterism.engine.runtime.resources import open_resources
from asterism.errors import MissingExtra

if TYPE_CHECKING:
    from asterism.devices.kinds.mcp.device import McpDevice


@contextlib.asynccontextmanager
async def _open(entry: McpEntry, context: FleetContext) -> AsyncIterator[McpDevice]:
    folder = context.folder
    entry.check(folder)
    try:
        from asterism.devices.kinds.mcp.device import McpDevice  # noqa: PLC0415 - slow, and an extra
    except ImportError:
        raise MissingExtra("mcp", "a device of the kind mcp") from None
    program, *arguments = entry.command or ("",)
    command = (program_path(program, folder), *arguments) if program else ()
    entry = msgspec.structs.replace(entry, command=command, folder=str(folder / entry.folder) if program else "")
    ledger = WorkerLedger(workers_folder(context.database)) if program else None
    async with open_resources() as pool:
        device = McpDevice(entry, pool, ledger)
        await device.open()
        yield device


MCP = DeviceKind(McpEntry, _open, is_remote=True)
"""The device kind ``mcp``; its servers end with it, or are ended by the next owner of the database."""
