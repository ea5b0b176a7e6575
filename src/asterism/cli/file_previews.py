"""The files that an approval is about: their size, their type and their first lines, for the person who is asked.

Nothing is written or run. A path is looked at only where the task would find it on this computer.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from asterism.app.bootstrap import run_files
from asterism.app.settings import database_path
from asterism.cli.run_access import form_of
from asterism.constellation.machine.memory import ConstellationMemory
from asterism.constellation.view.proposals import subject_of
from asterism.engine.kernel.data import FILE, files_in, safe_name
from asterism.engine.ports.files import Files, media_type_of
from asterism.engine.ports.store import InquiryRow, Store
from asterism.engine.runtime.client import Client
from asterism.engine.runtime.runs import Runs
from asterism.engine.runtime.snapshots import load
from asterism.errors import AsterismError
from asterism.views.words import byte_count, plain, printable

MAX_QUESTIONS = 20
"""Questions of which one command shows the files."""
MAX_FILES = 5
"""Files of one question that are shown at most."""
MAX_VALUES = 1000
"""Values of the arguments that are looked at for paths."""
MAX_STORED = 1 << 20
"""Bytes of a stored file that is read: all of it, because its digest is checked at its end."""
MAX_HEAD = 8192
"""Bytes of a file that are shown at most."""
MAX_LINES, MAX_LINE = 10, 160


async def previews_of(asked: Sequence[InquiryRow], runs: Runs, database: Path | None) -> dict[str, list[str]]:
    """Return the files of questions as lines, by question; of the first ``MAX_QUESTIONS`` of a database only, and none of a server."""
    if not isinstance(runs, Client):
        return {}
    try:
        files = run_files(runs.store, database_path(database))
    except AsterismError:  # the storage in the settings cannot be used; the command that shows the question can
        files = None
    return {it.inquiry_id: await file_lines(it, runs.store, files) for it in asked[:MAX_QUESTIONS]}


async def file_lines(asked: InquiryRow, store: Store, files: Files | None) -> list[str]:
    """Return the files that the arguments of a question name, as lines; none where they cannot be read."""
    arguments = subject_of(asked).get("arguments")
    lines: list[str] = []
    shown = 0
    for value in files_in(arguments):
        if (shown := shown + 1) > MAX_FILES:
            return [*lines, "… and more files"]
        lines += await _stored_lines(value, asked, store, files)
    paths = list(_paths_in(arguments))
    folder = await _folder_of(asked, store) if paths else None
    for text in paths if folder else ():
        if found := _local_lines(text, folder or Path()):
            if (shown := shown + 1) > MAX_FILES:
                return [*lines, "… and more files"]
            lines += found
    return lines


async def _stored_lines(value: dict[str, Any], asked: InquiryRow, store: Store, files: Files | None) -> list[str]:
    root = (await store.run(asked.run_id)).root
    row = next((it for it in await store.files(root) if it.digest == value[FILE]), None)
    if row is None or files is None:
        return []
    head = [_title(safe_name(value.get("name")), row.size, row.media_type)]
    if row.size > MAX_STORED:
        return head
    try:
        content = b"".join([chunk async for chunk in files.read(root, row.digest)])
    except AsterismError as error:
        return [*head, f"  {plain(error)}"]
    return [*head, *_beginning(content[:MAX_HEAD], row.size)]


def _local_lines(text: str, folder: Path) -> list[str]:
    try:
        opened = os.open(folder / text, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            about = os.fstat(opened)
            if not stat.S_ISREG(about.st_mode):
                return []
            head = os.read(opened, MAX_HEAD)
        finally:
            os.close(opened)
    except (OSError, ValueError):  # it is no file, or not one of this user
        return []
    # An answer covers the path, unlike that of a stored file, which has a digest.
    title = f"{_title(text, about.st_size, media_type_of(text))}, as it is now"
    return [title, *_beginning(head, about.st_size)]


def _title(name: str, size: int, media_type: str) -> str:
    return f"{plain(name, 200)}  {byte_count(size)}, {plain(media_type, 100)}"


def _beginning(head: bytes, size: int) -> list[str]:
    """Return the first lines of a text; none for anything else."""
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if size <= len(head) or error.start < len(head) - 3:  # a character may be cut at the end
            return []
        text = head[: error.start].decode("utf-8")
    if "\0" in text:
        return []
    lines = text.splitlines()
    shown = [f"  | {printable(line.expandtabs(4)[:MAX_LINE])}" for line in lines[:MAX_LINES]]
    return [*shown, "  | …"] if len(lines) > MAX_LINES or size > len(head) else shown


def _paths_in(value: Any) -> Iterator[str]:
    """Yield the texts within arguments that have the form of a path: with a slash, or a suffix."""
    open_, seen = [value], 0
    while open_ and seen < MAX_VALUES:
        it, seen = open_.pop(), seen + 1
        if isinstance(it, dict) and FILE not in it:
            open_ += reversed(it.values())
        elif isinstance(it, list):
            open_ += reversed(it[:MAX_VALUES])
        elif isinstance(it, str) and len(it) <= 1024 and it.isprintable() and ("/" in it or Path(it).suffix):  # noqa: PLR2004 - a path
            yield it


async def _folder_of(asked: InquiryRow, store: Store) -> Path | None:
    """Return the working folder of the task of a question; None where it is not known, or not on this computer."""
    subject = subject_of(asked)
    row = await store.run(asked.run_id)
    memory = (await load(store, form_of(row).machine, row.run_id))[0].memory
    if not isinstance(memory, ConstellationMemory) or not memory.working_directory:
        return None
    task = memory.constellation.tasks.get(str(subject.get("task_id")).partition("[")[0])
    profile = memory.fleet.get(str(subject.get("device")))
    if task is None or profile is None or profile.kind not in ("here", "local") or "${" in task.folder:
        return None
    of_device = "" if profile.kind == "here" else profile.table.get("folder", "") if profile.table else _declared(memory, profile.device_id)
    return None if of_device is None else Path(memory.working_directory, of_device, task.folder)


def _declared(memory: ConstellationMemory, device: str) -> str | None:
    """Return the working folder of a device in the fleet file of a run; None if the file cannot be read."""
    path = Path(memory.fleet_file)
    try:
        entries: Sequence[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["devices"]
        folder = next(it.get("folder", "") for it in entries if it.get("id") == device)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration):
        return None
    return str(path.parent / folder) if isinstance(folder, str) and folder else ""
