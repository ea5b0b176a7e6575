"""The command why: who added a task, what changed it, and why it ran, failed, was skipped or still waits."""

from __future__ import annotations

import asyncio
import json as json_text
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from asterism.cli.exit_codes import FINISHED
from asterism.cli.options import Database, Json, RunId
from asterism.cli.output import console, local_time, put, put_line
from asterism.cli.run_access import read_run, reading
from asterism.constellation.view.why import part_status_words, task_events, why_lines
from asterism.engine.control.children import child_run_id
from asterism.engine.runtime.lookup import find_run
from asterism.errors import InvalidInput
from asterism.views.words import plain


def why(
    named: RunId,
    task_id: Annotated[
        str,
        Parameter(
            name="TASK",
            help="Id of a task (also of a removed task, or of an earlier plan); for a conversation, the name of a field.",
        ),
    ],
    /,
    *,
    database: Database = None,
    json: Json = False,
) -> int:
    """Explain who added a task, what changed it since, and why it ran, failed, was skipped or waits."""
    return asyncio.run(_why(named, task_id, database, as_json=json))


async def _why(named: str, task_id: str, database: Path | None, *, as_json: bool) -> int:
    async with reading(database) as store:
        row = await find_run(store, named)
        history, lines = await read_run(store, row)
    reasons = task_events(task_id, history, lines)
    if not reasons:
        known = ", ".join(list(history.part_status())[:10]) or "none yet"
        below = "".join(
            f"; the tasks of {plain(own)} are in run {child_run_id(effect)}" for effect, own in list(history.children.items())[:10]
        )
        raise InvalidInput(f"run {row.run_id} never had a {history.part_noun} {task_id!r}; it has {known}{below}")
    status = part_status_words(history, task_id)
    if as_json:
        put(json_text.dumps({"task_id": task_id, "standing": status, "reasons": msgspec.to_builtins(reasons)}, indent=2))
        return FINISHED
    out = console()
    for line in why_lines(task_id, status, reasons, local_time):
        put_line(out, line)
    return FINISHED
