"""The device ``here``: Python functions as tasks, without a fleet file; and devices whose tasks are child runs.

Nobody declares ``here``. A task on it names its function as its skill (``skills.source``). A function
that can be imported is performed in a worker process; any other in a thread of this process.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from asterism.devices.attempts.worker_protocol import FunctionJob
from asterism.devices.fleet.fleet_file import DeviceEntry
from asterism.devices.port import Attempt, AttemptResult, Device, Signs
from asterism.devices.skills.skill import describe
from asterism.devices.skills.source import is_importable, module_part
from asterism.devices.workers import thread
from asterism.devices.workers.pool import RESULT_BYTES, WorkerPool, WorkerSettings
from asterism.engine.kernel.profile import HERE, AgentProfile, ChildSpec, Skill
from asterism.errors import InvalidInput

MIN_CONCURRENCY = 4
"""Attempts at a time on a machine with fewer processors: many functions wait for a network."""


class HereDevice(Device):
    """The device of the functions of this program. Create it in a running event loop.

    Args:
        pool: returns the pool of its workers; called when the first function needs one.
    """

    def __init__(self, pool: Callable[[], WorkerPool]) -> None:
        super().__init__(AgentProfile(device_id=HERE, kind="here", concurrency=max(MIN_CONCURRENCY, os.cpu_count() or 1)))
        self._pool = pool
        self._closing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def profile_with(self, sources: Iterable[str], folder: str = "") -> AgentProfile:
        """Return its profile with these functions as skills.

        Args:
            sources: their sources.
            folder: base of relative sources; by default the current folder.

        Raises:
            InvalidInput: a function cannot be performed; the text names it.
        """
        named = tuple(dict.fromkeys(sources))
        found: dict[str, Skill | str] = {}
        for source in named:
            if not is_importable(source):
                function = thread.registered_function(source)
                found[source] = describe(function) if function else thread.missing_text(source)
        for place in dict.fromkeys(module_part(source) for source in named if source not in found):
            there = [source for source in named if source not in found and module_part(source) == place]
            found.update(zip(there, await self._pool().describe(_settings(place, folder), there, plain=True), strict=True))
        return msgspec.structs.replace(self.profile, skills=tuple(_named(source, found) for source in named))

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        if not is_importable(attempt.skill):
            return await thread.perform(attempt, signs, self._closing, RESULT_BYTES)
        settings = _settings(module_part(attempt.skill), attempt.folder)
        return await self._pool().perform(settings, FunctionJob(attempt.skill, plain=True), attempt, signs)

    def close(self) -> None:
        """Wait for no thread any longer."""
        if not self._closing.done():
            self._closing.set_result(None)


def here_of(devices: Mapping[str, Device]) -> HereDevice | None:
    """Return the device ``here`` among the devices of a runtime; None if it has none."""
    here = devices.get(HERE)
    return here if isinstance(here, HereDevice) else None


def _settings(place: str, folder: str) -> WorkerSettings:
    return WorkerSettings(Path(folder or Path.cwd()), (place,))


def _named(source: str, found: Mapping[str, Skill | str]) -> Skill:
    skill = found[source]
    if isinstance(skill, str):
        raise InvalidInput(skill if source in skill else f"{source}: {skill}")
    return msgspec.structs.replace(skill, name=source)


class ChildDevice(Device):
    """A device whose tasks the machine starts as child runs; no attempt reaches it.

    ``description`` is used if its table in the fleet file has none.
    """

    def __init__(self, entry: DeviceEntry, child: ChildSpec, description: str) -> None:
        super().__init__(entry.profile(description=entry.description or description, natural_language=True, child=child))

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:  # noqa: ARG002 - the port has it
        return AttemptResult.failed("bad_result", f"the tasks of device {attempt.device_id} are child runs, not attempts")
