"""The kind ``mcp``: the tools of an MCP server as the skills of a device."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import msgspec

from asterism.devices.fleet.fleet_file import DeviceKind
from asterism.devices.kinds.mcp.entry import McpEntry
from asterism.devices.kinds.resources import ResourcePool, open_resources
from asterism.devices.port import Device
from asterism.devices.skills.command import program_path
from asterism.devices.workers.worker_ledger import WorkerLedger, workers_folder
from asterism.errors import MissingExtra


class ServerProcesses:
    """Lists the servers of this process, so that others can end them if it was killed."""

    def __init__(self, ledger: Callable[[], WorkerLedger]) -> None:
        self._new_ledger = ledger
        self._ledger: WorkerLedger | None = None
        self._groups: set[tuple[int, str]] = set()

    @contextlib.contextmanager
    def started(self, leader: int, born: str) -> Iterator[None]:
        """List a process group, by its leader and the start of it, while the context is open."""
        self._ledger = self._ledger or self._new_ledger()
        self._groups.add((leader, born))
        self._ledger.write(self._groups)
        try:
            yield
        finally:
            self._groups.discard((leader, born))
            self._ledger.write(self._groups)


@contextlib.asynccontextmanager
async def open_mcp_kind(database: Path) -> AsyncIterator[DeviceKind]:
    """Open the kind ``mcp``; the servers of its devices end with it, or are ended by the next owner of the database."""
    async with open_resources() as pool:
        yield mcp_kind(pool, lambda: WorkerLedger(workers_folder(database)))


def mcp_kind(pool: ResourcePool, ledger: Callable[[], WorkerLedger]) -> DeviceKind:
    """Return the kind ``mcp``, with connections of this pool, and programs listed in a ledger."""
    processes = ServerProcesses(ledger)

    async def opened(entry: McpEntry, folder: Path) -> Device:
        entry.check(folder)
        try:
            from asterism.devices.kinds.mcp.device import McpDevice  # noqa: PLC0415 - slow, and an extra
        except ImportError:
            raise MissingExtra("mcp", "a device of the kind mcp") from None
        program, *arguments = entry.command or ("",)
        command = (program_path(program, folder), *arguments) if program else ()
        entry = msgspec.structs.replace(entry, command=command, folder=str(folder / entry.folder) if program else "")
        device = McpDevice(entry, pool, processes.started)
        await device.open()
        return device

    return DeviceKind(McpEntry, opened, is_remote=True)
