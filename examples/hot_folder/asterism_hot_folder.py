"""The device kind ``hot_folder``: an instrument that takes jobs from a folder, and leaves their results there.

A job is a file ``NAME.job`` with the skill and its arguments as JSON. The instrument writes ``NAME.done``
with ``{"result": …}`` or ``{"error": "…"}``, and ends a job for which there is a ``NAME.stop``.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from asterism.devices.fleet.fleet_file import DeviceEntry, DeviceKind, FleetContext
from asterism.devices.port import Attempt, AttemptResult, Notices, RemoteDevice, Signs, Unreachable
from asterism.engine.kernel.profile import Skill
from asterism.errors import InvalidInput

LOOK_S = 0.1
"""Seconds between two looks for a result."""
STOP_S = 10.0
"""Seconds in which the instrument has to end a job."""


class HotFolderEntry(DeviceEntry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of kind ``hot_folder``.

    Attributes:
        path: the folder, relative to the fleet file.
        programs: names of what the instrument can do; each takes any arguments.
        grace_s: seconds that an instrument whose folder is away keeps its jobs.
    """

    path: str
    programs: tuple[str, ...]
    grace_s: float = 60.0


class Answer(msgspec.Struct, frozen=True):
    """The content of a file ``NAME.done``."""

    result: Any = None
    error: str = ""


class HotFolder(RemoteDevice):
    """An instrument. A job goes on without this program, and is found again by the key of its attempt."""

    def __init__(self, entry: HotFolderEntry, folder: Path) -> None:
        skills = tuple(Skill(name=name) for name in entry.programs)
        super().__init__(entry.profile(skills=skills, reattach=True, grace_s=entry.grace_s, file_bytes=0))
        self._folder = folder

    async def perform(self, attempt: Attempt, signs: Signs) -> AttemptResult:
        if self.profile.skill(attempt.skill) is None:
            return self.lacks(attempt.skill).end
        if not self._folder.is_dir():
            return self._unreachable().end
        job, done = self._file(attempt, "job"), self._file(attempt, "done")
        if attempt.handle and not job.exists():
            return AttemptResult.failed("interrupted", f"the instrument has no job {job.stem} any more; it may have done it")
        if self._file(attempt, "stop").exists():
            return AttemptResult.failed("cancelled", "it was stopped")
        await signs.begun()
        if not job.exists():
            write(job, {"skill": attempt.skill, "arguments": attempt.arguments})
        await signs.attached(job.stem)  # from here on, the next owner of the run finds it
        while not done.exists():
            if not self._folder.is_dir():
                return self._unreachable().end
            await asyncio.sleep(LOOK_S)
        answer = msgspec.json.decode(done.read_bytes(), type=Answer)
        return AttemptResult.failed("raised", answer.error) if answer.error else AttemptResult(result=answer.result)

    async def stop(self, attempt: Attempt) -> str:
        if not self._folder.is_dir():
            return str(self._unreachable())
        write(self._file(attempt, "stop"), {})  # a late start finds it, too
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                while self._file(attempt, "job").exists() and not self._file(attempt, "done").exists():  # noqa: ASYNC110 - its program
                    await asyncio.sleep(LOOK_S)
                return ""
        return f"the instrument has not ended job {self._file(attempt, 'job').stem}"

    async def reach(self) -> str:
        return "" if self._folder.is_dir() else str(self._unreachable())

    async def watch(self, notices: Notices) -> None:
        while self._folder.is_dir():
            notices.found()
            await asyncio.sleep(LOOK_S)
        raise self._unreachable()

    def _unreachable(self) -> Unreachable:
        return Unreachable(f"there is no folder {self._folder}; is it mounted?")

    def _file(self, attempt: Attempt, end: str) -> Path:
        return self._folder / f"{hashlib.sha256(attempt.key.encode()).hexdigest()[:32]}.{end}"


def write(file: Path, content: object) -> None:
    """Write a file of which nobody sees a part."""
    draft = file.with_suffix(f"{file.suffix}.draft")
    draft.write_bytes(msgspec.json.encode(content))
    draft.replace(file)


@contextlib.asynccontextmanager
async def open_hot_folder(entry: HotFolderEntry, context: FleetContext) -> AsyncIterator[HotFolder]:
    """Open the device of a table. What a device has to close is closed after the ``yield``."""
    if not entry.programs:
        raise InvalidInput('programs: empty; name what the instrument can do, like ["scan"]')
    yield HotFolder(entry, context.folder / entry.path)


HOT_FOLDER = DeviceKind(HotFolderEntry, open_hot_folder, is_remote=True)
