"""The text of files, for the workers and tools of loops and the handlers of conversations."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asterism.devices.attempts.attempt_files import CURRENT, AttemptFiles
from asterism.engine.kernel.data import is_file, safe_name
from asterism.engine.kernel.machine import Effect, EffectResult
from asterism.engine.ports.files import Files
from asterism.engine.ports.performer import Performer, Report
from asterism.engine.ports.store import Store
from asterism.errors import InvalidInput

MAX_TEXT_BYTES = 256 * 1024
"""Bytes of a file that is read as text: a model or a journal has to take it."""


async def read_text(file: dict[str, Any]) -> str:
    """Return the content of a text file, which a value with the key "$file" names.

    Raises:
        InvalidInput: the value names no file of this run, or the file is too large or no text in UTF-8.
    """
    if not is_file(file):
        raise InvalidInput('the value names no file: a file has the key "$file" with its digest')
    if (files := CURRENT.get()) is None:
        raise InvalidInput("no file can be read here: a worker, a tool or a handler of a run can")
    name, content = safe_name(file.get("name")), bytearray()
    async with contextlib.aclosing(files.read(file)) as chunks:  # type: ignore[type-var]
        async for chunk in chunks:
            content += chunk
            if len(content) > MAX_TEXT_BYTES:
                raise InvalidInput(f"file {name}: only {MAX_TEXT_BYTES:,} bytes are read as text, and it has more")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"file {name}: it is no text in UTF-8") from None


def reading_files(performers: Mapping[type[Effect], Performer], files: Files, store: Store) -> dict[type[Effect], Performer]:
    """Return performers whose code can read the files of its run."""
    return {kind: ReadingPerformer(it, files, store) for kind, it in performers.items()}


class ReadingPerformer:
    """A performer whose code can read the files of its run.

    Args:
        performer: performs the effects.
        files: the files of all runs.
        store: has the roots of runs.
    """

    def __init__(self, performer: Performer, files: Files, store: Store) -> None:
        self._performer = performer
        self._files = files
        self._store = store

    async def perform(self, effect_id: str, request: Any, report: Report) -> EffectResult:
        """Perform an effect."""
        token = CURRENT.set(AttemptFiles.of(effect_id, self._files, self._store, Path()))
        try:
            return await self._performer.perform(effect_id, request, report)
        finally:
            CURRENT.reset(token)
