"""Functions and a constellation, as a user's program defines them. Worker processes import this file."""

from __future__ import annotations

import asyncio
from typing import TypedDict

from asterism import Constellation, SkillContext, each, skill


class Counted(TypedDict):
    files: int


@skill(idempotent=True)
def download(url: str) -> list[str]:
    """Download the files of a page."""
    return [f"{url}/{number}" for number in range(3)]


def count(files: list[str]) -> Counted:
    return {"files": len(files)}


async def publish(first: str, files: int, context: SkillContext) -> str:
    await asyncio.sleep(0)
    context.progress(1.0, "sent")
    return f"{first} and {files - 1} more"


def fail(text: str = "no such luck") -> None:
    raise ValueError(text)


nightly = Constellation("nightly")
_files = nightly.task(download, url="http://x")
_counted = nightly.task(count, files=_files)
nightly.task(publish, first=_files[0], files=_counted["files"])


@skill(idempotent=True)
def transform(file: str) -> str:
    """Read a file; the second is broken."""
    if file.endswith("/1"):
        raise ValueError(f"{file} is broken")
    return file.upper()


fan_out = Constellation("fan-out")
_each = fan_out.task(download, url="http://x")
_parts = fan_out.task(transform, file=each(_each, max_concurrent=2, failed="omit"))
fan_out.task(count, files=_parts)
